//! Authentication: each plugin makes the client's answer to the server's random bytes.

use curve25519_dalek::{EdwardsPoint, Scalar};
use rsa::pkcs8::DecodePublicKey;
use rsa::{Oaep, RsaPublicKey};
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

use crate::error::Error;
use crate::options::Secret;

/// A plugin by the server's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Native,
    CachingSha2,
    Ed25519,
}

impl Plugin {
    /// The plugin of this name, or `None` when it is not one of ours.
    pub fn from_name(name: &[u8]) -> Option<Plugin> {
        match name {
            b"mysql_native_password" => Some(Plugin::Native),
            b"caching_sha2_password" => Some(Plugin::CachingSha2),
            b"client_ed25519" => Some(Plugin::Ed25519),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Plugin::Native => "mysql_native_password",
            Plugin::CachingSha2 => "caching_sha2_password",
            Plugin::Ed25519 => "client_ed25519",
        }
    }

    /// The first answer to the server's random bytes.
    pub fn answer(self, password: &Secret, nonce: &[u8]) -> Vec<u8> {
        match self {
            Plugin::Native => native_answer(password.reveal(), nonce),
            Plugin::CachingSha2 => caching_sha2_answer(password.reveal(), nonce),
            Plugin::Ed25519 => ed25519_answer(password.reveal(), nonce),
        }
    }

    /// The answer to a packet with more data (its leading 0x01 taken off).
    ///
    /// `private` says that nobody can read what is sent (TLS or a Unix socket); `key_allowed` that an RSA key from
    /// the server may be believed without TLS.
    pub fn more(
        self,
        password: &Secret,
        nonce: &[u8],
        data: &[u8],
        private: bool,
        key_allowed: bool,
    ) -> Result<Next, Error> {
        match self {
            Plugin::CachingSha2 => caching_sha2_more(password.reveal(), nonce, data, private, key_allowed),
            other => Err(Error::protocol(format!(
                "{} has no second step, but the server sent one",
                other.name()
            ))),
        }
    }
}

// mysql_native_password: SHA1(password) xor SHA1(nonce + SHA1(SHA1(password))).
// Source: the MySQL manual's source documentation, "Native Authentication".

/// The 20-byte answer; empty for an empty password.
fn native_answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

// client_ed25519 of MariaDB: an Ed25519 signature of the nonce, whose secret key is the password itself, of any length.
// Source: MariaDB, plugin/auth_ed25519 (ref10's crypto_sign with the 32-byte seed replaced by the password).

/// The 64-byte signature (R, s) of RFC 8032, section 5.1.6.
fn ed25519_answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    let expanded: [u8; 64] = Sha512::digest(password).into();
    let (mut low, mut prefix) = ([0; 32], [0; 32]);
    low.copy_from_slice(&expanded[..32]);
    prefix.copy_from_slice(&expanded[32..]);
    let secret = Scalar::from_bytes_mod_order(curve25519_dalek::scalar::clamp_integer(low));
    let public = EdwardsPoint::mul_base(&secret).compress();

    let r = Scalar::from_hash(Sha512::new().chain_update(prefix).chain_update(nonce));
    let commitment = EdwardsPoint::mul_base(&r).compress();
    let challenge = Scalar::from_hash(
        Sha512::new()
            .chain_update(commitment.as_bytes())
            .chain_update(public.as_bytes())
            .chain_update(nonce),
    );
    let mut out = commitment.as_bytes().to_vec();
    out.extend_from_slice((r + challenge * secret).as_bytes());
    out
}

// caching_sha2_password: a hash when the server has the account in its cache, else the password itself, over a
// private path or under the server's RSA key (OAEP with SHA-1).
// Source: the MySQL manual's source documentation, "Caching_sha2_password information".

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
fn caching_sha2_answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The second step: nothing, the password over a private path, the request for the key, or the enciphered password.
fn caching_sha2_more(
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

    /// The server's own check: it knows SHA1(SHA1(password)) and must get the same back from the answer.
    #[test]
    fn the_server_side_check_accepts_the_answer() {
        let nonce = b"01234567890123456789";
        let answer = native_answer(b"secret", nonce);
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert!(super::native_answer(b"", nonce).is_empty());
    }

    /// RFC 8032, section 7.1, TEST 1: the seed is used as "password", the message is empty.
    #[test]
    fn the_first_test_vector_of_rfc_8032_is_met() {
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let signature = hex(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        );
        assert_eq!(ed25519_answer(&seed, b""), signature);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn the_server_side_check_accepts_the_fast_answer() {
        let nonce = b"abcdefghijklmnopqrst";
        let answer = caching_sha2_answer(b"secret", nonce);
        let stored = Sha256::digest(Sha256::digest(b"secret"));
        let mask = Sha256::new().chain_update(stored).chain_update(nonce).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), stored);
    }

    #[test]
    fn the_password_travels_open_only_on_a_private_path() {
        assert_eq!(
            caching_sha2_more(b"pw", b"n", &[4], true, false).unwrap(),
            Next::Send(b"pw\0".to_vec())
        );
        assert_eq!(
            caching_sha2_more(b"pw", b"n", &[4], false, true).unwrap(),
            Next::Send(vec![2])
        );
        assert!(matches!(
            caching_sha2_more(b"pw", b"n", &[4], false, false),
            Err(Error::Setup(_))
        ));
        assert_eq!(caching_sha2_more(b"pw", b"n", &[3], false, false).unwrap(), Next::Wait);
        assert!(caching_sha2_more(b"pw", b"n", b"garbage", false, true).is_err());
        assert!(caching_sha2_more(b"pw", b"n", b"", true, true).is_err());
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
