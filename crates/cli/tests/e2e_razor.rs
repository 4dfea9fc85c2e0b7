//! The unmodified Razor client of Debian against a running clearinghouse.

mod common;

use std::fs;

use common::{Folder, RazorHome, Server, bank, testdata};

/// More signatures than the server takes at once (razor.md calls it bql), so the client has to split them.
const BATCH: usize = 60;

/// The e8 signature of a link in `text.eml`.
const LINK: &str = "A1X0JdhQilUA";

fn message(name: &str) -> Vec<u8> {
    fs::read(testdata("razor").join(name)).unwrap()
}

#[test]
fn a_report_is_found_until_it_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    let spam = message("text.eml");
    home.check(&spam, false);
    home.report(&spam);
    home.check(&spam, true);
    home.report(&spam);
    home.check(&spam, true);
    home.check(&message("html.eml"), false);
    home.revoke(&spam);
    home.check(&spam, false);
}

#[test]
fn a_message_of_many_parts_is_found() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    for name in ["multipart.eml", "base64.eml"] {
        home.check(&message(name), false);
        home.report(&message(name));
        home.check(&message(name), true);
    }
}

/// A phish with the bank's logo and legal footer is reported: the bank's own mail, with the same logo and footer, is not spam.
#[test]
fn the_bank_whose_logo_was_copied_is_no_spam() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    let (phish, genuine) = (bank::phish("Ann Baker"), bank::genuine());
    home.report(&phish);
    home.check(&phish, true);
    home.check(&genuine, false);
    // A second report announces the main text as known, and brings all parts again.
    home.report(&phish);
    home.check(&genuine, false);
    home.check(&phish, true);
}

/// The server has only heard of a message's e4 signature; those of its links it has computed from the body.
#[test]
fn another_message_with_a_reported_link_is_found() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    home.report(&message("text.eml"));
    // Another text of the same length, which is in the signature, too.
    let other = String::from_utf8(message("text.eml")).unwrap();
    let other = other.replace("tomorrow", "thursday").replace("Payment", "Plastic").replace("twenty", "eighty");
    home.check(other.as_bytes(), true);
}

#[test]
fn many_signatures_are_asked_about_in_batches() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    home.report(&message("text.eml"));
    let mut signatures: Vec<String> = (0..BATCH).map(|index| format!("A1X{index:03}hQilUA")).collect();
    signatures[BATCH - 2] = LINK.to_owned();
    // The client numbers what it was asked, with a minus before what is not spam.
    let expected: Vec<String> =
        (1..=BATCH).map(|number| format!("{}{number}", if number == BATCH - 1 { "" } else { "-" })).collect();
    let answer = home.run("razor-check", &["-S", &signatures.join(","), "-e", "8", "-n"], b"", 0);
    assert_eq!(answer.text.lines().collect::<Vec<_>>(), expected, "{}", home.log());
}

/// Someone who says a wrong password may ask, but not report.
#[test]
fn a_wrong_password_is_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let owner = RazorHome::new(&server);
    owner.register();
    let thief = RazorHome::new(&server);
    let words = ["-register", "-user=alice@example.org", "-pass=another long pass phrase"];
    let answer = thief.run("razor-admin", &words, b"", 2);
    assert!(answer.complaints.contains("rror"), "{answer:?}");
}
