//! The history: counters by the minute for a day, by the hour for a month, and by the day for two years.
//!
//! The time of a slot determines its place in the series. A new slot replaces the previous one at the same place. So
//! the history is bounded, and a wrong clock overwrites only the slots of the times that it showed.
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
