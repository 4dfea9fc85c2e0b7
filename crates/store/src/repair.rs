//! Going on without what is behind a damaged place: cut, kept in files beside, and told.
//!
//! The order makes every step repeatable: the cut part is on disk under its new name before anything is taken away.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::directory::{CUT_PREFIX, Listing, Lock, LockError, TEMPORARY_PREFIX, segment_name};
use crate::disk::{Disk, SystemDisk};
use crate::format::{Header, Kind};
use crate::founding::FOUNDING_FILE;
use crate::recover::READ_BYTES;
use crate::segment::{SegmentReader, Step, last_behind};
use crate::survey::{Survey, SurveyError, survey};

/// Why nothing was cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// A store that is in use is not repaired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory could not be read.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The system refused.
    #[error("failed to cut {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing of a store.
    #[error("{} is not the directory of a store", directory.display())]
    NoStore {
        /// What was named.
        directory: PathBuf,
    },
    /// The store opens with everything as it is; a cut would lose events.
    #[error(
        "nothing needs to be cut: the store opens with everything as it is, and without events {first} to {last} after \
         a cut in {segment}; --force cuts all the same"
    )]
    Needless {
        /// The segment.
        segment: String,
        /// The first event that would be lost.
        first: u64,
        /// The last one that is known.
        last: u64,
    },
    /// No segment was named and none is damaged.
    #[error("no segment is damaged: name the one to cut")]
    NothingDamaged,
    /// The named segment is not there.
    #[error("there is no segment {segment}")]
    NoSuchSegment {
        /// What was named.
        segment: String,
    },
    /// No record begins at the offset, so a cut there would leave half of one.
    #[error("no sound record ends at byte {offset} of {segment}; the last one before ends at byte {before}")]
    NoBoundary {
        /// The segment.
        segment: String,
        /// What was asked.
        offset: u64,
        /// Where a cut is possible.
        before: u64,
    },
}

/// What was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The segment in which the cut is.
    pub segment: String,
    /// Where.
    pub offset: u64,
    /// The files in the same directory that hold what was cut.
    pub cut_files: Vec<String>,
    /// How many bytes that is.
    pub cut_bytes: u64,
    /// The last event that the journal still has.
    pub kept_up_to: u64,
    /// The last event that was found behind the cut, or that is known to have been there.
    pub cut_up_to: Option<u64>,
    /// The first and last event that are known to be lost: those behind the cut that no sound snapshot holds.
    pub lost: Option<(u64, u64)>,
    /// Whether that is all. It is not if the journal ended with bytes that nobody can read, or ends where a file was cut
    /// short.
    pub is_all: bool,
}

/// Cuts the journal in `segment` (the damaged one, unless named) after byte `offset`: what is behind, later segments too,
/// is moved into files whose names begin with `cut-`. With `force` even if nothing is wrong that keeps the store from
/// being opened with everything in it.
///
/// # Errors
/// [`RepairError`] if the store is in use, needs no cut, or there is no record boundary at `offset`.
pub fn repair(directory: &Path, segment: Option<&str>, offset: u64, force: bool) -> Result<Repaired, RepairError> {
    // Before the lock, which would leave a file in a directory that is no store.
    let looked = survey(directory, &mut ())?;
    if looked.segments.is_empty() && looked.snapshots.is_empty() && !directory.join(FOUNDING_FILE).exists() {
        return Err(RepairError::NoStore { directory: directory.to_owned() });
    }
    choose(&looked, segment)?;
    let _lock = Lock::take(directory)?;
    let survey = survey(directory, &mut ())?;
    let first = choose(&survey, segment)?;
    let path = directory.join(segment_name(first));
    let io = |source| RepairError::Io { path: path.clone(), source };
    let place = Place::find(&path, first, survey.realm, offset).map_err(io)?;
    if place.offset != offset {
        return Err(RepairError::NoBoundary { segment: segment_name(first), offset, before: place.offset });
    }
    let later: Vec<u64> = survey.segments.iter().map(|segment| segment.first).filter(|&other| other > first).collect();
    let (cut_up_to, is_all) = place.known_up_to(directory, &survey, &later).map_err(io)?;
    let safe = place.kept_up_to.max(survey.newest_sound_snapshot().unwrap_or(0));
    let lost = cut_up_to.filter(|&last| last > safe).map(|last| (safe + 1, last));
    if let Some((first_lost, last)) = lost.filter(|_| !force && survey.opens()) {
        return Err(RepairError::Needless { segment: segment_name(first), first: first_lost, last });
    }
    let cut = Cut { directory, disk: &SystemDisk, files: Vec::new(), bytes: 0 };
    let cut = cut.run(first, offset, &later).map_err(io)?;
    Ok(Repaired {
        segment: segment_name(first),
        offset,
        cut_files: cut.files,
        cut_bytes: cut.bytes,
        kept_up_to: place.kept_up_to,
        cut_up_to,
        lost,
        is_all,
    })
}

/// The segment to cut, by its first sequence.
fn choose(survey: &Survey, wanted: Option<&str>) -> Result<u64, RepairError> {
    let mut segments = survey.segments.iter();
    let mut damaged = survey.segments.iter().filter(|segment| segment.fault.is_some());
    let needed = survey.segments.iter().skip(survey.first_needed()).find(|segment| segment.fault.is_some());
    let found = match wanted {
        Some(name) => segments.find(|segment| segment.file == name),
        // What a snapshot holds is not in the way.
        None => needed.or_else(|| damaged.next()),
    };
    found.map(|segment| segment.first).ok_or_else(|| match wanted {
        Some(name) => RepairError::NoSuchSegment { segment: name.to_owned() },
        None => RepairError::NothingDamaged,
    })
}

