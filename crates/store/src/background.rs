//! The snapshot thread, which receives pieces of a state from the writer thread and writes them to disk.
//!
//! The thread writes blocks and trailer to a temporary file, syncs and renames it, and syncs the directory. Only then
//! does it notify the writer, which removes the files that the snapshot makes obsolete.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use crate::directory::{TEMPORARY_PREFIX, snapshot_name};
use crate::disk::{Disk, DiskFile};
use crate::header::Header;
use crate::machine::Machine;
use crate::queue::Queue;
use crate::snapshot::BlockWriter;
use crate::store::SharedState;

/// Maximum number of pieces queued for the disk.
const CHUNKS_WAITING: usize = 4;

/// Number of bytes written between two syncs. If a quarter of a GiB of unsynced bytes accumulated, they would delay the
/// journal's syncs.
const SYNC_EVERY_BYTES: usize = 16 << 20;

/// A piece of a state.
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    /// True for the last piece.
    pub(crate) last: bool,
}

/// The snapshot to write, and its location.
pub(crate) struct Task {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) header: Header,
}

/// Starts the thread. The thread wakes the queue when it can accept another piece, and when it is done.
pub(crate) fn start<M: Machine>(task: Task, shared: &Arc<SharedState<M>>) -> io::Result<SyncSender<Chunk>> {
    let (sender, receiver) = sync_channel(CHUNKS_WAITING);
    let shared = Arc::clone(shared);
    thread::Builder::new().name("bruit-snapshot".into()).spawn(move || {
        let _report = ReportGuard(Arc::clone(&shared));
        // `run` takes ownership of the receiver, so that the writer never waits on a full channel without a reader.
        let result = task.run(receiver, &shared.queue);
        shared.queue.finish_snapshot(result.map_err(Arc::new));
    })?;
    Ok(sender)
}

/// A guard that reports a panic of the thread to the writer, which is waiting for the result.
struct ReportGuard<M: Machine>(Arc<SharedState<M>>);

impl<M: Machine> Drop for ReportGuard<M> {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = io::Error::other("the snapshot thread panicked");
            self.0.queue.finish_snapshot(Err(Arc::new(error)));
        }
    }
}

impl Task {
    fn run<M: Machine>(&self, chunks: Receiver<Chunk>, queue: &Queue<M>) -> io::Result<u64> {
        let name = snapshot_name(self.header.sequence);
        let temporary = self.directory.join(format!("{TEMPORARY_PREFIX}{name}"));
        let written = self.disk.create(&temporary).and_then(|file| self.write(file, &chunks, queue));
        if let Err(error) = written {
            // The disk may be full, so the file is removed. If this also fails, the file is removed when the store is
            // opened next time.
            let _ = self.disk.remove(&temporary);
            return Err(error);
        }
        self.disk.rename(&temporary, &self.directory.join(name))?;
        self.disk.sync_directory(&self.directory)?;
        Ok(self.header.sequence)
    }

    fn write<M: Machine>(
        &self,
        mut file: Box<dyn DiskFile>,
        chunks: &Receiver<Chunk>,
        queue: &Queue<M>,
    ) -> io::Result<()> {
        file.write_all(&self.header.encode())?;
        let mut blocks = BlockWriter::new(&self.header);
        let (mut out, mut unsynced) = (Vec::new(), 0);
        loop {
            let chunk = chunks.recv().map_err(|_| io::Error::other("the snapshot was abandoned"))?;
            queue.wake();
            out.clear();
            blocks.put(&chunk.bytes, &mut out);
            if chunk.last {
                blocks.finish(&mut out);
                file.write_all(&out)?;
                return file.sync();
            }
            file.write_all(&out)?;
            unsynced += out.len();
            if unsynced >= SYNC_EVERY_BYTES {
                file.sync()?;
                unsynced = 0;
            }
        }
    }
}
