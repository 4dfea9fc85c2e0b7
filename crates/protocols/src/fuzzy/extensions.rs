//! Extensions, which follow a command. Each has a type and contains a fact about the sender. This module skips them.

use super::DecodeError;

/// Domain of the sender: a length byte, then that many bytes.
const DOMAIN: u8 = b'd';
/// IPv4 address of the message's sender: 4 bytes.
const IPV4: u8 = b'4';
/// IPv6 address of the message's sender: 16 bytes.
const IPV6: u8 = b'6';
/// Lowest type with a length field. From this type on, unknown types can be skipped.
const WITH_LENGTH_FROM: u8 = 0x80;

/// Skips all extensions.
///
/// # Errors
/// Returns [`DecodeError`] if an extension is truncated or its length is unknown.
pub(super) fn skip_all(mut bytes: &[u8]) -> Result<(), DecodeError> {
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = skip(kind, rest).ok_or(DecodeError::ExtensionCut { kind })??;
    }
    Ok(())
}

/// Returns the bytes after an extension, `None` if the extension is truncated, or an error if its length is unknown.
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
            // The length is 4, so the "s" of "facts" is decoded as the type of another extension.
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
