//! The dashboard over HTTP: sessions, rights, forged requests, and changes made through the pages.

mod common;

use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::dashboard::{Visitor, api, printed_link, pyzor_checks_on_disk};
use common::milter::Milter;
use common::{FakeClock, Folder, PyzorHome, Server, administer, bruit, refused, testdata};
use nix::sys::signal::Signal;

const VIEWS: [&str; 8] = ["/", "/explain", "/books", "/reporters", "/whitelist", "/peers", "/sites", "/settings"];

/// A message with enough text to be listed.
const SPAM: &str = "razor/text.eml";

/// Views that show names of people or tokens, or the configuration.
const PRIVATE_VIEWS: [&str; 4] = ["/reporters", "/whitelist", "/sites", "/settings"];

/// A peer that cannot be reached.
const PEER: &str = "[[peers]]\nname = \"bruit.example.net\"\nurl = \"https://127.0.0.1:1\"\nrelation = \"peer\"\n\
    key = \"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\"\n";

/// A signature that nobody has reported.
const SIGNATURE: &str = "9f11ff1a25d09f11ff1a25d09f11ff1a25d09f11";

/// Keys of servers that nobody has added.
const OTHER_KEY: &str = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";

const THIRD_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

/// Accounts of one group. The key of the first one is [`KEY`].
const ACCOUNTS: &str = "[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\ngroup = \"example.org\"\n\
    key = \"0123456789abcdef0123456789abcdef01234567\"\n\
    [[accounts]]\nprotocol = \"pyzor\"\nname = \"bob\"\ngroup = \"example.org\"\n\
    key = \"1123456789abcdef0123456789abcdef01234567\"\n";
const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
const NEW_KEY: &str = "89abcdef0123456789abcdef0123456701234567";

const DAY: i64 = 86_400;

/// A token that grants reading, but not administration.
const READER: &str = "[[http.tokens]]\nname = \"help <b>desk</b>\"\ntoken = \"a-token-for-the-help-desk\"\nmonitor = true\n\
    [[http.tokens]]\nname = \"mail\"\ntoken = \"a-token-without-monitor\"\n";

#[test]
fn the_printed_link_signs_in_once_and_the_token_as_often_as_wanted() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let link = printed_link(&server);
    assert!(!server.greeting.contains(&server.token()), "the token itself is not printed");
    let mut visitor = Visitor::new(&server);
    let page = visitor.get(&link);
    assert!(page.status == 200 && page.header("set-cookie").is_empty(), "opening a link changes nothing");
    let secret = link.split('=').nth(1).unwrap();
    assert_eq!(visitor.post("/sign-in", &[("link", secret)]).status, 303);
    assert!(visitor.get("/").text.contains("Administrator"));
    let again = Visitor::new(&server).post("/sign-in", &[("link", secret)]);
    assert!(again.status == 403 && again.text.contains("used already"), "{}", again.text);
    for _ in 0..2 {
        assert_eq!(Visitor::signed_in(&server, &server.token()).get("/").status, 200);
    }
}

#[test]
fn every_page_needs_an_open_session_of_a_token_that_may_look() {
    let folder = Folder::new();
    let server = Server::start(&folder, READER);
    let mut stranger = Visitor::new(&server);
    for view in VIEWS {
        let page = stranger.get(view);
        assert_eq!((page.status, page.header("location")), (303, "/sign-in"), "{view}");
    }
    assert_eq!(stranger.get("/live").header("location"), "/sign-in");
    for token in ["", "wrong", "a-token-without-monitor"] {
        let page = stranger.post("/sign-in", &[("token", token)]);
        assert!(matches!(page.status, 401 | 403) && page.text.contains("role=\"alert\""), "{token}: {}", page.text);
        assert!(stranger.cookie().is_none());
    }
    let mut reader = Visitor::signed_in(&server, "a-token-for-the-help-desk");
    for view in VIEWS {
        let page = reader.get(view);
        if PRIVATE_VIEWS.contains(&view) {
            assert_eq!(page.status, 403, "{view}");
            continue;
        }
        assert_eq!(page.status, 200, "{view}: {}", page.text);
        assert!(!page.text.contains("href=\"/settings\""), "{view}");
        assert!(page.text.contains("Read-only") && !page.text.contains("help <b>"), "{view}");
    }
    let cookie = reader.cookie().unwrap().to_owned();
    for wrong in [format!("{cookie}0"), cookie.replace("bruit-", "bruit-1"), "bruit=x".to_owned()] {
        stranger.set_cookie(&wrong);
        assert_eq!(stranger.get("/").status, 303, "{wrong}");
    }
    assert_eq!(reader.change("/sign-out", &[]).status, 303);
    let mut replayed = Visitor::new(&server);
    replayed.set_cookie(&cookie);
    assert_eq!(replayed.get("/").status, 303, "the session is closed on the server, too");
}

