//! Queries to the pages of routers and servers.

use std::collections::VecDeque;

use super::{Doubt, Invariant, Router, Subject, Topology, TracePage, read_pages};
use crate::pages::{Pages, PagesError, Span};

/// A packet or message to search for, and the time at which it may have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Invariant to search for.
    pub invariant: Invariant,
    /// The reason why the digest may not show the whole path, if there is one.
    pub doubt: Option<Doubt>,
    /// Kind of traffic, which determines the kind of pages to search.
    pub subject: Subject,
    /// Span of time to search.
    pub window: Span,
}

/// Result of searching the pages of a router or server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// Found in pages of these spans, unless these are false positives.
    Seen(Vec<Span>),
    /// Certainly not seen in the available pages.
    NotSeen,
    /// No available page overlaps the time searched.
    Unknown,
}

/// The answer of one router or server.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result of the search.
    pub sighting: Sighting,
    /// Number of pages searched.
    pub pages: u32,
    /// True if the pages cover the whole searched time.
    pub is_covered: bool,
    /// Probability of a false [`Sighting::Seen`], which one false positive in any of the pages would cause.
    pub false_positive: f64,
    /// Errors of unreadable pages.
    pub faults: Vec<String>,
}

/// A router or server that was queried.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// Index in the topology.
    pub place: usize,
    /// Number of links from the start of the walk.
    pub distance: u32,
    /// Index of the earlier hop from which the walk reached this hop.
    pub behind: Option<usize>,
    /// Answer of this router or server.
    pub answer: Answer,
}

/// The routers queried about a packet, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The hops. The first is the start of the walk.
    pub hops: Vec<Hop>,
    /// The reason why the digest may not show the whole path. If there is one, every path is open.
    pub doubt: Option<Doubt>,
}

/// A path that a packet may have taken, as indices in [`Trace::hops`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Hops from the apparent entry point to the start of the walk.
    pub hops: Vec<usize>,
    /// Neighbours of the entry point that have no answer: they have no pages or unreadable pages for that time, or
    /// their pages cover only part of it. If there are any, the path is open: the packet may have come from further
    /// away.
    pub may_come_from: Vec<usize>,
    /// The routers that [rewrite](Router::rewrites) packets, among the entry point and its neighbours. If there are
    /// any, the path is open: the packet may have passed through them in another form.
    pub may_be_rewritten_at: Vec<usize>,
    /// The reason why the digest may not show the whole path. If there is one, the path is open.
    pub doubt: Option<Doubt>,
}

/// An error in a query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A directory of pages cannot be read.
    #[error("the pages of {router} cannot be read: {cause}")]
    Pages {
        /// Name of the router.
        router: String,
        /// The cause.
        #[source]
        cause: PagesError,
    },
    /// A directory contains pages that another router recorded.
    #[error("the pages of {router} were recorded by {recorded_by}")]
    OtherName {
        /// Expected router.
        router: String,
        /// Router that recorded the pages.
        recorded_by: String,
    },
}

/// Queries the router at `start`. If a router saw the packet, its neighbours are queried next, and so on.
///
/// # Errors
/// [`TraceError`] if a directory of pages is missing or belongs to another router.
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
    Ok(Trace { hops, doubt: question.doubt })
}

/// Queries all routers, regardless of links.
///
/// # Errors
/// [`TraceError`] if a directory of pages is missing or belongs to another router.
pub fn find(topology: &Topology, question: &Question) -> Result<Vec<Hop>, TraceError> {
    let ask = |(place, router)| Ok(Hop { place, distance: 0, behind: None, answer: ask(router, question)? });
    topology.routers().iter().enumerate().map(ask).collect()
}

impl Hop {
    /// Returns true if the packet or message was found. This may be a false positive.
    #[must_use]
    pub const fn is_seen(&self) -> bool {
        matches!(self.answer.sighting, Sighting::Seen(_))
    }

