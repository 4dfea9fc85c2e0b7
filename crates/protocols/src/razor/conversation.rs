//! The server's side of a connection: the order of requests and the identity of the client.
//!
//! ```text
//! receive(bytes) ─► next_action() ─► None: more bytes or an answer needed
//!                                    Some(Reply | Close): do it
//!                                    Some(Check | Report | …): decide, then answer(replies)
//!                                    Some(Pause): wait for BLOB_PAUSE, receive any bytes, then resume()
//! ```
//!
//! Actions are sequential: a conversation returns the next action after it has received the answer to the previous one.
//! Bytes that arrive from the client before that answer are buffered. After a blob, such bytes end the conversation.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bruit_signatures::razor::{E4Signature, Ep4};

use super::Signature;
use super::blob::{Announced, ReportedParts};
use super::frame::{BATCH_LINES_MAX, Decoder, Frame};
use super::grammar;
use super::reply::{self, ErrorCode, Reply};
use super::request::{self, Request};
use super::terms::{ServerList, Terms};

/// Delay before a blob is processed, to detect requests smuggled in after it. The delay is shorter than the timeout of
/// the clients, so they do not notice it.
pub const BLOB_PAUSE: Duration = Duration::from_millis(50);

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write these bytes with a single write.
    Reply(Vec<u8>),
    /// Answer a check of each signature with [`Reply::Spam`] or [`Reply::NotSpam`].
    Check(Vec<Signature>),
    /// Accept the user's report of each signature with [`Reply::Done`], or request the parts with
    /// [`ErrorCode::BODY_WANTED`].
    Report(Vec<E4Signature>),
    /// Accept a report of a mail with these parts. The answer is a single reply.
    ReportBodies(ReportedParts),
    /// Accept a revocation of each signature.
    Revoke(Vec<Signature>),
    /// Create an account and answer with [`Reply::Registered`]. Choose a name or password if it is absent.
    Register {
        /// Requested name.
        user: Option<Vec<u8>>,
        /// Requested password.
        password: Option<Vec<u8>>,
    },
    /// Create a challenge for this user. Answer with [`Reply::Challenge`] or [`ErrorCode::UNKNOWN_USER`].
    Challenge {
        /// User name.
        user: Vec<u8>,
    },
    /// Verify that the response proves the user's password. Answer with [`Reply::Done`] or [`Reply::Refused`].
    Verify {
        /// User name.
        user: Vec<u8>,
        /// The challenge that was sent.
        challenge: Vec<u8>,
        /// The client's response.
        response: Vec<u8>,
    },
    /// Wait for [`BLOB_PAUSE`].
    Pause,
    /// Close the connection.
    Close,
}

/// The server's side of one connection.
#[derive(Debug)]
pub struct Conversation {
    terms: Arc<Terms>,
    servers: ServerList,
    decoder: Decoder,
    identity: Identity,
    announced: Announced,
    /// True until the first frame has been received, because only the first frame may be a greeting.
    is_first: bool,
    /// True if bytes arrived that no Razor client sends.
    is_foreign: bool,
    /// True after a blob, when only further blobs are allowed.
    is_after_blob: bool,
    phase: Phase,
}

/// The user on whose behalf the connection makes requests.
#[derive(Debug, Default)]
enum Identity {
    #[default]
    Nobody,
    /// A user whose challenge has not been answered yet.
    Claimed { user: Vec<u8>, challenge: Vec<u8> },
    /// An authenticated user.
    Proven { user: Vec<u8> },
}

/// The event that the conversation waits for.
#[derive(Debug)]
enum Phase {
    /// A frame.
    Reading,
    /// Answers from the caller.
    Asked(Question),
    /// The end of a pause. The blob will be processed after it.
    Paused(Vec<u8>),
    /// The next call of `next_action`, which processes the blob.
    Resumed(Vec<u8>),
    /// The next call of `next_action`, which returns the reply.
    Replying { bytes: Vec<u8>, is_last: bool },
    /// The next call of `next_action`, which returns [`Action::Close`].
    Closing,
    /// Nothing: the conversation is over.
    Closed,
}

