//! Why something that another server sent is not taken.
//!
//! Every reason has a short name that never changes, for counters and logs. Nothing that is rejected has changed anything.

use bruit_engine::codec::Malformed;
use bruit_engine::realm::RealmId;
use bruit_engine::{ExchangeRefusal, Refusal};

/// Why a segment or heads are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The bytes say nothing.
    #[error("it is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// A version that this program does not read.
    #[error("it has version {0}, which this program does not read: update it")]
    Version(u16),
    /// It is of other servers, which do not share our key and sizes.
    #[error("it is of realm {0}, which is not ours")]
    ForeignRealm(RealmId),
    /// Nobody said that this server is to be heard.
    #[error("its origin is no server that is known here")]
    UnknownOrigin,
    /// A book that its origin may not send us.
    #[error("its origin is a peer, and peers share conclusions only")]
    NotShared,
    /// Its origin did not sign it.
    #[error("its signature does not hold")]
    Forged,
    /// Its entries are not what its origin may write, or not as many as it says.
    #[error("its entries are malformed: {0}")]
    Payload(Malformed),
    /// It is of another chain than the one that was asked for.
    #[error("it is of another chain than the one that was asked for")]
    WrongChain,
    /// It was taken before.
    #[error("it was taken before")]
    AlreadyTaken,
    /// Some before it are missing.
    #[error("segments before it are missing")]
    NotNext,
    /// It follows another segment than the one that was taken: its origin wrote its history twice.
    #[error("it follows another segment than the one that was taken")]
    Forked,
    /// The engine does not take it, for a reason that no bytes show.
    #[error(transparent)]
    Refused(Refusal),
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exchange(ExchangeRefusal::UnknownOrigin) => Self::UnknownOrigin,
            Refusal::Exchange(ExchangeRefusal::NotShared) => Self::NotShared,
            Refusal::Exchange(ExchangeRefusal::AlreadyTaken) => Self::AlreadyTaken,
            Refusal::Exchange(ExchangeRefusal::NotNext) => Self::NotNext,
            refusal => Self::Refused(refusal),
        }
    }
}

impl Rejected {
    /// Whether only a server that lies, or is broken, sends such a thing: it is asked again later and later.
    #[must_use]
    pub const fn is_charged(&self) -> bool {
        match self {
            Self::Malformed(_)
            | Self::Version(_)
            | Self::ForeignRealm(_)
            | Self::Forged
            | Self::Payload(_)
            | Self::WrongChain => true,
            // A segment that another link was faster with, a chain that is being taken again, a setting of ours.
            Self::UnknownOrigin
            | Self::NotShared
            | Self::AlreadyTaken
            | Self::NotNext
            | Self::Forked
            | Self::Refused(_) => false,
        }
    }

    /// What it is called in counters.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Version(_) => "version",
            Self::ForeignRealm(_) => "foreign_realm",
            Self::UnknownOrigin => "unknown_origin",
            Self::NotShared => "not_shared",
            Self::Forged => "forged",
            Self::Payload(_) => "payload",
            Self::WrongChain => "wrong_chain",
            Self::AlreadyTaken => "already_taken",
            Self::NotNext => "not_next",
            Self::Forked => "forked",
            Self::Refused(Refusal::Exchange(refusal)) => exchange_name(refusal),
            Self::Refused(_) => "refused",
        }
    }
}

const fn exchange_name(refusal: &ExchangeRefusal) -> &'static str {
    match refusal {
        ExchangeRefusal::Payload => "payload",
        ExchangeRefusal::NotYet => "not_yet",
        ExchangeRefusal::Expired => "expired",
        ExchangeRefusal::Saturated => "saturated",
        ExchangeRefusal::NoRoom => "no_room",
        _ => "refused",
    }
}
