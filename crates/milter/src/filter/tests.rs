use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use bruit_client::http::CheckedSignature;
use bruit_client::spool::SpoolEntry;

use super::*;
use crate::config::Config;

/// An address at which nothing listens.
const NOBODY: &str = "http://127.0.0.1:1";

/// Creates a filter whose server cannot be reached.
pub(crate) fn filter(text: &str) -> Arc<Filter> {
    filter_with(text, Shared::new(IdentityKey::fixed(), None))
}

fn filter_with(text: &str, shared: Shared) -> Arc<Filter> {
    filter_at(NOBODY, text, shared)
}

fn filter_at(url: &str, text: &str, shared: Shared) -> Arc<Filter> {
    let mut settings = Config::parse(text).unwrap().settings;
    settings.server.url = url.to_owned();
    Arc::new(Filter::new(settings, Arc::new(shared)).unwrap())
}

/// An answer of the server: status and body.
type Scripted = (u16, String);

/// A server with scripted answers, which keeps the requests.
struct StandIn {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    /// Starts a server that answers the head of each request.
    fn start(answer: impl Fn(&str) -> Scripted + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), answer.clone());
                thread::spawn(move || while serve(&stream, &kept, &answer).is_some() {});
            }
        });
        Self { url, requests }
    }

    /// Returns a filter that asks this server.
    fn filter(&self, text: &str) -> Arc<Filter> {
        filter_at(&self.url, text, Shared::new(IdentityKey::fixed(), None))
    }

    /// Returns the header of each request whose path starts with `path`.
    fn requests(&self, path: &str) -> Vec<String> {
        let of_path = |head: &&String| head.starts_with(&format!("POST {path}"));
        self.requests.lock().unwrap().iter().filter(of_path).cloned().collect()
    }
}

/// Reads a request, keeps its head, and answers it.
fn serve(stream: &TcpStream, kept: &Mutex<Vec<String>>, answer: &dyn Fn(&str) -> Scripted) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|count| *count > 0)?;
    }
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    reader.read_exact(&mut vec![0; length?]).ok()?;
    let (status, body) = answer(&head);
    kept.lock().unwrap().push(head);
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (&mut &*stream).write_all([head, body].concat().as_bytes()).ok()
}

/// The answer to a check of an unknown message.
fn unknown() -> Scripted {
    let checked = Checked { reason: "not_reported".into(), bulk_count: 1, ..Checked::default() };
    (200, serde_json::to_string(&checked).unwrap())
}

fn draft(filter: &Arc<Filter>, recipients: &[&str]) -> Draft {
    let mut draft = Draft::new(Arc::clone(filter), b"<a@b.example>", None);
    recipients.iter().for_each(|recipient| draft.add_recipient(recipient.as_bytes(), false));
    draft.add_field(b"Subject", b" x", true);
    draft.add_body(b"Genuine watches at wholesale prices, delivered within seven days to your door.\r\n");
    draft
}

fn spam(confidence: u8) -> Checked {
    let decided = CheckedSignature {
        scheme: "exact".into(),
        value: Some("aa".into()),
        decided: true,
        ..CheckedSignature::default()
    };
    Checked {
        verdict: Verdict::Spam,
        reason: "own_reports".into(),
        confidence,
        signatures: vec![decided],
        ..Checked::default()
    }
}

fn judged(text: &str, checked: &Checked) -> Outcome {
    let filter = filter(text);
    filter.judge(&draft(&filter, &["<c@d.example>"]), checked, &Subject::default())
}

#[test]
fn each_action_has_its_answer() {
    let tag = "spam; confidence=95; reason=own_reports".to_owned();
    let text = |action: &str| format!("[spam]\naction = \"{action}\"\nconfidence = 90");
    assert_eq!(judged(&text("tag"), &spam(95)), Outcome::accept(Some(tag.clone())));
    assert_eq!(judged(&text("accept"), &spam(95)), Outcome::accept(None));
    let held = judged(&text("quarantine"), &spam(95));
    assert!(held.hold && held.field == Some(tag));
    let refused = Decision::Refuse("550 5.7.1 message refused: spam (exact:aa)".into());
    assert_eq!(judged(&text("reject"), &spam(95)).decision, refused);
    let deferred = Decision::Refuse("451 4.7.1 message refused: spam (exact:aa)".into());
    assert_eq!(judged(&text("defer"), &spam(95)).decision, deferred);
    assert_eq!(judged(&text("reject"), &spam(89)).decision, Decision::Accept);
}

