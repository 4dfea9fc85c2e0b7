//! Asking routers and servers what they saw.

use std::collections::VecDeque;

use super::page::PAGE_BYTES_MAX;
use super::{Invariant, Router, Subject, Topology, TracePage, TracePageError};
use crate::pages::{PageName, Pages, PagesError, Span};

/// What is looked for, and when it may have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// What.
    pub invariant: Invariant,
    /// In which pages.
    pub subject: Subject,
    /// When.
    pub window: Span,
}

/// Whether somebody saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Yes, or so it seems, in pages of these spans.
    Seen(Vec<Span>),
    /// No, for certain, as far as pages go.
    NotSeen,
    /// There is no page of that time.
    Unknown,
}

/// What one router or server answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Whether it saw it.
    pub sighting: Sighting,
    /// How many pages were looked at.
    pub pages: u32,
    /// Whether there were pages of the whole time asked for.
    pub is_covered: bool,
    /// The probability that it answers [`Sighting::Seen`] of what it has not seen: that any of its pages does.
    pub false_positive: f64,
    /// Pages that could not be read, and why.
    pub faults: Vec<String>,
}

/// One that was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// Its place in the topology.
    pub place: usize,
    /// How many links it is from the first.
    pub distance: u32,
    /// The hop, in the order of asking, that led to it.
    pub behind: Option<usize>,
    /// What it answered.
    pub answer: Answer,
}

/// All that were asked about a packet, in the order of asking.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The first is where the walk began.
    pub hops: Vec<Hop>,
}

/// Why nobody could be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The directory of one of them cannot be read.
    #[error("the pages of {router} cannot be read: {cause}")]
    Pages {
        /// Whose.
        router: String,
        /// Why.
        #[source]
        cause: PagesError,
    },
    /// The pages were recorded by another.
    #[error("the pages of {router} were recorded by {recorded_by}")]
    OtherName {
        /// Whose they should be.
        router: String,
        /// Whose they are.
        recorded_by: String,
    },
}

/// Walks from the router at `start` to all neighbours that saw it, and to theirs.
///
/// # Errors
/// [`TraceError`] if a directory of pages is not there, or is somebody else's.
///
/// # Panics
/// If there is no router at `start`.
pub fn trace(topology: &Topology, start: usize, question: &Question) -> Result<Trace, TraceError> {
    let routers = topology.routers();
    let mut is_known = vec![false; routers.len()];
    is_known[start] = true;
    let mut waiting = VecDeque::from([(start, 0, None)]);
    let mut hops = Vec::new();
    while let Some((place, distance, behind)) = waiting.pop_front() {
        let answer = ask(&routers[place], question)?;
        if matches!(answer.sighting, Sighting::Seen(_)) {
            let unknown = routers[place].links.iter().filter(|&&place| !std::mem::replace(&mut is_known[place], true));
            waiting.extend(unknown.map(|&place| (place, distance + 1, Some(hops.len()))));
        }
        hops.push(Hop { place, distance, behind, answer });
    }
    Ok(Trace { hops })
}

/// Asks all, whoever is linked with whom.
///
/// # Errors
/// [`TraceError`] if a directory of pages is not there, or is somebody else's.
pub fn find(topology: &Topology, question: &Question) -> Result<Vec<Hop>, TraceError> {
    let ask = |(place, router)| Ok(Hop { place, distance: 0, behind: None, answer: ask(router, question)? });
    topology.routers().iter().enumerate().map(ask).collect()
}

impl Hop {
    /// Whether it saw it, or so it seems.
    #[must_use]
    pub const fn is_seen(&self) -> bool {
        matches!(self.answer.sighting, Sighting::Seen(_))
    }
}

impl Trace {
    /// The ways that it may have come, each from where it seems to have come in to where the walk began, as places in
    /// [`hops`](Self::hops).
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<usize>> {
        let leads_on = |at: usize| self.hops.iter().any(|hop| hop.is_seen() && hop.behind == Some(at));
        let ends = (0..self.hops.len()).filter(|&at| self.hops[at].is_seen() && !leads_on(at));
        ends.map(|end| std::iter::successors(Some(end), |&at| self.hops[at].behind).collect()).collect()
    }

    /// How many of the routers that seem to have seen it have not, on average: at most this, as those that did cannot be among
    /// them. The router where the walk began is not counted: there the packet is known to have been.
    #[must_use]
    pub fn false_hops_expected(&self) -> f64 {
        self.false_positives().sum()
    }

    /// The probability that any of the routers that seem to have seen it has not: at most this.
    #[must_use]
    pub fn false_positive(&self) -> f64 {
        1.0 - self.false_positives().map(|rate| 1.0 - rate).product::<f64>()
    }

    fn false_positives(&self) -> impl Iterator<Item = f64> {
        self.hops.iter().skip(1).map(|hop| hop.answer.false_positive)
    }
}

