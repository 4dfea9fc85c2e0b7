//! Ends the process when it cannot continue because a vital thread or task panicked or the store failed.
//!
//! If one listener died and the process continued, the other protocols would still answer and the server would look
//! healthy. The process exits instead, with a code that makes a supervisor restart it.

use std::sync::Arc;
use std::thread;

use tokio::sync::watch;

use crate::service::Service;

/// The reason to end the process, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Fatal(watch::Sender<Option<String>>);

impl Fatal {
    /// Requests the end of the process. Only the first reason is kept.
    pub(crate) fn declare(&self, reason: String) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                tracing::error!(reason, "stopping after a fatal error");
                *known = Some(reason);
            }
            is_first
        });
    }

    /// Waits for a reason to end the process, and returns it.
    pub(crate) async fn wait(&self) -> String {
        let mut receiver = self.0.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // Cannot fail, because the sender is in `self`.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A guard held by a vital thread or task. It ends the process if its holder panics.
pub(crate) struct Vital {
    service: Arc<Service>,
    name: String,
}

impl Vital {
    pub(crate) fn new(service: &Arc<Service>, name: impl Into<String>) -> Self {
        Self { service: Arc::clone(service), name: name.into() }
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if thread::panicking() {
            self.service.fatal.declare(format!("{} panicked", self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::event::Event;
    use bruit_engine::time::Time;
    use bruit_engine::trust::Policy;
    use bruit_store::disk::{Disk, DiskFile, SystemDisk};
    use bruit_store::{Clearinghouse, Founding, Options};

    use super::*;
    use crate::config::Config;
    use crate::health::State;
    use crate::watch;

    const NOW: Time = Time(1_800_000_000);

    fn service(folder: &Path, disk: Arc<dyn Disk>) -> Arc<Service> {
        let options = Options { disk, ..Options::default() };
        let found = || Founding::new([7; 16], BUDGET_MIN, Policy::default(), NOW).unwrap();
        let store = Clearinghouse::open_or_found(folder, &options, found, &mut |_| {}).unwrap();
        Arc::new(Service::new(store, Config::default().settings))
    }

    fn reason(service: &Service) -> String {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(service.fatal.wait())
    }

    /// Regression test: after a listener panicked, its protocol got no replies but the server stayed ready.
    #[test]
    fn a_vital_thread_that_panics_ends_the_process_and_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), Arc::new(SystemDisk));
        let vital = Vital::new(&service, "a thread that listens");
        drop(Vital::new(&service, "a thread that ended"));
        let panicked = thread::spawn(move || {
            let _vital = vital;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(reason(&service), "a thread that listens panicked");
    }

    /// A disk whose syncs fail once the flag is set and hang while the lock is held.
    #[derive(Clone, Debug, Default)]
    struct FailingDisk(Arc<AtomicBool>, Arc<Mutex<()>>);

    struct FailingFile(Box<dyn DiskFile>, FailingDisk);

    impl Disk for FailingDisk {
        fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(FailingFile(SystemDisk.create(path)?, self.clone())))
        }

        fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
            Ok(Box::new(FailingFile(SystemDisk.append(path)?, self.clone())))
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            SystemDisk.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            SystemDisk.remove(path)
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            SystemDisk.sync_directory(path)
        }
    }

    impl DiskFile for FailingFile {
        fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.write_all(bytes)
        }

        fn sync(&mut self) -> io::Result<()> {
            let _held = self.1.1.lock().unwrap();
            if self.1.0.load(Ordering::Relaxed) { Err(io::Error::other("no such sector")) } else { self.0.sync() }
        }

        fn set_len(&mut self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
    }

    /// Regression test: a hanging disk stopped all reports while the server stayed ready.
    #[test]
    fn a_write_that_hangs_shows_while_it_lasts() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FailingDisk::default();
        let service = service(folder.path(), Arc::new(disk.clone()));
        let (held, tick) = (disk.1.lock().unwrap(), Event::Tick { now: NOW, lines: 1 });
        let (sender, receiver) = std::sync::mpsc::channel();
        service.store.submit_with(vec![tick], move |result| {
            let _ = sender.send(result.is_ok());
        });
        while service.store.status().writing_since.is_none() {
            thread::yield_now();
        }
        assert!(receiver.try_recv().is_err(), "not acknowledged");
        drop(held);
        assert!(receiver.recv().unwrap());
        assert!(service.store.status().writing_since.is_none());
    }

    /// Regression test: a poisoned store refused every request while the process looked alive.
    #[test]
    fn a_disk_that_fails_under_the_journal_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FailingDisk::default();
        let service = service(folder.path(), Arc::new(disk.clone()));
        watch::look(&service, NOW);
        assert_eq!(service.health.count(State::StoreFailed), 0);
        disk.0.store(true, Ordering::Relaxed);
        assert!(service.store.submit(vec![Event::Tick { now: NOW, lines: 1 }]).is_err());
        watch::look(&service, NOW);
        assert_eq!(service.health.count(State::StoreFailed), 1);
        let reason = reason(&service);
        assert!(reason.contains("disk failed") && reason.contains("no such sector"), "{reason}");
    }
}
