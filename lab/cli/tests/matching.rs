//! Tests of `bruit-lab match` on the command line: it reads jobs and prints answers.

mod common;

use common::{Folder, json, lab, printed, refused};

const SPAM: &str = "Subject: x\n\nBuy cheap watches and certified pills from our trusted online shop before the offer ends on Friday\n";
const REPLICA: &str = "Subject: y\nContent-Type: text/html\n\n<p>Dear John</p><p>Buy ch3ap wаtches and certified \
    p<!-- -->ills from our trusted 0nline shop before the offer ends on Friday</p><p>yours, a friend of many words</p>";
const OTHER: &str =
    "Subject: z\n\nThe minutes of the meeting about the new garden fence are attached, please read them\n";

/// Creates a folder with the three messages, and returns their paths.
fn messages() -> (Folder, [String; 3]) {
    let folder = Folder::new();
    for (name, text) in [("spam", SPAM), ("replica", REPLICA), ("other", OTHER)] {
        folder.write(name, text);
    }
    let paths = ["spam", "replica", "other"].map(|name| folder.path(name).to_str().unwrap().to_owned());
    (folder, paths)
}

fn jobs(folder: &Folder, lines: &[(&str, &str)]) -> String {
    let text: String = lines.iter().map(|(action, path)| format!("{action}\t{path}\n")).collect();
    folder.write("jobs", text);
    folder.path("jobs").to_str().unwrap().to_owned()
}

#[test]
fn queries_are_answered_with_the_reports_they_repeat() {
    let (folder, [spam, replica, other]) = messages();
    let jobs = jobs(
        &folder,
        &[("report", &spam), ("report", &other), ("query", &replica), ("query", &other), ("query", &spam)],
    );
    let expected = format!("{replica}\t{spam}\n{other}\t{other}\n{spam}\t{spam}\n");
    assert_eq!(printed(&["match", &jobs]), expected);
}

#[test]
fn a_query_that_repeats_nothing_has_an_empty_answer() {
    let (folder, [spam, _, other]) = messages();
    let jobs = jobs(&folder, &[("report", &spam), ("query", &other)]);
    assert_eq!(printed(&["match", &jobs]), format!("{other}\t\n"));
    assert_eq!(json(&["match", "--json", &jobs]), serde_json::json!({ "query": other, "matched": [] }));
}

#[test]
fn what_is_revoked_or_said_by_good_mail_does_not_match() {
    let (folder, [spam, replica, _]) = messages();
    let revoked = jobs(&folder, &[("report", &spam), ("revoke", &spam), ("query", &replica)]);
    assert_eq!(printed(&["match", &revoked]), format!("{replica}\t\n"));
    folder.write("good", format!("{SPAM}and more words to make it another message\n"));
    let other = folder.path("good").to_str().unwrap().to_owned();
    let good =
        jobs(&folder, &[("report", &spam), ("ham", &spam), ("query", &replica), ("ham", &other), ("query", &replica)]);
    assert_eq!(printed(&["match", &good]), format!("{replica}\t{spam}\n{replica}\t\n"));
}

#[test]
fn pairs_are_judged_one_by_one() {
    let (folder, [spam, replica, other]) = messages();
    let pairs = jobs(&folder, &[(&spam, &replica), (&spam, &other), (&other, &other)]);
    assert_eq!(printed(&["match", "--pairs", &pairs]), "1\n0\n1\n");
}

#[test]
fn a_sentence_within_a_long_message_is_a_replica_but_no_close_one() {
    let (folder, [spam, replica, _]) = messages();
    let around: String = (0..300).map(|at| format!("word{at}")).collect::<Vec<_>>().join(" ");
    folder.write("long", format!("{SPAM}{around}\n"));
    let long = folder.path("long").to_str().unwrap().to_owned();
    let pairs = jobs(&folder, &[(&spam, &long), (&spam, &replica)]);
    assert_eq!(printed(&["match", "--pairs", &pairs]), "1\n1\n");
    assert_eq!(printed(&["match", "--pairs", "--close", &pairs]), "0\n1\n");
    let queries = jobs(&folder, &[("report", &spam), ("query", &long), ("query", &spam)]);
    assert_eq!(printed(&["match", "--close", &queries]), format!("{long}\t\n{spam}\t{spam}\n"));
}

#[test]
fn the_key_changes_which_features_are_kept_and_not_the_answers() {
    let (folder, [spam, replica, _]) = messages();
    let jobs = jobs(&folder, &[("report", &spam), ("query", &replica)]);
    let answers = ["00", "a7"].map(|byte| printed(&["match", "--key", &byte.repeat(16), &jobs]));
    assert_eq!(answers[0], answers[1]);
    assert!(refused(&["match", "--key", "7", &jobs]).contains("32 hexadecimal digits"));
}

#[test]
fn the_summary_is_on_standard_error() {
    let (folder, [spam, replica, _]) = messages();
    let jobs = jobs(&folder, &[("report", &spam), ("query", &replica)]);
    let output = lab(&["match", "--summary", &jobs]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("1 reports, 27.0 features"));
}

#[test]
fn bad_jobs_are_refused_by_their_line() {
    let (folder, [spam, _, _]) = messages();
    folder.write("bad", format!("report\t{spam}\nlearn\t{spam}\n"));
    let bad = folder.path("bad").to_str().unwrap().to_owned();
    assert!(refused(&["match", &bad]).contains("line 2"));
    folder.write("bad", "report spam\n");
    assert!(refused(&["match", &bad]).contains("line 1"));
    assert!(refused(&["match", "--pairs", &bad]).contains("line 1"));
    folder.write("bad", b"report\t\xff\n");
    assert!(refused(&["match", &bad]).contains("UTF-8"));
    assert!(refused(&["match", "no such file"]).contains("no such file"));
}

#[test]
fn a_message_that_cannot_be_read_is_named_and_the_rest_is_answered() {
    let (folder, [spam, replica, _]) = messages();
    let lines = jobs(&folder, &[("report", &spam), ("query", "no such\u{1b}[31m message"), ("query", &replica)]);
    let output = lab(&["match", &lines]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.contains("no such") && !complaint.contains('\u{1b}'), "{complaint}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{replica}\t{spam}\n"));
    let pairs = jobs(&folder, &[(&spam, "no such message")]);
    assert!(refused(&["match", "--pairs", &pairs]).contains("no such message"));
}
