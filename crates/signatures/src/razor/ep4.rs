//! The e4 parameters that a server announces: a seed and a line separator.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a separator.
pub const SEPARATOR_BYTES_MAX: usize = 8;

/// Bytes with a special meaning in regular expressions. The client uses the separator as a regular expression, so these
/// bytes would not be matched literally.
const NOT_PLAIN: &[u8] = b"\\^.$|()[]{}*+?";

/// Parameters that determine which sections of a text e4 signs.
///
/// The text form consists of the seed and the separator's bytes in decimal, joined by `-`. For example, `7542-10` is
/// seed 7542 and a line feed.
///
/// ```
/// use bruit_signatures::razor::Ep4;
///
/// let ep4: Ep4 = "9911-13-10".parse()?;
/// assert_eq!((ep4.seed(), ep4.separator()), (9911, &b"\r\n"[..]));
/// assert_eq!(Ep4::default().to_string(), "7542-10");
/// # Ok::<(), bruit_signatures::razor::Ep4Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ep4 {
    seed: u32,
    separator: Vec<u8>,
}

/// Reason why parameters are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Ep4Error {
    /// The seed is missing, too large, or zero. (The client refuses to sign with seed zero.)
    #[error("invalid ep4 seed: expected a number from 1 to 4294967295")]
    Seed,
    /// The separator is not a list of bytes in decimal.
    #[error("invalid ep4 separator: expected byte values joined by hyphens, without leading zeros")]
    Separator,
    /// The separator is too long.
    #[error("invalid ep4 separator: longer than {SEPARATOR_BYTES_MAX} bytes")]
    TooLong,
    /// The separator contains a metacharacter of regular expressions, or is a single NUL, which the client ignores.
    #[error("invalid ep4 separator: it is a single NUL or contains one of the characters {}", NOT_PLAIN.escape_ascii())]
    NotPlain,
}

impl Ep4 {
    /// Creates parameters, if the client interprets them as this crate does.
    ///
    /// # Errors
    /// Fails if the client would refuse the seed or the separator, or interpret the separator as a regular expression.
    pub fn new(seed: u32, separator: &[u8]) -> Result<Self, Ep4Error> {
        if seed == 0 {
            return Err(Ep4Error::Seed);
        }
        if separator.len() > SEPARATOR_BYTES_MAX {
            return Err(Ep4Error::TooLong);
        }
        match separator {
            [] => Err(Ep4Error::Separator),
            [0] => Err(Ep4Error::NotPlain),
            bytes if bytes.iter().any(|byte| NOT_PLAIN.contains(byte)) => Err(Ep4Error::NotPlain),
            _ => Ok(Self { seed, separator: separator.to_vec() }),
        }
    }

    /// Returns the seed of the pseudo-random numbers.
    #[must_use]
    pub const fn seed(&self) -> u32 {
        self.seed
    }

    /// Returns the line separator, which has at least one byte.
    #[must_use]
    pub fn separator(&self) -> &[u8] {
        &self.separator
    }
}

/// The parameters that the client uses until a server announces others.
impl Default for Ep4 {
    fn default() -> Self {
        Self { seed: 7542, separator: b"\n".to_vec() }
    }
}

impl FromStr for Ep4 {
    type Err = Ep4Error;

    fn from_str(text: &str) -> Result<Self, Ep4Error> {
        let (seed, separator) = text.split_once('-').ok_or(Ep4Error::Separator)?;
        let seed = decimal(seed).ok_or(Ep4Error::Seed)?;
        let bytes = separator.split('-').take(SEPARATOR_BYTES_MAX + 1).map(decimal::<u8>);
        Self::new(seed, &bytes.collect::<Option<Vec<_>>>().ok_or(Ep4Error::Separator)?)
    }
}

impl fmt::Display for Ep4 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.seed)?;
        self.separator.iter().try_for_each(|byte| write!(formatter, "-{byte}"))
    }
}

/// Parses a number in its shortest decimal form.
fn decimal<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_read_what_they_write() {
        for text in ["7542-10", "1-0-10", "4294967295-255", "5-32-32"] {
            assert_eq!(text.parse::<Ep4>().map(|ep4| ep4.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("7542-10".parse(), Ok(Ep4::default()));
    }

    #[test]
    fn separators_the_client_would_misread_are_refused() {
        for text in ["0-10", "4294967296-10", "-10", "x-10", "+5-10", "05-10"] {
            assert_eq!(text.parse::<Ep4>(), Err(Ep4Error::Seed), "{text}");
        }
        for text in ["", "7542", "7542-", "7542-256", "7542-010", "7542-10-", "7542-+10"] {
            assert_eq!(text.parse::<Ep4>(), Err(Ep4Error::Separator), "{text}");
        }
        for text in ["7542-0", "7542-46", "7542-10-42"] {
            assert_eq!(text.parse::<Ep4>(), Err(Ep4Error::NotPlain), "{text}");
        }
    }

    #[test]
    fn separators_are_bounded() {
        let longest = format!("1{}", "-10".repeat(SEPARATOR_BYTES_MAX));
        assert!(longest.parse::<Ep4>().is_ok());
        assert_eq!(format!("{longest}-10").parse::<Ep4>(), Err(Ep4Error::TooLong));
        assert_eq!(format!("1{}", "-10".repeat(1_000_000)).parse::<Ep4>(), Err(Ep4Error::TooLong));
    }
}
