//! caching_sha2_password: a hash when the server has the account in its cache, else the password itself, over a
//! private path or under the server's RSA key (OAEP with SHA-1).
//! Source: the MySQL manual's source documentation, "Caching_sha2_password information".

use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::error::Error;

const FAST_SUCCESS: u8 = 3;
const FULL_AUTHENTICATION: u8 = 4;
const REQUEST_PUBLIC_KEY: u8 = 2;

/// What to do with a packet of an authentication exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Wait for the server's next packet.
    Wait,
}

/// SHA256(password) xor SHA256(SHA256(SHA256(password)) + nonce); empty for an empty password.
pub(super) fn answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The second step: nothing, the password over a private path, the request for the key, or the enciphered password.
pub(super) fn more(
    password: &[u8],
    nonce: &[u8],
    data: &[u8],
    private: bool,
    key_allowed: bool,
) -> Result<Next, Error> {
    match data {
        [FAST_SUCCESS] => Ok(Next::Wait),
        [FULL_AUTHENTICATION] if private => Ok(Next::Send(terminated(password))),
        [FULL_AUTHENTICATION] if key_allowed => Ok(Next::Send(vec![REQUEST_PUBLIC_KEY])),
        [FULL_AUTHENTICATION] => Err(Error::setup(
            "caching_sha2_password needs the password itself, and the path is open: use TLS, a Unix socket, or \
             allow_public_key_retrieval",
        )),
        key if key_allowed && !private => encipher(password, nonce, key).map(Next::Send),
        other => Err(Error::protocol(format!(
            "{} bytes that caching_sha2_password does not know",
            other.len()
        ))),
    }
}

fn terminated(password: &[u8]) -> Vec<u8> {
    let mut out = password.to_vec();
    out.push(0);
    out
}

/// The password, masked with the nonce and enciphered under the server's key.
fn encipher(password: &[u8], nonce: &[u8], pem: &[u8]) -> Result<Vec<u8>, Error> {
    let text = std::str::from_utf8(pem).map_err(|_| Error::protocol("the server's RSA key is not PEM text"))?;
    let key = RsaPublicKey::from_public_key_pem(text.trim_end_matches('\0'))
        .map_err(|error| Error::protocol(format!("the server's RSA key cannot be read: {error}")))?;
    if nonce.is_empty() {
        return Err(Error::protocol("the server sent no random bytes"));
    }
    let mut masked = terminated(password);
    for (byte, mask) in masked.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= mask;
    }
    key.encrypt(&mut rand_core::OsRng, Oaep::new::<Sha1>(), &masked)
        .map_err(|error| {
            Error::setup(format!(
                "the password cannot be enciphered under the server's key: {error}"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};

    #[test]
    fn the_server_side_check_accepts_the_fast_answer() {
        let nonce = b"abcdefghijklmnopqrst";
        let answer = answer(b"secret", nonce);
        let stored = Sha256::digest(Sha256::digest(b"secret"));
        let mask = Sha256::new().chain_update(stored).chain_update(nonce).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), stored);
    }

    #[test]
    fn the_password_travels_open_only_on_a_private_path() {
        assert_eq!(
            more(b"pw", b"n", &[4], true, false).unwrap(),
            Next::Send(b"pw\0".to_vec())
        );
        assert_eq!(more(b"pw", b"n", &[4], false, true).unwrap(), Next::Send(vec![2]));
        assert!(matches!(more(b"pw", b"n", &[4], false, false), Err(Error::Setup(_))));
        assert_eq!(more(b"pw", b"n", &[3], false, false).unwrap(), Next::Wait);
        assert!(more(b"pw", b"n", b"garbage", false, true).is_err());
        assert!(more(b"pw", b"n", b"", true, true).is_err());
    }

    #[test]
    fn the_holder_of_the_private_key_reads_the_password() {
        let private = rsa::RsaPrivateKey::new(&mut rand_core::OsRng, 1024).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let nonce = b"abcdefghijklmnopqrst";
        let sent = encipher(b"secret", nonce, pem.as_bytes()).unwrap();
        let masked = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
        let plain: Vec<u8> = masked.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
        assert_eq!(plain, b"secret\0");
    }
}
