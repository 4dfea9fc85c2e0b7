//! Request bodies and the messages in them.
//!
//! Memory for a body is reserved as the body arrives, from a pool shared by all bodies. So bodies cannot exceed the
//! pool, however many, long or slow they are.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bruit_protocols::http::{JSON, SUBJECT_BYTES_MAX, Subject};
use bruit_signatures::bruit::Features;
use bruit_signatures::{Context, Scheme, Signed, Wanted, mailing_list, sender, sign};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::Http;
use super::caller::Caller;
use super::fault::Fault;
use crate::config::Settings;
use crate::service::Limited;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum length of an administrative request.
pub(super) const SMALL_BYTES_MAX: usize = 64 << 10;

/// The media types of a raw message.
const MESSAGES: [&str; 3] = ["message/rfc822", "text/plain", "application/octet-stream"];

/// The purpose for which a message's signatures are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Check,
    Claim,
    /// A count of recipients.
    Count,
}

/// The message or the signatures that a request is about.
pub(super) struct RequestSubject {
    pub(super) signed: Signed,
    pub(super) sender: Option<String>,
    pub(super) list: Option<String>,
    /// The permits for the memory of the body.
    _permits: Vec<OwnedSemaphorePermit>,
}

/// A body in memory, and the permits for it.
pub(super) struct ReceivedBody {
    bytes: Vec<u8>,
    is_message: bool,
    permits: Vec<OwnedSemaphorePermit>,
}

/// Reads the body of a request about a message: JSON, or the message itself.
pub(super) async fn read_subject(http: &Http, caller: &Caller, request: Request) -> Result<ReceivedBody, Fault> {
    let (parts, body) = request.into_parts();
    let media = media_type(&parts.headers);
    let is_message = MESSAGES.contains(&&*media);
    let limit = caller.settings.http.body_bytes_max;
    let bytes_max = match &*media {
        JSON => limit.min(SUBJECT_BYTES_MAX),
        _ if is_message => limit,
        _ => {
            return Err(Fault::media(format!(
                "unsupported Content-Type: expected {JSON} for a subject, or {} for a message",
                MESSAGES.join(", ")
            )));
        }
    };
    if is_message {
        caller.take(Limited::Costly, &http.service)?;
    }
    let bodies = if caller.is_stranger() { &http.strangers_bodies } else { &http.bodies };
    let (bytes, permits) = collect(body, bytes_max, bodies).await?;
    Ok(ReceivedBody { bytes, is_message, permits })
}

/// Reads a short JSON body.
pub(super) async fn read_json<T: DeserializeOwned>(http: &Http, request: Request) -> Result<T, Fault> {
    let (parts, body) = request.into_parts();
    if media_type(&parts.headers) != JSON {
        return Err(Fault::media(format!("unsupported Content-Type: expected {JSON}")));
    }
    let (bytes, _permits) = collect(body, SMALL_BYTES_MAX, &http.bodies).await?;
    serde_json::from_slice(&bytes).map_err(Fault::malformed)
}

/// Maximum number of text features of a cheap lookup. Most messages have fewer.
const FEATURES_MANY: usize = 4_096;

impl RequestSubject {
    /// If the text is expensive to look up, calls `admit` and returns its result.
    pub(super) fn ensure_short(&self, admit: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        let count = self.signed.features.as_ref().map_or(0, Features::len);
        if count > FEATURES_MANY { admit() } else { Ok(()) }
    }
}

impl ReceivedBody {
    /// Creates a body that was read already: a message, or JSON.
    pub(super) const fn new(bytes: Vec<u8>, is_message: bool, permits: Vec<OwnedSemaphorePermit>) -> Self {
        Self { bytes, is_message, permits }
    }

    /// Parses the body. If the body is a message, computes the message's signatures.
    pub(super) fn asked(self, purpose: Purpose, settings: &Settings) -> Result<RequestSubject, Fault> {
        if self.is_message {
            return Ok(RequestSubject { _permits: self.permits, ..of_message(&self.bytes, purpose, settings) });
        }
        let subject: Subject = serde_json::from_slice(&self.bytes).map_err(Fault::malformed)?;
        let signed = subject.signed().map_err(Fault::malformed)?;
        Ok(RequestSubject { signed, sender: subject.sender, list: subject.list, _permits: self.permits })
    }
}

