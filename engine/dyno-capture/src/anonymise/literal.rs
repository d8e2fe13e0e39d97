//! A string's parts.

/// A literal's parts.
pub(super) struct Literal<'a> {
    /// `x` of `x'4D'`.
    pub prefix: &'a [u8],
    quote: u8,
    /// Without its escapes.
    pub content: Vec<u8>,
    is_closed: bool,
}

impl<'a> Literal<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let place = text.iter().position(|byte| matches!(byte, b'\'' | b'"')).unwrap_or(0);
        let quote = text[place];
        let mut content = Vec::with_capacity(text.len());
        let mut rest = text[place + 1..].iter().copied().peekable();
        let mut is_closed = false;
        while let Some(byte) = rest.next() {
            match byte {
                b'\\' => match rest.next() {
                    Some(b'0') => content.push(0),
                    Some(b'b') => content.push(8),
                    Some(b'n') => content.push(b'\n'),
                    Some(b'r') => content.push(b'\r'),
                    Some(b't') => content.push(b'\t'),
                    Some(b'Z') => content.push(26),
                    // In patterns.
                    Some(mark @ (b'%' | b'_')) => content.extend([b'\\', mark]),
                    other => content.extend(other),
                },
                _ if byte == quote && rest.peek() == Some(&quote) => {
                    rest.next();
                    content.push(quote);
                }
                _ if byte == quote => is_closed = true,
                _ => content.push(byte),
            }
        }
        Self {
            prefix: &text[..place],
            quote,
            content,
            is_closed,
        }
    }

    /// With another content.
    pub(super) fn write(&self, content: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.push(self.quote);
        for (place, byte) in content.iter().enumerate() {
            match byte {
                b'\\' if matches!(content.get(place + 1), Some(b'%' | b'_')) => out.push(b'\\'),
                b'\\' => out.extend_from_slice(b"\\\\"),
                0 => out.extend_from_slice(b"\\0"),
                byte if *byte == self.quote => out.extend([*byte, *byte]),
                byte => out.push(*byte),
            }
        }
        if self.is_closed {
            out.push(self.quote);
        }
    }
}
