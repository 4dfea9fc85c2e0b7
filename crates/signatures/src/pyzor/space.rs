//! Python's definitions of white space and line ends.

/// Returns true if Python's `str.isspace`, `str.strip` and `\s` treat `character` as white space. This is Unicode white
/// space and four ASCII separators.
pub(super) fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

/// Returns true if Python's `str.splitlines` ends a line at `character`.
pub(super) fn is_line_end(character: char) -> bool {
    matches!(character, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Strips white space at both ends, like `str.strip`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Returns the number of bytes of leading white space.
pub(super) fn leading(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_space).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_that_of_python() {
        let expected = [
            0x9, 0xa, 0xb, 0xc, 0xd, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
            0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
        ];
        let found: Vec<u32> = ('\0'..=char::MAX).filter(|&c| is_space(c)).map(u32::from).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn line_ends_are_those_of_python() {
        let expected = [0xa, 0xb, 0xc, 0xd, 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029];
        let found: Vec<u32> = ('\0'..=char::MAX).filter(|&c| is_line_end(c)).map(u32::from).collect();
        assert_eq!(found, expected);
    }
}
