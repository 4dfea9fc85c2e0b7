//! Tests of keys and realms with real servers.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use common::{Folder, Server, administer, bruit, printed, refused};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn is_private(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600
}

#[test]
fn a_new_key_is_for_its_owner_alone_and_shows_the_same_public_half() {
    let folder = Folder::new();
    let file = folder.path("a.key");
    let public = printed(&["keys", "new", text(&file)]);
    assert_eq!(public.trim().len(), 64);
    assert!(is_private(&file));
    assert_eq!(printed(&["keys", "show", text(&file)]), public);
    assert!(refused(&["keys", "new", text(&file)]).contains("a.key"), "nothing is overwritten");
    assert_eq!(printed(&["keys", "show", text(&file)]), public);
    folder.write("nonsense", "nonsense");
    assert!(refused(&["keys", "show", text(&folder.path("nonsense"))]).contains("does not contain a secret key"));
}

#[test]
fn a_server_has_a_key_from_its_first_start_and_says_which() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "[federation]\nlisten = \"127.0.0.1:0\"\n");
    let public = printed(&["keys", "show", "--data", text(&folder.path("data"))]);
    let line = server.greeting.lines().find(|line| line.trim().starts_with("federation ")).unwrap();
    assert!(line.ends_with(public.trim()), "{line}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&administer(&server, &["peers", "--json"])).unwrap()["key"],
        public.trim()
    );
    assert!(administer(&server, &["peers"]).contains("no other servers"));
    assert!(server.terminate().success());
    assert_eq!(printed(&["keys", "show", "--config", text(&folder.path("bruit.toml"))]), public);
    assert!(is_private(&folder.path("data/node.key")));
}

#[test]
fn another_server_is_founded_in_the_realm_of_a_running_one() {
    let (first, second) = (Folder::new(), Folder::new());
    let server = Server::start(&first, "");
    let (asked, read) = (first.path("asked.bruit"), first.path("read.bruit"));
    let said = administer(&server, &["keys", "realm", text(&asked), "--server", &server.url()]);
    assert!(said.contains("bruit serve --realm"), "{said}");
    printed(&["keys", "realm", text(&read), "--data", text(&first.path("data"))]);
    assert_eq!(fs::read(&asked).unwrap(), fs::read(&read).unwrap());
    assert_eq!(fs::read(&asked).unwrap(), first.read("data/realm.bruit"));
    assert!(is_private(&asked) && is_private(&read));
    let token = first.path("data/admin.token");
    let again = ["keys", "realm", text(&asked), "--server", &server.url(), "--token-file", text(&token)];
    assert!(refused(&again).contains("already exists"));

    let mut other = Server::start_in_realm(&second, &asked);
    assert!(other.terminate().success());
    let of = |folder: &Folder| bruit_store::Founding::read(&folder.path("data")).unwrap().unwrap().realm;
    assert_eq!(of(&first), of(&second));
}

#[test]
fn a_server_is_founded_with_a_key_that_was_made_before_its_first_start() {
    let folder = Folder::new();
    fs::create_dir(folder.path("data")).unwrap();
    let key = folder.path("data/node.key");
    let public = printed(&["keys", "new", text(&key)]);
    let mut server = Server::start(&folder, "");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&administer(&server, &["peers", "--json"])).unwrap()["key"],
        public.trim()
    );
    assert!(server.terminate().success());
}

#[test]
fn a_node_that_lost_its_disk_is_founded_again_with_its_keys_and_its_realm() {
    let (first, second) = (Folder::new(), Folder::new());
    let server = Server::start(&first, "");
    let realm = first.path("realm.bruit");
    administer(&server, &["keys", "realm", text(&realm), "--server", &server.url()]);
    let mut node = Server::start_in_realm(&second, &realm);
    assert!(node.terminate().success());
    let names = ["node.key", "fuzzy.key"];
    let keys = names.map(|name| second.read(&format!("data/{name}")));

    let replacement = Folder::new();
    fs::create_dir_all(replacement.path("data/shelf")).unwrap();
    for (name, key) in names.iter().zip(&keys) {
        replacement.write(&format!("data/{name}"), key);
    }
    let mut node = Server::start_in_realm(&replacement, &realm);
    assert!(node.terminate().success());
    assert_eq!(names.map(|name| replacement.read(&format!("data/{name}"))), keys);
}

#[test]
fn a_lost_realm_file_comes_back_from_another_node() {
    let (first, second) = (Folder::new(), Folder::new());
    let server = Server::start(&first, "");
    let realm = first.path("realm.bruit");
    administer(&server, &["keys", "realm", text(&realm), "--server", &server.url()]);
    let mut node = Server::start_in_realm(&second, &realm);
    assert!(node.terminate().success());
    let lost = second.path("data/realm.bruit");
    fs::remove_file(&lost).unwrap();

    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    let output = command.args(["serve", "--config", text(&second.path("bruit.toml"))]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let advice = format!("bruit keys realm {} --server URL", text(&lost));
    assert!(!output.status.success() && said.contains(&advice), "{said}");
    assert!(!said.contains(".key"), "the error must not name another file: {said}");

    administer(&server, &["keys", "realm", text(&lost), "--server", &server.url()]);
    assert!(node.restart().terminate().success());
}

#[test]
fn a_directory_of_another_realm_is_refused() {
    let (first, second) = (Folder::new(), Folder::new());
    let mut servers = [Server::start(&first, ""), Server::start(&second, "")];
    assert!(servers.iter_mut().all(|server| server.terminate().success()));
    let realm = first.path("data/realm.bruit");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["serve", "--log", "error", "--config", text(&second.path("bruit.toml")), "--realm", text(&realm)]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("a different realm"), "{said}");
}

#[test]
fn what_has_no_realm_or_key_says_so() {
    let folder = Folder::new();
    let (empty, file) = (folder.path(""), folder.path("out"));
    assert!(refused(&["keys", "realm", text(&file), "--data", text(&empty)]).contains("no clearinghouse"));
    assert!(refused(&["keys", "show", "--data", text(&empty)]).contains("node.key"));
    let nobody = refused(&["keys", "realm", text(&file), "--server", "http://127.0.0.1:1"]);
    assert!(nobody.contains("127.0.0.1:1") && !file.exists(), "{nobody}");
    assert_eq!(bruit(&["keys"]).status.code(), Some(2));
}
