//! Reports. The client announces parts by their signatures, then sends them in blobs.
//!
//! A blob contains the mail's header block and all of its parts:
//!
//! ```text
//! header lines LF … CR LF X-Razor2-Agent: … LF … body CR LF X-Razor2-Agent: … LF … body
//! ```
//!
//! Parts never contain CR LF. The header block contains CR LF wherever the mail's header has CR CR LF, so the author of
//! the mail can insert parts there. Therefore, a part counts only if the client has computed and announced its e4
//! signature.

use std::collections::HashSet;

use bruit_signatures::message::Message;
use bruit_signatures::outline::{Outline, PartsOutline, Piece};
use bruit_signatures::razor::{BODY_BYTES_MAX, E4Signature, Ep4, HEADER_BYTES_MAX, sign_part};
use bruit_signatures::{Sha256Signature, attachment};
use memchr::memmem;

use super::Signature;
use super::frame::BLOB_KIB;

/// Maximum number of signatures that one connection may announce.
pub const ANNOUNCED_MAX: usize = 1024;

/// Maximum number of signatures used per part: one e4 signature for each `ep4` value, then e8 signatures up to this
/// number.
pub const PART_SIGNATURES_MAX: usize = 64;

/// Start of each part, after the end of the previous one.
const PART_START: &[u8] = b"\r\nX-Razor2-";

/// Minimum size of a blob that another blob of the same report may follow. The client begins another blob only when the
/// next part would not fit.
const SPLIT_BYTES_MIN: usize = BLOB_KIB * 1024 - (HEADER_BYTES_MAX + BODY_BYTES_MAX + 1024);

/// Signatures that the client has announced on this connection and that were not refused.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Parameters of all announced signatures. A client uses only one set of parameters at a time.
    ep4: Option<Ep4>,
    signatures: Vec<Announcement>,
    /// Outline of the parts received so far, if a mail needs several blobs.
    begun: Option<Outline>,
}

/// The parts of a reported mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedParts {
    /// The parts.
    pub parts: Vec<ReportedPart>,
    /// Outline of the mail.
    pub outline: Outline,
}

/// A part of a reported mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedPart {
    /// Kind of this part, such as the main text or a picture.
    pub piece: Piece,
    /// Signatures of the part.
    pub signatures: Vec<Signature>,
    /// Signature of the content, if the part is a file.
    pub file: Option<Sha256Signature>,
}

#[derive(Clone, Copy, Debug)]
struct Announcement {
    e4: E4Signature,
    /// True if the server has requested the part and the client has not sent it yet.
    is_wanted: bool,
}

/// Error: a blob does not match the announcement, so it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAnnounced;

impl Announced {
    /// Returns true if the client may announce further signatures with these parameters. `more` is their number.
    pub(super) fn has_room(&self, more: usize, ep4: &Ep4) -> bool {
        self.signatures.len() + more <= ANNOUNCED_MAX && self.ep4.as_ref().is_none_or(|known| known == ep4)
    }

    pub(super) fn add(&mut self, e4: E4Signature, ep4: &Ep4, is_wanted: bool) {
        self.ep4.get_or_insert_with(|| ep4.clone());
        self.signatures.push(Announcement { e4, is_wanted });
    }

    /// Returns the announced parts of a blob. Each has one e4 signature for each of `epochs`.
    ///
    /// # Errors
    /// Fails if no part of the blob was announced. Also fails if requested parts are missing although this blob has
    /// room for them, so that no other blob can follow.
    pub(super) fn take(&mut self, blob: &[u8], epochs: &[Ep4]) -> Result<ReportedParts, NotAnnounced> {
        let ep4 = self.ep4.clone().ok_or(NotAnnounced)?;
        let announced: Vec<_> = parts(blob).filter(|part| self.notice(part, &ep4)).collect();
        let is_missing = self.signatures.iter().any(|announcement| announcement.is_wanted);
        if announced.is_empty() || (is_missing && blob.len() < SPLIT_BYTES_MIN) {
            return Err(NotAnnounced);
        }
        let found = self.outline(&announced, is_missing);
        let part = |(part, piece)| ReportedPart { piece, signatures: signatures(part, epochs), file: file(part) };
        Ok(ReportedParts { parts: announced.into_iter().zip(found.pieces).map(part).collect(), outline: found.outline })
    }

