//! Rights, which depend on the standing of the caller.

use bruit_engine::trust::Standing;
use serde::Deserialize;

/// A set of callers. Each variant includes the variants before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// No one.
    Nobody,
    /// The site's own users: callers in its own networks, and accounts with the standing `own`.
    Own,
    /// Everyone with an account.
    Accounts,
    /// Everyone.
    Anyone,
}

/// The rights over one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The right to check.
    pub check: Who,
    /// The right to report, or to count recipients.
    pub report: Who,
    /// The right to revoke.
    pub revoke: Who,
    /// The right to administer the server and read its statistics.
    pub admin: Who,
}

impl Who {
    /// Returns true if callers of this standing are included.
    #[must_use]
    pub fn includes(self, standing: Standing) -> bool {
        let least = match standing {
            Standing::Own => Self::Own,
            Standing::Trap | Standing::Pinned | Standing::Account => Self::Accounts,
            Standing::Stranger => Self::Anyone,
        };
        self >= least
    }
}

impl Default for Rights {
    /// Anyone may check and report, but a stranger's report has no weight. Revoking requires an account, and
    /// administration requires an own network.
    fn default() -> Self {
        Self { check: Who::Anyone, report: Who::Anyone, revoke: Who::Accounts, admin: Who::Own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_includes_those_before_it() {
        let standings = [Standing::Own, Standing::Pinned, Standing::Trap, Standing::Account, Standing::Stranger];
        let included = |who: Who| standings.map(|standing| who.includes(standing));
        assert_eq!(included(Who::Nobody), [false; 5]);
        assert_eq!(included(Who::Own), [true, false, false, false, false]);
        assert_eq!(included(Who::Accounts), [true, true, true, true, false]);
        assert_eq!(included(Who::Anyone), [true; 5]);
    }
}