#[test]
fn a_session_ends_with_its_token() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let visitor = Visitor::signed_in(&server, &server.token());
    // A page that is open when the token is replaced must not stay live.
    let live = visitor.follow("/live");
    let before = server.token();
    fs::remove_file(server.data().join("admin.token")).unwrap();
    server.signal(Signal::SIGHUP);
    common::until("the token is replaced", || server.data().join("admin.token").exists() && server.token() != before);
    common::until("the session has ended", || visitor.get("/").status == 303);
    common::until("the live page has ended", || live.is_finished());
}

#[test]
fn forged_requests_change_nothing() {
    let folder = Folder::new();
    let server = Server::start(&folder, READER);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let token = visitor.get("/").form_token();
    let add = |token: &str| {
        [("form_token", token.to_owned()), ("action", "add".to_owned()), ("sender", "evil.example".to_owned())]
    };
    fn pairs<'a>(fields: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
    let good = add(&token);
    for origin in [None, Some("null"), Some("http://evil.example"), Some("http://127.0.0.1:1")] {
        assert_eq!(visitor.post_from(origin, "/whitelist", &pairs(&good)).status, 403, "{origin:?}");
    }
    let other = Visitor::signed_in(&server, &server.token());
    let foreign = add(&other.get("/").form_token());
    for wrong in [&foreign, &add("")] {
        let page = visitor.post("/whitelist", &pairs(wrong));
        assert!(page.status == 403 && page.text.contains("another session"), "{}", page.text);
    }
    visitor.fields.push(("sec-fetch-site", "cross-site".to_owned()));
    assert_eq!(visitor.post("/whitelist", &pairs(&good)).status, 403);
    visitor.fields = vec![("host", "evil.example".to_owned())];
    assert_eq!(visitor.get("/").status, 421);
    visitor.fields.clear();
    for query in ["/?token=x", "/sign-in?token=x", "/explain?access_token=x"] {
        let page = visitor.get(query);
        assert!(page.status == 400 && page.text.contains("replace the token"), "{query}: {}", page.text);
    }
    let mut reader = Visitor::signed_in(&server, "a-token-for-the-help-desk");
    let own = add(&reader.get("/").form_token());
    assert_eq!(reader.post("/whitelist", &pairs(&own)).status, 403, "a reader changes nothing");
    let list = other.get("/whitelist").text;
    assert!(!list.contains("evil.example"), "{list}");
    // The API ignores cookies.
    assert_eq!(visitor.get("/v1/stats").status, 403);
    assert_eq!(visitor.post("/whitelist", &pairs(&good)).status, 303, "the good form works");
    assert!(other.get("/whitelist").text.contains("evil.example"));
}

