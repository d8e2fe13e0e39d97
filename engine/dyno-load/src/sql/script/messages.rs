//! File and line in the messages of a script's errors.

/// The name of the interface in Lua (`sysbench.lua`) in tracebacks.
pub const CHUNK: &str = "sysbench";

/// A message with the script's line in the traceback, as FILE:LINE, where it has none of its own.
pub fn with_line(message: String, traceback: &str) -> String {
    let is_line = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut head = message.splitn(3, ':');
    if head.next().is_some_and(|file| !file.contains('\n')) && head.next().is_some_and(is_line) {
        return message;
    }
    let places = traceback
        .lines()
        .map(str::trim)
        .filter_map(|line| line.split_once(": in "));
    let mut of_script = places.map(|(place, _)| place).filter(|place| {
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        is_line(line) && file != CHUNK
    });
    match of_script.next() {
        Some(place) => format!("{place}: {message}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::with_line;

    #[test]
    fn a_message_without_a_line_gets_the_first_one_of_the_script() {
        let traceback = "\n\t[C]: in function 'sb_rand'\n\tsysbench:12: in function 'x'\n\tmine:4: in function <mine:3>\n\tmine:9: in y";
        assert_eq!(with_line("bad argument".into(), traceback), "mine:4: bad argument");
        assert_eq!(with_line("mine:2: bad".into(), traceback), "mine:2: bad");
        assert_eq!(with_line("bad".into(), ""), "bad");
    }
}
