//! Rows in TiKV: `tikv://PD1:2379,PD2:2379/PREFIX`.

use super::{OpenError, Rows};
use tepui_server::Config;
use tepui_server::config::StorageUrl;

#[cfg(feature = "tikv")]
pub(super) async fn open(url: &StorageUrl, config: &Config) -> Result<Rows, OpenError> {
    use tepui_tikv::{TikvEngine, TikvOptions};
    let (endpoints, prefix) = parts(url.reveal());
    let defaults = TikvOptions::new(endpoints);
    let engine = TikvEngine::open(TikvOptions {
        prefix: prefix.unwrap_or(defaults.prefix),
        timeout: std::time::Duration::from_secs(config.storage_timeout_seconds),
        shared_ranges: tepui_service::shared_guard_ranges(),
        ..defaults
    })
    .await?;
    let stats = std::sync::Arc::clone(engine.stats());
    Ok(Rows { engine: tepui_storage::dynamic::DynEngine::new(engine), stats })
}

#[cfg(not(feature = "tikv"))]
pub(super) async fn open(_: &StorageUrl, _: &Config) -> Result<Rows, OpenError> {
    Err(OpenError::NoSupport { feature: "tikv" })
}

/// The addresses of PD, and the prefix of all keys.
#[cfg(any(feature = "tikv", test))]
fn parts(url: &str) -> (Vec<String>, Option<String>) {
    let rest = url.strip_prefix("tikv://").unwrap_or(url);
    let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoints = hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect();
    (endpoints, Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_several_endpoints() {
        for (url, endpoints, prefix) in [
            ("tikv://pd:2379", &["pd:2379"][..], None),
            ("tikv://a:1,b:2/", &["a:1", "b:2"], None),
            ("tikv://a:1,b:2/mine", &["a:1", "b:2"], Some("mine")),
        ] {
            assert_eq!(
                parts(url),
                (endpoints.iter().map(|host| (*host).to_owned()).collect(), prefix.map(str::to_owned))
            );
        }
    }
}
