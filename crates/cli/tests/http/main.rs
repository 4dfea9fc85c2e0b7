//! The HTTP interface of a running server, used by our own verbs and by requests written by hand.

#[path = "../common/mod.rs"]
mod common;
mod counting;
mod raw;

use std::process::{Command, Output};

use common::{Folder, Server, bank, output_of};
use raw::{Connection, request};
use serde_json::{Value, json};

const SPAM: &str = "From: Ann <ann@example.org>\nSubject: watches\n\nGenuine watches at wholesale prices, delivered within seven \
    days to every country. Order three and the fourth comes without any charge, in a box of walnut wood.\n";
const REPLICA: &str = "From: Bob <bob@example.net>\nSubject: for you\n\nDear Carol,\nGenuine watches at wholesale prices, delivered \
    within seven days to every country. Order three and the fourth comes without any charge, in a box of walnut \
    wood. Yours, 8263\n";
const OTHER: &str = "From: Dan <dan@example.org>\nSubject: minutes\n\nHere are the minutes of our meeting about the bridge, with the \
    decisions on paint, railings and lamps that we took on Tuesday.\n";

/// Runs `bruit` with the arguments in `words`, separated by spaces.
fn run(server: &Server, words: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(words.split_whitespace()).env("BRUIT_SERVER", server.url()).env_remove("BRUIT_TOKEN");
    command.env("BRUIT_DATA", server.data());
    output_of(&mut command, input.as_bytes())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn expect(server: &Server, words: &str, input: &str, code: i32) -> String {
    let output = run(server, words, input);
    assert_eq!(output.status.code(), Some(code), "{words}: {output:?}\n{}", server.said());
    text(&output.stdout).to_owned()
}

fn json_of(server: &Server, words: &str, input: &str) -> Value {
    serde_json::from_slice(&run(server, words, input).stdout).unwrap()
}

/// Returns the header field with the administrator's token.
fn authorization(server: &Server) -> (&'static str, String) {
    ("Authorization", format!("Bearer {}", server.token()))
}

#[test]
fn what_is_reported_is_spam_until_it_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "check", SPAM, 1);
    let reported = expect(&server, "report", SPAM, 0);
    assert_eq!(reported, "reported: 4 signatures accepted, 4 listed\n", "exact, pyzor, razor_e4 and the text");
    assert_eq!(expect(&server, "check", SPAM, 0), "spam, confidence 80: the site's own users reported it\n");
    expect(&server, "check", OTHER, 1);
    let revoked = expect(&server, "revoke", SPAM, 0);
    assert_eq!(revoked, "revoked: 4 signatures accepted, 4 delisted\n");
    assert_eq!(expect(&server, "check", SPAM, 1), "ham: it was revoked\n");
}

#[test]
fn a_replica_is_known_by_its_text_and_reported_under_its_name() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    let checked = json_of(&server, "check --json", REPLICA);
    let verdicts: Vec<(&str, &str)> = checked["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["scheme"].as_str().unwrap(), found["verdict"].as_str().unwrap()))
        .collect();
    assert!(verdicts.contains(&("bruit", "spam")) && verdicts.contains(&("exact", "unknown")), "{verdicts:?}");
    assert_eq!(checked["verdict"], "spam");
    let tables = |server: &Server| {
        let stats = json_of(server, "stats --json", "");
        let tables = stats["tables"].as_array().unwrap().clone();
        tables.iter().find(|table| table["name"] == "texts").unwrap()["used"].as_u64().unwrap()
    };
    assert_eq!(tables(&server), 1);
    expect(&server, "report", REPLICA, 0);
    assert_eq!(tables(&server), 1, "a near replica adds no second text");
    expect(&server, "revoke", REPLICA, 0);
    let replica = json_of(&server, "check --json", SPAM)["signatures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&replica["scheme"], &replica["verdict"]),
        (&json!("bruit"), &json!("unknown")),
        "none of its words count any more"
    );
}

/// Returns a bank's letter that mentions these purchases.
fn letter(purchases: &str) -> String {
    format!(
        "From: Savings Bank <bank@example.org>\nSubject: your statement\n\nDear customer, please find below a summary of your \
         account movements for the last quarter, together with notes on interest, charges and standing orders. Our branches \
         are open on weekdays from nine until four, and our telephone advisers answer questions about mortgages, pensions \
         and insurance. This quarter you bought {purchases}.\n"
    )
}