/// Asks one.
fn ask(router: &Router, question: &Question) -> Result<Answer, TraceError> {
    let Some(folder) = &router.pages else { return Ok(Inquiry::default().answer(question.window)) };
    let failed = |cause| TraceError::Pages { router: router.name.clone(), cause };
    let pages = Pages::open(folder, question.subject.kind()).map_err(failed)?;
    let mut inquiry = Inquiry::default();
    for name in pages.within(question.window) {
        match read(&pages, name) {
            Ok(page) if page.name != router.name => {
                return Err(TraceError::OtherName { router: router.name.clone(), recorded_by: page.name });
            }
            Ok(page) => inquiry.look(name.span, &page, &question.invariant),
            // It made room for another since the directory was read, as it might have before.
            Err(ReadError::Page(PagesError::Gone { .. })) => {}
            Err(error) => inquiry.faults.push(error.to_string()),
        }
    }
    Ok(inquiry.answer(question.window))
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Page(#[from] PagesError),
    #[error("{name} {cause}")]
    Content { name: PageName, cause: TracePageError },
}

fn read(pages: &Pages, name: &PageName) -> Result<TracePage, ReadError> {
    let content = pages.read(name, PAGE_BYTES_MAX)?;
    TracePage::decode(&content).map_err(|cause| ReadError::Content { name: name.clone(), cause })
}

/// What the pages of one router say.
#[derive(Debug)]
struct Inquiry {
    spans: Vec<Span>,
    seen: Vec<Span>,
    /// The probability that no page is wrong.
    right: f64,
    faults: Vec<String>,
}

impl Default for Inquiry {
    fn default() -> Self {
        Self { spans: Vec::new(), seen: Vec::new(), right: 1.0, faults: Vec::new() }
    }
}

impl Inquiry {
    fn look(&mut self, span: Span, page: &TracePage, invariant: &Invariant) {
        self.spans.push(span);
        self.right *= 1.0 - page.false_positive_rate();
        if page.contains(invariant) {
            self.seen.push(span);
        }
    }

    fn answer(mut self, window: Span) -> Answer {
        let (pages, is_covered) = (self.spans.len() as u32, covers(&mut self.spans, window));
        let sighting = match (self.spans.is_empty(), self.seen.is_empty()) {
            (true, _) => Sighting::Unknown,
            (false, true) => Sighting::NotSeen,
            (false, false) => Sighting::Seen(self.seen),
        };
        Answer { sighting, pages, is_covered, false_positive: 1.0 - self.right, faults: self.faults }
    }
}

/// Whether every second of `window` is in one of `spans`, which are brought into order.
fn covers(spans: &mut [Span], window: Span) -> bool {
    spans.sort_unstable();
    let mut next = window.from;
    for span in spans.iter().filter(|span| span.to >= window.from) {
        if span.from > next {
            return false;
        }
        next = next.max(span.to.saturating_add(1));
    }
    next > window.to || next == u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_covered_by_spans_without_a_gap() {
        let span = |from, to| Span { from, to };
        let covers = |spans: &[Span]| covers(&mut spans.to_vec(), span(10, 20));
        assert!(covers(&[span(15, 30), span(0, 14)]) && covers(&[span(10, 20)]));
        assert!(covers(&[span(0, 100), span(11, 12)]));
        assert!(!covers(&[span(0, 13), span(15, 30)]) && !covers(&[span(11, 20)]) && !covers(&[span(10, 19)]));
        assert!(!covers(&[]) && !covers(&[span(0, 9)]) && !covers(&[span(21, 30)]));
    }

    fn hop(place: usize, behind: Option<usize>, is_seen: bool, false_positive: f64) -> Hop {
        let sighting = if is_seen { Sighting::Seen(Vec::new()) } else { Sighting::NotSeen };
        let answer = Answer { sighting, pages: 1, is_covered: true, false_positive, faults: Vec::new() };
        Hop { place, distance: 0, behind, answer }
    }

    #[test]
    fn paths_lead_from_the_ends_to_the_beginning() {
        let hops = vec![
            hop(0, None, true, 0.5),
            hop(1, Some(0), true, 0.1),
            hop(2, Some(0), false, 0.1),
            hop(3, Some(1), true, 0.2),
            hop(4, Some(1), true, 0.0),
        ];
        let trace = Trace { hops };
        assert_eq!(trace.paths(), [[3, 1, 0], [4, 1, 0]]);
        assert!((trace.false_hops_expected() - 0.4).abs() < 1e-12, "where it began is not counted");
        assert!((trace.false_positive() - (1.0 - 0.9 * 0.9 * 0.8)).abs() < 1e-12);
    }

    #[test]
    fn what_nobody_saw_has_no_path() {
        assert!(Trace { hops: vec![hop(0, None, false, 0.1)] }.paths().is_empty());
    }
}
