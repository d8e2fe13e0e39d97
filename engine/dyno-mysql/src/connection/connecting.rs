//! How a connection goes through its connection phase, from the greeting to `Event::Ready`.

use super::{Connection, Phase};
use crate::compress::Compressor;
use crate::constants::command;
use crate::error::Error;
use crate::layers::Layers;
use crate::login::Action;
use crate::options::Compression;
use crate::packet::put_packet;
use crate::replies::{Detail, Kind, Step};

impl Connection {
    /// Goes on with the connection phase; true when it ends here.
    #[cold]
    pub(super) fn connect(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        while matches!(self.phase, Phase::Greeting | Phase::Authentication) {
            let Some(action) = self.login_packet(input)? else {
                return Ok(false);
            };
            self.act(action, input)?;
        }
        loop {
            if self.replies.outstanding() == 0 {
                let Some(sql) = self.options.init_statements.get(self.initialised) else {
                    break;
                };
                let sql = sql.clone();
                self.initialised += 1;
                self.command_unchecked(Kind::Text, Detail::Skip, command::QUERY, |out| {
                    out.extend_from_slice(sql.as_bytes())
                })?;
            }
            match self.step(input)?.0 {
                Step::NeedMore => return Ok(false),
                Step::Failed(error) => return Err(Error::Server(error)),
                _ => {}
            }
        }
        self.phase = Phase::Ready;
        self.replies.intake.longest = usize::MAX;
        Ok(true)
    }

    /// The next packet of the connection phase, if it is whole.
    fn login_packet(&mut self, input: &mut &[u8]) -> Result<Option<Action>, Error> {
        let intake = &mut self.replies.intake;
        let source = *input;
        let (place, source) = match &mut self.layers {
            Some(layers) => {
                layers.reclaim();
                if !input.is_empty() {
                    *input = &[];
                    self.counters.wire_bytes_in += source.len() as u64;
                    layers.feed(source, &mut self.counters)?;
                }
                (
                    intake.packet(&layers.plain, &mut layers.parsed, &mut self.counters)?,
                    layers.plain.as_slice(),
                )
            }
            None => {
                let mut position = 0;
                let place = intake.packet(source, &mut position, &mut self.counters)?;
                self.counters.wire_bytes_in += position as u64;
                self.counters.compressed_bytes_in += position as u64;
                *input = &source[position..];
                (place, source)
            }
        };
        let Some(place) = place else { return Ok(None) };
        let payload = intake.payload(&place, source);
        let login = self.login.get_or_insert_default();
        match self.phase {
            Phase::Greeting => login.greeting(&self.options, payload, &mut self.server).map(Some),
            _ => login.exchange(&self.options, payload).map(Some),
        }
    }

    fn act(&mut self, action: Action, input: &mut &[u8]) -> Result<(), Error> {
        match action {
            Action::Wait => Ok(()),
            Action::Send(payload) => {
                self.phase = Phase::Authentication;
                self.put_login(&payload)
            }
            Action::StartTls(request, answer) => {
                // Bytes that came before TLS must never be taken for bytes that came inside it.
                if !input.is_empty() {
                    return Err(Error::protocol("the server sent more than its greeting before TLS"));
                }
                self.phase = Phase::Authentication;
                self.put_login(&request)?;
                let tls = self
                    .options
                    .tls
                    .as_ref()
                    .map(|tls| tls.connect(&self.options.endpoint))
                    .transpose()?;
                self.layers().tls = tls.map(Box::new);
                self.put_login(&answer)
            }
            Action::Authenticated => {
                self.phase = Phase::Initialisation;
                self.login = None;
                let agreed = self.server.as_ref().map_or(0, |server| server.agreed);
                self.replies.configure(agreed);
                if self.options.compression != Compression::Off {
                    self.layers().compression = Some(Compressor::new(self.options.compression)?);
                }
                Ok(())
            }
        }
    }

    /// The layers, put in place when there were none: what was not sent yet goes out as it is, before them.
    fn layers(&mut self) -> &mut Layers {
        let out = &mut self.out;
        self.layers
            .get_or_insert_with(|| Box::new(Layers::before(std::mem::take(out))))
    }

    fn put_login(&mut self, payload: &[u8]) -> Result<(), Error> {
        let start = self.out.len();
        let packets = put_packet(&mut self.out, self.replies.intake.sequence, payload);
        self.replies.intake.sequence = self.replies.intake.sequence.wrapping_add(packets);
        self.seal(start, packets)
    }
}
