use super::*;
use crate::assembler::Origin;
use crate::event::{Action, Capture, Source};

const HEAD: &str = "# User@Host: root[root] @ localhost []\n# Thread_id: 7  Schema: shop  QC_hit: No\n\
                    # Query_time: 0.000250  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1\nSET timestamp=1;\n";

fn capture(text: &str, is_cut: bool) -> Capture {
    let mut assembler = Assembler::new(Origin {
        source: Source::SlowLog,
        time_is_end: true,
    });
    let mut log = SlowLog::default();
    for (number, line) in (1..).zip(text.lines()) {
        log.line(number, line.as_bytes(), &mut assembler);
    }
    log.end(is_cut, &mut assembler);
    assembler.finish()
}

fn texts(capture: &Capture) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::Statement(statement) => Some(String::from_utf8_lossy(&statement.text).into_owned()),
        _ => None,
    };
    capture.events.iter().filter_map(|event| text(&event.action)).collect()
}

#[test]
fn an_entry_has_its_schema_duration_rows_and_text_of_several_lines() {
    let found = capture(
        &format!("# Time: 261123  9:41:03\n{HEAD}SELECT 1\n# a comment\nFROM t;\n"),
        false,
    );
    let Action::Statement(statement) = &found.events[0].action else {
        panic!("{:?}", found.events);
    };
    assert_eq!(statement.text, b"SELECT 1\n# a comment\nFROM t");
    let fields = (statement.schema.as_deref(), statement.duration_us, statement.rows);
    assert_eq!(fields, (Some("shop"), Some(250), Some(1)));
    assert!(found.header.problems.is_empty());
}

#[test]
fn cut_lines_are_counted_with_their_places_and_the_rest_is_used() {
    let log = format!("left over;\n{HEAD}SELECT 1;\n# User@\n{HEAD}SELECT 2;\n{HEAD}SELECT 'a;\n{HEAD}SELECT 4");
    let found = capture(&log, true);
    assert_eq!(texts(&found), ["SELECT 1", "SELECT 2"]);
    let problems: Vec<_> = found
        .header
        .problems
        .iter()
        .map(|seen| (seen.problem, seen.first[0].line))
        .collect();
    assert_eq!(
        problems,
        [
            (Problem::BeforeFirstEntry, 1),
            (Problem::CutLine, 7),
            (Problem::CutStatement, 13),
            (Problem::CutAtEnd, 18)
        ]
    );
}

#[test]
fn line_ends_within_a_statement_stay_unless_the_whole_log_was_converted() {
    let log = format!("# Time: 261123  9:41:03\n{HEAD}SELECT 'a\r\nb';\n");
    let converted = log.replace("\r\n", "\n").replace('\n', "\r\n");
    for (log, expected) in [(log, "SELECT 'a\r\nb'"), (converted, "SELECT 'a\nb'")] {
        let mut assembler = Assembler::new(Origin {
            source: Source::SlowLog,
            time_is_end: true,
        });
        let mut reader = SlowLog::default();
        for (number, line) in (1..).zip(log.trim_end_matches('\n').split('\n')) {
            reader.line(number, line.as_bytes(), &mut assembler);
        }
        reader.end(false, &mut assembler);
        assert_eq!(texts(&assembler.finish()), [expected]);
    }
}

#[test]
fn what_a_procedure_executed_is_in_its_call() {
    let inner = HEAD.replace("SET", "# Stored_routine: shop.p\nSET") + "UPDATE t SET a = a + 1;\n";
    let log = format!("# Time: 261123  9:41:03\n{inner}{HEAD}CALL p();\n");
    let found = capture(&log, false);
    assert_eq!(texts(&found), ["CALL p()"]);
    assert_eq!(found.header.problems[0].problem, Problem::Nested);
    // Percona Server logs no CALL then.
    let found = capture(&log.replace("Stored_routine", "Stored routine"), false);
    assert_eq!(texts(&found), ["UPDATE t SET a = a + 1", "CALL p()"]);
}

const PERCONA: &str = "# InnoDB_trx_id: 1500\n\
                       # QC_Hit: No  Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No\n\
                       # Filesort: No  Filesort_on_disk: No  Merge_passes: 0\n\
                       #   InnoDB_IO_r_ops: 0  InnoDB_IO_r_bytes: 0  InnoDB_IO_r_wait: 0.000000\n\
                       #   InnoDB_rec_lock_wait: 0.000000  InnoDB_queue_wait: 0.000000\n\
                       #   InnoDB_pages_distinct: 3\n\
                       # Profile_starting: 0.000030 Profile_starting_cpu: 0.000028\n\
                       # Profile_total: 0.000251 Profile_total_cpu: 0.000250\n\
                       # No InnoDB statistics available for this query\n";

