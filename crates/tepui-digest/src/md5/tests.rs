use super::*;
use proptest::prelude::*;

/// Another implementation.
fn known(bytes: &[u8]) -> [u8; 16] {
    use md5::Digest as _;
    md5::Md5::digest(bytes).into()
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(0..400usize, 0..6)
    ) {
        let mut sum = Md5::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            sum.update(head);
            rest = tail;
        }
        sum.update(rest);
        prop_assert_eq!(sum.finish(), known(&bytes));
    }

    /// Streams of any lengths in any pieces, some of them begun before, more of them than there are lanes.
    #[test]
    fn lanes_do_not_mix(
        streams in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..100), prop::collection::vec((0..700usize, any::<u8>()), 0..8)),
            0..10,
        ),
        max_bytes in 1..2000usize,
    ) {
        let mut waiting = VecDeque::new();
        let mut expected = Vec::new();
        for (index, (before, pieces)) in streams.into_iter().enumerate() {
            let mut sum = Md5::new();
            sum.update(&before);
            let pieces: VecDeque<Bytes> = pieces.into_iter().map(|(length, byte)| vec![byte; length].into()).collect();
            let whole: Vec<u8> = before.into_iter().chain(pieces.iter().flatten().copied()).collect();
            expected.push(known(&whole));
            waiting.push_back(Md5Lane { sum, pieces, owner: index });
        }
        let mut found = vec![[0; 16]; expected.len()];
        let mut lanes = Md5Lanes::new();
        loop {
            while !lanes.is_full() && let Some(lane) = waiting.pop_front() {
                lanes.add(lane);
            }
            if lanes.is_empty() {
                break;
            }
            if let Some(done) = lanes.run(max_bytes) {
                prop_assert!(done.pieces.is_empty());
                found[done.owner] = done.sum.finish();
            }
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!(found, expected);
    }
}
