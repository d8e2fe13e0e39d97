//! What a server writes at the top of a log when it opens it.

/// The server's version in the first line of a log: `…/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:`.
pub fn version(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?;
    let (_, rest) = text.split_once(", Version: ")?;
    Some(rest.strip_suffix(". started with:")?.trim().to_string())
}

/// Whether a line belongs to the heading that a server writes when it opens a log.
pub fn is_heading(line: &[u8]) -> bool {
    let starts = |prefix: &str| line.starts_with(prefix.as_bytes());
    (starts("Tcp port: ") || starts("TCP Port: ")) && line.windows(5).any(|part| part == b"ocket" || part == b" Pipe")
        || starts("Time ") && line.windows(7).any(|part| part == b"Command")
}
