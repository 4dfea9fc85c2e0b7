//! The history of a count file: the origins of its counts, and the revision of each.
//!
//! Counts are merged by addition, so each count must be added exactly once. A site's own filter has an *origin*, which
//! is a random number drawn when the filter is created, and a *revision*, which every change increments. A merged
//! filter lists the origins of its counts, each with its last revision and the checksum of the origin's own filter at
//! that revision. A delta names the revision that it builds on. Applying a delta twice, out of order or to the wrong
//! filter fails and changes nothing.

use std::fmt;
use std::io::Read;

use super::words::{Checksum, read_exactly};
use super::{FileError, Part};

/// Maximum number of origins of a merged filter.
pub const ORIGINS_MAX: usize = 1024;
/// Bytes of one origin in the history section.
pub const HISTORY_ENTRY_BYTES: usize = 20;
/// Bytes of a history section without its origins.
pub const HISTORY_FRAME_BYTES: usize = 8;

const OWN: u8 = 1;
const MERGED: u8 = 2;

/// The site that made the counts, identified by a random number drawn when its filter was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u64);

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The state of an origin within a merged filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Origin of the counts.
    pub origin: Origin,
    /// Last revision included.
    pub revision: u64,
    /// Checksum of the origin's own filter at that revision.
    pub checksum: u32,
}

/// A step of an origin's filter from one revision to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Origin of the filter.
    pub origin: Origin,
    /// Revision that the step builds on.
    pub base: u64,
    /// Revision that the step leads to.
    pub target: u64,
    /// Checksum of the origin's own filter at `base`.
    pub base_checksum: u32,
    /// Checksum of the origin's own filter at `target`.
    pub target_checksum: u32,
}

/// The origins of the counts in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum History {
    /// Counts of one site's own filter.
    Own {
        /// The site.
        origin: Origin,
        /// Number of changes so far. The filter is empty at revision 0.
        revision: u64,
    },
    /// Counts of several sites, sorted by origin without duplicates; at most [`ORIGINS_MAX`].
    Merged(Vec<Reached>),
}

/// The reason why counts cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The counts of an origin are already included.
    #[error("already merged: the filter includes origin {origin} up to revision {revision}")]
    AlreadyMerged {
        /// Origin of the counts.
        origin: Origin,
        /// Last revision included.
        revision: u64,
    },
    /// The delta is already applied.
    #[error("already applied: revisions {base} to {target} of origin {origin}; the filter has revision {reached}")]
    AlreadyApplied {
        /// Origin of the delta.
        origin: Origin,
        /// Revision that the delta builds on.
        base: u64,
        /// Revision that the delta leads to.
        target: u64,
        /// Last revision in the filter.
        reached: u64,
    },
    /// An earlier delta is missing.
    #[error(
        "out of order: it builds on revision {base} of origin {origin}, but the filter has revision {reached}; \
         apply the deltas between them first"
    )]
    OutOfOrder {
        /// Origin of the delta.
        origin: Origin,
        /// Revision that the delta builds on.
        base: u64,
        /// Last revision in the filter.
        reached: u64,
    },
    /// A part of the delta is already included.
    #[error(
        "partly applied: revisions {base} to {target} of origin {origin}, and the filter has revision {reached}; \
         create a delta from revision {reached}"
    )]
    PartlyApplied {
        /// Origin of the delta.
        origin: Origin,
        /// Revision that the delta builds on.
        base: u64,
        /// Revision that the delta leads to.
        target: u64,
        /// Last revision in the filter.
        reached: u64,
    },
    /// Two different states of an origin have the same revision.
    #[error(
        "revision {revision} of origin {origin} exists in two versions (checksums {ours:08x} and {theirs:08x}): \
         two copies of its filter were changed independently"
    )]
    Forked {
        /// Origin of both states.
        origin: Origin,
        /// Revision of both states.
        revision: u64,
        /// Checksum recorded here.
        ours: u32,
        /// Checksum of the other state.
        theirs: u32,
    },
    /// The filter contains no counts of the origin for the delta to build on.
    #[error(
        "it builds on revision {base} of origin {origin}, but the filter contains no counts of that origin; merge the \
         origin's whole filter first"
    )]
    UnknownOrigin {
        /// Origin of the delta.
        origin: Origin,
        /// Revision that the delta builds on.
        base: u64,
    },
    /// The delta belongs to one site, but the filter is another site's own filter.
    #[error("it is a delta of origin {origin}, but the filter belongs to origin {own}; apply it to a merged filter")]
    OtherOrigin {
        /// Origin of the delta.
        origin: Origin,
        /// Origin of the filter.
        own: Origin,
    },
    /// The filter or the delta has no history.
    #[error("only one of the two files records origins; create both with this version of the program")]
    OriginsUnknown,
    /// The operation needs a site's own filter. A merged filter can neither be changed nor compared with its earlier
    /// states.
    #[error("the filter is merged from several sites; use a site's own filter instead")]
    Merged,
    /// One-line counts can be merged only as a whole.
    #[error(
        "a delta of one-line counts cannot be applied to a merged filter; apply it to a copy of the site's own \
         filter and merge again"
    )]
    OneLine,
    /// The base is later than the target.
    #[error("the base (revision {base}) is later than the target (revision {target}); name the older file first")]
    Reversed {
        /// Revision of the base.
        base: u64,
        /// Revision of the target.
        target: u64,
    },
    /// The merged filter would have more than [`ORIGINS_MAX`] origins.
    #[error("a merged filter lists at most {ORIGINS_MAX} origins")]
    TooManyOrigins,
}