#[test]
fn lines_of_a_heading_that_are_not_known_are_no_statement() {
    let query =
        |end: &str| format!("# Query_time: 0.000250  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1{end}\n");
    let user = "# User@Host: app[app] @ web [10.0.0.7]";
    for (server, heading) in [
        (
            "Percona 5.5",
            format!("{user}\n# Thread_id: 7  Schema: shop  Last_errno: 0  Killed: 0\n{}{PERCONA}", query("")),
        ),
        (
            "Percona 5.6, 5.7, 8.0",
            format!(
                "{user}  Id:     7\n# Schema: shop  Last_errno: 0  Killed: 0\n{}{PERCONA}",
                query("  Rows_affected: 0  Bytes_sent: 56")
            ),
        ),
        (
            "MySQL 8.0, log_slow_extra",
            format!(
                "{user}  Id:     7\n{}use shop;\n",
                query(" Thread_id: 7 Errno: 0 Killed: 0 Start: 2024-05-10T17:46:53.147320Z End: 2024-05-10T17:46:53.147579Z")
            ),
        ),
        (
            "MariaDB",
            format!(
                "{user}\n# Thread_id: 7  Schema: shop  QC_hit: No\n{}# Pages_read_time: 0.0000  Engine_time: 0.0245\n#\n\
                 # explain: id\tselect_type: \n# explain: 1\tSchema: \n#\n# Warnings: some\n",
                query("")
            ),
        ),
    ] {
        let statement = |text: &str| format!("{heading}SET timestamp=1;\n{text};\n");
        let log = format!(
            "# Time: 261123  9:41:03\n{}{}{}",
            statement("BEGIN"),
            statement("SELECT 1\n# Full_scan: Yes\n# InnoDB_trx_id: 5"),
            statement("COMMIT")
        );
        let found = capture(&log, false);
        assert_eq!(texts(&found), ["BEGIN", "SELECT 1\n# Full_scan: Yes\n# InnoDB_trx_id: 5", "COMMIT"], "{server}");
        let Action::Statement(first) = &found.events[0].action else {
            panic!("{server}: {:?}", found.events);
        };
        let fields = (first.schema.as_deref(), first.duration_us, first.rows);
        assert_eq!(fields, (Some("shop"), Some(250), Some(1)), "{server}");
        assert!(found.header.problems.is_empty(), "{server}: {:?}", found.header.problems);
    }
}

#[test]
fn the_log_sets_the_ids_of_inserts_with_its_timestamp() {
    let log = HEAD.replace("SET timestamp=1;", "SET last_insert_id=5,insert_id=6,timestamp=1;");
    let own = "SET insert_id=7,sql_mode=''";
    let found = capture(
        &format!("{log}INSERT INTO t VALUES (LAST_INSERT_ID());\n{log}{own};\n"),
        false,
    );
    assert_eq!(texts(&found), ["INSERT INTO t VALUES (LAST_INSERT_ID())", own]);
}

#[test]
fn an_entry_without_a_schema_has_none_where_each_states_its_own() {
    let none = HEAD.replace("Schema: shop", "Schema: ");
    let found = capture(
        &format!("{HEAD}SELECT 1;\n{}SELECT 2;\n", none.replace("_id: 7", "_id: 8")),
        false,
    );
    let schemas: Vec<Option<&str>> = found
        .events
        .iter()
        .map(|event| match &event.action {
            Action::Statement(statement) => statement.schema.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(schemas, [Some("shop"), None]);
}

#[test]
fn times_with_fractions_are_read_and_later_entries_share_the_rest_of_their_second() {
    let user = HEAD;
    let log = format!(
        "# Time: 181231 23:59:58.250000\n{user}SELECT 1;\n{user}SELECT 2;\n{user}SELECT 3;\n\
         # Time: 190101  0:00:43.500000\n{user}SELECT 4;\n"
    );
    let found = capture(&log, false);
    let times: Vec<u64> = found.events.iter().map(|event| event.at_us).collect();
    assert_eq!(times, [0, 250_000, 500_000, 45_250_000]);
    assert!(found.header.spread && found.header.problems.is_empty());
    let alone = capture(&format!("# Time: 181231 23:59:58.250000\n{user}SELECT 1;\n"), false);
    assert!(!alone.header.spread);
}

#[test]
fn an_entry_whose_time_cannot_be_read_has_that_of_set_timestamp() {
    let entry = |time: &str, timestamp_s: u64, text: &str| {
        let head = HEAD.replace("timestamp=1;", &format!("timestamp={timestamp_s};"));
        format!("# Time: {time}\n{head}{text};\n")
    };
    // The log's clock is two hours ahead of UTC.
    let log = entry("261123 11:41:03", 1_795_426_863, "SELECT 1")
        + &entry("2026/11/23 11:41:13", 1_795_426_873, "SELECT 2")
        + &entry("261123 11:41:23", 1_795_426_883, "SELECT 3");
    let found = capture(&log, false);
    let times: Vec<u64> = found.events.iter().map(|event| event.at_us / 1_000_000).collect();
    assert_eq!(times, [0, 10, 20]);
    assert_eq!(found.header.problems[0].problem, Problem::UnreadableTime);
}

#[test]
fn a_heading_within_a_heading_and_a_sample_are_counted() {
    let sampled = HEAD.replacen("SET", "# Log_slow_rate_type: query  Log_slow_rate_limit: 10\nSET", 1);
    let cut = "# User@Host: app[app] @ web []\n# Thread_id: 8  Schema: shop  QC_hit: No\n";
    let found = capture(&format!("{cut}{sampled}SELECT 1;\n"), false);
    assert_eq!(texts(&found), ["SELECT 1"]);
    let problems: Vec<Problem> = found.header.problems.iter().map(|seen| seen.problem).collect();
    assert_eq!(problems, [Problem::NoStatement, Problem::Sampled]);
}
