//! Errors of the dashboard, as pages.

use axum::Extension;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

use super::super::fault::Fault;
use super::super::note::Reason;
use super::page::{self, HTML};

/// The reason why a page is not shown.
#[derive(Debug)]
pub(super) enum Failure {
    /// The browser has no session, so it is sent to the page for signing in.
    SignedOut,
    /// A change was sent without a session.
    Expired,
    /// Any other error.
    Fault(Fault),
}

impl Failure {
    /// A request without a session.
    pub(super) fn signed_out(method: &Method) -> Self {
        if matches!(*method, Method::GET | Method::HEAD) { Self::SignedOut } else { Self::Expired }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::SignedOut => Redirect::to("/sign-in").into_response(),
            Self::Expired => {
                let text = "Your session has ended, and nothing was changed.";
                let page = page::plain(
                    "Signed out",
                    &html! {
                        p { (text) }
                        p { a href="/sign-in" { "Sign in" } " and repeat the change." }
                    },
                );
                let reason = Reason { text: "the session has ended".to_owned(), token: None };
                (StatusCode::UNAUTHORIZED, Extension(reason), page).into_response()
            }
            Self::Fault(fault) => of_fault(fault),
        }
    }
}

/// Converts an error of the API to a page. Status, metrics and the reason for the log stay the same.
fn of_fault(fault: Fault) -> Response {
    let text = sentence(fault.detail());
    let page = page::plain(
        "The request failed",
        &html! {
            p { (text) }
            p { a href="/" { "Go to the overview" } }
        },
    );
    let (mut parts, _) = fault.into_response().into_parts();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, page.into_string().into())
}

/// Returns an error text as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    capitalised(text) + end
}

/// Returns a text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_becomes_a_sentence_without_markup() {
        assert_eq!(sentence("unknown token"), "Unknown token.");
        let response = Failure::from(Fault::malformed("<script>alert(1)</script>")).into_response();
        assert_eq!(
            (response.status(), &response.headers()[CONTENT_TYPE]),
            (StatusCode::BAD_REQUEST, &HTML.parse::<HeaderValue>().unwrap())
        );
        let body = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(async { http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes() });
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("&lt;script&gt;alert(1)&lt;/script&gt;.") && !body.contains("<script>alert"), "{body}");
    }
}
