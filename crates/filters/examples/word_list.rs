//! Checks the words on standard input against a word list, which is a filter stored in a file.
//!
//! ```sh
//! cargo run -p bruit-filters --example word_list -- /usr/share/dict/words words.filter < letter.txt
//! ```
#![expect(clippy::print_stdout, reason = "it prints the words that are not in the list")]

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter};

use bruit_filters::{Filter, FingerprintKey};

const LIMIT_BYTES: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [list, file] = arguments.as_slice() else { return Err("usage: word_list LIST FILTER < TEXT".into()) };
    let filter = match File::open(file) {
        Ok(input) => Filter::load(&mut BufReader::new(input), FingerprintKey::PUBLIC, LIMIT_BYTES)?,
        Err(_) => create(list, file)?,
    };
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        let found = filter.contains_batch(&words);
        words.iter().zip(found).filter(|(_, found)| !found).for_each(|(word, _)| println!("{word}"));
    }
    Ok(())
}

fn create(list: &str, file: &str) -> Result<Filter, Box<dyn Error>> {
    let text = fs::read_to_string(list)?;
    let words: Vec<_> = text.lines().collect();
    let mut filter = Filter::with_rate(words.len() as u64, 0.001)?;
    filter.insert_batch(&words);
    filter.save(&mut BufWriter::new(File::create(file)?))?;
    Ok(filter)
}
