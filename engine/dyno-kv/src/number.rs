//! Decimal numbers without formatting machinery.

/// Appends a number in decimal.
#[inline]
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Reads a whole field as a decimal number; `None` when it is none, or above 2^64 - 1.
#[inline]
pub fn parse(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back_and_nothing_else_is_one() {
        for value in [0, 9, 10, 1024, u64::from(u32::MAX), u64::MAX] {
            let mut text = Vec::new();
            push(&mut text, value);
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(parse(&text), Some(value));
        }
        for wrong in ["", "-1", "1 ", "0x1", "18446744073709551616", "999999999999999999999"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
