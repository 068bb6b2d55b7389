//! The secret of those who may use the admin API.

use super::ConfigError;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;

/// A secret. It is compared in constant time and never shown by accident.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    const MIN_BYTES: usize = 16;
    const MAX_BYTES: usize = 256;

    /// One that nobody can guess.
    pub(crate) fn random() -> Self {
        Self(format!("{:032x}", crate::ids::random()))
    }

    /// Fails if it could be guessed, or could not be sent. The message does not show it.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let sendable = self.0.bytes().all(|byte| byte.is_ascii_graphic());
        match sendable && (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&self.0.len()) {
            true => Ok(()),
            false => Err(ConfigError(format!(
                "an admin token has {} to {} letters, digits and signs of ASCII, and no spaces (`openssl rand -hex 16` makes one)",
                Self::MIN_BYTES,
                Self::MAX_BYTES
            ))),
        }
    }

    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }

    /// The secret itself, for those who are to know it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for AdminToken {
    /// What is wrong is found by [`Config::check`](super::Config::check): an error here would be shown with the value.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn a_token_that_is_no_good_is_refused_and_not_shown() {
        for (case, text, is_good) in [
            ("too short", "hunter2", false),
            ("with a space", "hunter2 hunter2 hunter2", false),
            ("not ASCII", "hünter2hünter2hünter2", false),
            ("too long", &"hunter2".repeat(40), false),
            ("empty", "", false),
            ("good", "hunter2hunter2hunter2!", true),
        ] {
            let config = Config { admin_token: text.parse().ok(), ..Config::default() };
            let checked = config.check();
            assert_eq!(checked.is_ok(), is_good, "{case}");
            let said = format!("{checked:?} {config:?}");
            assert!(!said.contains("hunter2"), "{case}: {said}");
        }
    }

    #[test]
    fn only_the_same_token_is_it() {
        let token = AdminToken::random();
        assert_eq!(token.check(), Ok(()));
        assert!(token.is(token.reveal().as_bytes()));
        for other in ["", "x", AdminToken::random().reveal(), &token.reveal()[1..]] {
            assert!(!token.is(other.as_bytes()));
        }
    }
}