/// Returns a valid form for every path that changes something, without the form token.
fn changes() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let form =
        |fields: &[(&'static str, &str)]| fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let subject = format!("{{\"signatures\":[{{\"scheme\":\"pyzor\",\"value\":\"{SIGNATURE}\"}}]}}");
    let account =
        [("action", "save"), ("protocol", "razor"), ("name", "mallory"), ("secret", "correct horse battery staple")];
    let alice = |field: (&'static str, &str)| {
        form(&[("action", "change"), ("protocol", "pyzor"), ("name", "alice"), (field.0, field.1)])
    };
    vec![
        ("/explain/claim", form(&[("claim", "report"), ("id", "1"), ("subject", &subject)])),
        ("/reporters", form(&account)),
        ("/reporters", alice(("secret", NEW_KEY))),
        ("/reporters", alice(("group", "evil.example"))),
        ("/reporters", alice(("standing", "pinned"))),
        ("/reporters", form(&[("action", "disable"), ("protocol", "pyzor"), ("name", "bob")])),
        ("/whitelist", form(&[("action", "add"), ("sender", "evil.example")])),
        ("/peers", form(&[("action", "pause"), ("peer", "bruit.example.net")])),
        ("/peers", form(&[("action", "add"), ("peer", "evil.example"), ("key", OTHER_KEY), ("relation", "cluster")])),
        ("/peers", form(&[("action", "remove"), ("peer", "added.example")])),
    ]
}

/// Asserts that none of [`changes`] happened, or that all of them did.
fn assert_changed(server: &Server, expected: bool) {
    let mut visitor = Visitor::signed_in(server, &server.token());
    assert_eq!(visitor.get("/reporters").text.contains("mallory"), expected);
    assert_eq!(visitor.get("/whitelist").text.contains("evil.example"), expected);
    let of = |name: &str| account(server, name);
    assert_eq!(of("alice")["group"] != of("bob")["group"], expected);
    assert_eq!(of("alice")["standing"] == "pinned", expected);
    assert_eq!(of("bob")["enabled"] == false, expected);
    PyzorHome::of(server, "alice", KEY).run(&["ping"], b"", i32::from(expected));
    let is_peer = |name: &str| peers(server).contains(&name.to_owned());
    common::until("added and removed peers are listed", || {
        is_peer("evil.example") == expected && is_peer("added.example") != expected
    });
    let paused = || visitor.get("/peers").text.contains("Paused");
    if expected {
        common::until("the peer is paused", paused);
    } else {
        assert!(!paused());
    }
    let page = visitor.change("/explain", &[("signature", &format!("pyzor:{SIGNATURE}"))]).text;
    assert_eq!(page.contains("verdict spam"), expected, "{page}");
}

#[test]
fn no_change_is_made_without_the_rights_the_origin_and_the_form_of_an_open_session() {
    let folder = Folder::new();
    let server = Server::start(&folder, &format!("{ACCOUNTS}{READER}{PEER}"));
    administer(&server, &["peers", "add", "added.example", "--key", THIRD_KEY]);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let mut reader = Visitor::signed_in(&server, "a-token-for-the-help-desk");
    let mut left = Visitor::signed_in(&server, &server.token());
    let (token, readers, ended) =
        (visitor.get("/").form_token(), reader.get("/").form_token(), left.get("/").form_token());
    let cookie = left.cookie().unwrap().to_owned();
    assert_eq!(left.post("/sign-out", &[("form_token", &ended)]).status, 303);
    left.set_cookie(&cookie);
    for (path, fields) in changes() {
        let with = |token: &str| {
            let fields = fields.iter().map(|(name, value)| (*name, value.clone()));
            fields.chain([("form_token", token.to_owned())]).collect::<Vec<_>>()
        };
        fn pairs<'a>(fields: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
        }
        let good = with(&token);
        for origin in [None, Some("null"), Some("http://evil.example"), Some("http://127.0.0.1:1")] {
            assert_eq!(visitor.post_from(origin, path, &pairs(&good)).status, 403, "{path}: {origin:?}");
        }
        visitor.fields = vec![("host", "evil.example".to_owned())];
        assert_eq!(visitor.post(path, &pairs(&good)).status, 421, "{path}");
        visitor.fields = vec![("sec-fetch-site", "cross-site".to_owned())];
        assert_eq!(visitor.post(path, &pairs(&good)).status, 403, "{path}");
        visitor.fields.clear();
        assert_eq!(visitor.post(&format!("{path}?token=x"), &pairs(&good)).status, 400, "{path}");
        for wrong in [&fields, &with(""), &with(&readers)] {
            assert_eq!(
                visitor.post(path, &pairs(wrong)).status,
                403,
                "{path}: the form of nobody or of another session"
            );
        }
        assert_eq!(reader.post(path, &pairs(&with(&readers))).status, 403, "{path}: read-only");
        assert_eq!(Visitor::new(&server).post(path, &pairs(&good)).status, 401, "{path}: no session");
        assert_eq!(left.post(path, &pairs(&with(&ended))).status, 401, "{path}: replayed after signing out");
    }
    assert_changed(&server, false);
    for (path, fields) in changes() {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = visitor.change(path, &fields);
        assert!(matches!(page.status, 200 | 303), "{path}: {}", page.text);
    }
    assert_changed(&server, true);
    assert_eq!(visitor.change("/peers", &[("action", "resume"), ("peer", "bruit.example.net")]).status, 303);
    common::until("the peer is resumed", || !visitor.get("/peers").text.contains("Paused"));
}

#[test]
fn nobody_signs_in_through_a_proxy_without_tls_and_attempts_are_limited() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut proxied = Visitor::new(&server);
    proxied.fields.push(("x-forwarded-for", "192.0.2.7".to_owned()));
    let page = proxied.get("/sign-in");
    assert!(page.text.contains("encrypted connection") && !page.text.contains("<input"), "{}", page.text);
    assert_eq!(proxied.post("/sign-in", &[("token", &server.token())]).status, 403);
    let mut guesser = Visitor::new(&server);
    let statuses: Vec<u16> = (0..60).map(|_| guesser.post("/sign-in", &[("token", "guess")]).status).collect();
    assert!(statuses.contains(&429) && statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
}

#[test]
fn pages_forbid_scripts_frames_and_storage() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let visitor = Visitor::signed_in(&server, &server.token());
    for path in ["/", "/sign-in", "/explain", "/assets/style.css", "/no-such-page"] {
        let page = visitor.get(path);
        if path == "/no-such-page" {
            assert_eq!(page.status, 404);
            continue;
        }
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!((page.header("x-frame-options"), page.header("x-content-type-options")), ("DENY", "nosniff"));
        assert_eq!(page.header("cache-control"), if path.starts_with("/assets") { "max-age=300" } else { "no-store" });
        assert!(!page.text.contains("style=") && !page.text.contains("onclick"), "{path}");
    }
}

