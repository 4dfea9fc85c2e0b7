//! A connection: what may be said when, and who says it.
//!
//! ```text
//! receive(bytes) ─► next_action() ─► None: more bytes are needed, or an answer
//!                                    Some(Reply | Close): do it
//!                                    Some(Check | Report | …): find out, then answer(replies)
//!                                    Some(Pause): wait for BLOB_PAUSE, receiving what comes, then resume()
//! ```
//!
//! One thing at a time: until a question is answered there is no other action. What a client sends meanwhile waits, but
//! behind a blob it ends the conversation.

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

/// How long the reply to a blob waits, so that what was smuggled behind it shows itself. A client that has to wait for
/// less than its time-out does not notice.
pub const BLOB_PAUSE: Duration = Duration::from_millis(50);

/// What is to be done for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this, in one go.
    Reply(Vec<u8>),
    /// Say what is thought of each signature: [`Reply::Spam`] or [`Reply::NotSpam`].
    Check(Vec<Signature>),
    /// Take a report of each signature for the user, with [`Reply::Done`], or ask for the parts with
    /// [`ErrorCode::BODY_WANTED`].
    Report(Vec<E4Signature>),
    /// Take a report of a mail with these parts, with one reply.
    ReportBodies(ReportedParts),
    /// Take a revocation of each signature.
    Revoke(Vec<Signature>),
    /// Make an account, under a name and password of the server's choice where none is given:
    /// [`Reply::Registered`].
    Register {
        /// The name that is wished for.
        user: Option<Vec<u8>>,
        /// The password that is wished for.
        password: Option<Vec<u8>>,
    },
    /// Draw a challenge for this user: [`Reply::Challenge`], or [`ErrorCode::UNKNOWN_USER`].
    Challenge {
        /// The name.
        user: Vec<u8>,
    },
    /// See whether the response proves the user's password: [`Reply::Done`] or [`Reply::Refused`].
    Verify {
        /// The name.
        user: Vec<u8>,
        /// What was drawn.
        challenge: Vec<u8>,
        /// What the client made of it.
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
    /// Whether nothing has come yet: only then a client greets.
    is_first: bool,
    /// Whether something came that no client of Razor sends.
    is_foreign: bool,
    /// Whether a blob has come: then only blobs may follow.
    is_after_blob: bool,
    phase: Phase,
}

/// Whom the connection speaks for.
#[derive(Debug, Default)]
enum Identity {
    #[default]
    Nobody,
    /// Perhaps this user, who has to answer the challenge.
    Claimed { user: Vec<u8>, challenge: Vec<u8> },
    /// This user.
    Proven { user: Vec<u8> },
}

/// What the conversation waits for.
#[derive(Debug)]
enum Phase {
    /// A frame.
    Reading,
    /// Answers of the caller.
    Asked(Question),
    /// The end of a pause, with the blob it is for.
    Paused(Vec<u8>),
    /// That the caller takes the parts of a blob.
    Resumed(Vec<u8>),
    /// That the caller takes a reply, the last one or not.
    Replying { bytes: Vec<u8>, is_last: bool },
    /// That the caller closes.
    Closing,
    /// Nothing any more.
    Closed,
}

/// What the caller was asked.
#[derive(Debug)]
struct Question {
    subject: Subject,
    form: Form,
    /// The answers so far: `None` where the caller is to say.
    slots: Vec<Option<Reply>>,
}

/// What the answers mean for the conversation.
#[derive(Debug)]
enum Subject {
    /// Nothing.
    Other,
    /// Whether parts are wanted.
    Report { announced: Vec<E4Signature>, ep4: Ep4 },
    /// Which challenge a user gets.
    Challenge { user: Vec<u8> },
    /// Whether a user has proven to be it.
    Verify { user: Vec<u8> },
    /// That a blob was taken.
    Bodies,
}

/// How a reply is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Single,
    Batch,
}

/// A frame, taken apart.
enum Received {
    Single(Result<Request, ErrorCode>),
    Batch(Vec<Result<Request, ErrorCode>>),
    Blob(Result<Request, ErrorCode>, Vec<u8>),
    /// Something that no client sends.
    Foreign,
}

impl Conversation {
    /// A conversation that has not begun. The greeting, [`Terms::greeting`], is for the caller to write.
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

    /// Whom the connection has proven to speak for.
    #[must_use]
    pub fn user(&self) -> Option<&[u8]> {
        match &self.identity {
            Identity::Proven { user } => Some(user),
            Identity::Nobody | Identity::Claimed { .. } => None,
        }
    }

    /// Whether a request has begun to come in: it should not take long.
    #[must_use]
    pub fn is_within_request(&self) -> bool {
        matches!(self.phase, Phase::Reading) && self.decoder.has_more()
    }

