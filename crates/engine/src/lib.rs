//! The state and decisions of a clearinghouse.
//!
//! A state machine without sockets, clock or random numbers: time and events are inputs, answers are outputs. The same
//! events always produce the same state, byte for byte.
//!
//! | module | contents |
//! |---|---|
//! | [`Engine`], [`event`], [`verdict`] | the state machine, its inputs, and its answers |
//! | [`realm`], [`budget`] | parameters shared by servers; sizes for a memory budget |
//! | [`spam`], [`bulk`], [`generations`] | the two books, and their ageing |
//! | [`trust`] | weights of reporters, and the effect of claims on the books |
//! | [`claim_ids`] | claims that count at most once |
//! | [`quota`] | daily limits of a group |
//! | [`accounts`], [`passwords`] | accounts and the authentication of claims; weak passwords |
//! | [`signature`], [`whitelist`] | fingerprints of signatures; signatures that never count |
//! | [`message`] | the verdict on a message, and the events of a claim about it |
//! | [`exchange`] | exchange of segments between servers |
//! | [`replicas`] | reported texts and their near replicas |
//! | [`recurring`] | features that recur in unreported mail |
//! | [`shingles`] | texts identified by rspamd's digests and shingles |
//! | [`codec`], [`time`] | encoding of numbers; time as an argument |

pub mod accounts;
pub mod budget;
pub mod bulk;
pub mod claim_ids;
pub mod codec;
mod engine;
pub mod event;
pub mod exchange;
pub mod generations;
mod memory;
pub mod message;
pub mod passwords;
pub mod quota;
pub mod realm;
pub mod recurring;
pub mod replicas;
pub mod shingles;
pub mod signature;
pub mod spam;
pub mod time;
pub mod trust;
pub mod units;
pub mod verdict;
pub mod whitelist;

pub use engine::{
    BEHIND_LINES, CheckScratch, CountedClaims, CountedRecipients, Engine, Explanation, FoundText, NEARLY_FULL, Outcome,
    Refusal, Rereading, ResizePreview, RestoreError, RingStatus, SETTLED_PER_TICK, Status, StructurePreview,
    TICK_LINES, TableStatus,
};
pub use exchange::ExchangeRefusal;
pub use memory::NotEnoughMemory;
