//! The simulation study of Yan and Cho, §5, and the questions it left open.
//!
//! [`run`] repeats the eight experiments of the paper, [`paper`] has its figures to compare with, and [`run_custom`] puts
//! the library's filters under other traffic. Both promise the same results for the same options on any number of
//! threads, and refuse to know about clocks, terminals and files.
//!
//! A study of 1,000 rounds is 10^10 insertions into counting filters. `contested` has the observation that makes it a
//! matter of seconds: a key with a cell of its own is never wrong.

mod blocks;
mod contested;
mod counts;
mod custom;
mod experiment;
mod moments;
mod options;
pub mod paper;
pub mod plots;
mod positions;
mod results;
mod sequence;
mod study;

pub use contested::CELL_TOP;
pub use counts::{COUNT_MAX, Counts, CountsError};
pub use custom::{
    CELLS_MAX, CustomLayout, CustomOptions, CustomResult, INSERTIONS_MAX, KEYS_MAX, MEMORY_BYTES_MAX, SERVERS_MAX,
    SystemResult, run_custom,
};
pub use experiment::{Experiment, HASHES, Order, PaperDraw};
pub use moments::Moments;
pub use options::{OptionsError, ROUNDS_MAX, THREADS_MAX};
pub use positions::Family;
pub use results::{ConfigurationResult, ExperimentResult, ExtensionResult, Study};
pub use study::{CountDraws, KEYS, StudyOptions, run};
