//! The files that a load consists of: read once, where the command was given, and sent to agents with the load.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Files that were read, by their paths. Clones have the same files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<PathBuf, String>", into = "BTreeMap<PathBuf, String>")]
pub struct Sources(Arc<Mutex<BTreeMap<PathBuf, String>>>);

impl Sources {
    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of a file; read from this host where it was not read before.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, path: &Path) -> io::Result<String> {
        let mut files = self.files();
        if let Some(text) = files.get(path) {
            return Ok(text.clone());
        }
        let text = std::fs::read_to_string(path)?;
        files.insert(path.to_path_buf(), text.clone());
        Ok(text)
    }

    /// The paths of those that were read.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files().keys().cloned().collect()
    }

    /// Whether one of them has this word.
    pub fn have_word(&self, word: &str) -> bool {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let has = |text: &String| text.split(|character| !is_part(character)).any(|one| one == word);
        self.files().values().any(has)
    }

    /// The first of these files that was read before, else the first that this host has.
    pub fn find(&self, candidates: &[PathBuf]) -> Option<PathBuf> {
        let files = self.files();
        let known = candidates.iter().find(|path| files.contains_key(*path));
        known.or_else(|| candidates.iter().find(|path| path.is_file())).cloned()
    }
}

impl From<BTreeMap<PathBuf, String>> for Sources {
    fn from(files: BTreeMap<PathBuf, String>) -> Self {
        Self(Arc::new(Mutex::new(files)))
    }
}

impl From<Sources> for BTreeMap<PathBuf, String> {
    fn from(sources: Sources) -> Self {
        sources.files().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_travel_with_the_load_and_come_before_those_of_the_host() {
        let folder = std::env::temp_dir().join(format!("dyno-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (first, second) = (folder.join("first"), folder.join("second"));
        std::fs::write(&second, "here").unwrap();
        let here = Sources::default();
        assert_eq!(here.find(&[first.clone(), second.clone()]), Some(second.clone()));
        assert_eq!(here.clone().read(&second).unwrap(), "here");
        assert_eq!(here.read(&first).unwrap_err().kind(), io::ErrorKind::NotFound);
        let sent = serde_json::to_string(&here).unwrap();
        // The other host has another file of that name, and one that would be found earlier.
        std::fs::write(&first, "there").unwrap();
        std::fs::write(&second, "there").unwrap();
        let there: Sources = serde_json::from_str(&sent).unwrap();
        assert_eq!(there.find(&[first.clone(), second.clone()]), Some(second.clone()));
        assert_eq!(there.read(&second).unwrap(), "here");
        assert_eq!(there.read(&first).unwrap(), "there");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
