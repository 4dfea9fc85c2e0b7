//! Access rights, tested with real proxies, another user of the machine, host names, TLS and a Unix socket.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Folder, Server, administer, program, run, testdata};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The user ID of `nobody`.
const NOBODY: u32 = 65_534;

/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Paths that require administrator access.
const ADMINISTRATIVE: [&str; 8] = [
    "/v1/federation/realm",
    "/v1/stats",
    "/v1/peers",
    "/v1/sites",
    "/v1/accounts",
    "/v1/whitelist",
    "/metrics",
    "/v1/clock/accept",
];

/// Methods and paths of further requests that require administrator access. All are changes.
const CHANGES: [(&str, &str); 7] = [
    ("POST", "/v1/dashboard/link"),
    ("POST", "/v1/peers"),
    ("DELETE", "/v1/peers"),
    ("POST", "/v1/peers/pause"),
    ("POST", "/v1/peers/resume"),
    ("POST", "/v1/peers/forget"),
    ("POST", "/v1/peers/restore"),
];

/// A process that is terminated on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // `timeout` forwards the signal to the program.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// Returns the status and body of a `curl` request.
fn curl(arguments: &[&str]) -> (u16, String) {
    let mut command = program("curl", "curl");
    command.args(["-s", "-m", "20", "-w", "\n%{http_code}"]).args(arguments);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or(("", &text));
    (status.parse().unwrap_or_else(|_| panic!("{arguments:?}: {output:?}")), body.to_owned())
}

/// Requests an administrative path with additional `curl` arguments, and returns the status.
fn ask(base: &str, path: &str, more: &[&str]) -> u16 {
    let url = format!("{base}{path}");
    let method = if path == "/v1/clock/accept" { "POST" } else { "GET" };
    curl(&[&["-X", method, &url], more].concat()).0
}

/// Reports a message with additional `curl` arguments.
fn report(base: &str, more: &[&str]) -> u16 {
    let (url, message) = (format!("{base}/v1/report"), format!("@{}", testdata("razor/text.eml").display()));
    curl(&[&["-H", "Content-Type: message/rfc822", "--data-binary", &message, &url], more].concat()).0
}

#[track_caller]
fn assert_closed_without_token(server: &Server, base: &str, more: &[&str]) {
    let authorization = format!("Authorization: Bearer {}", server.token());
    for path in ADMINISTRATIVE {
        assert_eq!(ask(base, path, more), 403, "{base}{path}: {}", server.said());
        let said = server.said();
        let line = said.lines().rev().find(|line| line.contains("bruit::audit") && line.contains(path));
        assert!(line.is_some_and(|line| line.contains("refused") && line.contains("127.0.0.1")), "{path}: {said}");
        let allowed = ask(base, path, &[more, &["-H", &authorization]].concat());
        assert!([200, 204].contains(&allowed), "{base}{path} with the token: {allowed}");
    }
    // Expect no audit lines for these requests, because the number of such lines per minute is limited.
    for (method, path) in CHANGES {
        let url = format!("{base}{path}");
        let ask = |more: &[&str]| curl(&[&["-X", method, &url], more].concat()).0;
        assert_eq!(ask(more), 403, "{method} {url}: {}", server.said());
        let allowed = ask(&[more, &["-H", &authorization]].concat());
        // A request to change a peer is malformed without a body.
        let expected = if path == "/v1/dashboard/link" { 200 } else { 415 };
        assert_eq!(allowed, expected, "{method} {url} with the token");
    }
}

#[test]
fn an_own_network_may_report_and_not_administer() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    assert_closed_without_token(&server, &server.url(), &[]);
    assert_eq!(report(&server.url(), &[]), 200);
}

#[test]
fn through_stock_nginx_everybody_is_a_stranger() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let port = free_port();
    let (home, http) = (folder.path(""), server.address("http"));
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};"));
    let configuration = format!(
        "pid nginx.pid; error_log stderr; daemon off; user root; events {{}}\n\
         http {{ access_log off; {} server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{http}; }} }} }}\n",
        temporary.join(" ")
    );
    folder.write("nginx.conf", configuration);
    let mut command = program("nginx", "nginx-light");
    let _nginx = start(command.arg("-p").arg(&home).arg("-c").arg("nginx.conf"), port);
    let base = format!("http://127.0.0.1:{port}");
    assert_closed_without_token(&server, &base, &[]);
    assert_eq!(report(&base, &[]), 403, "{}", server.said());
    assert_eq!(curl(&[&format!("{base}/v1/health")]).0, 204);
}

