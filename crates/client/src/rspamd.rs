//! A client for rspamd's controller: trains its fuzzy storages, and its Bayes classifier if requested.
//!
//! The controller receives whole messages. It has no idempotency keys: a message that is sent again after a lost answer
//! is added to a fuzzy storage a second time. The classifier recognises such a message.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use ureq::http::header::HeaderValue;
use ureq::http::{Request, StatusCode};
use ureq::{Agent, Body};

use crate::agent::{self, NoAnswer, is_address, shown};
use crate::spool::ClaimKind;

/// Maximum length of a message that a spool keeps for rspamd.
pub const MESSAGE_BYTES_MAX: usize = 2 << 20;

/// Maximum length of a response body.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Text in the classifier's error for a message that it has learned before.
const ALREADY_LEARNED: &str = "has been already learned as";

/// The controller of an rspamd.
#[derive(Clone, Debug)]
pub struct Rspamd {
    agent: Agent,
    /// The base URL, without a trailing slash.
    url: String,
    password: Option<HeaderValue>,
    timeout: Duration,
}

/// A message for rspamd, and how to learn it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lesson {
    /// The message.
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub message: Vec<u8>,
    /// Flag of the fuzzy storage. It selects the rules of rspamd that learn the message.
    pub flag: u32,
    /// Weight of the message in the fuzzy storage.
    pub weight: u32,
    /// True to train the Bayes classifier, too.
    pub trains_bayes: bool,
}

/// The reason why rspamd did not learn a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RspamdError {
    /// The text is not the URL of a controller.
    #[error("invalid rspamd URL {0:?}: expected a URL such as http://127.0.0.1:11334")]
    Address(String),
    /// The password is not a valid header value.
    #[error("invalid rspamd password: expected printable ASCII characters")]
    Password,
    /// The connection failed or was lost.
    #[error("rspamd at {url} cannot be reached: {cause}")]
    Unreachable {
        /// The controller.
        url: String,
        /// The cause.
        cause: String,
    },
    /// The request took longer than the timeout.
    #[error("rspamd at {url} did not answer within {timeout:?}")]
    TimedOut {
        /// The controller.
        url: String,
        /// The timeout.
        timeout: Duration,
    },
    /// The controller refused the request.
    #[error("rspamd at {url} refused: {cause} (HTTP status {status})")]
    Refused {
        /// The controller.
        url: String,
        /// HTTP status.
        status: u16,
        /// The reason.
        cause: String,
    },
    /// The response is malformed, or does not come from rspamd. rspamd 3.4 also answers like this if its fuzzy storage
    /// does not answer.
    #[error("rspamd at {url} failed, or its response is malformed: {cause}")]
    Malformed {
        /// The controller.
        url: String,
        /// The cause.
        cause: String,
    },
}

impl Rspamd {
    /// Creates a client for the controller at `url`. `timeout` is the time limit for each request.
    ///
    /// # Errors
    /// Returns [`RspamdError::Address`] or [`RspamdError::Password`] if `url` or `password` is invalid. No connection
    /// is made yet.
    pub fn new(url: &str, password: Option<&str>, timeout: Duration) -> Result<Self, RspamdError> {
        let base = url.trim_end_matches('/').to_owned();
        if !is_address(&base) {
            return Err(RspamdError::Address(url.to_owned()));
        }
        let is_valid = |text: &&str| !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let value = |text: &str| {
            let value = Some(text).filter(is_valid).and_then(|text| HeaderValue::from_str(text).ok());
            value.ok_or(RspamdError::Password)
        };
        let mut password = password.map(value).transpose()?;
        password.iter_mut().for_each(|password| password.set_sensitive(true));
        Ok(Self { agent: agent::new(), url: base, password, timeout })
    }

    /// Sets another time limit for each request.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns the time limit for each request.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Trains rspamd with a message. A report adds the message to the fuzzy storages, and the classifier learns it as
    /// spam. A revocation deletes the message from the fuzzy storages, and the classifier learns it as ham.
    ///
    /// The classifier is trained first, because it recognises a message that is sent again. If it refuses the message
    /// permanently, the fuzzy storages still learn it.
    ///
    /// # Errors
    /// Returns [`RspamdError`] if the message was not learned, or if the result is unknown.
    pub fn teach(&self, claim: ClaimKind, lesson: &Lesson) -> Result<(), RspamdError> {
        let (train, fuzzy) = match claim {
            ClaimKind::Report => ("learnspam", "fuzzyadd"),
            ClaimKind::Revoke => ("learnham", "fuzzydel"),
        };
        let trained = if lesson.trains_bayes { self.send(train, lesson) } else { Ok(()) };
        if trained.as_ref().is_err_and(RspamdError::waits) {
            return trained;
        }
        self.send(fuzzy, lesson)?;
        trained
    }

