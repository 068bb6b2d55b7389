//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |
//! | Intra-partition secondary index pattern | [`index_within_partition`] |
//! | Compound key pattern | [`compound_keys`] |
//! | Working with heterogeneous entity types | [`mixed_types`] |
//! | One-to-many, one-to-one relationships, join in the client | [`relationships`] |

pub mod compound_keys;
pub mod copies;
pub mod index_within_partition;
pub mod mixed_types;
pub mod relationships;
