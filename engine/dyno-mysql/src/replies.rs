//! The server's replies: which packet means what, one command after another.
//! Source: the MySQL manual's source documentation, "COM_QUERY Response" and "COM_STMT_PREPARE Response".

use std::sync::{Arc, Mutex};

use dyno_core::queue::Queue;
use smallvec::SmallVec;

use crate::constants::{capability, MAX_PACKET_PAYLOAD};
use crate::error::{Error, ServerError};
use crate::intake::{Intake, PayloadLocation, Skipped, END_MARKER, ERROR_MARKER};
use crate::layers::Counters;
use crate::packet::Reader;
use crate::resultset::{end_of_rows, ok, server_error, Column, Definitions, Done, Metadata, Statement};

/// How far rows are looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Rows and bytes are counted; nothing is decoded, copied or allocated.
    Skip,
    /// `Event::Columns` and an `Event::Row` for each row.
    Rows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// OK, an error, or text result sets.
    Text,
    /// OK, an error, or binary result sets.
    Binary,
    /// The reply to COM_STMT_PREPARE.
    Prepare,
}

/// A command whose reply is to come.
#[derive(Debug)]
pub(crate) struct Pending {
    pub kind: Kind,
    pub detail: Detail,
    /// The sequence number of the reply's first packet.
    pub sequence: u8,
    pub metadata: Option<Metadata>,
}

/// What column definitions are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Parameters,
    Prepared,
    Rows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Definitions { of: Of, left: u64 },
    DefinitionsEnd { of: Of },
    Rows,
}

/// What one step found.
#[derive(Debug)]
pub(crate) enum Step {
    NeedMore,
    Columns,
    Row { place: PayloadLocation, binary: bool },
    Done(Done),
    Prepared(Statement),
    Failed(ServerError),
}

/// The state of all outstanding replies.
#[derive(Debug)]
pub(crate) struct Replies {
    pub intake: Intake,
    pub columns: Arc<Vec<Column>>,
    /// The commands without a whole reply.
    pending: Queue<Pending>,
    stage: Stage,
    deprecate_eof: bool,
    cache_metadata: bool,
    result: Done,
    started_at_bytes: u64,
    rare: Box<Rare>,
}

/// What statements are prepared with, and not executed: kept out of the way of what each reply touches.
#[derive(Debug, Default)]
struct Rare {
    /// Definitions that have come so far.
    building: Definitions,
    /// The statement that is being prepared.
    statement: Statement,
}

impl Replies {
    pub fn new() -> Replies {
        Replies {
            intake: Intake::new(),
            columns: Arc::default(),
            pending: Queue::default(),
            stage: Stage::First,
            deprecate_eof: false,
            cache_metadata: false,
            result: Done::default(),
            started_at_bytes: 0,
            rare: Box::default(),
        }
    }

    /// Learns what was agreed on in the connection phase.
    pub fn configure(&mut self, agreed: u64) {
        self.deprecate_eof = agreed & capability::DEPRECATE_EOF != 0;
        self.cache_metadata = agreed & capability::MARIADB_CACHE_METADATA != 0;
        self.intake.end_limit = if self.deprecate_eof { MAX_PACKET_PAYLOAD } else { 9 };
        self.intake.check_sequence = agreed & (capability::COMPRESS | capability::ZSTD_COMPRESSION) == 0;
    }

    pub fn caches_metadata(&self) -> bool {
        self.cache_metadata
    }

    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    #[inline]
    pub fn expect(&mut self, pending: Pending) {
        if self.pending.is_empty() {
            self.intake.sequence = pending.sequence;
        }
        self.pending.push_back(pending);
    }

    fn is_of(&self, kind: Kind) -> bool {
        self.pending.front().is_some_and(|current| current.kind == kind)
    }

    fn wants_rows(&self) -> bool {
        self.pending
            .front()
            .is_some_and(|current| current.detail == Detail::Rows)
    }

    /// The columns that the current command's statement was prepared with.
    fn metadata(&self) -> Option<&Metadata> {
        self.pending.front()?.metadata.as_ref()
    }

