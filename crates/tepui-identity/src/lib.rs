//! Issuers of bearer tokens: whom a server trusts, with which keys, and what a token of theirs says about its owner.
//!
//! [`Directory::verify`] is what a request needs. Everything else happens beside it: [`Directory::keep_keys_fresh`] asks the
//! issuers for their keys. Roles are no matter of this crate: it tells who somebody is, not what they may do.
//!
//! | | |
//! | --- | --- |
//! | `directory.rs` | all issuers, and the order in which a token is checked |
//! | `settings.rs` | an issuer as it is configured |
//! | `issuer.rs` | one issuer: its known keys, and when they are asked for again |
//! | `source.rs`, `discovery.rs`, `fetch.rs` | where keys come from: a URL that discovery finds, a URL, a file |
//! | `keys.rs`, `jwk.rs` | keys, and how they are written |
//! | `jws.rs`, `unique_json.rs` | the parts of a token; JSON in which no name is given twice |
//! | `claims.rs`, `audience.rs`, `guids.rs` | what a token says: times, whom it is for, who its owner is |
//! | `token_cache.rs`, `counters.rs` | tokens that were verified before; what was counted |
//! | `development.rs` | an issuer that is part of the server, for development |
//! | `basic.rs` | tokens that are believed without a signature, for the machine of a developer |

mod audience;
mod basic;
mod claims;
mod counters;
mod development;
mod directory;
mod discovery;
mod fetch;
mod guids;
mod issuer;
mod jwk;
mod jws;
mod keys;
mod settings;
mod source;
mod token_cache;
mod unique_json;

pub use counters::{Counters, FetchCounts};
pub use development::{DevelopmentIssuer, MintError, Minted, TokenRequest};
pub use directory::Directory;
pub use issuer::Timing;
pub use keys::KeySet;
pub use settings::{InvalidIssuer, IssuerSettings};

/// The longest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;
