//! The recipients of one message, as they arrive. The memory does not grow with the number of recipients, with one
//! exception: the addresses that a split may remove are kept. Their number and length are bounded.

use std::sync::Arc;

use bruit_client::http::Checked;

use crate::config::{Disagreement, Rule, Settings};
use crate::identity::IdentityKey;
use crate::policy::{Action, Policy};

/// Maximum number of different rules among the recipients of a message. With more rules, the recipients are treated as
/// disagreeing.
const RULES_MAX: usize = 64;

/// Maximum number of recipients of a message that may be split. With more, the message is tagged for everyone.
pub(crate) const SPLIT_MAX: usize = 1_000;

/// Maximum length of the address of a recipient that may be split off. SMTP allows 256 bytes (RFC 5321, 4.5.3.1.3).
pub(crate) const ADDRESS_BYTES_MAX: usize = 512;

/// The recipients of a message.
#[derive(Debug, Default)]
pub(crate) struct Recipients {
    /// Number of recipients that are counted: accepted by the MTA, not opted out, not a trap.
    counted: u32,
    /// Number of recipients that opted out.
    off: u32,
    /// Number of traps, accepted by the MTA or not.
    traps: u32,
    /// The different rules of the counted recipients.
    rules: Vec<Arc<Rule>>,
    has_more_rules: bool,
    /// The counted recipients as the MTA wrote them, with their rules. Empty if messages are never split.
    named: Vec<(Box<[u8]>, Arc<Rule>)>,
    /// Total length of the addresses in `named`.
    named_bytes: usize,
    /// True if `named` was dropped, so that the message cannot be split.
    is_unsplittable: bool,
    /// The sum of the recipients' hashes. It does not depend on their order.
    hash: u64,
}

/// The action for a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joint<'a> {
    /// All recipients agree.
    Same(Action),
    /// Recipients disagree: the message is tagged.
    Tag,
    /// These recipients are removed, and the message is tagged for the others.
    Split(Vec<&'a [u8]>),
}

impl Recipients {
    /// Adds a recipient, as the MTA wrote it: in angle brackets or bare. `is_refused` is true if the MTA refused it.
    pub(crate) fn add(&mut self, written: &[u8], is_refused: bool, settings: &Settings, key: &IdentityKey) {
        let address = address(written);
        let is_trap = settings.traps.has(address);
        if is_refused && !is_trap {
            return;
        }
        self.hash = self.hash.wrapping_add(key.hash(&address.to_ascii_lowercase()));
        if is_trap {
            self.traps = self.traps.saturating_add(1);
            return;
        }
        let rule = settings.rules.of(address);
        if **rule == Rule::Off {
            self.off = self.off.saturating_add(1);
            return;
        }
        self.counted = self.counted.saturating_add(1);
        self.add_rule(rule);
        if matches!(settings.disagreement, Disagreement::Split(_)) {
            self.add_name(written, rule);
        }
    }

    fn add_name(&mut self, written: &[u8], rule: &Arc<Rule>) {
        if self.named.len() >= SPLIT_MAX || written.len() > ADDRESS_BYTES_MAX {
            self.forget_names();
        }
        if !self.is_unsplittable {
            self.named_bytes += written.len();
            self.named.push((written.into(), Arc::clone(rule)));
        }
    }

    /// Releases the memory for addresses. The message is then not split.
    pub(crate) fn forget_names(&mut self) {
        (self.named, self.named_bytes, self.is_unsplittable) = (Vec::new(), 0, true);
    }