    /// Classifies the parts of a blob. If a mail needs several blobs, its main text is the main text of the first blob
    /// that has one.
    fn outline(&mut self, parts: &[&[u8]], goes_on: bool) -> PartsOutline {
        let mut found = PartsOutline::of(parts.iter().copied());
        if let Some(begun) = self.begun.take() {
            found.outline.files = found.outline.files.saturating_add(begun.files);
            found.outline.pictures = found.outline.pictures.saturating_add(begun.pictures);
            found.outline.links = found.outline.links.saturating_add(begun.links);
            if begun.own_words > 0 {
                found.outline = Outline { words: begun.words, own_words: begun.own_words, ..found.outline };
                found
                    .pieces
                    .iter_mut()
                    .filter(|piece| **piece == Piece::MainText)
                    .for_each(|piece| *piece = Piece::OtherText);
            }
        }
        self.begun = goes_on.then_some(found.outline);
        found
    }

    /// Returns true if a part was announced, and marks it as received.
    fn notice(&mut self, part: &[u8], ep4: &Ep4) -> bool {
        let Some(signed) = sign_part(part, ep4) else { return false };
        let mut is_announced = false;
        for announcement in self.signatures.iter_mut().filter(|announcement| announcement.e4 == signed.e4) {
            announcement.is_wanted = false;
            is_announced = true;
        }
        is_announced
    }
}

/// Splits a blob into parts, without its header block.
fn parts(blob: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memmem::find_iter(blob, PART_START).skip(1).chain([blob.len()]);
    memmem::find_iter(blob, PART_START).zip(ends).filter_map(|(start, end)| blob.get(start + 2..end))
}

/// Returns the signature of the content if the part is a file.
fn file(part: &[u8]) -> Option<Sha256Signature> {
    attachment::sign(&Message::read(part)).first().map(|file| file.signature)
}

