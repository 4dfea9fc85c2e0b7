//! How far a run has come, shown on a terminal and nowhere else.

use std::io::{IsTerminal, stdout};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `total` bytes, or a spinner if nobody knows how many there are.
pub(crate) fn of_bytes(total_bytes: Option<u64>, prints_keys: bool) -> ProgressBar {
    let template = match total_bytes {
        Some(_) => "{bar:30} {percent:>3} %  {bytes} of {total_bytes}, {eta} left",
        None => "{spinner} {bytes}, {elapsed}",
    };
    // Answers that appear on the same terminal would be torn.
    let shown = !(prints_keys && stdout().is_terminal());
    bar(total_bytes, shown, template)
}

/// A bar over the rounds of a simulation.
pub(crate) fn of_rounds(rounds: u64) -> ProgressBar {
    let bar = bar(Some(rounds), true, "{bar:30} {percent:>3} %  {human_pos} of {human_len} rounds, {eta} left");
    // The first round may take a while.
    bar.tick();
    bar
}

/// A bar over messages, unless answers appear on the same terminal.
pub(crate) fn of_messages(messages: u64) -> ProgressBar {
    let shown = !stdout().is_terminal();
    bar(Some(messages), shown, "{bar:30} {percent:>3} %  {human_pos} of {human_len} messages, {eta} left")
}

/// On standard error if that is a terminal.
fn bar(total: Option<u64>, shown: bool, template: &str) -> ProgressBar {
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(total, target);
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    bar
}
