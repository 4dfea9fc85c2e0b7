use std::os::unix::fs::MetadataExt as _;

use super::*;

const fn minute(number: u64) -> Span {
    Span { from: number * 60, to: number * 60 + 59 }
}

/// Creates a directory with room for `pages` pages of one block each.
fn room_for(pages: u64) -> (tempfile::TempDir, Pages) {
    let folder = tempfile::tempdir().unwrap();
    let pages = Pages::create_or_open(folder.path(), "test", pages * DISK_BLOCK_BYTES).unwrap();
    (folder, pages)
}

fn content(byte: u8) -> Vec<u8> {
    vec![byte; 60]
}

fn spans(names: &[PageName]) -> Vec<Span> {
    names.iter().map(|name| name.span).collect()
}

#[test]
fn pages_are_found_again_in_order_of_time() {
    let (folder, mut pages) = room_for(3);
    for number in [2, 1, 3] {
        pages.write(minute(number), &content(number as u8)).unwrap();
    }
    let found = Pages::open(folder.path(), "test").unwrap();
    assert_eq!(found.list(), pages.list());
    assert_eq!(spans(found.list()), [minute(1), minute(2), minute(3)]);
    assert_eq!(found.read(&found.list()[1], 60).unwrap(), content(2));
    assert_eq!((found.bytes(), pages.bytes()), (3 * DISK_BLOCK_BYTES, 3 * DISK_BLOCK_BYTES));
    assert_eq!((found.bytes_of(minute(2)), found.bytes_of(minute(4))), (DISK_BLOCK_BYTES, 0));
    assert_eq!(found.bytes_of(Span { from: 60, to: 180 }), 2 * DISK_BLOCK_BYTES, "the third page ends after the span");
    let within: Vec<_> = found.within(Span { from: 119, to: 120 }).map(|name| name.span).collect();
    assert_eq!(within, [minute(1), minute(2)]);
}

#[test]
fn a_new_directory_and_its_pages_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    let page = Pages::create_or_open(&new, "test", 1 << 20).unwrap().write(minute(1), &content(1)).unwrap().page;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&new), mode(&new.join(page.to_string()))), (0o700, 0o600));
}