    /// Returns true if the packet or message was not found but may have been seen.
    #[must_use]
    pub const fn may_have_seen(&self) -> bool {
        match self.answer.sighting {
            Sighting::Seen(_) => false,
            Sighting::NotSeen => !self.answer.is_covered || !self.answer.faults.is_empty(),
            Sighting::Unknown => true,
        }
    }
}

impl Path {
    /// Returns true if the packet may have come from beyond the path.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !self.may_come_from.is_empty() || !self.may_be_rewritten_at.is_empty() || self.doubt.is_some()
    }
}

impl Trace {
    /// Returns the paths that the packet may have taken.
    #[must_use]
    pub fn paths(&self, topology: &Topology) -> Vec<Path> {
        let leads_on = |at: usize| self.hops.iter().any(|hop| hop.is_seen() && hop.behind == Some(at));
        let ends = (0..self.hops.len()).filter(|&at| self.hops[at].is_seen() && !leads_on(at));
        ends.map(|end| self.path(topology, end)).collect()
    }

    fn path(&self, topology: &Topology, end: usize) -> Path {
        let router = |at: usize| &topology.routers()[self.hops[at].place];
        let is_neighbour = |at: usize| router(end).links.contains(&self.hops[at].place);
        let may_come_from = |&at: &usize| self.hops[at].may_have_seen() && is_neighbour(at);
        // The packet may have been rewritten at the end of the path, or at a neighbour that did not see it in this
        // form. A neighbour that saw it in this form passed it on unchanged, and its own neighbours were queried.
        let is_rewritten = |at: usize| at == end || (!self.hops[at].is_seen() && is_neighbour(at));
        Path {
            hops: std::iter::successors(Some(end), |&at| self.hops[at].behind).collect(),
            may_come_from: (0..self.hops.len()).filter(may_come_from).collect(),
            may_be_rewritten_at: (0..self.hops.len()).filter(|&at| router(at).rewrites && is_rewritten(at)).collect(),
            doubt: self.doubt,
        }
    }

    /// Returns the hops that may be false positives: all but the start of the walk, where the packet was certainly
    /// seen.
    #[must_use]
    pub fn doubtful(&self) -> &[Hop] {
        self.hops.get(1..).unwrap_or_default()
    }
}

/// Returns an upper bound on the expected number of false positives among `hops`. The bound is not exact, because true
/// sightings are counted as well.
#[must_use]
pub fn false_positives_expected(hops: &[Hop]) -> f64 {
    hops.iter().map(|hop| hop.answer.false_positive).sum()
}

/// Returns an upper bound on the probability that any of `hops` is a false positive.
#[must_use]
pub fn false_positive(hops: &[Hop]) -> f64 {
    1.0 - hops.iter().map(|hop| 1.0 - hop.answer.false_positive).product::<f64>()
}

/// Queries one router.
fn ask(router: &Router, question: &Question) -> Result<Answer, TraceError> {
    let Some(folder) = &router.pages else { return Ok(Inquiry::default().answer(question.window)) };
    let failed = |cause| TraceError::Pages { router: router.name.clone(), cause };
    let pages = Pages::open(folder, question.subject.kind()).map_err(failed)?;
    let mut inquiry = Inquiry::default();
    for page in read_pages(&pages, pages.within(question.window)) {
        match page {
            Ok((_, page)) if page.name != router.name => {
                return Err(TraceError::OtherName { router: router.name.clone(), recorded_by: page.name });
            }
            Ok((span, page)) => inquiry.look(span, &page, &question.invariant),
            Err(fault) => inquiry.faults.push(fault),
        }
    }
    Ok(inquiry.answer(question.window))
}

/// The combined results of the pages of one router.
#[derive(Debug)]
struct Inquiry {
    spans: Vec<Span>,
    seen: Vec<Span>,
    /// Probability that no page produces a false positive.
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

/// Returns true if `spans` cover every second of `window`. Sorts `spans`.
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