/// One recipient's low threshold once made mail bulk for recipients without a threshold.
#[test]
fn mail_that_is_bulk_for_one_recipient_is_tagged_and_not_refused_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "few@d.example bulk_recipients=50\n").unwrap();
    let filter = filter(&format!("[bulk]\naction = \"reject\"\n[recipients]\nfile = {rules:?}"));
    let unknown = Checked { reason: "not_reported".into(), bulk_count: 60, ..Checked::default() };
    let judge = |recipients: &[&str]| filter.judge(&draft(&filter, recipients), &unknown, &Subject::default());
    let field = |kind: &str| Outcome::accept(Some(kind.to_owned()));
    assert!(matches!(judge(&["<few@d.example>"]).decision, Decision::Refuse(reply) if reply.starts_with("550 ")));
    assert_eq!(judge(&["<c@d.example>"]), field("unknown; confidence=0; reason=not_reported"));
    let both = judge(&["<c@d.example>", "<few@d.example>"]);
    assert_eq!(both, field("bulk; confidence=0; reason=many_recipients"));
}

#[test]
fn mail_passes_unchecked_if_the_server_cannot_be_reached() {
    let filter = filter("");
    let field = |draft: &Draft| filter.decide(draft).field.unwrap();
    assert_eq!(field(&draft(&filter, &["<c@d.example>"])), "unchecked; reason=unreachable");
    assert!(filter.shared.health.is_down());
    let metrics = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(metrics.contains("bruit_milter_unchecked_total{reason=\"unreachable\"} 1\n"), "{metrics}");
}

/// A replica with a fixed answer.
struct Fixed(Option<bool>);

impl Listings for Fixed {
    fn look_up(&self, file: &Path, max_age: Duration, subject: &Subject) -> Option<bool> {
        assert_eq!((file, max_age), (Path::new("/r"), Duration::from_secs(60)));
        assert!(!subject.signatures.is_empty());
        self.0
    }
}

#[test]
fn a_replica_answers_while_the_server_does_not() {
    for (found, expected) in [
        (Some(false), "unknown; confidence=0; reason=not_in_replica"),
        (Some(true), "unchecked; reason=in_replica"),
        (None, "unchecked; reason=unreachable"),
    ] {
        let text = "[server]\nreplica = \"/r\"\nreplica_max_age = \"60s\"\n[spam]\naction = \"reject\"";
        let filter = filter_with(text, Shared::new(IdentityKey::fixed(), Some(Box::new(Fixed(found)))));
        let outcome = filter.decide(&draft(&filter, &["<c@d.example>"]));
        assert_eq!(outcome, Outcome::accept(Some(expected.to_owned())));
    }
}

/// A replica that panics when it is read.
struct Broken;

impl Listings for Broken {
    fn look_up(&self, _: &Path, _: Duration, _: &Subject) -> Option<bool> {
        panic!("a test panics on purpose");
    }
}

/// A panic once closed the connection, so an MTA that defers mail without its milter never delivered the message.
#[test]
fn a_message_on_which_the_filter_panics_passes() {
    let shared = Shared::new(IdentityKey::fixed(), Some(Box::new(Broken)));
    let filter = filter_with("[server]\nreplica = \"/r\"", shared);
    let outcome = filter.decide(&draft(&filter, &["<c@d.example>"]));
    assert_eq!(outcome, Outcome::accept(Some("unchecked; reason=failed".to_owned())));
    let metrics = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(metrics.contains("bruit_milter_unchecked_total{reason=\"failed\"} 1\n"), "{metrics}");
}

/// Returns the waiting reports in a folder.
fn waiting(folder: &Path) -> Vec<SpooledReport> {
    let entries = Spool::open(folder).unwrap().list().unwrap().into_iter();
    let report = |entry| match entry {
        SpoolEntry::Waiting(report) => report,
        other => panic!("{other:?}"),
    };
    entries.map(report).collect()
}