#[test]
fn pages_of_one_span_are_kept_apart() {
    let (folder, mut pages) = room_for(3);
    let numbers: Vec<_> = (0..3).map(|byte| pages.write(minute(1), &content(byte)).unwrap().page.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let found = Pages::open(folder.path(), "test").unwrap();
    assert_eq!(found.read(&found.list()[2], 60).unwrap(), content(2));
    // New pages get a number even if someone creates a file with the largest number.
    let highest = PageName { span: minute(2), number: u32::MAX, bytes: 0 };
    fs::write(folder.path().join(highest.to_string()), "").unwrap();
    drop(pages);
    let mut pages = Pages::create_or_open(folder.path(), "test", 1 << 20).unwrap();
    assert_eq!(pages.write(minute(2), &[]).unwrap().page.number, 1);
    assert_eq!(pages.write(minute(2), &[]).unwrap().page.number, 2);
}

#[test]
fn pages_written_first_are_removed_when_the_disk_is_full() {
    let (folder, mut pages) = room_for(2);
    // A page whose span is in the year 5138 is not kept longer than other pages.
    let far = Span { from: SECONDS_MAX, to: SECONDS_MAX };
    assert_eq!(pages.write(far, &content(5)).unwrap().removed, []);
    assert_eq!(pages.write(minute(6), &content(6)).unwrap().removed, []);
    assert_eq!(spans(&pages.write(minute(7), &content(7)).unwrap().removed), [far]);
    assert_eq!(spans(&pages.write(minute(1), &content(1)).unwrap().removed), [minute(6)]);
    drop(pages);
    let mut pages = Pages::create_or_open(folder.path(), "test", 2 * DISK_BLOCK_BYTES).unwrap();
    assert_eq!(spans(&pages.write(minute(2), &content(2)).unwrap().removed), [minute(7)], "the order is kept");
    assert_eq!(spans(Pages::open(folder.path(), "test").unwrap().list()), [minute(1), minute(2)]);
}

#[test]
fn no_page_is_removed_for_one_that_cannot_be_written() {
    let (folder, mut pages) = room_for(1);
    pages.write(minute(1), &content(1)).unwrap();
    let block = folder.path().join(TEMPORARY);
    fs::create_dir(&block).unwrap();
    assert!(matches!(pages.write(minute(2), &content(2)), Err(PagesError::Io { .. })));
    assert_eq!(spans(Pages::open(folder.path(), "test").unwrap().list()), [minute(1)]);
    fs::remove_dir(block).unwrap();
    // If writing fails at the rename, removed pages are reported with the next page.
    let taken = folder.path().join(PageName { span: minute(3), number: 2, bytes: 0 }.to_string());
    fs::create_dir(&taken).unwrap();
    assert!(matches!(pages.write(minute(3), &content(3)), Err(PagesError::Io { .. })));
    assert_eq!(spans(&pages.write(minute(4), &content(4)).unwrap().removed), [minute(1)]);
    assert_eq!((pages.take_removed(), pages.bytes()), (Vec::new(), DISK_BLOCK_BYTES));
}

#[test]
fn a_page_may_take_all_the_room_and_no_more() {
    let (_folder, mut pages) = room_for(1);
    let most = DISK_BLOCK_BYTES as usize - HEADER_BYTES;
    pages.write(minute(1), &vec![0; most]).unwrap();
    let refused = pages.write(minute(2), &vec![0; most + 1]).unwrap_err();
    assert!(matches!(refused, PagesError::TooLarge { bytes: 8192, bytes_max: 4096 }), "{refused}");
    assert!(Pages::ensure_room(most as u64, DISK_BLOCK_BYTES).is_ok());
    assert!(Pages::ensure_room(u64::MAX, DISK_BLOCK_BYTES).is_err());
    assert_eq!(spans(pages.list()), [minute(1)], "a rejected page removes no other pages");
}

#[test]
fn a_small_page_counts_as_what_it_takes_on_disk() {
    let (_folder, mut pages) = room_for(3);
    let removed: Vec<_> = (0..5).map(|number| pages.write(minute(number), &[]).unwrap().removed.len()).collect();
    assert_eq!((removed, pages.bytes()), (vec![0, 0, 0, 1, 1], 3 * DISK_BLOCK_BYTES));
}

#[test]
fn the_number_of_pages_is_bounded() {
    let (_folder, mut pages) = room_for(10);
    pages.pages_max = 3;
    for number in 1..=3 {
        assert_eq!(pages.write(minute(number), &[]).unwrap().removed, []);
    }
    assert_eq!(spans(&pages.write(minute(4), &[]).unwrap().removed), [minute(1)]);
    assert_eq!(pages.list().len(), 3);
}

#[test]
fn a_directory_has_one_kind() {
    let (folder, pages) = room_for(1);
    drop(pages);
    let refused = Pages::create_or_open(folder.path(), "other", 100).unwrap_err();
    assert!(matches!(&refused, PagesError::OtherKind { found, wanted, .. } if found == "test" && wanted == "other"));
    assert!(matches!(Pages::open(folder.path(), "other"), Err(PagesError::OtherKind { .. })));
    assert_eq!(kind_of(folder.path(), &["other", "test"]).unwrap(), "test");
    assert!(matches!(kind_of(folder.path(), &["other"]), Err(PagesError::OtherKind { .. })));
}

#[test]
fn kinds_are_short_words() {
    let folder = tempfile::tempdir().unwrap();
    let make = |kind: &str| Pages::create_or_open(&folder.path().join(kind), kind, 100);
    make(&"k".repeat(KIND_BYTES_MAX)).unwrap();
    for kind in ["", "Upper", "two words", "line\n", &"k".repeat(KIND_BYTES_MAX + 1)] {
        assert!(matches!(make(kind), Err(PagesError::Kind(_))), "{kind:?}");
    }
}

#[test]
fn foreign_files_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes"), "mine").unwrap();
    assert!(matches!(Pages::create_or_open(folder.path(), "test", 100), Err(PagesError::NoPages { .. })));
    assert!(matches!(Pages::open(folder.path(), "test"), Err(PagesError::NoPages { .. })));
    assert!(matches!(Pages::open(&folder.path().join("none"), "test"), Err(PagesError::NoPages { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn one_writes_while_others_read() {
    let (folder, mut pages) = room_for(1);
    pages.write(minute(1), &content(1)).unwrap();
    assert!(matches!(Pages::create_or_open(folder.path(), "test", 100), Err(PagesError::InUse { .. })));
    let mut reader = Pages::open(folder.path(), "test").unwrap();
    assert!(matches!(reader.write(minute(2), &[]), Err(PagesError::ReadOnly { .. })));
    let page = reader.list()[0].clone();
    pages.write(minute(2), &content(2)).unwrap();
    assert!(matches!(reader.read(&page, 60), Err(PagesError::Gone { .. })));
    drop(pages);
    Pages::create_or_open(folder.path(), "test", DISK_BLOCK_BYTES).unwrap();
}

#[test]
fn an_unfinished_page_is_deleted_when_the_directory_is_reopened() {
    let (folder, pages) = room_for(1);
    drop(pages);
    fs::write(folder.path().join(TEMPORARY), "half a pa").unwrap();
    let pages = Pages::create_or_open(folder.path(), "test", DISK_BLOCK_BYTES).unwrap();
    assert_eq!(pages.list(), []);
    assert!(!folder.path().join(TEMPORARY).exists());
}

#[test]
fn an_unfinished_marker_is_rewritten() {
    for half in ["", "bruit pag", "bruit pages 1 tes"] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pages.bruit"), half).unwrap();
        assert!(matches!(Pages::open(folder.path(), "test"), Err(PagesError::NoPages { .. })));
        drop(Pages::create_or_open(folder.path(), "test", 100).unwrap());
        Pages::open(folder.path(), "test").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pages.bruit"), "something else").unwrap();
    assert!(matches!(Pages::create_or_open(folder.path(), "test", 100), Err(PagesError::NoPages { .. })));
}

#[test]
fn a_span_ends_after_it_begins_and_before_names_do() {
    let (_folder, mut pages) = room_for(9);
    pages.write(Span { from: SECONDS_MAX, to: SECONDS_MAX }, &[]).unwrap();
    for span in [Span { from: 2, to: 1 }, Span { from: 0, to: SECONDS_MAX + 1 }] {
        assert!(matches!(pages.write(span, &[]), Err(PagesError::Span(refused)) if refused == span));
    }
}

#[test]
fn a_damaged_page_is_named() {
    let (folder, mut pages) = room_for(1);
    let page = pages.write(minute(1), &content(1)).unwrap().page;
    let path = folder.path().join(page.to_string());
    fs::write(&path, "no page").unwrap();
    let refused = pages.read(&page, 60).unwrap_err();
    assert_eq!(refused.to_string(), format!("{} is not a page file", path.display()));
}
