//! The transactions of a capture as a workload: each whole, in the order of the capture, on whatever connection is free;
//! or, at a pace, each at its captured time and in its session, which has a connection of its own.
//!
//! Operation n is transaction n modulo their number; with several agents each has every n-th transaction. A transaction
//! with an ignored error is rolled back and given up: the same statements would fail again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_capture::{digest, digest_label, fingerprint, Capture, Fingerprint, Statement, Transactions, Wanted};
use dyno_loop::arrivals::{RecordedOperation, Recording};
use serde::Serialize;

use super::definition::{Definition, Part, StatementKind};

/// Digests that have figures of their own; the others have them together.
const MOST_DIGESTS: usize = 50;
/// Characters of a digest that are its name in results.
const NAME_LENGTH: usize = 60;
/// Characters of a digest that stand in results.
const TEXT_LENGTH: usize = 1000;

/// One statement: the number under which its digest is recorded, and its text.
#[derive(Debug, Clone)]
struct CapturedStatement {
    digest: usize,
    kind: StatementKind,
    text: Vec<u8>,
}

/// Statements that are recorded together: those of one digest, or of all that have no figures of their own.
#[derive(Debug, Clone, Serialize)]
pub struct RecordedDigest {
    /// What they are in results: unique among those of the capture.
    pub name: String,
    /// The short name of the digest; none for several digests.
    #[serde(rename = "digest", skip_serializing_if = "Option::is_none")]
    fingerprint: Option<Fingerprint>,
    /// The digest itself, its beginning if it is long; none for several digests.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Shortest time after which a capture may begin again.
const SHORTEST_S: f64 = 0.001;

/// At which pace, and on how many connections, the captured sessions run.
#[derive(Debug, Clone, Copy)]
pub struct CapturedPace {
    /// How many times as fast as captured.
    pub speed: f64,
    /// The most sessions at a time.
    pub connections: u32,
}

/// A capture's transactions, ready to run.
#[derive(Debug, Clone, Serialize)]
pub struct CapturedContext {
    /// The file.
    #[serde(rename = "capture")]
    path: PathBuf,
    /// How many transactions it has.
    transactions: u64,
    /// Statements left out because they do not only read.
    not_read_only: u64,
    /// Statements left out because they use what only their session has.
    of_the_session: u64,
    /// Statements left out because they administer the server.
    administration: u64,
    /// How many times as fast as captured; none: as fast as the connections go, without the captured times.
    speed: Option<f64>,
    /// How long the capture lasts at this speed, s.
    pub length_s: f64,
    /// Statements that do not only read; none where the capture does not state it.
    writing: Option<u64>,
    /// The captured connection of each transaction.
    #[serde(skip)]
    sessions: Arc<Vec<usize>>,
    #[serde(skip)]
    captured_connections: usize,
    #[serde(skip)]
    recording: Option<Arc<Recording>>,
    /// Which of the transactions are this agent's.
    #[serde(skip)]
    pub part: Part,
    /// What sets the one character set of a load without sessions of its own.
    #[serde(skip)]
    pub set_names: Option<String>,
    #[serde(skip)]
    statements: Arc<Vec<Vec<CapturedStatement>>>,
    /// What is recorded under the numbers of [`CapturedWork::sent`].
    pub digests: Vec<RecordedDigest>,
    /// Its name alone: what it sends is not prepared.
    #[serde(skip)]
    definition: Definition,
}

impl CapturedContext {
    /// The transactions of a capture; `read_only`: without statements that write; `pace`: in their sessions, at their
    /// captured times.
    ///
    /// # Errors
    /// When there is none, when they have more than one default schema, or when the capture is too short for a pace, with
    /// what to do.
    pub fn new(path: &Path, capture: Capture, read_only: bool, pace: Option<CapturedPace>) -> Result<Self, String> {
        let file = path.display();
        let header_us = capture.header.duration_us;
        let writing = if read_only { Some(0) } else { capture.header.writing };
        let wanted = Wanted {
            read_only,
            of_the_session: pace.is_some(),
        };
        let found = Transactions::of(capture, wanted);
        if found.all.is_empty() {
            return Err(format!(
                "'{file}' has no transaction to run: {} statements do not only read, {} use what only their session has, {} \
                 administer the server",
                found.not_read_only, found.of_the_session, found.administration
            ));
        }
        if found.schemas.len() > 1 {
            let schemas: Vec<&str> = found.schemas.iter().map(String::as_str).collect();
            return Err(format!(
                "'{file}' has statements of {} default schemas ({}), and a load has one; `dynoload replay` replays all of \
                 them",
                schemas.len(),
                schemas.join(", ")
            ));
        }
        let has_one = "a load at --speed max has one: use --speed original, or `dynoload replay`";
        let set_names = set_names(&found, path, pace.is_none().then_some(has_one))?;
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let transactions = found.all.len() as u64;
        let last_us = found.all.last().map_or(0, |one| one.at_us + 1);
        let length_s = header_us.max(last_us) as f64 / 1e6 / pace.map_or(1.0, |pace| pace.speed);
        if pace.is_some() && length_s < SHORTEST_S {
            return Err(format!(
                "'{file}' lasts {:.3} ms at this speed; a capture that is played again and again must last at least {} ms: \
                 use --speed max, or a longer capture",
                length_s * 1e3,
                SHORTEST_S * 1e3
            ));
        }
        let recording = pace.map(|pace| Arc::new(recording(&found, pace, length_s)));
        let sessions = found.all.iter().map(|one| one.connection).collect();
        let mut digests = Digests::default();
        let mut statement = |one: Statement| CapturedStatement {
            digest: digests.add(&one),
            kind: StatementKind::of(&one.text),
            text: one.text,
        };
        let mut statements: Vec<Vec<CapturedStatement>> = found
            .all
            .into_iter()
            .map(|transaction| transaction.statements.into_iter().map(&mut statement).collect())
            .collect();
        let (numbers, digests) = digests.recorded();
        for one in statements.iter_mut().flatten() {
            one.digest = numbers[one.digest];
        }
        Ok(Self {
            path: path.to_path_buf(),
            transactions,
            not_read_only: found.not_read_only,
            of_the_session: found.of_the_session,
            administration: found.administration,
            speed: pace.map(|pace| pace.speed),
            length_s,
            writing,
            sessions: Arc::new(sessions),
            captured_connections: found.connections.len(),
            recording,
            part: Part::default(),
            set_names,
            statements: Arc::new(statements),
            digests,
            definition: Definition::new(name),
        })
    }