/// A question to the caller.
#[derive(Debug)]
struct Question {
    subject: Effect,
    form: Form,
    /// For each request, the answer, or `None` if the caller has to answer it.
    slots: Vec<Option<Reply>>,
}

/// The effect of the answers on the conversation.
#[derive(Debug)]
enum Effect {
    /// No effect.
    Other,
    /// The answers determine which parts are requested.
    Report { announced: Vec<E4Signature>, ep4: Ep4 },
    /// The answer determines the user's challenge.
    Challenge { user: Vec<u8> },
    /// The answer determines whether the user is authenticated.
    Verify { user: Vec<u8> },
    /// From now on, only further blobs are allowed, regardless of the answer.
    Bodies,
}

/// Form of a reply.
#[derive(Clone, Copy, Debug)]
enum Form {
    Single,
    Batch,
}

/// A parsed frame.
enum Received {
    Single(Result<Request, ErrorCode>),
    Batch(Vec<Result<Request, ErrorCode>>),
    Blob(Result<Request, ErrorCode>, Vec<u8>),
    /// A frame that no client sends.
    Foreign,
}

impl Conversation {
    /// Creates a conversation. The caller sends the greeting, [`Terms::greeting`].
    #[must_use]
    pub fn new(terms: Arc<Terms>, servers: ServerList) -> Self {
        Self {
            terms,
            servers,
            decoder: Decoder::default(),
            identity: Identity::Nobody,
            announced: Announced::default(),
            is_first: true,
            is_foreign: false,
            is_after_blob: false,
            phase: Phase::Reading,
        }
    }

    /// Returns the authenticated user.
    #[must_use]
    pub fn user(&self) -> Option<&[u8]> {
        match &self.identity {
            Identity::Proven { user } => Some(user),
            Identity::Nobody | Identity::Claimed { .. } => None,
        }
    }

