//! Which sessions and statements of a log become part of a capture: those of the application, of some accounts, of some
//! schemas.

use std::collections::HashMap;

use crate::event::Statement;
use crate::problems::Problem;
use crate::raw::{Raw, RawAction};
use crate::reach::named_schemas;
use crate::unqualified::needs_default_schema;

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
}

impl Selector {
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            users: HashMap::new(),
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

    /// Whether a statement is captured: by its default schema or one that it names, or because it needs none.
    pub fn has_statement(&self, statement: &Statement) -> bool {
        let schemas = &self.selection.schemas;
        let is_own = |schema: &str| schemas.iter().any(|one| one == schema);
        if schemas.is_empty() || statement.schema.as_deref().is_some_and(is_own) {
            return true;
        }
        let named = named_schemas(&statement.text);
        let needs_none = statement.schema.is_none() && named.is_empty() && !needs_default_schema(&statement.text);
        needs_none || named.iter().any(|schema| is_own(&schema.name))
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
        let mut log = LogReader::new(kind);
        for (number, line) in text.lines().enumerate() {
            log.line(number as u64 + 1, line.as_bytes(), &mut assembler);
        }
        log.end(false, &mut assembler);
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
}
