//! Debian's unmodified SpamAssassin with its Razor2 and Pyzor plugins. Rules and thresholds are the stock ones.

mod common;

use std::fs;
use std::path::Path;

use common::{Answer, Folder, PyzorHome, RazorHome, Server, bank, program, run, testdata};

/// Directory of Debian's rules. [`SITE`] contains the file that loads the plugins.
const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";
/// Rules of both plugins.
const RULE_NAMES: [&str; 3] = ["PYZOR_CHECK", "RAZOR2_CF_RANGE_51_100", "RAZOR2_CHECK"];

#[test]
fn what_spamassassin_reports_it_scores_until_it_revokes() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let site = Site::new(&server, |_, pyzor| format!("pyzor_options --homedir {}\n", pyzor.display()));
    site.razor.register();
    let (spam, other) = (message("razor/base64.eml"), message("razor/html.eml"));
    assert_eq!(site.hits(&spam), [""; 0]);
    site.run(&["-r"], &spam).expect(0, &server);
    assert_eq!(site.hits(&spam), RULE_NAMES);
    assert_eq!(site.hits(&other), [""; 0]);
    site.run(&["-k"], &spam).expect(0, &server);
    // The Pyzor plugin cannot revoke.
    assert_eq!(site.hits(&spam), ["PYZOR_CHECK"]);
}

/// After a report of a phish with the bank's logo and footer, the bank's own mail with both still hits no rule.
#[test]
fn the_bank_whose_logo_was_copied_hits_no_rule() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let site = Site::new(&server, |_, pyzor| format!("pyzor_options --homedir {}\n", pyzor.display()));
    site.razor.register();
    let (phish, genuine) = (bank::phish("Ann Baker"), bank::genuine());
    site.run(&["-r"], &phish).expect(0, &server);
    assert_eq!(site.hits(&phish), RULE_NAMES);
    assert_eq!(site.hits(&genuine), [""; 0]);
}

/// The Pyzor plugin's Perl client needs no Python process for every message. According to SpamAssassin's manual, it
/// cannot be combined with `pyzor_fork`.
#[test]
fn the_plugin_in_perl_scores_a_report() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let site = Site::new(&server, |_, pyzor| {
        format!("pyzor_perl 1\npyzor_fork 0\npyzor_server_file {}\n", pyzor.join("servers").display())
    });
    let (spam, other) = (message("razor/base64.eml"), message("razor/html.eml"));
    site.pyzor.run(&["report"], &spam, 0);
    assert_eq!(site.hits(&spam), ["PYZOR_CHECK"]);
    assert_eq!(site.hits(&other), [""; 0]);
}

fn message(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).unwrap()
}

/// A configuration in which SpamAssassin uses only our server.
struct Site<'a> {
    folder: Folder,
    razor: RazorHome<'a>,
    pyzor: PyzorHome<'a>,
    server: &'a Server,
}

impl<'a> Site<'a> {
    /// Creates a site. `pyzor_lines` returns the configuration of the Pyzor plugin, given the home directories of
    /// SpamAssassin and Pyzor.
    fn new(server: &'a Server, pyzor_lines: impl Fn(&Path, &Path) -> String) -> Self {
        let site = Self { folder: Folder::new(), razor: RazorHome::new(server), pyzor: PyzorHome::new(server), server };
        for entry in fs::read_dir(SITE).expect("spamassassin is missing: apt-get install spamassassin") {
            site.load_plugins_of(&entry.unwrap().path());
        }
        let lines = pyzor_lines(&site.folder.path(""), &site.pyzor.path());
        let (config, bayes) = (site.razor.config(), site.folder.path("bayes"));
        let lines = format!("razor_config {}\nbayes_path {}\n{lines}", config.display(), bayes.display());
        site.folder.write("local.cf", lines + "dns_available no\nreport_safe 0\n");
        site.folder.write("prefs", "");
        site
    }

    /// Copies a list of plugins, except the plugin that mails reports to a public service.
    fn load_plugins_of(&self, file: &Path) {
        let is_list = file.extension().is_some_and(|extension| extension == "pre");
        if is_list && !file.ends_with("sa-compile.pre") {
            let lines = fs::read_to_string(file).unwrap();
            let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("SpamCop")).collect();
            self.folder.write(file.file_name().unwrap().to_str().unwrap(), lines.join("\n") + "\n");
        }
    }

    /// Returns the rules of both plugins that hit `message`.
    #[track_caller]
    fn hits(&self, message: &[u8]) -> Vec<&'static str> {
        let text = self.run(&[], message).expect(0, self.server).text;
        let Some((_, status)) = text.split_once("\nX-Spam-Status: ") else { panic!("no verdict: {text}") };
        rules(status)
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Answer {
        let mut command = program("spamassassin", "spamassassin");
        command
            .args(["-C", RULES])
            .arg("--siteconfigpath")
            .arg(self.folder.path(""))
            .arg("-p")
            .arg(self.folder.path("prefs"));
        run(command.args(arguments).env("HOME", self.folder.path("")), input)
    }
}

/// Returns the names in [`RULE_NAMES`] that a header field lists as hits. The field may be folded.
fn rules(status: &str) -> Vec<&'static str> {
    let (field, _) = status.split_once("autolearn").unwrap_or_else(|| panic!("{status}"));
    let hits: String = field.split_whitespace().collect();
    RULE_NAMES.into_iter().filter(|rule| hits.split([',', '=']).any(|hit| hit == *rule)).collect()
}
