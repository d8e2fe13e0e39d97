//! The bytes of a dump or a log as UTF-8 or whatever else of one byte its SET NAMES says: decompressed, without a byte order mark.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;
/// Memory for decompression that an xz file may need, twice that of `xz -9`.
const MOST_XZ_KIB: u32 = 128 << 10;

/// Decompresses gzip, bzip2, xz and Zstandard and decodes UTF-16, all by how the file begins.
///
/// # Errors
/// When the file cannot be read, or is compressed in another way.
pub fn decoded(file: impl Read + Send + 'static) -> Result<Box<dyn BufRead + Send>> {
    let mut input: Box<dyn BufRead + Send> = Box::new(BufReader::with_capacity(BLOCK, file));
    let beginning = input.fill_buf()?;
    if beginning.starts_with(b"PK\x03\x04") {
        return Err(Error::other("it is compressed; decompress it first, by unzip"));
    } else if beginning.starts_with(b"\x1f\x8b") {
        input = Box::new(BufReader::with_capacity(BLOCK, MultiGzDecoder::new(input)));
    } else if beginning.starts_with(b"\x28\xb5\x2f\xfd") {
        input = Box::new(BufReader::with_capacity(BLOCK, Zstandard::new(input)?));
    } else if beginning.starts_with(b"BZh") {
        input = Box::new(BufReader::with_capacity(BLOCK, MultiBzDecoder::new(input)));
    } else if beginning.starts_with(b"\xfd7zXZ\0") {
        input = Box::new(BufReader::with_capacity(
            BLOCK,
            Xz(XzReader::new_mem_limit(input, true, MOST_XZ_KIB)),
        ));
    }
    let beginning = input.fill_buf()?;
    let mark = [b"\xef\xbb\xbf".as_slice(), b"\xff\xfe", b"\xfe\xff"]
        .into_iter()
        .find(|mark| beginning.starts_with(mark));
    let Some(mark) = mark else { return Ok(input) };
    input.consume(mark.len());
    Ok(match mark {
        b"\xff\xfe" => Box::new(BufReader::new(Utf16::new(input, u16::from_le_bytes))),
        b"\xfe\xff" => Box::new(BufReader::new(Utf16::new(input, u16::from_be_bytes))),
        _ => input,
    })
}

/// xz, one stream after the other.
struct Xz<R: Read>(XzReader<R>);

impl<R: Read> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => Error::other(format!(
                "it needs more memory to be decompressed than {} MiB; decompress it first, by unxz",
                MOST_XZ_KIB >> 10
            )),
            _ => error,
        })
    }
}

/// Zstandard, one frame after the other.
struct Zstandard<R> {
    input: R,
    context: DCtx<'static>,
    /// Whether a frame has begun that has not ended.
    is_within: bool,
}

impl<R: BufRead> Zstandard<R> {
    fn new(input: R) -> Result<Self> {
        let context = DCtx::try_create().ok_or_else(|| Error::from(ErrorKind::OutOfMemory))?;
        Ok(Self {
            input,
            context,
            is_within: false,
        })
    }
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let bytes = self.input.fill_buf()?;
            let is_end = bytes.is_empty();
            if buffer.is_empty() || (is_end && !self.is_within) {
                return Ok(0);
            }
            let mut compressed = InBuffer::around(bytes);
            let mut plain = OutBuffer::around(&mut *buffer);
            let missing = self
                .context
                .decompress_stream(&mut plain, &mut compressed)
                .map_err(|code| Error::other(zstd_safe::get_error_name(code)))?;
            let (taken, made) = (compressed.pos(), plain.pos());
            self.input.consume(taken);
            self.is_within = missing > 0;
            if made > 0 {
                return Ok(made);
            }
            if is_end && self.is_within {
                return Err(Error::new(ErrorKind::UnexpectedEof, "its compressed data end too soon"));
            }
        }
    }
}

/// UTF-16, as PowerShell writes what is redirected, to UTF-8.
struct Utf16<R> {
    input: R,
    unit: fn([u8; 2]) -> u16,
    /// Decoded bytes, and how many of them are read.
    made: Vec<u8>,
    at: usize,
    /// The first half of a character of two units.
    high: Option<u16>,
}

impl<R: BufRead> Utf16<R> {
    fn new(input: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self {
            input,
            unit,
            made: Vec::new(),
            at: 0,
            high: None,
        }
    }