#[test]
fn good_mail_that_was_taught_is_no_spam_when_spam_copies_it() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let taught = json_of(&server, "learn --json", &letter("apples, two garden chairs and a raincoat"));
    assert!(taught["learnt"].as_u64().unwrap() > 20 && taught["file"] == "standard input", "{taught}");
    expect(&server, "learn", &letter("a bicycle pump, candles and printer paper"), 0);
    let phish = format!(
        "{}Confirm your password within twelve hours, or access remains suspended for ever.\n",
        letter("tickets to the opera and a new kettle")
    );
    expect(&server, "report", &phish, 0);
    expect(&server, "check", &phish, 0);
    let checked = json_of(&server, "check --json", &letter("walking boots, a tent and rye flour"));
    assert_eq!((&checked["verdict"], &checked["reason"]), (&json!("unknown"), &json!("not_reported")), "{checked}");
    assert_eq!(
        expect(&server, "learn", "Subject: none\n\n", 0),
        "no text learned: the message is empty, or only quotes or forwards another message\n"
    );
}

#[test]
fn only_own_users_teach_good_mail() {
    let folder = Folder::new();
    let (own, account) = ("token-of-our-own-user", "token-of-an-account-holder");
    let tokens = format!(
        "[[http.tokens]]\nname = \"own\"\ntoken = \"{own}\"\nstanding = \"own\"\n\
         [[http.tokens]]\nname = \"account\"\ntoken = \"{account}\"\n[http.rights]\nrevoke = \"anyone\"\n"
    );
    let server = Server::start(&folder, &tokens);
    let teach = |token: Option<&str>| {
        let shown = token.map(|token| format!("Bearer {token}"));
        // A client of an untrusted proxy is a stranger, regardless of the proxy's address.
        let mut fields = vec![("Content-Type", "message/rfc822"), ("X-Forwarded-For", "192.0.2.1")];
        fields.extend(shown.as_deref().map(|shown| ("Authorization", shown)));
        Connection::to(&server).ask(&request("POST", "/v1/learn", &fields, SPAM.as_bytes()))
    };
    for stranger in [None, Some(account)] {
        let refused = teach(stranger);
        assert_eq!(refused.status, 403, "{stranger:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("own users"), "{stranger:?}");
    }
    let taught = teach(Some(own));
    assert_eq!(taught.status, 200);
    assert!(taught.json()["learnt"].as_u64().unwrap() > 20 && taught.json().get("reason").is_none());
}

#[test]
fn checks_teach_only_if_the_operator_allows_it_and_nothing_speaks_against_the_message() {
    let noted = |server: &Server| -> u64 {
        let (name, token) = authorization(server);
        let metrics = Connection::to(server).ask(&request("GET", "/metrics", &[(name, &token)], b""));
        let line = text(&metrics.body).lines().find_map(|line| {
            line.strip_prefix("bruit_learning_messages_total{became=\"noted\"} ").map(|count| count.parse().unwrap())
        });
        line.unwrap_or_else(|| panic!("{}", text(&metrics.body)))
    };
    for (config, expected) in [("", 0_u64), ("[learning]\nchecks = true\n", 1)] {
        let folder = Folder::new();
        let server = Server::start(&folder, config);
        expect(&server, "report", SPAM, 0);
        expect(&server, "check", SPAM, 0);
        expect(&server, "check --scheme bruit", REPLICA, 0);
        expect(&server, "check", OTHER, 1);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while noted(&server) < expected && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(noted(&server), expected, "{config:?}");
    }
}

#[test]
fn everything_is_known_after_the_server_was_killed_or_stopped() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    server.kill();
    let mut server = server.restart();
    expect(&server, "check", SPAM, 0);
    expect(&server, "report", OTHER, 0);
    assert!(server.terminate().success());
    let server = server.restart();
    expect(&server, "check", REPLICA, 0);
    expect(&server, "check", OTHER, 0);
}