    /// How much of the capture runs, for a person.
    pub fn contents(&self) -> String {
        let pace = self.speed.map_or_else(String::new, |_| {
            format!(
                " of {} connections; the capture lasts {:.1} s at this speed, then it begins again",
                self.captured_connections, self.length_s
            )
        });
        format!(
            "{} transactions{pace}; statements left out: {} that do not only read, {} that use what only their session has, \
             {} that administer the server",
            self.transactions, self.not_read_only, self.of_the_session, self.administration
        )
    }

    /// Whether transactions have times and sessions of their own.
    pub fn is_paced(&self) -> bool {
        self.speed.is_some()
    }

    /// What each connection does; none without a pace.
    pub fn recording(&self) -> Option<Arc<Recording>> {
        self.recording.clone()
    }

    /// The texts of all statements.
    pub fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.statements.iter().flatten().map(|one| one.text.as_slice())
    }

    /// Its name.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }
}

/// What sets the character set of a capture's statements, where all have one that is not utf8mb4. What has one alone says
/// so; without it, sessions set their own.
///
/// # Errors
/// With what to do where they have several, or an unknown one.
pub fn set_names(found: &Transactions, path: &Path, has_one: Option<&str>) -> Result<Option<String>, String> {
    if found.unknown_charset > 0 {
        return Err(unknown_charset(found.unknown_charset, path));
    }
    let charsets: Vec<&str> = found.charsets.iter().map(String::as_str).collect();
    match (&charsets[..], has_one) {
        (_, None) | ([] | ["utf8mb4"], _) => Ok(None),
        ([one], _) => Ok(Some(format!("SET NAMES {one}"))),
        (_, Some(has_one)) => Err(format!(
            "'{}' has statements of {} character sets ({}), and {has_one}",
            path.display(),
            charsets.len(),
            charsets.join(", ")
        )),
    }
}

