//! Fuzzing of everything that reads foreign bytes.
//!
//! A target is a function of bytes that panics if something is wrong: see [`targets`]. The same functions
//! run with the driver of this crate ([`run`]), and with libFuzzer (`guided`).

mod checks;
mod material;
pub mod mutate;
pub mod random;
pub mod run;
pub mod targets;
