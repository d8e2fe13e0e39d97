//! Where `require` finds modules.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::program::{without_first_line_of_unix, SYSBENCH_FOLDERS};
use crate::sources::Sources;

/// Where modules of Lua are looked for, as in package.path.
pub fn package_path() -> String {
    let mut path = String::from("./?.lua;./?/init.lua");
    if let Some(own) = std::env::var_os("LUA_PATH") {
        path = own.to_string_lossy().replace(";;", &format!(";{path};"));
    }
    for folder in SYSBENCH_FOLDERS {
        let _ = write!(path, ";{folder}/?.lua");
    }
    path
}

/// The file and the text of a module: beside the script, then along `path`. Without one the places that were looked at.
pub fn find_module(sources: &Sources, name: &str, script: &str, path: &str) -> (Option<String>, String, String) {
    let relative = name.replace('.', "/");
    let beside = Path::new(script).parent().map(|folder| folder.join("?.lua"));
    let beside = beside.map(|pattern| pattern.to_string_lossy().into_owned());
    let patterns = beside.iter().map(String::as_str).chain(path.split(';'));
    let candidates: Vec<PathBuf> = patterns
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| PathBuf::from(pattern.replace('?', &relative)))
        .collect();
    let mut tried = String::new();
    if let Some(found) = sources.find(&candidates) {
        match sources.read(&found) {
            Ok(source) => {
                let file = found.to_string_lossy().into_owned();
                return (Some(file), without_first_line_of_unix(source), tried);
            }
            Err(error) => {
                let _ = write!(tried, "\n  '{}' cannot be read: {error}", found.display());
                return (None, String::new(), tried);
            }
        }
    }
    for candidate in candidates {
        let _ = write!(tried, "\n  no file '{}'", candidate.display());
    }
    (None, String::new(), tried)
}
