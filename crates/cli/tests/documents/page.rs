//! Parses a page of documentation: command blocks, and invisible comments that prepare them.
//!
//! A comment is `<!-- test: … -->`, on lines of its own, and applies to the next block:
//!
//! | comment | effect |
//! |---|---|
//! | `setup`, then shell commands on further lines | runs these commands before the block |
//! | `file PATH` | writes the block, in any language, to a file |
//! | `output` | compares the block with the output of the last command |
//! | `varies` | allows different numbers in the output |
//! | `with OLD => NEW` | runs the commands with a piece of text replaced, to make them faster |
//! | `skip: REASON`, `skip PROGRAM: REASON` | skips the block, or its lines that begin with a program |

use std::fs;
use std::path::Path;

/// A step of a page. Steps run in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// Writes a file.
    File { line: usize, path: String, text: String },
    /// Runs a command.
    Command(Command),
    /// Compares the output of the last command.
    Output { line: usize, output: Output },
    /// Skips a block or some of its lines.
    Skip { line: usize, reason: String },
}

/// One command of a block, or the lines of a `setup`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The expected exit code: the one in the command's comment, otherwise 0.
    pub(crate) code: i32,
    pub(crate) output: Option<Output>,
}

/// Output shown on a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) text: String,
    pub(crate) numbers_vary: bool,
}

/// A block of a page: its first line, its language and its text, without indentation.
struct Block {
    line: usize,
    language: String,
    text: Vec<String>,
}

/// The contents of the comments before a block.
#[derive(Default)]
struct Comments {
    file: Option<String>,
    is_output: bool,
    numbers_vary: bool,
    replacements: Vec<(String, String)>,
    skips: Vec<(Option<String>, String)>,
}

/// Returns all steps of the page at `path`.
pub(crate) fn read(path: &Path) -> Vec<Item> {
    let text = fs::read_to_string(path).unwrap();
    parse(&text).unwrap_or_else(|fault| panic!("{}:{fault}", path.display()))
}

/// Parses the steps of a page. The error contains the line and a description.
pub(crate) fn parse(text: &str) -> Result<Vec<Item>, String> {
    let mut reader = Reader { lines: text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect(), at: 0 };
    let (mut items, mut comments) = (Vec::new(), Comments::default());
    let mut may_be_indented = true;
    while let Some((line, text)) = reader.next() {
        if let Some(comment) = text.trim_start().strip_prefix("<!-- test:") {
            let comment = reader.comment(comment);
            comments.add(line, &comment, &mut items).map_err(|fault| format!("{line}: {fault}"))?;
        } else if let Some(language) = text.trim_start().strip_prefix("```") {
            let block = reader.fenced(line, language, indentation(text));
            std::mem::take(&mut comments).apply(block, &mut items)?;
        } else if may_be_indented && is_indented_command(text) {
            let block = reader.indented(line, text);
            std::mem::take(&mut comments).apply(block, &mut items)?;
        }
        may_be_indented = text.trim().is_empty() || text.trim_start().starts_with("<!-- ");
    }
    Ok(items)
}

