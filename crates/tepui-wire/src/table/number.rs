//! Doubles as the service writes them.
