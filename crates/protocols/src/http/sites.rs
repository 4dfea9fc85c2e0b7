//! Programs of mail sites: how they describe themselves, and the answer that lists them.

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Header field in which a program of a mail site describes itself. A server shows the description to its operator. The
/// description does not affect any answer.
pub const SITE_FIELD: &str = "bruit-site";

/// Maximum length of the field.
pub const SITE_BYTES_MAX: usize = 128;

/// A program of a mail site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SiteProgram {
    /// `bruit milter`.
    Milter,
    /// `bruit watch`.
    Watch,
    /// `bruit spool send`.
    Spool,
    /// `bruit replica`. A server recognises it by its requests.
    Replica,
}

impl SiteProgram {
    /// All programs.
    pub const ALL: [Self; 4] = [Self::Milter, Self::Watch, Self::Spool, Self::Replica];

    /// Returns the name in the field and in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Milter => "milter",
            Self::Watch => "watch",
            Self::Spool => "spool",
            Self::Replica => "replica",
        }
    }
}

/// The state of a program, as it describes itself: `milter; spooled=3; unchecked=0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteState {
    /// The program.
    pub program: SiteProgram,
    /// Number of claims that wait in the program's spool, if it has one.
    pub spooled: Option<u64>,
    /// Number of messages that passed unchecked since the program started, if it checks messages.
    pub unchecked: Option<u64>,
}

impl SiteState {
    /// Returns the state of a program that counts nothing.
    #[must_use]
    pub const fn of(program: SiteProgram) -> Self {
        Self { program, spooled: None, unchecked: None }
    }
}

impl Display for SiteState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.program.name())?;
        for (name, count) in [("spooled", self.spooled), ("unchecked", self.unchecked)] {
            if let Some(count) = count {
                write!(formatter, "; {name}={count}")?;
            }
        }
        Ok(())
    }
}

/// The field is malformed or names an unknown program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {SITE_FIELD}: expected a program, such as milter, and its counts")]
pub struct SiteError;

impl FromStr for SiteState {
    type Err = SiteError;

    /// Parses the field. Unknown counts are ignored, because later versions may add some.
    fn from_str(text: &str) -> Result<Self, SiteError> {
        if text.len() > SITE_BYTES_MAX {
            return Err(SiteError);
        }
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let program = SiteProgram::ALL.into_iter().find(|program| program.name() == name).ok_or(SiteError)?;
        let mut state = Self::of(program);
        for part in parts {
            let (name, count) = part.split_once('=').ok_or(SiteError)?;
            let count = Some(count.parse().map_err(|_| SiteError)?);
            match name {
                "spooled" => state.spooled = count,
                "unchecked" => state.unchecked = count,
                _ => {}
            }
        }
        Ok(state)
    }
}

/// The programs of mail sites that a server has seen since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sites {
    /// The programs, most recently seen first.
    pub sites: Vec<Site>,
    /// Number of programs that were dropped from the list because it was full.
    pub dropped: u64,
}

/// A program of a mail site, as the server has seen it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The program.
    pub program: SiteProgram,
    /// Name of the token or of the user at the Unix socket, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address from which the program connects.
    pub address: String,
    /// Version of the program, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Time of the first request, in Unix seconds.
    pub first_seen: u64,
    /// Time of the last request.
    pub last_seen: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of claims that wait in the program's spool, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spooled: Option<u64>,
    /// Number of messages that passed unchecked since the program started, if it checks messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchecked: Option<u64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_state_is_written_and_read() {
        let milter = SiteState { program: SiteProgram::Milter, spooled: Some(3), unchecked: Some(0) };
        assert_eq!(milter.to_string(), "milter; spooled=3; unchecked=0");
        assert_eq!(milter.to_string().parse(), Ok(milter));
        for program in SiteProgram::ALL {
            assert_eq!(program.name().parse(), Ok(SiteState::of(program)));
            assert_eq!(serde_json::to_value(program).unwrap(), program.name());
        }
        assert_eq!(
            " watch ;later=1; spooled=2".parse(),
            Ok(SiteState { spooled: Some(2), ..SiteState::of(SiteProgram::Watch) })
        );
    }

    #[test]
    fn other_fields_are_refused() {
        let long = format!("milter; spooled={:0200}", 1);
        for text in ["", "mail", "milter; spooled", "milter; spooled=-1", "milter; spooled=x", "Milter", &long] {
            assert_eq!(text.parse::<SiteState>(), Err(SiteError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_field_causes_a_panic(text in "(milter|watch)?[;= a-z0-9é]{0,140}") {
            if let Ok(state) = text.parse::<SiteState>() {
                prop_assert_eq!(state.to_string().parse(), Ok(state));
            }
        }
    }
}