#[test]
fn a_raw_message_is_signed_by_the_server_as_by_the_client() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    let claimed =
        connection.ask(&request("POST", "/v1/report", &[("Content-Type", "message/rfc822")], SPAM.as_bytes()));
    assert_eq!((claimed.status, &claimed.json()["accepted"]), (200, &json!(4)));
    for media in ["message/rfc822", "text/plain; charset=utf-8", "application/octet-stream"] {
        let checked = connection.ask(&request("POST", "/v1/check", &[("Content-Type", media)], SPAM.as_bytes()));
        let by_client = json_of(&server, "check --json", SPAM);
        assert_eq!(checked.json()["signatures"], by_client["signatures"], "{media}");
        assert_eq!(checked.json()["verdict"], "spam");
    }
}

#[test]
fn senders_on_the_whitelist_send_no_spam() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    expect(&server, "whitelist add --sender ANN@example.org", "", 0);
    expect(&server, "whitelist add --sender ann@example.org", "", 0);
    assert_eq!(expect(&server, "check", SPAM, 1), "ham: its sender is whitelisted\n");
    expect(&server, "check --no-sender", SPAM, 0);
    expect(&server, "check --sender eve@example.com", SPAM, 0);
    server.kill();
    let server = server.restart();
    assert_eq!(expect(&server, "whitelist list", "", 0), "ann@example.org\nsenders 1, signatures 0\n");
    expect(&server, "whitelist remove --sender ann@example.org", "", 0);
    expect(&server, "whitelist remove --sender ann@example.org", "", 1);
    expect(&server, "check", SPAM, 0);
    assert!(
        text(&run(&server, "whitelist add --sender @", "").stderr).contains("example.org"),
        "the error shows an example of a pattern"
    );
}

#[test]
fn signatures_on_the_whitelist_are_not_claimed() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let signed = json_of(&server, "sign --json --scheme exact", SPAM);
    let exact = signed["signatures"][0]["signature"].as_str().unwrap();
    expect(&server, &format!("whitelist add --scheme exact --value {exact}"), "", 0);
    assert_eq!(expect(&server, "report", SPAM, 0), "reported: 3 signatures accepted, 3 listed, 1 whitelisted\n");
    let output = run(&server, "report --scheme exact", SPAM);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("all signatures of the message are whitelisted"), "{output:?}");
}

/// After a report of a phish with the bank's logo and footer, the bank's own mail with both is still not spam. The
/// explanation names the parts that did not count.
#[test]
fn the_bank_whose_logo_was_copied_is_no_spam() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mail = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (phish, other, genuine) =
        (mail(bank::phish("Ann Baker")), mail(bank::phish("Victor Olsen")), mail(bank::genuine()));
    expect(&server, "report", &phish, 0);
    let checked = json_of(&server, "check --json", &other);
    assert_eq!(checked["verdict"], "spam", "{checked}");
    // The footer, which the report did not claim, is the other half of the message.
    assert!((40..70).contains(&checked["coverage"].as_u64().unwrap()), "{checked}");
    expect(&server, "check", &genuine, 1);
    // Even an explicit report of only the logo and the footer does not make the bank's mail spam.
    expect(&server, "report --scheme attachment,razor_e4", &phish, 0);
    let explained = json_of(&server, "explain --json", &genuine);
    assert_eq!((&explained["verdict"], &explained["reason"]), (&json!("unknown"), &json!("suspected")), "{explained}");
    let limits: Vec<&str> =
        explained["signatures"].as_array().unwrap().iter().filter_map(|one| one["limit"].as_str()).collect();
    assert_eq!(limits, ["picture", "one_part", "one_part"], "{explained}");
    assert!(explained["confidence"].as_u64().unwrap() <= 60);
    let text = expect(&server, "explain", &genuine, 0);
    assert!(text.contains("did not count: pictures are copied from good mail"), "{text}");
}

#[test]
fn what_is_everybodys_is_not_claimed() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let output = run(&server, "report", "Subject: x\n\nPlease see attachment.\n");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output.stderr).contains("no claim was made: nothing distinguishes the message from good mail"),
        "{output:?}"
    );
    let reported = json_of(&server, "report --json", "Subject: x\n\nPlease see attachment.\n");
    assert_eq!((&reported["accepted"], &reported["listed"]), (&json!(0), &json!(0)));
    expect(&server, "check", "Subject: y\n\nPlease see attachment.\n", 1);
}

