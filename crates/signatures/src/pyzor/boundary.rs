//! Boundary lines of multiparts.

/// The boundary of a multipart.
#[derive(Clone)]
pub(super) struct Boundary {
    delimiter: Vec<u8>,
}

/// A boundary line.
pub(super) enum Delimiter {
    Between,
    Last,
}

impl Boundary {
    /// Creates the boundary with this name.
    pub(super) fn new(name: &str) -> Self {
        // Python compares characters, and its lines contain only ASCII. So a name that is not ASCII never matches, and
        // is replaced with a line end, which never matches either.
        let name = if name.is_ascii() { name } else { "\n" };
        Self { delimiter: [b"--", name.as_bytes()].concat() }
    }

    /// Classifies `line` relative to this boundary. The line may end in two hyphens, blanks and tabs.
    pub(super) fn find(&self, line: &[u8]) -> Option<Delimiter> {
        let line = without_line_end(line);
        let rest = line.strip_prefix(self.delimiter.as_slice())?;
        let length = rest.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
        match rest.get(..length)? {
            b"" => Some(Delimiter::Between),
            b"--" => Some(Delimiter::Last),
            _ => None,
        }
    }
}

/// Strips one line end.
pub(super) fn without_line_end(bytes: &[u8]) -> &[u8] {
    match bytes {
        [before @ .., b'\r', b'\n'] | [before @ .., b'\r' | b'\n'] => before,
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_may_have_hyphens_and_blanks_after_it() {
        let boundary = Boundary::new("b");
        for line in ["--b", "--b\n", "--b \t\r\n", "--b\r"] {
            assert!(matches!(boundary.find(line.as_bytes()), Some(Delimiter::Between)), "{line:?}");
        }
        for line in ["--b--", "--b-- \t\n"] {
            assert!(matches!(boundary.find(line.as_bytes()), Some(Delimiter::Last)), "{line:?}");
        }
        for line in ["--bc", "--b -", "--b --", "--b----", " --b", "-b", "--b\x0c"] {
            assert!(boundary.find(line.as_bytes()).is_none(), "{line:?}");
        }
    }

    #[test]
    fn a_boundary_beyond_ascii_is_never_found() {
        assert!(Boundary::new("\u{fffd}").find("--\u{fffd}\n".as_bytes()).is_none());
    }
}
