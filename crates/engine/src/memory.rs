//! Allocation of a clearinghouse's memory. All of it is allocated at creation. If an allocation fails, the error names
//! the structure.

use std::collections::VecDeque;
use std::fmt;

use bruit_filters::{CreateError, OutOfMemory};
use hashbrown::HashTable;

/// Error for a memory budget that cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough memory: cannot allocate {} for the {what} (budget: {})", Bytes(*bytes), Bytes(*budget_bytes))]
pub struct NotEnoughMemory {
    /// Structure that needed the memory.
    pub what: &'static str,
    /// Number of bytes that could not be allocated.
    pub bytes: u64,
    /// Whole budget in bytes.
    pub budget_bytes: u64,
}

/// A size in bytes, displayed with a unit.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.0 as f64;
        let mut units = ["bytes", "KiB", "MiB", "GiB"].into_iter().peekable();
        while amount >= 1024.0 && units.len() > 1 {
            amount /= 1024.0;
            units.next();
        }
        let decimals = usize::from(amount.fract() != 0.0);
        write!(formatter, "{amount:.decimals$} {}", units.next().unwrap_or_default())
    }
}

/// Returns an empty vector with space for `capacity` values.
pub(crate) fn vector<T>(capacity: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(capacity).map_err(|_| out_of_memory::<T>(capacity))?;
    Ok(vector)
}

/// Returns an empty queue with space for `capacity` values.
pub(crate) fn queue<T>(capacity: usize) -> Result<VecDeque<T>, OutOfMemory> {
    let mut queue = VecDeque::new();
    queue.try_reserve_exact(capacity).map_err(|_| out_of_memory::<T>(capacity))?;
    Ok(queue)
}

/// Returns an empty table with space for `capacity` values.
pub(crate) fn table<T>(capacity: usize) -> Result<HashTable<T>, OutOfMemory> {
    let mut table = HashTable::new();
    table.try_reserve(capacity, |_| 0).map_err(|_| out_of_memory::<T>(capacity))?;
    Ok(table)
}

/// Returns the error for a failed allocation of `capacity` values.
pub(crate) const fn out_of_memory<T>(capacity: usize) -> OutOfMemory {
    OutOfMemory { bytes: (capacity as u64).saturating_mul(size_of::<T>() as u64) }
}

/// Returns the error of a filter's failed allocation. No other error can occur, because the engine plans every size.
pub(crate) fn failed_allocation(error: CreateError) -> OutOfMemory {
    match error {
        CreateError::OutOfMemory(error) => error,
        error => unreachable!("the engine plans only valid sizes: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_size_structure_and_budget() {
        let error = NotEnoughMemory { what: "spam book", bytes: 15_139_995_000, budget_bytes: 32 << 30 };
        let text = "not enough memory: cannot allocate 14.1 GiB for the spam book (budget: 32 GiB)";
        assert_eq!(error.to_string(), text);
        assert_eq!(Bytes(17).to_string(), "17 bytes");
    }

    #[test]
    fn allocations_that_are_too_large_fail() {
        let capacity = 1 << 57;
        let expected = OutOfMemory { bytes: 1 << 60 };
        assert_eq!(vector::<u64>(capacity).unwrap_err(), expected);
        assert_eq!(queue::<u64>(capacity).unwrap_err(), expected);
        assert_eq!(table::<u64>(capacity).unwrap_err(), expected);
    }
}
