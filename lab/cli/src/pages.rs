//! Reads directories of pages. Unreadable pages are reported and skipped.

use bruit_engine::time::Time;
use bruit_forensics::pages::{PageName, Pages, PagesError, Span};
use indicatif::ProgressBar;

use bruit_console::Failure;
use bruit_console::date::moment;
use bruit_console::progress;
use bruit_console::terminal::complain;

/// Numbers of pages read and skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) pages: u64,
    pub(crate) faults: u64,
}

/// Result of `work` for a page.
pub(crate) enum Outcome {
    Done,
    /// The page is unusable, with the reason.
    Fault(String),
}

/// Calls `work` with the content of every page that overlaps `window`. Also passes the progress bar, which must be
/// suspended while printing. It is not an error if a page was deleted after the directory was listed: the recorder
/// deletes old pages to make room for new ones.
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

/// Returns the span from the first page of a list to the last.
pub(crate) fn whole_span(list: &[PageName]) -> Option<Span> {
    let from = list.iter().map(|page| page.span.from).min()?;
    let to = list.iter().map(|page| page.span.to).max()?;
    Some(Span { from, to })
}

/// Formats a span: `2023-11-14 22:13:20 to 22:13:59`.
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