#[test]
fn through_haproxy_everybody_is_a_stranger() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nhosts = [\"bruit.example.org\"]\n");
    let port = free_port();
    let http = server.address("http");
    let configuration = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
         frontend public\n bind 127.0.0.1:{port}\n default_backend bruit\n\
         backend bruit\n server one {http}\n"
    );
    folder.write("haproxy.cfg", configuration);
    let mut command = program("haproxy", "haproxy");
    let _haproxy = start(command.arg("-db").arg("-f").arg(folder.path("haproxy.cfg")), port);
    let base = format!("http://127.0.0.1:{port}");
    let public = ["-H", "Host: bruit.example.org"];
    assert_closed_without_token(&server, &base, &public);
    assert_eq!(report(&base, &public), 403, "{}", server.said());
}

#[test]
fn a_trusted_proxy_says_who_is_an_own_user() {
    let folder = Folder::new();
    let more = "[http]\nlisten = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1/32\"]\n";
    let server = Server::start(&folder, more);
    assert_eq!(report(&server.url(), &[]), 403, "the proxy does not name its client");
    assert_eq!(report(&server.url(), &["-H", "X-Forwarded-For: 127.0.0.1, 192.0.2.1"]), 403);
    assert_eq!(
        report(&server.url(), &["-H", "X-Forwarded-For: 192.0.2.1, 127.0.0.1"]),
        403,
        "the addresses are read from right to left"
    );
    assert_eq!(report(&server.url(), &["-H", "X-Forwarded-For: 127.0.0.1"]), 200);
}

#[test]
fn another_user_of_the_machine_administers_nothing() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let bruit = public_copy();
    let mut command = Command::new(bruit.1);
    command.args(["stats", "--server", &server.url()]).env("BRUIT_DATA", server.data()).env_remove("BRUIT_TOKEN");
    let answer = run(command.uid(as_root(NOBODY)), b"");
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.complaints.contains("an administrator's token"), "{answer:?}");
    assert!(
        administer(&server, &["stats"]).contains("listed signatures"),
        "anyone who can read the token may administer the server"
    );
}

/// A process that listens at the port of a stopped server must not receive the server's token.
#[test]
fn the_token_is_not_shown_to_another_user_who_took_the_port() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let port = server.address("http").port();
    assert!(server.terminate().success());
    let script = format!(
        "import socket\ns = socket.create_server(('127.0.0.1', {port}))\nc, _ = s.accept()\nprint(c.recv(4096).decode())"
    );
    let mut command = program("python3", "python3");
    command.args(["-c", &script]).uid(as_root(NOBODY)).stdout(Stdio::piped()).stdin(Stdio::null());
    let thief = Running(command.spawn().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["stats", "--timeout", "3s", "--server", &server.url()]).env("BRUIT_DATA", server.data());
    let deadline = Instant::now() + PATIENCE;
    let asked = loop {
        let answer = run(command.env_remove("BRUIT_TOKEN"), b"");
        if !answer.complaints.contains("refused") || Instant::now() > deadline {
            break answer;
        }
        thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(asked.code, Some(2), "{asked:?}");
    let mut thief = thief;
    let mut heard = String::new();
    std::io::Read::read_to_string(&mut thief.0.stdout.take().unwrap(), &mut heard).unwrap();
    assert!(heard.contains("GET /v1/stats") && !heard.to_lowercase().contains("authorization"), "{heard}");
}

#[test]
fn at_the_unix_socket_the_kernel_says_who_asks() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path("http.sock");
    let more = format!("[http]\nlisten = []\nsocket = {{ path = {socket:?}, mode = \"0666\" }}\n");
    let server = Server::start(&folder, &more);
    let path = socket.to_str().unwrap();
    let message = fs::read(testdata("razor/text.eml")).unwrap();
    folder.write("mail", message);
    fs::set_permissions(folder.path("mail"), fs::Permissions::from_mode(0o644)).unwrap();
    let mail = format!("@{}", folder.path("mail").display());
    let as_user = |user: u32, arguments: &[&str]| {
        let mut command = program("curl", "curl");
        command.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", path]).args(arguments);
        let answer = run(command.uid(user), b"");
        answer.text.trim().parse::<u16>().unwrap_or_else(|_| panic!("{answer:?}: {}", server.said()))
    };
    let report = ["-H", "Content-Type: message/rfc822", "--data-binary", &mail, "http://localhost/v1/report"];
    assert_eq!(as_user(as_root(NOBODY), &report), 200, "{}", server.said());
    assert_eq!(as_user(NOBODY, &["http://localhost/v1/stats"]), 403);
    assert!(server.said().contains("user 65534 on this machine"), "{}", server.said());
    assert_eq!(as_user(0, &["http://localhost/v1/stats"]), 200);
    // The clients of a proxy in front of the socket must not get the proxy's rights.
    for marked in [&["--http1.0"][..], &["-H", "X-Forwarded-For: 192.0.2.1"], &["-H", "Via: 1.1 proxy"]] {
        assert_eq!(as_user(0, &[marked, &["http://localhost/v1/stats"]].concat()), 403, "{marked:?}");
        assert_eq!(as_user(0, &[marked, &report].concat()), 403, "{marked:?}");
    }
}