#[test]
fn a_report_of_a_trap_waits_in_the_configured_folder() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[traps]\naddresses = [\"trap@d.example\"]\nspool = {:?}", folder.path().join("spool"));
    let filter = filter(&text);
    filter.decide(&draft(&filter, &["<trap@d.example>"]));
    assert!(filter.shared.metrics.text(crate::metrics::State::default()).contains("result=\"spooled\"} 1"));
    filter.send_spool();
    let [report] = &waiting(&folder.path().join("spool"))[..] else { panic!("one report") };
    assert_eq!((report.claim, report.attempts), (ClaimKind::Report, 1), "the server still does not answer");
    assert!(report.subject.signatures.iter().all(|named| !named.scheme.starts_with("dcc")), "a claim");
    assert_eq!((filter.shared.spool.is_usable(), filter.shared.spool.waiting()), (true, 1));
}

#[test]
fn mail_to_traps_is_kept_for_rspamd() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let rspamd = "{ url = \"http://127.0.0.1:1\", flag = 11, bayes = true }";
    let text = format!("[traps]\naddresses = [\"trap@d.example\"]\nspool = {spool:?}\nrspamd = {rspamd}");
    let filter = filter(&text);
    let draft = draft(&filter, &["<trap@d.example>"]);
    filter.decide(&draft);
    let kept = |report: &SpooledReport| report.rspamd.as_ref().map(|kept| (kept.flag, kept.weight, kept.trains_bayes));
    let mut found: Vec<_> = waiting(&spool).iter().map(kept).collect();
    found.sort();
    assert_eq!(found, [None, Some((11, 10, true))], "the report, and the message for rspamd");
    // Neither server answers. The report and the message for rspamd both stay in the spool.
    filter.send_spool();
    assert!(waiting(&spool).iter().all(|report| report.attempts == 1));
    let text = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(text.contains("rspamd_learned_total 0") && text.contains("rspamd_lost_total 0"), "{text}");
}

/// rspamd once got a message again with each retry, and also got messages whose reports the server had ignored.
#[test]
fn rspamd_gets_a_trapped_message_once_and_only_if_its_report_counts() {
    let kept = |url: &str| {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("spool");
        let rspamd = "{ url = \"http://127.0.0.1:1\" }";
        let text = format!("[traps]\naddresses = [\"trap@d.example\"]\nspool = {spool:?}\nrspamd = {rspamd}");
        let filter = filter_at(url, &text, Shared::new(IdentityKey::fixed(), None));
        let decide_and_take = || {
            filter.decide(&draft(&filter, &["<trap@d.example>"]));
            let is_lesson = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "rspamd");
            let files = std::fs::read_dir(&spool).into_iter().flatten().map(|entry| entry.unwrap().path());
            // Remove the message, as if rspamd had learned it.
            files.filter(is_lesson).map(|path| std::fs::remove_file(path).unwrap()).count()
        };
        [decide_and_take(), decide_and_take()]
    };
    let claimed = |accepted: u32, repeated: bool| {
        format!(r#"{{"accepted":{accepted},"listed":0,"revoked":0,"ignored":0,"refused":0,"repeated":{repeated}}}"#)
    };
    for (accepted, repeated, expected) in [(1, false, [1, 1]), (1, true, [0, 0]), (0, false, [0, 0])] {
        let server = StandIn::start(move |_| (200, claimed(accepted, repeated)));
        assert_eq!(kept(&server.url), expected, "accepted {accepted}, repeated {repeated}");
    }
    assert_eq!(kept(NOBODY), [1, 0], "the report waits");
}

/// A spool that could not be opened at the start was logged once and never tried again.
#[test]
fn a_spool_that_cannot_be_used_is_shown_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "no folder").unwrap();
    let path = blocked.join("spool");
    let filter = filter(&format!("[traps]\naddresses = [\"trap@d.example\"]\nspool = {path:?}"));
    assert!(filter.shared.spool.is_usable());
    filter.send_spool();
    assert!(!filter.shared.spool.is_usable(), "before a report needs it");
    filter.decide(&draft(&filter, &["<trap@d.example>"]));
    std::fs::remove_file(&blocked).unwrap();
    filter.decide(&draft(&filter, &["<trap@d.example>"]));
    filter.send_spool();
    assert_eq!((filter.shared.spool.is_usable(), filter.shared.spool.waiting()), (true, 1));
    let metrics = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(metrics.contains("result=\"lost\"} 1\n") && metrics.contains("result=\"spooled\"} 1\n"), "{metrics}");
}