/// A place where a segment can be cut.
struct Place {
    offset: u64,
    kept_up_to: u64,
    /// The last event of the segment that is known, if it is behind the cut.
    cut_up_to: Option<u64>,
    /// Whether that is the last record of the file.
    is_all: bool,
}

impl Place {
    /// The last place up to `wanted`. The beginning of the file is one: then nothing of it is kept. Behind a
    /// header that is not sound, records are looked for as the name of the file and the realm tell.
    fn find(path: &Path, first: u64, realm: Option<[u8; 16]>, wanted: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut place = Self { offset: 0, kept_up_to: first - 1, cut_up_to: None, is_all: false };
        let mut reader = match SegmentReader::open(BufReader::with_capacity(READ_BYTES, file))? {
            Ok(mut reader) => {
                place.advance(&mut reader, wanted)?;
                reader
            }
            Err(_) => {
                let Some(realm) = realm else { return Ok(place) };
                let header = Header { kind: Kind::Segment, realm, sequence: first };
                SegmentReader::assume(BufReader::with_capacity(READ_BYTES, File::open(path)?), header)
            }
        };
        // Sound records up to here, and whatever can still be found behind.
        let read = (reader.next() - 1, reader.offset());
        let (last, end) = last_behind(&mut reader)?.unwrap_or(read).max(read);
        place.cut_up_to = Some(last).filter(|&last| last > place.kept_up_to);
        place.is_all = end == length;
        Ok(place)
    }

    fn advance(&mut self, reader: &mut SegmentReader<BufReader<File>>, wanted: u64) -> io::Result<()> {
        while reader.offset() <= wanted {
            (self.offset, self.kept_up_to) = (reader.offset(), reader.next() - 1);
            if !matches!(reader.step()?, Step::Record(_)) {
                break;
            }
        }
        Ok(())
    }

    /// The last event behind the cut that is known, in later segments too, and whether none can have come after it.
    fn known_up_to(&self, directory: &Path, survey: &Survey, later: &[u64]) -> io::Result<(Option<u64>, bool)> {
        let Some(&last) = later.last() else { return Ok((self.cut_up_to, self.is_all)) };
        // A segment is begun when all before it is on disk.
        let proven = self.cut_up_to.max(Some(last - 1)).filter(|&last| last > self.kept_up_to);
        let torn = survey.segments.last().is_some_and(|segment| segment.torn_bytes > 0);
        let behind = Self::find(&directory.join(segment_name(last)), last, survey.realm, 0)?;
        Ok((proven.max(behind.cut_up_to), behind.is_all || torn))
    }
}

/// A cut under way.
struct Cut<'a> {
    directory: &'a Path,
    disk: &'a dyn Disk,
    files: Vec<String>,
    bytes: u64,
}

impl Cut<'_> {
    fn run(mut self, first: u64, offset: u64, later: &[u64]) -> io::Result<Self> {
        let path = self.directory.join(segment_name(first));
        if offset > 0 && offset < path.metadata()?.len() {
            self.copy_tail(first, offset)?;
        }
        // The newest first: if this ends half-way, the journal has no gap.
        for &segment in later.iter().rev() {
            self.move_away(segment)?;
        }
        if offset > 0 {
            let mut file = self.disk.append(&path)?;
            file.set_len(offset)?;
            file.sync()?;
        } else {
            self.move_away(first)?;
        }
        self.disk.sync_directory(self.directory)?;
        self.files.sort_unstable();
        Ok(self)
    }

    /// Copies what is behind `offset` into a file of its own.
    fn copy_tail(&mut self, first: u64, offset: u64) -> io::Result<()> {
        let mut input = File::open(self.directory.join(segment_name(first)))?;
        input.seek(SeekFrom::Start(offset))?;
        let name = self.free_name(&format!("{CUT_PREFIX}{offset}-{}", segment_name(first)))?;
        let temporary = self.directory.join(format!("{TEMPORARY_PREFIX}{name}"));
        let mut output = self.disk.create(&temporary)?;
        let mut piece = Vec::new();
        while input.by_ref().take(READ_BYTES as u64).read_to_end(&mut piece)? > 0 {
            output.write_all(&piece)?;
            self.bytes += piece.len() as u64;
            piece.clear();
        }
        output.sync()?;
        self.disk.rename(&temporary, &self.directory.join(&name))?;
        self.disk.sync_directory(self.directory)?;
        self.files.push(name);
        Ok(())
    }

    fn move_away(&mut self, first: u64) -> io::Result<()> {
        let path = self.directory.join(segment_name(first));
        let name = self.free_name(&format!("{CUT_PREFIX}{}", segment_name(first)))?;
        self.bytes += path.metadata()?.len();
        self.disk.rename(&path, &self.directory.join(&name))?;
        self.disk.sync_directory(self.directory)?;
        self.files.push(name);
        Ok(())
    }

    /// A name that no earlier repair has taken.
    fn free_name(&self, wanted: &str) -> io::Result<String> {
        let taken = Listing::read(self.directory)?.cut;
        let names = std::iter::once(wanted.to_owned()).chain((2..).map(|number| format!("{wanted}-{number}")));
        Ok(names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default())
    }
}
