//! The server's replies: which packet means what, one command after another.
//! Source: the MySQL manual's source documentation, "COM_QUERY Response" and "COM_STMT_PREPARE Response".

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::constants::{capability, status, MAX_PACKET_PAYLOAD};
use crate::counters::Counters;
use crate::error::{Error, ServerError};
use crate::intake::{Intake, Place, Skipped, END_MARKER, ERROR_MARKER};
use crate::packet::Reader;
use crate::resultset::{Column, Done, Metadata, Statement};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Columns { left: u64 },
    ColumnsEnd,
    Rows,
    Parameters { left: u64 },
    ParametersEnd,
    PreparedColumns { left: u64 },
    PreparedColumnsEnd,
    PrepareDone,
}

/// What one step found.
#[derive(Debug)]
pub(crate) enum Step {
    NeedMore,
    Columns,
    Row { place: Place, binary: bool },
    Done(Done),
    Prepared(Statement),
    Failed(ServerError),
}

/// The state of all outstanding replies.
#[derive(Debug)]
pub(crate) struct Replies {
    pub intake: Intake,
    pub columns: Arc<Vec<Column>>,
    pending: VecDeque<Pending>,
    stage: Stage,
    deprecate_eof: bool,
    cache_metadata: bool,
    result: Done,
    started_at_bytes: u64,
    building: Vec<Column>,
    statement: Option<Statement>,
}

impl Replies {
    pub fn new() -> Replies {
        Replies {
            intake: Intake::new(),
            columns: Arc::default(),
            pending: VecDeque::new(),
            stage: Stage::First,
            deprecate_eof: false,
            cache_metadata: false,
            result: Done::default(),
            started_at_bytes: 0,
            building: Vec::new(),
            statement: None,
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

    /// Reads on until something is to be told, or `source` is used up from `position` on.
    pub fn step(&mut self, source: &[u8], position: &mut usize, counters: &mut Counters) -> Result<Step, Error> {
        loop {
            let Some(current) = self.pending.front() else {
                return self.unasked(source, position, counters);
            };
            let skips = current.detail == Detail::Skip && current.metadata.is_none();
            match self.stage {
                Stage::Columns { left } | Stage::PreparedColumns { left } if !skips && left > 0 => {
                    let Some(place) = self.intake.packet(source, position, counters)? else {
                        return Ok(Step::NeedMore);
                    };
                    let payload = self.intake.payload(&place, source);
                    if payload.first() == Some(&ERROR_MARKER) {
                        let error = server_error(payload)?;
                        return Ok(self.fail(error, counters));
                    }
                    self.building.push(Column::parse(payload)?);
                    if let Some(step) = self.columns_left(left - 1) {
                        return Ok(step);
                    }
                }
                Stage::Columns { left } | Stage::PreparedColumns { left } | Stage::Parameters { left } => {
                    let mut count = 0;
                    let skipped = self.intake.skip(source, position, counters, &mut count, left)?;
                    let left = left - count;
                    match skipped {
                        Skipped::Enough => {
                            self.columns_left(0);
                        }
                        Skipped::NeedMore => {
                            // A packet counted above may still be in the middle of its bytes: `skip` goes on with it.
                            self.keep_left(left);
                            return Ok(Step::NeedMore);
                        }
                        Skipped::Marker => {
                            self.keep_left(left);
                            return self.error_only(source, position, counters);
                        }
                    }
                }
                Stage::ColumnsEnd | Stage::ParametersEnd | Stage::PreparedColumnsEnd => {
                    let Some(place) = self.intake.packet(source, position, counters)? else {
                        return Ok(Step::NeedMore);
                    };
                    let payload = self.intake.payload(&place, source);
                    match payload.first() {
                        Some(&END_MARKER) if payload.len() < 9 => {}
                        Some(&ERROR_MARKER) => {
                            let error = server_error(payload)?;
                            return Ok(self.fail(error, counters));
                        }
                        _ => return Err(Error::protocol("no EOF packet after the column definitions")),
                    }
                    if let Some(step) = self.after_end() {
                        return Ok(step);
                    }
                }
                Stage::Rows => {
                    if current.detail == Detail::Skip {
                        let mut rows = 0;
                        let skipped = self.intake.skip(source, position, counters, &mut rows, u64::MAX)?;
                        self.result.rows += rows;
                        if skipped != Skipped::Marker {
                            return Ok(Step::NeedMore);
                        }
                    }
                    return self.row(source, position, counters);
                }
                Stage::First => {
                    let Some(place) = self.intake.packet(source, position, counters)? else {
                        return Ok(Step::NeedMore);
                    };
                    if let Some(step) = self.first(&place, source, counters)? {
                        return Ok(step);
                    }
                }
                Stage::PrepareDone => return Ok(self.prepared(counters)),
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
                "{} bytes came though no reply was due",
                payload.len()
            ))),
        }
    }

