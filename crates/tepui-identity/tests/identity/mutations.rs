//! A token that was changed anywhere is never taken.

use crate::make::{ACCOUNT, NOW, Signer, Trusting, at, claims};
use proptest::prelude::*;
use serde_json::json;
use std::sync::LazyLock;
use tepui_model::Service;

/// A directory that knows its keys, and tokens of all kinds that it takes.
static GIVEN: LazyLock<(Trusting, Vec<String>)> = LazyLock::new(|| {
    let signers = [Signer::p256(), Signer::p384(), Signer::ed25519(), Signer::Rsa("RS256")];
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk(signer.algorithm())).collect();
    let trusting = Trusting::keys(&keys);
    let tokens: Vec<_> =
        signers.iter().map(|signer| signer.token(signer.algorithm(), &claims(json!({})))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for token in &tokens {
        runtime.block_on(trusting.verify(token)).unwrap();
    }
    (trusting, tokens)
});

fn is_taken(token: &str) -> bool {
    GIVEN.0.directory.verify_with_known_keys(token, Service::Blob, ACCOUNT, at(NOW)).is_ok()
}

#[test]
fn no_bit_can_be_flipped() {
    for token in &GIVEN.1 {
        assert!(is_taken(token));
        for position in 0..token.len() {
            // The lowest one means least in the last letter of a part.
            for bit in [0, position % 7 + 1] {
                let mut bytes = token.clone().into_bytes();
                bytes[position] ^= 1 << bit;
                if let Ok(changed) = String::from_utf8(bytes) {
                    assert!(!is_taken(&changed), "bit {bit} of letter {position} of {token}");
                }
            }
        }
    }
}

/// What somebody might do to a token.
#[derive(Debug, Clone)]
enum Change {
    Replace(prop::sample::Index, char),
    Insert(prop::sample::Index, char),
    Remove(prop::sample::Index),
    Cut(prop::sample::Index),
    /// A part of another token.
    Part(usize, usize),
    Swap(usize, usize),
}

fn changes() -> impl Strategy<Value = Change> {
    let letter = || prop_oneof![prop::char::range('-', 'z'), any::<char>()];
    prop_oneof![
        (any::<prop::sample::Index>(), letter()).prop_map(|(at, letter)| Change::Replace(at, letter)),
        (any::<prop::sample::Index>(), letter()).prop_map(|(at, letter)| Change::Insert(at, letter)),
        any::<prop::sample::Index>().prop_map(Change::Remove),
        any::<prop::sample::Index>().prop_map(Change::Cut),
        (0..4usize, 0..3usize).prop_map(|(token, part)| Change::Part(token, part)),
        (0..3usize, 0..3usize).prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

fn changed(token: &str, change: &Change, others: &[String]) -> String {
    let mut letters: Vec<char> = token.chars().collect();
    let parts = || token.split('.').map(str::to_owned).collect::<Vec<_>>();
    match change {
        _ if letters.is_empty() => {}
        Change::Replace(at, letter) => letters[at.index(token.chars().count())] = *letter,
        Change::Insert(at, letter) => letters.insert(at.index(letters.len()), *letter),
        Change::Remove(at) => drop(letters.remove(at.index(token.chars().count()))),
        Change::Cut(at) => letters.truncate(at.index(token.chars().count())),
        Change::Part(other, part) => {
            let mut parts = parts();
            if let (Some(place), Some(new)) = (parts.get_mut(*part), others[*other].split('.').nth(*part)) {
                *place = new.to_owned();
            }
            return parts.join(".");
        }
        Change::Swap(one, other) => {
            let mut parts = parts();
            if parts.len() > *one.max(other) {
                parts.swap(*one, *other);
            }
            return parts.join(".");
        }
    }
    letters.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_token_is_never_taken(which in 0..4usize, list in prop::collection::vec(changes(), 1..6)) {
        let tokens = &GIVEN.1;
        let token = list.iter().fold(tokens[which].clone(), |token, change| changed(&token, change, tokens));
        prop_assert_eq!(is_taken(&token), tokens.contains(&token), "{}", token);
    }

    #[test]
    fn any_text_is_read_or_not(text in "\\PC{0,200}|[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{0,80}\\.[A-Za-z0-9_-]{0,80}") {
        prop_assert!(!is_taken(&text));
    }
}
