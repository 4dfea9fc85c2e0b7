use super::*;

const KEY: FingerprintKey = FingerprintKey::new([7; 16]);
const NOW: Time = Time(1_800_000_000);

fn digest(number: u64) -> Digest {
    let mut digest = [0; RSPAMD_DIGEST_BYTES];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    digest
}

/// Returns the shingles of a text. Different texts share none.
fn text(number: u64) -> [u64; SHINGLES] {
    std::array::from_fn(|at| (number * 64 + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the shingles of a text that shares `agreed` shingles with the text `number`.
fn similar(number: u64, agreed: usize) -> [u64; SHINGLES] {
    let mut shingles = text(number);
    shingles[agreed..].fill(0);
    shingles
}

fn index(records: u64) -> Shingles {
    Shingles::new(KEY, records, 8, 100)
}

fn write(shingles: &mut Shingles, number: u64) -> ShingleRecord {
    shingles.write(&digest(number), Some(&text(number)), 1, 10, NOW)
}

fn find(shingles: &Shingles, number: u64, like: &[u64; SHINGLES]) -> Option<ShingleMatch> {
    shingles.check(&digest(number), Some(like), &mut Votes::new())
}

/// Returns whether a text is found by its digest, and whether it is found by its shingles.
fn is_known(shingles: &Shingles, number: u64) -> (bool, bool) {
    let by_digest = shingles.check(&digest(number), None, &mut Votes::new());
    (by_digest.is_some(), find(shingles, u64::MAX, &text(number)).is_some())
}

/// Returns the number of slots in use.
fn slots(shingles: &Shingles) -> u64 {
    let slots = shingles.table().capacity() as f64 / OWNER_LOAD;
    (shingles.table().load() * slots).round() as u64
}

fn encoded(shingles: &Shingles) -> Vec<u8> {
    let mut bytes = Vec::new();
    shingles.encode_records(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8], table: &OwnerTableWithoutParts) -> Result<Shingles, Malformed> {
    let mut reader = Reader::new(bytes);
    let shingles = Shingles::decode_records(KEY, 1_024, 8, table.clone(), &mut reader)?;
    reader.finish().map(|()| shingles)
}

/// Returns the digest and shingles that rspamd sent for the text `name`.
fn sent(name: &str) -> (Digest, [u64; SHINGLES]) {
    let lines = include_str!("../../../../testdata/rspamd/shingles.txt").lines();
    let mut fields = lines.map(|line| line.split(' ')).find(|fields| fields.clone().next() == Some(name)).unwrap();
    let mut bytes = |at| -> Vec<u8> {
        let digits = fields.nth(at).unwrap().as_bytes().chunks(2);
        digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    };
    let digest = bytes(1).try_into().unwrap();
    let shingles = bytes(0);
    (digest, std::array::from_fn(|at| u64::from_le_bytes(shingles.as_chunks().0[at])))
}

#[test]
fn texts_of_a_real_client_are_found_as_by_rspamd() {
    let mut shingles = index(10_000);
    for (name, flag) in [("write-siphash", 1), ("write-mumhash", 11)] {
        let (digest, text) = sent(name);
        shingles.write(&digest, Some(&text), flag, 10, NOW);
    }
    let found = |name| {
        let (digest, text) = sent(name);
        shingles.check(&digest, Some(&text), &mut Votes::new()).map(|found| (found.record.flag, found.agreed))
    };
    assert_eq!((found("replica-mumhash"), found("replica-siphash")), (Some((11, 32)), Some((11, 30))));
    assert_eq!((found("other-mumhash"), found("other-siphash")), (None, None));
}

#[test]
fn seventeen_shingles_match_and_sixteen_do_not() {
    let mut shingles = index(10_000);
    for number in 0..1_000 {
        write(&mut shingles, number);
    }
    for number in 0..1_000 {
        let found = find(&shingles, u64::MAX, &similar(number, 17)).expect("more than half");
        assert_eq!((found.agreed, found.record.digest), (17, shingles.digest(&digest(number))));
        assert_eq!(find(&shingles, u64::MAX, &similar(number, 16)), None);
    }
}

#[test]
fn a_digest_is_found_before_shingles() {
    let mut shingles = index(10_000);
    let [first, second] = [1, 2].map(|number| write(&mut shingles, number));
    assert_eq!(find(&shingles, 1, &text(2)), Some(ShingleMatch { record: first, agreed: 32 }));
    assert_eq!(find(&shingles, 3, &text(2)), Some(ShingleMatch { record: second, agreed: 32 }));
    assert_eq!(shingles.check(&digest(3), None, &mut Votes::new()), None);
}

#[test]
fn a_shingle_matches_only_at_its_own_position() {
    let mut shingles = index(10_000);
    write(&mut shingles, 1);
    let mut turned = text(1);
    turned.rotate_left(1);
    assert_eq!(find(&shingles, 2, &turned), None);
}

#[test]
fn the_record_with_most_shingles_is_found_then_the_newest() {
    let mut shingles = index(10_000);
    let mut other = text(1);
    other[31] = 0;
    shingles.write(&digest(2), Some(&other), 2, 10, NOW);
    shingles.write(&digest(1), Some(&text(1)), 1, 10, NOW);
    shingles.write(&digest(3), Some(&other), 3, 10, NOW);
    let flag = |like: &_| find(&shingles, 9, like).map(|found| (found.record.flag, found.agreed));
    assert_eq!(flag(&text(1)), Some((1, 32)));
    assert_eq!(flag(&other), Some((3, 32)));
    assert_eq!(flag(&similar(1, 20)), Some((3, 21)));
}

#[test]
fn weights_of_one_list_add_up_and_those_of_two_do_not() {
    let mut shingles = index(10_000);
    let later = Time(NOW.0 + 5 * Time::HOUR);
    let mut write = |flag, weight, now| shingles.write(&digest(1), Some(&text(1)), flag, weight, now);
    assert_eq!((write(1, 10, NOW).weight, write(1, 5, later).weight), (10, 15));
    let moved = write(11, 7, NOW);
    assert_eq!((moved.flag, moved.weight), (11, 7));
    assert_eq!((moved.first_hour, moved.last_hour), (500_000, 500_005));
    assert_eq!((write(11, i32::MAX, NOW).weight, write(11, -1, NOW).weight), (i32::MAX, i32::MAX - 1));
}

#[test]
fn deleted_texts_are_not_found() {
    for given in [None, Some(&text(1))] {
        let mut shingles = index(10_000);
        write(&mut shingles, 1);
        write(&mut shingles, 2);
        assert!(shingles.delete(&digest(1), given) && !shingles.delete(&digest(1), given));
        assert_eq!((is_known(&shingles, 1), is_known(&shingles, 2)), ((false, false), (true, true)));
        assert_eq!((shingles.len(), write(&mut shingles, 1).weight), (1, 10));
        assert_eq!(is_known(&shingles, 1), (true, true));
    }
}

#[test]
fn a_record_is_found_for_its_window_and_no_longer() {
    let mut shingles = index(10_000);
    write(&mut shingles, 1);
    shingles.advance(107);
    assert_eq!(is_known(&shingles, 1), (true, true));
    shingles.advance(106);
    assert_eq!(shingles.epoch(), 107);
    shingles.advance(108);
    assert_eq!(is_known(&shingles, 1), (false, false));
    let again = write(&mut shingles, 1);
    assert_eq!((again.weight, again.stored), (10, 32));
    assert_eq!(is_known(&shingles, 1), (true, true));
}

#[test]
fn texts_that_are_written_again_do_not_age() {
    let mut shingles = index(10_000);
    write(&mut shingles, 1);
    write(&mut shingles, 2);
    for epoch in 101..200 {
        shingles.advance(epoch);
        assert_eq!(write(&mut shingles, 1).weight, 10 * (epoch as i32 - 99));
        assert_eq!(is_known(&shingles, 1), (true, true));
    }
    assert_eq!(is_known(&shingles, 2), (false, false));
    // The shingles stored under the text's earlier numbers were removed.
    assert_eq!(slots(&shingles), 32);
}

#[test]
fn writing_again_in_one_epoch_uses_no_room() {
    let mut shingles = index(10_000);
    for _ in 0..100 {
        write(&mut shingles, 1);
        // Rules may compute the shingles of a text in different ways. Two sets of shingles are stored.
        shingles.write(&digest(1), Some(&text(2)), 1, 10, NOW);
        shingles.write(&digest(1), Some(&text(3)), 1, 10, NOW);
    }
    assert_eq!((shingles.records.len(), slots(&shingles)), (1, STORED_MAX as u64));
}

#[test]
fn a_record_without_shingles_gets_them_later() {
    let mut shingles = index(10_000);
    shingles.write(&digest(1), None, 1, 10, NOW);
    assert_eq!(is_known(&shingles, 1), (true, false));
    write(&mut shingles, 1);
    assert_eq!(is_known(&shingles, 1), (true, true));
}

#[test]
fn the_oldest_records_are_evicted() {
    let mut shingles = index(RECORDS_MIN);
    let bytes = shingles.bytes();
    for number in 0..10_000 {
        write(&mut shingles, number);
        assert_eq!(is_known(&shingles, number), (true, true));
    }
    assert!(shingles.records.len() < RECORDS_MIN as usize && shingles.len() as u64 > RECORDS_MIN - 10);
    assert_eq!(shingles.bytes(), bytes);
    let oldest = 10_000 - shingles.len() as u64;
    assert_eq!((is_known(&shingles, oldest - 1), is_known(&shingles, oldest)), ((false, false), (true, true)));
}

#[test]
fn expired_records_are_cleaned_up_while_others_are_written() {
    let mut shingles = index(RECORDS_MIN);
    (0..800).for_each(|number| _ = write(&mut shingles, number));
    shingles.advance(200);
    assert_eq!((shingles.len(), is_known(&shingles, 799)), (800, (false, false)));
    (1_000..1_200).for_each(|number| _ = write(&mut shingles, number));
    assert_eq!((shingles.len(), shingles.records.len()), (200, 200));
    assert!((1_000..1_200).all(|number| is_known(&shingles, number) == (true, true)));
}

#[test]
fn common_shingles_belong_to_the_newest_texts() {
    // All texts share fifteen of their 32 shingles, as if they had common words.
    let mut shingles = index(RECORDS_MIN);
    let with_common = |number| {
        let mut shingles = text(number);
        shingles[17..].fill(7);
        shingles
    };
    for number in 0..500 {
        shingles.write(&digest(number), Some(&with_common(number)), 1, 10, NOW);
    }
    let agreed = |number| find(&shingles, u64::MAX, &with_common(number)).map(|found| found.agreed);
    assert_eq!((agreed(499), agreed(496)), (Some(32), Some(32)));
    assert_eq!((agreed(495), agreed(0)), (Some(17), Some(17)));
}

#[test]
fn a_record_that_owns_a_shingle_does_not_evict_other_owners() {
    let mut shingles = index(RECORDS_MIN);
    let [first, last] = [0, 31];
    let write = |shingles: &mut Shingles, number, place: usize| {
        let mut own = text(number);
        own[place] = 7;
        shingles.write(&digest(number), Some(&own), 1, 10, NOW);
    };
    // All four texts share the first shingle. The second text loses its last shingle and is written again.
    let mut second = text(2);
    (second[first], second[last]) = (7, 7);
    write(&mut shingles, 1, first);
    shingles.write(&digest(2), Some(&second), 1, 10, NOW);
    [3, 4].iter().for_each(|&number| write(&mut shingles, number, first));
    [5, 6, 7, 8].iter().for_each(|&number| write(&mut shingles, number, last));
    shingles.write(&digest(2), Some(&second), 1, 10, NOW);
    let mut oldest = text(1);
    oldest[first] = 7;
    assert_eq!(find(&shingles, u64::MAX, &oldest).map(|found| found.agreed), Some(32));
    assert_eq!(find(&shingles, u64::MAX, &second).map(|found| found.agreed), Some(32));
}

#[test]
fn shingles_can_move_between_records_repeatedly() {
    let mut shingles = index(RECORDS_MIN);
    for number in 0..500 {
        let record = shingles.write(&digest(number % 5), Some(&text(0)), 1, 10, NOW);
        assert_eq!(record.stored, 32);
    }
}

#[test]
fn the_length_of_a_window_is_bounded() {
    for (window, epochs) in [(0, 1), (1, 1), (WINDOW_MAX, WINDOW_MAX), (u64::MAX, WINDOW_MAX)] {
        let mut shingles = Shingles::new(KEY, RECORDS_MIN, window, 0);
        write(&mut shingles, 1);
        for epoch in 0..=epochs {
            shingles.advance(epoch);
            assert_eq!(is_known(&shingles, 1), (epoch < epochs, epoch < epochs), "{epoch} of {window}");
        }
        assert!(shingles.epochs.len() as u64 <= WINDOW_MAX);
    }
}

#[test]
fn record_numbers_continue_beyond_the_largest_tag() {
    let mut shingles = index(RECORDS_MIN);
    for number in 0..(1 << 20) + 5_000 {
        shingles.write(&digest(number), None, 1, 10, NOW);
    }
    let last = (1 << 20) + 5_000;
    (last..last + 500).for_each(|number| _ = write(&mut shingles, number));
    assert!((last..last + 500).all(|number| is_known(&shingles, number) == (true, true)));
    let copy = decoded(&encoded(&shingles), shingles.table()).unwrap();
    assert_eq!(copy, shingles);
}

#[test]
fn a_decoded_index_behaves_like_the_original() {
    let mut shingles = index(RECORDS_MIN);
    for number in 0..3_000 {
        shingles.advance(100 + number / 100);
        write(&mut shingles, number);
        write(&mut shingles, number / 2);
        shingles.delete(&digest(number / 3), None);
    }
    let mut copy = decoded(&encoded(&shingles), shingles.table()).unwrap();
    assert_eq!((&copy, copy.len()), (&shingles, shingles.len()));
    for number in 3_000..6_000 {
        for index in [&mut shingles, &mut copy] {
            index.advance(100 + number / 100);
            write(index, number);
            write(index, number / 2);
        }
    }
    assert_eq!((&copy, encoded(&copy)), (&shingles, encoded(&shingles)));
}

#[test]
fn damaged_bytes_are_refused_or_decode_to_another_value() {
    let mut shingles = index(RECORDS_MIN);
    (0..3).for_each(|number| _ = write(&mut shingles, number));
    shingles.advance(101);
    write(&mut shingles, 1);
    let bytes = encoded(&shingles);
    for length in 0..bytes.len() {
        assert!(decoded(&bytes[..length], shingles.table()).is_err(), "{length}");
    }
    for at in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        if let Ok(mut other) = decoded(&damaged, shingles.table()) {
            assert_eq!(encoded(&other), damaged, "bit {at}");
            other.advance(u64::MAX);
            (0..50).for_each(|number| _ = write(&mut other, number));
            assert_eq!(is_known(&other, 7), (true, true), "bit {at}");
        }
    }
}

#[test]
fn impossible_records_are_refused() {
    const RECORD: usize = 23;
    let mut shingles = index(RECORDS_MIN);
    (0..2).for_each(|number| _ = write(&mut shingles, number));
    let bytes = encoded(&shingles);
    let (first, second) = (bytes.len() - 2 * RECORD, bytes.len() - RECORD);
    let refused = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut damaged = bytes.clone();
        damage(&mut damaged);
        let Err(Malformed::OutOfRange { what, .. }) = decoded(&damaged, shingles.table()) else { panic!() };
        what
    };
    assert_eq!(refused(&|bytes| bytes.copy_within(first..first + 8, second)), "a shingle record's digest");
    assert_eq!(refused(&|bytes| bytes[second + 21] = STORED_MAX as u8 + 1), "a shingle record's stored shingles");
    assert_eq!(refused(&|bytes| bytes[second + 22] = 0), "the live flag of a shingle record");
    assert_eq!(refused(&|bytes| bytes[second + 22] = 2), "the live flag of a shingle record");
}

#[test]
fn records_of_another_table_are_refused() {
    let mut shingles = index(RECORDS_MIN);
    (0..3).for_each(|number| _ = write(&mut shingles, number));
    let bytes = encoded(&shingles);
    let before = shingles.table().clone();
    (3..6).for_each(|number| _ = write(&mut shingles, number));
    assert!(decoded(&bytes, &before).is_ok());
    assert!(decoded(&bytes, shingles.table()).is_err());
    assert!(decoded(&encoded(&shingles), &before).is_err());
}

#[test]
fn too_many_records_are_refused() {
    let mut shingles = index(2 * RECORDS_MIN);
    (0..RECORDS_MIN).for_each(|number| _ = shingles.write(&digest(number), None, 1, 10, NOW));
    assert!(decoded(&encoded(&shingles), shingles.table()).is_ok());
    shingles.write(&digest(RECORDS_MIN), None, 1, 10, NOW);
    let refused = Malformed::OutOfRange { what: "the number of shingle records", value: RECORDS_MIN + 1 };
    assert_eq!(decoded(&encoded(&shingles), shingles.table()), Err(refused));
}

#[test]
fn a_record_takes_170_bytes_at_most_all_included() {
    let mut shingles = index(200_000);
    for number in 0..199_999 {
        write(&mut shingles, number);
    }
    assert_eq!(shingles.len(), 199_999);
    assert!(shingles.bytes() <= 170 * 200_000, "{}", shingles.bytes());
    assert_eq!(shingles.table().evictions(), 0);
    let found = (0..199_999).filter(|&number| is_known(&shingles, number) == (true, true)).count();
    assert_eq!(found, 199_999);
    let false_matches = (200_000..250_000).filter(|&number| is_known(&shingles, number) != (false, false)).count();
    assert_eq!(false_matches, 0);
    // The overhead per record is highest just after a hash table has doubled.
    for records in [611_700, RECORDS_MAX] {
        let bytes = index(records).bytes() as f64 / records as f64;
        assert!(bytes <= 170.0, "{records} records: {bytes} bytes each");
    }
}