    fn send(&self, verb: &str, lesson: &Lesson) -> Result<(), RspamdError> {
        let mut request = Request::post(format!("{}/{verb}", self.url));
        if verb.starts_with("fuzzy") {
            request = request.header("Flag", lesson.flag).header("Weight", lesson.weight);
        }
        if let Some(password) = &self.password {
            request = request.header("Password", password);
        }
        let request = request.body(&*lesson.message).map_err(|cause| self.malformed(&cause.to_string()))?;
        let request = self.agent.configure_request(request).timeout_global(Some(self.timeout)).build();
        let mut answer = self.agent.run(request).map_err(|error| self.failure(error))?;
        // The classifier has nothing to learn from a message with too few or too many words. That is not a failure.
        if verb.starts_with("learn") && answer.status() == StatusCode::NO_CONTENT {
            return Ok(());
        }
        self.outcome(answer.status(), answer.body_mut())
    }

    fn outcome(&self, status: StatusCode, body: &mut Body) -> Result<(), RspamdError> {
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(|error| self.failure(error))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_learned = answer.get("success").and_then(Value::as_bool);
        if status.is_success() && is_learned == Some(true) {
            return Ok(());
        }
        let cause = answer.get("error").and_then(Value::as_str);
        // If the classifier has learned the message before, rspamd 3.4 answers with status 404, and later versions with
        // 208.
        if status == StatusCode::ALREADY_REPORTED || cause.is_some_and(|cause| cause.contains(ALREADY_LEARNED)) {
            return Ok(());
        }
        if status.is_success() && is_learned.is_none() && cause.is_none() {
            return Err(self.malformed("expected a JSON object with the field success"));
        }
        let cause = cause.or_else(|| status.canonical_reason()).unwrap_or("no reason given");
        Err(RspamdError::Refused { url: self.url.clone(), status: status.as_u16(), cause: shown(cause) })
    }

    fn failure(&self, error: ureq::Error) -> RspamdError {
        let url = self.url.clone();
        match error.into() {
            NoAnswer::TimedOut => RspamdError::TimedOut { url, timeout: self.timeout },
            NoAnswer::Unreachable(cause) => RspamdError::Unreachable { url, cause },
            NoAnswer::Malformed(cause) => RspamdError::Malformed { url, cause },
        }
    }

    fn malformed(&self, cause: &str) -> RspamdError {
        RspamdError::Malformed { url: self.url.clone(), cause: shown(cause) }
    }
}

impl RspamdError {
    /// Returns true if rspamd did not answer at all, so that other messages need not be tried.
    #[must_use]
    pub const fn is_down(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Malformed { .. })
    }

    /// Returns true if rspamd may learn the message later. This includes a message that was refused because of a wrong
    /// password: the operator can correct the password.
    #[must_use]
    pub const fn waits(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 401 | 403 | 408 | 429 | 500..),
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Malformed { .. } => true,
            Self::Address(_) | Self::Password => false,
        }
    }
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Starts a controller whose classifier answers with this status and body, and whose fuzzy storage learns
    /// everything. Returns a client, and the paths of the requests.
    fn controller(status: u16, body: &'static str) -> (Rspamd, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, paths) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let path = request(&stream);
                let is_fuzzy = path.starts_with("/fuzzy");
                let (status, body) = if is_fuzzy { (200, "{\"success\":true}") } else { (status, body) };
                let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
                sender.send(path).unwrap();
                write!(&stream, "HTTP/1.1 {status} Scripted\r\n{length}Connection: close\r\n\r\n{body}").unwrap();
            }
        });
        (Rspamd::new(&url, None, Duration::from_secs(30)).unwrap(), paths)
    }

    /// Reads a request. Returns its path.
    fn request(stream: &TcpStream) -> String {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0);
        }
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        reader.read_exact(&mut vec![0; length.unwrap()]).unwrap();
        head.split(' ').nth(1).unwrap().to_owned()
    }

    fn lesson() -> Lesson {
        Lesson { message: b"Subject: x\n\ntext".to_vec(), flag: 1, weight: 10, trains_bayes: true }
    }

    /// An earlier version did not send a message to the fuzzy storage if the classifier had not learned it.
    #[test]
    fn the_fuzzy_storage_learns_a_message_that_the_classifier_refuses() {
        for (status, body, is_learned) in [(204, "", true), (404, "{\"error\":\"no\"}", false)] {
            let (rspamd, paths) = controller(status, body);
            let taught = rspamd.teach(ClaimKind::Report, &lesson());
            assert_eq!(taught.is_ok(), is_learned, "{status}: {taught:?}");
            assert_eq!(paths.try_iter().collect::<Vec<_>>(), ["/learnspam", "/fuzzyadd"], "{status}");
        }
    }

    #[test]
    fn a_message_that_the_classifier_may_learn_later_is_not_added_to_the_fuzzy_storage() {
        let (rspamd, paths) = controller(500, "{\"error\":\"busy\"}");
        assert!(rspamd.teach(ClaimKind::Report, &lesson()).unwrap_err().waits());
        assert_eq!(paths.try_iter().collect::<Vec<_>>(), ["/learnspam"]);
    }

    #[test]
    fn a_malformed_answer_does_not_mean_that_rspamd_is_down() {
        let (rspamd, _paths) = controller(200, "[]");
        let error = rspamd.teach(ClaimKind::Report, &lesson()).unwrap_err();
        assert!(matches!(error, RspamdError::Malformed { .. }) && error.waits() && !error.is_down(), "{error:?}");
    }
}
