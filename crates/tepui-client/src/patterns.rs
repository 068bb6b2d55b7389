//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |
//! | Encrypting table data | `encryption` (with the feature of that name) |
//! | Controlling access with shared access signatures | [`sas_per_user`] |

pub mod copies;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod sas_per_user;
