//! Decompresses files compressed with gzip, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use super::BUFFER_BYTES;

/// First bytes of a gzip file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Maximum decompressed size of a file. It bounds the processing time. Memory is bounded by the maximum length of a
/// message.
const DECOMPRESSED_BYTES_MAX: u64 = 16 << 30;

/// Returns a reader for the content of `file`, which it decompresses if necessary.
pub(super) fn open(file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    open_bounded(file, DECOMPRESSED_BYTES_MAX)
}

fn open_bounded(file: impl Read + 'static, bytes_max: u64) -> io::Result<Box<dyn BufRead>> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    if !reader.fill_buf()?.starts_with(&MAGIC) {
        return Ok(Box::new(reader));
    }
    let decompressed = Decompressed { decoder: MultiGzDecoder::new(reader), bytes_max, bytes: 0 };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decompressed)))
}

/// Decompressed data, up to a maximum size.
struct Decompressed<R> {
    decoder: MultiGzDecoder<R>,
    bytes_max: u64,
    bytes: u64,
}

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(buffer);
        let read = read.map_err(|error| io::Error::new(error.kind(), format!("damaged gzip data: {error}")))?;
        self.bytes += read as u64;
        if self.bytes > self.bytes_max {
            return Err(io::Error::other(format!("decompresses to more than {} bytes", self.bytes_max)));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: Vec<u8>, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        open_bounded(io::Cursor::new(file), bytes_max)?.read_to_end(&mut content)?;
        Ok(content)
    }

    #[test]
    fn files_are_recognized_by_their_first_bytes() {
        for content in [&b"Subject: x\n\ntext\n"[..], b"", b"\x1f", b"\x1f\n"] {
            assert_eq!(read(content.to_vec(), 1).unwrap(), content);
            assert_eq!(read(compressed(content), 100).unwrap(), content);
        }
        let members = [compressed(b"one "), compressed(b"two")].concat();
        assert_eq!(read(members, 100).unwrap(), b"one two");
    }

    #[test]
    fn truncated_and_damaged_files_are_errors() {
        let file = compressed(&[b'x'; 100_000]);
        for length in [2, 10, file.len() / 2, file.len() - 1] {
            let error = read(file[..length].to_vec(), 1 << 20).unwrap_err();
            assert!(error.to_string().starts_with("damaged gzip data: "), "{length}: {error}");
        }
        let mut damaged = file.clone();
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(read(damaged, 1 << 20).is_err());
    }

    #[test]
    fn a_hostile_file_is_not_decompressed_beyond_the_maximum() {
        let bomb = compressed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 64 << 10);
        assert_eq!(read(bomb.clone(), 10 << 20).unwrap().len(), 10 << 20);
        let error = read(bomb, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
    }
}
