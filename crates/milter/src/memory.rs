//! The memory for messages, shared by all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory is reserved in steps of this size, so that threads do not contend for small pieces.
const STEP_BYTES: u64 = 64 * 1024;

/// A bound on the bytes of all messages that are being received.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used: AtomicU64,
}

/// Memory held by one message, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    /// Returns the reserved bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Reservation {
    pub(crate) const fn new(memory: Arc<Memory>) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Makes room for `needed` bytes in all. Returns false, and changes nothing, if all messages together would exceed
    /// `max`.
    pub(crate) fn grow_to(&mut self, needed: u64, max: u64) -> bool {
        if needed <= self.bytes {
            return true;
        }
        let more = (needed - self.bytes).next_multiple_of(STEP_BYTES);
        let add = |used: u64| used.checked_add(more).filter(|sum| *sum <= max);
        let is_granted = self.memory.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if is_granted {
            self.bytes += more;
        }
        is_granted
    }

    /// Releases the memory.
    pub(crate) fn release(&mut self) {
        self.memory.used.fetch_sub(std::mem::take(&mut self.bytes), Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_together_stay_below_the_bound_and_release_what_they_held() {
        let memory = Arc::new(Memory::default());
        let max = 4 * STEP_BYTES;
        let mut one = Reservation::new(Arc::clone(&memory));
        let mut two = Reservation::new(Arc::clone(&memory));
        assert!(one.grow_to(1, max) && one.grow_to(3 * STEP_BYTES, max));
        assert!(two.grow_to(STEP_BYTES, max) && !two.grow_to(STEP_BYTES + 1, max));
        assert_eq!(memory.used_bytes(), max);
        one.release();
        assert!(two.grow_to(STEP_BYTES + 1, max));
        drop((one, two));
        assert_eq!(memory.used_bytes(), 0);
    }
}
