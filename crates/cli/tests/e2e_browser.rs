//! The dashboard in a real browser: every view in both colour schemes and at the width of a phone, live numbers, and
//! changes made with and without scripts.

mod common;

use std::fs;

use common::browser::{Browser, keep};
use common::dashboard::printed_link;
use common::{Folder, PyzorHome, Server, bruit, testdata, until};

const VIEWS: [&str; 7] = ["/", "/explain", "/books", "/reporters", "/whitelist", "/peers", "/settings"];

/// A message with enough text to be listed.
const SPAM: &str = "razor/text.eml";

/// An account and a peer, so that every view has something to show.
const MORE: &str = "[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\n\
    key = \"0123456789abcdef0123456789abcdef01234567\"\ngroup = \"example.org\"\n\
    [[peers]]\nname = \"bruit.example.net\"\nurl = \"https://127.0.0.1:1\"\nrelation = \"peer\"\n\
    key = \"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\"\n";

#[test]
fn every_view_is_accessible_and_causes_no_error_in_both_colours_and_on_a_phone() {
    let folder = Folder::new();
    let server = Server::start(&folder, MORE);
    traffic(&server);
    let browser = Browser::start();
    browser.open(&format!("{}/", server.url()));
    assert_eq!(browser.text("h1"), "Sign in");
    assert_eq!(browser.violations(), [""; 0], "the page for signing in");
    browser.type_into("#token", &server.token());
    browser.click("main button");
    browser.until_text("Requests by protocol");
    for (scheme, width, height) in [("light", 1200, 900), ("dark", 1200, 900), ("light", 390, 844), ("dark", 390, 844)]
    {
        browser.prefer(scheme);
        browser.resize(width, height);
        for view in VIEWS {
            browser.open(&format!("{}{view}", server.url()));
            assert_eq!(browser.violations(), [""; 0], "{view}, {scheme}, {width}");
            let overflow = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{view} is wider than the window of {width}: {overflow}");
            match (view, scheme, width) {
                ("/", "light", 1200) => keep("overview", &browser.picture()),
                ("/", "dark", 390) => keep("phone", &browser.picture()),
                _ => {}
            }
        }
    }
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn a_link_signs_in_numbers_move_and_a_revoked_message_is_unknown() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = PyzorHome::new(&server);
    let browser = Browser::start();
    browser.open(&format!("{}{}", server.url(), printed_link(&server)));
    browser.click("main button");
    browser.until_text("What to do first");
    browser.until_text("Numbers are live.");
    let spam = testdata(SPAM).canonicalize().unwrap();
    let message = fs::read(&spam).unwrap();
    home.run(&["report"], &message, 0);
    home.check(&message, true);
    let reported = bruit(&["report", "--server", &server.url(), spam.to_str().unwrap()]);
    assert!(reported.status.success(), "{reported:?}");
    until("the numbers move", || {
        browser.text("[data-live=pyzor-spam]") == "1" && browser.text("[data-live=claims]") == "2"
    });
    browser.open(&format!("{}/explain", server.url()));
    browser.type_into("#file", spam.to_str().unwrap());
    browser.click("main form button");
    browser.until_text("The site's own users reported it.");
    assert_eq!(browser.violations(), [""; 0], "an explanation");
    keep("explain", &browser.picture());
    browser.run("document.querySelector('input[value=revoke]').form.querySelector('button').click()");
    browser.until_text("Revoked.");
    home.check(&message, false);
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn pages_work_without_scripts() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let browser = Browser::start();
    browser.enable_scripts(false);
    browser.open(&format!("{}/", server.url()));
    browser.type_into("#token", &server.token());
    browser.click("main button");
    browser.open(&format!("{}/whitelist", server.url()));
    browser.type_into("#sender", "news.example.org");
    browser.click("main form button");
    browser.enable_scripts(true);
    until("the sender is listed", || browser.text("tbody").contains("news.example.org"));
    assert!(browser.text("tbody").contains("Remove"));
}

/// Sends reports and checks over two protocols.
fn traffic(server: &Server) {
    let home = PyzorHome::new(server);
    let message = fs::read(testdata(SPAM)).unwrap();
    home.run(&["report"], &message, 0);
    (0..5).for_each(|_| home.check(&message, true));
    let check = bruit(&["check", "--server", &server.url(), testdata("razor/html.eml").to_str().unwrap()]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
}
