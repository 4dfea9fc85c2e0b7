//! How many packets each flow has, or how many messages each sender: estimates in bounded memory.
//!
//! A [`FlowCounter`] is shown every packet by the identity of its flow ([`Key`]), and remembers it in a multi-resolution
//! space-code filter ([`bruit_filters::space_code`]), which cannot name what it has seen. Names come from a bounded list of
//! flows that were seen often ([`Leaders`]). Counters can be saved, merged and asked later ([`SavedFlows`]). Exact counts, if they are wanted for comparison, from a bounded table
//! ([`Exact`]).

mod counter;
mod errors;
mod exact;
mod key;
mod leaders;
mod saved;

pub use counter::{Counted, FlowCounter, FlowEstimate, MEMORY_BYTES_MIN, Memory, Settings};
pub use errors::{Band, Compared, bands};
pub use exact::{EXACT_FLOWS_MAX, Exact};
pub use key::{FIELDS_MAX, Field, IDENTITY_BYTES_MAX, Identity, Key, KeyError};
pub use leaders::{LEADERS_MAX, Leader, Leaders};
pub use saved::{FLOWS_MAGIC, MergeError, SavedError, SavedFlows};
