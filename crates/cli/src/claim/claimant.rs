//! Makes one claim: sends it to the server and, if requested, trains rspamd with the message. With a spool, the claim
//! and the message are stored until the server and rspamd have answered.

use std::sync::atomic::{AtomicBool, Ordering};

use bruit_client::http::{Claimed, Subject};
use bruit_client::spool::{ClaimKind, Destinations, Sending, Spool, SpooledReport, Stored, Teaching, is_down};
use bruit_client::{Client, ClientError, Rspamd, Signer};

use super::{CLAIM_TIMEOUT, Claim, ClaimArgs, SEND_LIMITS};
use crate::rspamd::LessonArgs;
use crate::spool::send_some;
use bruit_client::Purpose;
use bruit_console::Failure;
use bruit_console::date;
use bruit_console::failure::bad_input;
use bruit_console::terminal::complain;

/// The error of a claim that waits for an earlier claim about the same message.
const HELD: &str = "an earlier claim about the message is still waiting";

/// The answer of the server.
pub(super) type Answer = Result<Claimed, ClientError>;

/// The results of a claim about one message.
pub(super) struct Outcome {
    /// Number of the message among the messages attached to the input, starting at 1, and their total number.
    pub(super) attachment: Option<(usize, usize)>,
    pub(super) claim: ClaimResult,
    /// The result of training rspamd, if requested.
    pub(super) lesson: Option<LessonResult>,
}

/// The result of a claim.
pub(super) enum ClaimResult {
    /// The server's answer. Without a spool, this may also be the error of a request that the server did not answer.
    Answered(Answer),
    /// The claim is in the spool, because of this error.
    Spooled(String),
    /// No claim was made.
    Failed(String),
}

/// The result of training rspamd with a message.
pub(super) enum LessonResult {
    /// rspamd learned the message.
    Learned,
    /// The message is in the spool, because of this error.
    Spooled(String),
    /// rspamd did not learn the message.
    Failed(String),
}

/// Makes claims.
pub(super) struct Claimant<'a> {
    kind: ClaimKind,
    reporter: Option<&'a str>,
    signer: Signer,
    client: Client,
    spool: Option<Spool>,
    /// True once the server has failed to answer. Later claims are only stored, so that each command ends soon.
    is_down: AtomicBool,
    teacher: Option<Teacher>,
}

/// Trains rspamd with messages.
struct Teacher {
    rspamd: Rspamd,
    lesson: LessonArgs,
    /// True once rspamd has failed to answer. Later messages are only stored.
    is_down: AtomicBool,
}

impl Outcome {
    /// Returns the result for an input about which no claim can be made.
    pub(super) const fn failed(error: String) -> Self {
        Self { attachment: None, claim: ClaimResult::Failed(error), lesson: None }
    }
}

impl<'a> Claimant<'a> {
    pub(super) fn new(arguments: &'a ClaimArgs, claim: Claim) -> Result<Self, Failure> {
        let kind = match claim {
            Claim::Report => ClaimKind::Report,
            Claim::Revoke => ClaimKind::Revoke,
        };
        let client = arguments.server.client(CLAIM_TIMEOUT)?;
        let reporter = arguments.reporter.as_deref();
        // Reject an invalid name now, not when the spool is sent.
        reporter.map(|name| client.clone().with_reporter(name)).transpose().map_err(bad_input)?;
        let spool = arguments.spool.as_deref().map(Spool::open).transpose().map_err(bad_input)?;
        let rspamd = arguments.rspamd.client(arguments.server.timeout(CLAIM_TIMEOUT))?;
        let teacher =
            rspamd.map(|rspamd| Teacher { rspamd, lesson: arguments.lesson, is_down: AtomicBool::new(false) });
        let signer = arguments.messages.signer(Purpose::Claim);
        Ok(Self { kind, reporter, signer, client, spool, is_down: AtomicBool::new(false), teacher })
    }

