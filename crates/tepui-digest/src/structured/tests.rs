use super::*;
use crate::Checksum as _;
use proptest::prelude::*;

fn encoded(plain: &[u8], piece_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(plain.len() as u64);
    plain.chunks(piece_bytes).for_each(|piece| encoder.push(piece, &mut out));
    encoder.finish(&mut out);
    out
}

fn decoded(framed: &[u8], piece_bytes: usize) -> Result<Vec<u8>, ErrorCode> {
    let mut plain = Vec::new();
    let mut decoder = Decoder::new();
    for piece in framed.chunks(piece_bytes) {
        decoder.push(piece, |bytes| plain.extend_from_slice(bytes)).map_err(|error| error.code)?;
    }
    decoder.finish().map_err(|error| error.code)?;
    Ok(plain)
}

#[test]
fn the_bytes_of_a_message() {
    let sum = Crc64Sum::of(b"Hello").0.to_le_bytes();
    let mut expected = vec![1, 44, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0];
    expected.extend_from_slice(&[1, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(b"Hello");
    expected.extend_from_slice(&sum);
    expected.extend_from_slice(&sum);
    assert_eq!(encoded(b"Hello", 2), expected);
    assert_eq!(decoded(&expected, 3), Ok(b"Hello".to_vec()));
}

#[test]
fn messages_of_several_segments() {
    let plain = vec![7; 2 * SEGMENT_BYTES as usize + 5];
    let framed = encoded(&plain, 1_000_000);
    assert_eq!((framed.len() as u64, segments(plain.len() as u64)), (encoded_bytes(plain.len() as u64), 3));
    assert_eq!(decoded(&framed, 777_777).map(|again| again == plain), Ok(true));
    assert_eq!(segments(u64::MAX), u16::MAX);
}

#[test]
fn messages_are_refused() {
    let good = encoded(b"Hello", 5);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (case, bytes, expected) in [
        ("another version", with(0, 2), ErrorCode::InvalidInput),
        ("another length", with(1, 45), ErrorCode::InvalidInput),
        ("an unknown flag", with(9, 3), ErrorCode::InvalidInput),
        ("another number", with(13, 2), ErrorCode::InvalidInput),
        ("another byte", with(23, b'h'), ErrorCode::Crc64Mismatch),
        ("another sum", with(28, 0), ErrorCode::Crc64Mismatch),
        ("another sum of all", with(36, 0), ErrorCode::Crc64Mismatch),
        ("too short", good[..good.len() - 1].to_vec(), ErrorCode::InvalidInput),
        ("too long", [&good[..], b"x"].concat(), ErrorCode::InvalidInput),
        ("nothing", Vec::new(), ErrorCode::InvalidInput),
    ] {
        assert_eq!(decoded(&bytes, 7), Err(expected), "{case}");
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(
        plain in proptest::collection::vec(any::<u8>(), 0..200), out_piece in 1usize..50, in_piece in 1usize..50
    ) {
        let framed = encoded(&plain, out_piece);
        prop_assert_eq!(framed.len() as u64, encoded_bytes(plain.len() as u64));
        prop_assert_eq!(decoded(&framed, in_piece), Ok(plain));
    }

    #[test]
    fn foreign_bytes_do_no_harm(bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..80)) {
        let _ = decoded(&bytes, 9);
        let _ = decoded(&[&[1, 80, 0, 0, 0, 0, 0, 0, 0], &bytes[..]].concat(), 9);
    }
}
