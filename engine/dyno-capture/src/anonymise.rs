//! Literals replaced by pseudonyms of the same length.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::event::{Action, Capture};
use crate::lexer::{tokens, Kind, Token};

/// Length of a key.
pub const KEY_BYTES: usize = 32;

/// Replaces strings, numbers and users by pseudonyms: digits by digits, letters by letters, by HMAC-SHA-256 of the whole
/// literal. The same literal has the same pseudonym with the same key, and without the key it cannot be computed back;
/// short literals can be guessed by how often they occur. Punctuation within strings stays, so that dates and patterns
/// keep their form. Comments are left out, names of tables and columns stay.
pub struct Anonymiser {
    key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for Anonymiser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Anonymiser(***)")
    }
}

impl Anonymiser {
    /// With a key.
    pub fn new(key: [u8; KEY_BYTES]) -> Self {
        Self { key }
    }

    /// The whole capture.
    pub fn capture(&self, capture: &mut Capture) {
        capture.header.anonymised = true;
        for event in &mut capture.events {
            match &mut event.action {
                Action::Statement(statement) => statement.text = self.statement(&statement.text),
                Action::Connect { user, .. } | Action::Reset { user, .. } => {
                    if let Some(user) = user {
                        *user = self.word(user);
                    }
                }
                Action::Schema(_) | Action::Quit => {}
            }
        }
    }

    /// A statement.
    pub fn statement(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut end = 0;
        for token in tokens(text) {
            let between = &text[end..token.start];
            if !between.is_empty() {
                // Blanks as they are, comments as one blank; the code of an executable comment stays without its marks.
                let is_blank = between.iter().all(u8::is_ascii_whitespace);
                out.extend_from_slice(if is_blank { between } else { b" " });
            }
            end = token.start + token.text.len();
            match token.kind {
                Kind::String => self.string(&token, &mut out),
                Kind::Number => self.number(token.text, &mut out),
                _ => out.extend_from_slice(token.text),
            }
        }
        out
    }

    /// A word, such as a user's name.
    pub fn word(&self, word: &str) -> String {
        let mut out = Vec::new();
        self.replace(word.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    fn string(&self, token: &Token<'_>, out: &mut Vec<u8>) {
        let Some(quote) = token.text.iter().position(|byte| matches!(byte, b'\'' | b'"')) else {
            return;
        };
        let (prefix, rest) = token.text.split_at(quote + 1);
        out.extend_from_slice(prefix);
        let is_closed = rest.last() == prefix.last() && !rest.is_empty();
        let content = &rest[..rest.len() - usize::from(is_closed)];
        match prefix[0] {
            b'x' | b'X' => self.digits(content, 16, out),
            b'b' | b'B' => self.digits(content, 2, out),
            _ => self.replace(content, out),
        }
        out.extend_from_slice(&rest[content.len()..]);
    }

    fn number(&self, text: &[u8], out: &mut Vec<u8>) {
        let (radix, mark) = match text {
            [b'0', b'x' | b'X', ..] => (16, 2),
            [b'0', b'b' | b'B', ..] => (2, 2),
            _ => (10, 0),
        };
        out.extend_from_slice(&text[..mark]);
        // An exponent stays: another one may be out of range.
        let is_exponent = |byte: &u8| radix == 10 && matches!(byte, b'e' | b'E');
        let exponent = text.iter().position(is_exponent).unwrap_or(text.len());
        self.digits(&text[mark..exponent], radix, out);
        out.extend_from_slice(&text[exponent..]);
    }

    /// Digits by digits. The first one of a decimal number becomes none that is 0, and none stays 0.
    fn digits(&self, text: &[u8], radix: u8, out: &mut Vec<u8>) {
        let mut stream = Stream::new(&self.key, text);
        for (index, byte) in text.iter().enumerate() {
            let digit = match radix {
                10 if index == 0 && (b'1'..=b'9').contains(byte) => b'1' + stream.below(9),
                _ if index == 0 && *byte == b'0' && radix == 10 => b'0',
                10 => b'0' + stream.below(10),
                2 => b'0' + stream.below(2),
                _ => b"0123456789abcdef"[usize::from(stream.below(16))],
            };
            out.push(if byte.is_ascii_hexdigit() { digit } else { *byte });
        }
    }

    fn replace(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut stream = Stream::new(&self.key, text);
        let mut is_escaped = false;
        for byte in text {
            let pseudonym = match byte {
                _ if is_escaped => *byte,
                b'0'..=b'9' => b'0' + stream.below(10),
                b'a'..=b'z' => b'a' + stream.below(26),
                b'A'..=b'Z' => b'A' + stream.below(26),
                0x80.. => b'a' + stream.below(26),
                other => *other,
            };
            is_escaped = *byte == b'\\' && !is_escaped;
            out.push(pseudonym);
        }
    }
}

/// Bytes that depend on a key and a literal.
struct Stream {
    key: Hmac<Sha256>,
    bytes: [u8; 32],
    used: usize,
    block: u32,
}

impl Stream {
    fn new(key: &[u8; KEY_BYTES], literal: &[u8]) -> Self {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(literal);
        Self {
            key: mac,
            bytes: [0; 32],
            used: 32,
            block: 0,
        }
    }

    /// The next number below `limit`; the larger ones are rarer by less than a tenth.
    fn below(&mut self, limit: u8) -> u8 {
        if self.used == self.bytes.len() {
            let mut mac = self.key.clone();
            mac.update(&self.block.to_le_bytes());
            self.bytes = mac.finalize().into_bytes().into();
            (self.used, self.block) = (0, self.block + 1);
        }
        self.used += 1;
        self.bytes[self.used - 1] % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    #[test]
    fn the_same_literal_has_the_same_pseudonym_of_the_same_length_and_form() {
        let anonymiser = Anonymiser::new([7; KEY_BYTES]);
        let text = "SELECT 'Müller', \"Müller\", '2026-11-23', 4711, 0xFF, 1.5e3, x'4D' FROM t -- secret";
        let replaced = String::from_utf8(anonymiser.statement(text.as_bytes())).unwrap();
        assert_eq!(digest(text.as_bytes()), digest(replaced.as_bytes()));
        assert!(
            !replaced.contains("secret") && !replaced.contains("ller") && !replaced.contains("4711"),
            "{replaced}"
        );
        let parts: Vec<&str> = replaced["SELECT ".len()..replaced.find(" FROM").unwrap()]
            .split(", ")
            .collect();
        assert_eq!(parts[0].trim_matches('\''), parts[1].trim_matches('"'));
        assert_eq!(parts[0].len(), "'Müller'".len());
        assert!(
            parts[2].matches('-').count() == 2 && parts[2] != "'2026-11-23'",
            "{}",
            parts[2]
        );
        assert!(parts[5].ends_with("e3") && parts[6].starts_with("x'"), "{replaced}");
        let other = Anonymiser::new([8; KEY_BYTES]).statement(text.as_bytes());
        assert_ne!(replaced.into_bytes(), other);
    }

    #[test]
    fn escapes_stay_whole() {
        let anonymiser = Anonymiser::new([1; KEY_BYTES]);
        let text = br"SELECT 'it\'s', 'a\\', 'b''c'";
        assert_eq!(tokens(&anonymiser.statement(text)).count(), tokens(text).count());
    }
}
