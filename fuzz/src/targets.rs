//! The fuzz targets, one module each, and the table that [`find`] searches.

mod attribution_page;
mod capture;
mod dcc;
mod delta;
mod event;
mod filter_file;
mod flows;
mod fuzzy;
mod heads;
mod http_subject;
mod journal;
mod map_file;
mod message;
mod milter;
mod pyzor;
mod razor;
mod replica;
mod segment;
mod snapshot;
mod sorted;
mod summary;
mod trace;

/// The entry point of a fuzz target. It panics if the code under test misbehaves.
pub(crate) type Target = fn(&[u8]);

/// All targets and their names. Each target's module and input folders have the name of the target.
const TARGETS: &[(&str, Target)] = &[
    ("attribution_page", attribution_page::fuzz),
    ("capture", capture::fuzz),
    ("dcc", dcc::fuzz),
    ("delta", delta::fuzz),
    ("event", event::fuzz),
    ("filter_file", filter_file::fuzz),
    ("flows", flows::fuzz),
    ("fuzzy", fuzzy::fuzz),
    ("heads", heads::fuzz),
    ("http_subject", http_subject::fuzz),
    ("journal", journal::fuzz),
    ("map_file", map_file::fuzz),
    ("message", message::fuzz),
    ("milter", milter::fuzz),
    ("pyzor", pyzor::fuzz),
    ("razor", razor::fuzz),
    ("replica", replica::fuzz),
    ("segment", segment::fuzz),
    ("snapshot", snapshot::fuzz),
    ("sorted", sorted::fuzz),
    ("summary", summary::fuzz),
    ("trace", trace::fuzz),
];

/// Returns the target named `name`.
pub(crate) fn find(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
