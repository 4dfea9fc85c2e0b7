//! The example `word_list` does what it says.

#[path = "../examples/word_list.rs"]
#[expect(dead_code, reason = "the test calls the functions of the example, not its main function")]
mod word_list;

use std::fs;

use word_list::{open_or_create, print_unknown};

#[test]
fn the_word_list_reports_unknown_words_from_the_list_and_from_the_saved_filter() {
    let folder = tempfile::tempdir().unwrap();
    let (list, file) = (folder.path().join("words"), folder.path().join("words.filter"));
    fs::write(&list, "cheap\npills\nfor\nyou\n").unwrap();

    let created = open_or_create(&list, &file).unwrap();
    fs::remove_file(&list).unwrap();
    let loaded = open_or_create(&list, &file).unwrap();
    assert!(created == loaded);

    let mut output = Vec::new();
    print_unknown(&loaded, "cheap, chaep pills\nfor yuo!\n".as_bytes(), &mut output).unwrap();
    assert_eq!(String::from_utf8(output).unwrap(), "chaep\nyuo\n");
}
