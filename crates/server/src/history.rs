//! The history: counters by the minute for a day, by the hour for a month, and by the day for two years.
//!
//! The time of a slot determines its place in the series. A new slot replaces the previous one at the same place. So
//! the history is bounded. While the clock is wrong, only the slots at the places of the wrong times are overwritten.
//!
//! | module | contents |
//! |---|---|
//! | `series` | the slots, as pure data |
//! | `file` | the file that contains the slots |
//! | `precision`, `precision_file` | the precision of reporters by the day, and the file that contains it |
//! | `recorder` | the thread that reads the counters every second, and the reporters' records every minute |

mod file;
mod precision;
mod precision_file;
mod recorder;
mod series;

pub(crate) use precision::{DAY_SECONDS, Sample, day_of};
pub(crate) use recorder::{Recorder, Recording};
#[cfg(test)]
pub(crate) use series::{Gauges, counter};
pub(crate) use series::{Slot, Span};
