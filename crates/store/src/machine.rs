//! What the store keeps: a deterministic state fed by events.

use std::io::{self, Read};

use bruit_engine::codec::Malformed;

/// A deterministic state machine fed by events.
///
/// Equal states and equal events must give equal states, on every machine: recovery restores a snapshot and applies the
/// events behind it again.
pub trait Machine: Sized + Send + Sync + 'static {
    /// What changes the state.
    type Event: Send + 'static;
    /// What applying an event answers.
    type Outcome: Send + 'static;

    /// Appends the bytes of an event, at most [`EVENT_BYTES_MAX`](crate::EVENT_BYTES_MAX).
    fn encode(event: &Self::Event, out: &mut Vec<u8>);

    /// Reads an event back.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are none.
    fn decode(bytes: &[u8]) -> Result<Self::Event, Malformed>;

    /// Whether applying it would be refused: refused events are never written.
    ///
    /// Events of one batch are all asked before the first of them is applied, so [`apply`](Self::apply) must cope with
    /// an event that those before it made pointless.
    ///
    /// # Errors
    /// The outcome to answer with instead.
    fn admit(&self, event: &Self::Event) -> Result<(), Self::Outcome>;

    /// Starts to load what an event will change. Those of a slice are all announced before the first is applied.
    fn prefetch(&self, _event: &Self::Event) {}

    /// Changes the state. Never fails: the event is on disk by now.
    fn apply(&mut self, event: &Self::Event) -> Self::Outcome;

    /// Appends what a snapshot begins with, as far as that takes long: checks go on meanwhile.
    /// [`begin_snapshot`](Self::begin_snapshot) follows, and no event in between.
    fn snapshot_start(&self, _out: &mut Vec<u8>) {}

    /// Starts a snapshot of the state as it is now: appends the next bytes, and keeps what later events overwrite.
    fn begin_snapshot(&mut self, out: &mut Vec<u8>);

    /// Appends about `bytes` more bytes of the state *as it was at the beginning*; true when nothing is left.
    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool;

    /// How much memory the snapshot under way takes for what was overwritten since it began. The writer copies faster
    /// while that is much.
    fn logged_bytes(&self) -> usize {
        0
    }

    /// Reads a state back, to the last byte that its snapshot wrote. `self` is a machine without any event, of the same
    /// making.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes are no state. Nothing they say may cost unbounded memory.
    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError>;

    /// The realm it belongs to: a directory of another realm is refused.
    fn realm(&self) -> [u8; 16];
}

/// Why a state could not be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes could not be read, or a checksum does not hold.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The bytes are a state, but not one for this machine: a later program wrote it, or one of another making. That is no
    /// damage, so the store is not opened with an older state instead.
    #[error(transparent)]
    Unlike(Box<dyn std::error::Error + Send + Sync>),
    /// The bytes may be valid, but there is not enough memory for the state.
    #[error(transparent)]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// The bytes are no state.
    #[error(transparent)]
    State(Box<dyn std::error::Error + Send + Sync>),
}

impl From<Malformed> for RestoreError {
    fn from(malformed: Malformed) -> Self {
        Self::State(Box::new(malformed))
    }
}
