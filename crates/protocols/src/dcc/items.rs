//! Checksums in a request.

/// Size of one item: kind, length, checksum.
pub const ITEM_BYTES: usize = 18;

/// Maximum number of items in a request. Kinds must ascend, so there is at most one item of each kind.
pub const ITEMS_MAX: usize = Kind::ALL.len();

/// A checksum, which is always an MD5.
pub type Sum = [u8; 16];

/// The part of a message that a checksum covers. The values are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// IP address of the SMTP client that sent the message.
    Ip = 1,
    /// Envelope sender.
    EnvFrom,
    /// The `From` field.
    From,
    /// A field chosen by the client.
    Substitute,
    /// The `Message-ID` field.
    MessageId,
    /// The last `Received` field.
    Received,
    /// The body.
    Body,
    /// The text, reduced to its letters.
    Fuz1,
    /// Those words of the text that occur in the client's dictionaries.
    Fuz2,
    /// The IP address again, for the total volume of mail from it.
    ReputationTotal,
    /// The IP address again, for the volume of bulk mail from it.
    Reputation,
}

/// One checksum of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// Part of the message that the checksum covers.
    pub kind: Kind,
    /// The checksum.
    pub sum: Sum,
}

/// The validated items of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'f>(&'f [[u8; ITEM_BYTES]]);

impl Kind {
    /// All kinds, in ascending order.
    pub const ALL: [Self; 11] = [
        Self::Ip,
        Self::EnvFrom,
        Self::From,
        Self::Substitute,
        Self::MessageId,
        Self::Received,
        Self::Body,
        Self::Fuz1,
        Self::Fuz2,
        Self::ReputationTotal,
        Self::Reputation,
    ];

    /// Returns the kind with this number on the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns the name used in headers, logs and the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "IP",
            Self::EnvFrom => "env_From",
            Self::From => "From",
            Self::Substitute => "Substitute",
            Self::MessageId => "Message-ID",
            Self::Received => "Received",
            Self::Body => "Body",
            Self::Fuz1 => "Fuz1",
            Self::Fuz2 => "Fuz2",
            Self::ReputationTotal => "rep-total",
            Self::Reputation => "rep",
        }
    }
}

impl Item {
    /// Decodes an item. Returns `None` if its kind or length is wrong.
    pub(super) fn read(&[kind, length, sum @ ..]: &[u8; ITEM_BYTES]) -> Option<Self> {
        let kind = Kind::from_number(kind).filter(|_| usize::from(length) == ITEM_BYTES)?;
        Some(Self { kind, sum })
    }
}

impl<'f> Items<'f> {
    /// Decodes a list of items. Returns `None` if an item is invalid or the kinds do not ascend.
    pub(super) fn read(bytes: &'f [u8]) -> Option<Self> {
        let (items, []) = bytes.as_chunks::<ITEM_BYTES>() else { return None };
        let mut highest = 0;
        for item in items {
            let kind = Item::read(item)?.kind as u8;
            if kind <= highest {
                return None;
            }
            highest = kind;
        }
        Some(Self(items))
    }

    /// Returns the number of items, at most [`ITEMS_MAX`].
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no items, which is allowed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the items in request order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Item> + 'f {
        self.0.iter().map(|item| Item::read(item).expect("items are validated when decoded"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kinds: &[u8]) -> Vec<u8> {
        kinds.iter().flat_map(|&kind| [vec![kind, 18], vec![kind; 16]].concat()).collect()
    }

    #[test]
    fn kinds_are_numbered_from_one() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(Kind::from_number(kind as u8), Some(kind));
        }
        assert_eq!((Kind::from_number(0), Kind::from_number(12)), (None, None));
    }

    #[test]
    fn kinds_must_ascend() {
        let all: Vec<u8> = (1..=11).collect();
        assert_eq!(Items::read(&bytes(&all)).unwrap().len(), ITEMS_MAX);
        assert!(Items::read(&[]).unwrap().is_empty());
        for kinds in [&[7, 7][..], &[8, 7], &[0], &[12], &[1, 2, 3, 3]] {
            assert_eq!(Items::read(&bytes(kinds)), None, "{kinds:?}");
        }
    }

    #[test]
    fn items_have_their_length_and_no_other() {
        let mut items = bytes(&[7, 8]);
        assert_eq!(Items::read(&items[..35]), None);
        items[19] = 17;
        assert_eq!(Items::read(&items), None);
    }
}
