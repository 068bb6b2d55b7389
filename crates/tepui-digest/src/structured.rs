//! Structured messages: the bytes of an upload or a download in segments, each with a checksum of its own.
//!
//! A header of 13 bytes; for each segment its number, its length, its bytes and their CRC64; at the end the
//! CRC64 of all bytes. Numbers are little-endian.

use crate::Crc64;
use tepui_model::blob::{Checksums, Crc64Sum};
use tepui_model::{ErrorCode, ServiceError};

const VERSION: u8 = 1;
const HAS_CRC64: u16 = 1;
const HEADER_BYTES: usize = 13;
const SEGMENT_HEADER_BYTES: usize = 10;
const SUM_BYTES: usize = 8;
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// How long so many bytes are in this form.
pub fn encoded_bytes(plain_bytes: u64) -> u64 {
    let around = (SEGMENT_HEADER_BYTES + SUM_BYTES) as u64 * u64::from(segments(plain_bytes));
    plain_bytes.saturating_add(around + (HEADER_BYTES + SUM_BYTES) as u64)
}

/// There are never more than the header can count: then they are longer.
fn segment_bytes(plain_bytes: u64) -> u64 {
    SEGMENT_BYTES.max(plain_bytes.div_ceil(u64::from(u16::MAX)))
}

fn segments(plain_bytes: u64) -> u16 {
    let segments = plain_bytes.div_ceil(segment_bytes(plain_bytes)).max(1);
    u16::try_from(segments).unwrap_or(u16::MAX)
}

/// Puts bytes into segments, piece by piece.
#[derive(Debug)]
pub struct Encoder {
    plain_bytes: u64,
    /// The number of the segment that is written, from 1; 0 before the first.
    number: u16,
    written: u64,
    left_in_segment: u64,
    segment: Crc64,
    all: Crc64,
}

impl Encoder {
    /// For exactly so many bytes.
    pub fn new(plain_bytes: u64) -> Self {
        Self {
            plain_bytes,
            number: 0,
            written: 0,
            left_in_segment: 0,
            segment: Crc64::new(),
            all: Crc64::new(),
        }
    }

    /// Appends a piece, and what goes before, between and behind.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        if self.number == 0 {
            self.open(out);
        }
        while !bytes.is_empty() {
            if self.left_in_segment == 0 {
                self.next_segment(out);
            }
            let most = usize::try_from(self.left_in_segment).unwrap_or(usize::MAX).max(1);
            let (now, later) = bytes.split_at(bytes.len().min(most));
            out.extend_from_slice(now);
            self.segment.update(now);
            self.all.update(now);
            self.written += now.len() as u64;
            self.left_in_segment = self.left_in_segment.saturating_sub(now.len() as u64);
            bytes = later;
        }
    }

    /// Appends what goes behind the last piece.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.push(b"", out);
        out.extend_from_slice(&self.segment.finish().to_le_bytes());
        out.extend_from_slice(&self.all.finish().to_le_bytes());
    }

    fn open(&mut self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend_from_slice(&encoded_bytes(self.plain_bytes).to_le_bytes());
        out.extend_from_slice(&HAS_CRC64.to_le_bytes());
        out.extend_from_slice(&segments(self.plain_bytes).to_le_bytes());
        self.begin_segment(out);
    }

    fn next_segment(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.finish().to_le_bytes());
        self.begin_segment(out);
    }

    fn begin_segment(&mut self, out: &mut Vec<u8>) {
        self.number = self.number.saturating_add(1);
        self.left_in_segment =
            self.plain_bytes.saturating_sub(self.written).min(segment_bytes(self.plain_bytes));
        self.segment = Crc64::new();
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.left_in_segment.to_le_bytes());
    }
}

