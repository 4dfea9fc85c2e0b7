//! What may follow a command: facts about the sender, each with its type. We use none of them.

use super::DecodeError;

/// The domain of the sender: a length, and as many bytes.
const DOMAIN: u8 = b'd';
/// The address a message came from: 4 bytes.
const IPV4: u8 = b'4';
/// The same: 16 bytes.
const IPV6: u8 = b'6';
/// Types from here on have a length, so that those not known yet can be passed over.
const WITH_LENGTH_FROM: u8 = 0x80;

/// Passes over all extensions.
///
/// # Errors
/// [`DecodeError`] for one that is cut, or of a type whose length nobody knows.
pub(super) fn skip_all(mut bytes: &[u8]) -> Result<(), DecodeError> {
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = skip(kind, rest).ok_or(DecodeError::ExtensionCut { kind })??;
    }
    Ok(())
}

/// What comes behind an extension; none if it is cut.
fn skip(kind: u8, bytes: &[u8]) -> Option<Result<&[u8], DecodeError>> {
    let rest = match kind {
        IPV4 => bytes.get(4..),
        IPV6 => bytes.get(16..),
        DOMAIN | WITH_LENGTH_FROM.. => bytes.split_first().and_then(|(&length, rest)| rest.get(length.into()..)),
        _ => return Some(Err(DecodeError::Extension { kind })),
    };
    rest.map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_extensions_and_those_with_a_length_are_passed_over() {
        let address = [&b"6"[..], &[0; 16]].concat();
        let all: [&[u8]; 8] =
            [b"", b"d\0", b"d\x03a.b", b"4abcd", &address, b"\x80\x04facts", b"\xff\0", b"d\x01a4abcd"];
        for bytes in all {
            // The five letters of "facts" are one too many: a type of its own.
            let expected = if bytes.ends_with(b"s") { Err(DecodeError::Extension { kind: b's' }) } else { Ok(()) };
            assert_eq!(skip_all(bytes), expected, "{bytes:?}");
        }
        assert_eq!(skip_all(&[&b"d\xff"[..], &[b'a'; 255]].concat()), Ok(()));
    }

    #[test]
    fn cut_extensions_are_refused() {
        for cut in [&b"d"[..], b"d\x02a", b"4abc", b"6abc", b"\x80", b"\x80\x01", b"d\x01a4"] {
            assert!(matches!(skip_all(cut), Err(DecodeError::ExtensionCut { .. })), "{cut:?}");
        }
    }

    #[test]
    fn types_without_a_known_length_are_refused() {
        for kind in (0..WITH_LENGTH_FROM).filter(|kind| !b"d46".contains(kind)) {
            assert_eq!(skip_all(&[kind, 0, 0, 0, 0]), Err(DecodeError::Extension { kind }));
        }
    }
}
