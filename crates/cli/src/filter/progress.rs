//! How far a run has come, shown on a terminal and nowhere else.

use std::io::{IsTerminal, stdout};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` bytes, or a spinner if nobody knows how many there are.
pub(super) fn bar(total_bytes: Option<u64>, prints_keys: bool) -> ProgressBar {
    let bar = match total_bytes {
        Some(total) => ProgressBar::with_draw_target(Some(total), target(prints_keys)),
        None => ProgressBar::with_draw_target(None, target(prints_keys)),
    };
    let template = match total_bytes {
        Some(_) => "{bar:30} {percent:>3} %  {bytes} of {total_bytes}, {eta} left",
        None => "{spinner} {bytes}, {elapsed}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    bar
}

/// Standard error if it is a terminal, unless the answers appear on that terminal too.
fn target(prints_keys: bool) -> ProgressDrawTarget {
    if prints_keys && stdout().is_terminal() {
        return ProgressDrawTarget::hidden();
    }
    ProgressDrawTarget::stderr()
}