/// Takes bytes out of segments, piece by piece, and compares the checksums.
#[derive(Debug, Default)]
pub struct Decoder {
    state: State,
    /// Of a field that has not come whole yet.
    field: Vec<u8>,
    read: u64,
    said_bytes: u64,
    has_sums: bool,
    segments: u16,
    number: u16,
    left_in_segment: u64,
    segment: Crc64,
    all: Crc64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Header,
    SegmentHeader,
    Data,
    SegmentSum,
    Sum,
    Done,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a piece, and hands over the plain bytes in it.
    pub fn push(&mut self, mut bytes: &[u8], mut sink: impl FnMut(&[u8])) -> Result<(), ServiceError> {
        self.read = self.read.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Data => self.data(bytes, &mut sink)?,
                State::Header => self.field(bytes, HEADER_BYTES, Self::header)?,
                State::SegmentHeader => self.field(bytes, SEGMENT_HEADER_BYTES, Self::segment_header)?,
                State::SegmentSum => self.field(bytes, SUM_BYTES, Self::segment_sum)?,
                State::Sum => self.field(bytes, SUM_BYTES, Self::sum)?,
                State::Done => return Err(malformed("bytes behind the end")),
            };
        }
        Ok(())
    }

    /// All has come.
    pub fn finish(self) -> Result<(), ServiceError> {
        match self.state == State::Done && self.read == self.said_bytes {
            true => Ok(()),
            false => Err(malformed("not as long as it says")),
        }
    }

    /// Collects a field, and reads it once it is whole. Returns what follows.
    fn field<'a>(
        &mut self,
        bytes: &'a [u8],
        length: usize,
        read: impl Fn(&mut Self, &[u8]) -> Result<(), ServiceError>,
    ) -> Result<&'a [u8], ServiceError> {
        let (now, later) = bytes.split_at(bytes.len().min(length - self.field.len()));
        self.field.extend_from_slice(now);
        if self.field.len() == length {
            let field = std::mem::take(&mut self.field);
            read(self, &field)?;
        }
        Ok(later)
    }

    fn header(&mut self, field: &[u8]) -> Result<(), ServiceError> {
        let flags = u16_at(field, 9);
        if field[0] != VERSION || flags & !HAS_CRC64 != 0 {
            return Err(malformed("another version, or something unknown"));
        }
        self.said_bytes = u64_at(field, 1);
        self.has_sums = flags & HAS_CRC64 != 0;
        self.segments = u16_at(field, 11);
        self.after_segment();
        Ok(())
    }

    fn segment_header(&mut self, field: &[u8]) -> Result<(), ServiceError> {
        self.number += 1;
        if u16_at(field, 0) != self.number {
            return Err(malformed("a segment is missing"));
        }
        self.left_in_segment = u64_at(field, 2);
        self.segment = Crc64::new();
        self.state = State::Data;
        if self.left_in_segment == 0 {
            self.after_data();
        }
        Ok(())
    }

    fn data<'a>(&mut self, bytes: &'a [u8], sink: &mut impl FnMut(&[u8])) -> Result<&'a [u8], ServiceError> {
        let most = usize::try_from(self.left_in_segment).unwrap_or(usize::MAX);
        let (now, later) = bytes.split_at(bytes.len().min(most));
        if self.has_sums {
            self.segment.update(now);
            self.all.update(now);
        }
        sink(now);
        self.left_in_segment -= now.len() as u64;
        if self.left_in_segment == 0 {
            self.after_data();
        }
        Ok(later)
    }

    fn after_data(&mut self) {
        match self.has_sums {
            true => self.state = State::SegmentSum,
            false => self.after_segment(),
        }
    }

    fn after_segment(&mut self) {
        self.state = match (self.number < self.segments, self.has_sums) {
            (true, _) => State::SegmentHeader,
            (false, true) => State::Sum,
            (false, false) => State::Done,
        };
    }

    fn segment_sum(&mut self, field: &[u8]) -> Result<(), ServiceError> {
        same(u64_at(field, 0), &self.segment)?;
        self.after_segment();
        Ok(())
    }

    fn sum(&mut self, field: &[u8]) -> Result<(), ServiceError> {
        same(u64_at(field, 0), &self.all)?;
        self.state = State::Done;
        Ok(())
    }
}

fn same(said: u64, computed: &Crc64) -> Result<(), ServiceError> {
    let of = |sum| Checksums { md5: None, crc64: Some(Crc64Sum(sum)) };
    of(said).check(&of(computed.finish()))
}

fn malformed(cause: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidInput).with_cause(format!("structured message: {cause}"))
}

/// Fields have the length that is asked of them.
fn u64_at(field: &[u8], at: usize) -> u64 {
    field[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u16_at(field: &[u8], at: usize) -> u16 {
    field[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
