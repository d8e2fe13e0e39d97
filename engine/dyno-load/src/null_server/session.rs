//! One peer of the null server: takes packets, makes answers.

use super::answers::{self, Shape};

/// Longest packet that is taken; the workloads' are below 100 KB.
const LONGEST_PACKET: usize = 1 << 20;
const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// A peer's state.
#[derive(Debug)]
pub struct Session {
    /// Bytes to be sent.
    pub output: Vec<u8>,
    input: Vec<u8>,
    logged_in: bool,
    statements: Vec<Shape>,
}

impl Session {
    /// A new peer: the greeting is in the output.
    pub fn start(connection: u32) -> Self {
        let mut output = Vec::with_capacity(256);
        answers::greeting(&mut output, connection);
        Self {
            output,
            input: Vec::new(),
            logged_in: false,
            statements: Vec::new(),
        }
    }

    /// Takes bytes and puts the answers into the output; false when the peer is to be dropped.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        // Whole packets are the rule: only a cut one is kept.
        if self.input.is_empty() {
            let used = match self.packets(bytes) {
                Some(used) => used,
                None => return false,
            };
            self.input.extend_from_slice(&bytes[used..]);
            return true;
        }
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let Some(used) = self.packets(&input) else { return false };
        input.drain(..used);
        self.input = input;
        true
    }

    /// Answers all whole packets; how many bytes they were, or none to drop the peer.
    fn packets(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut used = 0;
        while let Some(header) = bytes.get(used..used + 4) {
            let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            if length > LONGEST_PACKET {
                return None;
            }
            let Some(payload) = bytes.get(used + 4..used + 4 + length) else {
                break;
            };
            if !self.packet(header[3], payload) {
                return None;
            }
            used += 4 + length;
        }
        Some(used)
    }

    fn packet(&mut self, sequence: u8, payload: &[u8]) -> bool {
        if !self.logged_in {
            // Any account will do, by any plugin.
            self.logged_in = true;
            answers::ok(&mut self.output, sequence + 1, 0);
            return true;
        }
        let Some((command, body)) = payload.split_first() else {
            return false;
        };
        match *command {
            COM_QUIT => return false,
            COM_QUERY => answers::query(&mut self.output, &String::from_utf8_lossy(body)),
            COM_STMT_PREPARE => {
                let text = String::from_utf8_lossy(body);
                let shape = Shape::of(&text);
                self.statements.push(shape);
                let parameters = text.bytes().filter(|byte| *byte == b'?').count() as u16;
                answers::prepared(&mut self.output, self.statements.len() as u32, shape, parameters);
            }
            COM_STMT_EXECUTE => {
                let number = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                match self.statements.get((number as usize).wrapping_sub(1)) {
                    Some(shape) => answers::binary(&mut self.output, *shape),
                    None => return false,
                }
            }
            COM_STMT_CLOSE => {}
            // Ping, reset and whatever else has no rows.
            _ => answers::ok(&mut self.output, 1, 0),
        }
        true
    }
}
