//! Tokens and issuers from outside: tokens are made with the keys of `make.rs`, and `provider.rs` is an issuer that can be slow, down or
//! wrong.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod bad_tokens;
mod files;
mod make;
mod mutations;
mod own_issuers;
mod provider;
mod providers;
mod tenants;
