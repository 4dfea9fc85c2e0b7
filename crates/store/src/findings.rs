//! What a survey found wrong, and what to do about each: nothing, more often than one would think.
//!
//! Opening reads the newest sound snapshot and the segments from there on. What is wrong with any other file is harmless,
//! and a cut there would throw away sound events.

use std::fmt;
use std::path::Path;

use crate::directory::{quoted, segment_name, snapshot_name};
use crate::founding::FOUNDING_FILE;
use crate::survey::{FileFault, Missing, SegmentFault, SegmentSurvey, SnapshotSurvey, Survey};

/// Something wrong with a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, if there is one to name.
    pub file: Option<String>,
    /// Where in it.
    pub offset: Option<u64>,
    /// What is wrong, with the name of the file.
    pub text: String,
    /// What to do.
    pub advice: Advice,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// What to do about a [`Finding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: what is named here holds everything.
    Harmless(String),
    /// Restore a backup, or cut this segment there.
    Cut {
        /// The segment.
        segment: String,
        /// Where.
        offset: u64,
    },
    /// Move the file to another directory: it belongs to another store.
    MoveAway,
    /// Restore the right founding file: all other files belong to another realm.
    RestoreFounding,
    /// See to it that the file can be read.
    MakeReadable,
    /// Restore a backup, or go on without this file and all behind it.
    GoOnWithout {
        /// The file that needs what is missing.
        file: String,
        /// The last event that is left then.
        last: u64,
    },
}

impl Advice {
    /// The advice in words, for the store in `directory`.
    #[must_use]
    pub fn text(&self, directory: &Path) -> String {
        match self {
            Self::Harmless(holder) => format!("harmless: {holder} holds it; the next snapshot removes it"),
            Self::Cut { segment, offset } => format!(
                "restore a backup, or cut off everything after the damage: bruit store repair {} --segment {segment} --cut-after {offset}",
                quoted(directory)
            ),
            Self::MoveAway => "it belongs to another store: move it to another directory, and keep it".into(),
            Self::RestoreFounding => {
                format!("leave it where it is, and restore the {FOUNDING_FILE} of this store from a backup")
            }
            Self::MakeReadable => "it may be sound: make it readable for this program".into(),
            Self::GoOnWithout { file, last } => format!(
                "restore a backup, or move {file} and the segments after it to another directory, which loses everything \
                 after event {last}"
            ),
        }
    }
}

impl Survey {
    /// What is wrong, harmless or not. A torn tail is not.
    #[must_use]
    pub fn faults(&self) -> Vec<Finding> {
        let snapshots = self.snapshots.iter().filter_map(|snapshot| self.snapshot_finding(snapshot));
        let segments = self.segments.iter().enumerate();
        let segments = segments.filter_map(|(place, segment)| self.segment_finding(place, segment));
        let missing = self.missing.iter().filter(|missing| !missing.in_snapshot);
        snapshots.chain(segments).chain(missing.map(|missing| self.missing_finding(missing))).collect()
    }

    /// Whether the store can be opened with everything in it.
    #[must_use]
    pub fn opens(&self) -> bool {
        self.faults().iter().all(|finding| matches!(finding.advice, Advice::Harmless(_)))
    }