impl History {
    /// Returns the history of a new, empty filter of `origin`.
    #[must_use]
    pub const fn new(origin: Origin) -> Self {
        Self::Own { origin, revision: 0 }
    }

    /// Records a change by the site itself.
    ///
    /// # Errors
    /// [`HistoryError::Merged`] if the filter is a merged one.
    pub const fn record_change(&mut self) -> Result<(), HistoryError> {
        match self {
            Self::Own { revision, .. } => {
                *revision = revision.saturating_add(1);
                Ok(())
            }
            Self::Merged(_) => Err(HistoryError::Merged),
        }
    }

    /// Returns the origins with their revisions; `checksum` is the checksum of the filter itself.
    #[must_use]
    pub fn reached(&self, checksum: u32) -> Vec<Reached> {
        match self {
            Self::Own { origin, revision } => vec![Reached { origin: *origin, revision: *revision, checksum }],
            Self::Merged(reached) => reached.clone(),
        }
    }

    /// Returns the history of the sum of two filters. One has this history and `checksum`, the other has `other` and
    /// `other_checksum`. Fails if an origin would be counted twice.
    pub(crate) fn joined(&self, checksum: u32, other: &Self, other_checksum: u32) -> Result<Self, HistoryError> {
        let (mut all, theirs) = (self.reached(checksum), other.reached(other_checksum));
        let twice = all.iter().find(|ours| theirs.iter().any(|their| their.origin == ours.origin));
        if let Some(&Reached { origin, revision, .. }) = twice {
            return Err(HistoryError::AlreadyMerged { origin, revision });
        }
        all.extend(theirs);
        Self::merged(all)
    }

    fn merged(mut reached: Vec<Reached>) -> Result<Self, HistoryError> {
        reached.sort_by_key(|reached| reached.origin);
        if reached.len() > ORIGINS_MAX { Err(HistoryError::TooManyOrigins) } else { Ok(Self::Merged(reached)) }
    }