/// Why statements cannot be sent whose character set is unknown, and what to do.
pub fn unknown_charset(statements: u64, path: &Path) -> String {
    format!(
        "{statements} statements of '{}' are not UTF-8, and their sessions do not set their character set: capture the log \
         again with --charset, as in --charset latin1 (utf8mb4 where the other bytes are binary values)",
        path.display()
    )
}

/// The digests of a capture, numbered as they come, with the time that they took there.
#[derive(Debug, Default)]
struct Digests {
    numbers: HashMap<String, usize>,
    /// By number: (time, µs; count). Of a log without times the counts decide.
    weights: Vec<(u64, u64)>,
}

impl Digests {
    /// The number of a statement's digest.
    fn add(&mut self, statement: &Statement) -> usize {
        let number = *self.numbers.entry(digest(&statement.text)).or_insert_with(|| {
            self.weights.push((0, 0));
            self.weights.len() - 1
        });
        let (time_us, count) = &mut self.weights[number];
        *time_us += statement.duration_us.unwrap_or(0);
        *count += 1;
        number
    }

    /// For each number the one under which it is recorded, and what is recorded; the heaviest digests are apart. The same
    /// in every program that reads the capture: agents' figures are added up by number.
    fn recorded(self) -> (Vec<usize>, Vec<RecordedDigest>) {
        let mut ranked: Vec<(usize, String)> = self.numbers.into_iter().map(|(text, number)| (number, text)).collect();
        ranked.sort_by_key(|(number, _)| (Reverse(self.weights[*number]), *number));
        let others = ranked.len().saturating_sub(MOST_DIGESTS);
        let mut numbers = vec![MOST_DIGESTS; ranked.len()];
        let mut recorded: Vec<RecordedDigest> = Vec::new();
        for (rank, (number, text)) in (0..MOST_DIGESTS).zip(ranked) {
            numbers[number] = rank;
            let fingerprint = fingerprint(text.as_bytes());
            let mut name = digest_label(&text, NAME_LENGTH);
            if recorded.iter().any(|other| other.name == name) {
                let ending = format!(" ({fingerprint})");
                name = digest_label(&text, NAME_LENGTH - ending.len()) + &ending;
            }
            recorded.push(RecordedDigest {
                name,
                fingerprint: Some(fingerprint),
                text: Some(text.chars().take(TEXT_LENGTH).collect()),
            });
        }
        if others > 0 {
            recorded.push(RecordedDigest {
                name: format!("other ({others} digests)"),
                fingerprint: None,
                text: None,
            });
        }
        (numbers, recorded)
    }
}

/// What each connection does. A captured session is whole on one connection: on the one that is free earliest, after the
/// session that was there before.
fn recording(found: &Transactions, pace: CapturedPace, length_s: f64) -> Recording {
    let scaled_ns = |at_us: u64| (at_us as f64 * 1000.0 / pace.speed) as u64;
    let mut of_sessions = vec![Vec::new(); found.connections.len()];
    for (number, one) in (0..).zip(&found.all) {
        of_sessions[one.connection].push((number, one.at_us));
    }
    let mut by_open: Vec<usize> = (0..of_sessions.len()).collect();
    by_open.retain(|session| !of_sessions[*session].is_empty());
    by_open.sort_by_key(|session| found.connections[*session].open_us);
    let mut free: BinaryHeap<Reverse<(u64, usize)>> =
        (0..pace.connections as usize).map(|one| Reverse((0, one))).collect();
    let mut connections = vec![Vec::new(); pace.connections as usize];
    let mut length_ns = (length_s * 1e9) as u64;
    for session in by_open {
        let Some(Reverse((free_us, connection))) = free.pop() else {
            break;
        };
        for (number, at_us) in std::mem::take(&mut of_sessions[session]) {
            let release_ns = scaled_ns(at_us.max(free_us));
            length_ns = length_ns.max(release_ns.saturating_add(1));
            connections[connection].push(RecordedOperation {
                due_ns: scaled_ns(at_us),
                release_ns,
                number,
            });
        }
        let ended_us = found.connections[session].close_us + 1;
        free.push(Reverse((free_us.max(ended_us), connection)));
    }
    Recording { connections, length_ns }
}

