//! Encoding of a policy: 31 numbers of 8 bytes each, in the order of the fields. The policy is part of the state,
//! because the same events have different effects under different policies.
//!
//! The 21st number is unused; in old policies it was the credit for an echo. It is always written with the same value,
//! and ignored on decoding.

use super::Policy;
use crate::codec::{Malformed, Reader};

/// The value written for the unused number.
const ECHO_CREDIT_BEFORE: f64 = 0.1;

impl Policy {
    /// Appends the encoded policy.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (mut policy, mut unused) = (self.clone(), ECHO_CREDIT_BEFORE);
        policy.numbers(&mut unused).into_iter().for_each(|number| out.extend(number.get().to_le_bytes()));
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`Malformed`] if the input ends early, a number is too large, or [`check`](Self::check) refuses the policy.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const WHAT: &str = "a number of the policy";
        let (mut policy, mut unused) = (Self::default(), 0.0);
        for mut number in policy.numbers(&mut unused) {
            let value = reader.u64(WHAT)?;
            number.set(value).ok_or(Malformed::OutOfRange { what: WHAT, value })?;
        }
        policy.check().map_err(|_| Malformed::OutOfRange { what: "the policy", value: 0 })?;
        Ok(policy)
    }

    /// Returns the fields in the order of the encoding.
    fn numbers<'a>(&'a mut self, unused: &'a mut f64) -> [Number<'a>; 31] {
        use Number::{Float, Long, Short};
        [
            Float(&mut self.prior.0),
            Float(&mut self.prior.1),
            Float(&mut self.anchor_prior.0),
            Float(&mut self.anchor_prior.1),
            Short(&mut self.half_life_days),
            Short(&mut self.debit_half_life_days),
            Float(&mut self.weight_max),
            Float(&mut self.ham_factor),
            Float(&mut self.unanchored_spam_max),
            Float(&mut self.unanchored_ham_max),
            Float(&mut self.suspect_score),
            Short(&mut self.suspect_groups),
            Float(&mut self.block_score),
            Short(&mut self.block_groups),
            Short(&mut self.block_anchors),
            Short(&mut self.anchors_beyond_doubt),
            Float(&mut self.unrevoke_margin),
            Short(&mut self.own_reports_needed),
            Long(&mut self.settle_after),
            Float(&mut self.credit_early),
            Float(unused),
            Float(&mut self.credit_daily_max),
            Float(&mut self.debit_refuted),
            Float(&mut self.debit_unconfirmed),
            Float(&mut self.group_share),
            Float(&mut self.own_share),
            Short(&mut self.stranger_inserts_daily),
            Short(&mut self.group_inserts_daily),
            Short(&mut self.own_inserts_daily),
            Long(&mut self.nursery_life),
            Short(&mut self.votes_max),
        ]
    }
}

/// A field that is encoded in eight bytes.
enum Number<'a> {
    Float(&'a mut f64),
    Short(&'a mut u32),
    Long(&'a mut u64),
}

impl Number<'_> {
    fn get(&self) -> u64 {
        match self {
            Self::Float(float) => float.to_bits(),
            Self::Short(short) => u64::from(**short),
            Self::Long(long) => **long,
        }
    }

    /// Sets the field; returns `None` if the value is out of its range.
    fn set(&mut self, value: u64) -> Option<()> {
        match self {
            Self::Float(float) => **float = f64::from_bits(value),
            Self::Short(short) => **short = u32::try_from(value).ok()?,
            Self::Long(long) => **long = value,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_round_trips() {
        let policy = Policy { own_reports_needed: 3, block_score: 6.5, votes_max: 32, ..Policy::default() };
        let mut bytes = Vec::new();
        policy.encode(&mut bytes);
        assert_eq!(Policy::decode(&mut Reader::new(&bytes)), Ok(policy));
        (0..bytes.len()).for_each(|cut| assert!(Policy::decode(&mut Reader::new(&bytes[..cut])).is_err()));
        bytes[20 * 8..21 * 8].copy_from_slice(&f64::NAN.to_bits().to_le_bytes());
        assert!(Policy::decode(&mut Reader::new(&bytes)).is_ok(), "the former credit for an echo is ignored");
        bytes[..8].copy_from_slice(&f64::NAN.to_bits().to_le_bytes());
        assert!(Policy::decode(&mut Reader::new(&bytes)).is_err());
    }
}
