//! Which sessions and statements of a log become part of a capture: those of the application, of some accounts, of some
//! schemas.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::class;
use crate::event::{Raw, RawAction, Statement};
use crate::lexer::{name, tokens, Token};
use crate::problems::{LogPosition, Problem};
use crate::reach::named_schemas;

/// Accounts with which providers of servers watch them: Amazon RDS and Aurora, Azure, Cloud SQL, Alibaba Cloud, Tencent
/// Cloud.
const OF_PLATFORMS: &[&str] = &[
    "rdsadmin",
    "rdsproxyadmin",
    "rdsrepladmin",
    "azure_superuser",
    "cloudsqladmin",
    "cloudsqlimport",
    "cloudsqlexport",
    "cloudsqlreplica",
    "cloudsqlapplier",
    "cloudsqlobservabilityadmin",
    "aliyun_root",
    "tencentroot",
];
/// Who executes replicated statements, by the names in slow logs.
const OF_REPLICATION: &[&str] = &["SQL_SLAVE", "SQL_REPLICA", "system user"];
/// How the tables of RDS in the schema mysql begin.
const TABLES_OF_RDS: &[u8] = b"mysql.rds_";

/// What is captured. A list that is empty stands for all.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Names of accounts, without their hosts.
    pub users: Vec<String>,
    /// Default schemas, and those that statements name.
    pub schemas: Vec<String>,
}

/// Applies a selection to what a log has.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    selection: Selection,
    /// The accounts of connections.
    users: HashMap<u64, String>,
    /// Sessions with a statement in the selected schemas.
    chosen: BTreeSet<u32>,
    /// Sessions without one so far: how many statements for the session itself they have, and where the first one is.
    undecided: BTreeMap<u32, (u64, LogPosition)>,
}

impl Selector {
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    /// Why an event is left out by its account; none if it is not.
    pub fn left_out(&mut self, raw: &Raw) -> Option<Problem> {
        let stated = match &raw.action {
            RawAction::Connect { user, .. } => Some(user.clone().unwrap_or_default()),
            RawAction::Reset { user, .. } => user.clone(),
            RawAction::Statement { statement, .. } if is_of_rds(&statement.text) => Some(OF_PLATFORMS[0].into()),
            _ => None,
        };
        if let Some(user) = stated.or_else(|| raw.user.clone()) {
            self.users.insert(raw.connection_id, user);
        }
        let user = self.users.get(&raw.connection_id);
        let name = user.map_or("", |user| user.split(['@', '[']).next().unwrap_or_default());
        let is_any = |names: &[&str]| names.iter().any(|one| one.eq_ignore_ascii_case(name));
        match () {
            () if is_any(OF_PLATFORMS) => Some(Problem::OfThePlatform),
            () if is_any(OF_REPLICATION) => Some(Problem::Administration),
            () if self.selection.users.is_empty() || self.selection.users.iter().any(|one| one == name) => None,
            () => Some(Problem::OtherUser),
        }
    }

    /// Whether what has this schema is captured.
    pub fn has_schema(&self, schema: &str) -> bool {
        self.selection.schemas.is_empty() || self.selection.schemas.iter().any(|one| one == schema)
    }

    /// Whether a statement is captured: by its default schema or one that it names, or because it is for
    /// its session alone. A default schema that it does not need is taken from it.
    pub fn has_statement(&mut self, session: u32, statement: &mut Statement, place: LogPosition) -> bool {
        let schemas = &self.selection.schemas;
        if schemas.is_empty() {
            return true;
        }
        let is_own = |schema: &str| schemas.iter().any(|one| one == schema);
        let has_own = statement.schema.as_deref().is_some_and(is_own);
        let named = named_schemas(&statement.text);
        let needs_default = needs_default_schema(&statement.text);
        let needs_none = named.is_empty() && !needs_default;
        let is_neutral = needs_none && (statement.schema.is_none() || class::is_for_its_session(&statement.text));
        if !has_own && !needs_default {
            statement.schema = None;
        }
        if has_own || named.iter().any(|schema| is_own(&schema.name)) {
            self.chosen.insert(session);
            self.undecided.remove(&session);
            return true;
        }
        if is_neutral && !self.chosen.contains(&session) {
            self.undecided.entry(session).or_insert((0, place)).0 += 1;
        }
        is_neutral
    }

    /// Sessions of which nothing but statements for the session itself would be captured; how many, and where the first one is.
    pub fn not_chosen(&mut self) -> BTreeMap<u32, (u64, LogPosition)> {
        std::mem::take(&mut self.undecided)
    }
}

/// Whether a statement is for the tables with which RDS watches a server.
fn is_of_rds(text: &[u8]) -> bool {
    text.windows(TABLES_OF_RDS.len())
        .any(|part| part.eq_ignore_ascii_case(TABLES_OF_RDS))
        && named_schemas(text)
            .iter()
            .any(|schema| schema.name == "mysql" && text[schema.range.end..].trim_ascii_start().starts_with(b".rds_"))
}

