//! Sizes and durations in the configuration: `64MiB`, `3s`.

use std::time::Duration;

use bruit_engine::units::{parse_bytes_with_unit, parse_span};
use serde::{Deserialize, Deserializer, de::Error as _};

/// A size with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

/// A duration with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_bytes_with_unit(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_span(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}
