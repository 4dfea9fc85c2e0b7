//! The worked examples in the paper (Yan and Cho, "Enhancing Collaborative Spam Detection with Bloom Filters") and in
//! the slides that explain Bloom filters with ten bits. Each example is a test.

use bruit_filters::Mismatch;
use bruit_filters::bloom::{ClassicalFilter, MembershipFilter};
use bruit_filters::counting::{Cells, CountingDelta, CountingFilter, Extension, PackedCells};
use bruit_filters::hash::HashFamily;
use bruit_structures::hash::{Digest, DigestChunks};

/// A hash family for examples with given positions. The key is the list of positions.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    cells: u64,
}

impl HashFamily for Given {
    type Key = [u64; 3];

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        3
    }

    fn positions(&self, key: &[u64; 3]) -> impl Iterator<Item = u64> {
        key.iter().copied()
    }

    fn ensure_same(&self, _: &Self) -> Result<(), Mismatch> {
        Ok(())
    }
}

type Filter = CountingFilter<Given>;

/// Returns a filter whose cells have the given values.
fn filter(extension: Extension, cell_bits: u32, values: &[u32]) -> Filter {
    let mut cells = PackedCells::new(values.len() as u64, cell_bits).unwrap();
    (0..).zip(values).for_each(|(cell, &value)| cells.set(cell, value));
    CountingFilter::with_cells(Given { cells: cells.len() }, extension, cells).unwrap()
}

fn values(filter: &Filter) -> Vec<u32> {
    filter.cells().values().collect()
}

mod slides {
    use super::*;

    const X0: [u64; 3] = [1, 4, 9];
    const X1: [u64; 3] = [4, 5, 8];

    /// Returns a filter of ten cells, into which x0 and x1 were inserted. With one-bit cells, it is a Bloom filter.
    fn example(cell_bits: u32) -> Filter {
        let mut filter = filter(Extension::Intuitive, cell_bits, &[0; 10]);
        filter.insert_batch(&[X0, X1]);
        filter
    }

