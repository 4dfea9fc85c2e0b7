//! The server operator's file that assigns fixed counts to checksums.
//!
//! The format is that of the original server's `whitelist`: each line has a value, a checksum kind, and the item that
//! the checksum covers.
//!
//! ```text
//! # our own machines, a list that all of us read, and a known body
//! OK    IP          192.0.2.0/24
//! OK    env_From    owner-news@example.org
//! OK2   Substitute  List-ID <news.example.org>
//! MANY  Hex Body    7ae7d243 ee003263 6cc6106a 72e82bb2
//! ```
//!
//! Values and kinds are case-insensitive. A line that starts with `#` is a comment. Because a server receives only
//! checksums, an address range is expanded to one entry per address and is limited to the size of a /16. Host names are
//! not resolved and `include` is rejected, because this module accesses neither files nor DNS. Values, kinds and
//! options that apply only to clients are also rejected: `MX`, `MXDCC`, `SUBMIT`, `env_To` and `option`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bruit_signatures::dcc::{address_sum, field_sum, substitute_sum};
use thiserror::Error;

use super::counts::Count;
use super::items::{Item, Kind, Sum};

/// Maximum length of a line.
pub const LINE_BYTES_MAX: usize = 2048;

/// Maximum number of entries in a file. Each address of a range counts as an entry.
pub const ENTRIES_MAX: usize = 1 << 18;

/// Maximum number of addresses in a range: a /16.
pub const RANGE_MAX: u128 = 1 << 16;

/// A checksum and its fixed count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The checksum.
    pub item: Item,
    /// [`Count::OK`], [`Count::OK2`] or [`Count::TOO_MANY`].
    pub value: Count,
}

/// A line that could not be parsed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct WhitelistError {
    /// Line number, starting at 1.
    pub line: usize,
    /// The problem with the line.
    pub problem: LineProblem,
}

/// A problem with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// The line is too long.
    #[error("more than {LINE_BYTES_MAX} bytes")]
    LongLine,
    /// The line does not begin with a value.
    #[error("expected OK, OK2 or MANY")]
    NoValue,
    /// A value or option applies only to clients.
    #[error("only valid in a client's whitelist, not in a server's")]
    OnlyForClients,
    /// The line includes another file.
    #[error("include is not supported: copy the lines of that file here instead")]
    Include,
    /// The value is not followed by a kind.
    #[error("expected IP, env_From, From, Message-ID, Received, Substitute or Hex")]
    NoKind,
    /// The kind is not followed by an item.
    #[error("expected an item after the kind")]
    Nothing,
    /// The item is not an address or range.
    #[error("expected an address, a range first-last, or address/length; host names are not resolved")]
    NoAddress,
    /// The range ends before it begins, mixes IP versions, or has bits set after its prefix.
    #[error("invalid range: expected first-last in ascending order, or a block without host bits")]
    Disordered,
    /// The range is too large.
    #[error("range too large: the maximum is 65536 addresses (a /16, or a /112 for IPv6)")]
    LargeRange,
    /// The hex digits of a checksum are invalid.
    #[error("expected a kind and four groups of eight hex digits")]
    NoSum,
    /// The file has too many entries.
    #[error("more than {ENTRIES_MAX} entries")]
    TooMany,
}

/// Parses a file.
///
/// # Errors
/// Returns the first line that cannot be parsed.
pub fn read(text: &[u8]) -> Result<Vec<Entry>, WhitelistError> {
    let mut entries = Vec::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        read_line(line, &mut entries).map_err(|problem| WhitelistError { line: index + 1, problem })?;
    }
    Ok(entries)
}

fn read_line(line: &[u8], entries: &mut Vec<Entry>) -> Result<(), LineProblem> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineProblem::LongLine);
    }
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(());
    }
    let (value, rest) = word(line);
    let value = read_value(value)?;
    for sum in read_sums(rest)? {
        if entries.len() == ENTRIES_MAX {
            return Err(LineProblem::TooMany);
        }
        entries.push(Entry { item: sum, value });
    }
    Ok(())
}

fn read_value(value: &[u8]) -> Result<Count, LineProblem> {
    let only_for_clients = ["MX", "MXDCC", "SUBMIT", "option"];
    match value {
        _ if is(value, "OK") => Ok(Count::OK),
        _ if is(value, "OK2") => Ok(Count::OK2),
        _ if is(value, "MANY") => Ok(Count::TOO_MANY),
        _ if is(value, "include") => Err(LineProblem::Include),
        _ if only_for_clients.iter().any(|name| is(value, name)) => Err(LineProblem::OnlyForClients),
        _ => Err(LineProblem::NoValue),
    }
}

