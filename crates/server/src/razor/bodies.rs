//! Memory for what clients report: whole mails, of which all connections together hold a bounded amount.
//!
//! What most requests take is free, as connections are bounded themselves. Beyond that every byte that a connection holds is
//! charged to one of two pools, so that strangers with accounts of their own making do not take the memory of own users.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that every connection may hold.
pub(super) const FREE_BYTES: usize = 8 << 10;

/// What all connections of own networks may hold beyond that.
const OWN_BYTES_MAX: usize = 32 << 20;

/// What all others may.
const STRANGERS_BYTES_MAX: usize = 16 << 20;

/// The pools.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    own: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// What one connection holds.
#[derive(Debug)]
pub(super) struct Held {
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

    /// The account of a connection.
    pub(super) fn held(&self, is_own: bool) -> Held {
        Held { pool: Arc::clone(if is_own { &self.own } else { &self.strangers }), permit: None }
    }
}

impl Held {
    /// Charges what a connection holds now, more or less than before. False if there is not so much left.
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
        assert!(bodies.held(true).charge(FREE_BYTES + 100), "own users have a pool of their own");
        assert!(one.charge(0) && two.charge(FREE_BYTES + 50));
        drop(two);
        assert_eq!(bodies.strangers.available_permits(), 50);
    }
}
