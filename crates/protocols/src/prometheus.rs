//! Prometheus' text format, version 0.0.4.
//!
//! Families are collected first and written later, so that the help text and type of each family are written once,
//! before its samples.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric and its samples.
#[derive(Clone, Debug)]
pub struct Family {
    name: Cow<'static, str>,
    help: &'static str,
    kind: &'static str,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    suffix: &'static str,
    labels: Labels,
    value: f64,
}

/// Label names and values. Names are constants, and values may contain any characters.
#[derive(Clone, Debug, Default)]
pub struct Labels(Vec<(&'static str, String)>);

impl Labels {
    /// Returns one label.
    #[must_use]
    pub fn one(name: &'static str, value: &str) -> Self {
        Self::default().and(name, value)
    }

    /// Adds a label.
    #[must_use]
    pub fn and(mut self, name: &'static str, value: &str) -> Self {
        self.0.push((name, value.to_owned()));
        self
    }
}

impl Family {
    /// Creates a counter.
    #[must_use]
    pub fn counter(name: impl Into<Cow<'static, str>>, help: &'static str) -> Self {
        Self::new(name.into(), help, "counter")
    }

    /// Creates a gauge.
    #[must_use]
    pub fn gauge(name: impl Into<Cow<'static, str>>, help: &'static str) -> Self {
        Self::new(name.into(), help, "gauge")
    }

    /// Creates a histogram.
    #[must_use]
    pub fn histogram(name: impl Into<Cow<'static, str>>, help: &'static str) -> Self {
        Self::new(name.into(), help, "histogram")
    }

    /// Creates a summary.
    #[must_use]
    pub fn summary(name: impl Into<Cow<'static, str>>, help: &'static str) -> Self {
        Self::new(name.into(), help, "summary")
    }

    const fn new(name: Cow<'static, str>, help: &'static str, kind: &'static str) -> Self {
        Self { name, help, kind, samples: Vec::new() }
    }

    /// Adds one sample without labels.
    #[must_use]
    pub fn with(mut self, value: f64) -> Self {
        self.add(Labels::default(), value);
        self
    }

    /// Adds samples.
    #[must_use]
    pub fn with_all(mut self, samples: impl IntoIterator<Item = (Labels, f64)>) -> Self {
        samples.into_iter().for_each(|(labels, value)| self.add(labels, value));
        self
    }

    /// Adds one sample.
    pub fn add(&mut self, labels: Labels, value: f64) {
        self.add_part("", labels, value);
    }

    /// Adds one of the samples that make up a histogram or a summary.
    pub fn add_part(&mut self, suffix: &'static str, labels: Labels, value: f64) {
        self.samples.push(Sample { suffix, labels, value });
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let Self { name, help, kind, samples } = self;
        writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        for Sample { suffix, labels, value } in samples {
            writeln!(out, "{name}{suffix}{labels} {}", Number(*value))?;
        }
        Ok(())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}=\"", if place == 0 { "{" } else { "," })?;
            value.chars().try_for_each(|letter| match letter {
                '\\' => f.write_str("\\\\"),
                '"' => f.write_str("\\\""),
                '\n' => f.write_str("\\n"),
                letter => f.write_char(letter),
            })?;
            f.write_char('"')?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_char('}') }
    }
}

/// Formats a value as Prometheus does.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

/// Renders all families that have samples.
#[must_use]
pub fn text(families: impl IntoIterator<Item = Family>) -> String {
    let mut out = String::new();
    for family in families.into_iter().filter(|family| !family.samples.is_empty()) {
        // Writing to a string does not fail.
        let _ = family.write(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_help_and_type_once_and_escaped_labels() {
        let labels = Labels::one("peer", "a\\b\"c\nd").and("state", "up");
        let family = Family::gauge("bruit_x", "Help.").with_all([(labels, 0.5), (Labels::default(), f64::INFINITY)]);
        let expected = "# HELP bruit_x Help.\n# TYPE bruit_x gauge\n\
                        bruit_x{peer=\"a\\\\b\\\"c\\nd\",state=\"up\"} 0.5\nbruit_x +Inf\n";
        assert_eq!(text([family]), expected);
    }

    #[test]
    fn a_family_without_samples_is_left_out() {
        assert_eq!(text([Family::counter("bruit_x_total", "Help.")]), "");
    }
}
