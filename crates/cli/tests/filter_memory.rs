//! Memory of `bruit filter` with a large filter. The test has a file of its own, because it measures the highest peak
//! memory of all programs that its process has started.

mod common;

use common::{Folder, peak_memory_bytes};

#[test]
fn a_large_filter_is_worked_on_within_its_size_and_64_mib() {
    let folder = Folder::new();
    folder.run("create a --signatures 100M --memory 200MiB");
    folder.copy("a", "b");
    folder.printed("add b", b"one\ntwo\nthree\n");
    folder.run("diff a b -o d");
    folder.run("apply d a -o c");
    folder.run("merge a b c -o a");
    assert_eq!(folder.printed("contains a", b"one\nfour\nthree\n"), b"one\nthree\n");
    let (peak, limit) = (peak_memory_bytes(), (200 + 64) << 20);
    assert!(peak <= limit, "{peak} bytes of memory, but only {limit} are allowed");
}