    /// Returns the memory held by addresses.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.named_bytes + self.named.capacity() * size_of::<(Box<[u8]>, Arc<Rule>)>()
    }

    fn add_rule(&mut self, rule: &Arc<Rule>) {
        if self.rules.contains(rule) {
            return;
        }
        if self.rules.len() < RULES_MAX { self.rules.push(Arc::clone(rule)) } else { self.has_more_rules = true }
    }

    /// Returns the number of recipients to count.
    pub(crate) const fn counted(&self) -> u32 {
        self.counted
    }

    /// Returns true if every recipient that is not a trap has opted out, and there is at least one such recipient.
    pub(crate) const fn all_opted_out(&self) -> bool {
        self.counted == 0 && self.off > 0
    }

    /// Returns true if a recipient is a trap.
    pub(crate) const fn has_trap(&self) -> bool {
        self.traps > 0
    }

    /// Returns true if every recipient is a trap.
    pub(crate) const fn all_traps(&self) -> bool {
        self.traps > 0 && self.counted == 0 && self.off == 0
    }

    /// Returns a hash of the addresses that does not depend on their order.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the threshold for bulk mail that the recipients have in common. If they have none in common, the
    /// server's threshold applies to the verdict, and [`Policy::is_bulk`] compares the count with each recipient's own
    /// threshold.
    pub(crate) fn bulk_threshold(&self) -> Option<u32> {
        let mut thresholds = self.policies().map(|policy| policy.bulk_recipients);
        let first = thresholds.next().flatten().filter(|_| !self.has_more_rules);
        first.filter(|first| thresholds.all(|other| other == Some(*first)))
    }

    /// Returns true if a message is bulk for one of the recipients.
    pub(crate) fn is_bulk(&self, checked: &Checked) -> bool {
        self.policies().any(|policy| policy.is_bulk(checked))
    }

    /// Returns true if a recipient gets the message untagged, by opting out or by its policy. Such a message is not
    /// delayed by greylisting either.
    pub(crate) fn is_accepted_by_some(&self, checked: &Checked) -> bool {
        self.off > 0 || self.policies().any(|policy| policy.action(checked) == Action::Accept)
    }

    /// Returns the different policies of the counted recipients.
    fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.rules.iter().filter_map(|rule| match &**rule {
            Rule::Off => None,
            Rule::Policy(policy) => Some(policy),
        })
    }

    /// Returns the action for all recipients together.
    pub(crate) fn joint(&self, checked: &Checked, disagreement: &Disagreement) -> Joint<'_> {
        let action = |rule: &Arc<Rule>| match **rule {
            Rule::Off => Action::Accept,
            Rule::Policy(policy) => policy.action(checked),
        };
        let mut actions: Vec<Action> = self.rules.iter().map(action).collect();
        // Recipients that opted out want the message unchanged. If the others want only a tag, the message is not
        // split, but tagged for all recipients.
        actions.extend((self.off > 0).then_some(Action::Accept));
        actions.sort_unstable();
        actions.dedup();
        match actions.as_slice() {
            [] => Joint::Tag,
            [action] if !self.has_more_rules => Joint::Same(*action),
            actions => match disagreement {
                Disagreement::Split(_) if actions.contains(&Action::Quarantine) && !self.is_unsplittable => {
                    let held = self.named.iter().filter(|(_, rule)| action(rule) == Action::Quarantine);
                    Joint::Split(held.map(|(address, _)| &**address).collect())
                }
                _ => Joint::Tag,
            },
        }
    }
}

