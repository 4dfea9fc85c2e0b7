//! One connection of an MTA: turns commands into answers. Uses no sockets and no clock.

use std::net::IpAddr;
use std::sync::Arc;

use bruit_protocols::milter::{Actions, Command, Options, Peer, Reply, Stage, Steps, VERSION, write};

use crate::filter::Filter;
use crate::message::{Draft, Skip};

/// The macros that the milter needs. Both MTAs send them by default, but the milter also requests them.
const MACROS: [(Stage, &str); 3] =
    [(Stage::Mail, "i {auth_authen} {auth_type}"), (Stage::Recipient, "i {rcpt_mailer}"), (Stage::EndOfMessage, "i")];

/// Value of the macro `{rcpt_mailer}` for a recipient that Sendmail or Postfix has refused.
const REFUSED_MAILER: &[u8] = b"error";

/// A function that returns the current settings. It is called for each new message, so that a reload applies to the
/// next one.
pub(crate) type CurrentFilter = dyn Fn() -> Arc<Filter> + Send + Sync;

/// The state of a connection.
pub(crate) struct Session {
    filter: Arc<CurrentFilter>,
    /// The agreed options, after the negotiation.
    options: Option<Options>,
    client: Option<IpAddr>,
    is_authenticated: bool,
    is_refused: bool,
    draft: Option<Draft>,
    /// True from the first header field or piece of a body to the end of the message.
    is_in_content: bool,
}

/// The consequence of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Close,
}

/// A command that is not allowed at this point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SequenceError {
    #[error("a command came before the negotiation, or the negotiation came twice")]
    Negotiation,
    #[error("the MTA offers version {0} of the protocol, which is too old")]
    Version(u32),
    #[error("a recipient or a part of a message came without a sender")]
    NoMessage,
}

impl Session {
    pub(crate) fn new(filter: Arc<CurrentFilter>) -> Self {
        Self {
            filter,
            options: None,
            client: None,
            is_authenticated: false,
            is_refused: false,
            draft: None,
            is_in_content: false,
        }
    }

    /// Returns true if no message is being received.
    pub(crate) const fn is_idle(&self) -> bool {
        self.draft.is_none()
    }

    /// Returns true from the first header field to the end of a message.
    pub(crate) const fn is_in_content(&self) -> bool {
        self.is_in_content
    }

    /// Processes a command and appends the answers.
    ///
    /// # Errors
    /// [`SequenceError`] if the command is not allowed now. The connection is then unusable.
    pub(crate) fn take(&mut self, command: Command<'_>, out: &mut Vec<u8>) -> Result<Next, SequenceError> {
        if matches!(command, Command::Quit) {
            return Ok(Next::Close);
        }
        let Some(options) = self.options else {
            let Command::Negotiate(offer) = command else { return Err(SequenceError::Negotiation) };
            return self.negotiate(offer, out);
        };
        match command {
            Command::Negotiate(_) => return Err(SequenceError::Negotiation),
            Command::Macros { command, macros } => self.note_macros(command, macros),
            Command::Connect { peer, .. } => self.connect(peer, out),
            Command::Helo(_) => answer(out, options, Steps::NO_REPLY_HELO),
            Command::Mail(arguments) => {
                self.begin(arguments.first());
                answer(out, options, Steps::NO_REPLY_MAIL);
            }
            Command::Recipient(arguments) => {
                // The macro applies only to this recipient.
                let is_refused = std::mem::take(&mut self.is_refused);
                self.draft()?.add_recipient(arguments.first(), is_refused);
                answer(out, options, Steps::NO_REPLY_RECIPIENT);
            }
            Command::Data => answer(out, options, Steps::NO_REPLY_DATA),
            Command::Header { name, value } => {
                self.content()?.add_field(name, value, options.steps.has(Steps::LEADING_SPACE));
                answer(out, options, Steps::NO_REPLY_HEADER);
            }
            Command::EndOfHeader => answer(out, options, Steps::NO_REPLY_END_OF_HEADER),
            Command::Body(piece) => {
                self.content()?.add_body(piece);
                answer(out, options, Steps::NO_REPLY_BODY);
            }
            Command::EndOfMessage(piece) => {
                self.content()?.add_body(piece);
                self.finish(options, out);
            }
            Command::Abort => self.reset(),
            Command::QuitNew => {
                self.reset();
                (self.client, self.is_authenticated) = (None, false);
            }
            Command::Unknown(_) => answer(out, options, Steps::NO_REPLY_UNKNOWN),
            Command::Quit => return Ok(Next::Close),
        }
        Ok(Next::Continue)
    }