#[test]
fn an_explanation_says_why() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    let text = expect(&server, "explain", SPAM, 0);
    for line in [
        "spam, confidence 80: the site's own users reported it",
        "  the sender is not whitelisted",
        "    listed in generations 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
    }
    let explained = json_of(&server, "explain --json", SPAM);
    let exact = &explained["signatures"][0];
    assert_eq!((&exact["scheme"], &exact["evidence"]["own_reports"]), (&json!("exact"), &json!(1)));
    assert!(exact["first_seen"].as_u64().unwrap() > 1_700_000_000);
    let replica = explained["signatures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&replica["scheme"], &replica["listed"]), (&json!("bruit"), &json!([0])));
}

#[test]
fn statistics_tell_requests_and_fill() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    expect(&server, "check", SPAM, 0);
    let stats = json_of(&server, "stats --json", "");
    let count = |answered: &str| {
        let counts = stats["requests"].as_array().unwrap().iter();
        counts
            .filter(|count| count["protocol"] == "http" && count["answered"] == answered)
            .map(|count| count["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!((count("accepted"), count("spam")), (1, 1));
    assert!(stats["store"]["sequence"].as_u64().unwrap() > 0);
    let text = expect(&server, "stats", "", 0);
    assert!(text.contains("listed signatures") && text.contains("nursery"), "{text}");
    let (name, token) = authorization(&server);
    let metrics = Connection::to(&server).ask(&request("GET", "/metrics", &[(name, &token)], b""));
    let head = metrics.head.to_lowercase();
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let body = String::from_utf8(metrics.body).unwrap();
    assert!(body.contains(r#"bruit_requests_total{protocol="http",answered="accepted"} 1"#), "{body}");
}

#[test]
fn accounts_are_registered_changed_and_removed() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    connection.authorize(&server.token());
    let (name, token) = authorization(&server);
    let new =
        json!({ "protocol": "razor", "name": "ann@example.org", "secret": "tin whistle 77", "standing": "pinned" });
    let with = |key: &str, value: Value| {
        let mut named = json!({ "protocol": "razor", "name": "ann@example.org" });
        named[key] = value;
        named
    };
    let named = json!({ "protocol": "razor", "name": "ann@example.org" });
    assert_eq!(connection.send("POST", "/v1/accounts", &new).status, 200);
    assert_eq!(connection.send("POST", "/v1/accounts", &new).status, 409, "the name is taken");
    assert_eq!(connection.send("PATCH", "/v1/accounts", &with("enabled", json!(false))).status, 200);
    assert_eq!(connection.send("PATCH", "/v1/accounts", &with("standing", json!("own"))).status, 200);
    assert_eq!(connection.send("PATCH", "/v1/accounts", &with("secret", json!("brass whistle 8"))).status, 200);
    let page = connection.ask(&request("GET", "/v1/accounts", &[(name, &token)], b"")).json();
    assert_eq!((&page["total"], &page["next_offset"]), (&json!(1), &Value::Null));
    let found = &page["accounts"][0];
    assert_eq!(
        (&found["name"], &found["standing"], &found["enabled"], &found["registered_by"]),
        (&json!("ann@example.org"), &json!("own"), &json!(false), &json!("operator"))
    );
    let one =
        connection.ask(&request("GET", "/v1/accounts?protocol=razor&name=ann%40example.org", &[(name, &token)], b""));
    assert_eq!(one.json()["accounts"][0], *found);
    for (query, status) in [("protocol=razor&name=bob", 404), ("protocol=razor", 400), ("protocol=smtp&name=a", 400)] {
        let path = format!("/v1/accounts?{query}");
        assert_eq!(connection.ask(&request("GET", &path, &[(name, &token)], b"")).status, status, "{query}");
    }
    for wrong in
        [&named, &with("secret", json!("123")), &with("standing", json!("king")), &with("colour", json!("red"))]
    {
        assert_eq!(connection.send("PATCH", "/v1/accounts", wrong).status, 400, "{wrong}");
    }
    assert_eq!(connection.send("DELETE", "/v1/accounts", &with("enabled", json!(true))).status, 400);
    assert_eq!(connection.send("DELETE", "/v1/accounts", &named).status, 200);
    assert_eq!(connection.send("DELETE", "/v1/accounts", &named).status, 404);
    assert_eq!(connection.send("PATCH", "/v1/accounts", &with("enabled", json!(true))).status, 404);
    for wrong in [
        json!({ "protocol": "smtp", "name": "a", "secret": "tin whistle 77" }),
        json!({ "protocol": "fuzzy", "name": "a", "secret": "00" }),
        json!({ "protocol": "razor", "name": "a", "secret": "123" }),
        json!({ "protocol": "razor", "name": "a", "secret": "tin whistle 77", "standing": "king" }),
        json!({ "protocol": "razor", "name": "a", "secret": "tin whistle 77", "colour": "red" }),
    ] {
        assert_eq!(connection.send("POST", "/v1/accounts", &wrong).status, 400, "{wrong}");
    }
}

#[test]
fn accounts_are_managed_by_our_own_verb() {
    let folder = Folder::new();
    folder.write("secret", "tin whistle 77\nanother line");
    let server = Server::start(&folder, "");
    let add = format!(
        "accounts add razor ann@example.org --standing pinned --secret-file {}",
        folder.path("secret").display()
    );
    assert_eq!(expect(&server, &add, "", 0), "added\n");
    assert_eq!(expect(&server, "accounts add dcc 32768", "tin-whistle-77\n", 0), "added\n", "from standard input");
    expect(&server, "accounts add dcc 32769", "", 2);
    expect(&server, &add, "", 2);
    assert_eq!(expect(&server, "accounts disable razor ann@example.org", "", 0), "disabled\n");
    let ann = json_of(&server, "accounts show razor ann@example.org --json", "");
    assert_eq!(
        (&ann["standing"], &ann["enabled"], &ann["registered_by"], &ann["last_used"], &ann["trust"]),
        (&json!("pinned"), &json!(false), &json!("operator"), &Value::Null, &Value::Null)
    );
    assert_eq!(expect(&server, "accounts enable razor ann@example.org", "", 0), "enabled\n");
    assert_eq!(expect(&server, "accounts password razor ann@example.org", "brass whistle 8", 0), "password changed\n");
    expect(&server, "accounts password razor ann@example.org", "123", 2);
    let shown = expect(&server, "accounts show razor ann@example.org", "", 0);
    for line in ["standing      pinned", "enabled       yes", "registered by operator", "weight        -"] {
        assert!(shown.lines().any(|found| found == line), "{line:?} in\n{shown}");
    }
    let listed = expect(&server, "accounts list", "", 0);
    assert!(listed.contains("ann@example.org") && listed.ends_with("2 accounts\n"), "{listed}");
    assert_eq!(json_of(&server, "accounts list --json", "")["accounts"].as_array().unwrap().len(), 2);
    assert_eq!(expect(&server, "accounts remove razor ann@example.org", "", 0), "removed\n");
    for words in ["remove", "enable", "disable", "show"] {
        assert_eq!(expect(&server, &format!("accounts {words} razor ann@example.org"), "", 1), "no such account\n");
    }
}

/// A configuration with a token for a mail gateway that reports for the users of a site. A listing requires two users.
const GATEWAY: &str = "[trust]\nown_reports_needed = 2\n[http]\nlisten = \"127.0.0.1:0\"\n\
    [[http.tokens]]\nname = \"gateway\"\ntoken = \"the-token-of-the-gateway\"\nstanding = \"own\"\nreporters = true\n\
    [[http.tokens]]\nname = \"plain\"\ntoken = \"a-token-of-some-length\"\nstanding = \"own\"\n";

#[test]
fn a_sites_users_are_people_behind_one_token() {
    let folder = Folder::new();
    folder.write("token", "the-token-of-the-gateway");
    let server = Server::start(&folder, GATEWAY);
    let mut connection = Connection::to(&server);
    let mut claim = |path: &str, token: &str, person: &str, digest: usize| {
        let bearer = format!("Bearer {token}");
        let fields = [("Content-Type", "application/json"), ("Authorization", &*bearer), ("Bruit-Reporter", person)];
        let body = json!({ "signatures": [{ "scheme": "pyzor", "value": format!("{digest:040x}") }] }).to_string();
        let answer = connection.ask(&request("POST", path, &fields, body.as_bytes()));
        (answer.status, answer.json()["listed"].as_u64().unwrap_or_default())
    };
    let gateway = "the-token-of-the-gateway";
    // Each of 500 users reports a different signature. Then a liar reports one more signature repeatedly.
    for user in 0..500 {
        assert_eq!(
            claim("/v1/report", gateway, &format!("user{user}@example.org"), user),
            (200, 0),
            "one user is not enough"
        );
    }
    for _ in 0..20 {
        assert_eq!(claim("/v1/report", gateway, "liar@example.org", 1_000), (200, 0));
        assert_eq!(
            claim("/v1/report", gateway, "LIAR@example.org", 1_000),
            (200, 0),
            "the same name in capitals is the same person"
        );
    }
    let honest = ["ann", "bob", "carol"].map(|person| claim("/v1/report", gateway, person, 2_000));
    assert_eq!(honest, [(200, 0), (200, 1), (200, 0)], "the second of three people lists it, once");
    assert_eq!(claim("/v1/report", "a-token-of-some-length", "ann", 3_000), (403, 0));
    assert_eq!(claim("/v1/report", gateway, &"x".repeat(256), 3_000), (200, 0));
    assert_eq!(claim("/v1/report", gateway, &"x".repeat(257), 3_000), (400, 0));
    assert_eq!(claim("/v1/revoke", gateway, "ann", 2_000).0, 200);
    let file = folder.path("token").display().to_string();
    let report = |person: &str| format!("report --token-file {file} --reporter {person}");
    assert!(expect(&server, &report("dan"), SPAM, 0).contains(", 0 listed"));
    assert!(expect(&server, &report("dan"), SPAM, 0).contains(", 0 listed"));
    assert!(expect(&server, &report("eve"), SPAM, 0).contains(", 4 listed"));
    let stranger = run(&server, "report --reporter dan", SPAM);
    assert_eq!(stranger.status.code(), Some(2));
}

#[test]
fn the_policy_in_force_is_told() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[trust]\nown_reports_needed = 2\nsettle_after = \"1d\"\n");
    let policy = json_of(&server, "stats --json", "")["trust"].clone();
    assert_eq!(
        (&policy["own_reports_needed"], &policy["settle_after_seconds"], &policy["block_score"]),
        (&json!(2), &json!(86_400), &json!(6.0))
    );
    let text = expect(&server, "stats", "", 0);
    assert!(text.lines().any(|line| line.split_whitespace().eq(["own_reports_needed", "2"])), "{text}");
    assert!(text.lines().any(|line| line.split_whitespace().eq(["settle_after", "86400s"])), "{text}");
    assert!(expect(&server, "report", SPAM, 0).contains(", 0 listed"), "one own user is not enough");
}

#[test]
fn a_token_gives_rights_and_what_came_through_a_proxy_has_none_of_its_own() {
    let folder = Folder::new();
    folder.write("token", "a-token-of-some-length");
    folder.write("wrong", "another-token-of-a-length");
    let more = "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"reader\"\ntoken = \"a-token-of-some-length\"\n\
        [[http.tokens]]\nname = \"chief\"\ntoken = \"the-token-of-the-chief\"\nadmin = true\n";
    let server = Server::start(&folder, more);
    let mut connection = Connection::to(&server);
    let mut ask = |method: &str, path: &str, token: &str| {
        let mut fields = vec![("Via", "1.1 proxy"), ("Content-Type", "message/rfc822")];
        let bearer = format!("Bearer {token}");
        if !token.is_empty() {
            fields.push(("Authorization", &bearer));
        }
        connection.ask(&request(method, path, &fields, SPAM.as_bytes())).status
    };
    let (reader, chief) = ("a-token-of-some-length", "the-token-of-the-chief");
    for (method, path, expected) in [
        ("POST", "/v1/check", [200, 200, 200]),
        ("POST", "/v1/report", [403, 200, 200]),
        ("POST", "/v1/revoke", [403, 200, 200]),
        ("POST", "/v1/explain", [403, 403, 200]),
        ("GET", "/v1/stats", [403, 403, 200]),
        ("GET", "/v1/accounts", [403, 403, 200]),
        ("GET", "/v1/whitelist", [403, 403, 200]),
        ("GET", "/metrics", [403, 403, 200]),
        ("GET", "/v1/health", [204, 204, 204]),
    ] {
        // Report something that can be revoked.
        assert_eq!(ask("POST", "/v1/report", chief), 200);
        assert_eq!(["", reader, chief].map(|token| ask(method, path, token)), expected, "{method} {path}");
        assert_eq!(ask(method, path, "nobody-has-this-token"), 401, "{method} {path}");
    }
    let file = |name: &str| folder.path(name).display().to_string();
    for (name, refusal) in [("token", "an administrator's token"), ("wrong", "unknown token")] {
        let output = run(&server, &format!("stats --token-file {}", file(name)), "");
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(refusal), "{output:?}");
    }
    folder.write("chief", "the-token-of-the-chief");
    expect(&server, &format!("stats --token-file {}", file("chief")), "", 0);
}