/// Parses the rest of a line, after its value.
fn read_sums(text: &[u8]) -> Result<Box<dyn Iterator<Item = Item>>, LineProblem> {
    let (kind, rest) = word(text);
    if is(kind, "env_To") {
        return Err(LineProblem::OnlyForClients);
    }
    if is(kind, "Hex") {
        return read_hex(rest).map(one);
    }
    let kind = [Kind::Ip, Kind::EnvFrom, Kind::From, Kind::MessageId, Kind::Received, Kind::Substitute]
        .into_iter()
        .find(|known| is(kind, known.name()))
        .ok_or(LineProblem::NoKind)?;
    if rest.is_empty() {
        return Err(LineProblem::Nothing);
    }
    match kind {
        Kind::Ip => Ok(Box::new(read_range(rest)?.map(move |address| Item { kind, sum: address_sum(address) }))),
        Kind::Substitute => read_substitute(rest).map(one),
        _ => Ok(one(Item { kind, sum: field_sum(rest) })),
    }
}

fn one(item: Item) -> Box<dyn Iterator<Item = Item>> {
    Box::new(std::iter::once(item))
}

fn read_substitute(text: &[u8]) -> Result<Item, LineProblem> {
    let (name, value) = word(text);
    let sum = (!value.is_empty()).then(|| substitute_sum(name, value)).ok_or(LineProblem::Nothing)?;
    Ok(Item { kind: Kind::Substitute, sum })
}

fn read_hex(text: &[u8]) -> Result<Item, LineProblem> {
    let (name, groups) = word(text);
    let kind = Kind::ALL.into_iter().find(|kind| is(name, kind.name())).ok_or(LineProblem::NoSum)?;
    Ok(Item { kind, sum: read_groups(groups).ok_or(LineProblem::NoSum)? })
}

/// Parses four groups of eight hex digits.
fn read_groups(text: &[u8]) -> Option<Sum> {
    let mut groups = text.split(u8::is_ascii_whitespace).filter(|group| !group.is_empty());
    let mut sum = [0; 16];
    for bytes in sum.as_chunks_mut::<4>().0 {
        let digits = groups.next().filter(|group| group.len() == 8 && group.iter().all(u8::is_ascii_hexdigit))?;
        *bytes = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?.to_be_bytes();
    }
    groups.next().is_none().then_some(sum)
}

/// Parses an address, `first-last`, or `address/length`.
fn read_range(text: &[u8]) -> Result<impl Iterator<Item = IpAddr> + use<>, LineProblem> {
    let text = str::from_utf8(text).map_err(|_| LineProblem::NoAddress)?;
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        (read_address(first)?, read_address(last)?)
    } else if let Some((address, length)) = text.split_once('/') {
        block(read_address(address)?, length.trim().parse().map_err(|_| LineProblem::NoAddress)?)?
    } else {
        let address = read_address(text)?;
        (address, address)
    };
    if first.is_ipv4() != last.is_ipv4() || first > last {
        return Err(LineProblem::Disordered);
    }
    let (start, end) = (number(first), number(last));
    if end - start >= RANGE_MAX {
        return Err(LineProblem::LargeRange);
    }
    Ok((start..=end).map(move |address| match first {
        IpAddr::V4(_) => Ipv4Addr::from_bits(address as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(address).into(),
    }))
}

fn read_address(text: &str) -> Result<IpAddr, LineProblem> {
    text.trim().parse().map_err(|_| LineProblem::NoAddress)
}