    /// A packet that can only be an error.
    fn error_only(&mut self, source: &[u8], position: &mut usize, counters: &mut Counters) -> Result<Step, Error> {
        let Some(place) = self.intake.packet(source, position, counters)? else {
            return Ok(Step::NeedMore);
        };
        let payload = self.intake.payload(&place, source);
        match payload.first() {
            Some(&ERROR_MARKER) => {
                let error = server_error(payload)?;
                Ok(self.fail(error, counters))
            }
            _ => Err(Error::protocol(
                "the column definitions end before their number is reached",
            )),
        }
    }

    fn first(&mut self, place: &Place, source: &[u8], counters: &mut Counters) -> Result<Option<Step>, Error> {
        let payload = self.intake.payload(place, source);
        let prepare = self.pending[0].kind == Kind::Prepare;
        match payload.first() {
            None => Err(Error::protocol("an empty packet where a reply belongs")),
            Some(&ERROR_MARKER) => {
                let error = server_error(payload)?;
                Ok(Some(self.fail(error, counters)))
            }
            Some(0) if prepare => {
                let mut reader = Reader::new(&payload[1..]);
                let id = reader.u32("statement number")?;
                let (columns, parameters) = (reader.u16("column count")?, reader.u16("parameter count")?);
                self.statement = Some(Statement {
                    id,
                    parameters,
                    columns,
                    types: Vec::new(),
                    metadata: None,
                });
                self.building.clear();
                self.stage = Stage::Parameters {
                    left: parameters as u64,
                };
                if parameters == 0 {
                    self.columns_left(0);
                }
                Ok(None)
            }
            Some(0) => {
                let result = ok(payload)?;
                Ok(Some(self.finish(result, counters)))
            }
            Some(0xfb) => Err(Error::protocol(
                "the server asks for a local file, which was never offered",
            )),
            Some(_) if prepare => Err(Error::protocol("the reply to a prepare is neither OK nor an error")),
            Some(_) => {
                let mut reader = Reader::new(payload);
                let count = reader.length_encoded("column count")?;
                let follows = !self.cache_metadata || reader.u8("flag of following metadata")? != 0;
                if count > u16::MAX as u64 {
                    return Err(Error::protocol(format!("a result set of {count} columns")));
                }
                self.begin_rows(count, follows)
            }
        }
    }

