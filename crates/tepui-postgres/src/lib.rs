//! [`PostgresEngine`]: an [`Engine`](tepui_storage::Engine) on PostgreSQL 14 or later, which several servers may share.
//!
//! | | |
//! | --- | --- |
//! | `options.rs` `tls.rs` `connect.rs` | the URL; certificates; one connection, to the host that accepts writes |
//! | `pool.rs` | a bounded number of connections |
//! | `schema.rs` | the two tables, and their version |
//! | `row_key.rs` | keys as columns, also those that are longer than an index takes |
//! | `statements.rs` | all SQL that is run again and again |
//! | `engine.rs` `transaction.rs` `commit.rs` | the engine, reads, commits |
//! | `outcome.rs` | errors of PostgreSQL, as errors of storage and outcomes of commits |
//!
//! The SQL is such that YugabyteDB and CockroachDB understand it: no extensions, no functions of the server, no advisory locks,
//! no transaction ids. See `docs/decisions/0017-postgresql.md`.

mod commit;
mod connect;
mod engine;
mod options;
mod outcome;
mod pool;
mod row_key;
mod schema;
mod statements;
mod tls;
mod transaction;

pub use engine::PostgresEngine;
pub use options::PostgresOptions;
pub use schema::SchemaChange;
pub use transaction::PostgresTransaction;
