//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |

pub mod copies;