/// One connection's transaction.
#[derive(Debug, Default)]
pub struct CapturedWork {
    transaction: usize,
    next: usize,
    /// The digest of the statement that was sent last; none for ROLLBACK.
    sent: Option<usize>,
    /// The captured connection of the last transaction, where sessions are kept apart.
    connection: Option<usize>,
    /// Whether ROLLBACK is all that comes: a statement has failed.
    is_given_up: bool,
}

impl CapturedWork {
    /// Begins operation `number`.
    pub fn begin(&mut self, context: &CapturedContext, number: u64) {
        let transactions = context.transactions.max(1);
        // Reduced first: the numbers of a washout and of a late stream are too large to be multiplied.
        let number = number % transactions;
        self.transaction = if context.is_paced() {
            // With several agents each has some of the connections.
            number as usize
        } else {
            ((number * u64::from(context.part.count) + u64::from(context.part.index)) % transactions) as usize
        };
        self.connection = context.sessions.get(self.transaction).copied();
        self.next = 0;
        self.is_given_up = false;
        self.sent = None;
    }

    /// Whether a transaction is of another session than the last one, or of the same one from its beginning.
    pub fn is_of_another_session(&self, context: &CapturedContext, number: u64) -> bool {
        let next = context.sessions.get(number as usize).copied();
        self.connection.is_some() && (next != self.connection || number as usize <= self.transaction)
    }

    /// After an error (`undo`) the transaction is given up; on a new connection it begins anew.
    pub fn restart(&mut self, undo: bool) {
        self.next = 0;
        self.is_given_up = undo;
    }

