//! Requests to the dashboard as a browser sends them, without a browser.

use std::fs;
use std::io::{self, Read as _};
use std::thread::{self, JoinHandle};

use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

use super::Server;

/// Maximum length of a page.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// A response.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) text: String,
    headers: ureq::http::HeaderMap,
}

impl Page {
    /// Returns the value of a header field, or the empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the token of the first form.
    pub(crate) fn form_token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"form_token\" value=\"").unwrap_or_else(|| panic!("{}", self.text));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// A simulated browser, which keeps the cookie of one session.
pub(crate) struct Visitor {
    base: String,
    cookie: Option<String>,
    /// Additional header fields of every request.
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Visitor {
    pub(crate) fn new(server: &Server) -> Self {
        Self::at(server.url())
    }

    /// Returns a visitor of the pages at this URL.
    pub(crate) fn at(base: String) -> Self {
        Self { base, cookie: None, fields: Vec::new() }
    }

    /// Returns a visitor who signed in with a token.
    pub(crate) fn signed_in(server: &Server, token: &str) -> Self {
        let mut visitor = Self::new(server);
        let page = visitor.post("/sign-in", &[("token", token)]);
        assert_eq!(page.status, 303, "{}\n{}", page.text, server.said());
        visitor
    }

    /// Returns the cookie.
    pub(crate) fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    /// Sets the cookie.
    pub(crate) fn set_cookie(&mut self, cookie: &str) {
        self.cookie = Some(cookie.to_owned());
    }

    pub(crate) fn get(&self, path: &str) -> Page {
        self.send(self.request("GET", path), "")
    }

    /// Opens a stream, and reads it to its end on another thread.
    pub(crate) fn follow(&self, path: &str) -> JoinHandle<()> {
        let response = ask(self.request("GET", path), "");
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let mut body = response.into_body().into_reader();
        thread::spawn(move || drop(io::copy(&mut body, &mut io::sink())))
    }

    /// Sends a form from a page of the server, and keeps the cookie of the response.
    pub(crate) fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let origin = self.base.clone();
        self.post_from(Some(&origin), path, fields)
    }

    /// Sends a form from a page of `origin`.
    pub(crate) fn post_from(&mut self, origin: Option<&str>, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut request = self.request("POST", path).header("content-type", "application/x-www-form-urlencoded");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let page = self.send(request, &body.join("&"));
        if let Some(cookie) = page.header("set-cookie").split(';').next().filter(|cookie| !cookie.is_empty()) {
            self.cookie = Some(cookie.to_owned());
        }
        page
    }

    /// Changes something with a form of this session.
    pub(crate) fn change(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.get("/explain").form_token();
        self.post(path, &[&[("form_token", token.as_str())], fields].concat())
    }

    fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in &self.fields {
            request = request.header(*name, value);
        }
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    fn send(&self, request: ureq::http::request::Builder, body: &str) -> Page {
        let response = ask(request, body);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut text = String::new();
        let _ = response.into_body().into_reader().take(PAGE_BYTES_MAX).read_to_string(&mut text);
        Page { status, text, headers }
    }
}

fn ask(request: ureq::http::request::Builder, body: &str) -> Response<Body> {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
    let agent: Agent = config.max_redirects_will_error(false).build().into();
    agent.run(request.body(body.to_owned()).unwrap()).unwrap()
}

/// Requests a path of the API as an administrator, and returns the response.
pub(crate) fn api(server: &Server, path: &str) -> Value {
    let mut visitor = Visitor::new(server);
    visitor.fields.push(("authorization", format!("Bearer {}", server.token())));
    let page = visitor.get(path);
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    serde_json::from_str(&page.text).unwrap()
}

/// Encodes the value of a field.
fn encoded(value: &str) -> String {
    value.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Returns the path of the sign-in link that the server printed.
pub(crate) fn printed_link(server: &Server) -> String {
    let line = server.greeting.lines().find(|line| line.contains("/sign-in?link="));
    let line = line.unwrap_or_else(|| panic!("no link: {}", server.said()));
    line.trim().strip_prefix(&server.url()).unwrap().to_owned()
}

/// Returns the number of Pyzor checks with any verdict in the minutes of `history.bruit`, whose bytes
/// `docs/design/history-file.md` specifies.
pub(crate) fn pyzor_checks_on_disk(server: &Server) -> u64 {
    const SLOT_BYTES: usize = 1_024;
    const MINUTES: usize = 1_440;
    const RESULTS: usize = 12;
    // A slot begins with its start and three gauges. The results of Razor, DCC and Pyzor follow, in this order. The
    // first four results of a protocol are the verdicts.
    const VERDICTS: std::ops::Range<usize> = 4 + 2 * RESULTS..4 + 2 * RESULTS + 4;
    let bytes = fs::read(server.data().join("history.bruit")).unwrap_or_default();
    let minutes = bytes.chunks_exact(SLOT_BYTES).skip(1).take(MINUTES);
    let counts = minutes.flat_map(|slot| slot.chunks_exact(8).skip(VERDICTS.start).take(VERDICTS.len()));
    counts.map(|count| u64::from_le_bytes(count.try_into().unwrap())).sum()
}
