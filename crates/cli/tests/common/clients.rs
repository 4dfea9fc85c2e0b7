//! Home directories for third-party clients, configured to use only our server.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Answer, Folder, Server, program, run};

/// Home directory of a Razor user.
pub(crate) struct RazorHome<'a> {
    server: &'a Server,
    folder: Folder,
}

impl<'a> RazorHome<'a> {
    /// Creates a home directory whose server lists contain only `server`. It is listed twice, in two spellings, because
    /// a client with a single server searches for others at every start.
    pub(crate) fn new(server: &'a Server) -> Self {
        let folder = Folder::new();
        let address = server.address("razor");
        let home = folder.path("");
        let home = home.display();
        folder.write(
            "razor-agent.conf",
            format!(
                "razorhome = {home}\nlogfile = {home}/razor-agent.log\ndebuglevel = 9\nturn_off_discovery = 1\n\
                 razordiscovery = {address}\nmin_cf = ac\nlogic_method = 4\nreport_headers = 1\n"
            ),
        );
        folder.write("servers.discovery.lst", format!("{address}\n"));
        for list in ["servers.catalogue.lst", "servers.nomination.lst"] {
            folder.write(list, format!("{address}\n127.1:{}\n", address.port()));
        }
        Self { server, folder }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path("razor-agent.conf")
    }

    /// Returns the client's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path("razor-agent.log")).unwrap_or_default()
    }

    /// Runs one of the client's programs on `message` and asserts its exit code.
    #[track_caller]
    pub(crate) fn run(&self, name: &str, arguments: &[&str], message: &[u8], code: i32) -> Answer {
        let mut home = std::ffi::OsString::from("-home=");
        home.push(self.folder.path(""));
        let mut command = program(name, "razor");
        run(command.arg(home).args(arguments).env("HOME", self.folder.path("")), message).expect(code, self.server)
    }

    #[track_caller]
    pub(crate) fn register(&self) {
        self.run(
            "razor-admin",
            &["-register", "-user=alice@example.org", "-pass=correct horse battery staple"],
            b"",
            0,
        );
    }

    /// Asserts that the client classifies `message` as spam, or as not spam if `is_spam` is false.
    #[track_caller]
    pub(crate) fn check(&self, message: &[u8], is_spam: bool) {
        self.run("razor-check", &[], message, i32::from(!is_spam));
    }

    /// Reports `message`. Checks in the log that the server accepted the report, because the exit code is always 0.
    #[track_caller]
    pub(crate) fn report(&self, message: &[u8]) {
        let accepted = |log: &str| log.matches("Server accepted report").count();
        let before = accepted(&self.log());
        self.run("razor-report", &["-f"], message, 0);
        assert!(accepted(&self.log()) > before, "{}\n--- the server ---\n{}", self.log(), self.server.said());
    }

    #[track_caller]
    pub(crate) fn revoke(&self, message: &[u8]) {
        self.run("razor-revoke", &["-f"], message, 0);
    }
}

/// Home directory of a Pyzor user.
pub(crate) struct PyzorHome<'a> {
    server: &'a Server,
    folder: Folder,
}

impl<'a> PyzorHome<'a> {
    /// Creates the home directory of an anonymous user.
    pub(crate) fn new(server: &'a Server) -> Self {
        let folder = Folder::new();
        folder.write("servers", format!("{}\n", server.address("pyzor")));
        Self { server, folder }
    }

    /// Creates the home directory of a user with an account.
    pub(crate) fn of(server: &'a Server, user: &str, key: &str) -> Self {
        let home = Self::new(server);
        let address = server.address("pyzor");
        // The client requires a salt before the key, but does not use it.
        home.folder.write("accounts", format!("{} : {} : {user} : aaaa,{key}\n", address.ip(), address.port()));
        home
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path("")
    }

    /// Runs Debian's client on `message` and asserts its exit code.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], message: &[u8], code: i32) -> Answer {
        self.run_by(&mut program("pyzor", "pyzor"), arguments, message, code)
    }

    /// Runs another client on `message` and asserts its exit code.
    #[track_caller]
    pub(crate) fn run_by(&self, client: &mut Command, arguments: &[&str], message: &[u8], code: i32) -> Answer {
        let command = client.arg("--homedir").arg(self.path()).args(arguments).env("HOME", self.path());
        run(command, message).expect(code, self.server)
    }

    /// Asserts that the client classifies `message` as spam, or as not spam if `is_spam` is false.
    #[track_caller]
    pub(crate) fn check(&self, message: &[u8], is_spam: bool) {
        self.run(&["check"], message, i32::from(!is_spam));
    }
}
