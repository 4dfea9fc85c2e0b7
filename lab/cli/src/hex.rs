//! Decodes hexadecimal digits.

/// Decodes hexadecimal digits. Blanks and colons, which other programs print between them, are ignored.
pub(crate) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|char| !char.is_whitespace() && *char != ':').collect();
    let nibble = |char: char| char.to_digit(16).ok_or_else(|| format!("'{char}' is not a hexadecimal digit"));
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("odd number of hexadecimal digits".to_owned());
    }
    pairs.iter().map(|&[high, low]| Ok((nibble(high)? << 4 | nibble(low)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_other_programs_print_them() {
        assert_eq!(from_hex("00fF 1a:2B\n"), Ok(vec![0, 255, 0x1a, 0x2b]));
        assert_eq!(from_hex(""), Ok(vec![]));
        assert!(from_hex("123").is_err() && from_hex("0x12").is_err());
    }
}
