//! client_ed25519 of MariaDB: an Ed25519 signature of the nonce, whose secret key is the password itself, of any length.
//! Source: MariaDB, plugin/auth_ed25519 (ref10's crypto_sign with the 32-byte seed replaced by the password).

use curve25519_dalek::{EdwardsPoint, Scalar};
use sha2::{Digest, Sha512};

/// The 64-byte signature (R, s) of RFC 8032, section 5.1.6.
pub(super) fn answer(password: &[u8], nonce: &[u8]) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, TEST 1: the seed is used as "password", the message is empty.
    #[test]
    fn the_first_test_vector_of_rfc_8032_is_met() {
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let signature = hex(
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        );
        assert_eq!(answer(&seed, b""), signature);
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect()
    }
}
