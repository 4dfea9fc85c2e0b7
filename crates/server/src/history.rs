//! The history: counters by the minute for a day, by the hour for a month, and by the day for two years.
//!
//! Every slot belongs to a fixed place in its series, which its time determines. A slot with another time is replaced.
//! So the history is bounded, and a wrong clock overwrites only the slots of the times that it showed.
//!
//! | module | contents |
//! |---|---|
//! | `series` | the slots, as pure data |
//! | `file` | the file that contains the slots |
//! | `recorder` | the thread that reads the counters every second |

mod file;
mod recorder;
mod series;

pub(crate) use recorder::{Recorder, Recording};
#[cfg(test)]
pub(crate) use series::{Gauges, counter};
pub(crate) use series::{Slot, Span};