    /// Returns the step of a site's own filter from the state with this history to the later state with the history
    /// `target`.
    pub(crate) fn step_to(&self, checksum: u32, target: &Self, target_checksum: u32) -> Result<Step, HistoryError> {
        let (Self::Own { origin, revision: base }, Self::Own { origin: other, revision: target }) = (self, target)
        else {
            return Err(HistoryError::Merged);
        };
        let step = Step { origin: *other, base: *base, target: *target, base_checksum: checksum, target_checksum };
        if origin != other {
            return Err(HistoryError::OtherOrigin { origin: *other, own: *origin });
        }
        if target < base {
            return Err(HistoryError::Reversed { base: *base, target: *target });
        }
        if target == base && checksum != target_checksum {
            return Err(HistoryError::Forked {
                origin: *origin,
                revision: *base,
                ours: checksum,
                theirs: target_checksum,
            });
        }
        Ok(step)
    }

    /// Returns the history of a filter after applying `step`. Before the step, the filter has this history and
    /// `checksum`.
    pub(crate) fn after(&self, checksum: u32, step: &Step) -> Result<Self, HistoryError> {
        match self {
            Self::Own { origin, .. } if *origin != step.origin => {
                Err(HistoryError::OtherOrigin { origin: step.origin, own: *origin })
            }
            Self::Own { origin, revision } => {
                step.ensure_next(&Reached { origin: *origin, revision: *revision, checksum })?;
                Ok(Self::Own { origin: *origin, revision: step.target })
            }
            Self::Merged(reached) => {
                let mut reached = reached.clone();
                match reached.iter_mut().find(|reached| reached.origin == step.origin) {
                    Some(found) => {
                        step.ensure_next(found)?;
                        *found = step.reached();
                    }
                    // At revision 0 the origin has no counts, so a delta that builds on revision 0 needs no earlier
                    // merge.
                    None if step.base == 0 => reached.push(step.reached()),
                    None => return Err(HistoryError::UnknownOrigin { origin: step.origin, base: step.base }),
                }
                Self::merged(reached)
            }
        }
    }

    /// Returns the size of the section in bytes.
    pub(crate) const fn section_bytes(entries: u32) -> u64 {
        (HISTORY_FRAME_BYTES + entries as usize * HISTORY_ENTRY_BYTES) as u64
    }

    pub(crate) fn to_bytes(&self, checksum: u32) -> Vec<u8> {
        let reached = self.reached(checksum);
        let kind = if matches!(self, Self::Own { .. }) { OWN } else { MERGED };
        let mut bytes = vec![kind, 0];
        bytes.extend_from_slice(&(reached.len() as u16).to_le_bytes());
        for Reached { origin, revision, checksum } in reached {
            bytes.extend_from_slice(&origin.0.to_le_bytes());
            bytes.extend_from_slice(&revision.to_le_bytes());
            bytes.extend_from_slice(&checksum.to_le_bytes());
        }
        append_checksum(&mut bytes);
        bytes
    }

    /// Reads the history section of a file. `checksum` is the checksum in the file's header.
    pub(crate) fn read(input: &mut impl Read, checksum: u32) -> Result<Self, FileError> {
        let mut start = [0; 4];
        read_exactly(input, &mut start)?;
        let [kind, reserved, low, high] = start;
        let entries = usize::from(u16::from_le_bytes([low, high]));
        if entries > ORIGINS_MAX {
            return Err(FileError::invalid("the number of origins", entries as u64));
        }
        let mut bytes = vec![0; entries * HISTORY_ENTRY_BYTES + 4];
        read_exactly(input, &mut bytes)?;
        bytes.splice(..0, start);
        let entries = checked(&bytes, Part::History)?.get(start.len()..).unwrap_or_default();
        if reserved != 0 {
            return Err(FileError::invalid("a reserved field", reserved));
        }
        let reached: Vec<Reached> = entries.as_chunks().0.iter().map(reached_from).collect();
        from_entries(kind, reached, checksum)
    }
}

