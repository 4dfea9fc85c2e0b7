//! The real Sendmail with `bruit milter` and `bruit serve`.

mod common;

use common::milter::Milter;
use common::recorder::{Differences, Recorder, expect_plain_to_agree, messages, note};
use common::sendmail::Sendmail;
use common::smtp::{Reply, Smtp};
use common::{Folder, Server, bruit};

const USER: &str = "root@test.example";

const SPAM: &str = "Genuine watches at wholesale prices are delivered within seven days to your own door, and every one \
    of them comes with a certificate and an elegant box. Order two before Friday and receive a third as a gift from \
    our workshop in the mountains: http://watches.example/offer\n";

fn message(text: &str) -> Vec<u8> {
    format!(
        "From: Sender <sender@mail.example>\nTo: you@test.example\nSubject: an\n offer\nMessage-ID: <1@mail.example>\n\
         Date: Thu, 19 Nov 2026 10:00:00 +0000\n\n{text}"
    )
    .into_bytes()
}

fn send(sendmail: &Sendmail, recipients: &[&str], message: &[u8]) -> Reply {
    Smtp::open(sendmail.address()).send("sender@mail.example", recipients, message)
}

/// Sends a message that is accepted, and returns the field `X-Bruit`, which is the first of the header.
#[track_caller]
fn tag(sendmail: &Sendmail, message: &[u8]) -> String {
    let reply = send(sendmail, &[USER], message);
    assert_eq!(reply.code, 250, "{reply:?}");
    let queued = sendmail.take();
    assert!(!queued.is_held, "{queued:?}");
    let header = queued.header();
    let ours: Vec<_> = header.iter().filter(|field| field.to_ascii_lowercase().starts_with("x-bruit")).collect();
    assert_eq!(ours.len(), 1, "{queued:?}");
    let above: Vec<_> = header.iter().take_while(|field| !field.starts_with("Received:")).collect();
    assert!(above.contains(&ours[0]), "{queued:?}");
    ours[0].strip_prefix("X-Bruit: ").unwrap().to_owned()
}

#[test]
fn sendmail_tags_refuses_defers_and_holds() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut milter = Milter::start(&server.url(), "");
    let sendmail = Sendmail::start(&milter.address);
    let spam = message(SPAM);
    let forged = [b"X-Bruit: ham\nx-bruit: ham; forged\n ham\n", &spam[..]].concat();
    assert_eq!(tag(&sendmail, &forged), "unknown; confidence=0; reason=not_reported");

    folder.write("spam", &spam);
    let report = bruit(&["report", "--server", &server.url(), folder.path("spam").to_str().unwrap()]);
    assert!(report.status.success(), "{report:?}");
    assert_eq!(tag(&sendmail, &spam), "spam; confidence=80; reason=own_reports");
    milter.reload(&server.url(), "[spam]\naction = \"reject\"\n");
    let refused = send(&sendmail, &[USER], &spam);
    assert!(refused.code == 550 && refused.text.starts_with("550 5.7.1 "), "{refused:?}");
    milter.reload(&server.url(), "[spam]\naction = \"defer\"\n");
    assert_eq!(send(&sendmail, &[USER], &spam).code, 451);
    milter.reload(&server.url(), "[spam]\naction = \"quarantine\"\n");
    assert_eq!(send(&sendmail, &[USER], &spam).code, 250);
    let held = sendmail.take();
    assert!(held.is_held && held.lines.iter().any(|line| line.starts_with("qspam")), "{held:?}");

    // A refused recipient that is a trap makes the milter report the message.
    milter.reload(&server.url(), "[traps]\naddresses = [\"nobody.here@test.example\"]\nwhen = \"any\"\n");
    let other = message("The autumn issue of the gardening bulletin is out, with a long article about apple trees.\n");
    assert_eq!(send(&sendmail, &[USER, "nobody.here@test.example"], &other).code, 250);
    sendmail.take();
    assert_eq!(milter.count("trap_reports_total{result=\"accepted\"}"), 1, "{}", milter.log());

    assert_eq!(milter.stop(), Some(0));
    assert_eq!(send(&sendmail, &[USER], &spam).code, 250, "mail passes without the milter");
    assert!(!sendmail.take().header().iter().any(|field| field.starts_with("X-Bruit")));
}

#[test]
fn the_signatures_are_those_of_the_files() {
    let recorder = Recorder::start();
    let milter = Milter::start(&recorder.url(), "");
    let sendmail = Sendmail::start(&milter.address);
    let (mut found, mut smtp) = (Differences::new(), Smtp::open(sendmail.address()));
    // Sendmail refuses a CR that is not followed by LF.
    let has_bare_cr = |bytes: &[u8]| bytes.windows(2).any(|pair| pair[0] == b'\r' && pair[1] != b'\n');
    let messages: Vec<_> = messages().into_iter().filter(|(_, bytes)| !has_bare_cr(bytes)).step_by(4).collect();
    for (name, bytes) in &messages {
        let reply = smtp.send("sender@mail.example", &[USER], bytes);
        assert_eq!(reply.code, 250, "{name}: {reply:?}");
        note(&mut found, name, bytes, recorder.subjects().last().unwrap());
    }
    expect_plain_to_agree("Sendmail, file", &found, &messages);
}
