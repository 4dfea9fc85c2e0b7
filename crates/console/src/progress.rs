//! Progress bars, shown only on a terminal.

use std::io::{IsTerminal, stdout};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Returns a bar for `total_bytes`, or a spinner if the size is unknown.
pub fn of_bytes(total_bytes: Option<u64>, prints_keys: bool) -> ProgressBar {
    let template = match total_bytes {
        Some(_) => "{bar:30} {percent:>3} %  {bytes} of {total_bytes}, {eta} left",
        None => "{spinner} {bytes}, {elapsed}",
    };
    // Hide the bar if output is printed on the same terminal, because the bar would garble it.
    let shown = !(prints_keys && stdout().is_terminal());
    bar(total_bytes, shown, template)
}

/// Returns a bar for the rounds of a simulation.
pub fn of_rounds(rounds: u64) -> ProgressBar {
    let bar = bar(Some(rounds), true, "{bar:30} {percent:>3} %  {human_pos} of {human_len} rounds, {eta} left");
    // Show the bar even before the first round ends.
    bar.tick();
    bar
}

/// Returns a bar for messages, hidden if output goes to a terminal.
pub fn of_messages(messages: u64) -> ProgressBar {
    let shown = !stdout().is_terminal();
    bar(Some(messages), shown, "{bar:30} {percent:>3} %  {human_pos} of {human_len} messages, {eta} left")
}

/// Returns a bar on standard error, if that is a terminal.
fn bar(total: Option<u64>, shown: bool, template: &str) -> ProgressBar {
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(total, target);
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    bar
}