#[test]
fn a_strangers_report_changes_nothing() {
    let (folder, closed) = (Folder::new(), Folder::new());
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nrights = { report = \"anyone\" }\n");
    let fields = [("X-Forwarded-For", "127.0.0.1"), ("Content-Type", "message/rfc822")];
    let report = request("POST", "/v1/report", &fields, SPAM.as_bytes());
    assert_eq!(
        Connection::to(&Server::start(&closed, "")).ask(&report).status,
        403,
        "refused unless the configuration allows it"
    );
    let answer = Connection::to(&server).ask(&report);
    assert_eq!((answer.status, &answer.json()["listed"]), (200, &json!(0)));
    expect(&server, "check", SPAM, 1);
}

#[test]
fn strangers_are_limited_whether_they_ask_or_guess() {
    let folder = Folder::new();
    let more = "[limits]\nrequests = { per_second = 0.0001, burst = 6 }\nclaims = { per_second = 0.0001, burst = 4 }\n\
        costly = { per_second = 0.0001, burst = 2 }\n[http]\nlisten = \"127.0.0.1:0\"\nrights = { report = \"anyone\" }\n";
    let server = Server::start(&folder, more);
    let mut connection = Connection::to(&server);
    let mut ask = |path: &str, media: &str, fields: &[(&str, &str)]| {
        let fields = [&[("Via", "1.1 proxy"), ("Content-Type", media)], fields].concat();
        // This request has two signatures, whereas a report of the message has three.
        let signature = |digit: &str| json!({"scheme": "pyzor", "value": digit.repeat(40)});
        let json = json!({"signatures": [signature("1"), signature("2")]}).to_string();
        let body = if media == "message/rfc822" { SPAM } else { &json };
        let answer = connection.ask(&request("POST", path, &fields, body.as_bytes()));
        assert!(answer.status != 429 || answer.head.to_lowercase().contains("retry-after: "), "{}", answer.head);
        answer.status
    };
    let (json, message) = ("application/json", "message/rfc822");
    assert_eq!(ask("/v1/check", message, &[]), 200);
    assert_eq!(ask("/v1/report", message, &[]), 200);
    assert_eq!(ask("/v1/check", message, &[]), 429, "no more messages for the server to sign");
    assert_eq!(ask("/v1/report", json, &[]), 429, "no more reports");
    assert_eq!(ask("/v1/check", json, &[]), 200);
    assert_eq!(ask("/v1/check", json, &[("Authorization", "Bearer guess")]), 401);
    assert_eq!(ask("/v1/check", json, &[("Authorization", "Bearer guess")]), 429);
    assert_eq!(ask("/v1/check", json, &[]), 429);
    expect(&server, "check", SPAM, 1);
}

