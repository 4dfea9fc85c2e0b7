//! Runs the installed Razor client, either its modules in one Perl process or its command.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the client's results for each of `files`. They are the lines described in `client.pl`, without the line that
/// names the file.
pub(crate) fn blocks(files: &[PathBuf], ep4s: &[&str]) -> Vec<String> {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/razor_differential/client.pl");
    let mut command = Command::new("perl");
    command.arg(driver).args(ep4s).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("perl is missing: install the Debian package razor");
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    let mut input = process.stdin.take().expect("the standard input is piped");
    // Writes in a separate thread, because the client writes its results while it reads.
    let writer = std::thread::spawn(move || input.write_all(names.as_bytes()));
    let output = process.wait_with_output().expect("the process can be waited for");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "perl or the Debian package razor is missing, or the client failed:\n{complaints}"
    );
    writer.join().expect("the writer does not panic").expect("the client reads all names");
    let text = String::from_utf8(output.stdout).expect("the client writes ASCII");
    let blocks: Vec<_> = text
        .split("file ")
        .skip(1)
        .map(|block| block.split_once('\n').expect("every block begins with a line that names the file").1.to_owned())
        .collect();
    assert_eq!(blocks.len(), files.len(), "one block per file");
    blocks
}

/// Returns the output of `razor-check -H` for `file`. The configuration written to `home` names closed local ports as
/// servers. The command does not contact them.
pub(crate) fn command_output(home: &Path, file: &Path) -> String {
    write_home(home);
    let mut command = Command::new("razor-check");
    command.arg(format!("-home={}", home.display())).arg(format!("-conf={}", home.join("razor-agent.conf").display()));
    let output =
        command.arg("-H").arg(file).output().expect("razor-check is missing: install the Debian package razor");
    String::from_utf8(output.stdout).expect("the command writes ASCII")
}

fn write_home(home: &Path) {
    const CONFIGURATION: &str =
        "turn_off_discovery = 1\nrazordiscovery = 127.0.0.1:1\nlogfile = /dev/null\ndebuglevel = 0\n";
    let configuration = format!("razorhome = {}\n{CONFIGURATION}", home.display());
    fs::write(home.join("razor-agent.conf"), configuration).expect("the folder is ours");
    for list in ["discovery", "catalogue", "nomination"] {
        fs::write(home.join(format!("servers.{list}.lst")), "127.0.0.1:1\n").expect("the folder is ours");
    }
}
