//! The words of the Azure Storage protocols as types.
//!
//! Names, values, conditions, filters, operations and replies: what a request asks for and what an
//! answer says, without a byte of HTTP and without any I/O. A value of one of these types is valid;
//! code that has one need not check again.

pub mod access_policy;
pub mod account;
pub mod blob;
pub mod condition;
pub mod cost;
pub mod delegation;
pub mod error;
pub mod etag;
pub mod grant;
pub mod guid;
mod label;
pub mod metadata;
pub mod operation;
pub mod permissions;
pub mod queue;
pub mod refusal;
pub mod role;
pub mod service;
pub mod service_properties;
pub mod table;
pub mod text;
pub mod time;
pub mod token;

pub use error::{ErrorCode, ServiceError, Stage};
pub use refusal::{AuthFailure, Throttle};
pub use service::Service;
pub use time::{Clock, Timestamp};
pub use token::TokenFailure;
