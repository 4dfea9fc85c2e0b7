//! Asking routers and servers what they saw.

use std::collections::VecDeque;

use super::{Doubt, Invariant, Router, Subject, Topology, TracePage, read_pages};
use crate::pages::{Pages, PagesError, Span};

/// What is looked for, and when it may have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// What.
    pub invariant: Invariant,
    /// Why its digest does not show all of its way, if so.
    pub doubt: Option<Doubt>,
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
    /// Why its digest does not show all of its way, if so: no path is closed then.
    pub doubt: Option<Doubt>,
}

/// A way that a packet may have come, as places in [`Trace::hops`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// From where it seems to have come in to where the walk began.
    pub hops: Vec<usize>,
    /// Neighbours of the first of these that cannot tell: they have no page of that time, or not of all of it, or one that
    /// cannot be read. If there are any, the path is open: the packet may have come from further away.
    pub may_come_from: Vec<usize>,
    /// The first of these and its neighbours, if they [rewrite](Router::rewrites) packets: it may have come through them as
    /// another packet, and the path is open.
    pub may_be_rewritten_at: Vec<usize>,
    /// Why the digest does not show all of the way, if so: the path is open.
    pub doubt: Option<Doubt>,
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
    Ok(Trace { hops, doubt: question.doubt })
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

    /// Whether it is not known to have seen it, and may have.
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
    /// Whether the packet may have come from further away than the path tells.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !self.may_come_from.is_empty() || !self.may_be_rewritten_at.is_empty() || self.doubt.is_some()
    }
}

impl Trace {
    /// The ways that it may have come.
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
        // One that saw it as it is has passed it on so: it is on the path, and its own neighbours were asked.
        let is_rewritten = |at: usize| at == end || (!self.hops[at].is_seen() && is_neighbour(at));
        Path {
            hops: std::iter::successors(Some(end), |&at| self.hops[at].behind).collect(),
            may_come_from: (0..self.hops.len()).filter(may_come_from).collect(),
            may_be_rewritten_at: (0..self.hops.len()).filter(|&at| router(at).rewrites && is_rewritten(at)).collect(),
            doubt: self.doubt,
        }
    }

    /// Those that may seem to have seen it and have not: all but the router where the walk began, as there the packet is known to
    /// have been.
    #[must_use]
    pub fn doubtful(&self) -> &[Hop] {
        self.hops.get(1..).unwrap_or_default()
    }
}

/// How many of `hops` seem to have seen it and have not, on average: at most this, as those that did cannot be among them.
#[must_use]
pub fn false_positives_expected(hops: &[Hop]) -> f64 {
    hops.iter().map(|hop| hop.answer.false_positive).sum()
}

/// The probability that any of `hops` seems to have seen it and has not: at most this.
#[must_use]
pub fn false_positive(hops: &[Hop]) -> f64 {
    1.0 - hops.iter().map(|hop| 1.0 - hop.answer.false_positive).product::<f64>()
}

/// Asks one.
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

    /// Router 0 is linked with 1 and 2, and 1 with 3 and 4.
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
        assert!((false_positives_expected(trace.doubtful()) - 0.4).abs() < 1e-12, "where it began is not counted");
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
            // That 2 cannot tell says nothing about a path that ends at 1.
            let far = Hop { place: 2, behind: Some(0), ..doubtful.clone() };
            let hops =
                vec![hop(0, None, true, 0.1), hop(1, Some(0), true, 0.1), far, doubtful, hop(4, Some(1), false, 0.1)];
            let paths = Trace { hops, doubt: None }.paths(&topology());
            assert_eq!(paths, [path(&[1, 0], &[3])]);
            assert!(paths[0].is_open());
        }
    }

    #[test]
    fn what_nobody_saw_has_no_path() {
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
        assert_eq!(rewritten([true, false, false]), [(0, vec![1], true)], "it may have come through b");
        assert_eq!(rewritten([true, true, false]), [(1, vec![1], true)], "b may have made it");
        assert_eq!(rewritten([true, false, true]), [(2, vec![], false)], "b is no neighbour of c");
    }
}