#[test]
fn every_path_is_reached_by_the_names_of_the_machine_and_not_by_others() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nhosts = [\"bruit.example.org\"]\n");
    let port = server.address("http").port();
    let machine = nix::sys::utsname::uname().unwrap().nodename().to_str().unwrap().to_owned();
    let authorization = format!("Authorization: Bearer {}", server.token());
    for name in [machine.as_str(), "bruit.example.org", "localhost"] {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let get =
            |path: &str| curl(&["--resolve", &resolve, "-H", &authorization, &format!("http://{name}:{port}{path}")]).0;
        for path in ADMINISTRATIVE.iter().filter(|path| **path != "/v1/clock/accept") {
            assert_eq!(get(path), 200, "{name}{path}");
        }
        assert!([get("/v1/health"), get("/v1/ready")].iter().all(|status| [200, 204].contains(status)), "{name}");
        let base = format!("http://{name}:{port}");
        assert_eq!(report(&base, &["--resolve", &resolve, "-H", &authorization]), 200, "{name}");
    }
    let resolve = format!("rebound.example.net:{port}:127.0.0.1");
    let (status, body) = curl(&["--resolve", &resolve, &format!("http://rebound.example.net:{port}/v1/health")]);
    assert_eq!(status, 421);
    assert!(body.contains("rebound.example.net") && body.contains("[http]"), "{body}");
}

#[test]
fn http_over_tls_takes_a_new_certificate_at_sighup() {
    let folder = Folder::new();
    let write = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        folder.write("cert.pem", certificate.pem());
        folder.write("key.pem", key.serialize_pem());
        folder.write(name, certificate.pem());
    };
    write("first.pem");
    let (certificate, key) = (folder.path("cert.pem"), folder.path("key.pem"));
    let more = format!("[http]\nlisten = \"127.0.0.1:0\"\ntls = {{ certificate = {certificate:?}, key = {key:?} }}\n");
    let server = Server::start(&folder, &more);
    let port = server.address("http").port();
    let is_trusted = |roots: &str| {
        let mut command = program("curl", "curl");
        let roots = folder.path(roots);
        command.args(["-sf", "-m", "5", "--cacert"]).arg(roots).arg(format!("https://localhost:{port}/v1/health"));
        command.args(["--resolve", &format!("localhost:{port}:127.0.0.1")]);
        run(&mut command, b"").code == Some(0)
    };
    assert!(is_trusted("first.pem"), "{}", server.said());
    write("second.pem");
    server.signal(Signal::SIGHUP);
    let deadline = Instant::now() + PATIENCE;
    while !is_trusted("second.pem") {
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(!is_trusted("first.pem"));
    // An invalid certificate changes nothing.
    folder.write("cert.pem", "nothing");
    server.signal(Signal::SIGHUP);
    let deadline = Instant::now() + PATIENCE;
    while !server.said().contains("contains no PEM certificate") {
        assert!(Instant::now() < deadline, "{}", server.said());
        thread::sleep(Duration::from_millis(50));
    }
    assert!(is_trusted("second.pem"));
}

/// Creates a copy of the program that every user of the machine may run.
fn public_copy() -> (Folder, PathBuf) {
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path("bruit");
    fs::copy(env!("CARGO_BIN_EXE_bruit"), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    (folder, copy)
}

/// Returns the user to run a process as. Panics unless the test runs as root.
fn as_root(user: u32) -> u32 {
    assert!(nix::unistd::geteuid().is_root(), "this test starts programs as another user: run it as root");
    user
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a daemon, and waits until it listens.
fn start(command: &mut Command, port: u16) -> Running {
    let mut process = Running(command.stdin(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            process.0.try_wait().unwrap().is_none() && Instant::now() < deadline,
            "the daemon does not listen: {command:?}"
        );
        thread::sleep(Duration::from_millis(50));
    }
    process
}
