//! The equations of one layer, and their solution.

use super::layer::{BLOCK_SLOTS, BUCKET_STARTS, Layer, LayerShape, THRESHOLDS};
use bruit_filters::Fingerprint;

/// A key, and the r bits that the sum of its slots must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Equation {
    pub(super) key: Fingerprint,
    pub(super) word: u64,
}

/// Solves the `equations` that fit into one layer. The bumped ones are left in `equations`.
pub(super) fn solve(equations: &mut Vec<Equation>, shape: LayerShape) -> Layer {
    let mut layer = Layer::empty(shape);
    let mut system = System::new(shape.slots() as usize);
    // Sort by start and key. Without the key, the order of keys with equal starts would depend on the sort
    // implementation, and so would the bytes of the map. The keys of the first layer are already in this order; the
    // sort detects that in one pass.
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

/// The result of adding an equation.
enum Added {
    /// The equation is new, and determines this slot.
    Deciding(usize),
    /// The equation follows from earlier ones.
    Implied,
    /// The equation contradicts earlier ones.
    Contradicting,
}

/// Equations in echelon form: at most one for each slot, whose first coefficient is at that slot.
struct System {
    /// For each slot, the coefficients of that slot (bit 0) and of the next 63 slots; 0 if no equation determines the
    /// slot.
    coefficients: Vec<u64>,
    words: Vec<u64>,
}

impl System {
    fn new(slots: usize) -> Self {
        Self { coefficients: vec![0; slots], words: vec![0; slots] }
    }

    /// Adds the equations of a bucket from the last to the first. They are sorted by start. Returns the code of the
    /// threshold: equations that start below it were bumped.
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

    /// Removes the bucket's equations that start at or before `start`. They were added last, so no other equation
    /// depends on them.
    fn bump(&mut self, start: u64, decided: &[(u64, usize)]) -> usize {
        let offset = start % BUCKET_STARTS;
        let code = THRESHOLDS
            .iter()
            .position(|&threshold| threshold > offset)
            .expect("the last threshold is above all offsets");
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

    /// Computes the slots, from the last to the first, and writes them to `layer`. Undetermined slots are set to 0.
    fn substitute(&self, layer: &mut Layer, width: usize) {
        let [solution, _] = layer.words_mut();
        // Word j contains bit j of the current slot and of the next 63 slots.
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
