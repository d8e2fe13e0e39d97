//! The order and the times of what was found.

use std::collections::HashMap;

use crate::event::{Action, Event};
use crate::timestamp::Micros;

/// One second, µs.
pub const SECOND_US: u64 = 1_000_000;
/// The time of an event before the log's first time.
pub const UNKNOWN: Micros = Micros::MIN;

/// A clock that goes back by less is the disorder between threads; the events are sorted.
const DISORDER_US: Micros = 1_000_000;
/// A clock that was set back by more comes back slowly: one that is suddenly where it was had not been set back.
const SUDDEN_US: Micros = 60_000_000;

/// The clock of a log.
#[derive(Debug, Default)]
pub struct Clock {
    /// The last time.
    pub latest: Option<Micros>,
    /// What is added to the log's times since it was set back.
    correction: Micros,
    /// The log's last time, as it is in the log.
    written: Micros,
    /// The log's time before it was set back last.
    before: Option<Micros>,
}

impl Clock {
    /// The time of an entry; one without a time has that of the entry before.
    pub fn time(&mut self, written: Option<Micros>) -> Micros {
        self.latest = self.latest.max(written);
        written.or(self.latest).unwrap_or(UNKNOWN)
    }

    /// The same, where the entries are in the order of their times; and whether the clock was set back just before.
    pub fn corrected(&mut self, written: Option<Micros>) -> (Micros, bool) {
        let Some(written) = written else {
            // Before the log's first time: set when that is known.
            return (self.latest.unwrap_or(UNKNOWN), false);
        };
        let last = std::mem::replace(&mut self.written, written);
        if self
            .before
            .is_some_and(|before| last < before - SUDDEN_US && written >= before - DISORDER_US)
        {
            // Nobody set the clock: a line within a text looked like an entry.
            self.correction = 0;
            self.before = None;
        }
        let at = written.saturating_add(self.correction);
        let latest = *self.latest.get_or_insert(at);
        if at < latest - DISORDER_US {
            self.correction += latest - at;
            self.before = Some(last);
            return (latest, true);
        }
        self.latest = Some(latest.max(at));
        (at, false)
    }
}

/// An event with the log's time.
#[derive(Debug)]
pub struct Timed {
    /// By the log's clock.
    pub at: Micros,
    /// Whether later events of the same second have this time too.
    pub is_shared_second: bool,
    /// What happened; its own time is set last.
    pub event: Event,
}

/// What came before the log's first time happened just then.
pub fn date_first_events(events: &mut [Timed]) {
    let first = events.iter().find(|timed| timed.at != UNKNOWN);
    let (at, is_shared_second) = first.map_or((0, true), |timed| (timed.at, timed.is_shared_second));
    for timed in events.iter_mut().take_while(|timed| timed.at == UNKNOWN) {
        (timed.at, timed.is_shared_second) = (at, is_shared_second);
    }
}

/// Spreads what has the same time within a second evenly over the rest of it, in the order of the log. Returns whether
/// there was any, or a time of whole seconds.
pub fn spread(events: &mut [Timed]) -> bool {
    let mut is_any = false;
    let is_same = |left: &Timed, right: &Timed| left.at == right.at && left.is_shared_second && right.is_shared_second;
    for same in events.chunk_by_mut(is_same) {
        if !same[0].is_shared_second {
            continue;
        }
        let within = same[0].at.rem_euclid(SECOND_US as Micros);
        let count = same.len() as Micros;
        is_any |= count > 1 || within == 0;
        for (index, timed) in same.iter_mut().enumerate() {
            timed.at += index as Micros * (SECOND_US as Micros - within) / count;
        }
    }
    is_any
}

/// No event of a session is before an earlier one of the same session.
pub fn keep_order_of_sessions(events: &mut [Timed]) {
    let mut latest: HashMap<u32, Micros> = HashMap::new();
    for timed in events {
        let at = latest.entry(timed.event.session).or_insert(timed.at);
        *at = (*at).max(timed.at);
        timed.at = *at;
    }
}

/// Numbers the sessions from 1 in the order of their first events; returns how many there are.
pub fn number_by_first_event(events: &mut [Event]) -> u64 {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    for event in events {
        let next = numbers.len() as u32 + 1;
        event.session = *numbers.entry(event.session).or_insert(next);
    }
    numbers.len() as u64
}

/// How long it took; 0 where that is not known.
pub fn duration_us(event: &Event) -> u64 {
    match &event.action {
        Action::Statement(statement) => statement.duration_us.unwrap_or(0),
        _ => 0,
    }
}

/// When it ended.
pub fn end_us(event: &Event) -> u64 {
    event.at_us + duration_us(event)
}

/// The most sessions between their first and their last event at a time.
pub fn peak_sessions(events: &[Event]) -> u64 {
    let mut spans: HashMap<u32, (u64, u64)> = HashMap::new();
    for event in events {
        let span = spans.entry(event.session).or_insert((event.at_us, event.at_us));
        span.1 = span.1.max(end_us(event));
    }
    let mut edges: Vec<(u64, i64)> = spans
        .values()
        .flat_map(|span| [(span.0, 1), (span.1 + 1, -1)])
        .collect();
    edges.sort_unstable();
    let (mut open, mut peak) = (0, 0);
    for (_, change) in edges {
        open += change;
        peak = peak.max(open);
    }
    peak as u64
}
