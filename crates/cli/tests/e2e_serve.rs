//! What `bruit serve` prints at its start can be done.

mod common;

use std::fs;

use common::{Folder, Server, program, run, testdata};

/// The commands that the server suggests, with the program that was built in place of the installed one.
fn suggestions(server: &Server) -> Vec<String> {
    let commands =
        server.greeting.lines().map(str::trim).filter(|line| line.starts_with("bruit ") && line.contains('<'));
    commands.map(|line| line.replacen("bruit ", concat!(env!("CARGO_BIN_EXE_bruit"), " "), usize::MAX)).collect()
}

#[test]
fn the_commands_it_suggests_work() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let suggestions = suggestions(&server);
    assert!(!suggestions.is_empty(), "{}", server.greeting);
    folder.write("mail", fs::read(testdata("razor/text.eml")).unwrap());
    for suggestion in suggestions {
        let answer = run(program("sh", "dash").args(["-e", "-c", &suggestion]).current_dir(folder.path("")), b"");
        answer.expect(0, &server);
    }
}
