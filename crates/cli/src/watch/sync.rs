//! Compares the Junk folders of a Maildir with the list of known messages, and makes claims about the differences.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use bruit_client::Signer;
use bruit_client::http::Subject;
use bruit_client::spool::{ClaimKind, Spool, SpoolError, SpooledReport};
use bruit_console::mailbox;
use bruit_signatures::message::Fields;

use super::maildir::{Maildir, MessageFile, Names, for_each_message, is_deleted, is_made_since};
use super::state::{Record, State, StateFile};
use crate::rspamd::LessonArgs;

/// Reports messages that are moved into Junk, and revokes messages that are moved out.
pub(super) struct Claims<'a> {
    pub(super) spool: &'a Spool,
    pub(super) signer: &'a Signer,
    pub(super) names: &'a Names,
    /// Messages with one of these fields are not reported, because a filter has put them into Junk.
    pub(super) ignored: &'a [Field],
    /// The options with which rspamd learns the messages, if it does.
    pub(super) lesson: Option<LessonArgs>,
    pub(super) state: &'a Path,
    /// True once a signal has asked the program to stop. The next start makes the remaining claims.
    pub(super) is_stopping: &'a AtomicBool,
}

/// A header field whose value begins with a text.
#[derive(Clone, Debug)]
pub(super) struct Field {
    name: String,
    value: String,
}

/// Numbers of claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) reported: usize,
    pub(super) revoked: usize,
}

/// A message and what identifies it.
struct Letter {
    message: Vec<u8>,
    subject: Subject,
    record: Record,
    /// ID of a claim about the message. The ID stays the same after a crash, so that the claim counts only once.
    id: String,
}

/// The result of a search for messages that left Junk.
struct Search {
    found: HashMap<String, MessageFile>,
    /// False if a folder could not be searched. A message that was not found may be in that folder.
    is_complete: bool,
}

impl std::str::FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once(':').ok_or("expected FIELD: VALUE")?;
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_ascii_lowercase() })
    }
}

impl Field {
    fn is_in(&self, message: &[u8]) -> bool {
        Fields::of(message).iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(self.name.as_bytes())
                && value.trim_ascii().to_ascii_lowercase().starts_with(self.value.as_bytes())
        })
    }
}