#[test]
fn pages_of_other_sites_and_names_of_others_get_nothing_done() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nhosts = [\"bruit.example.org\"]\n");
    let mut connection = Connection::to(&server);
    let mut report = |fields: &[(&str, &str)]| {
        let fields = [&[("Content-Type", "text/plain")], fields].concat();
        connection.ask(&request("POST", "/v1/report", &fields, SPAM.as_bytes())).status
    };
    for fields in [
        &[("Origin", "https://evil.example")][..],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Origin", "http://127.0.0.1"), ("Sec-Fetch-Site", "same-site")],
    ] {
        assert_eq!(report(fields), 403, "{fields:?}");
    }
    assert_eq!(report(&[("Host", "rebound.evil.example")]), 421);
    assert_eq!(report(&[("Host", "127.0.0.1"), ("Host", "rebound.evil.example")]), 421);
    expect(&server, "check", SPAM, 1);
    assert_eq!(
        report(&[("Host", "bruit.example.org"), ("Origin", "https://bruit.example.org")]),
        403,
        "a proxy may have sent the request"
    );
    expect(&server, "check", SPAM, 1);
    let bearer = format!("Bearer {}", server.token());
    assert_eq!(report(&[("Host", "bruit.example.org"), ("Authorization", &bearer)]), 200);
    expect(&server, "check", SPAM, 0);
}

