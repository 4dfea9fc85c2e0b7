//! The data for a request's log line, collected while the request is handled. It exists only if requests are logged.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::Extensions;
use axum::response::Response;
use bruit_engine::verdict::Verdict;
use bruit_filters::Fingerprint;

use crate::log::{self, Line, RequestDescription};
use crate::metrics::{Disposition, Interface};

/// The data collected about a request so far, attached to the request as an extension.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<NoteData>>);

#[derive(Debug, Default)]
struct NoteData {
    described: RequestDescription,
    judged: Vec<(Fingerprint, Verdict)>,
}

/// The reason for a refusal, attached to the response as an extension.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// The name of the caller's token, attached if the token is known but lacks the right.
    pub(crate) token: Option<Box<str>>,
}

impl Note {
    /// Starts a note if requests are logged.
    pub(crate) fn begin(request: &mut Request) -> Option<Self> {
        let note = log::is_on().then(Self::default)?;
        // Omit the query, because it may contain anything. Paths are harmless, because unknown ones are refused.
        note.change(|noted| noted.described.operation = format!("{} {}", request.method(), request.uri().path()));
        request.extensions_mut().insert(note.clone());
        Some(note)
    }

    /// Returns the note of a request, if there is one.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().cloned()
    }

    /// Records the caller.
    pub(crate) fn set_account(&self, name: &str) {
        self.change(|noted| noted.described.account = Some(name.to_owned()));
    }

    /// Records the number of signatures.
    pub(crate) fn set_signatures(&self, count: usize) {
        self.change(|noted| noted.described.signatures = count);
    }

    /// Records the verdicts on the signatures, if the log includes verdicts.
    pub(crate) fn set_judged<'j>(&self, judged: impl Iterator<Item = (&'j Fingerprint, &'j Verdict)>) {
        if log::is_trace_on() {
            self.change(|noted| noted.judged = judged.map(|(fingerprint, verdict)| (*fingerprint, *verdict)).collect());
        }
    }

    /// Writes the log line.
    pub(crate) fn write(&self, protocol: Interface, from: IpAddr, answered: Disposition, response: &Response) {
        let reason = response.extensions().get::<Reason>().map(|reason| reason.text.clone());
        let (described, judged) =
            self.change(|noted| (std::mem::take(&mut noted.described), std::mem::take(&mut noted.judged)));
        Line { protocol, from, described, answered, reason, judged }.write();
    }

    fn change<T>(&self, change: impl FnOnce(&mut NoteData) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
