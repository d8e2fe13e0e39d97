//! Cuts the stream into units (a line, a line with its data, a frame) without copying what arrives whole.

use crate::event::Error;

/// How long the unit at the start of some bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The unit is these many first bytes, and they are there.
    Complete(usize),
    /// At least these many bytes are needed to know more; more than are there.
    Bytes(usize),
    /// Bytes up to and with the next line feed are needed.
    Line,
}

/// A unit: still in the input, or held together from several inputs.
#[derive(Debug, Clone, Copy)]
pub enum Unit<'i> {
    /// In the input.
    Input(&'i [u8]),
    /// In [`Intake::held`].
    Held,
}

/// What is left of earlier inputs.
#[derive(Debug, Default)]
pub struct Intake {
    held: Vec<u8>,
    /// Whether the held unit was given out, so that its room is free again.
    spent: bool,
    /// Bytes to drop.
    skip: usize,
    /// How much of the CR LF behind the dropped bytes is still to come.
    trailer: u8,
}

impl Intake {
    /// Drops the next `data` bytes, and then CR LF where `trailer` says so.
    pub fn skip(&mut self, data: usize, trailer: bool) {
        self.skip = data;
        self.trailer = if trailer { 2 } else { 0 };
    }

    /// Drops what is to be dropped; false when more input is needed for that.
    ///
    /// # Errors
    /// When another byte stands where CR LF must.
    #[inline]
    pub fn skipped(&mut self, input: &mut &[u8], protocol: &'static str) -> Result<bool, Error> {
        let dropped = self.skip.min(input.len());
        *input = &input[dropped..];
        self.skip -= dropped;
        while self.skip == 0 && self.trailer > 0 {
            let Some((byte, rest)) = input.split_first() else {
                return Ok(false);
            };
            if *byte != b"\n\r"[usize::from(self.trailer) - 1] {
                return Err(Error::malformed(protocol, input));
            }
            self.trailer -= 1;
            *input = rest;
        }
        Ok(self.skip == 0)
    }

    /// The next unit; `None` when more input is needed.
    ///
    /// # Errors
    /// What `measure` says of the bytes.
    #[inline]
    pub fn unit<'i>(
        &mut self,
        input: &mut &'i [u8],
        mut measure: impl FnMut(&[u8]) -> Result<Measure, Error>,
    ) -> Result<Option<Unit<'i>>, Error> {
        if self.spent {
            self.held.clear();
            self.spent = false;
        }
        if self.held.is_empty() {
            if input.is_empty() {
                return Ok(None);
            }
            if let Measure::Complete(length) = measure(input)? {
                let (unit, rest) = input.split_at(length);
                *input = rest;
                return Ok(Some(Unit::Input(unit)));
            }
        }
        loop {
            let wanted = match measure(&self.held)? {
                Measure::Complete(_) => {
                    self.spent = true;
                    return Ok(Some(Unit::Held));
                }
                Measure::Bytes(total) => total - self.held.len(),
                Measure::Line => memchr::memchr(b'\n', input).map_or(usize::MAX, |position| position + 1),
            };
            let (taken, rest) = input.split_at(wanted.min(input.len()));
            self.held.extend_from_slice(taken);
            *input = rest;
            if taken.len() < wanted {
                // An unfinished line is measured here too, so that one without an end is refused in time.
                if wanted == usize::MAX {
                    measure(&self.held)?;
                }
                return Ok(None);
            }
        }
    }

    /// The bytes of a unit.
    #[inline]
    pub fn bytes<'s, 'i: 's>(&'s self, unit: Unit<'i>) -> &'s [u8] {
        match unit {
            Unit::Input(bytes) => bytes,
            Unit::Held => &self.held,
        }
    }
}