/// Returns an address without angle brackets.
pub(crate) fn address(written: &[u8]) -> &[u8] {
    let bare = written.trim_ascii();
    bare.strip_prefix(b"<").and_then(|bare| bare.strip_suffix(b">")).unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use bruit_client::http::Verdict;

    use super::*;
    use crate::config::Config;

    const RULES: &str = "off@b.example off\nstrict@b.example spam=reject\nheld@b.example spam=quarantine\n\
        few@b.example bulk_recipients=20\nalso@b.example bulk_recipients=20\nmany@b.example bulk_recipients=900\n";

    fn settings(more: &str) -> (tempfile::TempDir, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        std::fs::write(&file, RULES).unwrap();
        let text = format!(
            "[traps]\naddresses = [\"trap@b.example\", \"@trap.example\"]\n[recipients]\nfile = {file:?}\n{more}"
        );
        (folder, Config::parse(&text).unwrap().settings)
    }

    fn of(written: &[&str], settings: &Settings) -> Recipients {
        let mut recipients = Recipients::default();
        let key = IdentityKey::random().unwrap();
        written.iter().for_each(|written| recipients.add(written.as_bytes(), false, settings, &key));
        recipients
    }

    fn spam() -> Checked {
        Checked { verdict: Verdict::Spam, confidence: 99, ..Checked::default() }
    }

    #[test]
    fn recipients_are_counted_by_what_they_are() {
        let (_folder, settings) = settings("");
        let mixed = of(&["<a@b.example>", "<off@b.example>", "<Trap@B.example>", "c@b.example"], &settings);
        assert_eq!((mixed.counted(), mixed.has_trap(), mixed.all_traps()), (2, true, false));
        assert!(of(&["<trap@b.example>", "<any@trap.example>"], &settings).all_traps());
        assert!(of(&["<off@b.example>"], &settings).all_opted_out());
        let mut refused = of(&["<trap@b.example>"], &settings);
        refused.add(b"<nobody@b.example>", true, &settings, &IdentityKey::random().unwrap());
        assert!(refused.all_traps(), "a refused recipient does not count");
        refused.add(b"<trap@b.example>", true, &settings, &IdentityKey::random().unwrap());
        assert_eq!(refused.traps, 2, "a refused trap does");
    }

    /// The threshold of a recipient's rule once replaced the server's threshold for everybody.
    #[test]
    fn the_server_is_asked_with_a_threshold_only_if_all_recipients_have_it() {
        let (_folder, settings) = settings("");
        let threshold = |written: &[&str]| of(written, &settings).bulk_threshold();
        assert_eq!(threshold(&["few@b.example", "also@b.example", "off@b.example"]), Some(20));
        for mixed in [&["few@b.example", "a@b.example"][..], &["a@b.example", "few@b.example"], &["a@b.example"], &[]] {
            assert_eq!(threshold(mixed), None, "{mixed:?}");
        }
        assert_eq!(threshold(&["few@b.example", "many@b.example"]), None);
        let both = of(&["few@b.example", "many@b.example"], &settings);
        let counted = |bulk_count| Checked { bulk_count, ..Checked::default() };
        assert_eq!((both.is_bulk(&counted(19)), both.is_bulk(&counted(20))), (false, true));
    }

    #[test]
    fn recipients_that_disagree_get_a_tag() {
        let (_folder, settings) = settings("");
        let joint = |written: &[&str]| format!("{:?}", of(written, &settings).joint(&spam(), &settings.disagreement));
        assert_eq!(joint(&["<strict@b.example>"]), "Same(Reject)");
        assert_eq!(joint(&["<a@b.example>", "<c@b.example>"]), "Same(Tag)");
        assert_eq!(joint(&["<strict@b.example>", "<a@b.example>"]), "Tag");
        assert_eq!(joint(&["<strict@b.example>", "<off@b.example>"]), "Tag");
    }

    #[test]
    fn a_split_removes_only_those_who_quarantine() {
        let (_folder, settings) = settings("disagreement = \"split\"\nsplit_to = \"q@b.example\"");
        let split = of(&["<a@b.example>", "<Held@b.example>", "<strict@b.example>"], &settings);
        let expected = Joint::Split(vec![b"<Held@b.example>"]);
        assert_eq!(split.joint(&spam(), &settings.disagreement), expected);
        let all = of(&["<held@b.example>"], &settings);
        assert_eq!(all.joint(&spam(), &settings.disagreement), Joint::Same(Action::Quarantine));
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_recipients() {
        let (_folder, settings) = settings("disagreement = \"split\"\nsplit_to = \"q@b.example\"");
        let mut recipients = of(&["<held@b.example>"], &settings);
        let key = IdentityKey::random().unwrap();
        for number in 0..100_000 {
            recipients.add(format!("<r{number}@b.example>").as_bytes(), false, &settings, &key);
        }
        assert_eq!((recipients.counted(), recipients.rules.len()), (100_001, 2));
        assert_eq!(recipients.held_bytes(), 0);
        assert_eq!(recipients.joint(&spam(), &settings.disagreement), Joint::Tag, "too many to split");
    }

    /// Recipient addresses of a megabyte each were once kept, up to a thousand per message.
    #[test]
    fn a_message_to_an_overlong_address_is_not_split() {
        let (_folder, settings) = settings("disagreement = \"split\"\nsplit_to = \"q@b.example\"");
        let long = |bytes: usize| format!("<{}@b.example>", "x".repeat(bytes - "<@b.example>".len()));
        let joint = |written: &[&str]| {
            let recipients = of(written, &settings);
            (format!("{:?}", recipients.joint(&spam(), &settings.disagreement)), recipients.held_bytes())
        };
        let (split, held) = joint(&["<held@b.example>", &long(ADDRESS_BYTES_MAX)]);
        assert!(split.starts_with("Split") && (ADDRESS_BYTES_MAX..2_000).contains(&held), "{split} {held}");
        assert_eq!(joint(&["<held@b.example>", &long(ADDRESS_BYTES_MAX + 1)]), ("Tag".to_owned(), 0));
    }

    #[test]
    fn the_hash_does_not_depend_on_the_order() {
        let (_folder, settings) = settings("");
        let key = IdentityKey::random().unwrap();
        let hash = |written: [&str; 2]| {
            let mut recipients = Recipients::default();
            written.iter().for_each(|one| recipients.add(one.as_bytes(), false, &settings, &key));
            recipients.hash()
        };
        assert_eq!(hash(["<a@b.example>", "<C@b.example>"]), hash(["c@b.example", "<a@b.example>"]));
        assert_ne!(hash(["<a@b.example>", "<c@b.example>"]), hash(["<a@b.example>", "<d@b.example>"]));
        assert_ne!(hash(["<a@b.example>", "<trap@b.example>"]), hash(["<a@b.example>", "<off@b.example>"]));
    }
}
