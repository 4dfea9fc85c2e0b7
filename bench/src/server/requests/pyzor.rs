//! Anonymous Pyzor requests, as Pyzor's own client writes them.

use std::io::Write;

use super::{Kind, Reading, bytes_of};

/// Range of `Thread`, the number that identifies a request. It always has five digits, so that all requests have the
/// same length.
const THREADS: std::ops::RangeInclusive<u32> = 10_000..=65_535;
/// The other fields. Time and signature are placeholders, because they are not verified in anonymous requests.
const UNREAD: &str = "PV: 2.1\nUser: anonymous\nTime: 1794725694\nSig: 00988e410a6a5898798e620b6bf0fc4917bfc864\n\n";

/// The `check` request.
pub(crate) struct Check;

/// The `report` request with `digests` digests, numbered from `signature × digests`.
pub(crate) struct Report {
    pub(crate) digests: u64,
}

impl Kind for Check {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        let (digest, thread) = (digest(signature), self.mark(serial));
        write!(packet, "Op: check\nOp-Digest: {digest}\nThread: {thread}\n{UNREAD}")
            .expect("writing to memory cannot fail");
    }

    fn mark(&self, serial: u32) -> u32 {
        thread(serial)
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        let count = field(reply, b"\nCount: ")?;
        Some(Reading { mark: read_thread(reply)?, is_known: count > 0 })
    }
}

impl Kind for Report {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        packet.extend_from_slice(b"Op: report\n");
        for number in signature * self.digests..(signature + 1) * self.digests {
            writeln!(packet, "Op-Digest: {}", digest(number)).expect("writing to memory cannot fail");
        }
        let thread = self.mark(serial);
        write!(packet, "Op-Spec: 20,3,60,3\nThread: {thread}\n{UNREAD}").expect("writing to memory cannot fail");
    }

    fn mark(&self, serial: u32) -> u32 {
        thread(serial)
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        Some(Reading { mark: read_thread(reply)?, is_known: true })
    }
}

fn thread(serial: u32) -> u32 {
    THREADS.start() + serial % (THREADS.end() - THREADS.start() + 1)
}

fn digest(signature: u64) -> String {
    bytes_of::<20>(signature, 1).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the thread number of a successful reply.
fn read_thread(reply: &[u8]) -> Option<u32> {
    reply.starts_with(b"Code: 200\n").then(|| field(reply, b"\nThread: "))?
}

/// Returns the number after `name`.
fn field(reply: &[u8], name: &[u8]) -> Option<u32> {
    let at = reply.windows(name.len()).position(|window| window == name)? + name.len();
    let digits = reply[at..].split(|&byte| byte == b'\n').next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_as_long_as_the_clients() {
        let mut check = Vec::new();
        Check.write(7, 1, &mut check);
        assert_eq!(check.len(), 164);
        let mut report = Vec::new();
        Report { digests: 1 }.write(7, 1, &mut report);
        assert_eq!(report.len(), 184);
    }

    #[test]
    fn replies_have_the_mark_and_whether_the_signature_is_known() {
        let reply = |count| format!("Code: 200\nDiag: OK\nPV: 2.1\nThread: 10007\nCount: {count}\nWL-Count: 0\n\n");
        assert_eq!(Check.read(reply(0).as_bytes()), Some(Reading { mark: Check.mark(7), is_known: false }));
        assert_eq!(Check.read(reply(3).as_bytes()), Some(Reading { mark: Check.mark(7), is_known: true }));
        assert_eq!(Check.read(b"Code: 403\nDiag: no\nPV: 2.1\nThread: 10007\n\n"), None);
        assert!(Report { digests: 1 }.read(b"Code: 200\nDiag: OK\nPV: 2.1\nThread: 10007\n\n").is_some());
    }
}
