//! Prints the words on standard input that are not in a word list. The list is read once and kept as a filter file.
//!
//! ```sh
//! cargo run -p bruit-filters --example word_list -- /usr/share/dict/words words.filter < letter.txt
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use bruit_filters::{Filter, FingerprintKey};

const LIMIT_BYTES: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [list, file] = arguments.as_slice() else { return Err("usage: word_list LIST FILTER < TEXT".into()) };
    let filter = open_or_create(Path::new(list), Path::new(file))?;
    print_unknown(&filter, io::stdin().lock(), &mut io::stdout().lock())
}

/// Reads the filter in `file`. If there is no such file, creates it from the words of `list`.
pub(crate) fn open_or_create(list: &Path, file: &Path) -> Result<Filter, Box<dyn Error>> {
    if let Ok(input) = File::open(file) {
        return Ok(Filter::load(&mut BufReader::new(input), FingerprintKey::PUBLIC, LIMIT_BYTES)?);
    }
    let text = fs::read_to_string(list)?;
    let words: Vec<_> = text.lines().collect();
    let mut filter = Filter::with_rate(words.len() as u64, 0.001)?;
    filter.insert_batch(&words);
    let mut output = BufWriter::new(File::create(file)?);
    filter.save(&mut output)?;
    output.flush()?;
    Ok(filter)
}

/// Writes the words of `text` that are not in `filter`, one per line.
pub(crate) fn print_unknown(
    filter: &Filter,
    text: impl BufRead,
    output: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    for line in text.lines() {
        let line = line?;
        let words: Vec<_> = line.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).collect();
        for (word, found) in words.iter().zip(filter.contains_batch(&words)) {
            if !found {
                writeln!(output, "{word}")?;
            }
        }
    }
    Ok(())
}
