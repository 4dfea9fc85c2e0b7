//! Reports survive when the server is stopped or killed.

mod common;

use std::fs;
use std::process::Command;

use common::wire::Datagrams;
use common::{Folder, PyzorHome, RazorHome, Server, run, testdata};

/// One message for each protocol that accepts whole messages. The messages are not near replicas of each other.
struct Reported {
    razor: &'static str,
    pyzor: &'static str,
    http: &'static str,
    /// The byte that fills the checksums and digests sent over all other protocols.
    byte: u8,
}

const BEFORE_TERM: Reported =
    Reported { razor: "razor/text.eml", pyzor: "pyzor/v1-plain-atomic.eml", http: "razor/base64.eml", byte: 1 };
const BEFORE_KILL: Reported =
    Reported { razor: "razor/html.eml", pyzor: "pyzor/v2-plain-pieced.eml", http: "razor/multipart.eml", byte: 2 };

#[test]
fn reports_by_every_protocol_outlive_sigterm_and_sigkill() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    RazorHome::new(&server).register();
    BEFORE_TERM.check(&server, false);
    BEFORE_TERM.report(&server);
    BEFORE_TERM.check(&server, true);
    assert!(server.terminate().success(), "{}", server.said());

    let mut server = server.restart();
    BEFORE_TERM.check(&server, true);
    BEFORE_KILL.check(&server, false);
    BEFORE_KILL.report(&server);
    server.kill();

    let server = server.restart();
    BEFORE_TERM.check(&server, true);
    BEFORE_KILL.check(&server, true);
}

impl Reported {
    /// Reports everything over all protocols, and waits for each acknowledgement.
    fn report(&self, server: &Server) {
        let razor = RazorHome::new(server);
        razor.register();
        razor.report(&read(self.razor));
        PyzorHome::new(server).run(&["report"], &read(self.pyzor), 0);
        bruit_http("report", server, self.http, 0);
        Datagrams::to(server.address("dcc")).dcc_report_spam([self.byte; 16]);
        Datagrams::to(server.address("fuzzy")).fuzzy_add([self.byte; 64]);
    }

    /// Asserts that all reports are known, or that none of them is.
    fn check(&self, server: &Server, is_known: bool) {
        RazorHome::new(server).check(&read(self.razor), is_known);
        PyzorHome::new(server).check(&read(self.pyzor), is_known);
        bruit_http("check", server, self.http, i32::from(!is_known));
        assert_eq!(Datagrams::to(server.address("dcc")).dcc_is_many([self.byte; 16]), is_known);
        let (flag, probability) = Datagrams::to(server.address("fuzzy")).fuzzy_check([self.byte; 64]);
        assert_eq!((flag == 1, probability > 0.5), (is_known, is_known));
    }
}

fn read(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).unwrap()
}

/// Runs `bruit report` or `bruit check` with a message.
fn bruit_http(verb: &str, server: &Server, message: &str, code: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    run(command.args([verb, "--server", &server.url()]), &read(message)).expect(code, server);
}