#[test]
fn text_from_outside_is_never_markup() {
    const MARKUP: &str = "<img src=x onerror=alert(1)>";
    let folder = Folder::new();
    let more = format!("[[http.tokens]]\nname = \"{MARKUP}\"\ntoken = \"a-token-with-a-name\"\nadmin = true\n");
    let server = Server::start(&folder, &more);
    let mut visitor = Visitor::signed_in(&server, "a-token-with-a-name");
    let name = "a\"><script>alert(1)</script>@example.org";
    let account =
        [("action", "save"), ("protocol", "razor"), ("name", name), ("secret", "correct horse battery staple")];
    let added = visitor.change("/reporters", &account);
    assert_eq!(added.status, 303, "{}", added.text);
    let group = [("action", "save"), ("protocol", "razor"), ("name", name), ("group", MARKUP), ("standing", "own")];
    let grouped = visitor.change("/reporters", &group);
    // A program of a mail site chooses its User-Agent. The list also shows the name of its token.
    let mut program = Visitor::new(&server);
    program.fields.push(("authorization", "Bearer a-token-with-a-name".to_owned()));
    program.fields.push(("bruit-site", "milter; spooled=1".to_owned()));
    program.fields.push(("user-agent", "bruit/<img/src=x/onerror=alert(1)>".to_owned()));
    assert_eq!(program.get("/v1/health").status, 204);
    let sites = visitor.get("/sites").text;
    assert!(sites.contains("version &lt;img/src=x") && sites.contains("&lt;img src=x onerror=alert(1)&gt;"), "{sites}");
    visitor.change("/whitelist", &[("action", "add"), ("sender", MARKUP)]);
    let mut pages: Vec<String> = VIEWS.iter().map(|view| visitor.get(view).text).collect();
    pages.push(grouped.text);
    pages.push(visitor.get(added.header("location")).text);
    pages.push(visitor.change("/explain", &[("signature", MARKUP)]).text);
    let message = format!("From: {MARKUP}@example.org\nSubject: {MARKUP}\n\n<p hidden>{MARKUP}</p>{MARKUP}\n");
    pages.push(visitor.change("/explain", &[("message", &message)]).text);
    pages.push(visitor.change("/whitelist", &[("action", MARKUP), ("sender", MARKUP)]).text);
    pages.push(visitor.get(&format!("/reporters?protocol={0}&name={0}", "%3Cimg%20src=x%3E")).text);
    pages.push(visitor.get("/sign-in?link=%22%3E%3Cimg%20src=x%3E").text);
    for page in pages {
        assert!(!page.contains("<img") && !page.contains("<script>"), "{page}");
    }
}

#[test]
fn a_message_is_explained_revoked_and_then_unknown_to_pyzor() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = PyzorHome::new(&server);
    let spam = fs::read(testdata(SPAM)).unwrap();
    home.run(&["report"], &spam, 0);
    home.check(&spam, true);
    let reported = bruit(&["report", "--server", &server.url(), testdata(SPAM).to_str().unwrap()]);
    assert!(reported.status.success(), "{reported:?}");
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let page = visitor.change("/explain", &[("message", &String::from_utf8_lossy(&spam))]).text;
    assert!(page.contains("verdict spam") && page.contains("The site's own users reported it."), "{page}");
    for text in [
        "1 of the site's own users reported it; last report <time",
        "<dt>Subject</dt><dd><bdi>Cheap widgets for everybody</bdi>",
        "<bdi>Dealer &lt;dealer@spam.example&gt;</bdi>",
        ">Report again</button>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("Report: it is spam"), "no correction: {page}");
    let field = |name: &str| {
        let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
        rest.split('"').next().unwrap().replace("&quot;", "\"").replace("&amp;", "&")
    };
    let (id, subject) = (field("id"), field("subject"));
    let fields = [("claim", "revoke"), ("id", id.as_str()), ("subject", subject.as_str())];
    let revoked = visitor.change("/explain/claim", &fields).text;
    assert!(revoked.contains("Revoked.") && revoked.contains("verdict ham"), "{revoked}");
    assert!(revoked.contains("Report: it is spam"), "{revoked}");
    let counts = api(&server, "/v1/stats")["requests"].as_array().unwrap().clone();
    let accepted = counts.iter().find(|one| one["protocol"] == "http" && one["answered"] == "accepted").unwrap();
    assert_eq!(accepted["count"], 2, "the report and the revocation");
    home.check(&spam, false);
    let again = visitor.change("/explain/claim", &fields).text;
    assert!(again.contains("It counts once."), "{again}");
}

