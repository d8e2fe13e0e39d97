//! TLS handshakes by kind, and what they agreed on.

use dyno_mysql::TlsInfo;
use serde::{Deserialize, Serialize};

/// Handshakes counted when their connection was logged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// With a key exchange and the server's certificate.
    pub full: u64,
    /// That went on with an earlier session.
    pub resumed: u64,
    /// What was agreed on, in the order of its first appearance; one entry where version and suite were fixed.
    pub negotiated: Vec<Negotiated>,
}

/// A protocol version with a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// As in the server's Ssl_version.
    pub version: String,
    /// As in the server's Ssl_cipher.
    pub cipher_suite: String,
    /// Connections that have them.
    pub connections: u64,
}

impl Handshakes {
    /// All of them.
    pub fn count(&self) -> u64 {
        self.full + self.resumed
    }

    /// Counts one.
    pub fn record(&mut self, info: &TlsInfo) {
        self.full += u64::from(!info.resumed);
        self.resumed += u64::from(info.resumed);
        self.agreed(info.version, info.cipher_suite, 1);
    }

    /// Adds another's.
    pub fn merge(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        for one in &other.negotiated {
            self.agreed(&one.version, &one.cipher_suite, one.connections);
        }
    }

    /// Forgets all, without giving memory back.
    pub fn clear(&mut self) {
        self.full = 0;
        self.resumed = 0;
        self.negotiated.clear();
    }

    fn agreed(&mut self, version: &str, cipher_suite: &str, connections: u64) {
        let known = |one: &&mut Negotiated| one.version == version && one.cipher_suite == cipher_suite;
        match self.negotiated.iter_mut().find(known) {
            Some(one) => one.connections += connections,
            None => self.negotiated.push(Negotiated {
                version: version.to_string(),
                cipher_suite: cipher_suite.to_string(),
                connections,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_add_up_by_kind_and_by_what_was_agreed_on() {
        let info = |version, resumed| TlsInfo {
            version,
            cipher_suite: "TLS_AES_128_GCM_SHA256",
            resumed,
        };
        let (mut one, mut other) = (Handshakes::default(), Handshakes::default());
        one.record(&info("TLSv1.3", false));
        other.record(&info("TLSv1.3", true));
        other.record(&info("TLSv1.2", true));
        one.merge(&other);
        assert_eq!((one.count(), one.full, one.resumed), (3, 1, 2));
        let agreed: Vec<_> = one
            .negotiated
            .iter()
            .map(|one| (&*one.version, one.connections))
            .collect();
        assert_eq!(agreed, [("TLSv1.3", 2), ("TLSv1.2", 1)]);
        one.clear();
        assert_eq!(one, Handshakes::default());
    }
}