#[test]
fn mail_to_traps_is_reported_only_if_all_recipients_are_traps_unless_asked_otherwise() {
    let reports = |more: &str, recipients: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[traps]\naddresses = [\"trap@d.example\"]\nspool = {:?}\n{more}", folder.path());
        let filter = filter(&text);
        let outcome = filter.decide(&draft(&filter, recipients));
        (waiting(folder.path()).len(), outcome.decision, outcome.field.unwrap())
    };
    let (one, accept) = ("<trap@d.example>", Decision::Accept);
    assert_eq!(reports("", &[one]), (1, accept.clone(), "unchecked; reason=trap".into()));
    assert_eq!(reports("action = \"discard\"", &[one]).1, Decision::Discard);
    assert_eq!(reports("", &[one, "<c@d.example>"]).0, 0);
    assert_eq!(reports("when = \"any\"", &[one, "<c@d.example>"]).0, 1);
    assert_eq!(reports("when = \"any\"\naction = \"discard\"", &[one, "<c@d.example>"]).1, accept);
    assert_eq!(reports("when = \"any\"", &["<c@d.example>"]).0, 0);
}

/// The ID of a report was once random, so a retry of the message counted again.
#[test]
fn a_retry_of_a_trapped_message_has_the_id_of_the_first_attempt() {
    let claimed = r#"{"accepted":1,"listed":0,"revoked":0,"ignored":0,"refused":0}"#;
    let server = StandIn::start(move |_| (200, claimed.into()));
    let filter = server.filter("[traps]\naddresses = [\"trap@d.example\", \"other@d.example\"]");
    for trap in ["<trap@d.example>", "<trap@d.example>", "<other@d.example>"] {
        filter.decide(&draft(&filter, &[trap]));
    }
    let key = |head: &String| {
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("idempotency-key: ").map(str::to_owned))
    };
    let keys: Vec<String> = server.requests("/v1/report").iter().map(|head| key(head).unwrap()).collect();
    assert_eq!((keys.len(), keys[0] == keys[1], keys[0] == keys[2]), (3, true, false), "{keys:?}");
    assert!(keys.iter().all(|key| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())), "{keys:?}");
}

/// Mail to traps was once discarded even if its report was lost.
#[test]
fn mail_to_traps_is_discarded_only_if_its_report_is_safe() {
    let text = "[traps]\naddresses = [\"trap@d.example\"]\naction = \"discard\"";
    let decision = |filter: &Arc<Filter>| filter.decide(&draft(filter, &["<trap@d.example>"])).decision;
    assert_eq!(decision(&filter(text)), Decision::Accept, "lost");
    let folder = tempfile::tempdir().unwrap();
    let spooled = filter(&format!("{text}\nspool = {:?}", folder.path()));
    assert_eq!(decision(&spooled), Decision::Discard, "spooled");
    for (status, expected) in [(200, Decision::Discard), (422, Decision::Accept)] {
        let claimed = r#"{"accepted":0,"listed":0,"revoked":0,"ignored":0,"refused":0}"#;
        let server = StandIn::start(move |_| (status, claimed.into()));
        assert_eq!(decision(&server.filter(text)), expected, "{status}");
    }
}

/// Waiting for a free place to sign, sending the report, and checking could once each take the whole timeout.
#[test]
fn a_silent_server_costs_a_message_the_timeout_only_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let timeout = Duration::from_secs(2);
    let text = "[server]\ntimeout = \"2s\"\n[traps]\naddresses = [\"trap@d.example\"]\nwhen = \"any\"";
    let filter = filter_at(&url, text, Shared::new(IdentityKey::fixed(), None));
    let started = Instant::now();
    let outcome = filter.decide(&draft(&filter, &["<trap@d.example>", "<c@d.example>"]));
    assert_eq!(outcome.field.unwrap(), "unchecked; reason=timed_out");
    assert!(started.elapsed() < 2 * timeout - Duration::from_millis(100), "{:?}", started.elapsed());
}

