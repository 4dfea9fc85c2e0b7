//! Debian's unmodified Razor client against a running clearinghouse.

mod common;

use std::fs;

use common::{Folder, RazorHome, Server, bank, testdata};

/// More signatures than the server accepts in one request (bql in razor.md), so that the client must split them.
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

/// After a report of a phish with the bank's logo and footer, the bank's own mail with both is still not spam.
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
    // In a second report, the client announces the main text, which is already listed, and sends all parts again.
    home.report(&phish);
    home.check(&genuine, false);
    home.check(&phish, true);
}

/// The client reports only the e4 signature of the message. The server computes the signatures of the links from the
/// body.
#[test]
fn another_message_with_a_reported_link_is_found() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = RazorHome::new(&server);
    home.register();
    home.report(&message("text.eml"));
    // Keep the length of the text, because the signature includes it.
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
    // The client numbers its results and puts a minus before messages that are not spam.
    let expected: Vec<String> =
        (1..=BATCH).map(|number| format!("{}{number}", if number == BATCH - 1 { "" } else { "-" })).collect();
    let answer = home.run("razor-check", &["-S", &signatures.join(","), "-e", "8", "-n"], b"", 0);
    assert_eq!(answer.text.lines().collect::<Vec<_>>(), expected, "{}", home.log());
}

/// A user with a wrong password may check, but not report.
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