fn from_entries(kind: u8, reached: Vec<Reached>, checksum: u32) -> Result<History, FileError> {
    if !reached.is_sorted_by(|a, b| a.origin < b.origin) {
        return Err(FileError::UnsortedOrigins);
    }
    match (kind, reached.as_slice()) {
        (OWN, [own]) if own.checksum == checksum => Ok(History::Own { origin: own.origin, revision: own.revision }),
        (OWN, [own]) => Err(FileError::invalid("the checksum of the own origin", own.checksum)),
        (MERGED, [_, ..]) => Ok(History::Merged(reached)),
        (OWN | MERGED, _) => Err(FileError::invalid("the number of origins", reached.len() as u64)),
        _ => Err(FileError::invalid("the kind of history", kind)),
    }
}

const fn reached_from(bytes: &[u8; HISTORY_ENTRY_BYTES]) -> Reached {
    let [o0, o1, o2, o3, o4, o5, o6, o7, r0, r1, r2, r3, r4, r5, r6, r7, c0, c1, c2, c3] = *bytes;
    Reached {
        origin: Origin(u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7])),
        revision: u64::from_le_bytes([r0, r1, r2, r3, r4, r5, r6, r7]),
        checksum: u32::from_le_bytes([c0, c1, c2, c3]),
    }
}

/// Bytes of the step section of a delta.
pub const STEP_BYTES: usize = 28;

impl Step {
    /// Returns an error if the step does not begin at the state of the filter.
    fn ensure_next(&self, found: &Reached) -> Result<(), HistoryError> {
        let Self { origin, base, target, .. } = *self;
        let reached = found.revision;
        let forked = |theirs| HistoryError::Forked { origin, revision: reached, ours: found.checksum, theirs };
        if base == reached {
            let is_same = self.base_checksum == found.checksum;
            return if is_same { Ok(()) } else { Err(forked(self.base_checksum)) };
        }
        if target == reached && self.target_checksum != found.checksum {
            return Err(forked(self.target_checksum));
        }
        Err(if base > reached {
            HistoryError::OutOfOrder { origin, base, reached }
        } else if target <= reached {
            HistoryError::AlreadyApplied { origin, base, target, reached }
        } else {
            HistoryError::PartlyApplied { origin, base, target, reached }
        })
    }

    const fn reached(&self) -> Reached {
        Reached { origin: self.origin, revision: self.target, checksum: self.target_checksum }
    }

    /// Returns the bytes of the step section. The two checksums are in the header of the delta.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STEP_BYTES);
        [self.origin.0, self.base, self.target].iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
        append_checksum(&mut bytes);
        bytes
    }

    pub(crate) fn read(input: &mut impl Read, base_checksum: u32, target_checksum: u32) -> Result<Self, FileError> {
        let mut bytes = [0; STEP_BYTES];
        read_exactly(input, &mut bytes)?;
        let fields = checked(&bytes, Part::History)?.as_chunks().0;
        let &[origin, base, target] = fields else { return Err(FileError::Truncated) };
        let [origin, base, target] = [origin, base, target].map(u64::from_le_bytes);
        // A step that changes the contents but not the revision could be applied repeatedly.
        if target < base || (target == base && target_checksum != base_checksum) {
            return Err(FileError::invalid("the revision", target));
        }
        Ok(Self { origin: Origin(origin), base, target, base_checksum, target_checksum })
    }
}

fn append_checksum(bytes: &mut Vec<u8>) {
    let mut checksum = Checksum::default();
    checksum.add(bytes);
    bytes.extend_from_slice(&checksum.value().to_le_bytes());
}

/// Verifies the checksum at the end and returns the bytes before it.
fn checked(bytes: &[u8], part: Part) -> Result<&[u8], FileError> {
    let (fields, stored) = bytes.split_last_chunk().ok_or(FileError::Truncated)?;
    let mut checksum = Checksum::default();
    checksum.add(fields);
    if checksum.value() == u32::from_le_bytes(*stored) { Ok(fields) } else { Err(FileError::Damaged { part }) }
}