    fn negotiate(&mut self, offer: Options, out: &mut Vec<u8>) -> Result<Next, SequenceError> {
        let filter = (self.filter)();
        let options = offer.select(wanted(&filter)).ok_or(SequenceError::Version(offer.version))?;
        let macros = if options.actions.has(Actions::SET_MACROS) { &MACROS[..] } else { &[] };
        write(out, &Reply::Negotiated { options, macros });
        if !options.actions.has(Actions::ADD_HEADERS | Actions::CHANGE_HEADERS) {
            tracing::warn!("the MTA does not allow changes of header fields: mail is not tagged");
        }
        self.options = Some(options);
        Ok(Next::Continue)
    }

    fn note_macros(&mut self, command: u8, macros: bruit_protocols::milter::Macros<'_>) {
        match command {
            b'M' => {
                let is_set = |name| macros.get(name).is_some_and(|value| !value.is_empty());
                self.is_authenticated = is_set("{auth_authen}") || is_set("{auth_type}");
            }
            b'R' => self.is_refused = macros.get("{rcpt_mailer}") == Some(REFUSED_MAILER),
            _ => {}
        }
        if let (Some(draft), Some(id)) = (&mut self.draft, macros.get("i")) {
            draft.set_queue_id(id);
        }
    }

    /// Accepts the whole session if the client is local or in one of the site's own networks. The MTA then sends
    /// nothing more.
    fn connect(&mut self, peer: Peer<'_>, out: &mut Vec<u8>) {
        self.client = match peer {
            Peer::Ip(address, _) => Some(address),
            Peer::Local(_) | Peer::Unknown => None,
        };
        let filter = (self.filter)();
        let is_own = self.client.is_some_and(|address| filter.settings.is_own(address));
        let is_own = is_own || matches!(peer, Peer::Local(_));
        if is_own {
            filter.shared.metrics.skipped(Skip::OwnNetwork);
        }
        write(out, if is_own { &Reply::Accept } else { &Reply::Continue });
    }

    fn begin(&mut self, sender: &[u8]) {
        self.reset();
        let filter = (self.filter)();
        let settings = &filter.settings;
        let is_listed = self.client.is_some_and(|address| settings.whitelist.has_client(address));
        let skip = if self.is_authenticated && settings.skip_authenticated {
            Some(Skip::Authenticated)
        } else {
            is_listed.then_some(Skip::Whitelisted)
        };
        self.draft = Some(Draft::new(filter, sender, skip));
    }

    fn finish(&mut self, options: Options, out: &mut Vec<u8>) {
        let Some(draft) = self.draft.take() else { return };
        self.is_in_content = false;
        let keeps_space = options.steps.has(Steps::LEADING_SPACE);
        draft.filter.decide(&draft).write(out, draft.forged, options.actions, keeps_space);
    }

    fn reset(&mut self) {
        self.draft = None;
        self.is_refused = false;
        self.is_in_content = false;
    }

    fn draft(&mut self) -> Result<&mut Draft, SequenceError> {
        self.draft.as_mut().ok_or(SequenceError::NoMessage)
    }

    /// Returns the message that is being received. Called for its header and body, when all recipients are known.
    fn content(&mut self) -> Result<&mut Draft, SequenceError> {
        let is_first = !std::mem::replace(&mut self.is_in_content, true);
        let draft = self.draft()?;
        if is_first && draft.recipients.all_opted_out() && !draft.recipients.has_trap() {
            draft.skip = draft.skip.or(Some(Skip::OptedOut));
        }
        Ok(draft)
    }
}

/// Returns all protocol options that the milter can use.
fn wanted(filter: &Filter) -> Options {
    let refused = if filter.settings.traps.addresses.is_empty() { Steps(0) } else { Steps::REFUSED_RECIPIENTS };
    Options {
        version: VERSION,
        actions: Actions::ADD_HEADERS
            | Actions::CHANGE_HEADERS
            | Actions::QUARANTINE
            | Actions::ADD_RECIPIENTS
            | Actions::DELETE_RECIPIENTS
            | Actions::SET_MACROS,
        steps: refused
            | Steps::NO_HELO
            | Steps::NO_END_OF_HEADER
            | Steps::NO_UNKNOWN
            | Steps::NO_DATA
            | Steps::NO_REPLY_HEADER
            | Steps::NO_REPLY_MAIL
            | Steps::NO_REPLY_RECIPIENT
            | Steps::NO_REPLY_BODY
            | Steps::LEADING_SPACE,
    }
}

/// Tells the MTA to continue, unless the MTA expects no answer.
fn answer(out: &mut Vec<u8>, options: Options, silent: Steps) {
    if !options.steps.has(silent) {
        write(out, &Reply::Continue);
    }
}

#[cfg(test)]
mod tests;
