//! The letters of a shared access signature as sets: what may be done, in which services, to what.

use std::fmt;
use std::ops::BitOr;

/// Declares a set of letters `a` to `z`, one bit for each. Other characters stand for nothing.
macro_rules! letter_set {
    ($(#[$doc:meta])* $set:ident: $($(#[$doc_of:meta])* $name:ident = $letter:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default)]
        pub struct $set(u32);

        impl $set {
            pub const NONE: Self = Self(0);
            $($(#[$doc_of])* pub const $name: Self = Self(1 << ($letter - b'a'));)*

            pub fn parse(letters: &str) -> Self {
                let bit = |letter: u8| if letter.is_ascii_lowercase() { 1 << (letter - b'a') } else { 0 };
                Self(letters.bytes().fold(0, |bits, letter| bits | bit(letter)))
            }

            /// The letters that are also in `order`, in that order.
            pub fn in_order(self, order: &str) -> String {
                let given = self.to_string();
                order.chars().filter(|letter| given.contains(*letter)).collect()
            }

            pub fn is_empty(self) -> bool {
                self.0 == 0
            }

            pub fn contains_all(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }

            pub fn contains_any(self, others: Self) -> bool {
                self.0 & others.0 != 0
            }
        }

        impl BitOr for $set {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        /// The letters, in the order of the alphabet.
        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let letters = (b'a'..=b'z').filter(|letter| self.0 & (1 << (letter - b'a')) != 0);
                letters.map(char::from).collect::<String>().fmt(f)
            }
        }

        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($set))
            }
        }
    };
}

letter_set! {
    /// What a SAS allows to do: `sp`, or the permission of a stored access policy.
    Permissions:
    READ = b'r';
    ADD = b'a';
    CREATE = b'c';
    WRITE = b'w';
    UPDATE = b'u';
    DELETE = b'd';
    /// Of versions of blobs.
    DELETE_VERSION = b'x';
    DELETE_PERMANENTLY = b'y';
    LIST = b'l';
    /// Messages: to get and to delete them.
    PROCESS = b'p';
    TAGS = b't';
    FIND_BY_TAGS = b'f';
    /// Legal holds and immutability policies.
    PROTECT = b'i';
}

letter_set! {
    /// The services of an account SAS: `ss`.
    Services:
    BLOB = b'b';
    QUEUE = b'q';
    TABLE = b't';
}

letter_set! {
    /// What an account SAS is for: `srt`.
    ResourceTypes:
    SERVICE = b's';
    /// Tables, queues and containers.
    CONTAINER = b'c';
    /// Entities, messages and blobs.
    OBJECT = b'o';
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_are_a_set() {
        let both = Permissions::READ | Permissions::ADD;
        for (letters, all, any) in [
            ("", false, false),
            ("r", false, true),
            ("ra", true, true),
            ("aar", true, true),
            ("RA ", false, false),
        ] {
            let given = Permissions::parse(letters);
            assert_eq!((given.contains_all(both), given.contains_any(both)), (all, any), "{letters}");
        }
        assert!(both.contains_all(Permissions::NONE) && !both.contains_any(Permissions::NONE));
        assert!(Permissions::parse("7 R").is_empty());
        assert_eq!(format!("{both} {:?}", Services::parse("tqb")), "ar Services(bqt)");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_the_same_set(letters in ".{0,20}") {
            let set = Permissions::parse(&letters);
            prop_assert_eq!(Permissions::parse(&set.to_string()), set);
            prop_assert!(set.to_string().chars().all(|letter| letters.contains(letter)));
        }
    }
}
