//! A lock for one writer, which works in slices, and many readers, which never wait for more than one slice.
//!
//! A plain lock does not guarantee this. A writer that unlocks and locks again usually wins, slice after slice, against
//! readers that are still waking up. This lock counts waiting readers, and the writer does not lock while there are
//! any.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;

/// A read-write lock whose writer yields to waiting readers.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    lock: RwLock<T>,
    waiting: AtomicUsize,
}

impl<T> Gate<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: RwLock::new(value), waiting: AtomicUsize::new(0) }
    }

    /// Locks for reading. Waits for at most one slice of the writer, plus the wake-up.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        match self.lock.try_read() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    fn wait(&self) -> RwLockReadGuard<'_, T> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard
    }

    /// Lets all waiting readers in, then locks for writing. Hold the lock for one slice only.
    ///
    /// Returns `None` if a thread panicked while changing the value. The state of the value is then unknown, so it may
    /// only be read.
    pub(crate) fn write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        while self.waiting.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        self.lock.write().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_waits_is_let_in_before_the_next_slice() {
        let gate = Gate::new(0);
        for slice in 0..200 {
            thread::scope(|scope| {
                let mut guard = gate.write().unwrap();
                let reader = scope.spawn(|| *gate.read());
                while gate.waiting.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                *guard += 1;
                drop(guard);
                *gate.write().unwrap() += 1;
                assert_eq!(reader.join().unwrap(), slice * 2 + 1, "a reader sees the slice it waited for");
            });
        }
    }
}