    /// Returns true if part of a request has been received. The rest should arrive soon.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        matches!(self.phase, Phase::Reading) && self.decoder.has_more()
    }

    /// Returns the memory used for received bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let blob = match &self.phase {
            Phase::Paused(blob) | Phase::Resumed(blob) => blob.capacity(),
            _ => 0,
        };
        self.decoder.held_bytes() + blob
    }

    /// Ends the conversation with an error reply, because the server lacks memory.
    pub fn give_up(&mut self) {
        self.reply(Form::Single, &[Reply::Error(ErrorCode::LIMITED)], true);
    }

    /// Buffers received bytes, at most [`RECEIVE_BYTES_MAX`](super::RECEIVE_BYTES_MAX) per call. If too many bytes
    /// arrive while actions are pending, drops them and ends the conversation. This bounds the memory.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.receive(bytes);
    }

    /// Returns true if the conversation ended because of bytes that no Razor client sends.
    #[must_use]
    pub const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Returns the next action, or `None` if more bytes or answers are needed.
    pub fn next_action(&mut self) -> Option<Action> {
        loop {
            match mem::replace(&mut self.phase, Phase::Closed) {
                Phase::Reading => {
                    self.phase = Phase::Reading;
                    if let Some(action) = self.read()? {
                        return Some(action);
                    }
                }
                Phase::Resumed(blob) => {
                    if let Some(action) = self.take_blob(&blob) {
                        return Some(action);
                    }
                }
                Phase::Replying { bytes, is_last } => {
                    self.phase = if is_last { Phase::Closing } else { Phase::Reading };
                    return Some(Action::Reply(bytes));
                }
                Phase::Closing => return Some(Action::Close),
                waiting @ (Phase::Asked(_) | Phase::Paused(_) | Phase::Closed) => {
                    self.phase = waiting;
                    return None;
                }
            }
        }
    }

    /// Answers the pending action with one reply per item, in order. Missing replies become [`ErrorCode::UNAVAILABLE`].
    pub fn answer(&mut self, replies: impl IntoIterator<Item = Reply>) {
        let Phase::Asked(Question { subject, form, slots }) = &mut self.phase else { return };
        let mut given = replies.into_iter();
        let missing = Reply::Error(ErrorCode::UNAVAILABLE);
        let mut asked = Vec::new();
        for slot in slots.iter_mut().filter(|slot| slot.is_none()) {
            let reply = given.next().unwrap_or_else(|| missing.clone());
            asked.push(reply.clone());
            *slot = Some(reply);
        }
        let (subject, form) = (mem::replace(subject, Effect::Other), *form);
        let replies: Vec<_> = slots.iter_mut().filter_map(Option::take).collect();
        let is_last = self.learn(subject, &asked);
        self.reply(form, &replies, is_last);
    }

    /// Continues after a pause.
    pub fn resume(&mut self) {
        if let Phase::Paused(blob) = &mut self.phase {
            self.phase = Phase::Resumed(mem::take(blob));
        }
    }

    /// Reads and handles the next frame. Returns `None` if it is incomplete, and `Some(None)` if it requires no action.
    fn read(&mut self) -> Option<Option<Action>> {
        if self.decoder.beginning().is_some_and(|bytes| !grammar::may_begin(bytes)) {
            return Some(self.reject());
        }
        let received = self.decoder.next().map(|frame| frame.map(Received::of));
        self.decoder.shrink();
        let is_first = match &received {
            Ok(Some(_)) => mem::take(&mut self.is_first),
            _ => self.is_first,
        };
        Some(match received {
            Ok(Some(Received::Foreign)) => self.reject(),
            Ok(Some(Received::Single(Ok(Request::Greeting)))) if !is_first => self.reject(),
            // Do not even receive a blob from an unauthenticated client.
            Ok(None) if self.decoder.is_in_blob() && self.user().is_none() => {
                self.refuse(Reply::Error(ErrorCode::NOT_AUTHENTICATED))
            }
            Ok(None) => return None,
            Err(_) => self.refuse(Reply::Error(ErrorCode::MALFORMED)),
            Ok(Some(Received::Blob(request, bytes))) => self.pause(request, bytes),
            Ok(Some(Received::Single(Ok(Request::Quit)))) => self.close(),
            Ok(Some(_)) if self.is_after_blob => self.refuse(Reply::Error(ErrorCode::OUT_OF_PLACE)),
            Ok(Some(Received::Single(request))) => self.handle(request),
            Ok(Some(Received::Batch(requests))) => self.handle_batch(requests),
        })
    }

    /// Ends without a reply, because the client does not speak Razor.
    fn reject(&mut self) -> Option<Action> {
        self.is_foreign = true;
        self.close()
    }

    /// Ends without a reply.
    fn close(&mut self) -> Option<Action> {
        self.phase = Phase::Closed;
        Some(Action::Close)
    }

    /// Ends with a final reply that states the reason.
    fn refuse(&mut self, reply: Reply) -> Option<Action> {
        self.reply(Form::Single, &[reply], true);
        None
    }

    fn reply(&mut self, form: Form, replies: &[Reply], is_last: bool) {
        let bytes = match (form, replies) {
            (Form::Single, [reply]) => reply::single(reply),
            _ => reply::batch(replies),
        };
        self.phase = Phase::Replying { bytes, is_last };
    }

    fn reply_with(&mut self, bytes: Vec<u8>) {
        self.phase = Phase::Replying { bytes, is_last: false };
    }

    /// Handles a single request.
    fn handle(&mut self, request: Result<Request, ErrorCode>) -> Option<Action> {
        let request = match request {
            Ok(request) => request,
            Err(code) => return self.answer_at_once(code),
        };
        match request {
            Request::Greeting => {}
            Request::State => self.reply_with(self.terms.state().to_vec()),
            Request::CatalogueServers => self.reply_with(self.servers.encode("csl")),
            Request::NominationServers => self.reply_with(self.servers.encode("nsl")),
            Request::Register { user, password } => {
                return self.ask(Effect::Other, Form::Single, vec![None], Action::Register { user, password });
            }
            Request::Identify { user } => {
                let subject = Effect::Challenge { user: user.clone() };
                return self.ask(subject, Form::Single, vec![None], Action::Challenge { user });
            }
            Request::Authenticate { response } => return self.authenticate(response),
            Request::Check(_) | Request::Report { .. } | Request::Revoke(_) => {
                return self.handle_alike(Form::Single, vec![Ok(request)]);
            }
            // Bodies are only valid in a blob.
            Request::ReportBodies | Request::Quit => return self.answer_at_once(ErrorCode::OUT_OF_PLACE),
        }
        None
    }

    fn answer_at_once(&mut self, code: ErrorCode) -> Option<Action> {
        self.reply(Form::Single, &[Reply::Error(code)], false);
        None
    }

    fn ask(&mut self, subject: Effect, form: Form, slots: Vec<Option<Reply>>, action: Action) -> Option<Action> {
        self.phase = Phase::Asked(Question { subject, form, slots });
        Some(action)
    }

    /// Authenticates a user. A challenge is valid for one response.
    fn authenticate(&mut self, response: Vec<u8>) -> Option<Action> {
        let Identity::Claimed { user, challenge } = mem::take(&mut self.identity) else {
            return self.answer_at_once(ErrorCode::OUT_OF_PLACE);
        };
        let subject = Effect::Verify { user: user.clone() };
        self.ask(subject, Form::Single, vec![None], Action::Verify { user, challenge, response })
    }

    fn handle_batch(&mut self, requests: Vec<Result<Request, ErrorCode>>) -> Option<Action> {
        if requests.len() > BATCH_LINES_MAX {
            return self.refuse(Reply::Error(ErrorCode::MALFORMED));
        }
        self.handle_alike(Form::Batch, requests)
    }

    /// Handles checks, reports or revocations. The first valid request determines the kind of the batch, because no
    /// client mixes kinds.
    fn handle_alike(&mut self, form: Form, requests: Vec<Result<Request, ErrorCode>>) -> Option<Action> {
        let first = requests.iter().find_map(|request| request.as_ref().ok());
        let (slots, subject, action) = match first {
            Some(Request::Check(_)) => self.checks(requests),
            Some(Request::Report { .. }) => self.reports(requests),
            Some(Request::Revoke(_)) => self.revocations(requests),
            _ => (requests.into_iter().map(refusal).collect(), Effect::Other, None),
        };
        if let Some(action) = action {
            return self.ask(subject, form, slots, action);
        }
        let replies: Vec<_> = slots.into_iter().flatten().collect();
        self.reply(form, &replies, false);
        None
    }

    fn checks(&self, requests: Vec<Result<Request, ErrorCode>>) -> Asked {
        let mut signatures = Vec::with_capacity(requests.len());
        let slot = |request| match request {
            Ok(Request::Check(signature)) => {
                signatures.push(signature);
                None
            }
            other => refusal(other),
        };
        let slots = requests.into_iter().map(slot).collect();
        (slots, Effect::Other, (!signatures.is_empty()).then_some(Action::Check(signatures)))
    }

    fn revocations(&self, requests: Vec<Result<Request, ErrorCode>>) -> Asked {
        let is_known = self.user().is_some();
        let mut signatures = Vec::with_capacity(requests.len());
        let slot = |request| match request {
            Ok(Request::Revoke(_)) if !is_known => Some(Reply::Error(ErrorCode::NOT_AUTHENTICATED)),
            Ok(Request::Revoke(signature)) => {
                signatures.push(signature);
                None
            }
            other => refusal(other),
        };
        let slots = requests.into_iter().map(slot).collect();
        (slots, Effect::Other, (!signatures.is_empty()).then_some(Action::Revoke(signatures)))
    }

    fn reports(&self, requests: Vec<Result<Request, ErrorCode>>) -> Asked {
        let is_known = self.user().is_some();
        let current = self.terms.epochs().first().cloned().unwrap_or_default();
        let mut common = None;
        let mut announced = Vec::with_capacity(requests.len());
        let slot = |request| match request {
            Ok(Request::Report { .. }) if !is_known => Some(Reply::Error(ErrorCode::NOT_AUTHENTICATED)),
            Ok(Request::Report { e4, ep4 }) => {
                let ep4 = ep4.unwrap_or_else(|| current.clone());
                let is_common = *common.get_or_insert_with(|| ep4.clone()) == ep4;
                if !is_common || !self.announced.has_room(announced.len() + 1, &ep4) {
                    return Some(Reply::Error(ErrorCode::LIMITED));
                }
                announced.push(e4);
                None
            }
            other => refusal(other),
        };
        let slots = requests.into_iter().map(slot).collect();
        let action = (!announced.is_empty()).then(|| Action::Report(announced.clone()));
        (slots, Effect::Report { announced, ep4: common.unwrap_or(current) }, action)
    }

    /// Delays the processing of a blob, so that anything sent after the blob has time to arrive.
    fn pause(&mut self, request: Result<Request, ErrorCode>, blob: Vec<u8>) -> Option<Action> {
        if self.user().is_none() {
            return self.refuse(Reply::Error(ErrorCode::NOT_AUTHENTICATED));
        }
        if request != Ok(Request::ReportBodies) {
            return self.refuse(Reply::Error(ErrorCode::UNKNOWN_ACTION));
        }
        if self.decoder.has_more() {
            return self.refuse(Reply::Refused);
        }
        self.phase = Phase::Paused(blob);
        Some(Action::Pause)
    }

    /// Asks the caller to accept the parts of a blob. Refuses the blob if anything followed it, or if it does not match
    /// the announcement.
    fn take_blob(&mut self, blob: &[u8]) -> Option<Action> {
        if self.decoder.has_more() {
            return self.refuse(Reply::Refused);
        }
        match self.announced.take(blob, self.terms.epochs()) {
            Ok(parts) => self.ask(Effect::Bodies, Form::Single, vec![None], Action::ReportBodies(parts)),
            Err(_) => self.refuse(Reply::Refused),
        }
    }

    /// Applies the effect of the answers. Returns true if the conversation must end after the reply.
    fn learn(&mut self, subject: Effect, asked: &[Reply]) -> bool {
        match (subject, asked) {
            (Effect::Report { announced, ep4 }, _) => {
                for (e4, reply) in announced.into_iter().zip(asked) {
                    let is_wanted = *reply == Reply::Error(ErrorCode::BODY_WANTED);
                    if is_wanted || *reply == Reply::Done {
                        self.announced.add(e4, &ep4, is_wanted);
                    }
                }
            }
            (Effect::Challenge { user }, [Reply::Challenge(challenge)]) => {
                self.identity = Identity::Claimed { user, challenge: challenge.clone() };
            }
            (Effect::Challenge { .. }, _) => self.identity = Identity::Nobody,
            (Effect::Verify { user }, [Reply::Done]) => self.identity = Identity::Proven { user },
            (Effect::Bodies, _) => {
                self.is_after_blob = true;
                return self.decoder.has_more();
            }
            (Effect::Other | Effect::Verify { .. }, _) => {}
        }
        false
    }
}

impl Received {
    fn of(frame: Frame<'_>) -> Self {
        match frame {
            frame if !grammar::is_frame(&frame) => Self::Foreign,
            Frame::Single(line) => Self::Single(Request::parse(line)),
            Frame::Batch(lines) => Self::Batch(request::batch(lines)),
            Frame::Blob(head, bytes) => Self::Blob(Request::parse(head), bytes.to_vec()),
        }
    }
}

/// Immediate answers, the effect of the caller's answers, and the action for the caller, if there is one.
type Asked = (Vec<Option<Reply>>, Effect, Option<Action>);

/// Returns the error for an invalid request, or for a request whose kind differs from that of its batch.
fn refusal(request: Result<Request, ErrorCode>) -> Option<Reply> {
    Some(Reply::Error(request.err().unwrap_or(ErrorCode::OUT_OF_PLACE)))
}
