//! What a rule finds, and how bad it is.

use serde::Serialize;

/// How far the figures can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunQuality {
    /// No rule found anything.
    Valid,
    /// Something may have moved them.
    Suspect,
    /// They do not mean what they seem to.
    Invalid,
}

impl RunQuality {
    /// Its word in results.
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        }
    }
}

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// How bad it is.
    pub level: RunQuality,
    /// The sentence with the figure and what to try.
    #[serde(rename = "text")]
    pub reason: String,
}

/// The level of a value by its two limits; none below the first.
pub fn level(value: f64, suspect: f64, invalid: f64) -> Option<RunQuality> {
    if value > invalid {
        Some(RunQuality::Invalid)
    } else if value > suspect {
        Some(RunQuality::Suspect)
    } else {
        None
    }
}
