//! Authentication: one file per plugin; each makes the client's answer to the server's random bytes.

mod caching_sha2;
mod ed25519;
mod native;

pub(crate) use caching_sha2::Next;

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
            Plugin::Native => native::answer(password.reveal(), nonce),
            Plugin::CachingSha2 => caching_sha2::answer(password.reveal(), nonce),
            Plugin::Ed25519 => ed25519::answer(password.reveal(), nonce),
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
            Plugin::CachingSha2 => caching_sha2::more(password.reveal(), nonce, data, private, key_allowed),
            other => Err(Error::protocol(format!(
                "{} has no second step, but the server sent one",
                other.name()
            ))),
        }
    }
}
