//! What the log says about a request, gathered while it is answered. There is none unless requests are logged.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::Request;
use axum::http::Extensions;
use axum::response::Response;
use bruit_engine::verdict::Verdict;
use bruit_filters::Fingerprint;

use crate::log::{self, Described, Line};
use crate::metrics::{Answered, Language};

/// What is known of a request so far, as an extension of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    described: Described,
    judged: Vec<(Fingerprint, Verdict)>,
}

/// Why a request was refused, as an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// The token of whoever asked, if it is known and does not suffice.
    pub(crate) token: Option<Box<str>>,
}

impl Note {
    /// Begins a note, if requests are logged.
    pub(crate) fn begin(request: &mut Request) -> Option<Self> {
        let note = log::is_on().then(Self::default)?;
        // The query may have anything; the path is one of ours or refused.
        note.change(|noted| noted.described.operation = format!("{} {}", request.method(), request.uri().path()));
        request.extensions_mut().insert(note.clone());
        Some(note)
    }

    /// The note of a request, if there is one.
    pub(crate) fn of(extensions: &Extensions) -> Option<Self> {
        extensions.get().cloned()
    }

    /// Notes who asks.
    pub(crate) fn set_account(&self, name: &str) {
        self.change(|noted| noted.described.account = Some(name.to_owned()));
    }

    /// Notes how many signatures it is about.
    pub(crate) fn set_signatures(&self, count: usize) {
        self.change(|noted| noted.described.signatures = count);
    }

    /// Notes what is thought of them, if that is logged.
    pub(crate) fn set_judged<'j>(&self, judged: impl Iterator<Item = (&'j Fingerprint, &'j Verdict)>) {
        if log::is_trace_on() {
            self.change(|noted| noted.judged = judged.map(|(fingerprint, verdict)| (*fingerprint, *verdict)).collect());
        }
    }

    /// Writes the line.
    pub(crate) fn write(&self, protocol: Language, from: IpAddr, answered: Answered, response: &Response) {
        let reason = response.extensions().get::<Reason>().map(|reason| reason.text.clone());
        let (described, judged) =
            self.change(|noted| (std::mem::take(&mut noted.described), std::mem::take(&mut noted.judged)));
        Line { protocol, from, described, answered, reason, judged }.write();
    }

    fn change<T>(&self, change: impl FnOnce(&mut Noted) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
