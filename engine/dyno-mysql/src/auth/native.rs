//! mysql_native_password: SHA1(password) xor SHA1(nonce + SHA1(SHA1(password))).
//! Source: the MySQL manual's source documentation, "Native Authentication".

use sha1::{Digest, Sha1};

/// The 20-byte answer; empty for an empty password.
pub(super) fn answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's own check: it knows SHA1(SHA1(password)) and must get the same back from the answer.
    #[test]
    fn the_server_side_check_accepts_the_answer() {
        let nonce = b"01234567890123456789";
        let answer = answer(b"secret", nonce);
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert!(super::answer(b"", nonce).is_empty());
    }
}