    /// The next statement: what it is, and its text; none at the end of the transaction.
    pub fn advance<'a>(&mut self, context: &'a CapturedContext) -> Option<(StatementKind, &'a [u8])> {
        if self.is_given_up {
            self.sent = None;
            let is_first = self.next == 0;
            self.next = 1;
            return is_first.then_some((StatementKind::Rollback, b"ROLLBACK"));
        }
        let statement = context.statements[self.transaction].get(self.next)?;
        self.next += 1;
        self.sent = Some(statement.digest);
        Some((statement.kind, &statement.text))
    }

    /// Number and name under which the statement that was sent last is recorded.
    pub fn sent<'a>(&self, context: &'a CapturedContext) -> Option<(usize, &'a str)> {
        let digest = self.sent?;
        Some((digest, &context.digests[digest].name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURE: &str = r#"{"record":"header","format":"dynoload-capture","format_version":1,"source":"general_log","resolution_us":1,"spread":false,"anonymised":false,"duration_us":3,"sessions":1,"peak_sessions":1,"events":4,"statements":4}
{"record":"statement","at_us":0,"session":1,"schema":"shop","text":"BEGIN"}
{"record":"statement","at_us":1,"session":1,"schema":"shop","text":"DELETE FROM t WHERE a = 1"}
{"record":"statement","at_us":2,"session":1,"schema":"shop","text":"COMMIT"}
{"record":"statement","at_us":3,"session":1,"schema":"shop","text":"SELECT 1"}
"#;

    fn context(text: &str, read_only: bool) -> Result<CapturedContext, String> {
        let capture = dyno_capture::read(text.as_bytes()).unwrap();
        CapturedContext::new(Path::new("monday.capture"), capture, read_only, None)
    }

    fn texts(work: &mut CapturedWork, context: &CapturedContext) -> Vec<String> {
        std::iter::from_fn(|| work.advance(context))
            .map(|(_, text)| String::from_utf8_lossy(text).into_owned())
            .collect()
    }

    #[test]
    fn transactions_come_in_their_order_and_anew() {
        let context = context(CAPTURE, false).unwrap();
        let mut work = CapturedWork::default();
        for (number, expected) in [
            (0, vec!["BEGIN", "DELETE FROM t WHERE a = 1", "COMMIT"]),
            (3, vec!["SELECT 1"]),
        ] {
            work.begin(&context, number);
            assert_eq!(texts(&mut work, &context), expected);
        }
        assert_eq!(work.sent(&context).unwrap().1, "SELECT ?");
    }

    #[test]
    fn a_load_without_sessions_has_one_character_set() {
        let of = |texts: &[&str]| {
            let texts = (2..).zip(texts).flat_map(|(session, texts)| {
                let line = move |text| format!(r#"{{"record":"statement","at_us":4,"session":{session},{text}}}"#);
                texts.split("; ").map(line)
            });
            let lines: Vec<String> = texts.collect();
            let events = format!(r#""sessions":9,"peak_sessions":1,"events":{}"#, 4 + lines.len());
            let header = CAPTURE.replace(r#""sessions":1,"peak_sessions":1,"events":4"#, &events);
            context(&(header + &lines.join("\n")), false).map(|context| context.set_names)
        };
        let (plain, latin1) = (
            r#""text":"SELECT 'é'""#,
            r#""text":"SET NAMES latin1"; "text":"SELECT 'é'""#,
        );
        assert_eq!(of(&[plain]), Ok(None));
        assert_eq!(of(&[latin1]), Ok(Some("SET NAMES latin1".into())));
        assert!(of(&[plain, latin1])
            .unwrap_err()
            .contains("2 character sets (latin1, utf8mb4)"));
        let bytes = r#""encoding":"bytes","text":"SELECT 'é'""#;
        assert!(of(&[bytes])
            .unwrap_err()
            .contains("capture the log again with --charset"));
    }

    #[test]
    fn the_washout_of_several_agents_has_transactions_of_its_own() {
        let mut context = context(CAPTURE, false).unwrap();
        context.part = Part { index: 1, count: 3 };
        let mut work = CapturedWork::default();
        for (number, transaction) in [
            (0, 1),
            (1, 0),
            ((1 << 63) | 1, 0),
            ((1 << 63) | (u64::from(u32::MAX) << 31), 1),
        ] {
            work.begin(&context, number);
            assert_eq!(work.transaction, transaction, "{number}");
        }
    }

    #[test]
    fn a_transaction_that_failed_is_rolled_back_and_given_up() {
        let context = context(CAPTURE, false).unwrap();
        let mut work = CapturedWork::default();
        work.begin(&context, 0);
        work.advance(&context);
        work.restart(true);
        assert_eq!(texts(&mut work, &context), ["ROLLBACK"]);
        work.restart(false);
        assert_eq!(texts(&mut work, &context).len(), 3, "on a new connection");
    }

    #[test]
    fn what_cannot_run_is_refused() {
        assert_eq!(context(CAPTURE, true).unwrap().transactions, 1);
        let other = CAPTURE.replacen(
            "\"schema\":\"shop\",\"text\":\"SELECT",
            "\"schema\":\"b\",\"text\":\"SELECT",
            1,
        );
        assert!(context(&other, false)
            .unwrap_err()
            .contains("2 default schemas (b, shop)"));
        let writing = CAPTURE.replace("SELECT 1", "DO 1");
        assert!(context(&writing, true)
            .unwrap_err()
            .contains("no transaction to run: 2 statements do not only read"));
    }

    fn paced(text: &str, speed: f64, connections: u32) -> Result<CapturedContext, String> {
        let capture = dyno_capture::read(text.as_bytes()).unwrap();
        let pace = CapturedPace { speed, connections };
        CapturedContext::new(Path::new("monday.capture"), capture, false, Some(pace))
    }

    #[test]
    fn a_capture_that_would_begin_again_at_once_has_no_pace() {
        let error = paced(CAPTURE, 1.0, 1).unwrap_err();
        assert!(error.contains("lasts 0.004 ms at this speed"), "{error}");
        assert!(error.contains("must last at least 1 ms: use --speed max"), "{error}");
    }

    #[test]
    fn at_a_pace_each_session_is_whole_on_one_connection_at_its_times() {
        let lines = [
            (0, 1, "SET @a = 1"),
            (1_000, 2, "SELECT 2"),
            (2_000, 1, "SELECT @a"),
            (4_000, 3, "SELECT 3"),
            (9_000, 2, "SELECT 4"),
        ];
        let header = CAPTURE.lines().next().unwrap();
        let header = header.replace("\"events\":4", "\"events\":5");
        let mut text = header.replace("\"sessions\":1", "\"sessions\":3") + "\n";
        for (at_us, session, sql) in lines {
            text += &format!(
                "{{\"record\":\"statement\",\"at_us\":{at_us},\"session\":{session},\"schema\":\"shop\",\"text\":\"{sql}\"}}\n"
            );
        }
        let context = paced(&text, 2.0, 2).unwrap();
        let recording = context.recording().unwrap();
        let of = |connection: usize| -> Vec<(u64, u64)> {
            let operations = recording.connections[connection].iter();
            operations.map(|one| (one.due_ns / 1000, one.number)).collect()
        };
        assert_eq!(of(0), [(0, 0), (1_000, 2), (2_000, 3)], "session 3 after session 1");
        assert_eq!(of(1), [(500, 1), (4_500, 4)]);
        assert_eq!(recording.length_ns, 4_500_500);
        let alone = paced(&text, 2.0, 1).unwrap().recording().unwrap();
        let times: Vec<(u64, u64, u64)> = alone.connections[0]
            .iter()
            .map(|one| (one.number, one.due_ns / 1000, one.release_ns / 1000))
            .collect();
        let waiting = [
            (0, 0, 0),
            (2, 1_000, 1_000),
            (1, 500, 1_000),
            (4, 4_500, 4_500),
            (3, 2_000, 4_500),
        ];
        assert_eq!(times, waiting, "sessions wait for a connection, and are whole");

        let mut work = CapturedWork::default();
        assert!(!work.is_of_another_session(&context, 0), "its connection is new");
        work.begin(&context, 0);
        assert!(!work.is_of_another_session(&context, 2));
        work.begin(&context, 2);
        assert_eq!(texts(&mut work, &context), ["SELECT @a"]);
        assert!(work.is_of_another_session(&context, 3), "session 3");
        assert!(work.is_of_another_session(&context, 0), "the capture begins again");
    }

    fn digests_of(statements: &[(&str, Option<u64>)]) -> (Vec<usize>, Vec<RecordedDigest>) {
        let mut digests = Digests::default();
        let numbers: Vec<usize> = statements
            .iter()
            .map(|(text, duration_us)| {
                digests.add(&Statement {
                    text: text.as_bytes().to_vec(),
                    duration_us: *duration_us,
                    ..Statement::default()
                })
            })
            .collect();
        let (renumbered, recorded) = digests.recorded();
        (numbers.into_iter().map(|number| renumbered[number]).collect(), recorded)
    }

    #[test]
    fn digests_are_ranked_by_the_time_that_they_took_or_else_by_their_number() {
        let names = |recorded: &[RecordedDigest]| recorded.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        let timed = [
            ("SELECT 1", Some(5)),
            ("SELECT a FROM t", Some(90)),
            ("SELECT 2", Some(6)),
        ];
        let (numbers, recorded) = digests_of(&timed);
        assert_eq!(
            (numbers, names(&recorded)),
            (vec![1, 0, 1], vec!["SELECT a FROM t".into(), "SELECT ?".into()])
        );
        assert_eq!(recorded[1].fingerprint, Some(fingerprint(b"SELECT ?")));
        let untimed = timed.map(|(text, _)| (text, None));
        assert_eq!(digests_of(&untimed).0, [0, 1, 0]);
    }

    #[test]
    fn of_many_digests_the_lightest_are_recorded_together() {
        let texts: Vec<String> = (0..MOST_DIGESTS + 3)
            .map(|one| format!("SELECT a FROM t{one}"))
            .collect();
        let statements: Vec<(&str, Option<u64>)> = (0..)
            .zip(&texts)
            .map(|(one, text)| (text.as_str(), Some(1000 - one)))
            .collect();
        let (numbers, recorded) = digests_of(&statements);
        assert_eq!(recorded.len(), MOST_DIGESTS + 1);
        assert_eq!(recorded[MOST_DIGESTS].name, "other (3 digests)");
        let expected: Vec<usize> = (0..MOST_DIGESTS).chain([MOST_DIGESTS; 3]).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn digests_that_differ_in_their_ends_alone_have_different_names() {
        let text = |end: &str| format!("SELECT a FROM t WHERE {}{end} = 1", "a_long_name = 1 AND ".repeat(5));
        let (one, other) = (text("b"), text("c"));
        let (_, recorded) = digests_of(&[(&one, None), (&other, None)]);
        let names: Vec<&str> = recorded.iter().map(|one| one.name.as_str()).collect();
        assert_ne!(names[0], names[1]);
        assert!(
            names.iter().all(|name| name.chars().count() <= NAME_LENGTH),
            "{names:?}"
        );
        assert_ne!(recorded[0].text, recorded[1].text);
    }
}
