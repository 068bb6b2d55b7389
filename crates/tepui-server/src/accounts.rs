//! The accounts that are served, and the roles that are assigned: from the configuration, and from the admin API.
//!
//! | | |
//! | --- | --- |
//! | `accounts.rs` | [`AccountDirectory`]: what counts now, for every request |
//! | `snapshot.rs` | [`AccountsSnapshot`]: all of it at one moment |
//! | `merge.rs` | what counts, of what is configured and what is stored |
//! | `editor.rs` | changes of what is stored (accounts, keys, roles), and what runs in the background: noticing those of other nodes, deleting accounts |

mod editor;
mod merge;
mod snapshot;

pub(crate) use editor::{AccountChange, AccountEditor, Deletion, EditError, open};
pub(crate) use merge::Configured;
pub use snapshot::{AccountNumber, AccountsSnapshot, EffectiveKey, ListedAssignment, ServedAccount, Source};

use crate::config::Config;
use parking_lot::RwLock;
use std::sync::Arc;
use tepui_service::identity::Identity;

/// What counts now. Every request takes the snapshot of its moment, so that a change is effective with the next one.
pub struct AccountDirectory {
    configured: Configured,
    current: RwLock<Arc<AccountsSnapshot>>,
}

impl AccountDirectory {
    /// `identity`: what is stored.
    pub(crate) fn new(config: &Config, identity: &Identity) -> Self {
        let configured = Configured::of(config);
        configured.log_superseded(identity);
        let current = RwLock::new(Arc::new(configured.merge(identity)));
        Self { configured, current }
    }

    /// What counts at this moment.
    pub fn current(&self) -> Arc<AccountsSnapshot> {
        Arc::clone(&self.current.read())
    }

    /// Whether the configuration has an account of this name.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        self.configured.account(name).is_some()
    }

    pub(crate) fn configured(&self) -> &Configured {
        &self.configured
    }

    /// Lets count what was read of the store, unless something later counts already.
    pub(crate) fn replace(&self, identity: &Identity) {
        let merged = Arc::new(self.configured.merge(identity));
        let mut current = self.current.write();
        if current.version() <= merged.version() {
            *current = merged;
        }
    }
}
