//! Memory for reported mails, limited for all connections together.
//!
//! Most requests fit into a free allowance of their connection, and the number of connections is limited. Memory beyond
//! the allowance is charged to one of two pools, so that strangers with self-registered accounts cannot use up the
//! memory of own users.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Free allowance of each connection.
pub(super) const FREE_BYTES: usize = 8 << 10;

/// Maximum memory beyond the free allowances, for all connections from own networks together.
const OWN_BYTES_MAX: usize = 32 << 20;

/// Maximum memory beyond the free allowances, for all other connections together.
const STRANGERS_BYTES_MAX: usize = 16 << 20;

/// The two pools of memory for reported mails.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    own: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// The memory held by one connection.
#[derive(Debug)]
pub(super) struct HeldMemory {
    pool: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(OWN_BYTES_MAX, STRANGERS_BYTES_MAX)
    }
}

impl Bodies {
    fn new(own: usize, strangers: usize) -> Self {
        Self { own: Arc::new(Semaphore::new(own)), strangers: Arc::new(Semaphore::new(strangers)) }
    }

    /// Creates the record of one connection. It holds no memory at first.
    pub(super) fn held(&self, is_own: bool) -> HeldMemory {
        HeldMemory { pool: Arc::clone(if is_own { &self.own } else { &self.strangers }), permit: None }
    }
}

impl HeldMemory {
    /// Charges the memory that the connection now holds, in place of the previous charge. Returns false if the pool is
    /// exhausted.
    pub(super) fn charge(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE_BYTES);
        let charged = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted <= charged {
            drop(self.permit.as_mut().and_then(|permit| permit.split(charged - wanted)));
            return true;
        }
        let more = u32::try_from(wanted - charged).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.pool).try_acquire_many_owned(more) else { return false };
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_hold_is_bounded_and_given_back() {
        let bodies = Bodies::new(100, 50);
        let (mut one, mut two) = (bodies.held(false), bodies.held(false));
        assert!(one.charge(FREE_BYTES) && one.charge(FREE_BYTES + 30) && one.charge(FREE_BYTES + 40));
        assert!(two.charge(FREE_BYTES + 10) && !two.charge(FREE_BYTES + 11));
        assert!(bodies.held(true).charge(FREE_BYTES + 100), "own users have a separate pool");
        assert!(one.charge(0) && two.charge(FREE_BYTES + 50));
        drop(two);
        assert_eq!(bodies.strangers.available_permits(), 50);
    }
}