/// The numbered lines of a page, and the position of the next one.
struct Reader<'a> {
    lines: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        self.at += 1;
        self.lines.get(self.at - 1).copied()
    }

    /// Returns the rest of a comment that began with `first`.
    fn comment(&mut self, first: &str) -> String {
        let mut text = first.to_owned();
        while !text.contains("-->") {
            let Some((_, line)) = self.next() else { break };
            text.push('\n');
            text.push_str(line);
        }
        text.split("-->").next().unwrap_or_default().trim().to_owned()
    }

    /// Returns the block after the fence at `line`.
    fn fenced(&mut self, line: usize, language: &str, indentation: usize) -> Block {
        let mut text = Vec::new();
        while let Some((_, inner)) = self.next() {
            if inner.trim_start().starts_with("```") {
                break;
            }
            text.push(inner.get(indentation..).unwrap_or_default().to_owned());
        }
        Block { line: line + 1, language: language.trim().to_owned(), text }
    }

    /// Returns the indented block that begins with `first`.
    fn indented(&mut self, line: usize, first: &str) -> Block {
        let mut text = vec![first.trim_start().to_owned()];
        while let Some((_, inner)) = self.lines.get(self.at).filter(|(_, inner)| inner.starts_with("    ")) {
            text.push(inner.trim_start().to_owned());
            self.at += 1;
        }
        Block { line, language: "sh".to_owned(), text }
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns true if an indented line is a command, and not the second paragraph of a list item.
fn is_indented_command(line: &str) -> bool {
    let programs = ["bruit ", "cargo ", "curl ", "$ "];
    line.starts_with("    ") && programs.iter().any(|program| line.trim_start().starts_with(program))
}

impl Comments {
    fn add(&mut self, line: usize, comment: &str, items: &mut Vec<Item>) -> Result<(), String> {
        let (first, rest) = comment.split_once('\n').unwrap_or((comment, ""));
        let (word, argument) = first.split_once([' ', ':']).unwrap_or((first, ""));
        match word {
            "setup" => items.extend(script(&setup(line, rest)).into_iter().map(Item::Command)),
            "file" => self.file = Some(argument.trim().to_owned()),
            "output" => self.is_output = true,
            "varies" => self.numbers_vary = true,
            "with" => self.replacements.push(replacement(argument)?),
            "skip" => self.skips.push(skip(comment)?),
            _ => return Err(format!("unknown comment {word:?}")),
        }
        Ok(())
    }

    /// Adds the steps of a block.
    fn apply(self, block: Block, items: &mut Vec<Item>) -> Result<(), String> {
        let line = block.line;
        let output = |text| Output { text, numbers_vary: self.numbers_vary };
        if let Some(path) = self.file {
            items.push(Item::File { line, path, text: block.text.join("\n") });
            return Ok(());
        }
        let is_console = block.language == "console";
        if self.is_output || is_console && !block.text.iter().any(|line| line.starts_with("$ ")) {
            items.push(Item::Output { line, output: output(block.text.join("\n")) });
            return Ok(());
        }
        if !is_console && !["sh", "bash", "shell"].contains(&block.language.as_str()) {
            let is_command = block.text.iter().any(|line| line.starts_with("$ "));
            return if is_command { Err(format!("{line}: commands belong in a console block")) } else { Ok(()) };
        }
        for (_, reason) in &self.skips {
            items.push(Item::Skip { line, reason: reason.clone() });
        }
        let commands = if is_console { console(&block, &output) } else { script(&block) };
        for mut command in commands {
            for (old, new) in &self.replacements {
                command.text = command.text.replace(old, new);
            }
            if !self.skips.iter().any(|(program, _)| is_of(program.as_deref(), &command.text)) {
                items.push(Item::Command(command));
            }
        }
        Ok(())
    }
}

/// Returns true if a skip applies to this command. Without `program`, a skip applies to every command.
fn is_of(program: Option<&str>, command: &str) -> bool {
    program.is_none_or(|program| command.starts_with(program))
}

/// Returns the shell commands in the comment that starts at `line`.
fn setup(line: usize, text: &str) -> Block {
    let text = text.lines().map(|line| line.trim_start().to_owned()).collect();
    Block { line: line + 1, language: "sh".to_owned(), text }
}

fn replacement(argument: &str) -> Result<(String, String), String> {
    let (old, new) = argument.split_once("=>").ok_or("expected a replacement OLD => NEW")?;
    Ok((old.trim().to_owned(), new.trim().to_owned()))
}

/// Returns the program to skip, or `None` to skip the whole block, and the reason.
fn skip(comment: &str) -> Result<(Option<String>, String), String> {
    let (what, reason) = comment.split_once(':').ok_or("a skip needs a reason: `skip: REASON`")?;
    let program = what.trim_start_matches("skip").trim();
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    if reason.is_empty() {
        return Err("a skip needs a reason".to_owned());
    }
    Ok(((!program.is_empty()).then(|| program.to_owned()), reason))
}

/// Returns the commands of a block without output.
fn script(block: &Block) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut lines = block.text.iter().zip(block.line..).filter(|(text, _)| !text.trim().is_empty());
    while let Some((first, line)) = lines.next() {
        let mut text = first.clone();
        while is_unfinished(&text) {
            let Some((more, _)) = lines.next() else { break };
            text.push('\n');
            text.push_str(more);
        }
        commands.push(Command { line, code: exit_code(&text), text, output: None });
    }
    commands
}

/// Returns the commands of a block, each with the output shown below it. Commands follow a `$`.
fn console(block: &Block, output: &impl Fn(String) -> Output) -> Vec<Command> {
    let mut commands: Vec<(Command, Vec<&str>)> = Vec::new();
    for (text, line) in block.text.iter().zip(block.line..) {
        if let Some(command) = text.strip_prefix("$ ") {
            let command = Command { line, text: command.to_owned(), code: exit_code(command), output: None };
            commands.push((command, Vec::new()));
        } else if let Some((command, shown)) = commands.last_mut() {
            if is_unfinished(&command.text) {
                command.text.push('\n');
                command.text.push_str(text);
            } else {
                shown.push(text);
            }
        }
    }
    let with_output =
        |(command, shown): (Command, Vec<&str>)| Command { output: Some(output(shown.join("\n"))), ..command };
    commands.into_iter().map(with_output).collect()
}

/// Returns true if a command continues on the next line: after a backslash, in quotes, or in a here-document.
fn is_unfinished(text: &str) -> bool {
    let here = text.split_once("<<'").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((word, lines)) = here {
        return !lines.lines().any(|line| line == word);
    }
    text.ends_with('\\') || text.matches('\'').count() % 2 == 1 && !text.contains('#')
}

/// Returns the exit code from a comment such as `# exit code 1: not known`.
fn exit_code(text: &str) -> i32 {
    let digits = text.rsplit_once("# exit code ").map_or("0", |(_, rest)| rest);
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}