    /// True if all files belong to another realm than the founding file.
    #[must_use]
    pub fn has_wrong_founding(&self) -> bool {
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.fault.as_ref());
        let segments = self.segments.iter().map(|segment| segment.fault.as_ref().map(|fault| &fault.fault));
        let mut faults = snapshots.chain(segments).peekable();
        faults.peek().is_some() && faults.all(|fault| fault == Some(&FileFault::OtherRealm))
    }

    /// What is not wrong but good to know.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(newest) = self.newest_sound_snapshot() else { return Vec::new() };
        let mut warnings = Vec::new();
        let end = self.segments.last().map_or(0, |segment| segment.next - 1);
        let end_is_sound = self.segments.last().is_none_or(|segment| segment.fault.is_none());
        if end < newest && end_is_sound {
            warnings.push(format!(
                "the journal ends with event {end}, before {}: so may a copy that was made while the server ran; \
                 otherwise the last segment is gone, and with it whatever came after event {newest}",
                snapshot_name(newest)
            ));
        }
        let mut sound = self.snapshots.iter().rev().filter(|snapshot| snapshot.fault.is_none());
        if let Some(older) = sound.nth(1).filter(|older| !self.leads_from(older.sequence, newest)) {
            warnings.push(format!(
                "should {} be damaged too, {} would be of no use: the journal between them is not whole",
                snapshot_name(newest),
                older.file
            ));
        }
        warnings
    }

    /// Whether the journal has all events after `older` up to `newer`.
    fn leads_from(&self, older: u64, newer: u64) -> bool {
        let needed = self.segments.iter().skip(self.first_needed_after(older));
        let mut needed = needed.take_while(|segment| segment.first <= newer);
        needed.all(|segment| segment.fault.is_none()) && self.missing.iter().all(|missing| missing.last <= older)
    }

    /// The place of the first segment that is read behind a snapshot.
    fn first_needed_after(&self, sequence: u64) -> usize {
        self.segments.partition_point(|segment| segment.first <= sequence.saturating_add(1)).saturating_sub(1)
    }

    /// The place of the first segment that opening reads.
    pub(crate) fn first_needed(&self) -> usize {
        self.first_needed_after(self.newest_sound_snapshot().unwrap_or(0))
    }

    fn snapshot_finding(&self, snapshot: &SnapshotSurvey) -> Option<Finding> {
        let fault = snapshot.fault.as_ref()?;
        let text = format!("{} {fault}", snapshot.file);
        Some(Finding {
            file: Some(snapshot.file.clone()),
            offset: None,
            text,
            advice: self.snapshot_advice(snapshot, fault),
        })
    }

    fn snapshot_advice(&self, snapshot: &SnapshotSurvey, fault: &FileFault) -> Advice {
        let sound = self.newest_sound_snapshot();
        let lost = self.missing.iter().find(|missing| !missing.in_snapshot);
        match (fault, sound.map(snapshot_name), lost) {
            (_, Some(name), _) if sound > Some(snapshot.sequence) => Advice::Harmless(name),
            (FileFault::OtherRealm, ..) => self.foreign_advice(),
            (FileFault::Unreadable(_), ..) => Advice::MakeReadable,
            (FileFault::Damaged(_), _, Some(missing)) => self.missing_finding(missing).advice,
            (FileFault::Damaged(_), Some(name), None) => Advice::Harmless(format!("{name} with the journal")),
            (FileFault::Damaged(_), None, None) => Advice::Harmless("the journal".into()),
        }
    }

    /// The remedy for a file of another realm. If all files are, the founding file is the wrong one.
    fn foreign_advice(&self) -> Advice {
        if self.has_wrong_founding() { Advice::RestoreFounding } else { Advice::MoveAway }
    }

    fn segment_finding(&self, place: usize, segment: &SegmentSurvey) -> Option<Finding> {
        let SegmentFault { offset, fault } = segment.fault.as_ref()?;
        let text = match fault {
            FileFault::Damaged(reason) => format!("{} is damaged at byte {offset}: {reason}", segment.file),
            other => format!("{} {other}", segment.file),
        };
        let holder = self.newest_sound_snapshot().filter(|_| place < self.first_needed()).map(snapshot_name);
        let advice = match (holder, fault) {
            (Some(name), _) => Advice::Harmless(name),
            (None, FileFault::Damaged(_)) => Advice::Cut { segment: segment.file.clone(), offset: *offset },
            (None, FileFault::OtherRealm) => self.foreign_advice(),
            (None, FileFault::Unreadable(_)) => Advice::MakeReadable,
        };
        Some(Finding { file: Some(segment.file.clone()), offset: Some(*offset), text, advice })
    }

    fn missing_finding(&self, missing: &Missing) -> Finding {
        let Missing { first, last, .. } = *missing;
        let behind =
            self.segments.iter().find(|segment| segment.first > last).map(|segment| segment_name(segment.first));
        let file = behind.or_else(|| self.snapshots.last().map(|snapshot| snapshot.file.clone())).unwrap_or_default();
        let text = format!("events {first} to {last} are missing");
        Finding { file: None, offset: None, text, advice: Advice::GoOnWithout { file, last: first - 1 } }
    }
}