    /// Reads on until something is to be told, or `source` is used up from `position` on.
    pub fn step(&mut self, source: &[u8], position: &mut usize, counters: &mut Counters) -> Result<Step, Error> {
        loop {
            let Some(current) = self.pending.front() else {
                return self.unasked(source, position, counters);
            };
            if self.stage == Stage::Rows && current.detail == Detail::Skip {
                let rows = &mut self.result.rows;
                if self.intake.skip(source, position, counters, rows, u64::MAX)? != Skipped::Marker {
                    return Ok(Step::NeedMore);
                }
            }
            if let Stage::Definitions { of, left } = self.stage {
                if let Some(step) = self.definitions(of, left, source, position, counters)? {
                    return Ok(step);
                }
                continue;
            }
            let Some(place) = self.intake.packet(source, position, counters)? else {
                return Ok(Step::NeedMore);
            };
            let payload = self.intake.payload(&place, source);
            if payload.first() == Some(&ERROR_MARKER) {
                let error = server_error(payload)?;
                return Ok(self.fail(error, counters));
            }
            let step = match self.stage {
                Stage::Rows => return self.row(place, source, counters),
                Stage::DefinitionsEnd { of } if payload.len() < 9 && payload.first() == Some(&END_MARKER) => {
                    self.past_definitions(of, counters)
                }
                Stage::DefinitionsEnd { .. } => {
                    return Err(Error::protocol("no EOF packet after the column definitions"))
                }
                _ => self.first(&place, source, counters)?,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// A packet when no reply is due: only an error (killed, idle too long, shutting down) makes sense.
    fn unasked(&mut self, source: &[u8], position: &mut usize, counters: &mut Counters) -> Result<Step, Error> {
        if *position == source.len() {
            return Ok(Step::NeedMore);
        }
        let Some(place) = self.intake.packet(source, position, counters)? else {
            return Ok(Step::NeedMore);
        };
        let payload = self.intake.payload(&place, source);
        match payload.first() {
            Some(&ERROR_MARKER) => Err(Error::Server(server_error(payload)?)),
            _ => Err(Error::protocol(format!(
                "{} bytes arrived although no reply was due",
                payload.len()
            ))),
        }
    }

    /// The first packet of a reply or of a further result, when it is not an error.
    fn first(&mut self, place: &PayloadLocation, source: &[u8], counters: &Counters) -> Result<Option<Step>, Error> {
        let payload = self.intake.payload(place, source);
        let prepare = self.is_of(Kind::Prepare);
        match payload.first() {
            None => Err(Error::protocol("an empty packet where a reply belongs")),
            Some(0) if prepare => {
                let mut reader = Reader::new(&payload[1..]);
                let id = reader.u32("statement number")?;
                let (columns, parameters) = (reader.u16("column count")?, reader.u16("parameter count")?);
                self.rare.statement = Statement {
                    id,
                    parameters,
                    columns,
                    types: SmallVec::new(),
                    metadata: None,
                };
                Ok(self.begin_definitions(Of::Parameters, parameters as u64, counters))
            }
            Some(_) if prepare => Err(Error::protocol("the reply to a prepare is neither OK nor an error")),
            Some(0) => {
                let result = ok(payload)?;
                Ok(Some(self.finish(result, counters)))
            }
            Some(0xfb) => Err(Error::protocol(
                "the server requests a local file, which was not offered",
            )),
            Some(_) => {
                let mut reader = Reader::new(payload);
                let count = reader.length_encoded("column count")?;
                let follows = !self.cache_metadata || reader.u8("flag of following metadata")? != 0;
                if count > u16::MAX as u64 {
                    return Err(Error::protocol(format!("a result set of {count} columns")));
                }
                self.result = Done {
                    columns: count,
                    ..Done::default()
                };
                match follows {
                    true => Ok(self.begin_definitions(Of::Rows, count, counters)),
                    false => self.use_known_columns(count, counters),
                }
            }
        }
    }

    /// A result set whose definitions the server leaves out, because the statement has them.
    fn use_known_columns(&mut self, count: u64, counters: &Counters) -> Result<Option<Step>, Error> {
        self.rare.building.clear();
        if self.wants_rows() {
            let known = self
                .metadata()
                .and_then(|held| held.lock().ok().map(|held| held.clone()));
            self.columns = known.ok_or_else(|| Error::protocol("columns left out that were never sent"))?;
            if self.columns.len() as u64 != count {
                return Err(Error::protocol(format!(
                    "{count} columns where {} were prepared",
                    self.columns.len()
                )));
            }
        }
        // The EOF that ends the definitions comes even when there are none.
        Ok(self.end_definitions(Of::Rows, counters))
    }

    fn begin_definitions(&mut self, of: Of, count: u64, counters: &Counters) -> Option<Step> {
        self.rare.building.clear();
        self.stage = Stage::Definitions { of, left: count };
        // Without definitions there is no EOF after them either.
        match count {
            0 => self.past_definitions(of, counters),
            _ => None,
        }
    }

    /// Takes or skips definitions, `left` of them.
    fn definitions(
        &mut self,
        of: Of,
        mut left: u64,
        source: &[u8],
        position: &mut usize,
        counters: &mut Counters,
    ) -> Result<Option<Step>, Error> {
        let wanted = of != Of::Parameters && (self.wants_rows() || self.metadata().is_some());
        if !wanted {
            let mut count = 0;
            let skipped = self.intake.skip(source, position, counters, &mut count, left)?;
            left -= count;
            self.stage = Stage::Definitions { of, left };
            match skipped {
                // The last one counted may be in the middle of its bytes; `skip` knows, and goes on with it.
                Skipped::NeedMore => return Ok(Some(Step::NeedMore)),
                Skipped::Enough => return Ok(self.end_definitions(of, counters)),
                Skipped::Marker => {}
            }
        }
        let Some(place) = self.intake.packet(source, position, counters)? else {
            return Ok(Some(Step::NeedMore));
        };
        let payload = self.intake.payload(&place, source);
        if payload.first() == Some(&ERROR_MARKER) {
            let error = server_error(payload)?;
            return Ok(Some(self.fail(error, counters)));
        }
        if payload.first() == Some(&END_MARKER) && payload.len() < 9 && of != Of::Rows && !self.deprecate_eof {
            // MySQL before 8.0.38 and 8.4.1 sends fewer than it announces where ORDER BY has a `?`.
            return Ok(self.past_definitions(of, counters));
        }
        if !wanted {
            return Err(Error::protocol("the definitions end before their number is reached"));
        }
        self.rare.building.push(payload)?;
        self.stage = Stage::Definitions { of, left: left - 1 };
        let is_last = left == 1;
        Ok(is_last.then(|| self.end_definitions(of, counters)).flatten())
    }

    fn end_definitions(&mut self, of: Of, counters: &Counters) -> Option<Step> {
        if self.deprecate_eof {
            return self.past_definitions(of, counters);
        }
        self.stage = Stage::DefinitionsEnd { of };
        None
    }

    fn past_definitions(&mut self, of: Of, counters: &Counters) -> Option<Step> {
        match of {
            Of::Parameters => self.begin_definitions(Of::Prepared, self.rare.statement.columns as u64, counters),
            Of::Prepared => Some(self.prepared(counters)),
            Of::Rows => {
                self.stage = Stage::Rows;
                // Nothing was built when the definitions were skipped or left out.
                if !self.rare.building.is_empty() {
                    self.columns = Arc::new(self.rare.building.take());
                    if let Some(mut held) = self.metadata().and_then(|held| held.lock().ok()) {
                        *held = self.columns.clone();
                    }
                }
                self.wants_rows().then_some(Step::Columns)
            }
        }
    }

    /// One row, or the end of them.
    fn row(&mut self, place: PayloadLocation, source: &[u8], counters: &Counters) -> Result<Step, Error> {
        let payload = self.intake.payload(&place, source);
        match payload.first() {
            None => Err(Error::protocol("an empty packet where a row belongs")),
            Some(&END_MARKER) if payload.len() < self.intake.end_limit => {
                let end = end_of_rows(payload)?;
                let result = Done {
                    rows: self.result.rows,
                    columns: self.result.columns,
                    ..end
                };
                Ok(self.finish(result, counters))
            }
            Some(_) => {
                self.result.rows += 1;
                Ok(Step::Row {
                    place,
                    binary: self.is_of(Kind::Binary),
                })
            }
        }
    }

    fn finish(&mut self, mut result: Done, counters: &Counters) -> Step {
        result.bytes = counters.raw_bytes_in - self.started_at_bytes;
        self.over(result.more_results, counters);
        Step::Done(result)
    }

    fn fail(&mut self, error: ServerError, counters: &Counters) -> Step {
        self.over(false, counters);
        Step::Failed(error)
    }

    fn prepared(&mut self, counters: &Counters) -> Step {
        let mut statement = std::mem::take(&mut self.rare.statement);
        if self.wants_rows() {
            let columns = Arc::new(self.rare.building.take());
            statement.metadata = Some(Arc::new(Mutex::new(columns)));
        }
        self.over(false, counters);
        Step::Prepared(statement)
    }

    /// A result is over; its command too, unless more results follow.
    fn over(&mut self, more_results: bool, counters: &Counters) {
        self.started_at_bytes = counters.raw_bytes_in;
        self.stage = Stage::First;
        self.result = Done::default();
        if !more_results {
            self.pending.pop_front();
            if let Some(next) = self.pending.front() {
                self.intake.sequence = next.sequence;
            }
        }
    }
}
