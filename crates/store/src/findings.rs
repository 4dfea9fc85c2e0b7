//! The faults that a survey found, with advice on each. Often no action is needed.
//!
//! Opening reads only the newest intact snapshot and the journal files after it. A fault in any other file is harmless,
//! and a cut there would discard intact events.

use std::fmt;
use std::path::Path;

use crate::directory::{journal_file_name, quoted, snapshot_name};
use crate::founding::FOUNDING_FILE;
use crate::survey::{FileFault, JournalFileFault, JournalFileSurvey, MissingEvents, SnapshotSurvey, Survey};

/// A fault in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, if the fault is in one.
    pub file: Option<String>,
    /// The offset in the file.
    pub offset: Option<u64>,
    /// A description that includes the name of the file.
    pub text: String,
    /// The action to take.
    pub advice: Advice,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// The recommended action for a [`Finding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No action is needed, because the named files contain all data of the faulty file.
    Harmless(String),
    /// Restore a backup, or cut the journal file at the offset.
    Cut {
        /// The journal file.
        journal_file: String,
        /// The offset of the cut.
        offset: u64,
    },
    /// Move the file to another directory, because it belongs to another store.
    MoveAway,
    /// Restore the right founding file, because all other files belong to a different realm.
    RestoreFounding,
    /// Make the file readable.
    MakeReadable,
    /// Restore a backup, or continue without this file and all later ones.
    GoOnWithout {
        /// The file that depends on the missing events.
        file: String,
        /// The last event that remains without these files.
        last: u64,
    },
}

impl Advice {
    /// Formats the advice for the store in `directory`.
    #[must_use]
    pub fn text(&self, directory: &Path) -> String {
        match self {
            Self::Harmless(holder) => {
                format!("harmless: all its data is also in {holder}; the next snapshot deletes this file")
            }
            Self::Cut { journal_file, offset } => format!(
                "restore a backup, or cut off everything after the damage: bruit store repair {} --segment \
                 {journal_file} --cut-after {offset}",
                quoted(directory)
            ),
            Self::MoveAway => "it belongs to another store: move it to another directory and keep it".into(),
            Self::RestoreFounding => {
                format!("leave it where it is, and restore the {FOUNDING_FILE} of this store from a backup")
            }
            Self::MakeReadable => "it may be intact: make it readable for this program".into(),
            Self::GoOnWithout { file, last } => format!(
                "restore a backup, or move {file} and the journal files after it to another directory, which loses \
                 everything after event {last}"
            ),
        }
    }
}

impl Survey {
    /// Returns all faults, harmless or not. A torn tail is not a fault.
    #[must_use]
    pub fn faults(&self) -> Vec<Finding> {
        let snapshots = self.snapshots.iter().filter_map(|snapshot| self.snapshot_finding(snapshot));
        let journal_files = self.journal_files.iter().enumerate();
        let journal_files =
            journal_files.filter_map(|(place, journal_file)| self.journal_file_finding(place, journal_file));
        let missing = self.missing.iter().filter(|missing| !missing.in_snapshot);
        snapshots.chain(journal_files).chain(missing.map(|missing| self.missing_finding(missing))).collect()
    }

    /// Returns true if the store can be opened without losing events.
    #[must_use]
    pub fn opens(&self) -> bool {
        self.faults().iter().all(|finding| matches!(finding.advice, Advice::Harmless(_)))
    }

    /// Returns true if all files belong to a different realm from the founding file.
    #[must_use]
    pub fn has_wrong_founding(&self) -> bool {
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.fault.as_ref());
        let journal_files =
            self.journal_files.iter().map(|journal_file| journal_file.fault.as_ref().map(|fault| &fault.fault));
        let mut faults = snapshots.chain(journal_files).peekable();
        faults.peek().is_some() && faults.all(|fault| fault == Some(&FileFault::OtherRealm))
    }

    /// Returns warnings about conditions that are not faults.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let Some(newest) = self.newest_sound_snapshot() else { return Vec::new() };
        let mut warnings = Vec::new();
        let end = self.journal_files.last().map_or(0, |journal_file| journal_file.next - 1);
        let end_is_sound = self.journal_files.last().is_none_or(|journal_file| journal_file.fault.is_none());
        if end < newest && end_is_sound {
            warnings.push(format!(
                "the journal ends with event {end}, before {}; this is normal for a copy made while the \
                 server was running; otherwise the last journal file is missing, and with it all events after {newest}",
                snapshot_name(newest)
            ));
        }
        let mut sound = self.snapshots.iter().rev().filter(|snapshot| snapshot.fault.is_none());
        if let Some(older) = sound.nth(1).filter(|older| !self.leads_from(older.sequence, newest)) {
            warnings.push(format!(
                "if {} were damaged, {} would be useless, because the journal has gaps between them",
                snapshot_name(newest),
                older.file
            ));
        }
        warnings
    }

    /// Returns true if the journal contains all events after `older`, up to and including `newer`.
    fn leads_from(&self, older: u64, newer: u64) -> bool {
        let needed = self.journal_files.iter().skip(self.first_needed_after(older));
        let mut needed = needed.take_while(|journal_file| journal_file.first <= newer);
        needed.all(|journal_file| journal_file.fault.is_none())
            && self.missing.iter().all(|missing| missing.last <= older)
    }

    /// Returns the index of the first journal file to replay after the snapshot at `sequence` is restored.
    fn first_needed_after(&self, sequence: u64) -> usize {
        self.journal_files
            .partition_point(|journal_file| journal_file.first <= sequence.saturating_add(1))
            .saturating_sub(1)
    }

    /// Returns the index of the first journal file that opening reads.
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

    /// Returns the advice for a file of another realm. If all files are of another realm, the founding file is the
    /// wrong one.
    fn foreign_advice(&self) -> Advice {
        if self.has_wrong_founding() { Advice::RestoreFounding } else { Advice::MoveAway }
    }

    fn journal_file_finding(&self, place: usize, journal_file: &JournalFileSurvey) -> Option<Finding> {
        let JournalFileFault { offset, fault } = journal_file.fault.as_ref()?;
        let text = match fault {
            FileFault::Damaged(reason) => format!("{} is damaged at byte {offset}: {reason}", journal_file.file),
            other => format!("{} {other}", journal_file.file),
        };
        let holder = self.newest_sound_snapshot().filter(|_| place < self.first_needed()).map(snapshot_name);
        let advice = match (holder, fault) {
            (Some(name), _) => Advice::Harmless(name),
            (None, FileFault::Damaged(_)) => Advice::Cut { journal_file: journal_file.file.clone(), offset: *offset },
            (None, FileFault::OtherRealm) => self.foreign_advice(),
            (None, FileFault::Unreadable(_)) => Advice::MakeReadable,
        };
        Some(Finding { file: Some(journal_file.file.clone()), offset: Some(*offset), text, advice })
    }

    fn missing_finding(&self, missing: &MissingEvents) -> Finding {
        let MissingEvents { first, last, .. } = *missing;
        let behind = self
            .journal_files
            .iter()
            .find(|journal_file| journal_file.first > last)
            .map(|journal_file| journal_file_name(journal_file.first));
        let file = behind.or_else(|| self.snapshots.last().map(|snapshot| snapshot.file.clone())).unwrap_or_default();
        let text = format!("events {first} to {last} are missing");
        Finding { file: None, offset: None, text, advice: Advice::GoOnWithout { file, last: first - 1 } }
    }
}
