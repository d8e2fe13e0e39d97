//! Settings in the words of the user, for results.

use serde::Serialize;
use serde_json::Value;

use crate::kv::workload::Mix;

/// Settings of SQL that the program keeps in another form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SqlDescription {
    /// The rate's text; absent in a closed loop.
    pub rate: Option<String>,
    /// constant or poisson; absent in a closed loop.
    pub arrivals: Option<String>,
    /// The policy, with its limit; absent in a closed loop.
    pub overload: Option<String>,
    /// How many times as fast as planned late transactions are made up for; absent where that has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<f64>,
    /// The pause, with its kind.
    pub think: String,
    /// The distribution and its parameters.
    pub distribution: Value,
    /// The codes.
    pub ignore_errors: String,
    /// The TLS mode as set.
    pub tls_mode: String,
    /// The version of TLS that this host agreed on with the server; "none" for plain text.
    pub tls_in_use: String,
    /// The compression as set.
    pub compression: String,
}

/// Settings of memcached that the program keeps in another form.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KvDescription {
    /// The preset, or the workload of YCSB; absent without one.
    pub preset: Option<String>,
    /// Shares of the commands.
    pub mix: Mix,
    /// Which keys.
    pub key_choice: String,
    /// Sizes of keys.
    pub key_size: String,
    /// Sizes of values.
    pub value_size: String,
    /// Share of the values found that are looked at.
    pub verify: f64,
    /// Share of the keys asked for that should be there; absent where not set.
    pub hit_ratio: Option<f64>,
    /// The rate's text; absent in a closed loop.
    pub rate: Option<String>,
    /// constant or poisson; absent in a closed loop.
    pub arrivals: Option<String>,
    /// The policy; absent in a closed loop.
    pub overload: Option<String>,
    /// The pause.
    pub think: String,
    /// The codes.
    pub ignore_errors: String,
}
