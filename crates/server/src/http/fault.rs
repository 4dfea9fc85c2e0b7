//! What went wrong, as a client is told and as it is counted.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use bruit_engine::Refusal;
use bruit_engine::accounts::{ChangeError, RegisterError};
use bruit_engine::trust::Refused;
use bruit_engine::whitelist::SenderError;
use bruit_protocols::http::{PROBLEM_JSON, Problem};
use bruit_store::SubmitError;

use super::note::Reason;
use crate::metrics::Answered;

/// Why a request is not done.
#[derive(Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    detail: String,
    answered: Answered,
    header: Option<(HeaderName, HeaderValue)>,
    /// The token that does not suffice, for the audit trail.
    token: Option<Box<str>>,
}

impl Fault {
    /// A refusal of another kind.
    pub(crate) fn new(status: StatusCode, answered: Answered, detail: impl std::fmt::Display) -> Self {
        Self { status, detail: detail.to_string(), answered, header: None, token: None }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    /// The same, for a caller whose token has this name.
    pub(super) fn for_token(mut self, token: Option<&str>) -> Self {
        self.token = token.map(Into::into);
        self
    }

    /// What went wrong.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The request follows no rule.
    pub(crate) fn malformed(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Answered::Malformed, detail)
    }

    /// There is nothing at this path.
    pub(crate) fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            Answered::Malformed,
            "there is nothing here: GET /v1/openapi.json says what is where",
        )
    }

    /// There is, but not for this method.
    pub(crate) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Answered::Malformed,
            "this path has other methods: GET /v1/openapi.json says which",
        )
    }

    /// A kind of body that is not read.
    pub(super) fn media(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Answered::Malformed, detail)
    }

    /// A body that is longer than is read.
    pub(super) fn too_long(bytes_max: usize) -> Self {
        let detail = format!("a body has at most {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Answered::Malformed, detail)
    }

    /// A body that takes too long.
    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, Answered::Malformed, "the body did not come in time")
    }

    /// A name for the server that is not its own.
    pub(super) fn misdirected(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, Answered::Refused, detail)
    }

    /// A token that nobody has.
    pub(super) fn unknown_token() -> Self {
        let fault = Self::new(StatusCode::UNAUTHORIZED, Answered::Unverified, "nobody has this token");
        fault.with(WWW_AUTHENTICATE, "Bearer")
    }

    /// Something that the caller may not do.
    pub(crate) fn forbidden(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, Answered::Refused, detail)
    }

    /// More than the caller may ask for.
    pub(crate) fn limited(what: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, Answered::Limited, format!("too many {what}: try again later"))
            .with(RETRY_AFTER, "10")
    }

    /// Something that cannot be done as things are.
    pub(super) fn conflict(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::CONFLICT, Answered::Refused, detail)
    }

    /// More than the server can do at the moment.
    pub(crate) fn busy(detail: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Answered::Failed, detail).with(RETRY_AFTER, "1")
    }

    /// The server is about to end.
    pub(super) fn stopping() -> Self {
        Self::busy("the server is stopping")
    }

    /// A mistake of ours.
    pub(crate) fn broken() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            Answered::Failed,
            "the server made a mistake; its log may say which",
        )
    }

    /// What the engine does not take.
    pub(super) fn of_refusal(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Trust(Refused::Quota { .. }) | Refusal::TextQuota | Refusal::DailyShare { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, Answered::Refused, refusal).with(RETRY_AFTER, "3600")
            }
            Refusal::BookFull { .. } | Refusal::GoodIsFull => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Answered::Refused, refusal).with(RETRY_AFTER, "3600")
            }
            refusal if refusal.is_temporary() => Self::busy(refusal),
            Refusal::Stranger | Refusal::NotOwn => Self::forbidden(refusal),
            Refusal::Account(ChangeError::Unknown) => Self::new(StatusCode::NOT_FOUND, Answered::Refused, refusal),
            Refusal::Sender(SenderError::NotAPattern | SenderError::TooLong) => Self::malformed(refusal),
            Refusal::Register(RegisterError::Name(_)) | Refusal::OutOfBounds => Self::malformed(refusal),
            refusal => Self::conflict(refusal),
        }
    }

    /// What the store does not take.
    pub(super) fn of_submit(error: &SubmitError) -> Self {
        match error {
            SubmitError::Busy | SubmitError::Closed | SubmitError::Write(_) | SubmitError::Poisoned(_) => {
                Self::busy(error)
            }
            error => {
                tracing::error!(%error, "an event of ours was not kept");
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

/// An answer, and what it is counted as.
pub(super) struct Reply<T>(pub(super) Answered, pub(super) T);

impl<T: serde::Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let Self(answered, value) = self;
        let mut response = Json(value).into_response();
        response.extensions_mut().insert(answered);
        response
    }
}
