//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |
//! | Inter-partition secondary index pattern | [`index_across_partitions`] |
//! | Eventually consistent transactions pattern | [`outbox`] |
//! | Index entities pattern, in another partition | [`index_entities::elsewhere`] |
//! | Denormalization pattern | [`denormalization`] |
//! | Materialized views | [`materialized_view`] |

pub mod copies;
pub mod denormalization;
pub mod index_across_partitions;
pub mod index_entities {
    //! Index entities: lists of the entities that have a value in common.
    pub mod elsewhere;
}
pub mod materialized_view;
pub mod outbox;
