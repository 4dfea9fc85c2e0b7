//! The frame of every page: navigation, headers, and the files that pages load.
//!
//! Text from outside goes through the template only, which escapes it. The headers forbid inline scripts and styles,
//! requests to other servers, and framing.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use super::viewer::{FORM_TOKEN_FIELD, Viewer, Visitor};

/// The media type of pages.
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// What browsers may load and do. Pages need no more than this.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response. With `same-origin`, browsers send `Origin` with forms, but never send addresses to others.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A view in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Overview,
    Explain,
    Books,
    Reporters,
    Whitelist,
    Peers,
    Sites,
    Settings,
}

impl View {
    /// All views, in the order of the navigation.
    const ALL: [Self; 8] = [
        Self::Overview,
        Self::Explain,
        Self::Books,
        Self::Reporters,
        Self::Whitelist,
        Self::Peers,
        Self::Sites,
        Self::Settings,
    ];

    /// Returns true for views with names of people or tokens and with the configuration, which a token with `monitor` cannot read
    /// over the API either.
    const fn needs_administrator(self) -> bool {
        matches!(self, Self::Reporters | Self::Whitelist | Self::Sites | Self::Settings)
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Explain => "Explain",
            Self::Books => "Books",
            Self::Reporters => "Reporters",
            Self::Whitelist => "Whitelist",
            Self::Peers => "Peers",
            Self::Sites => "Mail sites",
            Self::Settings => "Settings",
        }
    }

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Explain => "/explain",
            Self::Books => "/books",
            Self::Reporters => "/reporters",
            Self::Whitelist => "/whitelist",
            Self::Peers => "/peers",
            Self::Sites => "/sites",
            Self::Settings => "/settings",
        }
    }
}

/// Adds the headers of [`HEADERS`]. Only files may be cached.
pub(super) async fn add_headers(request: Request, next: Next) -> Response {
    let is_file = request.uri().path().starts_with("/assets/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let cache = if is_file { "max-age=300" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

pub(super) async fn style(_visitor: Visitor) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

pub(super) async fn script(_visitor: Visitor) -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}

pub(super) async fn icon(_visitor: Visitor) -> impl IntoResponse {
    ([(CONTENT_TYPE, "image/svg+xml")], ICON)
}

/// Renders a view.
pub(super) fn view(viewer: &Viewer, view: View, content: &Markup) -> Markup {
    let name = viewer.caller.name().unwrap_or_default();
    let header = html! {
        nav aria-label="Views" {
            ul {
                @for one in View::ALL.into_iter().filter(|one| viewer.can_administer || !one.needs_administrator()) {
                    li { a href=(one.path()) aria-current=[(one == view).then_some("page")] { (one.title()) } }
                }
            }
        }
        form .session method="post" action="/sign-out" {
            (form_token(viewer))
            span .role title=(format!("Signed in with the token {name}")) {
                @if viewer.can_administer { "Administrator" } @else { "Read-only" }
            }
            button .quiet type="submit" { "Sign out" }
        }
    };
    document(view.title(), &header, &html! { h1 { (view.title()) } (content) })
}

/// Renders a page outside the views, such as an error.
pub(super) fn plain(title: &str, content: &Markup) -> Markup {
    document(title, &html! {}, &html! { section .narrow { h1 { (title) } (content) } })
}

fn document(title: &str, header: &Markup, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Bruit" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/script.js" defer {}
            }
            body {
                a .skip href="#content" { "Skip to the content" }
                header .top {
                    a .brand href="/" { "Bruit" }
                    (header)
                }
                main #content tabindex="-1" { (content) }
            }
        }
    }
}

/// The hidden field with the token of the session's forms.
pub(super) fn form_token(viewer: &Viewer) -> Markup {
    html! { input type="hidden" name=(FORM_TOKEN_FIELD) value=(viewer.form_token); }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_nothing_is_inline() {
        let page = plain("<b>", &html! { p title=("\"><script>") { ("<img src=x>") } }).into_string();
        assert!(page.contains("&lt;b&gt;") && page.contains("&quot;&gt;&lt;script&gt;"), "{page}");
        assert!(!page.contains("<img") && !page.contains("<script>") && !page.contains("style="), "{page}");
    }

    #[test]
    fn files_load_nothing_from_elsewhere() {
        for file in [STYLE, SCRIPT, ICON] {
            let file = file.replace("http://www.w3.org/2000/svg", "");
            assert!(!file.contains("//") || !file.contains("http"), "{file}");
        }
    }
}
