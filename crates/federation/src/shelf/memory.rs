//! The logs of a shelf in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bruit_engine::exchange::{Chain, Origin};

use super::{Logs, ShelfError};

/// Logs in memory. Clones share the same logs.
#[derive(Clone, Debug, Default)]
pub struct MemoryLogs(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    logs: BTreeMap<Chain, Vec<u8>>,
    heads: BTreeMap<(Origin, bool), Vec<u8>>,
}

impl MemoryLogs {
    /// Returns a copy of all logs.
    #[must_use]
    pub fn logs(&self) -> BTreeMap<Chain, Vec<u8>> {
        self.lock().logs.clone()
    }

    /// Returns an independent copy of the logs.
    #[must_use]
    pub fn copy(&self) -> Self {
        let Contents { logs, heads } = &*self.lock();
        Self(Arc::new(Mutex::new(Contents { logs: logs.clone(), heads: heads.clone() })))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Logs for MemoryLogs {
    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    fn put(&self, chain: &Chain, offset: u64, segment: &[u8], _sync: bool) -> Result<(), ShelfError> {
        let mut contents = self.lock();
        let log = contents.logs.entry(*chain).or_default();
        let length = log.len() as u64;
        if length < offset {
            return Err(ShelfError::Gap { log: format!("{chain:?}"), length, offset });
        }
        log.truncate(offset as usize);
        log.extend(segment);
        Ok(())
    }

    fn read(&self, chain: &Chain, offset: u64, end: u64, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let contents = self.lock();
        let Some(log) = contents.logs.get(chain) else { return Ok(None) };
        let end = end.min(log.len() as u64).min(offset.saturating_add(bytes_max as u64));
        Ok(Some(log.get(offset as usize..end as usize).unwrap_or_default().to_vec()))
    }

    fn length(&self, chain: &Chain) -> io::Result<u64> {
        Ok(self.lock().logs.get(chain).map_or(0, |log| log.len() as u64))
    }

    fn remove(&self, chain: &Chain) -> io::Result<()> {
        self.lock().logs.remove(chain);
        Ok(())
    }

    fn tidy(&self, keep: &dyn Fn(&Chain) -> bool) -> io::Result<usize> {
        let mut contents = self.lock();
        let before = contents.logs.len();
        contents.logs.retain(|chain, _| keep(chain));
        Ok(before - contents.logs.len())
    }

    fn put_heads(&self, origin: &Origin, is_public: bool, bytes: &[u8]) -> io::Result<()> {
        self.lock().heads.insert((*origin, is_public), bytes.to_vec());
        Ok(())
    }

    fn heads(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(self.lock().heads.values().cloned().collect())
    }

    fn tidy_heads(&self, keep: &dyn Fn(&Origin) -> bool) -> io::Result<()> {
        self.lock().heads.retain(|(origin, _), _| keep(origin));
        Ok(())
    }
}
