//! Chromium, driven through chromedriver with the WebDriver protocol, which is JSON over HTTP.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use ureq::Agent;

use super::until;

/// Maximum time for chromedriver to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum length of an answer. Screenshots are the longest.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The file with axe-core, which `cargo xtask test` installs in the target directory.
const AXE: &str = "npm/axe-core-4.14.0/package/axe.min.js";

/// The tags of the rules that pages must follow: WCAG 2.2, levels A and AA.
const RULES: [&str; 6] = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/// A browser with an empty profile.
pub(crate) struct Browser {
    driver: Child,
    agent: Agent,
    session: String,
    axe: String,
}

impl Browser {
    /// Starts chromedriver and a browser.
    pub(crate) fn start() -> Self {
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let missing = "chromedriver is missing; `cargo xtask test` installs it, or: apt-get install chromium-driver";
        let mut driver = command.spawn().expect(missing);
        let port = port(&mut driver);
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let agent: Agent = config.build().into();
        let axe = fs::read_to_string(axe_file()).expect("axe-core is missing; `cargo xtask test` installs it");
        let base = format!("http://127.0.0.1:{port}/session");
        // Containers and root need --no-sandbox; only pages of this test are opened.
        let options = json!({"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1200,900",
            "--force-device-scale-factor=1", "--lang=en-GB"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}});
        let mut browser = Self { driver, agent, session: String::new(), axe };
        let opened = browser.request("POST", &base, &wanted);
        let id = opened["sessionId"].as_str().unwrap_or_else(|| panic!("no browser: {opened}"));
        browser.session = format!("{base}/{id}");
        browser
    }

    fn request(&self, method: &str, url: &str, body: &Value) -> Value {
        let request = ureq::http::Request::builder().method(method).uri(url);
        let result = match method {
            "GET" | "DELETE" => self.agent.run(request.body(()).unwrap()),
            _ => self.agent.run(request.header("content-type", "application/json").body(body.to_string()).unwrap()),
        };
        let mut response = result.unwrap();
        let text = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().unwrap();
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        answer["value"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let value = self.request("POST", &format!("{}/{path}", self.session), body);
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    /// Opens an address and waits until the page is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// Runs a script in the page, and returns its result.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Returns the text of the first element that a CSS selector finds, or the empty string.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("return (document.querySelector({selector:?}) || {{textContent: ''}}).textContent");
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page contains a text.
    #[track_caller]
    pub(crate) fn until_text(&self, text: &str) {
        until(text, || self.text("body").contains(text));
    }

    /// Clicks the first element that a CSS selector finds.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Types into the first element that a CSS selector finds.
    #[track_caller]
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("element/{element}/value"), &json!({"text": text}));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Sends all later commands to a frame of the page.
    pub(crate) fn enter_frame(&self, selector: &str) {
        // The name of element references in the WebDriver protocol.
        let frame = json!({"element-6066-11e4-a52e-4f735466cecf": self.element(selector)});
        self.post("frame", &json!({"id": frame}));
    }

    /// Sets the size of the window.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.command(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height,
            "deviceScaleFactor": 1, "mobile": false}),
        );
    }

    /// Selects the colour scheme that pages see: `light` or `dark`.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Turns scripts in pages on or off.
    pub(crate) fn enable_scripts(&self, enabled: bool) {
        self.command("Emulation.setScriptExecutionDisabled", &json!({"value": !enabled}));
    }

    fn command(&self, name: &str, parameters: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": name, "params": parameters}))
    }

    /// Returns a picture of the page as a PNG file, down to the end of the first element that a CSS selector finds. The
    /// window keeps the width that was set last, and gets the height of the picture.
    pub(crate) fn picture(&self, selector: &str) -> Vec<u8> {
        self.command("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
        let script = format!(
            "const box = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [window.innerWidth, Math.ceil(box.bottom + window.scrollY) + 4]"
        );
        let [width, height] = [0, 1].map(|at| u32::try_from(self.run(&script)[at].as_u64().unwrap()).unwrap());
        self.resize(width, height);
        let value = self.request("GET", &format!("{}/screenshot", self.session), &Value::Null);
        self.command("Emulation.setScrollbarsHidden", &json!({"hidden": false}));
        STANDARD.decode(value.as_str().unwrap()).unwrap()
    }

    /// Returns the violations of the accessibility rules, one line each.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.run(&self.axe);
        let script = format!(
            "const done = arguments[arguments.length - 1]; axe.run({{runOnly: {}}}).then(found => done(found.violations.map(\
             one => one.id + ': ' + one.nodes.map(node => node.html + ' ' + (node.any[0] || {{}}).message).join(' | '))))",
            json!(RULES)
        );
        let value = self.post("execute/async", &json!({"script": script, "args": []}));
        value.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    }

    /// Returns the messages in the browser's log since the last call: errors, violations of the policy, missing files.
    /// Hints for developers are left out.
    pub(crate) fn log(&self) -> Vec<String> {
        let value = self.post("se/log", &json!({"type": "browser"}));
        let entries = value.as_array().unwrap().iter().filter(|entry| entry["level"] != "DEBUG");
        entries.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            let _ = self.request("DELETE", &self.session, &Value::Null);
        }
        // The driver and its browser are one process group.
        let _ = killpg(Pid::from_raw(i32::try_from(self.driver.id()).unwrap()), Signal::SIGKILL);
        let _ = self.driver.wait();
    }
}

/// Reads the port from the driver's output, and keeps reading, so that the driver never blocks.
fn port(driver: &mut Child) -> u16 {
    let lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in lines {
            let port = line.split("successfully on port ").nth(1).map(|rest| rest.trim_end_matches('.').to_owned());
            port.into_iter().for_each(|port| drop(sender.send(port)));
        }
    });
    let port = receiver.recv_timeout(PATIENCE).expect("chromedriver prints its port");
    port.parse().unwrap()
}

fn axe_file() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join(AXE)
}

/// Writes a picture for the documents if `BRUIT_PICTURES` names a directory.
pub(crate) fn keep(name: &str, picture: &[u8]) {
    let Some(directory) = std::env::var_os("BRUIT_PICTURES") else { return };
    let mut file = fs::File::create(Path::new(&directory).join(format!("{name}.png"))).unwrap();
    file.write_all(picture).unwrap();
}
