//! The engine on a PostgreSQL server of the tests' own.

mod contract;
mod crowd;
mod failures;
mod long_keys;
mod proxy;
mod round_trips;
mod schema;
mod shared;
#[path = "../../../tepui-storage/tests/steps/engine.rs"]
mod steps;
