//! The trait of a state that a store can persist.

use std::io::{self, Read};

use bruit_engine::codec::Malformed;

/// A deterministic state machine that is changed by events.
///
/// An event must turn equal states into equal states, on every computer, because recovery restores a snapshot and
/// applies the later events again.
pub trait Machine: Sized + Send + Sync + 'static {
    /// A change of the state.
    type Event: Send + 'static;
    /// The result of applying an event.
    type Outcome: Send + 'static;

    /// Appends the encoding of an event, at most [`EVENT_BYTES_MAX`](crate::EVENT_BYTES_MAX) bytes.
    fn encode(event: &Self::Event, out: &mut Vec<u8>);

    /// Decodes an event.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not an event.
    fn decode(bytes: &[u8]) -> Result<Self::Event, Malformed>;

    /// Checks that [`decode`](Self::decode) accepts an event that was just encoded. Called for each submitted event,
    /// because an event in the journal that cannot be decoded would prevent the store from being opened. The default
    /// implementation decodes the event.
    ///
    /// # Errors
    /// [`Malformed`] if `decode` would fail.
    fn check_encoded(_event: &Self::Event, encoded: &[u8]) -> Result<(), Malformed> {
        Self::decode(encoded).map(drop)
    }

    /// Decides whether an event may be written. Refused events are never written.
    ///
    /// All events of a batch are admitted before the first of them is applied, so [`apply`](Self::apply) must handle an
    /// event that earlier events of the batch have made pointless.
    ///
    /// # Errors
    /// The outcome to return for the refused event.
    fn admit(&self, event: &Self::Event) -> Result<(), Self::Outcome>;

    /// Prefetches the memory that an event will change. Called for all events of a slice before the first is applied.
    fn prefetch(&self, _event: &Self::Event) {}

    /// Applies an event. Cannot fail, because the event is already on disk.
    fn apply(&mut self, event: &Self::Event) -> Self::Outcome;

    /// Returns true if a snapshot may begin now. While this returns false, the journal grows.
    fn may_snapshot(&self) -> bool {
        true
    }

    /// Appends the part of a snapshot's beginning that takes long to produce. Checks can run meanwhile. The writer then
    /// calls [`begin_snapshot`](Self::begin_snapshot), with no event in between.
    fn snapshot_start(&self, _out: &mut Vec<u8>) {}

    /// Starts a snapshot of the current state. Appends the next bytes and, from now on, logs the data that later events
    /// overwrite.
    fn begin_snapshot(&mut self, out: &mut Vec<u8>);

    /// Appends about `bytes` more bytes of the state *as it was at the beginning*. Returns true when the snapshot is
    /// complete.
    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool;

    /// Returns the memory in bytes of the log of overwritten data, which is kept for the running snapshot. The writer
    /// copies faster when the log is large.
    fn logged_bytes(&self) -> usize {
        0
    }

    /// Restores a state from its snapshot, which must be read to the end. `self` is a machine with the same settings
    /// and without events.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes are not a valid state. Memory use must be bounded for any input.
    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError>;

    /// Returns the machine's realm. A directory of another realm is refused.
    fn realm(&self) -> [u8; 16];
}

/// The reason why a state could not be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes could not be read, or a checksum does not match.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The bytes are a state of another machine: they were written by a later program or with other settings. This is
    /// not damage, so the store does not fall back to an older snapshot.
    #[error(transparent)]
    Unlike(Box<dyn std::error::Error + Send + Sync>),
    /// The bytes may be valid, but there is not enough memory for the state.
    #[error(transparent)]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// The bytes are not a valid state.
    #[error(transparent)]
    State(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Malformed> for RestoreError {
    fn from(malformed: Malformed) -> Self {
        Self::State(Box::new(malformed))
    }
}