/// Computes the subject that a client would send for `message`.
fn of_message(message: &[u8], purpose: Purpose, settings: &Settings) -> RequestSubject {
    let is_check = purpose == Purpose::Check;
    let wanted = match purpose {
        Purpose::Check => Wanted { url: false, razor_pieces: false, ..Wanted::ALL },
        Purpose::Claim => Wanted { url: false, dcc: false, ..Wanted::ALL },
        Purpose::Count => Wanted { dcc: true, ..Wanted::NONE },
    };
    let ep4 = settings.razor.ep4.first().cloned().unwrap_or_default();
    let mut signed = sign(message, &wanted, &Context { ep4, ..Context::default() });
    signed.signatures.retain(|signature| match signature.scheme() {
        Scheme::RazorE8 => is_check,
        Scheme::DccFrom | Scheme::DccMessageId | Scheme::DccReceived => false,
        _ => true,
    });
    let names_source = purpose != Purpose::Claim;
    RequestSubject {
        signed,
        sender: names_source.then(|| sender::of(message)).flatten(),
        list: names_source.then(|| mailing_list::of(message)).flatten(),
        _permits: Vec::new(),
    }
}

/// Returns the media type in lower case, without parameters.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) async fn collect(
    body: Body,
    bytes_max: usize,
    bodies: &std::sync::Arc<Semaphore>,
) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Fault> {
    let (mut body, mut bytes, mut permits) = (body, Vec::new(), Vec::new());
    let read = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Fault::malformed("incomplete body"))?;
            // Skip trailers.
            let Ok(data) = frame.into_data() else { continue };
            take(&data, bytes_max, &mut bytes, &mut permits, bodies)?;
        }
        Ok(())
    };
    timeout(BODY_TIMEOUT, read).await.map_err(|_| Fault::too_slow())??;
    Ok((bytes, permits))
}

fn take(
    data: &Bytes,
    bytes_max: usize,
    bytes: &mut Vec<u8>,
    permits: &mut Vec<OwnedSemaphorePermit>,
    bodies: &std::sync::Arc<Semaphore>,
) -> Result<(), Fault> {
    if bytes.len() + data.len() > bytes_max {
        return Err(Fault::too_long(bytes_max));
    }
    let count = u32::try_from(data.len()).map_err(|_| Fault::too_long(bytes_max))?;
    let permit = std::sync::Arc::clone(bodies).try_acquire_many_owned(count);
    let permit = permit.map_err(|_| Fault::busy("too many long requests in progress: try again"))?;
    match permits.first_mut() {
        Some(first) => first.merge(permit),
        None => permits.push(permit),
    }
    bytes.extend_from_slice(data);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;

    fn collected(length: usize, bytes_max: usize, room: usize) -> Result<usize, String> {
        let bodies = Arc::new(Semaphore::new(room));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(collect(Body::from(vec![b'x'; length]), bytes_max, &bodies));
        let length = result.map(|(bytes, permits)| {
            assert_eq!(bodies.available_permits(), room - bytes.len());
            drop(permits);
            bytes.len()
        });
        assert_eq!(bodies.available_permits(), room, "all permits are returned");
        length.map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn a_body_is_read_up_to_its_bound_and_within_what_all_may_hold() {
        assert_eq!(collected(10, 10, 100), Ok(10));
        assert!(collected(11, 10, 100).unwrap_err().contains("413"));
        assert_eq!(collected(10, 10, 10), Ok(10));
        assert!(collected(10, 10, 9).unwrap_err().contains("503"));
    }

    #[test]
    fn a_claim_leaves_out_what_innocent_mail_shares() {
        let message = b"From: a@example.org\nContent-Type: multipart/mixed; boundary=X\n\n--X\n\nSee \
            http://shop.example.com/ for genuine watches.\n--X\nContent-Type: image/png\n\nimage\n--X--\n";
        let settings = Config::default().settings;
        let schemes = |purpose| {
            let asked = of_message(message, purpose, &settings);
            let mut schemes: Vec<&str> = asked.signed.signatures.iter().map(|found| found.scheme().name()).collect();
            schemes.sort_unstable();
            schemes.dedup();
            (schemes, asked.sender.is_some(), asked.signed.features.is_some())
        };
        let check = vec!["attachment", "dcc_body", "dcc_fuz1", "exact", "pyzor", "razor_e4", "razor_e8"];
        assert_eq!(schemes(Purpose::Check), (check, true, true));
        assert_eq!(schemes(Purpose::Count), (vec!["dcc_body", "dcc_fuz1"], true, false));
        assert_eq!(schemes(Purpose::Claim), (vec!["attachment", "exact", "pyzor", "razor_e4"], false, true));
    }
}
