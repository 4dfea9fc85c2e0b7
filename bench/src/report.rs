//! Figures, their targets, and the comparison of figures with targets.

use std::io::{self, Write};

use serde_json::{Value, json};

/// The target of a figure: a minimum, a maximum or none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// No target: the figure is printed for comparison only.
    None,
}

/// One line of the report.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) target: Target,
    /// Details of the measurement.
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, target: Target, note: impl Into<String>) -> Self {
        Self { name: name.into(), value, target, note: note.into() }
    }

    fn holds(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(target) => Some(self.value >= target),
            Target::AtMost(target) => Some(self.value <= target),
            Target::None => None,
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::AtLeast(target) => format!(">= {target}"),
            Target::AtMost(target) => format!("<= {target}"),
            Target::None => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.holds() {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        }
    }
}

/// Prints figures as they are measured.
pub(crate) struct Report {
    json: bool,
    figures: Vec<Figure>,
    open: Vec<(String, String)>,
}

impl Report {
    pub(crate) fn new(json: bool) -> io::Result<Self> {
        if !json {
            writeln!(io::stdout(), "| figure | value | target | verdict | from |\n|---|---|---|---|---|")?;
        }
        Ok(Self { json, figures: Vec::new(), open: Vec::new() })
    }

    pub(crate) fn add(&mut self, figure: Figure) -> io::Result<()> {
        if !self.json {
            let Figure { name, value, note, .. } = &figure;
            let (target, verdict) = (figure.target_text(), figure.verdict());
            let digits = if value.abs() < 0.1 || (0.99..1.0).contains(value) { 4 } else { 3 };
            writeln!(io::stdout(), "| {name} | {value:.digits$} | {target} | {verdict} | {note} |")?;
        }
        self.figures.push(figure);
        Ok(())
    }

    /// Prints a line for a figure that cannot be measured on this machine. `needs` names what is missing.
    pub(crate) fn missing(&mut self, name: &str, target: &str, needs: &str) -> io::Result<()> {
        self.open.push((name.to_owned(), target.to_owned()));
        if self.json { Ok(()) } else { writeln!(io::stdout(), "| {name} | | {target} | not measured | {needs} |") }
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        if !self.json {
            let missed = self.figures.iter().filter(|figure| figure.holds() == Some(false)).count();
            let stated = self.figures.iter().filter(|figure| figure.holds().is_some()).count();
            return writeln!(io::stdout(), "\n{} of {stated} targets met.", stated - missed);
        }
        let figures: Vec<Value> = self.figures.iter().map(to_json).collect();
        let open: Vec<Value> =
            self.open.iter().map(|(name, target)| json!({ "name": name, "target": target })).collect();
        writeln!(io::stdout(), "{}", json!({ "figures": figures, "open": open }))
    }
}

fn to_json(figure: &Figure) -> Value {
    json!({
        "name": figure.name,
        "value": figure.value,
        "target": figure.target_text(),
        "holds": figure.holds(),
        "note": figure.note,
    })
}
