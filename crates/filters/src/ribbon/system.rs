//! The equations of one layer, and their solution.

use super::layer::{BLOCK_SLOTS, BUCKET_STARTS, Layer, LayerShape, THRESHOLDS};
use crate::Fingerprint;

/// A key, and the r bits that its slots must add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Equation {
    pub(super) key: Fingerprint,
    pub(super) word: u64,
}

/// Solves as many of `equations` as one layer takes, and leaves the others, which were bumped.
pub(super) fn solve(equations: &mut Vec<Equation>, shape: LayerShape) -> Layer {
    let mut layer = Layer::empty(shape);
    let mut system = System::new(shape.slots() as usize);
    // By the key as well, or which of several with one start comes first would be for the sort to say, and the bytes would hang
    // on the version of it. Those of the first layer are in this order already, which the sort finds out in one pass.
    equations.sort_unstable_by_key(|equation| (shape.place(&equation.key).0, equation.key));
    let (mut next, mut kept) = (0, 0);
    for bucket in 0..shape.buckets() {
        let is_in = |equation: &&Equation| shape.place(&equation.key).0 / BUCKET_STARTS == bucket;
        let end = next + equations[next..].iter().take_while(is_in).count();
        let code = system.add_bucket(&equations[next..end], shape);
        let threshold = bucket * BUCKET_STARTS + THRESHOLDS[code];
        let bumped = equations[next..end].iter().take_while(|one| shape.place(&one.key).0 < threshold).count();
        equations.copy_within(next..next + bumped, kept);
        layer.set_code(bucket, code as u64);
        (next, kept) = (end, kept + bumped);
    }
    equations.truncate(kept);
    system.substitute(&mut layer, shape.width());
    layer
}

/// What became of an equation.
enum Added {
    /// It decides this slot.
    Deciding(usize),
    /// It follows from those before it.
    Implied,
    /// It contradicts them.
    Contradicting,
}

/// Equations in echelon form: one at most for each slot, in which that slot has the first coefficient.
struct System {
    /// The coefficients of a slot and the 63 behind it, from bit 0; 0 if no equation decides the slot.
    coefficients: Vec<u64>,
    words: Vec<u64>,
}

impl System {
    fn new(slots: usize) -> Self {
        Self { coefficients: vec![0; slots], words: vec![0; slots] }
    }

    /// Adds the equations of a bucket, which are in the order of their starts, last one first. Gives the code of the threshold
    /// below which they were not taken.
    fn add_bucket(&mut self, equations: &[Equation], shape: LayerShape) -> usize {
        let mut decided = Vec::with_capacity(equations.len());
        for equation in equations.iter().rev() {
            let (start, coefficients) = shape.place(&equation.key);
            match self.add(start as usize, coefficients, equation.word) {
                Added::Deciding(slot) => decided.push((start, slot)),
                Added::Implied => {}
                Added::Contradicting => return self.bump(start, &decided),
            }
        }
        0
    }

    /// Takes back the equations of the bucket that start at `start` or before. They came last, so no other rests on them.
    fn bump(&mut self, start: u64, decided: &[(u64, usize)]) -> usize {
        let offset = start % BUCKET_STARTS;
        let code = THRESHOLDS.iter().position(|&threshold| threshold > offset).expect("the last is beyond all offsets");
        let threshold = start - offset + THRESHOLDS[code];
        for &(_, slot) in decided.iter().rev().take_while(|&&(start, _)| start < threshold) {
            self.coefficients[slot] = 0;
        }
        code
    }

    fn add(&mut self, start: usize, mut coefficients: u64, mut word: u64) -> Added {
        let mut slot = start;
        loop {
            let decider = self.coefficients[slot];
            if decider == 0 {
                (self.coefficients[slot], self.words[slot]) = (coefficients, word);
                return Added::Deciding(slot);
            }
            coefficients ^= decider;
            word ^= self.words[slot];
            if coefficients == 0 {
                return if word == 0 { Added::Implied } else { Added::Contradicting };
            }
            let zeros = coefficients.trailing_zeros();
            coefficients >>= zeros;
            slot += zeros as usize;
        }
    }

    /// Finds the slots from the last to the first, and puts them into `layer`. Slots that nothing decides are 0.
    fn substitute(&self, layer: &mut Layer, width: usize) {
        let [solution, _] = layer.words_mut();
        // Bit j of the 64 slots from the current one on, for each j.
        let mut window = vec![0u64; width];
        let slots = self.coefficients.iter().zip(&self.words).enumerate();
        for (slot, (&coefficients, &word)) in slots.rev() {
            let is_decided = u64::from(coefficients != 0);
            for (bit, column) in window.iter_mut().enumerate() {
                *column <<= 1;
                let others = u64::from((*column & coefficients).count_ones());
                *column |= (others ^ word >> bit) & is_decided;
            }
            if (slot as u64).is_multiple_of(BLOCK_SLOTS) {
                let first = slot / BLOCK_SLOTS as usize * width;
                solution[first..first + width].copy_from_slice(&window);
            }
        }
    }
}