#[test]
fn what_is_wrong_is_told_as_a_problem() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nbody_max = \"64KiB\"\n");
    let json = &[("Content-Type", "application/json")][..];
    let long = vec![b' '; (64 << 10) + 1];
    for (method, path, fields, body, status) in [
        ("GET", "/v1/nothing", &[][..], &b""[..], 404),
        ("GET", "/v1/check", &[], b"", 405),
        ("DELETE", "/v1/stats", &[], b"", 405),
        ("POST", "/v1/check", &[], b"{}", 415),
        ("POST", "/v1/check", &[("Content-Type", "text/html")], b"{}", 415),
        ("POST", "/v1/check", json, b"", 400),
        ("POST", "/v1/check", json, b"{}", 400),
        ("POST", "/v1/check", json, br#"{"message": "x"}"#, 400),
        ("POST", "/v1/check", json, br#"{"signatures": [{"scheme": "pyzor", "value": "00"}]}"#, 400),
        ("POST", "/v1/check", json, &long, 413),
        ("POST", "/v1/check", &[("Content-Type", "message/rfc822")], &long, 413),
        ("POST", "/v1/whitelist", &[("Content-Type", "text/plain")], b"{}", 415),
        ("POST", "/v1/whitelist", json, b"{}", 400),
        ("GET", "/v1/whitelist?offset=x", &[], b"", 400),
        ("GET", "/v1/whitelist?page=1", &[], b"", 400),
    ] {
        // The server may close the connection after it refuses a body.
        let (name, token) = authorization(&server);
        let fields = [fields, &[(name, &*token)]].concat();
        let answer = Connection::to(&server).ask(&request(method, path, &fields, body));
        assert_eq!(answer.status, status, "{method} {path} {fields:?}: {:?}", text(&answer.body));
        assert!(answer.head.to_lowercase().contains("content-type: application/problem+json\r\n"), "{}", answer.head);
        assert_eq!(answer.json()["status"], status);
        assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
    }
    let exact = [&b"\n"[..], &vec![b'x'; (64 << 10) - 1]].concat();
    let answer =
        Connection::to(&server).ask(&request("POST", "/v1/check", &[("Content-Type", "message/rfc822")], &exact));
    assert_eq!(answer.status, 200, "a message of the maximum length is accepted");
}

#[test]
fn headers_without_end_are_cut_off() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let many: String = (0..100).map(|at| format!("X-{at}: y\r\n")).collect();
    let long = format!("X: {}\r\n", "y".repeat(64 << 10));
    for fields in [many, long] {
        let answer = Connection::to(&server)
            .ask(format!("GET /v1/health HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
        assert_eq!(answer.status, 431);
    }
    expect(&server, "check", SPAM, 1);
}

#[test]
fn the_server_says_that_it_is_alive_and_ready_and_what_it_can_do() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    assert_eq!(connection.ask(&request("GET", "/v1/health", &[], b"")).status, 204);
    assert_eq!(connection.ask(&request("GET", "/v1/ready", &[], b"")).status, 204);
    let document = connection.ask(&request("GET", "/v1/openapi.json", &[], b"")).json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/check"]["post"].is_object());
}

#[test]
fn requests_under_way_are_answered_when_the_server_stops() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    let whole = request(
        "POST",
        "/v1/report",
        &[("Content-Type", "message/rfc822"), ("Expect", "100-continue")],
        SPAM.as_bytes(),
    );
    let (head, body) = whole.split_at(whole.len() - SPAM.len());
    // The server requests the body (100 Continue) once it handles the request.
    connection.write(head);
    assert_eq!(connection.read().status, 100);
    let stopping = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.terminate());
        connection.wait_until_refused();
        connection.write(body);
        let answer = connection.read();
        assert_eq!(answer.status, 200, "{}", answer.head);
        stopped.join().unwrap()
    });
    assert!(stopping.success());
    expect(&server.restart(), "check", SPAM, 0);
}