/// Returns the first and last address of a block.
fn block(address: IpAddr, length: u32) -> Result<(IpAddr, IpAddr), LineProblem> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let free = bits - Some(length).filter(|length| *length <= bits).ok_or(LineProblem::NoAddress)?;
    let mask = 1_u128.checked_shl(free).filter(|size| *size <= RANGE_MAX).ok_or(LineProblem::LargeRange)? - 1;
    if number(address) & mask != 0 {
        return Err(LineProblem::Disordered);
    }
    let last = match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() | mask as u32).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() | mask).into(),
    };
    Ok((address, last))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// Splits a text into its first word and the rest.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    (word, rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> LineProblem {
        let error = read(format!("# first\n\n{line}\n").as_bytes()).unwrap_err();
        assert_eq!(error.line, 3);
        error.problem
    }

    fn count(text: &str) -> usize {
        read(text.as_bytes()).unwrap().len()
    }

    #[test]
    fn every_kind_of_line_is_read() {
        let text =
            b"  # comment\r\n\nok ip 192.0.2.7\r\nOK2\tEnv_from <A@Example.org>\nmany From \"x y\" <z@example>\n\
            OK Message-ID <1@x>\nOK Received from a by b\nOK Substitute List-ID <news.example>\n\
            OK Hex Fuz2 7ae7d243 ee003263 6cc6106a 72e82bb2";
        let entries = read(text).unwrap();
        let expected = [
            (Kind::Ip, Count::OK),
            (Kind::EnvFrom, Count::OK2),
            (Kind::From, Count::TOO_MANY),
            (Kind::MessageId, Count::OK),
            (Kind::Received, Count::OK),
            (Kind::Substitute, Count::OK),
            (Kind::Fuz2, Count::OK),
        ];
        assert_eq!(entries.iter().map(|entry| (entry.item.kind, entry.value)).collect::<Vec<_>>(), expected);
        // The expected checksum of this address is from the captured frames.
        assert_eq!(u128::from_be_bytes(entries[0].item.sum), 0xbb10_27c0_791f_aac6_1948_40a7_72f7_3220);
        assert_eq!(entries[1].item.sum, field_sum(b"a@example.org"));
        assert_eq!(u128::from_be_bytes(entries[6].item.sum), 0x7ae7_d243_ee00_3263_6cc6_106a_72e8_2bb2);
    }

    #[test]
    fn ranges_are_every_address_in_them() {
        let entries = read(b"OK IP 192.0.2.254-192.0.3.1").unwrap();
        let sums: Vec<_> = entries.iter().map(|entry| entry.item.sum).collect();
        let addresses = [[192, 0, 2, 254], [192, 0, 2, 255], [192, 0, 3, 0], [192, 0, 3, 1]];
        assert_eq!(sums, addresses.map(|address| address_sum(address.into())));
        assert_eq!(count("OK IP 192.0.2.0/24"), 256);
        assert_eq!(count("OK IP 192.0.2.7/32"), 1);
        assert_eq!(count("OK IP 255.255.255.0/24"), 256);
        assert_eq!(count("OK IP 2001:db8::/120"), 256);
        assert_eq!(count("OK IP ::1/128"), 1);
    }

    #[test]
    fn ranges_end_at_a_sixteenth() {
        assert_eq!(count("OK IP 10.1.0.0/16"), 65536);
        assert_eq!(count("OK IP 2001:db8::/112"), 65536);
        assert_eq!(count("OK IP 10.1.0.1-10.2.0.0"), 65536);
        for range in ["10.0.0.0/15", "0.0.0.0/0", "::/0", "2001:db8::/111", "10.1.0.0-10.2.0.0"] {
            assert_eq!(problem(&format!("OK IP {range}")), LineProblem::LargeRange, "{range}");
        }
        for range in ["10.1.0.1/16", "10.0.0.2-10.0.0.1", "10.0.0.1-::1"] {
            assert_eq!(problem(&format!("OK IP {range}")), LineProblem::Disordered, "{range}");
        }
    }

    #[test]
    fn the_entries_of_a_file_are_bounded() {
        let lines = "OK IP 10.1.0.0/16\n".repeat(ENTRIES_MAX >> 16);
        assert_eq!(count(&lines), ENTRIES_MAX);
        let error = read(format!("{lines}OK From a").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "line 5: more than 262144 entries");
    }

    #[test]
    fn lines_end_at_their_bound() {
        let line = |length| format!("OK From {}", "x".repeat(length - "OK From ".len()));
        assert_eq!(count(&line(LINE_BYTES_MAX)), 1);
        assert_eq!(problem(&line(LINE_BYTES_MAX + 1)), LineProblem::LongLine);
    }

    #[test]
    fn parse_errors_name_the_line_and_the_problem() {
        for (line, expected) in [
            ("include other", LineProblem::Include),
            ("MX IP 10.0.0.1", LineProblem::OnlyForClients),
            ("option DCC-on", LineProblem::OnlyForClients),
            ("OK env_To a@example", LineProblem::OnlyForClients),
            ("FINE IP 10.0.0.1", LineProblem::NoValue),
            ("OK", LineProblem::NoKind),
            ("OK Body x", LineProblem::NoKind),
            ("OK From", LineProblem::Nothing),
            ("OK Substitute List-ID", LineProblem::Nothing),
            ("OK IP mail.example.org", LineProblem::NoAddress),
            ("OK IP 10.0.0.1/33", LineProblem::NoAddress),
            ("OK IP 10.0.0.1/-1", LineProblem::NoAddress),
            ("OK IP 10.0.0.1 extra", LineProblem::NoAddress),
            ("OK Hex Body 7ae7d243 ee003263 6cc6106a", LineProblem::NoSum),
            ("OK Hex Body 7ae7d243 ee003263 6cc6106a 72e82bb2 0", LineProblem::NoSum),
            ("OK Hex Body +ae7d243 ee003263 6cc6106a 72e82bb2", LineProblem::NoSum),
            ("OK Hex Nothing 7ae7d243 ee003263 6cc6106a 72e82bb2", LineProblem::NoSum),
        ] {
            assert_eq!(problem(line), expected, "{line}");
        }
    }
}