    /// Makes the claim about a message. If there is a spool, the report for the server and the message for rspamd are
    /// both stored before either is sent.
    pub(super) fn make(&self, message: &[u8]) -> Outcome {
        let subject = self.signer.subject(message);
        let Some(spool) = &self.spool else {
            let claim = ClaimResult::Answered(self.send(&subject));
            let lesson = self.teacher.as_ref().map(|teacher| teacher.teach(self.kind, message));
            return Outcome { attachment: None, claim, lesson };
        };
        let time = date::now().0;
        let report = match SpooledReport::new(self.kind, self.reporter, subject, time) {
            Ok(report) => report,
            Err(error) => return Outcome::failed(error.to_string()),
        };
        let stored = store(spool, report.clone());
        let lesson = self.teacher.as_ref().map(|teacher| (teacher, teacher.store(spool, self.kind, message, time)));
        let claim = match stored {
            Some(stored) => self.send_stored(spool, stored),
            None => ClaimResult::Answered(self.client.send_spooled(&report)),
        };
        let lesson = lesson.map(|(teacher, stored)| match stored {
            Some(stored) => teacher.teach_stored(spool, stored),
            None => teacher.teach(self.kind, message),
        });
        Outcome { attachment: None, claim, lesson }
    }

    fn send(&self, subject: &Subject) -> Answer {
        let client = self.client.clone();
        let client = if let Some(name) = self.reporter { client.with_reporter(name)? } else { client };
        match self.kind {
            ClaimKind::Report => client.report(subject),
            ClaimKind::Revoke => client.revoke(subject),
        }
    }

    fn send_stored(&self, spool: &Spool, stored: Stored) -> ClaimResult {
        if self.is_down.load(Ordering::Relaxed) {
            return ClaimResult::Spooled("the server did not answer an earlier request".to_owned());
        }
        let attempt = spool.send_one(&self.client, stored);
        if let Some(fault) = attempt.fault {
            complain(&fault.to_string());
        }
        match attempt.result {
            Sending::Answered(claimed) => ClaimResult::Answered(Ok(claimed)),
            Sending::Waits(error) => {
                self.is_down.fetch_or(is_down(&error), Ordering::Relaxed);
                ClaimResult::Spooled(error.to_string())
            }
            Sending::Held => ClaimResult::Spooled(HELD.to_owned()),
            Sending::Refused(error) => ClaimResult::Answered(Err(error)),
            _ => ClaimResult::Spooled("not sent".to_owned()),
        }
    }

    /// Sends some of the claims that earlier commands left in the spool, unless the server has failed to answer.
    pub(super) fn send_waiting(&self) {
        if let Some(spool) = self.spool.as_ref().filter(|_| !self.is_down.load(Ordering::Relaxed)) {
            let teacher = self.teacher.as_ref().filter(|teacher| !teacher.is_down.load(Ordering::Relaxed));
            let rspamd = teacher.map(|teacher| &teacher.rspamd);
            send_some(spool, Destinations { server: &self.client, rspamd }, SEND_LIMITS);
        }
    }
}

impl Teacher {
    /// Stores a message for rspamd. If there is no room for it, prints an error.
    fn store(&self, spool: &Spool, kind: ClaimKind, message: &[u8], time: u64) -> Option<Stored> {
        match SpooledReport::for_rspamd(kind, self.lesson.lesson(message), time) {
            Ok(report) => store(spool, report),
            Err(error) => {
                complain(&format!("{error}: sending without the spool"));
                None
            }
        }
    }

    fn teach(&self, kind: ClaimKind, message: &[u8]) -> LessonResult {
        match self.rspamd.teach(kind, &self.lesson.lesson(message)) {
            Ok(()) => LessonResult::Learned,
            Err(error) => LessonResult::Failed(error.to_string()),
        }
    }

    fn teach_stored(&self, spool: &Spool, stored: Stored) -> LessonResult {
        if self.is_down.load(Ordering::Relaxed) {
            return LessonResult::Spooled("rspamd did not answer an earlier request".to_owned());
        }
        let attempt = spool.teach_one(&self.rspamd, stored);
        if let Some(fault) = attempt.fault {
            complain(&fault.to_string());
        }
        match attempt.result {
            Teaching::Learned => LessonResult::Learned,
            Teaching::Waits(error) => {
                self.is_down.fetch_or(error.is_down(), Ordering::Relaxed);
                LessonResult::Spooled(error.to_string())
            }
            Teaching::Held => LessonResult::Spooled(HELD.to_owned()),
            Teaching::Refused(error) => LessonResult::Failed(error.to_string()),
            _ => LessonResult::Spooled("not sent".to_owned()),
        }
    }
}

fn store(spool: &Spool, report: SpooledReport) -> Option<Stored> {
    spool.store(report).inspect_err(|error| complain(&format!("{error}: sending without it"))).ok()
}
