//! The reasons why segments, heads and changes of the exchange are refused.
//!
//! Every reason has a short name that never changes, for counters and logs. A refusal changes nothing.

use super::MEMBERS_MAX;
use crate::codec::Malformed;
use crate::realm::RealmId;

/// The reason why a segment, heads or a change of the exchange is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeRefusal {
    /// The bytes cannot be decoded.
    #[error("it is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// The version is unknown to this program.
    #[error("it has version {0}, which this program cannot read; update the program")]
    Version(u16),
    /// The data belongs to another realm, with another key or other sizes.
    #[error("it belongs to realm {0}, which is not ours")]
    ForeignRealm(RealmId),
    /// The origin is not a known server.
    #[error("its origin is not a known server")]
    UnknownOrigin,
    /// The book is not shared with servers of other operators.
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
    /// The segment was applied before.
    #[error("it was already applied")]
    AlreadyTaken,
    /// An earlier segment is missing, or the segment does not follow the one applied last.
    #[error("segments before it are missing")]
    NotNext,
    /// The previous segment differs from the one applied here: the origin forked its history.
    #[error("its origin forked its history: the previous segment differs from the one applied here")]
    Forked,
    /// The generation has not begun on this server.
    #[error("its generation has not begun on this server")]
    NotYet,
    /// The generation has ended.
    #[error("its generation has ended")]
    Expired,
    /// The set has reached its limit.
    #[error("the book is full until its next generation begins")]
    Saturated,
    /// The limit on origins with separate counts is reached.
    #[error("the limit on servers or incarnations with separate counts is reached")]
    NoRoom,
    /// The realm has version 1. Its fingerprints cannot be exchanged.
    #[error("this clearinghouse was founded by a version without exchange between servers: create a new clearinghouse")]
    OldRealm,
    /// This server does not exchange segments.
    #[error("this server does not exchange segments")]
    NotBegun,
    /// The maximum number of other servers is reached.
    #[error("this server already knows the maximum of {MEMBERS_MAX} other servers")]
    TooMany,
    /// A new incarnation cannot start while a snapshot is being written.
    #[error("a snapshot is being written: try again soon")]
    SnapshotRuns,
    /// The origin was forgotten.
    #[error("its origin was forgotten: `bruit peers restore` accepts it again")]
    Forgotten,
    /// The change makes no difference: the server to forget is already forgotten, or the server to restore was not
    /// forgotten.
    #[error("nothing to change: the server is already in this state")]
    Unchanged,
    /// A server cannot forget itself.
    #[error("a server cannot forget itself: forget it on another node")]
    Ourselves,
    /// The data of a forgotten server is being taken out of the books.
    #[error("a server is being forgotten: try again soon")]
    Forgetting,
    /// The sealed entries are not pending.
    #[error("the sealed entries are not pending")]
    NothingWaits,
}

impl ExchangeRefusal {
    /// Returns the name of the reason in counters. Reasons that cannot apply to a segment share one name.
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
            Self::NotYet => "not_yet",
            Self::Expired => "expired",
            Self::Saturated => "saturated",
            Self::NoRoom => "no_room",
            Self::Forgotten => "forgotten",
            Self::OldRealm | Self::NotBegun | Self::TooMany | Self::SnapshotRuns | Self::NothingWaits => "refused",
            Self::Unchanged | Self::Ourselves | Self::Forgetting => "refused",
        }
    }

    /// Returns true if only a lying or broken server sends such data. The data is then requested again, at growing
    /// intervals.
    #[must_use]
    pub const fn is_charged(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_)
                | Self::Version(_)
                | Self::ForeignRealm(_)
                | Self::Forged
                | Self::Payload(_)
                | Self::WrongChain
        )
    }
}
