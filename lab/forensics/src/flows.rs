//! Packets per flow, or messages per sender: estimates in bounded memory.
//!
//! A [`FlowCounter`] counts every packet under the identity of its flow ([`Key`]) in a multi-resolution space-code
//! filter ([`bruit_structures::space_code`]). Such a filter cannot list its keys, so a separate bounded list
//! ([`Leaders`]) keeps the names of frequent flows. Counters can be saved, merged and queried later ([`SavedFlows`]).
//! For comparison, a bounded table can also keep exact counts ([`Exact`]).

mod counter;
mod errors;
mod exact;
mod key;
mod leaders;
mod saved;

pub use counter::{CounterView, FlowCounter, FlowEstimate, MEMORY_BYTES_MIN, Memory, Settings};
pub use errors::{Band, Comparison, bands};
pub use exact::{EXACT_FLOWS_MAX, Exact};
pub use key::{FIELDS_MAX, Field, IDENTITY_BYTES_MAX, Identity, Key, KeyError};
pub use leaders::{LEADERS_MAX, Leader, Leaders};
pub use saved::{FLOWS_MAGIC, MergeError, SavedError, SavedFlows};