#[test]
fn a_disabled_account_is_refused() {
    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let named = [("protocol", "pyzor"), ("name", "alice")];
    let saved = visitor.change("/reporters", &[&named[..], &[("action", "save"), ("secret", KEY)]].concat());
    assert_eq!(saved.status, 303, "{}", saved.text);
    let owner = PyzorHome::of(&server, "alice", KEY);
    owner.run(&["ping"], b"", 0);
    assert_eq!(visitor.change("/reporters", &[&named[..], &[("action", "disable")]].concat()).status, 303);
    assert!(visitor.get("/reporters").text.contains("disabled"));
    owner.run(&["ping"], b"", 1);
    assert_eq!(visitor.change("/reporters", &[&named[..], &[("action", "enable")]].concat()).status, 303);
    owner.run(&["ping"], b"", 0);
    assert_eq!(visitor.change("/reporters", &[&named[..], &[("action", "remove")]].concat()).status, 303);
    assert!(visitor.get("/reporters").text.contains("There are no accounts yet"));
}

#[test]
fn an_account_gets_a_new_password_a_new_group_and_a_new_standing() {
    let folder = Folder::new();
    let server = Server::start(&folder, ACCOUNTS);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let page = visitor.get("/reporters?protocol=pyzor&name=alice").text;
    for text in ["Set password", "Set standing", "Set group", "Precision over time", "Nothing in this period"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(visitor.get("/reporters").text.contains("href=\"/reporters?protocol=pyzor&amp;name=alice\""));
    let mut change = |field: (&str, &str)| {
        visitor.change("/reporters", &[("action", "change"), ("protocol", "pyzor"), ("name", "alice"), field])
    };
    assert_eq!(change(("secret", NEW_KEY)).header("location"), "/reporters?protocol=pyzor&name=alice");
    PyzorHome::of(&server, "alice", KEY).run(&["ping"], b"", 1);
    PyzorHome::of(&server, "alice", NEW_KEY).run(&["ping"], b"", 0);
    let shared = account(&server, "bob")["group"].clone();
    assert_eq!(account(&server, "alice")["group"], shared);
    assert_eq!(change(("group", "example.net")).status, 303);
    assert_ne!(account(&server, "alice")["group"], shared);
    assert_eq!(change(("group", "example.org")).status, 303);
    assert_eq!(account(&server, "alice")["group"], shared);
    assert_eq!(change(("standing", "trap")).status, 303);
    assert_eq!(account(&server, "alice")["standing"], "trap");
    for wrong in [("secret", "short"), ("secret", ""), ("group", " "), ("standing", "king")] {
        assert_eq!(change(wrong).status, 400, "{wrong:?}");
    }
    PyzorHome::of(&server, "alice", NEW_KEY).run(&["ping"], b"", 0);
    let nobody = [("action", "change"), ("protocol", "pyzor"), ("name", "carol"), ("secret", NEW_KEY)];
    assert_eq!(visitor.change("/reporters", &nobody).status, 404, "a change adds no account");
}

#[test]
fn the_precision_of_a_reporter_is_shown_by_the_day_and_outlives_sigkill() {
    let folder = Folder::new();
    let clock = FakeClock::new(&folder);
    let mut server = Server::start_by(&clock, &folder);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let alice = [("action", "save"), ("protocol", "pyzor"), ("name", "alice"), ("secret", KEY)];
    assert_eq!(visitor.change("/reporters", &alice).status, 303);
    let spam = fs::read(testdata(SPAM)).unwrap();
    PyzorHome::of(&server, "alice", KEY).run(&["report"], &spam, 0);
    PyzorHome::new(&server).run(&["report"], &spam, 0);
    let days = |server: &Server| {
        let history = api(server, "/v1/accounts/history?protocol=pyzor&name=alice");
        history["days"].as_array().unwrap().clone()
    };
    assert_eq!(days(&server).len(), 0, "no claim is settled");
    // Three days later, ten minutes before midnight.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let evening = 4 * DAY - now % DAY - 600;
    later(&server, &clock, evening);
    common::until("the claim is settled", || account(&server, "alice")["trust"]["confirmed"] == 1);
    // Records are read when a minute has ended.
    for (later, count) in [(120, 1), (900, 2)] {
        clock.set(evening + later);
        common::until("the day is recorded", || {
            days(&server).len() == count && days(&server)[count - 1]["confirmed"] == 1
        });
    }
    let before = days(&server);
    assert_eq!(before[1]["start"].as_u64().unwrap() - before[0]["start"].as_u64().unwrap(), DAY as u64);
    assert_eq!(before[1]["precision"].as_f64().unwrap() > 0.0, before[1]["weight"].as_f64().unwrap() > 0.0);
    common::until("both days are on disk", || {
        let file = fs::read(server.data().join("precision.bruit")).unwrap_or_default();
        file.chunks_exact(32).skip(1).filter(|cell| cell.iter().any(|byte| *byte != 0)).count() == 2
    });
    server.kill();
    let server = server.restart();
    assert_eq!(days(&server), before);
    let visitor = Visitor::signed_in(&server, &server.token());
    let list = visitor.get("/reporters").text;
    assert!(list.contains("aria-label=\"Precision in the last month: from "), "{list}");
    for range in ["month", "years"] {
        let page = visitor.get(&format!("/reporters?protocol=pyzor&name=alice&range={range}")).text;
        assert!(page.contains("role=\"img\" aria-label=\"Precision, last "), "{page}");
        assert!(page.contains("<caption>2 days."), "{page}");
    }
    let missing = "/v1/accounts/history?protocol=pyzor&name=nobody";
    let mut program = Visitor::new(&server);
    assert_eq!(program.get(missing).status, 403, "an address in an own network is no administrator");
    program.fields.push(("authorization", format!("Bearer {}", server.token())));
    assert_eq!(program.get(missing).status, 404);
}

#[test]
fn an_explanation_names_the_reporters_to_administrators_only() {
    let folder = Folder::new();
    let server = Server::start(&folder, &format!("{ACCOUNTS}{READER}"));
    let spam = fs::read(testdata(SPAM)).unwrap();
    PyzorHome::of(&server, "alice", KEY).run(&["report"], &spam, 0);
    PyzorHome::new(&server).run(&["report"], &spam, 0);
    let message = String::from_utf8_lossy(&spam).into_owned();
    let explained = |token: &str| Visitor::signed_in(&server, token).change("/explain", &[("message", &message)]).text;
    let page = explained(&server.token());
    for text in [
        " by:",
        "<a class=\"break\" href=\"/reporters?protocol=pyzor&amp;name=alice\">alice</a> (pyzor account): report, weight ",
        "a program in an own network, without an account: report, weight ",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let shown = explained("a-token-for-the-help-desk");
    assert!(shown.contains("2 independent groups reported it") || shown.contains("own users reported it"), "{shown}");
    assert!(!shown.contains("alice") && !shown.contains("(pyzor account)"), "{shown}");
}

#[test]
fn peers_are_added_and_removed_on_the_page() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, READER);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let page = visitor.get("/peers").text;
    assert!(page.contains("name=\"relation\"") && page.contains("Set one in the configuration"), "{page}");
    let reader = Visitor::signed_in(&server, "a-token-for-the-help-desk").get("/peers").text;
    assert!(!reader.contains("name=\"relation\""), "a reader cannot add one: {reader}");
    let own = api(&server, "/v1/peers")["key"].as_str().unwrap().to_owned();
    let fields = |name: &'static str, url: &'static str, key: &str| {
        let relation = ("relation", "peer".to_owned());
        vec![
            ("action", "add".to_owned()),
            ("peer", name.to_owned()),
            ("url", url.to_owned()),
            ("key", key.to_owned()),
            relation,
        ]
    };
    let add = |visitor: &mut Visitor, fields: Vec<(&'static str, String)>| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        visitor.change("/peers", &fields)
    };
    const URL: &str = "https://127.0.0.1:1";
    for (status, form) in [
        (400, fields("a b", URL, OTHER_KEY)),
        (400, fields("", URL, OTHER_KEY)),
        (400, fields("a", URL, "abc")),
        (400, fields("a", "bruit.example.org", OTHER_KEY)),
        (400, fields("a", "https://x/\"\n[[peers]]", OTHER_KEY)),
        (409, fields("a", URL, &own)),
        (303, fields("bruit.example.net", URL, OTHER_KEY)),
        (409, fields("bruit.example.net", URL, THIRD_KEY)),
        (409, fields("other", URL, OTHER_KEY)),
    ] {
        let page = add(&mut visitor, form.clone());
        assert_eq!(page.status, status, "{form:?}: {}", page.text);
    }
    common::until("the peer is asked at once", || {
        let page = visitor.get("/peers").text;
        page.contains("Unreachable") && page.contains("aria-label=\"Remove: bruit.example.net\"")
    });
    assert!(server.said().contains("peer.add"), "changes are in the audit trail: {}", server.said());
    server.kill();
    let server = server.restart();
    common::until("the peer is there after a kill", || peers(&server) == ["bruit.example.net"]);
    let mut visitor = Visitor::signed_in(&server, &server.token());
    let remove = [("action", "remove"), ("peer", "bruit.example.net")];
    assert_eq!(visitor.change("/peers", &remove).status, 303);
    common::until("the peer is gone", || peers(&server).is_empty());
    assert_eq!(visitor.change("/peers", &remove).status, 409);
    assert!(server.said().contains("peer.remove"), "{}", server.said());
}