    /// Links router 0 to 1 and 2, and router 1 to 3 and 4.
    fn topology() -> Topology {
        let router = |(name, links): (&str, &str)| format!("[[router]]\nname = \"{name}\"\nlinks = [{links}]\n");
        let routers = [("0", r#""1", "2""#), ("1", r#""3", "4""#), ("2", ""), ("3", ""), ("4", "")];
        Topology::parse(&routers.map(router).concat(), std::path::Path::new("")).unwrap()
    }

    fn path(hops: &[usize], may_come_from: &[usize]) -> Path {
        Path {
            hops: hops.to_vec(),
            may_come_from: may_come_from.to_vec(),
            may_be_rewritten_at: Vec::new(),
            doubt: None,
        }
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
        let trace = Trace { hops, doubt: None };
        assert_eq!(trace.paths(&topology()), [path(&[3, 1, 0], &[]), path(&[4, 1, 0], &[])]);
        assert!((false_positives_expected(trace.doubtful()) - 0.4).abs() < 1e-12, "the start is not counted");
        assert!((false_positive(trace.doubtful()) - (1.0 - 0.9 * 0.9 * 0.8)).abs() < 1e-12);
    }

    #[test]
    fn a_path_is_open_if_a_neighbour_of_its_end_cannot_tell() {
        let answer = |place: usize, change: &dyn Fn(&mut Answer)| {
            let mut hop = hop(place, Some(1), false, 0.1);
            change(&mut hop.answer);
            hop
        };
        let unknown = answer(3, &|answer| answer.sighting = Sighting::Unknown);
        let uncovered = answer(3, &|answer| answer.is_covered = false);
        let faulty = answer(3, &|answer| answer.faults.push("damaged".into()));
        for doubtful in [unknown, uncovered, faulty] {
            // Router 2 has no answer, but that does not affect a path that ends at router 1.
            let far = Hop { place: 2, behind: Some(0), ..doubtful.clone() };
            let hops =
                vec![hop(0, None, true, 0.1), hop(1, Some(0), true, 0.1), far, doubtful, hop(4, Some(1), false, 0.1)];
            let paths = Trace { hops, doubt: None }.paths(&topology());
            assert_eq!(paths, [path(&[1, 0], &[3])]);
            assert!(paths[0].is_open());
        }
    }

    #[test]
    fn an_unseen_packet_has_no_path() {
        assert!(Trace { hops: vec![hop(0, None, false, 0.1)], doubt: None }.paths(&topology()).is_empty());
    }

    #[test]
    fn no_path_of_a_doubtful_packet_is_closed() {
        let trace = |doubt| Trace { hops: vec![hop(0, None, true, 0.1), hop(1, Some(0), true, 0.1)], doubt };
        assert!(!trace(None).paths(&topology())[0].is_open());
        for doubt in Doubt::ALL {
            let paths = trace(Some(doubt)).paths(&topology());
            assert!(paths.len() == 1 && paths[0].is_open() && paths[0].doubt == Some(doubt), "{doubt}");
        }
    }

    #[test]
    fn a_path_that_ends_at_or_beside_a_router_that_rewrites_is_open() {
        let text = "[[router]]\nname = 'a'\nlinks = ['b', 'c']\n[[router]]\nname = 'b'\nrewrites = true\n[[router]]\nname = 'c'\n";
        let topology = Topology::parse(text, std::path::Path::new("")).unwrap();
        let rewritten = |seen: [bool; 3]| {
            let behind = |place: usize| (place > 0).then_some(0);
            let hops = (0..3).map(|place| hop(place, behind(place), seen[place], 0.1)).collect();
            let paths = Trace { hops, doubt: None }.paths(&topology);
            let path = |path: &Path| (path.hops[0], path.may_be_rewritten_at.clone(), path.is_open());
            paths.iter().map(path).collect::<Vec<_>>()
        };
        assert_eq!(rewritten([true, false, false]), [(0, vec![1], true)], "the packet may have come through b");
        assert_eq!(rewritten([true, true, false]), [(1, vec![1], true)], "b may have created the packet");
        assert_eq!(rewritten([true, false, true]), [(2, vec![], false)], "b is not a neighbour of c");
    }
}
