use super::*;

const GENERAL: Origin = Origin {
    source: Source::GeneralLog,
    time_is_end: false,
};

fn statement(at: Micros, connection_id: u64, text: &str) -> Raw {
    let statement = Statement {
        text: text.into(),
        ..Statement::default()
    };
    Raw {
        at: Some(at),
        is_shared_second: at % 1_000_000 == 0,
        connection_id,
        user: None,
        line: 1,
        action: RawAction::Statement {
            statement,
            is_execution: false,
        },
    }
}

fn times(capture: &Capture) -> Vec<(u32, u64)> {
    capture
        .events
        .iter()
        .map(|event| (event.session, event.at_us))
        .collect()
}

#[test]
fn whole_seconds_are_spread_by_order() {
    let mut assembler = Assembler::new(GENERAL);
    for (second, connection) in [(5, 8), (5, 9), (5, 8), (5, 9), (7, 8)] {
        assembler.push(statement(second * 1_000_000, connection, "SELECT 1"));
    }
    let capture = assembler.finish();
    assert_eq!(
        times(&capture),
        [(1, 0), (2, 250_000), (1, 500_000), (2, 750_000), (1, 2_000_000)]
    );
    assert!(capture.header.spread && capture.header.resolution_us == 1_000_000);
    assert_eq!(capture.header.peak_sessions, 2);
}

#[test]
fn times_of_ends_become_times_of_begins_and_a_session_keeps_its_order() {
    let origin = Origin {
        source: Source::SlowLog,
        time_is_end: true,
    };
    let mut assembler = Assembler::new(origin);
    for (at, connection, duration_us) in [(1_000_300, 1, 100), (1_000_500, 2, 400), (1_000_600, 1, 500)] {
        let mut raw = statement(at, connection, "SELECT 1");
        if let RawAction::Statement { statement, .. } = &mut raw.action {
            statement.duration_us = Some(duration_us);
        }
        assembler.push(raw);
    }
    let capture = assembler.finish();
    // They began at 200, at 100, and at 100; the last one of session 1 cannot have begun before its first one.
    assert_eq!(times(&capture), [(1, 0), (2, 100), (2, 100)]);
}

#[test]
fn a_clock_that_is_set_back_is_counted_and_time_goes_on() {
    let mut assembler = Assembler::new(GENERAL);
    for second in [7200, 3600, 3605] {
        assembler.push(statement(second * 1_000_000, 1, "SELECT 1"));
    }
    let capture = assembler.finish();
    assert_eq!(capture.events.last().unwrap().at_us, 5_000_000);
    assert_eq!(capture.header.problems[0].problem, Problem::ClockSetBack);
}

#[test]
fn events_before_the_first_time_of_a_log_have_that_time() {
    let mut assembler = Assembler::new(GENERAL);
    let mut first = statement(0, 1, "SELECT 1");
    first.at = None;
    assembler.push(first);
    assembler.push(statement(1_700_000_000_000_000, 1, "SELECT 2"));
    assert_eq!(times(&assembler.finish()), [(1, 0), (1, 500_000)]);
}

#[test]
fn the_default_schema_follows_the_session() {
    let mut assembler = Assembler::new(GENERAL);
    for (at, text) in [(1, "SELECT 1"), (2, "use `shop`"), (3, "SELECT 2")] {
        assembler.push(statement(at, 1, text));
    }
    let capture = assembler.finish();
    let schemas: Vec<_> = capture
        .events
        .iter()
        .map(|event| match &event.action {
            Action::Statement(statement) => statement.schema.clone(),
            Action::Schema(schema) => Some(format!("USE {schema}")),
            _ => None,
        })
        .collect();
    assert_eq!(schemas, [None, Some("USE shop".into()), Some("shop".into())]);
}

#[test]
fn what_is_unknown_of_sessions_that_began_before_the_log_is_counted() {
    let mut assembler = Assembler::new(GENERAL);
    for (at, text) in [
        (1, "UPDATE item SET stock = 1"),
        (2, "INSERT INTO shop.sale VALUES (1)"),
        (3, "ROLLBACK"),
    ] {
        assembler.push(statement(at, 7, text));
    }
    assembler.push(Raw {
        action: RawAction::Connect {
            user: None,
            schema: None,
        },
        ..statement(4, 8, "")
    });
    assembler.push(statement(5, 8, "SELECT 1 FROM item"));
    let capture = assembler.finish();
    let problems: Vec<(Problem, u64)> = capture
        .header
        .problems
        .iter()
        .map(|seen| (seen.problem, seen.count))
        .collect();
    assert_eq!(
        problems,
        [
            (Problem::BegunBefore, 1),
            (Problem::UnknownSchema, 1),
            (Problem::InTransaction, 1),
            (Problem::UnknownAutocommit, 1)
        ]
    );
    let Action::Statement(first) = &capture.events[0].action else {
        panic!("{:?}", capture.events);
    };
    assert_eq!(first.text, b"SET autocommit = 0");
    assert_eq!(capture.header.statements, 5);
}