    /// The header of a result set is past.
    fn begin_rows(&mut self, count: u64, follows: bool) -> Result<Option<Step>, Error> {
        self.result = Done {
            columns: count,
            ..Done::default()
        };
        self.building.clear();
        if follows {
            self.stage = Stage::Columns { left: count };
            return Ok(None);
        }
        let current = &self.pending[0];
        if current.detail == Detail::Rows {
            let known = current
                .metadata
                .as_ref()
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
        if !self.deprecate_eof {
            self.stage = Stage::ColumnsEnd;
            return Ok(None);
        }
        self.stage = Stage::Rows;
        Ok((current.detail == Detail::Rows).then_some(Step::Columns))
    }

    fn keep_left(&mut self, still: u64) {
        match &mut self.stage {
            Stage::Columns { left } | Stage::Parameters { left } | Stage::PreparedColumns { left } => *left = still,
            _ => {}
        }
    }

    /// Goes on after a definition when `left` more of them follow.
    fn columns_left(&mut self, left: u64) -> Option<Step> {
        if left > 0 {
            self.keep_left(left);
            return None;
        }
        let none = match self.stage {
            Stage::Parameters { .. } => {
                self.stage = Stage::ParametersEnd;
                self.statement
                    .as_ref()
                    .is_none_or(|statement| statement.parameters == 0)
            }
            Stage::PreparedColumns { .. } => {
                self.stage = Stage::PreparedColumnsEnd;
                self.statement.as_ref().is_none_or(|statement| statement.columns == 0)
            }
            _ => {
                self.stage = Stage::ColumnsEnd;
                false
            }
        };
        // Without definitions a prepare has no EOF either.
        if none || self.deprecate_eof {
            return self.after_end();
        }
        None
    }

    /// Goes on after all definitions of a kind and their EOF.
    fn after_end(&mut self) -> Option<Step> {
        match self.stage {
            Stage::ParametersEnd => {
                let columns = self.statement.as_ref().map_or(0, |statement| statement.columns);
                self.stage = Stage::PreparedColumns { left: columns as u64 };
                if columns == 0 {
                    return self.columns_left(0);
                }
                None
            }
            Stage::PreparedColumnsEnd => {
                self.stage = Stage::PrepareDone;
                None
            }
            _ => {
                self.stage = Stage::Rows;
                let current = &self.pending[0];
                // Not built when the server left the definitions out.
                if !self.building.is_empty() {
                    let columns = Arc::new(std::mem::take(&mut self.building));
                    if let Some(held) = &current.metadata {
                        if let Ok(mut held) = held.lock() {
                            *held = columns.clone();
                        }
                    }
                    self.columns = columns;
                }
                (current.detail == Detail::Rows).then_some(Step::Columns)
            }
        }
    }

    /// One row, or the end of them.
    fn row(&mut self, source: &[u8], position: &mut usize, counters: &mut Counters) -> Result<Step, Error> {
        let Some(place) = self.intake.packet(source, position, counters)? else {
            return Ok(Step::NeedMore);
        };
        let payload = self.intake.payload(&place, source);
        match payload.first() {
            None => Err(Error::protocol("an empty packet where a row belongs")),
            Some(&ERROR_MARKER) => {
                let error = server_error(payload)?;
                Ok(self.fail(error, counters))
            }
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
                    binary: self.pending[0].kind == Kind::Binary,
                })
            }
        }
    }

    fn finish(&mut self, mut result: Done, counters: &Counters) -> Step {
        result.bytes = counters.raw_bytes_in - self.started_at_bytes;
        self.started_at_bytes = counters.raw_bytes_in;
        self.stage = Stage::First;
        self.result = Done::default();
        if !result.more_results {
            self.next_command();
        }
        Step::Done(result)
    }

    fn fail(&mut self, error: ServerError, counters: &Counters) -> Step {
        self.started_at_bytes = counters.raw_bytes_in;
        self.stage = Stage::First;
        self.result = Done::default();
        self.statement = None;
        self.next_command();
        Step::Failed(error)
    }

    fn prepared(&mut self, counters: &Counters) -> Step {
        self.started_at_bytes = counters.raw_bytes_in;
        self.stage = Stage::First;
        let rows = self.pending[0].detail == Detail::Rows;
        self.next_command();
        let mut statement = self.statement.take().unwrap_or(Statement {
            id: 0,
            parameters: 0,
            columns: 0,
            types: Vec::new(),
            metadata: None,
        });
        if rows {
            let columns = Arc::new(std::mem::take(&mut self.building));
            statement.metadata = Some(Arc::new(Mutex::new(columns)));
        }
        Step::Prepared(statement)
    }

    fn next_command(&mut self) {
        self.pending.pop_front();
        if let Some(next) = self.pending.front() {
            self.intake.sequence = next.sequence;
        }
    }
}

/// Takes an OK packet apart (also one with the end marker, in the place of an EOF).
pub(crate) fn ok(payload: &[u8]) -> Result<Done, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let affected_rows = reader.length_encoded("affected rows")?;
    let last_insert_id = reader.length_encoded("last insert id")?;
    let status = reader.u16("status")?;
    let warnings = reader.u16("warnings")?;
    let more_results = status & status::MORE_RESULTS != 0;
    Ok(Done {
        affected_rows,
        last_insert_id,
        status,
        warnings,
        more_results,
        ..Done::default()
    })
}

/// An EOF packet has 5 bytes, an OK in its place at least 7.
fn end_of_rows(payload: &[u8]) -> Result<Done, Error> {
    if payload.len() >= 7 {
        return ok(payload);
    }
    let mut reader = Reader::new(&payload[1..]);
    let warnings = reader.u16("warnings")?;
    let status = reader.u16("status")?;
    Ok(Done {
        warnings,
        status,
        more_results: status & status::MORE_RESULTS != 0,
        ..Done::default()
    })
}

/// Takes an error packet apart; before the handshake it has no SQL state.
pub(crate) fn server_error(payload: &[u8]) -> Result<ServerError, Error> {
    let mut reader = Reader::new(&payload[1..]);
    let code = reader.u16("error code")?;
    let rest = reader.rest();
    let (sql_state, message) = match rest {
        [b'#', state @ ..] if state.len() >= 5 => ([state[0], state[1], state[2], state[3], state[4]], &state[5..]),
        message => (*b"HY000", message),
    };
    Ok(ServerError {
        code,
        sql_state,
        message: String::from_utf8_lossy(message).into_owned(),
    })
}
