//! The parts of a program that surround its verbs: command-line parsing, error messages and exit codes.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser, Subcommand};

use crate::Failure;
use crate::terminal::{complain, set_program};

/// A heading in the help, and the verbs listed below it.
pub type Group = (&'static str, &'static [&'static str]);

/// Returns a help template that lists the verbs of `V` in groups, which clap does not support.
///
/// # Panics
/// Panics if the groups contain an unknown verb or omit a verb.
pub fn help_template<V: Subcommand>(groups: &[Group]) -> String {
    let program = V::augment_subcommands(Command::new("")).subcommand(Command::new("help").about(HELP));
    let listed: usize = groups.iter().map(|(_, verbs)| verbs.len()).sum();
    assert_eq!(listed, program.get_subcommands().count(), "the help lists every verb once");
    let width = program.get_subcommands().map(|verb| verb.get_name().len()).max().unwrap_or(0);
    let (header, literal) = (*Styles::styled().get_header(), *Styles::styled().get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, verbs) in groups {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for name in *verbs {
            let verb = program.find_subcommand(name).expect("the groups name verbs of the program");
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

/// Description of clap's own verb `help`.
const HELP: &str = "Print this message or the help of a verb";

/// A verb that moved to another program.
#[derive(Clone, Copy, Debug)]
pub struct MovedVerb {
    /// The verb.
    pub verb: &'static str,
    /// The program that it moved to.
    pub program: &'static str,
}

/// Parses the command line and runs the program. Prints an error as one line on standard error. If the verb is in
/// `moved`, the error names the new program.
pub fn run<A: Parser>(moved: &[MovedVerb], run: impl FnOnce(A) -> Result<ExitCode, Failure>) -> ExitCode {
    set_program(A::command().get_name());
    match parse(moved).and_then(run) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

fn parse<A: Parser>(moved: &[MovedVerb]) -> Result<A, Failure> {
    A::try_parse().map_err(|error| {
        if let Some(failure) = moved_verb(&error, moved) {
            failure
        } else if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            Failure::from_clap(&error)
        } else {
            error.exit()
        }
    })
}

fn moved_verb(error: &clap::Error, moved: &[MovedVerb]) -> Option<Failure> {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // Only top-level verbs moved, not subcommands such as `filter map`.
    if std::env::args().nth(1).as_ref() != Some(found) {
        return None;
    }
    let MovedVerb { verb, program } = moved.iter().find(|moved| moved.verb == found)?;
    Some(Failure::BadInput(format!("'{verb}' has moved to another program: run `{program} {verb}`")))
}

fn report(failure: &Failure) -> ExitCode {
    if let Some(line) = failure.line() {
        // An error is always one line, but a file name or a server's answer in it may contain line breaks.
        complain(&line.replace('\n', " "));
    }
    failure.exit_code()
}