#[test]
fn the_dashboard_can_be_turned_off_or_moved() {
    let folder = Folder::new();
    let off = Server::start(&folder, "[dashboard]\nenabled = false\n");
    assert!(!off.greeting.contains("sign-in"), "{}", off.greeting);
    assert_eq!(Visitor::new(&off).get("/sign-in").status, 404);
    drop(off);
    let other = Folder::new();
    let moved = Server::start(&other, "[dashboard]\nlisten = \"127.0.0.1:0\"\n");
    assert_eq!(Visitor::new(&moved).get("/sign-in").status, 404);
    let own = Visitor::at(format!("http://{}", moved.address("dashboard")));
    assert_eq!((own.get("/sign-in").status, own.get("/v1/health").status), (200, 404));
    assert!(moved.greeting.contains(&format!("http://{}/sign-in?link=", moved.address("dashboard"))));
}

#[test]
fn the_history_outlives_sigkill() {
    let folder = Folder::new();
    let clock = FakeClock::new(&folder);
    let mut server = Server::start_by(&clock, &folder);
    let home = PyzorHome::new(&server);
    home.check(b"From: a@b.example\n\nGenuine watches at wholesale prices\n", false);
    let unknown = |server: &Server| {
        let answer = history(server);
        let slots = answer["slots"].as_array().unwrap().clone();
        let counts = slots.iter().flat_map(|slot| slot["requests"].as_array().unwrap().clone());
        let of_pyzor = counts.filter(|count| count["protocol"] == "pyzor" && count["answered"] == "unknown");
        of_pyzor.map(|count| count["count"].as_u64().unwrap()).sum::<u64>()
    };
    common::until("the check is in the history", || unknown(&server) == 1);
    // The file is written when a minute has ended, so the clock is set two minutes ahead.
    clock.set(120);
    common::until("the minute is on disk", || pyzor_checks_on_disk(&server) == 1);
    server.kill();
    let mut server = server.restart();
    assert_eq!(unknown(&server), 1);
    assert!(server.terminate().success());
    let server = server.restart();
    assert_eq!(unknown(&server), 1);
}

