//! One connection: requests into bytes, bytes into events, matched by their order.

use dyno_core::queue::Queue;

use crate::event::{Detail, Done, Error, Event, Status};
use crate::intake::{Intake, Measure};
use crate::request::{Arithmetic, Expected, Item, Kind, Protocol, Step, Store};
use crate::{binary, meta, text};

/// A connection without its socket.
#[derive(Debug)]
pub struct Connection {
    protocol: Protocol,
    out: Vec<u8>,
    sent: usize,
    expected: Queue<Expected>,
    intake: Intake,
    sequence: u32,
}

impl Connection {
    /// A new connection; memcached has no greeting.
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            out: Vec::new(),
            sent: 0,
            expected: Queue::default(),
            intake: Intake::default(),
            sequence: 0,
        }
    }

    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes to send.
    #[inline]
    pub fn outgoing(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// The socket took `count` of them.
    #[inline]
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
    }

    /// Requests whose reply is not complete.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.expected.len()
    }

    fn expect(&mut self, kind: Kind, detail: Detail, keys: u32) {
        self.expected.push_back(Expected {
            kind,
            detail,
            keys,
            hits: 0,
            complete: false,
        });
    }

    /// Asks for one value, and for its cas value where `cas`.
    ///
    /// # Errors
    /// [`Error::Key`].
    #[inline]
    pub fn get(&mut self, key: &[u8], cas: bool, detail: Detail) -> Result<(), Error> {
        check_key(key)?;
        match self.protocol {
            Protocol::Text => text::get(&mut self.out, key, cas),
            Protocol::Binary => binary::get(&mut self.out, key),
            Protocol::Meta => meta::get(&mut self.out, key, cas),
        }
        self.expect(Kind::Get, detail, 1);
        Ok(())
    }

    /// Asks for several values at once; the reply has those that are there.
    ///
    /// # Errors
    /// [`Error::Key`]; what was put into the output before stays there only as whole requests.
    pub fn multi_get<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, detail: Detail) -> Result<(), Error> {
        let start = self.out.len();
        let mut count = 0;
        if self.protocol == Protocol::Text {
            self.out.extend_from_slice(b"get");
        }
        for key in keys {
            if let Err(error) = check_key(key) {
                self.out.truncate(start);
                return Err(error);
            }
            match self.protocol {
                Protocol::Text => text::another_key(&mut self.out, key),
                Protocol::Binary => binary::quiet_get(&mut self.out, key),
                Protocol::Meta => meta::quiet_get(&mut self.out, key),
            }
            count += 1;
        }
        match self.protocol {
            Protocol::Text => self.out.extend_from_slice(b"\r\n"),
            Protocol::Binary => binary::noop(&mut self.out),
            Protocol::Meta => self.out.extend_from_slice(b"mn\r\n"),
        }
        self.expect(Kind::MultiGet, detail, count);
        Ok(())
    }

    /// Stores an item; a quiet request has a reply only when it fails, and none at all in text.
    ///
    /// # Errors
    /// [`Error::Key`].
    #[inline]
    pub fn store(&mut self, store: Store, item: &Item<'_>, quiet: bool) -> Result<(), Error> {
        check_key(item.key)?;
        let sequence = self.quiet(quiet);
        match self.protocol {
            Protocol::Text => text::store(&mut self.out, store, item, quiet),
            Protocol::Binary => binary::store(&mut self.out, store, item, sequence),
            Protocol::Meta => meta::store(&mut self.out, store, item, sequence),
        }
        if !quiet {
            self.expect(Kind::Store, Detail::Skip, 0);
        }
        Ok(())
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn delete(&mut self, key: &[u8], quiet: bool) -> Result<(), Error> {
        check_key(key)?;
        let sequence = self.quiet(quiet);
        match self.protocol {
            Protocol::Text => text::delete(&mut self.out, key, quiet),
            Protocol::Binary => binary::delete(&mut self.out, key, sequence),
            Protocol::Meta => meta::delete(&mut self.out, key, sequence),
        }
        if !quiet {
            self.expect(Kind::Delete, Detail::Skip, 0);
        }
        Ok(())
    }

    /// Counts an item up or down; one that is not there stays so.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn arithmetic(&mut self, operation: Arithmetic, key: &[u8], delta: u64, quiet: bool) -> Result<(), Error> {
        check_key(key)?;
        let sequence = self.quiet(quiet);
        match self.protocol {
            Protocol::Text => text::arithmetic(&mut self.out, operation, key, delta, quiet),
            Protocol::Binary => binary::arithmetic(&mut self.out, operation, key, delta, sequence),
            Protocol::Meta => meta::arithmetic(&mut self.out, operation, key, delta, sequence),
        }
        if !quiet {
            self.expect(Kind::Arithmetic, Detail::Skip, 0);
        }
        Ok(())
    }

    /// Gives an item a new time to live.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn touch(&mut self, key: &[u8], ttl_s: u32) -> Result<(), Error> {
        check_key(key)?;
        match self.protocol {
            Protocol::Text => text::touch(&mut self.out, key, ttl_s),
            Protocol::Binary => binary::touch(&mut self.out, key, ttl_s),
            Protocol::Meta => meta::touch(&mut self.out, key, ttl_s),
        }
        self.expect(Kind::Touch, Detail::Skip, 0);
        Ok(())
    }

    /// Forgets every item. The InnoDB plugin truncates its table for that, where the policy says so.
    pub fn flush_all(&mut self) {
        match self.protocol {
            Protocol::Text | Protocol::Meta => self.out.extend_from_slice(b"flush_all\r\n"),
            Protocol::Binary => binary::flush_all(&mut self.out),
        }
        self.expect(Kind::Flush, Detail::Skip, 0);
    }

    /// Asks for statistics: the general ones with an empty `group`.
    ///
    /// # Errors
    /// [`Error::Key`] for a group with spaces or control characters.
    pub fn stats(&mut self, group: &[u8]) -> Result<(), Error> {
        if !group.is_empty() {
            check_key(group)?;
        }
        match self.protocol {
            Protocol::Text | Protocol::Meta => text::stats(&mut self.out, group),
            Protocol::Binary => binary::stats(&mut self.out, group),
        }
        self.expect(Kind::Stats, Detail::Deliver, 0);
        Ok(())
    }

    /// Asks for the version.
    pub fn version(&mut self) {
        match self.protocol {
            Protocol::Text | Protocol::Meta => self.out.extend_from_slice(b"version\r\n"),
            Protocol::Binary => binary::version(&mut self.out),
        }
        self.expect(Kind::Version, Detail::Deliver, 0);
    }

    /// Asks for nothing; its reply proves that the server has worked off everything before. Text has no such command: the
    /// version stands in.
    pub fn noop(&mut self) {
        match self.protocol {
            Protocol::Text => self.out.extend_from_slice(b"version\r\n"),
            Protocol::Binary => binary::noop(&mut self.out),
            Protocol::Meta => self.out.extend_from_slice(b"mn\r\n"),
        }
        self.expect(Kind::Noop, Detail::Skip, 0);
    }

    /// The number that a quiet request carries, so that its failure can be told from another's reply.
    fn quiet(&mut self, quiet: bool) -> Option<u32> {
        quiet.then(|| {
            self.sequence = self.sequence.wrapping_add(1);
            self.sequence
        })
    }

    /// The next event in `input`, which is moved on; `None` when it is used up.
    ///
    /// # Errors
    /// [`Error::Malformed`]: the connection is of no more use.
    #[inline]
    pub fn advance<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Event<'s>>, Error> {
        let protocol = self.protocol;
        let (unit, step) = loop {
            if !self.intake.skipped(input, protocol.name())? {
                return Ok(None);
            }
            if self.expected.front().is_some_and(|front| front.complete) {
                return Ok(self.finish(Status::Success));
            }
            let expected = self.expected.front().copied();
            let measure = |bytes: &[u8]| -> Result<Measure, Error> {
                match protocol {
                    Protocol::Text => text::measure(expected.as_ref(), bytes),
                    Protocol::Binary => binary::measure(expected.as_ref(), bytes),
                    Protocol::Meta => meta::measure(expected.as_ref(), bytes),
                }
            };
            let Some(unit) = self.intake.unit(input, measure)? else {
                return Ok(None);
            };
            let bytes = self.intake.bytes(unit);
            let step = match protocol {
                Protocol::Text => text::interpret(expected.as_ref(), bytes),
                Protocol::Binary => binary::interpret(expected.as_ref(), bytes),
                Protocol::Meta => meta::interpret(expected.as_ref(), bytes),
            }?;
            let Step::Skip { data, trailer, last } = step else {
                break (unit, step);
            };
            self.hit(last);
            self.intake.skip(data, trailer);
        };
        match &step {
            Step::Value { last, .. } => self.hit(*last),
            Step::Version(_) => self.complete(),
            Step::Done(status) => return Ok(self.finish(*status)),
            Step::Failed(_) => {
                self.expected.pop_front();
            }
            Step::Stat { .. } | Step::QuietFailed(_) | Step::Skip { .. } => {}
        }
        let bytes = self.intake.bytes(unit);
        Ok(match step {
            Step::Value {
                key, flags, cas, data, ..
            } => Some(Event::Value {
                key: &bytes[key],
                flags,
                cas,
                data: &bytes[data],
            }),
            Step::Stat { name, value } => Some(Event::Stat {
                name: &bytes[name],
                value: &bytes[value],
            }),
            Step::Version(range) => Some(Event::Version(&bytes[range])),
            Step::Failed(error) => Some(Event::Failed(error)),
            Step::QuietFailed(status) => Some(Event::QuietFailed(status)),
            Step::Done(_) | Step::Skip { .. } => None,
        })
    }

    fn hit(&mut self, last: bool) {
        if let Some(front) = self.expected.front_mut() {
            front.hits += 1;
            front.complete = last;
        }
    }

    fn complete(&mut self) {
        if let Some(front) = self.expected.front_mut() {
            front.complete = true;
        }
    }

    fn finish(&mut self, status: Status) -> Option<Event<'static>> {
        let front = self.expected.pop_front()?;
        Some(Event::Done(Done {
            status,
            hits: front.hits,
            keys: front.keys,
        }))
    }

    /// What the end of the stream means: an error while replies are due.
    pub fn end_of_input(&self) -> Option<Error> {
        let outstanding = self.outstanding();
        (outstanding > 0).then_some(Error::Closed { outstanding })
    }
}

/// Longest key that memcached takes.
const LONGEST_KEY: usize = 250;

#[inline]
fn check_key(key: &[u8]) -> Result<(), Error> {
    // Without an early exit, so that the compiler can look at many bytes at a time.
    let control = key
        .iter()
        .fold(false, |found, byte| found | (*byte <= b' ') | (*byte == 0x7f));
    if control || key.is_empty() || key.len() > LONGEST_KEY {
        return Err(wrong_key(key, control));
    }
    Ok(())
}

#[cold]
fn wrong_key(key: &[u8], control: bool) -> Error {
    Error::Key {
        length: key.len(),
        problem: if control {
            " with a space or control character"
        } else {
            ""
        },
    }
}
