//! Directories of pages, as the verbs that ask them go through them: what cannot be read is told, and the rest is asked.

use bruit_engine::time::Time;
use bruit_forensics::pages::{PageName, Pages, PagesError, Span};
use indicatif::ProgressBar;

use crate::date::moment;
use crate::failure::Failure;
use crate::progress;
use crate::terminal::complain;

/// How many pages were read, and how many could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) pages: u64,
    pub(crate) faults: u64,
}

/// What `work` made of a page.
pub(crate) enum Outcome {
    Done,
    /// It is of no use, for this reason.
    Fault(String),
}

/// Calls `work` with the content of every page that is about `window`, one after the other, and with a bar to suspend for what
/// it prints. A page that has gone since the directory was listed made room for another, and is no fault.
pub(crate) fn for_each(
    pages: &Pages,
    window: Span,
    limit_bytes: u64,
    mut work: impl FnMut(&PageName, &[u8], &ProgressBar) -> Result<Outcome, Failure>,
) -> Result<Read, Failure> {
    let bar = progress::of_bytes(Some(pages.within(window).map(|name| name.bytes).sum()), false);
    let mut read = Read::default();
    for name in pages.within(window) {
        let outcome = match pages.read(name, limit_bytes) {
            Err(PagesError::Gone { .. }) => continue,
            Err(error) => Outcome::Fault(error.to_string()),
            Ok(content) => work(name, &content, &bar)?,
        };
        match outcome {
            Outcome::Done => read.pages += 1,
            Outcome::Fault(line) => {
                read.faults += 1;
                bar.suspend(|| complain(&line));
            }
        }
        bar.inc(name.bytes);
    }
    bar.finish_and_clear();
    Ok(read)
}

/// What all pages of a list are about.
pub(crate) fn whole_span(list: &[PageName]) -> Option<Span> {
    let from = list.iter().map(|page| page.span.from).min()?;
    let to = list.iter().map(|page| page.span.to).max()?;
    Some(Span { from, to })
}

/// `2023-11-14 22:13:20 to 22:13:59`.
pub(crate) fn span_text(span: Span) -> String {
    let (from, to) = (moment(Time(span.from)), moment(Time(span.to)));
    if from == to {
        return from;
    }
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((first_day, _)), Some((last_day, time))) if first_day == last_day => format!("{from} to {time}"),
        _ => format!("{from} to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_names_its_day_once_and_a_moment_once() {
        let text = |from, to| span_text(Span { from, to });
        assert_eq!(text(1_700_000_000, 1_700_000_059), "2023-11-14 22:13:20 to 22:14:19");
        assert_eq!(text(1_700_000_000, 1_700_086_400), "2023-11-14 22:13:20 to 2023-11-15 22:13:20");
        assert_eq!(text(1_700_000_000, 1_700_000_000), "2023-11-14 22:13:20");
    }
}