#[test]
fn the_response_time_does_not_contain_the_time_for_which_replicas_wait() {
    const LONG_WAIT: Duration = Duration::from_secs(2);
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut replica = Visitor::new(&server);
    replica.fields.push(("authorization", format!("Bearer {}", server.token())));
    let mut tag = String::new();
    let begun = Instant::now();
    loop {
        // The server signs a new offer every 2.5 seconds, or earlier if something changes.
        let asked = Instant::now();
        let offer = replica.get(&format!("/v1/federation/offer?seen={tag}&wait=10"));
        assert_eq!(offer.status, 200, "{}", offer.text);
        if !tag.is_empty() && asked.elapsed() >= LONG_WAIT {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no offer was waited for");
        tag = offer.header("etag").trim_matches('"').to_owned();
    }
    // The history contains all offers once it contains this later request.
    assert_eq!(Visitor::new(&server).get("/v1/stats").status, 403);
    let recorded = Instant::now();
    while !history(&server)["slots"].as_array().unwrap().iter().any(has_refusal) {
        assert!(recorded.elapsed() < Duration::from_secs(60), "{}", history(&server));
        // Poll slowly: after a hundred requests, the 99th percentile would not show the slowest one.
        thread::sleep(Duration::from_millis(500));
    }
    let history = history(&server);
    let slowest = history["slots"].as_array().unwrap().iter().filter_map(|slot| slot["p99_micros"].as_u64()).max();
    assert!(slowest.unwrap() < LONG_WAIT.as_micros() as u64, "{history}");
}

#[test]
fn mail_sites_are_listed_and_strangers_are_not() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let visitor = Visitor::signed_in(&server, &server.token());
    assert!(visitor.get("/sites").text.contains("No mail site was seen since the server started"));
    let mut stranger = Visitor::new(&server);
    stranger.fields = vec![("bruit-site", "milter".to_owned()), ("x-forwarded-for", "192.0.2.7".to_owned())];
    assert_eq!(stranger.get("/v1/health").status, 204);
    stranger.fields = vec![("bruit-site", "<b>".to_owned())];
    assert_eq!(stranger.get("/v1/health").status, 204, "a malformed field is ignored");
    assert_eq!(api(&server, "/v1/sites"), serde_json::json!({"sites": [], "dropped": 0}));

    let milter = Milter::start(&server.url(), "");
    milter.field(&["you@test.example"], b"From: a@b.example\nSubject: x\n\nGenuine watches at wholesale prices\n");
    let maildir = folder.path("Maildir");
    ["cur", "new", "tmp"].iter().for_each(|part| fs::create_dir_all(maildir.join(part)).unwrap());
    let (spool, state) = (folder.path("spool"), folder.path("state"));
    let paths = [&spool, &state, &maildir].map(|path| path.to_str().unwrap());
    let watch = ["watch", "--once", "--server", &server.url(), "--spool", paths[0], "--state", paths[1], paths[2]];
    assert!(bruit(&watch).status.success());
    let replica = folder.path("replica");
    administer(
        &server,
        &["replica", "--from", &server.url(), "--data", replica.to_str().unwrap(), "--capacity", "100k", "--once"],
    );

    let list = api(&server, "/v1/sites");
    let mut programs: Vec<_> =
        list["sites"].as_array().unwrap().iter().map(|site| site["program"].as_str().unwrap()).collect();
    programs.sort_unstable();
    assert_eq!(programs, ["milter", "replica", "watch"]);
    let of = |program: &str| list["sites"].as_array().unwrap().iter().find(|site| site["program"] == program).unwrap();
    assert_eq!((&of("milter")["unchecked"], &of("watch")["spooled"]), (&0.into(), &0.into()));
    assert_eq!(
        (&of("milter")["version"], &of("milter")["address"]),
        (&env!("CARGO_PKG_VERSION").into(), &"127.0.0.1".into())
    );
    let page = visitor.get("/sites").text;
    for text in ["Milter", "Watcher of Maildirs", "Replica", "no token, own network"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let metrics = common::wire::metrics(&server);
    assert!(metrics.contains("bruit_mail_sites{program=\"milter\"} 1"), "{metrics}");
}

#[test]
fn the_program_prints_links_for_administrators() {
    let folder = Folder::new();
    let socket = folder.path("http.sock");
    let more = format!(
        "{READER}[http]\nlisten = \"127.0.0.1:0\"\nsocket = {{ path = {socket:?} }}\n[dashboard]\nlisten = \"127.0.0.1:0\"\n"
    );
    let server = Server::start(&folder, &more);
    let base = format!("http://{}", server.address("dashboard"));
    let by_token = administer(&server, &["dashboard", "link"]);
    let by_socket = bruit(&["dashboard", "link", "--socket", socket.to_str().unwrap()]);
    assert!(by_socket.status.success(), "{by_socket:?}");
    for printed in [by_token, String::from_utf8(by_socket.stdout).unwrap()] {
        let secret =
            printed.trim().strip_prefix(&format!("{base}/sign-in?link=")).unwrap_or_else(|| panic!("{printed}"));
        let mut visitor = Visitor::at(base.clone());
        assert_eq!(visitor.post("/sign-in", &[("link", secret)]).status, 303);
        assert!(visitor.get("/").text.contains("Administrator"));
        assert_eq!(Visitor::at(base.clone()).post("/sign-in", &[("link", secret)]).status, 403, "a link works once");
    }
    assert!(server.said().contains("dashboard.link"), "links are in the audit trail: {}", server.said());
    folder.write("token", "a-token-for-the-help-desk");
    let token = folder.path("token");
    let line = refused(&["dashboard", "link", "--server", &server.url(), "--token-file", token.to_str().unwrap()]);
    assert!(line.contains("an administrator's token"), "{line}");
    let line = refused(&["dashboard", "link", "--socket", folder.path("none").to_str().unwrap()]);
    assert!(line.contains("No such file"), "{line}");
    drop(server);

    let off = Folder::new();
    let server = Server::start(&off, "[dashboard]\nenabled = false\n");
    off.write("token", server.token());
    let token = off.path("token");
    let line = refused(&["dashboard", "link", "--server", &server.url(), "--token-file", token.to_str().unwrap()]);
    assert!(line.contains("turned off"), "{line}");
}

/// Returns the entry of a Pyzor account.
fn account(server: &Server, name: &str) -> serde_json::Value {
    api(server, &format!("/v1/accounts?protocol=pyzor&name={name}"))["accounts"][0].clone()
}

/// Returns the names of the peers.
fn peers(server: &Server) -> Vec<String> {
    let list = api(server, "/v1/peers")["peers"].as_array().unwrap().clone();
    list.iter().map(|peer| peer["name"].as_str().unwrap().to_owned()).collect()
}

/// Sets the server's clock ahead, and has the server accept it.
fn later(server: &Server, clock: &FakeClock, ahead_seconds: i64) {
    clock.set(ahead_seconds);
    let client = bruit_client::Client::new(&server.url(), Some(&server.token()), Duration::from_secs(60)).unwrap();
    client.accept_clock().unwrap();
}

/// Returns the history of the last day.
fn history(server: &Server) -> serde_json::Value {
    api(server, "/v1/history?span=day")
}

/// Returns true if the API refused a request during this slot of the history.
fn has_refusal(slot: &serde_json::Value) -> bool {
    let counts = slot["requests"].as_array().unwrap();
    counts.iter().any(|count| count["protocol"] == "http" && count["answered"] == "refused")
}
