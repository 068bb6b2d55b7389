//! Whom a token is for.

use serde_json::Value;
use tepui_model::Service;

/// Stands for all audiences of Azure Storage, with or without the slash.
const STORAGE: &str = "https://storage.azure.com";
/// The same as an id of an application.
const STORAGE_ID: &str = "e406a681-f3d4-42a8-90b6-c2b029497af1";
/// The domains of accounts on Azure and on its national clouds.
const DOMAINS: [&str; 3] = ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net"];

/// The audiences that an issuer may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audiences {
    /// Those of Azure are meant, too.
    azure: bool,
    others: Vec<String>,
}

impl Audiences {
    pub(crate) fn azure() -> Self {
        Self { azure: true, others: Vec::new() }
    }

    pub(crate) fn of(names: &[String]) -> Self {
        let (azure, others) = names.iter().cloned().partition::<Vec<_>, _>(|name| is_storage(name));
        Self { azure: !azure.is_empty(), others }
    }

    /// What a claim `aud` allows: text, or a list of texts.
    pub(crate) fn allowed_by(&self, claim: Option<&Value>) -> AllowedBy {
        let one = claim.and_then(Value::as_str);
        let list = claim.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let mut allowed = AllowedBy { everything: false, accounts: Vec::new() };
        for name in one.into_iter().chain(list) {
            allowed.everything |= self.others.iter().any(|other| other == name);
            if self.azure {
                allowed.everything |= is_storage(name) || name.eq_ignore_ascii_case(STORAGE_ID);
                allowed.accounts.extend(account_url(name));
            }
        }
        allowed
    }
}

fn is_storage(name: &str) -> bool {
    name.strip_suffix('/').unwrap_or(name) == STORAGE
}

/// Reads `https://ACCOUNT.SERVICE.core.windows.net`, with or without a slash.
fn account_url(name: &str) -> Option<(String, Service)> {
    let host = name.strip_suffix('/').unwrap_or(name).strip_prefix("https://")?;
    let (account, rest) = host.split_once('.')?;
    let (service, domain) = rest.split_once('.')?;
    let service = service.parse().ok()?;
    (!account.is_empty() && DOMAINS.contains(&domain)).then(|| (account.to_owned(), service))
}

/// What a token may be used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedBy {
    /// All accounts and services.
    everything: bool,
    accounts: Vec<(String, Service)>,
}

impl AllowedBy {
    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.accounts.iter().map(|(name, _)| size_of::<(String, Service)>() + name.capacity()).sum()
    }

    pub(crate) fn is_for(&self, service: Service, account: &str) -> bool {
        self.everything || self.accounts.iter().any(|(name, of)| *of == service && name == account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn audiences() {
        let azure = Audiences::of(&["https://storage.azure.com/".to_owned(), "tepui".to_owned()]);
        let own = Audiences::of(&["tepui".to_owned()]);
        for (claim, at_blob, at_table, of_own) in [
            (json!("https://storage.azure.com"), true, true, false),
            (json!("https://storage.azure.com/"), true, true, false),
            (json!("https://storage.azure.com//"), false, false, false),
            (json!("https://storage.azure.com.evil.example"), false, false, false),
            (json!("http://storage.azure.com"), false, false, false),
            (json!("e406a681-f3d4-42a8-90b6-c2b029497af1"), true, true, false),
            (json!("E406A681-F3D4-42A8-90B6-C2B029497AF1"), true, true, false),
            (json!("https://acct.blob.core.windows.net"), true, false, false),
            (json!("https://acct.blob.core.windows.net/"), true, false, false),
            (json!("https://acct.blob.core.usgovcloudapi.net/"), true, false, false),
            (json!("https://acct.table.core.windows.net/"), false, true, false),
            (json!("https://acct.file.core.windows.net/"), false, false, false),
            (json!("https://other.blob.core.windows.net/"), false, false, false),
            (json!("https://acct.blob.core.windows.net.evil.example/"), false, false, false),
            (json!("https://x.acct.blob.core.windows.net/"), false, false, false),
            (json!("https://.blob.core.windows.net/"), false, false, false),
            (json!("https://acct.blob.core.windows.net/container"), false, false, false),
            (json!("tepui"), true, true, true),
            (json!("Tepui"), false, false, false),
            (json!(["account", "tepui"]), true, true, true),
            (json!(["account", "https://acct.table.core.windows.net"]), false, true, false),
            (json!([]), false, false, false),
            (json!([["tepui"]]), false, false, false),
            (json!({"tepui": 1}), false, false, false),
            (json!(null), false, false, false),
        ] {
            let allowed = azure.allowed_by(Some(&claim));
            let at = |service| allowed.is_for(service, "acct");
            assert_eq!((at(Service::Blob), at(Service::Table)), (at_blob, at_table), "{claim}");
            assert_eq!(own.allowed_by(Some(&claim)).is_for(Service::Blob, "acct"), of_own, "{claim}");
        }
        assert!(!azure.allowed_by(None).is_for(Service::Blob, "acct"));
    }
}
