//! Servers as child processes on a separate processor. Their CPU time and memory are measured, and they are stopped
//! when no longer needed.

use std::fs;
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Maximum time for a server to stop before it is killed.
const STOPPING: Duration = Duration::from_secs(20);
/// Interval at which the benchmark checks whether a server has exited.
const STOPPING_STEP: Duration = Duration::from_millis(10);

/// The assignment of processors. The benchmark runs on the first, servers run on the last, so that they do not compete.
/// The benchmark may use all processors again once the assignment is dropped.
pub(crate) struct Processors {
    all: CpuSet,
    servers: CpuSet,
    bench: CpuSet,
}

impl Processors {
    /// Divides the processors between the benchmark and the servers, and pins this thread to its processor.
    pub(crate) fn divide() -> io::Result<Self> {
        let all = sched_getaffinity(SELF)?;
        let allowed = allowed(&all);
        let (Some(&first), Some(&last)) = (allowed.first(), allowed.last()) else { return Err(nowhere()) };
        Self::keep_to(Self { all, servers: only(last)?, bench: only(first)? })
    }

    /// Pins this thread and the servers that it starts to processor `number`.
    pub(crate) fn only(number: usize) -> io::Result<Self> {
        let all = sched_getaffinity(SELF)?;
        let &cpu = allowed(&all).get(number).ok_or_else(nowhere)?;
        Self::keep_to(Self { all, servers: only(cpu)?, bench: only(cpu)? })
    }

    /// Pins this thread and the servers that it starts to the first `count` processors, which they share.
    pub(crate) fn first(count: usize) -> io::Result<Self> {
        let all = sched_getaffinity(SELF)?;
        let mut shared = CpuSet::new();
        let allowed = allowed(&all);
        allowed.get(..count).ok_or_else(nowhere)?.iter().try_for_each(|&cpu| shared.set(cpu))?;
        Self::keep_to(Self { all, servers: shared, bench: shared })
    }

    fn keep_to(self) -> io::Result<Self> {
        sched_setaffinity(SELF, &self.bench)?;
        Ok(self)
    }

    /// Starts `command` as a server.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Server> {
        // A child process inherits the processors of the thread that starts it.
        sched_setaffinity(SELF, &self.servers)?;
        let child = command.stdin(Stdio::null()).spawn();
        sched_setaffinity(SELF, &self.bench)?;
        Ok(Server { child: child? })
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        // This cannot fail: these processors were allowed before.
        let _ = sched_setaffinity(SELF, &self.all);
    }
}

/// Returns the processors of a set.
fn allowed(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect()
}

fn only(cpu: usize) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(set)
}

fn nowhere() -> Error {
    Error::other("no processor to run on")
}

const SELF: Pid = Pid::from_raw(0);

/// A running program, stopped when dropped.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Returns the output of the server, if it is piped.
    pub(crate) fn output(&mut self) -> io::Result<ChildStdout> {
        self.child.stdout.take().ok_or_else(|| Error::other("the server's output is not piped"))
    }

    /// Returns the user and system time of the process and its children so far.
    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        self.family().into_iter().map(cpu_time).sum()
    }

    /// Returns the resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse::<u64>().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| Error::other("the status of the process has no VmRSS"))
    }

    /// Fails with [`ErrorKind::BrokenPipe`] if the process has exited.
    pub(crate) fn must_run(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            Some(status) => Err(Error::new(ErrorKind::BrokenPipe, format!("the server exited: {status}"))),
            None => Ok(()),
        }
    }

    /// Asks the server to terminate, and waits until it has exited.
    fn stop(&mut self) -> io::Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM)?;
        let start = Instant::now();
        while start.elapsed() < STOPPING {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(STOPPING_STEP);
        }
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while let Some(&parent) = family.get(at) {
            let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            at += 1;
        }
        family
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may already have exited.
        let _ = self.stop();
    }
}

fn cpu_time(process: u32) -> io::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(process as i32))?;
    Ok(clock_gettime(clock)?.into())
}

/// Returns the total size of all files under `folder`.
pub(crate) fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_measured_and_stopped() {
        let processors = Processors::divide().unwrap();
        let mut server = processors.start(Command::new("sleep").arg("600")).unwrap();
        server.must_run().unwrap();
        assert!(server.resident_bytes().unwrap() > 0);
        assert!(server.cpu_time().unwrap() < Duration::from_secs(60));
        server.stop().unwrap();
        assert_eq!(server.must_run().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
