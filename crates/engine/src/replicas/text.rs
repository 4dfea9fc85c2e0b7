//! The text of a report: the features that the index may store. There are few enough to fit in a journal entry.

use std::sync::OnceLock;

use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use bruit_signatures::bruit::{QUARTERS, STORED_MIN};

use crate::codec::{Malformed, Reader};

/// Maximum number of features in each quarter of a [`Text`]: twice the number stored, because some may be refused.
pub const TEXT_FEATURES_PER_QUARTER: usize = 24;

/// A reported text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Features of each quarter, in order of preference.
    pub(crate) quarters: [Vec<u64>; QUARTERS],
    /// Number of the text's features that count.
    pub(crate) features: u32,
    /// Hash of the whole text, for texts with few features.
    pub(crate) whole: Option<u64>,
    /// True if much of the text is known from good mail.
    pub(crate) is_template: bool,
    pub(crate) name: CachedName,
}

/// The fingerprint of a text, with the id of the key that it was computed under. It is cached, because it is needed
/// whenever a claim is made, admitted or applied.
#[derive(Clone, Debug, Default)]
pub(crate) struct CachedName(OnceLock<(KeyId, Fingerprint)>);

/// The fingerprint is derived from the text, so comparisons ignore it.
impl PartialEq for CachedName {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for CachedName {}

/// Flags that are encoded after the number of features.
const HAS_WHOLE: u8 = 1;
const IS_TEMPLATE: u8 = 2;

impl Text {
    /// Returns the fingerprint of the text in the books. Equal texts have equal fingerprints.
    #[must_use]
    pub fn fingerprint(&self, key: &FingerprintKey) -> Fingerprint {
        let (id, name) = *self.name.0.get_or_init(|| (key.id(), self.compute_fingerprint(key)));
        if id == key.id() { name } else { self.compute_fingerprint(key) }
    }

    fn compute_fingerprint(&self, key: &FingerprintKey) -> Fingerprint {
        let mut bytes = b"text".to_vec();
        for feature in self.quarters.iter().flatten().chain(&self.whole) {
            bytes.extend(feature.to_le_bytes());
        }
        key.fingerprint(&bytes)
    }

    /// Returns true if no check could find the text, because it has too few features and no hash of the whole text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.whole.is_none() && self.quarters.iter().map(Vec::len).sum::<usize>() < STORED_MIN
    }

    /// Returns true if no quarter has more features than can be encoded.
    pub(crate) fn is_within_bounds(&self) -> bool {
        self.quarters.iter().all(|quarter| quarter.len() <= TEXT_FEATURES_PER_QUARTER)
    }

    /// Appends the encoded text. The decoder rejects a text with too many features.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.features.to_le_bytes());
        let bits = [(self.whole.is_some(), HAS_WHOLE), (self.is_template, IS_TEMPLATE)];
        out.push(bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum());
        out.extend(self.whole.into_iter().flat_map(u64::to_le_bytes));
        for quarter in &self.quarters {
            out.push(u8::try_from(quarter.len()).unwrap_or(u8::MAX));
            quarter.iter().for_each(|feature| out.extend(feature.to_le_bytes()));
        }
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Malformed`] for anything else, and for more than [`TEXT_FEATURES_PER_QUARTER`] features in a quarter.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let features = reader.u32("the number of features")?;
        let bits = reader.u8("the flags of a text")?;
        if bits > HAS_WHOLE | IS_TEMPLATE {
            return Err(Malformed::OutOfRange { what: "the flags of a text", value: bits.into() });
        }
        let whole = if bits & HAS_WHOLE == 0 { None } else { Some(reader.u64("the hash of a whole text")?) };
        let mut quarters: [Vec<u64>; QUARTERS] = Default::default();
        for quarter in &mut quarters {
            let length = usize::from(reader.u8("the length of a quarter")?);
            if length > TEXT_FEATURES_PER_QUARTER {
                return Err(Malformed::OutOfRange { what: "the length of a quarter", value: length as u64 });
            }
            *quarter = (0..length).map(|_| reader.u64("a feature")).collect::<Result<_, _>>()?;
        }
        Ok(Self { quarters, features, whole, is_template: bits & IS_TEMPLATE != 0, name: CachedName::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(per_quarter: usize) -> Text {
        let quarter = |q: u64| (0..per_quarter as u64).map(|at| q << 32 | at).collect();
        let is_template = per_quarter > 3;
        Text { quarters: [0, 1, 2, 3].map(quarter), features: 100, whole: Some(9), is_template, ..Text::default() }
    }

    #[test]
    fn a_text_round_trips_up_to_its_bound() {
        for text in [Text::default(), text(TEXT_FEATURES_PER_QUARTER)] {
            let mut bytes = Vec::new();
            text.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(Text::decode(&mut reader), Ok(text));
            assert_eq!(reader.finish(), Ok(()));
            (0..bytes.len()).for_each(|cut| assert!(Text::decode(&mut Reader::new(&bytes[..cut])).is_err()));
        }
        let mut bytes = Vec::new();
        text(TEXT_FEATURES_PER_QUARTER + 1).encode(&mut bytes);
        assert!(matches!(Text::decode(&mut Reader::new(&bytes)), Err(Malformed::OutOfRange { .. })));
    }

    #[test]
    fn equal_texts_have_equal_fingerprints() {
        let key = FingerprintKey::new([4; 16]);
        assert_eq!(text(5).fingerprint(&key), text(5).fingerprint(&key));
        assert_ne!(text(5).fingerprint(&key), text(6).fingerprint(&key));
        let one = text(5);
        let other = FingerprintKey::new([5; 16]);
        assert_ne!(one.fingerprint(&key), one.fingerprint(&other), "the name is kept for one key only");
        assert_eq!(one.fingerprint(&other), text(5).fingerprint(&other));
        assert!(Text::default().is_empty() && !text(0).is_empty());
    }
}
