//! What is known of a server, whatever its protocol: what it is, and whether its counters agree with ours.

use serde::Serialize;

/// What the server reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// mysql, mariadb, percona, memcached, innodb_memcached, or unknown.
    pub kind: String,
    /// Its version, in its own words.
    pub version: String,
    /// Its version comment.
    pub version_comment: String,
    /// Most connections it allows; absent where it does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u64>,
}

/// One counter on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CounterCheck {
    /// Its name.
    pub counter: &'static str,
    /// How much the server added.
    pub server: u64,
    /// How much the client did, ended or not.
    pub client: u64,
    /// The difference in percent of the client's count.
    pub difference_pct: f64,
}

/// One counter on both sides; `uncertain` explains a surplus of the server.
pub fn compare(counter: &'static str, server: u64, client: u64, uncertain: u64) -> CounterCheck {
    let difference = if server > client {
        (server - client).saturating_sub(uncertain) as f64
    } else {
        server as f64 - client as f64
    };
    CounterCheck {
        counter,
        server,
        client,
        difference_pct: difference / client.max(1) as f64 * 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_whose_fate_is_unknown_explain_a_surplus_but_not_a_lack() {
        assert_eq!(compare("Questions", 1_005, 1_000, 5).difference_pct, 0.0);
        assert_eq!(compare("Questions", 1_010, 1_000, 5).difference_pct, 0.5);
        assert_eq!(compare("Questions", 990, 1_000, 50).difference_pct, -1.0);
    }
}
