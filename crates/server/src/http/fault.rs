//! Errors: the response to the client, and the result for the metrics.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use bruit_engine::Refusal;
use bruit_engine::accounts::{ChangeError, RegisterError};
use bruit_engine::trust::NurseryRefusal;
use bruit_engine::whitelist::SenderError;
use bruit_protocols::http::{PROBLEM_JSON, Problem};
use bruit_store::SubmitError;

use super::note::Reason;
use crate::metrics::Disposition;

/// An error response.
#[derive(Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    detail: String,
    answered: Disposition,
    header: Option<(HeaderName, HeaderValue)>,
    /// The name of the token that lacks the right, for the audit trail.
    token: Option<Box<str>>,
}

impl Fault {
    /// Creates an error with this status.
    pub(crate) fn new(status: StatusCode, answered: Disposition, detail: impl std::fmt::Display) -> Self {
        Self { status, detail: detail.to_string(), answered, header: None, token: None }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    /// Adds the name of the caller's token.
    pub(super) fn for_token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(Into::into);
        self
    }

    /// Returns true if the token is unknown.
    pub(super) fn is_unknown_token(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// Returns the detail text.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// A malformed request.
    pub(crate) fn malformed(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Disposition::Malformed, detail)
    }

    /// An unknown path.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, Disposition::Malformed, "no such path: see GET /v1/openapi.json")
    }

    /// A method that the path does not support.
    pub(crate) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Disposition::Malformed,
            "method not supported by this path: see GET /v1/openapi.json",
        )
    }

    /// An unsupported media type.
    pub(super) fn media(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Disposition::Malformed, detail)
    }

    /// A body that is too long.
    pub(super) fn too_long(bytes_max: usize) -> Self {
        let detail = format!("the body is too long: expected at most {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Disposition::Malformed, detail)
    }

    /// A body that arrives too slowly.
    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, Disposition::Malformed, "timed out while reading the body")
    }

    /// A host name that is not one of this server's names.
    pub(super) fn misdirected(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, Disposition::Refused, detail)
    }

    /// An unknown token.
    pub(super) fn unknown_token() -> Self {
        let fault = Self::new(StatusCode::UNAUTHORIZED, Disposition::Unverified, "unknown token");
        fault.with(WWW_AUTHENTICATE, "Bearer")
    }

    /// A missing right.
    pub(crate) fn forbidden(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, Disposition::Refused, detail)
    }

    /// An exceeded limit.
    pub(crate) fn limited(what: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Disposition::Limited, format!("too many {what}: try again later"))
            .with(RETRY_AFTER, "10")
    }

    /// A conflict with the current state.
    pub(super) fn conflict(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::CONFLICT, Disposition::Refused, detail)
    }

    /// A temporary lack of resources.
    pub(crate) fn busy(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Disposition::Failed, detail).with(RETRY_AFTER, "1")
    }

    /// The server is shutting down.
    pub(super) fn stopping() -> Self {
        Self::busy("the server is stopping")
    }

    /// An internal error.
    pub(crate) fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Disposition::Failed, "internal error; see the server's log")
    }

    /// Converts a refusal by the engine.
    pub(super) fn of_refusal(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Trust(NurseryRefusal::Quota { .. }) | Refusal::TextQuota | Refusal::DailyShare { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, Disposition::Refused, refusal).with(RETRY_AFTER, "3600")
            }
            Refusal::BookFull { .. } | Refusal::GoodIsFull => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Disposition::Refused, refusal).with(RETRY_AFTER, "3600")
            }
            refusal if refusal.is_temporary() => Self::busy(refusal),
            Refusal::Stranger | Refusal::NotOwn => Self::forbidden(refusal),
            Refusal::Account(ChangeError::Unknown) => Self::new(StatusCode::NOT_FOUND, Disposition::Refused, refusal),
            Refusal::Sender(SenderError::NotAPattern | SenderError::TooLong) => Self::malformed(refusal),
            Refusal::Register(RegisterError::Name(_)) | Refusal::OutOfBounds => Self::malformed(refusal),
            refusal => Self::conflict(refusal),
        }
    }

    /// Converts an error of the store.
    pub(super) fn of_submit(error: &SubmitError) -> Self {
        match error {
            SubmitError::Busy | SubmitError::Closed | SubmitError::Write(_) | SubmitError::Poisoned(_) => {
                Self::busy(error)
            }
            error => {
                tracing::error!(%error, "failed to write an event");
                Self::broken()
            }
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let reason = Reason { text: self.detail.clone(), token: self.token };
        let title = self.status.canonical_reason().unwrap_or("refused");
        let problem = Problem::new(self.status.as_u16(), title, self.detail);
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.extend(self.header);
        response.extensions_mut().insert(self.answered);
        response.extensions_mut().insert(reason);
        response
    }
}

/// A response, and the result for the metrics.
pub(super) struct Reply<T>(pub(super) Disposition, pub(super) T);

impl<T: serde::Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let Self(answered, value) = self;
        let mut response = Json(value).into_response();
        response.extensions_mut().insert(answered);
        response
    }
}
