//! A disk that becomes full: the server warns before it refuses reports.

mod common;

use std::fs::{self, File};
use std::io::Write as _;

use common::wire::{self, Datagrams};
use common::{Folder, Server, administer, until};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Size of the disk. A server with 16 MiB of memory needs 32 MiB for snapshots, 256 MiB for the journal, and a twentieth
/// of the disk.
const DISK_MIB: u32 = 500;

/// Bytes written to the disk, so that less is free than the server needs.
const FILLER_BYTES: usize = 220 * MIB;

#[test]
fn a_disk_that_is_nearly_full_is_reported_before_reports_are_refused() {
    let folder = Folder::new();
    let server = Server::start_on_small_disk(&folder, DISK_MIB);
    until("the free space is known", || wire::metrics(&server).contains("\nbruit_disk_free_bytes "));
    let metrics = wire::metrics(&server);
    assert!(wire::count(&metrics, "bruit_disk_free_bytes") > wire::count(&metrics, "bruit_disk_needed_bytes"));
    assert_eq!(state(&server, "disk_fills"), None);

    // Less than needed is free, but reports can still be written.
    let filler = server.data().join("filler");
    let mut file = File::create(&filler).unwrap();
    file.write_all(&vec![1; FILLER_BYTES]).unwrap();
    until("the state begins", || state(&server, "disk_fills").is_some());
    let row = state(&server, "disk_fills").unwrap();
    assert_eq!(row["severity"], "warning");
    assert!(row["text"].as_str().unwrap().contains(" MiB are free on the disk of the data directory"), "{row}");
    assert_eq!(report(&server, 0), 200);
    assert_eq!(state(&server, "writes_fail"), None);

    while file.write_all(&[1; 4_096]).is_ok() {}
    // The last page of the journal still has room for a few reports.
    assert!((1..1_000).any(|number| report(&server, number) != 200));
    until("reports are refused", || state(&server, "writes_fail").is_some());

    fs::remove_file(filler).unwrap();
    drop(file);
    until("the state ends", || state(&server, "disk_fills").is_none());
    assert_eq!(report(&server, 1_000), 200);
}

/// Reports the digest of this number over Pyzor. Returns the code of the answer.
fn report(server: &Server, number: u32) -> u32 {
    Datagrams::to(server.address("pyzor")).pyzor("report", &format!("{number:040x}")).0
}

/// Returns the row of a state in the table of health, if the state is active.
fn state(server: &Server, name: &str) -> Option<Value> {
    let stats: Value = serde_json::from_str(&administer(server, &["stats", "--json"])).unwrap();
    stats["health"].as_array().unwrap().iter().find(|row| row["state"] == name).cloned()
}