/// Words between FROM, INTO, UPDATE or TABLE and the table.
const BETWEEN: &[&str] = &["IF", "NOT", "EXISTS", "LOW_PRIORITY", "IGNORE", "ONLY"];
/// What is no table in its place.
const NO_TABLE: &[&str] = &["SELECT", "DUAL", "LATERAL", "OUTFILE", "DUMPFILE"];

/// Whether the statement names a table without its schema, by its text: a word after FROM, JOIN, INTO, UPDATE or TABLE. In
/// doubt, as in `TRIM(a FROM b)`, it does.
pub fn needs_default_schema(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    all.iter().enumerate().any(|(index, token)| {
        let is_after = |words| index > 0 && all[index - 1].is_any(words);
        let is_clause = token.is_word("UPDATE") && is_after(&["FOR", "KEY", "ON"]);
        if is_clause || !token.is_any(&["FROM", "JOIN", "INTO", "UPDATE", "TABLE"]) {
            return false;
        }
        let mut rest = all[index + 1..].iter().skip_while(|token| token.is_any(BETWEEN));
        let is_table = rest.next().is_some_and(|token| {
            // With ANSI_QUOTES, a name.
            token.text.starts_with(b"\"") || name(token).is_some() && !token.is_any(NO_TABLE)
        });
        is_table && !rest.next().is_some_and(|next| next.is_symbol(b'.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::{Assembler, Origin};
    use crate::event::{Action, Capture};
    use crate::log::{LogKind, LogReader};

    fn captured(kind: LogKind, text: &str, users: &[&str], schemas: &[&str]) -> Capture {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        let origin = Origin {
            source: kind.source(),
            time_is_end: kind == LogKind::Slow,
        };
        let mut assembler = Assembler::new(origin);
        assembler.select(Selection {
            users: list(users),
            schemas: list(schemas),
        });
        assert_eq!(LogKind::recognise(text.as_bytes()), Some(kind));
        let mut log = LogReader::new(kind, &[]);
        log.read(text.as_bytes(), &mut assembler).unwrap();
        assembler.finish()
    }

    fn texts(capture: &Capture) -> Vec<String> {
        let text = |event: &crate::event::Event| match &event.action {
            Action::Statement(statement) => Some(String::from_utf8_lossy(&statement.text).into_owned()),
            _ => None,
        };
        capture.events.iter().filter_map(text).collect()
    }

    fn count(capture: &Capture, problem: Problem) -> u64 {
        let counts = &capture.header.problems;
        counts
            .iter()
            .find(|one| one.problem == problem)
            .map_or(0, |one| one.count)
    }

    const GENERAL: &str = "/rdsdbbin/mysql/bin/mysqld, Version: 8.0.35 (Source distribution). started with:\n\
        Tcp port: 3306  Unix socket: /tmp/mysql.sock\n\
        Time                 Id Command    Argument\n\
        2026-11-23T10:00:00.000001Z\t    7 Query\tSELECT 1\n\
        2026-11-23T10:00:01.000000Z\t    9 Connect\tapp@10.0.0.5 on shop using SSL/TLS\n\
        2026-11-23T10:00:01.000001Z\t    9 Query\tSELECT a FROM t\n\
        2026-11-23T10:00:01.000002Z\t   11 Connect\trdsadmin@localhost on mysql using TCP/IP\n\
        2026-11-23T10:00:01.000003Z\t   11 Query\tSELECT durable_lsn FROM information_schema.replica_host_status\n\
        2026-11-23T10:00:02.000000Z\t    7 Query\tINSERT INTO mysql.rds_heartbeat2(id, value) values (1,1) ON DUPLICATE KEY \
        UPDATE value = 1\n\
        2026-11-23T10:00:02.000001Z\t   12 Connect\treport@10.0.0.6 on  using TCP/IP\n\
        2026-11-23T10:00:02.000002Z\t   12 Init DB\tcrm\n\
        2026-11-23T10:00:02.000003Z\t   12 Query\tSELECT b FROM u\n\
        2026-11-23T10:00:02.000004Z\t   12 Execute\tSELECT c FROM shop.t\n\
        2026-11-23T10:00:02.000005Z\t   13 Binlog Dump GTID\tLog: '' Pos: 4 GTIDs: ''\n\
        2026-11-23T10:00:02.000006Z\t   11 Quit\t\n";

    #[test]
    fn what_the_platform_does_is_left_out_and_counted() {
        let capture = captured(LogKind::General, GENERAL, &[], &[]);
        assert_eq!(
            texts(&capture),
            ["SELECT a FROM t", "SELECT b FROM u", "SELECT c FROM shop.t"]
        );
        assert_eq!(count(&capture, Problem::OfThePlatform), 3);
        assert_eq!(capture.header.sessions, 2);
        assert_eq!(count(&capture, Problem::Administration), 1);
        let slow = "# Time: 2026-11-23T10:00:00.000000Z\n# User@Host: rdsadmin[rdsadmin] @ localhost [127.0.0.1]  Id:     7\n\
                    # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=3;\nSELECT 1;\n\
                    # Time: 2026-11-23T10:00:01.000000Z\n# User@Host: [SQL_SLAVE] @  []  Id:     8\n\
                    # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nSET timestamp=4;\nDELETE FROM t;\n\
                    # Time: 2026-11-23T10:00:02.000000Z\n# User@Host: app[app] @ web [10.0.0.5]  Id:     9\n\
                    # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 0  Rows_examined: 0\nuse shop;\nSET timestamp=5;\nSELECT 2;\n";
        let capture = captured(LogKind::Slow, slow, &[], &[]);
        assert_eq!(texts(&capture), ["SELECT 2"]);
        assert_eq!(count(&capture, Problem::OfThePlatform), 1);
        assert_eq!(count(&capture, Problem::Administration), 1);
        assert_eq!(texts(&captured(LogKind::Slow, slow, &["other"], &[])), [""; 0]);
    }

    #[test]
    fn accounts_and_schemas_are_selected() {
        let capture = captured(LogKind::General, GENERAL, &["report"], &[]);
        assert_eq!(texts(&capture), ["SELECT b FROM u", "SELECT c FROM shop.t"]);
        assert_eq!(count(&capture, Problem::OtherUser), 2, "one of an unknown account");
        let capture = captured(LogKind::General, GENERAL, &[], &["shop"]);
        assert_eq!(texts(&capture), ["SELECT a FROM t", "SELECT c FROM shop.t"]);
        assert_eq!(count(&capture, Problem::OtherSchema), 1);
        let is_crm = |action: &Action| matches!(action, Action::Schema(name) if name == "crm");
        assert!(!capture.events.iter().any(|event| is_crm(&event.action)));
    }

    #[test]
    fn what_is_for_the_session_stays_with_its_statements_in_a_selected_schema() {
        let log = "/usr/sbin/mysqld, Version: 8.0.35 (MySQL). started with:\n\
            Tcp port: 3306  Unix socket: /tmp/mysql.sock\n\
            Time                 Id Command    Argument\n\
            2026-11-23T10:00:00.000000Z\t    7 Connect\tapp@web on crm using TCP/IP\n\
            2026-11-23T10:00:00.000001Z\t    7 Query\tSET autocommit = 0\n\
            2026-11-23T10:00:00.000002Z\t    7 Query\tUPDATE u SET a = 1\n\
            2026-11-23T10:00:00.000003Z\t    7 Query\tUPDATE shop.t SET a = 1\n\
            2026-11-23T10:00:00.000004Z\t    7 Query\tROLLBACK\n\
            2026-11-23T10:00:00.000005Z\t    7 Reset Connection\t\n\
            2026-11-23T10:00:01.000000Z\t    8 Connect\tapp@web on shop using TCP/IP\n\
            2026-11-23T10:00:01.000001Z\t    8 Query\tBEGIN\n\
            2026-11-23T10:00:01.000002Z\t    8 Query\tUPDATE t SET a = 2\n\
            2026-11-23T10:00:01.000003Z\t    8 Init DB\tcrm\n\
            2026-11-23T10:00:01.000004Z\t    8 Query\tUPDATE u SET a = 2\n\
            2026-11-23T10:00:01.000005Z\t    8 Query\tCOMMIT\n\
            2026-11-23T10:00:02.000000Z\t    9 Connect\tapp@web on crm using TCP/IP\n\
            2026-11-23T10:00:02.000001Z\t    9 Query\tBEGIN\n\
            2026-11-23T10:00:02.000002Z\t    9 Query\tCOMMIT\n";
        let capture = captured(LogKind::General, log, &[], &["shop"]);
        let expected = [
            "SET autocommit = 0",
            "UPDATE shop.t SET a = 1",
            "ROLLBACK",
            "BEGIN",
            "UPDATE t SET a = 2",
            "COMMIT",
        ];
        assert_eq!(texts(&capture), expected);
        assert_eq!((capture.header.sessions, count(&capture, Problem::OtherSchema)), (2, 4));
        let other = capture.events.iter().find(|event| match &event.action {
            Action::Connect { schema, .. } | Action::Reset { schema, .. } => schema.as_deref() == Some("crm"),
            Action::Statement(statement) => statement.schema.as_deref() == Some("crm"),
            _ => false,
        });
        assert_eq!(other, None, "a replay needs no schema that was not selected");
    }

    #[test]
    fn tables_without_a_schema_need_a_default_one() {
        for text in [
            "SELECT 1 FROM item",
            "INSERT IGNORE INTO `item` VALUES (1)",
            "update item set a = 1",
            "SELECT * FROM shop.item JOIN sale ON 1",
            "DROP TABLE IF EXISTS item",
            "SELECT * FROM \"item\"",
        ] {
            assert!(needs_default_schema(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT 1",
            "COMMIT",
            "SELECT 1 FROM DUAL",
            "SELECT 1 FROM shop.item FOR UPDATE",
            "SELECT 1 FROM (SELECT 2) x",
            "INSERT INTO shop.item VALUES (1) ON DUPLICATE KEY UPDATE a = 1",
            "SELECT 1 INTO @a",
            "SET NAMES utf8mb4",
        ] {
            assert!(!needs_default_schema(text.as_bytes()), "{text}");
        }
    }
}