/// Reports and checks once shared one state, so all mail passed unchecked when the server refused the token of the
/// traps.
#[test]
fn a_refused_token_of_the_traps_does_not_concern_other_mail() {
    let server =
        StandIn::start(|head| if head.starts_with("POST /v1/report") { (403, "{}".into()) } else { unknown() });
    let filter = server.filter("[traps]\naddresses = [\"trap@d.example\"]");
    filter.decide(&draft(&filter, &["<trap@d.example>"]));
    let outcome = filter.decide(&draft(&filter, &["<c@d.example>"]));
    assert_eq!(outcome.field.unwrap(), "unknown; confidence=0; reason=not_reported");
    assert_eq!((filter.shared.health.is_down(), filter.shared.trap_health.is_down()), (false, true));
    assert_eq!((server.requests("/v1/report").len(), server.requests("/v1/check").len()), (1, 1));
    let metrics = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(metrics.contains("bruit_milter_trap_refusals_total 1\n"), "{metrics}");
}

#[test]
fn a_lost_report_is_counted() {
    let filter = filter("[traps]\naddresses = [\"trap@d.example\"]");
    filter.decide(&draft(&filter, &["<trap@d.example>"]));
    let metrics = filter.shared.metrics.text(crate::metrics::State::default());
    assert!(metrics.contains("bruit_milter_trap_reports_total{result=\"lost\"} 1\n"), "{metrics}");
}

#[test]
fn a_message_with_too_many_forged_fields_is_refused() {
    let filter = filter("");
    let mut message = draft(&filter, &["<c@d.example>"]);
    message.forged = FORGED_MAX;
    assert_eq!(filter.decide(&message).decision, Decision::Accept);
    message.forged += 1;
    assert!(matches!(filter.decide(&message).decision, Decision::Refuse(reply) if reply.starts_with("550 ")));
    // Mail that is exempt from checks was once refused, too.
    message.skip = Some(crate::message::Skip::Authenticated);
    assert_eq!(filter.decide(&message), Outcome::accept(None));
}

#[test]
fn unknown_bulk_mail_is_deferred_once_if_greylisting_is_on() {
    let filter = filter("[greylist]\nrecipients = 2\ndelay = \"0s\"");
    let subject = Signer::new(Purpose::Check).subject(b"\nsome text\n");
    let unknown = Checked { reason: "not_reported".into(), ..Checked::default() };
    let message = draft(&filter, &["<c@d.example>", "<e@d.example>"]);
    let judge = |checked: &Checked| filter.judge(&message, checked, &subject).decision;
    assert_eq!(judge(&spam(80)), Decision::Accept, "reported mail is not deferred");
    assert_eq!(judge(&unknown), Decision::Refuse("451 4.7.1 try again later".into()));
    assert_eq!(judge(&unknown), Decision::Accept);
}

/// Bulk mail that the policy accepts was once deferred.
#[test]
fn accepted_bulk_mail_is_not_deferred_by_greylisting() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "off@d.example off\n").unwrap();
    let text = "[greylist]\nrecipients = 2\n[recipients]\nfile = ";
    let subject = Signer::new(Purpose::Check).subject(b"\nsome text\n");
    let bulk = Checked { verdict: Verdict::Bulk, reason: "many_recipients".into(), ..Checked::default() };
    let decision = |action: &str, recipients: &[&str]| {
        let filter = filter(&format!("{text}{rules:?}\n[bulk]\naction = {action:?}"));
        filter.judge(&draft(&filter, recipients), &bulk, &subject).decision
    };
    let two = ["<c@d.example>", "<e@d.example>"];
    assert_eq!(decision("tag", &two), Decision::Refuse("451 4.7.1 try again later".into()));
    assert_eq!(decision("accept", &two), Decision::Accept);
    assert_eq!(decision("tag", &[two[0], two[1], "<off@d.example>"]), Decision::Accept, "one opted out");
}

#[test]
fn only_some_threads_sign_at_the_same_time() {
    let gate = Gate::new(1);
    let first = gate.enter(Duration::ZERO).unwrap();
    assert!(gate.enter(Duration::from_millis(1)).is_none());
    drop(first);
    assert!(gate.enter(Duration::ZERO).is_some());
}
