//! The dashboard in a real browser: every view in both colour schemes and at the width of a phone, live numbers, and
//! changes made with and without scripts.

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::browser::{Browser, keep};
use common::dashboard::{Visitor, api, printed_link, pyzor_checks_on_disk};
use common::{FakeClock, Folder, PyzorHome, Server, bruit, testdata, until};
use serde_json::Value;

const VIEWS: [&str; 9] =
    ["/", "/explain", "/books", "/reporters", ACCOUNT, "/whitelist", "/peers", "/sites", "/settings"];

/// The view of one account.
const ACCOUNT: &str = "/reporters?protocol=pyzor&name=alice";

/// The key of the account in [`MORE`].
const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

const DAY: i64 = 86_400;

/// The time within which numbers follow traffic.
const LIVE: Duration = Duration::from_secs(2);

/// Number of attempts to see numbers in time. One successful attempt is enough, because this machine may be busy with
/// other tests.
const TRIES: u64 = 10;

/// A name that runs a script where names are not escaped.
const HOSTILE: &str = "a\"><img/src=x/onerror=\"document.title='executed'\"><script>document.title='executed'</script>";

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
    let clock = FakeClock::new(&folder);
    let server = Server::start_with_clock(&clock, &folder, MORE);
    traffic(&server);
    settle(&server, &clock);
    minutes(&server, &clock, 3 * DAY + 120);
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
        for view in VIEWS {
            browser.resize(width, height);
            browser.open(&format!("{}{view}", server.url()));
            assert_eq!(browser.violations(), [""; 0], "{view}, {scheme}, {width}");
            let overflow = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{view} is wider than the window of {width}: {overflow}");
            match (view, scheme, width) {
                ("/", "light", 1200) => keep("overview", &browser.picture("section:has(.plot)")),
                ("/", "dark", 390) => keep("phone", &browser.picture(".tiles")),
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
    assert_eq!(browser.text("#health-changed"), "");
    browser.run("document.getElementById('health-changed').dataset.problems = 'others'");
    browser.until_text("Health has changed: reload");
    let delays: Vec<Duration> = (2..2 + TRIES).map(|count| delay(&browser, &home, &message, count)).collect();
    assert!(delays.iter().any(|delay| *delay < LIVE), "{delays:?}");
    browser.open(&format!("{}/explain", server.url()));
    browser.type_into("#file", spam.to_str().unwrap());
    browser.click("main form button");
    browser.until_text("The site's own users reported it.");
    assert_eq!(browser.violations(), [""; 0], "an explanation");
    browser.resize(1200, 900);
    keep("explain", &browser.picture("tbody tr:nth-child(2)"));
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

    browser.enable_scripts(false);
    browser.open(&format!("{}/explain", server.url()));
    browser.type_into("#message", "From: a@forged.example\n\nhello");
    browser.click("main form button");
    // This page was loaded without scripts.
    browser.enable_scripts(true);
    browser.until_text("Whitelist the sender");
    browser.enable_scripts(false);
    browser.click("details summary");
    // The browser does not send the form: its box is not checked.
    browser.click("details button");
    browser.click("details input[type=checkbox]");
    browser.click("details button");
    browser.enable_scripts(true);
    until("the sender is listed", || browser.text("tbody").contains("a@forged.example"));
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn an_account_is_disabled_and_the_history_is_there_after_a_kill() {
    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
    let folder = Folder::new();
    let clock = FakeClock::new(&folder);
    let mut server = Server::start_by(&clock, &folder);
    let browser = Browser::start();
    sign_in(&browser, &server, &server.token());
    browser.open(&format!("{}/reporters", server.url()));
    browser.type_into("#new-name", "alice");
    browser.type_into("#new-secret", KEY);
    browser.click("form[autocomplete] button");
    until("the account is there", || browser.text("tbody").contains("alice"));
    let owner = PyzorHome::of(&server, "alice", KEY);
    owner.run(&["ping"], b"", 0);
    browser.click("button[aria-label='Disable alice']");
    until("the account is disabled", || browser.text("tbody").contains("disabled"));
    owner.run(&["ping"], b"", 1);

    PyzorHome::new(&server).check(&fs::read(testdata(SPAM)).unwrap(), false);
    let day = |server: &Server| {
        browser.open(&format!("{}/?range=day", server.url()));
        browser.text("main").contains("Unknown: 1") && !browser.text("svg.chart").is_empty()
    };
    until("the check is in the chart", || day(&server));
    // The history is written when a minute has ended.
    clock.set(120);
    until("the minute is on disk", || pyzor_checks_on_disk(&server) == 1);
    // An open page would complain in the browser's log that its stream is lost when the server is killed. So leave the
    // page.
    browser.open("about:blank");
    assert_eq!(browser.log(), [""; 0]);
    server.kill();
    let server = server.restart();
    sign_in(&browser, &server, &server.token());
    assert!(day(&server), "{}", browser.text("main"));
    assert_eq!(browser.log(), [""; 0]);
}

#[test]
fn names_of_others_run_no_script_and_no_page_frames_the_dashboard() {
    let folder = Folder::new();
    let token = "a-token-with-a-hostile-name";
    let more = format!("[[http.tokens]]\nname = '''{HOSTILE}'''\ntoken = \"{token}\"\nadmin = true\n");
    let server = Server::start(&folder, &more);
    let mut visitor = Visitor::signed_in(&server, token);
    let account = [("action", "save"), ("protocol", "razor"), ("name", HOSTILE), ("secret", "correct horse battery")];
    let added = visitor.change("/reporters", &[&account[..], &[("group", HOSTILE)]].concat());
    assert_eq!(added.status, 303, "{}", added.text);
    let mut program = Visitor::new(&server);
    program.fields.push(("authorization", format!("Bearer {token}")));
    program.fields.push(("bruit-site", "watch".to_owned()));
    program.fields.push(("user-agent", "bruit/<img/src=x/onerror=alert(1)>".to_owned()));
    assert_eq!(program.get("/v1/health").status, 204);

    let browser = Browser::start();
    sign_in(&browser, &server, token);
    let assert_harmless = |page: &str| {
        let is_hit = browser.run("return document.title.includes('executed') || document.images.length > 0");
        assert_eq!(is_hit, false, "{page}");
    };
    for view in VIEWS {
        browser.open(&format!("{}{view}", server.url()));
        assert_harmless(view);
    }
    folder.write("mail", format!("From: {HOSTILE}\nSubject: {HOSTILE}\n\n<p hidden>{HOSTILE}</p>{HOSTILE}\n"));
    browser.open(&format!("{}/explain", server.url()));
    browser.type_into("#file", folder.path("mail").to_str().unwrap());
    browser.click("main form button");
    browser.until_text("Every signature of the message");
    assert_harmless("an explanation");
    assert_eq!(browser.log(), [""; 0]);

    let frame = format!("<title>elsewhere</title><iframe src='{}/sign-in'></iframe>", server.url());
    browser.open(&format!("data:text/html,{frame}"));
    browser.enter_frame("iframe");
    until("the browser shows an error in place of the page", || {
        browser.run("return location.protocol") == "chrome-error:"
    });
}

/// Signs in with a token.
fn sign_in(browser: &Browser, server: &Server, token: &str) {
    browser.open(&format!("{}/sign-in", server.url()));
    browser.type_into("#token", token);
    browser.click("main button");
    browser.until_text("Requests by protocol");
}

/// Sends a check that finds spam, and returns the time until the page shows `count` such checks.
fn delay(browser: &Browser, home: &PyzorHome<'_>, message: &[u8], count: u64) -> Duration {
    home.check(message, true);
    let sent = Instant::now();
    until("the number moves", || browser.text("[data-live=pyzor-spam]") == count.to_string());
    sent.elapsed()
}

/// Sends checks with all verdicts in each of several minutes, the first of which is `ahead_seconds` ahead of the true time.
/// Sets the server's clock to the next minute once the server has recorded all checks of the current one.
fn minutes(server: &Server, clock: &FakeClock, ahead_seconds: i64) {
    const CHECKS: [usize; 6] = [3, 5, 2, 6, 4, 5];
    let [spam, ham, bulk, other] = [SPAM, "razor/multipart.eml", "razor/base64.eml", "razor/html.eml"]
        .map(|name| testdata(name).display().to_string());
    let run = |arguments: &[&str]| bruit(&[arguments, &["--server", &server.url()]].concat());
    let revoked = run(&["revoke", &ham]);
    assert!(revoked.status.success(), "{revoked:?}");
    let counted = run(&["count", "--recipients", "500", &bulk]);
    assert!(counted.status.success(), "{counted:?}");
    // `traffic` has sent one check.
    let mut sent = 1;
    for (minute, checks) in (0..).zip(CHECKS) {
        clock.set(ahead_seconds + 60 * minute);
        let mut messages = vec![spam.as_str(); checks];
        messages.extend([&ham, &bulk, &other].map(String::as_str).into_iter().cycle().take(checks));
        let checked = run(&[&["check", "--bulk-threshold", "100"], &messages[..]].concat());
        assert_eq!(checked.stdout.iter().filter(|byte| **byte == b'\n').count(), messages.len(), "{checked:?}");
        sent += messages.len() as u64;
        until("the checks are in the history", || recorded(server) == sent);
    }
}

/// Has a claim of the account settled, so that it has a precision.
fn settle(server: &Server, clock: &FakeClock) {
    let message = b"From: a@b.example\n\nGenuine watches at wholesale prices, shipped to any country in plain boxes.\n";
    PyzorHome::of(server, "alice", KEY).run(&["report"], message, 0);
    PyzorHome::new(server).run(&["report"], message, 0);
    clock.set(3 * DAY);
    bruit_client::Client::new(&server.url(), Some(&server.token()), Duration::from_secs(60))
        .unwrap()
        .accept_clock()
        .unwrap();
    let settled = || api(server, "/v1/accounts?protocol=pyzor&name=alice")["accounts"][0]["trust"]["confirmed"] == 1;
    until("the claim is settled", settled);
    let other = testdata("razor/html.eml").display().to_string();
    let count = ["count", "--recipients", "1", "--server", &server.url(), &other];
    until("the books have caught up with the clock", || bruit(&count).status.success());
    // Records are read when a minute has ended.
    clock.set(3 * DAY + 60);
    until("the precision is recorded", || {
        api(server, "/v1/accounts/history?protocol=pyzor&name=alice")["days"][0]["confirmed"] == 1
    });
}

/// Returns the number of checks over HTTP in the history.
fn recorded(server: &Server) -> u64 {
    let history = api(server, "/v1/history?span=day");
    let requests = history["slots"].as_array().unwrap().iter().flat_map(|slot| slot["requests"].as_array().unwrap());
    let is_check = |one: &&Value| {
        let verdicts = ["spam", "bulk", "ham", "unknown"];
        one["protocol"] == "http" && verdicts.iter().any(|verdict| one["answered"] == *verdict)
    };
    requests.filter(is_check).map(|one| one["count"].as_u64().unwrap()).sum()
}

/// Sends reports and checks over two protocols.
fn traffic(server: &Server) {
    let home = PyzorHome::new(server);
    let message = fs::read(testdata(SPAM)).unwrap();
    home.run(&["report"], &message, 0);
    (0..5).for_each(|_| home.check(&message, true));
    // A program of a mail site.
    let folder = Folder::new();
    let sent = bruit(&["spool", "send", "--server", &server.url(), folder.path("").to_str().unwrap()]);
    assert!(sent.status.success(), "{sent:?}");
    let check = bruit(&["check", "--server", &server.url(), testdata("razor/html.eml").to_str().unwrap()]);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
}