/// Returns the signatures of a part, without duplicates: e4 for each of `epochs`, then e8. Very common hosts are
/// omitted.
fn signatures(part: &[u8], epochs: &[Ep4]) -> Vec<Signature> {
    let signed: Vec<_> = epochs.iter().filter_map(|ep4| sign_part(part, ep4)).collect();
    let e4 = signed.iter().map(|signed| Signature::E4(signed.e4));
    let e8 = signed.first().into_iter().flat_map(|signed| &signed.e8).filter(|e8| !e8.is_of_common_host());
    let e8 = e8.map(|&e8| Signature::E8(e8));
    let mut seen = HashSet::new();
    e4.chain(e8).filter(|signature| seen.insert(*signature)).take(PART_SIGNATURES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> String {
        format!("X-Razor2-Agent: Razor-Agents v2.84\n\n{text}")
    }

    fn blob(texts: &[&str]) -> Vec<u8> {
        let parts: Vec<_> = texts.iter().map(|text| part(text)).collect();
        [&["From: x\nSubject: y\n".to_owned()], &parts[..]].concat().join("\r\n").into_bytes()
    }

    fn e4(text: &str, ep4: &Ep4) -> E4Signature {
        sign_part(part(text).as_bytes(), ep4).unwrap().e4
    }

    fn announced(texts: &[&str]) -> Announced {
        let mut announced = Announced::default();
        texts.iter().for_each(|text| announced.add(e4(text, &Ep4::default()), &Ep4::default(), true));
        announced
    }

    #[test]
    fn a_blob_is_cut_before_every_agent_line() {
        let found: Vec<_> =
            parts(b"From: x\n\r\nX-Razor2-Agent: a\n\none\n\r\nX-Razor2-Origlen-Body: 9\n\ntwo").collect();
        assert_eq!(found, [&b"X-Razor2-Agent: a\n\none\n"[..], b"X-Razor2-Origlen-Body: 9\n\ntwo"]);
        assert_eq!(parts(b"X-Razor2-Headers-Suppressed: 1\n").count(), 0);
        assert_eq!(parts(b"").count(), 0);
    }

    #[test]
    fn a_part_is_known_by_every_epoch_and_its_links() {
        let epochs = [Ep4::default(), "9911-10".parse().unwrap()];
        let text = format!("{}see http://example.com/ and http://example.net/\n", "a line of text\n".repeat(100));
        let taken = announced(&[&text]).take(&blob(&[&text]), &epochs).unwrap();
        let [e4s @ .., one, other] = &taken.parts[0].signatures[..] else { panic!("{taken:?}") };
        assert_eq!(e4s, epochs.each_ref().map(|ep4| Signature::E4(e4(&text, ep4))));
        assert!(matches!((one, other), (Signature::E8(one), Signature::E8(other)) if one != other));
    }

    #[test]
    fn signatures_of_a_part_are_taken_once_and_have_an_end() {
        let short = signatures(part("short").as_bytes(), &[Ep4::default(), "9911-10".parse().unwrap()]);
        assert_eq!(short, [Signature::E4(e4("short", &Ep4::default()))]);
        let links: String = (0..200).map(|number| format!("http://host{number}.com/ ")).collect();
        assert!(sign_part(part(&links).as_bytes(), &Ep4::default()).unwrap().e8.len() > PART_SIGNATURES_MAX);
        assert_eq!(signatures(part(&links).as_bytes(), &[Ep4::default()]).len(), PART_SIGNATURES_MAX);
    }

    #[test]
    fn parts_that_were_not_announced_do_not_count() {
        let mut one = announced(&["mine"]);
        assert_eq!(one.take(&blob(&["smuggled", "mine"]), &[Ep4::default()]).map(|found| found.parts.len()), Ok(1));
        assert_eq!(announced(&["mine"]).take(&blob(&["smuggled"]), &[Ep4::default()]), Err(NotAnnounced));
        assert_eq!(announced(&["mine"]).take(&blob(&[]), &[Ep4::default()]), Err(NotAnnounced));
        assert_eq!(Announced::default().take(&blob(&["mine"]), &[Ep4::default()]), Err(NotAnnounced));
    }

    #[test]
    fn a_small_blob_has_all_that_was_wanted() {
        let epochs = [Ep4::default()];
        assert_eq!(announced(&["one", "two"]).take(&blob(&["one"]), &epochs), Err(NotAnnounced));
        assert_eq!(
            announced(&["one", "two"]).take(&blob(&["two", "one"]), &epochs).map(|found| found.parts.len()),
            Ok(2)
        );
        assert_eq!(
            announced(&["one", "one"]).take(&blob(&["one", "one"]), &epochs).map(|found| found.parts.len()),
            Ok(2)
        );
        let mut known = announced(&["one"]);
        known.add(e4("known", &epochs[0]), &epochs[0], false);
        assert!(known.take(&blob(&["one"]), &epochs).is_ok());
    }

    #[test]
    fn a_large_blob_may_be_followed_by_another() {
        let epochs = [Ep4::default()];
        let of_size = |bytes: usize| {
            let text = "x".repeat(bytes - blob(&[""]).len());
            (announced(&[&text, "two"]), blob(&[&text]))
        };
        let (mut small, small_blob) = of_size(SPLIT_BYTES_MIN - 1);
        assert_eq!(small.take(&small_blob, &epochs), Err(NotAnnounced));
        let (mut large, large_blob) = of_size(SPLIT_BYTES_MIN);
        assert!(large.take(&large_blob, &epochs).is_ok());
        assert!(large.take(&blob(&["two"]), &epochs).is_ok());
    }

    #[test]
    fn announcements_are_bounded_and_of_one_epoch() {
        let mut announced = announced(&["one"]);
        assert!(announced.has_room(ANNOUNCED_MAX - 1, &Ep4::default()));
        assert!(!announced.has_room(ANNOUNCED_MAX, &Ep4::default()));
        assert!(!announced.has_room(1, &"9911-10".parse().unwrap()));
        announced.add(e4("two", &Ep4::default()), &Ep4::default(), true);
        assert!(!announced.has_room(ANNOUNCED_MAX - 1, &Ep4::default()));
    }

    #[test]
    fn a_mail_in_several_blobs_has_one_main_text() {
        let epochs = [Ep4::default()];
        let long = "some words of the main text that go on for quite a while ".repeat(2_000);
        let footer = "what the bank writes below all of its letters to everybody";
        let mut announced = announced(&[&long, footer]);
        let pieces = |found: ReportedParts| found.parts.iter().map(|part| part.piece).collect::<Vec<_>>();
        assert_eq!(pieces(announced.take(&blob(&[&long]), &epochs).unwrap()), [Piece::MainText]);
        assert_eq!(pieces(announced.take(&blob(&[footer]), &epochs).unwrap()), [Piece::OtherText]);
    }
}
