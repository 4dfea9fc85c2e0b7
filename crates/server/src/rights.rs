//! Who may do what, by what the operator knows of them.

use bruit_engine::trust::Standing;
use serde::Deserialize;

/// Who may do something. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Who {
    /// Nobody.
    Nobody,
    /// The site's own users: those in its own networks, and accounts that were given that standing.
    Own,
    /// Everybody with an account.
    Accounts,
    /// Everybody.
    Anyone,
}

/// Who may do what through one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Ask.
    pub check: Who,
    /// Say that something is spam, or count its recipients.
    pub report: Who,
    /// Say that something is not.
    pub revoke: Who,
    /// Change what the server does, or see more than answers.
    pub admin: Who,
}

impl Who {
    /// Whether someone of this standing is one of them.
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
    /// Everybody may ask and report, though a stranger's word has no weight. Nobody takes back what others reported
    /// without an account, and the server is the site's own.
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