    fn decode(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        // An even number, but for a file that is cut.
        self.input.by_ref().take(1 << 16).read_to_end(&mut bytes)?;
        if bytes.len() % 2 == 1 || bytes.is_empty() && self.high.is_some() {
            return Err(Error::other("it is UTF-16, and ends within a character"));
        }
        let units = bytes.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]]));
        let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
        self.high = units.last().copied().filter(|last| (0xd800..0xdc00).contains(last));
        units.truncate(units.len() - usize::from(self.high.is_some()));
        let text: std::result::Result<String, _> = char::decode_utf16(units).collect();
        self.made = text
            .map_err(|error| Error::other(format!("it is no valid UTF-16: {error}")))?
            .into_bytes();
        self.at = 0;
        Ok(())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.at == self.made.len() {
            if self.input.fill_buf()?.is_empty() && self.high.is_none() {
                return Ok(0);
            }
            self.decode()?;
        }
        let count = buffer.len().min(self.made.len() - self.at);
        buffer[..count].copy_from_slice(&self.made[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use lzma_rust2::{XzOptions, XzWriter};

    use super::*;

    fn read(bytes: &[u8]) -> Result<String> {
        let mut text = String::new();
        decoded(std::io::Cursor::new(bytes.to_vec()))?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn xz(bytes: &[u8], preset: u32) -> Vec<u8> {
        let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(preset)).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn a_dump_is_the_same_however_it_is_stored() {
        let text = "INSERT INTO t VALUES ('é😀');\n".repeat(9000);
        let units = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        let gzip = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let zstandard = |bytes: &[u8]| {
            let mut made = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
            zstd_safe::compress(&mut made, bytes, 1).unwrap();
            made
        };
        let bzip2 = |bytes: &[u8]| {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let half = text.len() / 2;
        for bytes in [
            text.clone().into_bytes(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            [b"\xff\xfe".as_slice(), &units(u16::to_le_bytes)].concat(),
            [b"\xfe\xff".as_slice(), &units(u16::to_be_bytes)].concat(),
            gzip(text.as_bytes()),
            [gzip(&text.as_bytes()[..half]), gzip(&text.as_bytes()[half..])].concat(),
            zstandard(text.as_bytes()),
            [zstandard(&text.as_bytes()[..half]), zstandard(&text.as_bytes()[half..])].concat(),
            bzip2(text.as_bytes()),
            [bzip2(&text.as_bytes()[..half]), bzip2(&text.as_bytes()[half..])].concat(),
            xz(text.as_bytes(), 1),
            [xz(&text.as_bytes()[..half], 9), xz(&text.as_bytes()[half..], 1)].concat(),
        ] {
            assert!(read(&bytes).unwrap() == text, "{:?}", &bytes[..4]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert!(read(b"\xff\xfea")
            .unwrap_err()
            .to_string()
            .contains("ends within a character"));
        assert!(read(b"\xff\xfe\x00\xd8")
            .unwrap_err()
            .to_string()
            .contains("ends within a character"));
        let mut packed = Vec::with_capacity(1000);
        zstd_safe::compress(&mut packed, b"SELECT 1;", 1).unwrap();
        packed.pop();
        assert!(read(&packed).unwrap_err().to_string().contains("end too soon"));
        assert!(read(b"\x28\xb5\x2f\xfd\xff\xff\xff").is_err());
        assert!(read(b"PK\x03\x04..").unwrap_err().to_string().contains("unzip"));
    }

    #[test]
    fn a_dump_that_is_cut_or_damaged_is_not_a_shorter_one() {
        let bzip2 = {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(&b"SELECT 1;".repeat(100)).unwrap();
            encoder.finish().unwrap()
        };
        for whole in [bzip2, xz(&b"SELECT 1;".repeat(100), 1)] {
            assert!(read(&whole).is_ok());
            for length in [whole.len() - 1, whole.len() / 2, 14] {
                assert!(read(&whole[..length]).is_err(), "{length} of {:?}", &whole[..4]);
            }
            let mut damaged = whole.clone();
            damaged[whole.len() / 2] ^= 0x55;
            assert!(read(&damaged).is_err(), "{:?}", &whole[..4]);
        }
    }

    #[test]
    fn an_xz_file_that_needs_too_much_memory_is_refused() {
        let mut options = XzOptions::with_preset(0);
        options.lzma_options.dict_size = 256 << 20;
        let mut writer = XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(b"SELECT 1;").unwrap();
        let words = read(&writer.finish().unwrap()).unwrap_err().to_string();
        assert!(words.contains("more memory to be decompressed than 128 MiB"), "{words}");
    }
}