impl Claims<'_> {
    /// Makes the claims for the changes in a Maildir since the last call. At the first start, all messages in Junk are
    /// treated as known.
    ///
    /// # Errors
    /// If a folder cannot be read, or if a claim cannot be stored. The next call makes the missing claims.
    pub(super) fn sync(&self, maildir: &Maildir, now: u64) -> Result<Counts> {
        let file = StateFile::of(self.state, &maildir.root)?;
        let known = file.read()?;
        let junk = maildir.junk(self.names)?;
        let Some(mut state) = known else {
            tracing::info!(maildir = %maildir.root.display(), messages = junk.len(), "first start: messages in Junk are not reported");
            let mut state = first_state(&junk, now);
            // Reading takes a while. Write the state now: if the program is stopped while it reads, messages that
            // arrive later are still recognised as new.
            file.write(&state)?;
            self.read_known(&junk, &mut state);
            return file.write(&state).map(|()| Counts::default());
        };
        let before = state.messages.clone();
        self.read_known(&junk, &mut state);
        let mut counts = Counts::default();
        let gone = self.gone(maildir, &junk, &mut state)?;
        let claimed = self.report(maildir, &junk, &mut state, now, &mut counts);
        let claimed = claimed.and_then(|()| self.revoke(maildir, gone, &mut state, now, &mut counts));
        if state.messages != before {
            file.write(&state)?;
        }
        claimed.map(|()| counts)
    }

    /// Reads the messages that were in Junk before the first start, so that their contents can be compared.
    fn read_known(&self, junk: &HashMap<String, MessageFile>, state: &mut State) {
        for (key, record) in state.messages.iter_mut().filter(|(_, record)| record.bytes == 0) {
            if self.is_stopping.load(Ordering::Relaxed) {
                return;
            }
            let Some(file) = junk.get(key) else { continue };
            let Ok(metadata) = fs::metadata(&file.path) else { continue };
            // Record the length first, so that a message that cannot be read is not tried again.
            record.bytes = metadata.len();
            if let Some(letter) = self.read(ClaimKind::Report, file, record.since) {
                *record = letter.record;
            }
        }
    }

    /// Returns the messages that are no longer in Junk. A message that was renamed within Junk gets its new name in
    /// `state`.
    fn gone(&self, maildir: &Maildir, junk: &HashMap<String, MessageFile>, state: &mut State) -> Result<Vec<String>> {
        let missing: Vec<String> = state.messages.keys().filter(|key| !junk.contains_key(*key)).cloned().collect();
        if missing.is_empty() {
            return Ok(missing);
        }
        // A file that is renamed while the folder is listed may be missing from the list.
        let again = maildir.junk(self.names)?;
        let missing: Vec<String> = missing.into_iter().filter(|key| !again.contains_key(key)).collect();
        let arrived = again.iter().filter(|(key, _)| !state.messages.contains_key(*key));
        let arrived: HashMap<u64, (&String, &MessageFile)> = arrived.map(|one| (one.1.inode, one)).collect();
        let mut gone = Vec::new();
        for key in missing {
            let Some(record) = state.messages.remove(&key) else { continue };
            let renamed = arrived.get(&record.inode).filter(|(_, file)| self.is_same(&record, file));
            if let Some((name, _)) = renamed {
                state.messages.insert((*name).clone(), record);
            } else {
                state.messages.insert(key.clone(), record);
                gone.push(key);
            }
        }
        Ok(gone)
    }

    /// Reports the messages that appeared in Junk.
    fn report(
        &self,
        maildir: &Maildir,
        junk: &HashMap<String, MessageFile>,
        state: &mut State,
        now: u64,
        counts: &mut Counts,
    ) -> Result<()> {
        let arrived: BTreeMap<_, _> = junk.iter().filter(|(key, _)| !state.messages.contains_key(*key)).collect();
        for (key, file) in arrived {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            let Some(letter) = self.read(ClaimKind::Report, file, now) else { continue };
            if self.ignored.iter().any(|field| field.is_in(&letter.message)) {
                tracing::info!(maildir = %maildir.root.display(), file = key, "not reported: filed by a filter");
            } else {
                self.claim(ClaimKind::Report, maildir, &letter, now)?;
                tracing::info!(maildir = %maildir.root.display(), file = key, "reported");
                counts.reported += 1;
            }
            state.messages.insert(key.clone(), letter.record);
        }
        Ok(())
    }

    /// Revokes the messages that left Junk and are now in another folder. A message that is in no other folder was
    /// deleted.
    fn revoke(
        &self,
        maildir: &Maildir,
        gone: Vec<String>,
        state: &mut State,
        now: u64,
        counts: &mut Counts,
    ) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let Search { mut found, mut is_complete } = self.find(maildir, &gone, state)?;
        let missing: Vec<String> = gone.iter().filter(|key| !found.contains_key(*key)).cloned().collect();
        if !missing.is_empty() && is_complete {
            // A file that is renamed while its folder is listed may be missing from the list.
            let again = self.find(maildir, &missing, state)?;
            found.extend(again.found);
            is_complete = again.is_complete;
        }
        for key in gone {
            if self.is_stopping.load(Ordering::Relaxed) {
                break;
            }
            match found.get(&key) {
                Some(file) => {
                    // The message was moved again, or cannot be read: the next call tries again.
                    let Some(letter) = self.read(ClaimKind::Revoke, file, now) else { continue };
                    let record = state.messages.get(&key);
                    if file.key() != key && !record.is_some_and(|record| record.agrees(&letter.record)) {
                        continue;
                    }
                    self.claim(ClaimKind::Revoke, maildir, &letter, now)?;
                    tracing::info!(maildir = %maildir.root.display(), file = key, "revoked");
                    counts.revoked += 1;
                }
                None if !is_complete => continue,
                None => tracing::info!(maildir = %maildir.root.display(), file = key, "deleted"),
            }
            state.messages.remove(&key);
        }
        ensure!(is_complete, "some folders cannot be searched for messages that left Junk");
        Ok(())
    }

    /// Finds messages in the other folders: by name, by inode, or by contents. A file that is older than the message's
    /// arrival in Junk is a separate copy and is ignored, unless it has the message's own name.
    fn find(&self, maildir: &Maildir, gone: &[String], state: &State) -> Result<Search> {
        let wanted: Vec<(&String, &Record)> =
            gone.iter().filter_map(|key| Some((key, state.messages.get(key)?))).collect();
        let by_key: HashMap<&str, &String> = wanted.iter().map(|(key, _)| (key.as_str(), *key)).collect();
        let by_inode: HashMap<u64, (&String, &Record)> = wanted.iter().map(|one| (one.1.inode, *one)).collect();
        let oldest = wanted.iter().map(|(_, record)| record.since).min().unwrap_or_default();
        let mut found: HashMap<String, MessageFile> = HashMap::new();
        let (folders, mut is_complete) = maildir.other_folders(self.names)?;
        for folder in folders {
            let searched = for_each_message(&folder, |key, flags, file| {
                if is_deleted(flags) {
                    return Ok(());
                }
                let moved = || {
                    let moved = by_inode.get(&file.inode).filter(|(_, record)| is_made_since(key, record.since));
                    moved.filter(|(_, record)| self.is_same(record, &file)).map(|(key, _)| *key)
                };
                let known = match by_key.get(key).copied().or_else(moved) {
                    None if is_made_since(key, oldest) => self.copy_of(&wanted, key, &file),
                    known => known,
                };
                if let Some(known) = known {
                    found.entry(known.clone()).or_insert(file);
                }
                Ok(())
            });
            if let Err(error) = searched {
                tracing::warn!(error = format!("{error:#}"), "failed to search a folder");
                is_complete = false;
            }
        }
        Ok(Search { found, is_complete })
    }

    /// Returns true if a file with the inode of a known message is that message. File systems reuse the inodes of
    /// deleted files, so the contents must agree.
    fn is_same(&self, record: &Record, file: &MessageFile) -> bool {
        if record.bytes == 0 && record.exact.is_none() {
            return true;
        }
        let is_possible = fs::metadata(&file.path).is_ok_and(|metadata| metadata.len() == record.bytes);
        let is_read = || self.read(ClaimKind::Revoke, file, 0).is_some_and(|letter| record.agrees(&letter.record));
        is_possible && (record.exact.is_none() || is_read())
    }

    /// Returns the known message that a file is a copy of.
    fn copy_of<'k>(&self, wanted: &[(&'k String, &Record)], name: &str, file: &MessageFile) -> Option<&'k String> {
        let bytes = fs::metadata(&file.path).ok()?.len();
        let is_possible =
            |record: &Record| record.bytes == bytes && record.exact.is_some() && is_made_since(name, record.since);
        let possible: Vec<_> = wanted.iter().filter(|(_, record)| is_possible(record)).collect();
        if possible.is_empty() {
            return None;
        }
        let exact = self.read(ClaimKind::Revoke, file, 0)?.record.exact;
        possible.iter().find(|(_, record)| record.exact == exact).map(|(key, _)| *key)
    }

    /// Reads a message. Returns `None` if the message cannot be read, or if it was moved again; the next call then
    /// finds it.
    fn read(&self, kind: ClaimKind, file: &MessageFile, since: u64) -> Option<Letter> {
        let path = &file.path;
        let read = || -> io::Result<Option<Letter>> {
            let metadata = fs::metadata(path)?;
            let Some(message) = mailbox::read_message(path)? else {
                return Err(io::Error::other("the message is too long"));
            };
            let subject = self.signer.subject(&message);
            let exact = subject.signatures.iter().find(|signature| signature.scheme == "exact");
            let exact = exact.map(|signature| signature.value.to_string());
            let record = Record { inode: file.inode, bytes: metadata.len(), exact, since };
            Ok(Some(Letter { message, subject, record, id: id(kind, path, &metadata) }))
        };
        match read() {
            Ok(letter) => letter,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "failed to read a message");
                None
            }
        }
    }

    /// Stores a claim in the spool and, if rspamd learns messages, the message for rspamd.
    fn claim(&self, kind: ClaimKind, maildir: &Maildir, letter: &Letter, now: u64) -> Result<()> {
        let report = SpooledReport::new(kind, maildir.reporter.as_deref(), letter.subject.clone(), now)?;
        let report = SpooledReport { id: letter.id.clone(), ..report };
        self.spool.store(report).context("failed to store a claim; trying again later")?;
        self.teach(kind, letter, now)
    }

    /// Stores the message for rspamd, if rspamd learns messages. Skips a message that is still in the spool after a
    /// crash, because rspamd counts each lesson.
    fn teach(&self, kind: ClaimKind, letter: &Letter, now: u64) -> Result<()> {
        let Some(lesson) = self.lesson else { return Ok(()) };
        if self.spool.has_lesson(&letter.id)? {
            return Ok(());
        }
        let report = SpooledReport::for_rspamd(kind, lesson.lesson(&letter.message), now);
        let report = report.map(|report| SpooledReport { id: letter.id.clone(), ..report });
        match report.and_then(|report| self.spool.store(report)) {
            Ok(_) => Ok(()),
            // A spool full of messages for rspamd must not prevent reports to the server.
            Err(error @ (SpoolError::TooLong { .. } | SpoolError::Full { .. })) => {
                tracing::warn!(%error, "a message was not stored for rspamd");
                Ok(())
            }
            Err(error) => Err(error).context("failed to store a message for rspamd; trying again later"),
        }
    }
}

/// Returns the state at the first start.
fn first_state(junk: &HashMap<String, MessageFile>, now: u64) -> State {
    let record = |file: &MessageFile| Record { inode: file.inode, bytes: 0, exact: None, since: now };
    State { messages: junk.iter().map(|(key, file)| (key.clone(), record(file))).collect() }
}

/// Returns the ID of a claim. Moving a file changes its inode's time, so a claim after a later move has another ID.
fn id(kind: ClaimKind, path: &Path, metadata: &fs::Metadata) -> String {
    let half = |number: u8| {
        let mut hasher = DefaultHasher::new();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let key = name.split(':').next().unwrap_or_default();
        (number, kind == ClaimKind::Report, key).hash(&mut hasher);
        (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

#[cfg(test)]
mod tests;
