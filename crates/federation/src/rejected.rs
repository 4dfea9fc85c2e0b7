//! The reasons why segments or heads of another server are refused.
//!
//! Every reason has a short name that never changes, for counters and logs. A refusal changes nothing.

use bruit_engine::codec::Malformed;
use bruit_engine::realm::RealmId;
use bruit_engine::{ExchangeRefusal, Refusal};

/// The reason why a segment or heads are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The bytes cannot be decoded.
    #[error("it is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// The version is unknown to this program.
    #[error("it has version {0}, which this program cannot read; update the program")]
    Version(u16),
    /// The data belongs to another realm, with another key or other sizes.
    #[error("it belongs to realm {0}, which is not ours")]
    ForeignRealm(RealmId),
    /// The origin is not configured as a peer or node.
    #[error("its origin is not a known server")]
    UnknownOrigin,
    /// The origin may not send us this book.
    #[error("its origin is a peer, and peers may send only public books")]
    NotShared,
    /// The signature is not the origin's.
    #[error("its signature is invalid")]
    Forged,
    /// The entries are invalid, or their number is wrong.
    #[error("its entries are malformed: {0}")]
    Payload(Malformed),
    /// The segment does not belong to the requested chain.
    #[error("it does not belong to the requested chain")]
    WrongChain,
    /// The segment has already been applied.
    #[error("it was already applied")]
    AlreadyTaken,
    /// Earlier segments of the chain are missing.
    #[error("segments before it are missing")]
    NotNext,
    /// The previous segment differs from the one applied here: the origin forked its history.
    #[error("its origin forked its history: the previous segment differs from the one applied here")]
    Forked,
    /// The engine refuses the segment, for a reason that the bytes do not show.
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
    /// Returns true if only a lying or broken server sends such data, which is then requested at growing intervals.
    #[must_use]
    pub const fn is_charged(&self) -> bool {
        match self {
            Self::Malformed(_)
            | Self::Version(_)
            | Self::ForeignRealm(_)
            | Self::Forged
            | Self::Payload(_)
            | Self::WrongChain => true,
            // Another link was faster, a chain is being fetched again, or our own settings are the reason.
            Self::UnknownOrigin
            | Self::NotShared
            | Self::AlreadyTaken
            | Self::NotNext
            | Self::Forked
            | Self::Refused(_) => false,
        }
    }

    /// Returns the name of the reason in counters.
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