    #[test]
    fn ten_bits_hold_two_keys_and_one_false_positive() {
        assert_eq!(values(&example(1)), [0, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        let mut filter = ClassicalFilter::new(Given { cells: 10 }).unwrap();
        filter.insert_batch(&[X0, X1]);
        assert_eq!(filter.ones(), 5);
        assert!(filter.contains(&X0) && filter.contains(&X1));
        assert!(!filter.contains(&[0, 4, 8]), "y0: no");
        assert!(filter.contains(&[1, 5, 8]), "y1: yes, though it was never inserted");
    }

    #[test]
    fn ten_counters_show_the_shared_cell() {
        assert_eq!(values(&example(4)), [0, 1, 0, 0, 2, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn clearing_bits_makes_a_false_negative() {
        let mut cells = example(1).cells().clone();
        X0.into_iter().for_each(|position| cells.set(position, 0));
        let cleared = CountingFilter::with_cells(Given { cells: 10 }, Extension::Intuitive, cells).unwrap();
        assert_eq!(values(&cleared), [0, 0, 0, 0, 0, 1, 0, 0, 1, 0]);
        assert_eq!(cleared.count(&X1), 0, "x1 was inserted, but is lost");
    }

    #[test]
    fn counting_down_keeps_the_other_key() {
        let mut filter = example(4);
        filter.remove(&X0).unwrap();
        assert_eq!(values(&filter), [0, 0, 0, 0, 1, 1, 0, 0, 1, 0]);
        assert_eq!([X0, X1].map(|key| filter.count(&key)), [0, 1]);
    }

    #[test]
    fn sixteen_insertions_and_fifteen_removals_leave_no_false_negative() {
        // In the slides, a four-bit cell at its maximum is decremented, and the key is lost. Our filter leaves such a
        // cell unchanged and keeps the key.
        let mut filter = example(4);
        filter.insert_many(&X0, 15);
        (0..15).for_each(|_| filter.remove(&X0).unwrap());
        assert!(filter.count(&X0) >= 1);
    }
}

mod merging {
    use super::*;

    const X: [u64; 3] = [0, 1, 2];
    const SERVER_A: [u32; 3] = [2, 5, 8];
    const SERVER_B: [u32; 3] = [4, 4, 3];

    fn servers(extension: Extension) -> [Filter; 2] {
        [SERVER_A, SERVER_B].map(|cells| filter(extension, 5, &cells))
    }

    fn merged(servers: &[Filter; 2]) -> Filter {
        let mut sum = servers[0].clone();
        sum.merge(&servers[1]).unwrap();
        sum
    }

    #[test]
    fn merging_counts_two_and_three_as_six() {
        let servers = servers(Extension::Intuitive);
        assert_eq!(servers.each_ref().map(|server| server.count(&X)), [2, 3]);
        assert_eq!(values(&merged(&servers)), [6, 9, 11]);
        assert_eq!(merged(&servers).count(&X), 6);
    }

    #[test]
    fn one_more_on_each_server_counts_eight_by_the_intuitive_extension() {
        let mut servers = servers(Extension::Intuitive);
        servers.iter_mut().for_each(|server| server.insert(&X));
        assert_eq!(servers.each_ref().map(values), [[3, 6, 9], [5, 5, 4]]);
        assert_eq!(values(&merged(&servers)), [8, 11, 13]);
        assert_eq!(merged(&servers).count(&X), 8);
    }

    #[test]
    fn one_more_on_each_server_counts_seven_by_the_refined_extension() {
        let mut servers = servers(Extension::Refined);
        servers.iter_mut().for_each(|server| server.insert(&X));
        assert_eq!(servers.each_ref().map(values), [[3, 5, 8], [4, 4, 4]]);
        assert_eq!(values(&merged(&servers)), [7, 9, 12]);
        assert_eq!(merged(&servers).count(&X), 7);
    }

    #[test]
    fn table_2_grows_row_by_row() {
        let rows = [
            ([1, 1, 0], [1, 1, 0]),
            ([2, 2, 1], [1, 1, 1]),
            ([3, 3, 2], [2, 2, 2]),
            ([4, 4, 3], [3, 3, 3]),
            ([5, 5, 4], [4, 4, 4]),
        ];
        let mut intuitive = filter(Extension::Intuitive, 5, &[1, 1, 0]);
        let mut refined = filter(Extension::Refined, 5, &[1, 1, 0]);
        for (occurrences, (intuitive_row, refined_row)) in rows.into_iter().enumerate() {
            assert_eq!(values(&intuitive), intuitive_row, "after {occurrences}");
            assert_eq!(values(&refined), refined_row, "after {occurrences}");
            intuitive.insert(&X);
            refined.insert(&X);
        }
    }

    #[test]
    fn a_merged_cell_above_31_stays_at_31() {
        let mut ours = filter(Extension::Intuitive, 5, &[20, 15, 31]);
        ours.merge(&filter(Extension::Intuitive, 5, &[12, 16, 31])).unwrap();
        assert_eq!(values(&ours), [31, 31, 31]);
    }
}

mod delta_rounds {
    use super::*;

    /// A server in an exchange of counts. It has its own insertions, the part of them that it has sent already, and the
    /// counts of all servers.
    struct Server {
        own: Filter,
        sent: Filter,
        all: Filter,
    }

    impl Server {
        fn new(extension: Extension) -> Self {
            let empty = filter(extension, 5, &[0; 20]);
            Self { own: empty.clone(), sent: empty.clone(), all: empty }
        }

        fn insert(&mut self, key: &[u64; 3], times: u32) {
            self.own.insert_many(key, times);
        }

        fn delta(&self) -> CountingDelta<Given> {
            self.own.delta_since(&self.sent).unwrap()
        }
    }

    /// Time t0: each server sends its whole filter.
    fn exchange_all(a: &mut Server, b: &mut Server) {
        for server in [&mut *a, &mut *b] {
            server.sent = server.own.clone();
        }
        for all in [&mut a.all, &mut b.all] {
            all.merge_all(&[&a.own, &b.own]).unwrap();
        }
    }

    /// Time t1 and later: each server sends only its changes.
    fn exchange_deltas(a: &mut Server, b: &mut Server) {
        let deltas = [a.delta(), b.delta()];
        for server in [a, b] {
            deltas.iter().for_each(|delta| server.all.apply_delta(delta).unwrap());
            server.sent = server.own.clone();
        }
    }

    const KEYS: [[u64; 3]; 3] = [[1, 4, 9], [4, 5, 8], [9, 15, 19]];

    /// The totals are 3 + 2 + 1 = 6, 1 + 4 = 5 and `many` + 2.
    fn run(extension: Extension, many: u32) -> [Server; 2] {
        let (mut a, mut b) = (Server::new(extension), Server::new(extension));
        a.insert(&KEYS[0], 3);
        b.insert(&KEYS[0], 2);
        b.insert(&KEYS[1], 1);
        exchange_all(&mut a, &mut b);
        a.insert(&KEYS[1], 4);
        a.insert(&KEYS[2], many);
        b.insert(&KEYS[0], 1);
        exchange_deltas(&mut a, &mut b);
        b.insert(&KEYS[2], 2);
        exchange_deltas(&mut a, &mut b);
        [a, b]
    }

    #[test]
    fn deltas_after_a_full_exchange_leave_both_servers_equal() {
        for extension in [Extension::Intuitive, Extension::Refined] {
            let [a, b] = run(extension, 7);
            assert_eq!(a.all, b.all, "{extension}");
            let counts = KEYS.map(|key| a.all.count(&key));
            assert!(counts.iter().zip([6, 5, 9]).all(|(&count, truth)| count >= truth), "{extension}: {counts:?}");
        }
    }

    #[test]
    fn intuitive_servers_end_with_what_one_server_would_have_counted() {
        let [a, _] = run(Extension::Intuitive, 7);
        let mut one = filter(Extension::Intuitive, 5, &[0; 20]);
        KEYS.iter().zip([6, 5, 9]).for_each(|(key, times)| one.insert_many(key, times));
        assert_eq!(a.all, one);
    }

    #[test]
    fn both_servers_are_equal_when_cells_saturate() {
        for extension in [Extension::Intuitive, Extension::Refined] {
            // With 30 insertions, the count exceeds 31 only in the sum 30 + 2. With 1000 insertions, the server's own
            // cells saturate.
            for many in [30, 1000] {
                let [a, b] = run(extension, many);
                assert_eq!(a.all, b.all, "{extension} {many}");
                assert_eq!(a.all.count(&KEYS[2]), 31, "{extension} {many}");
            }
        }
    }
}

mod utilisable_sizes {
    use super::*;

    const LARGE: u64 = 1 << 30;

    #[test]
    fn md5_in_four_chunks_reaches_every_cell_of_figure_1a() {
        let family = DigestChunks::whole_array(Digest::Md5, 4, 1 << 20).unwrap();
        assert_eq!((family.utilisable_size(), family.unreachable_cells()), (1 << 20, 0));
    }

    #[test]
    fn md5_in_eight_chunks_reaches_65_536_cells() {
        let family = DigestChunks::whole_array(Digest::Md5, 8, LARGE).unwrap();
        assert_eq!((family.utilisable_size(), family.unreachable_cells()), (1 << 16, LARGE - (1 << 16)));
        assert!(positions(&family).all(|position| position < 1 << 16));
    }

    #[test]
    fn sha1_in_eight_chunks_reaches_1_048_576_cells() {
        let family = DigestChunks::whole_array(Digest::Sha1, 8, LARGE).unwrap();
        assert_eq!(family.utilisable_size(), 1 << 20);
        assert!(positions(&family).all(|position| position < 1 << 20));
    }

    #[test]
    fn partitions_reach_eight_times_as_many() {
        for (digest, chunk_values) in [(Digest::Md5, 1 << 16), (Digest::Sha1, 1 << 20)] {
            let family = DigestChunks::partitioned(digest, 8, LARGE).unwrap();
            assert_eq!(family.utilisable_size(), 8 * chunk_values, "{digest}");
            assert!(positions(&family).all(|position| position % (LARGE / 8) < chunk_values), "{digest}");
        }
    }

    #[test]
    fn small_filters_are_reached_in_full() {
        for digest in [Digest::Md5, Digest::Sha1] {
            assert_eq!(DigestChunks::whole_array(digest, 8, 1 << 16).unwrap().unreachable_cells(), 0);
            assert_eq!(DigestChunks::partitioned(digest, 8, 8 << 16).unwrap().unreachable_cells(), 0);
            assert_eq!(DigestChunks::whole_array(digest, 1, u64::MAX).unwrap().unreachable_cells(), 0);
            assert_eq!(DigestChunks::whole_array(digest, 2, u64::MAX).unwrap().unreachable_cells(), 0);
        }
    }

    /// Returns the positions of some messages.
    fn positions(family: &DigestChunks) -> impl Iterator<Item = u64> {
        (0..100u32).flat_map(|i| family.positions(&family.digest().of(&i.to_be_bytes())).collect::<Vec<_>>())
    }
}