    /// Bytes of memory that what came in takes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let blob = match &self.phase {
            Phase::Paused(blob) | Phase::Resumed(blob) => blob.capacity(),
            _ => 0,
        };
        self.decoder.held_bytes() + blob
    }

    /// Ends the conversation because there is no room for what comes in, and says so.
    pub fn give_up(&mut self) {
        self.reply(Form::Single, &[Reply::Error(ErrorCode::LIMITED)], true);
    }

    /// Takes bytes that came in, at most [`RECEIVE_BYTES_MAX`](super::RECEIVE_BYTES_MAX). A caller that goes on while
    /// actions wait has them dropped, and the conversation ended, before they take up much memory.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.decoder.receive(bytes);
    }

    /// Whether it ended because something came that no client of Razor sends.
    #[must_use]
    pub const fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// What is to be done next; nothing as long as bytes or answers are missing.
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

    /// Answers the action that asked: a reply for each thing that was asked about, in order. Those that are missing
    /// are answered as [`ErrorCode::UNAVAILABLE`].
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
        let (subject, form) = (mem::replace(subject, Subject::Other), *form);
        let replies: Vec<_> = slots.iter_mut().filter_map(Option::take).collect();
        let is_last = self.learn(subject, &asked);
        self.reply(form, &replies, is_last);
    }

    /// Goes on after a pause.
    pub fn resume(&mut self) {
        if let Phase::Paused(blob) = &mut self.phase {
            self.phase = Phase::Resumed(mem::take(blob));
        }
    }

    /// Looks at what came in. `None`: not enough. `Some(None)`: go on.
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
            // Of nobody a blob is not even read.
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

    /// Ends without a word, as whoever is there does not speak Razor.
    fn reject(&mut self) -> Option<Action> {
        self.is_foreign = true;
        self.close()
    }

    /// Ends without a word.
    fn close(&mut self) -> Option<Action> {
        self.phase = Phase::Closed;
        Some(Action::Close)
    }

    /// Says why, and ends.
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

    /// A single request.
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
                return self.ask(Subject::Other, Form::Single, vec![None], Action::Register { user, password });
            }
            Request::Identify { user } => {
                let subject = Subject::Challenge { user: user.clone() };
                return self.ask(subject, Form::Single, vec![None], Action::Challenge { user });
            }
            Request::Authenticate { response } => return self.authenticate(response),
            Request::Check(_) | Request::Report { .. } | Request::Revoke(_) => {
                return self.handle_alike(Form::Single, vec![Ok(request)]);
            }
            // Outside of a blob there are no bodies.
            Request::ReportBodies | Request::Quit => return self.answer_at_once(ErrorCode::OUT_OF_PLACE),
        }
        None
    }

    fn answer_at_once(&mut self, code: ErrorCode) -> Option<Action> {
        self.reply(Form::Single, &[Reply::Error(code)], false);
        None
    }

    fn ask(&mut self, subject: Subject, form: Form, slots: Vec<Option<Reply>>, action: Action) -> Option<Action> {
        self.phase = Phase::Asked(Question { subject, form, slots });
        Some(action)
    }

    /// A challenge is good for one response.
    fn authenticate(&mut self, response: Vec<u8>) -> Option<Action> {
        let Identity::Claimed { user, challenge } = mem::take(&mut self.identity) else {
            return self.answer_at_once(ErrorCode::OUT_OF_PLACE);
        };
        let subject = Subject::Verify { user: user.clone() };
        self.ask(subject, Form::Single, vec![None], Action::Verify { user, challenge, response })
    }

    fn handle_batch(&mut self, requests: Vec<Result<Request, ErrorCode>>) -> Option<Action> {
        if requests.len() > BATCH_LINES_MAX {
            return self.refuse(Reply::Error(ErrorCode::MALFORMED));
        }
        self.handle_alike(Form::Batch, requests)
    }

    /// Checks, reports or revocations. All are of the kind of the first that can be read; no client mixes them.
    fn handle_alike(&mut self, form: Form, requests: Vec<Result<Request, ErrorCode>>) -> Option<Action> {
        let first = requests.iter().find_map(|request| request.as_ref().ok());
        let (slots, subject, action) = match first {
            Some(Request::Check(_)) => self.checks(requests),
            Some(Request::Report { .. }) => self.reports(requests),
            Some(Request::Revoke(_)) => self.revocations(requests),
            _ => (requests.into_iter().map(refusal).collect(), Subject::Other, None),
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
        (slots, Subject::Other, (!signatures.is_empty()).then_some(Action::Check(signatures)))
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
        (slots, Subject::Other, (!signatures.is_empty()).then_some(Action::Revoke(signatures)))
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
        (slots, Subject::Report { announced, ep4: common.unwrap_or(current) }, action)
    }

    /// A blob has come: nothing is done with it before what may follow it had time to come.
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

    /// Asks the caller to take the parts of a blob, if nothing followed it and it is what was announced.
    fn take_blob(&mut self, blob: &[u8]) -> Option<Action> {
        if self.decoder.has_more() {
            return self.refuse(Reply::Refused);
        }
        match self.announced.take(blob, self.terms.epochs()) {
            Ok(parts) => self.ask(Subject::Bodies, Form::Single, vec![None], Action::ReportBodies(parts)),
            Err(_) => self.refuse(Reply::Refused),
        }
    }

    /// What the answers mean for what comes next. True if nothing must come next.
    fn learn(&mut self, subject: Subject, asked: &[Reply]) -> bool {
        match (subject, asked) {
            (Subject::Report { announced, ep4 }, _) => {
                for (e4, reply) in announced.into_iter().zip(asked) {
                    let is_wanted = *reply == Reply::Error(ErrorCode::BODY_WANTED);
                    if is_wanted || *reply == Reply::Done {
                        self.announced.add(e4, &ep4, is_wanted);
                    }
                }
            }
            (Subject::Challenge { user }, [Reply::Challenge(challenge)]) => {
                self.identity = Identity::Claimed { user, challenge: challenge.clone() };
            }
            (Subject::Challenge { .. }, _) => self.identity = Identity::Nobody,
            (Subject::Verify { user }, [Reply::Done]) => self.identity = Identity::Proven { user },
            (Subject::Bodies, _) => {
                self.is_after_blob = true;
                return self.decoder.has_more();
            }
            (Subject::Other | Subject::Verify { .. }, _) => {}
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

/// What is answered at once, what the answers of the caller mean, and what it is asked.
type Asked = (Vec<Option<Reply>>, Subject, Option<Action>);

/// The answer to a request that is not of the kind of its batch.
fn refusal(request: Result<Request, ErrorCode>) -> Option<Reply> {
    Some(Reply::Error(request.err().unwrap_or(ErrorCode::OUT_OF_PLACE)))
}
