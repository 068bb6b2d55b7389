//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |
//! | Eventually consistent transactions | [`outbox`] |

pub mod copies;
pub mod outbox;
