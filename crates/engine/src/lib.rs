//! What a clearinghouse knows and decides.
//!
//! A state machine without sockets, clock or randomness of its own: time and events come in, answers come out. The same
//! events give the same bytes of state.
//!
//! | module | what it is |
//! |---|---|
//! | [`Engine`], [`event`], [`verdict`] | the state machine; what happens to it; what it answers |
//! | [`realm`], [`budget`] | what servers must have in common; what a memory budget buys |
//! | [`spam`], [`bulk`], [`generations`] | the two books, and how they age |
//! | [`trust`] | whose claims to believe, and what they do to the books |
//! | [`quota`] | how much one group may fill |
//! | [`accounts`], [`passwords`] | who may claim, and how a claim proves who makes it |
//! | [`signature`], [`whitelist`] | signatures as fingerprints, and those that never count |
//! | [`exchange`] | what servers tell each other, exactly once |
//! | [`replicas`] | which reports a message is a near replica of |
//! | [`seen`] | what unreported mail has in common, day after day |
//! | [`shingles`] | texts known by rspamd's digests and shingles |
//! | [`codec`], [`time`] | numbers in bytes, and time as an argument |

pub mod accounts;
pub mod budget;
pub mod bulk;
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
pub mod replicas;
pub mod seen;
pub mod shingles;
pub mod signature;
pub mod spam;
pub mod time;
pub mod trust;
pub mod verdict;
pub mod whitelist;

pub use engine::{
    BEHIND_LINES, CheckScratch, CountedClaims, CountedRecipients, Engine, ExchangeRefusal, Explanation, FoundText,
    NEARLY_FULL, Outcome, Refusal, Resized, ResizedStructure, RestoreError, RingStatus, SETTLED_PER_TICK, Status,
    TICK_LINES, TableStatus,
};
pub use memory::NotEnoughMemory;
