//! The status of MySQL and MariaDB servers: what is asked, by which statement on which version, and how it becomes
//! metrics.

pub mod reader;
pub mod redo;
pub mod session;
pub mod status_family;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use dyno_mysql::blocking::Client;
use dyno_mysql::Options;

/// A result set: column names and rows of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows; SQL's NULL is `None`.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Table {
    /// Place of a column, in whatever case the server gives it.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// The first row's value in that column.
    pub fn first(&self, column: usize) -> Option<&[u8]> {
        self.rows.first()?.get(column)?.as_deref()
    }
}

/// Something that answers SQL: a live server, or saved answers.
pub trait Server: Send {
    /// Runs one statement.
    ///
    /// # Errors
    /// The server's message, or what happened to the connection.
    fn query(&mut self, statement: &str) -> Result<Table, String>;
}

// Server versions, as `SELECT VERSION()` tells them; the handshake's is not used, for some MariaDB prefix it with
// `5.5.5-`.

/// Which server, in which version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As the server says it.
    pub text: String,
    /// Whether it is MariaDB; everything else counts as MySQL.
    pub mariadb: bool,
    /// Major, minor, patch. MySQL's calendar versions (26.7.0) compare above 9.x, as they should.
    pub number: (u32, u32, u32),
}

impl Version {
    /// Reads a version; parts that are missing are 0.
    pub fn parse(text: &str) -> Self {
        let mariadb = text.to_ascii_lowercase().contains("mariadb");
        let digits = if mariadb {
            text.strip_prefix("5.5.5-").unwrap_or(text)
        } else {
            text
        };
        let end = digits
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let mut parts = digits[..end].split('.').map(|part| part.parse().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        Self {
            text: text.to_owned(),
            mariadb,
            number: (next(), next(), next()),
        }
    }

    /// Whether it is Oracle's MySQL or a descendant of it other than MariaDB, older than `number`.
    pub fn is_mysql_before(&self, number: (u32, u32, u32)) -> bool {
        !self.mariadb && self.number < number
    }
}

// A server made of saved answers: a folder with `version.txt`, `global_status.tsv` and, as that version has them,
// `global_variables.tsv`, `innodb_metrics.tsv` (with its column names) and `innodb_status.txt`.
//
// For looking again at what was saved from a server elsewhere, and for tests of versions that are not at hand. Files
// are read anew at each question.

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

/// How long a connect, and each read and write, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected server.
pub struct Live(Client);

impl Live {
    /// Connects.
    ///
    /// # Errors
    /// The address and the message of server or system.
    pub fn connect(options: &Options) -> Result<Box<dyn Server>, String> {
        match Client::connect(options, PATIENCE) {
            Ok(client) => Ok(Box::new(Self(client))),
            Err(error) => Err(format!(
                "connecting as {} to {}: {error}",
                options.user, options.endpoint
            )),
        }
    }
}

impl Server for Live {
    fn query(&mut self, statement: &str) -> Result<Table, String> {
        let result = self.0.query(statement).map_err(|error| {
            let beginning: String = statement.chars().take(60).collect();
            format!("{beginning}: {error}")
        })?;
        Ok(Table {
            columns: result.columns,
            rows: result.rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_mariadb_is_known_by_name() {
        let maria = Version::parse("10.11.19-MariaDB-0+deb12u1");
        assert_eq!((maria.mariadb, maria.number), (true, (10, 11, 19)));
        assert_eq!(Version::parse("5.5.5-10.4.2-MariaDB").number, (10, 4, 2));
        assert_eq!(Version::parse("5.7.44-48-log").number, (5, 7, 44));
        assert_eq!(Version::parse("8.4.8").number, (8, 4, 8));
        assert!(Version::parse("26.7.0").number > Version::parse("9.7.4-2").number);
        assert_eq!(Version::parse("").number, (0, 0, 0));
    }

    #[test]
    fn mariadb_is_never_an_old_mysql() {
        assert!(!Version::parse("5.5.68-MariaDB").is_mysql_before((8, 0, 0)));
        assert!(Version::parse("5.6.40").is_mysql_before((8, 0, 0)));
    }
}
