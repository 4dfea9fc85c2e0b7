//! The simulation study of Yan and Cho, §5, and the questions that it left open.
//!
//! [`run`] repeats the eight experiments of the paper, [`paper`] contains the paper's figures for comparison, and
//! [`run_custom`] simulates the library's filters under other traffic. Both functions return the same results for the
//! same options on any number of threads, and use no clock, terminal or file.
//!
//! A study of 1,000 rounds makes 10^10 insertions into counting filters. It still takes only seconds, because the count
//! of a key with a private cell is never wrong (see `contested`).

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
