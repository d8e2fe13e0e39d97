//! A server made of saved answers: a folder with `version.txt`, `global_status.tsv` and, as that version has them,
//! `global_variables.tsv`, `innodb_metrics.tsv` (with its column names) and `innodb_status.txt`.
//!
//! For looking again at what was saved from a server elsewhere, and for tests of versions that are not at hand. Files
//! are read anew at each question.

use std::fs;
use std::path::PathBuf;

use crate::mysql::{Server, Table};

/// The saved answers.
#[derive(Debug, Clone)]
pub struct Dump {
    folder: PathBuf,
}

type Read = fn(&str) -> Table;

/// What a statement begins with or holds, the file that answers it, and how the file is read.
const ANSWERS: [(&str, &str, Read); 5] = [
    ("VERSION()", "version.txt", version),
    ("GLOBAL STATUS", "global_status.tsv", pairs),
    ("GLOBAL VARIABLES", "global_variables.tsv", pairs),
    ("INNODB_METRICS", "innodb_metrics.tsv", with_header),
    ("ENGINE INNODB STATUS", "innodb_status.txt", engine_status),
];

impl Dump {
    /// The answers in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

impl Server for Dump {
    fn query(&mut self, statement: &str) -> Result<Table, String> {
        let answer = ANSWERS.iter().find(|(part, _, _)| statement.contains(part));
        let (_, name, read) = answer.ok_or_else(|| format!("a dump has no answer to: {statement}"))?;
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(read(&text))
    }
}

fn cells(line: &str) -> Vec<Option<Vec<u8>>> {
    line.split('\t')
        .map(|cell| (cell != "NULL").then(|| cell.as_bytes().to_vec()))
        .collect()
}

fn pairs(text: &str) -> Table {
    let columns = vec!["Variable_name".to_owned(), "Value".to_owned()];
    Table {
        columns,
        rows: text.lines().map(cells).collect(),
    }
}

fn with_header(text: &str) -> Table {
    let mut lines = text.lines();
    let columns = lines
        .next()
        .unwrap_or_default()
        .split('\t')
        .map(str::to_owned)
        .collect();
    Table {
        columns,
        rows: lines.map(cells).collect(),
    }
}

/// Version and comment, one a line.
fn version(text: &str) -> Table {
    let columns = vec!["VERSION()".to_owned(), "@@version_comment".to_owned()];
    Table {
        columns,
        rows: vec![text.lines().map(|line| Some(line.as_bytes().to_vec())).collect()],
    }
}

fn engine_status(text: &str) -> Table {
    let columns = ["Type", "Name", "Status"].map(str::to_owned).to_vec();
    let row = [b"InnoDB".as_slice(), b"", text.as_bytes()]
        .map(|cell| Some(cell.to_vec()))
        .to_vec();
    Table {
        columns,
        rows: vec![row],
    }
}
