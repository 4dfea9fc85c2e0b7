//! The dashboard: web pages for operators, rendered by the server.
//!
//! ```text
//!   router ─► visitor: host, origin, channel ─► viewer: session, rights ─► view: HTML
//!                                                                      └─► form: token, rights ─► the API's functions
//! ```
//!
//! The pages show what the HTTP API returns, and their forms call the functions of the API, so rights, limits and the
//! audit trail are the same. They work without scripts and load nothing from other servers.
//!
//! | module | contents |
//! |---|---|
//! | `sessions` | sessions and one-time links, in bounded tables |
//! | `viewer` | the browser that sends a request: its channel, session and rights |
//! | `form` | decoding of forms |
//! | `page`, `failure` | the frame and headers of pages; errors as pages |
//! | `format` | numbers, sizes, durations and times as text |
//! | `sign_in` | signing in and out |
//! | `chart`, `precision`, `live` | charts of the history and of the reporters' precision; updates while a page is open |
//! | `overview`, `explain`, `evidence`, `books`, `reporters`, `whitelist`, `peers`, `sites`, `settings` | the views |

mod books;
mod chart;
mod evidence;
mod explain;
mod failure;
mod form;
mod format;
mod live;
mod overview;
mod page;
mod peers;
mod precision;
mod reporters;
mod sessions;
mod settings;
mod sign_in;
mod sites;
mod viewer;
mod whitelist;

pub(crate) use live::{Live, publish as publish_live};
pub(crate) use sessions::{LINK_LIFETIME, Sessions};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use super::Http;
use super::administration::audit_refusals;

/// Returns the router of the pages. Refusals here go to the audit trail.
pub(super) fn routes(http: Http) -> Router<Http> {
    Router::new()
        .route("/", get(overview::show))
        .route("/live", get(live::stream))
        .route("/explain", get(explain::show).post(explain::explain))
        .route("/explain/claim", post(explain::claim))
        .route("/books", get(books::show))
        .route("/reporters", get(reporters::show).post(reporters::change))
        .route("/whitelist", get(whitelist::show).post(whitelist::change))
        .route("/peers", get(peers::show).post(peers::change))
        .route("/sites", get(sites::show))
        .route("/settings", get(settings::show))
        .route("/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/assets/style.css", get(page::style))
        .route("/assets/script.js", get(page::script))
        .route("/assets/icon.svg", get(page::icon))
        .route_layer(from_fn_with_state(http, audit_refusals))
        .route_layer(from_fn(page::add_headers))
}
