//! Waits for signals and, with inotify, for changes to Maildirs.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bruit_milter::{Signal, Signals};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::maildir::{Maildir, Names};

/// Maximum number of batches of events in the queue. Beyond that, the kernel queues the events, and reports if it drops
/// any.
const BATCHES_MAX: usize = 64;

/// An event.
pub(super) enum Event {
    /// The Maildirs with these indexes changed.
    Changed(BTreeSet<usize>),
    /// Events were lost, or a rescan was requested.
    Rescan,
    /// A signal asked the program to stop.
    Stop,
    /// The wait timed out.
    Quiet,
}

/// Events of several Maildirs.
pub(super) struct Events {
    inotify: Arc<Inotify>,
    /// The Maildir and the kind of each watched directory.
    watches: HashMap<WatchDescriptor, (usize, Directory)>,
    messages: Receiver<Message>,
}

/// A watched directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directory {
    /// The root of a Maildir, where Junk folders are created.
    Root,
    /// A Junk folder, where `new` and `cur` are created.
    Junk,
    /// `new` or `cur` of a Junk folder.
    Messages,
}

enum Message {
    Files(Result<Vec<InotifyEvent>, Errno>),
    Signal(Signal),
}

impl Events {
    /// Starts waiting for signals and changes. The signals that stop the program set `is_stopping`.
    pub(super) fn start(signals: Signals, is_stopping: &'static AtomicBool) -> Result<Self> {
        let inotify = Arc::new(Inotify::init(InitFlags::IN_CLOEXEC).context("failed to start inotify")?);
        let (sender, messages) = sync_channel(BATCHES_MAX);
        let (source, files) = (Arc::clone(&inotify), sender.clone());
        thread::spawn(move || while files.send(Message::Files(source.read_events())).is_ok() {});
        thread::spawn(move || forward_signals(&signals, is_stopping, &sender));
        Ok(Self { inotify, watches: HashMap::new(), messages })
    }

    /// Watches the Junk folders of a Maildir, and its root, where Junk folders may be created. Each directory is
    /// watched before its subdirectories are listed, so that no new subdirectory is missed.
    ///
    /// If a directory cannot be watched, the Maildir is scanned only at regular intervals.
    ///
    /// # Errors
    /// If there are too many watched directories.
    pub(super) fn watch(&mut self, index: usize, maildir: &Maildir, names: &Names) -> Result<()> {
        let directories = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        // A link could lead out of the Maildir.
        let directories = directories | AddWatchFlags::IN_DONT_FOLLOW;
        self.add(index, Directory::Root, &maildir.root, directories)?;
        let files = directories | AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_DELETE;
        for folder in maildir.possible_junk_folders(names) {
            if !self.add(index, Directory::Junk, &folder, directories)? {
                continue;
            }
            for part in ["new", "cur"] {
                self.add(index, Directory::Messages, &folder.join(part), files)?;
            }
        }
        Ok(())
    }

    /// Watches a directory. Returns false if it does not exist or cannot be watched.
    fn add(&mut self, index: usize, kind: Directory, folder: &Path, flags: AddWatchFlags) -> Result<bool> {
        match self.inotify.add_watch(folder, flags) {
            Ok(watch) => {
                self.watches.insert(watch, (index, kind));
                return Ok(true);
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(Errno::ENOSPC) => {
                bail!("{}: too many watched folders; raise the sysctl fs.inotify.max_user_watches", folder.display())
            }
            Err(error) => tracing::warn!(folder = %folder.display(), %error, "failed to watch a folder"),
        }
        Ok(false)
    }

    /// Waits for the next event. If it reports new Junk folders, starts to watch them.
    pub(super) fn next(&mut self, patience: Duration, maildirs: &[Maildir], names: &Names) -> Result<Event> {
        match self.messages.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => Ok(Event::Quiet),
            Err(RecvTimeoutError::Disconnected) => bail!("the threads that wait for events have ended"),
            Ok(Message::Signal(Signal::Stop)) => Ok(Event::Stop),
            Ok(Message::Signal(_)) => Ok(Event::Rescan),
            Ok(Message::Files(events)) => self.changed(&events.context("inotify failed")?, maildirs, names),
        }
    }

    fn changed(&mut self, events: &[InotifyEvent], maildirs: &[Maildir], names: &Names) -> Result<Event> {
        let mut changed = BTreeSet::new();
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                tracing::warn!("events lost; scanning all Maildirs");
                return Ok(Event::Rescan);
            }
            let Some(&(index, kind)) = self.watches.get(&event.wd) else { continue };
            if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                self.watches.remove(&event.wd);
            }
            let name = event.name.as_ref().and_then(|name| name.to_str()).unwrap_or_default();
            let is_directory = event.mask.contains(AddWatchFlags::IN_ISDIR);
            let counts = match kind {
                Directory::Root => is_directory && names.is_junk(name),
                Directory::Junk => is_directory,
                Directory::Messages => true,
            };
            if counts {
                changed.insert(index);
            }
        }
        // A folder may have been created or replaced.
        for index in &changed {
            if let Some(maildir) = maildirs.get(*index) {
                self.watch(*index, maildir, names)?;
            }
        }
        Ok(Event::Changed(changed))
    }
}

fn forward_signals(signals: &Signals, is_stopping: &AtomicBool, sender: &SyncSender<Message>) {
    while let Ok(signal) = signals.next_signal() {
        if signal == Signal::Stop {
            is_stopping.store(true, Ordering::Relaxed);
        }
        if sender.send(Message::Signal(signal)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_folder_that_cannot_be_watched_is_skipped_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        for folder in [outside.path(), &root.path().join(".Spam")] {
            fs::create_dir_all(folder.join("cur")).unwrap();
            // A loop.
            symlink("new", folder.join("new")).unwrap();
        }
        symlink(outside.path(), root.path().join(".Junk")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        let names = Names { junk: vec!["Junk".into(), "loop/x".into(), "Spam".into()], trash: Vec::new() };
        let maildir = Maildir { root: root.path().to_owned(), reporter: None };
        let inotify = Arc::new(Inotify::init(InitFlags::IN_CLOEXEC).unwrap());
        let (_sender, messages) = sync_channel(1);
        let mut events = Events { inotify, watches: HashMap::new(), messages };
        events.watch(0, &maildir, &names).unwrap();
        assert_eq!(events.watches.len(), 3, "the root, .Spam, and .Spam/cur");
    }
}
