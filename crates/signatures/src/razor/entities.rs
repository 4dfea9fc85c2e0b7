//! Named characters that the client supports. They are the four special characters of HTML, the non-breaking space, and
//! the upper half of Latin-1.

/// Names that are not in [`LATIN_1`], with their characters.
const SINGLE: &[(&str, u8)] = &[("lt", b'<'), ("gt", b'>'), ("amp", b'&'), ("quot", b'"'), ("nbsp", b' ')];

/// The names of the characters 161 to 255 in Latin-1, in order (HTML 3.2, "Character Entities for ISO Latin-1").
const LATIN_1: &str = "\
    iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para \
    middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave \
    Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute \
    Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave \
    iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn \
    yuml";

/// Returns the character whose name begins `text`, and the length of the name. No name is a prefix of another.
pub(super) fn at_start(text: &[u8]) -> Option<(u8, usize)> {
    // Most `&` are not followed by a name. Checking the first character avoids most searches.
    text.first().filter(|first| first.is_ascii_alphabetic())?;
    let names = SINGLE.iter().copied().chain(LATIN_1.split(' ').zip(161..=255));
    names.into_iter().find(|(name, _)| text.starts_with(name.as_bytes())).map(|(name, byte)| (byte, name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latin_1_names_end_at_255() {
        assert_eq!(LATIN_1.split(' ').count(), 255 - 161 + 1);
        assert_eq!(at_start(b"yuml"), Some((255, 4)));
        assert_eq!(at_start(b"copyright"), Some((169, 4)));
        assert_eq!(at_start(b"Eth"), None);
    }

    #[test]
    fn no_name_is_the_beginning_of_another() {
        let names: Vec<_> = SINGLE.iter().map(|(name, _)| *name).chain(LATIN_1.split(' ')).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| other.starts_with(name)).count(), 1, "{name}");
        }
    }
}
