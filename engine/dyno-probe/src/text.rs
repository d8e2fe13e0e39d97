//! Hand parsers for the kernel's and the server's texts: bytes in, numbers out, never a panic.

/// The unsigned number that the bytes are; absent for anything else, and for what does not fit.
pub fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The lines of a text, without their ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// The words of a line: what blanks and tabs divide.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ' || *byte == b'\t')
        .filter(|word| !word.is_empty())
}

/// The first number after a label at the start of the line: `label`, then an optional colon, blanks, digits.
pub fn labelled(line: &[u8], label: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(label)?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    if !matches!(rest.first(), Some(b' ' | b'\t')) {
        return None;
    }
    let word = words(rest).next()?;
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    number(&word[..digits])
}

/// Text for a message; what is not UTF-8 is replaced.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_only_and_fits() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"1.5"), None);
    }

    #[test]
    fn a_label_is_followed_by_blanks_and_digits() {
        assert_eq!(labelled(b"VmRSS:\t  1234 kB", b"VmRSS"), Some(1234));
        assert_eq!(
            labelled(b"Log sequence number          44760", b"Log sequence number"),
            Some(44760)
        );
        assert_eq!(labelled(b"Modified db pages  12, ", b"Modified db pages"), Some(12));
        assert_eq!(labelled(b"VmRSSx: 3", b"VmRSS"), None);
        assert_eq!(labelled(b"VmRSS:", b"VmRSS"), None);
    }
}
