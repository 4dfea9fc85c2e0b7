//! Memory of `bruit sign`. The test has a file of its own, because the measurement includes programs started by other
//! tests in the same process.

mod common;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};

use common::{Folder, peak_memory_bytes, printed};

#[test]
fn a_mailbox_is_read_message_by_message() {
    let folder = Folder::new();
    let mut file = BufWriter::new(File::create(folder.path("mbox")).unwrap());
    let filling = "a line of the message that says nothing new\n".repeat(20_000);
    (0..300).for_each(|number| write!(file, "From x\nSubject: {number}\n\n{filling}\n").unwrap());
    file.flush().unwrap();
    let bytes = fs::metadata(folder.path("mbox")).unwrap().len();
    let path = folder.path("mbox").into_os_string().into_string().unwrap();
    assert_eq!(printed(&["sign", "--json", "--scheme", "pyzor", &path]).lines().count(), 300);
    let peak = peak_memory_bytes();
    assert!(peak < bytes / 4, "{peak} bytes of memory for a file of {bytes} bytes");
}
