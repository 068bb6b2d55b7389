//! From a URL to a store of objects.

use crate::options::ObjectOptions;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use tepui_storage::StorageError;
use url::Url;

/// The store of objects that a URL names, and the prefix of all names in it. Nothing is sent to it yet.
pub fn open_store(options: &ObjectOptions) -> Result<(Arc<dyn ObjectStore>, Path), StorageError> {
    let url = parse(&options.url)?;
    let prefix = Path::from_url_path(url.path())
        .map_err(|error| StorageError::failed("not a prefix of objects").with_source(error))?;
    Ok((connect(&url, options)?, prefix))
}

fn connect(url: &Url, options: &ObjectOptions) -> Result<Arc<dyn ObjectStore>, StorageError> {
    // Not used in a build without any vendor.
    let _ = options;
    match url.scheme() {
        #[cfg(feature = "s3")]
        "s3" => cloud::s3(url, options),
        #[cfg(feature = "azure")]
        "az" => cloud::azure(url, options),
        #[cfg(feature = "gcs")]
        "gs" => cloud::gcs(url, options),
        scheme => Err(unknown(scheme)),
    }
}

/// Refuses what names no bucket, or has more than a bucket and a prefix. The URL is in no message: somebody may have put a
/// password into it.
fn parse(url: &str) -> Result<Url, StorageError> {
    let url =
        Url::parse(url).map_err(|error| StorageError::failed("not a URL of objects").with_source(error))?;
    let scheme = url.scheme();
    if !["s3", "az", "gs"].contains(&scheme) {
        return Err(unknown(scheme));
    }
    let refused = if !url.username().is_empty() || url.password().is_some() {
        "credentials belong into the environment, not into the URL"
    } else if url.query().is_some() || url.fragment().is_some() {
        "the URL has a bucket and a prefix, and nothing else"
    } else if url.port().is_some() {
        "the URL has a bucket and no port: the endpoint belongs into the environment"
    } else if url.host_str().is_none_or(str::is_empty) {
        "the URL names no bucket"
    } else {
        return Ok(url);
    };
    Err(StorageError::failed(format!("{refused}: {scheme}://BUCKET/PREFIX")))
}

fn unknown(scheme: &str) -> StorageError {
    let known =
        [("s3", cfg!(feature = "s3")), ("az", cfg!(feature = "azure")), ("gs", cfg!(feature = "gcs"))];
    let known: Vec<&str> = known.iter().filter(|(_, is_built)| *is_built).map(|(name, _)| *name).collect();
    StorageError::failed(format!(
        "objects of {scheme}:// are not known to this build, which knows: {}",
        known.join(", ")
    ))
}

#[cfg(feature = "cloud")]
mod cloud {
    use super::*;
    use crate::http::Connector;
    use object_store::{BackoffConfig, RetryConfig};
    use std::time::Duration;

    /// A few times within the deadline of a call.
    fn retry(options: &ObjectOptions) -> RetryConfig {
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        };
        RetryConfig { backoff, max_retries: 5, retry_timeout: options.timeout / 2 }
    }

    fn cannot_open(error: object_store::Error) -> StorageError {
        StorageError::failed("the store of objects cannot be set up from its URL and the environment")
            .with_source(error)
    }

    /// Plain HTTP is for this machine, or for who asks for it.
    fn check_http(endpoint: Option<&str>, is_allowed: bool, variable: &str) -> Result<bool, StorageError> {
        let Some(host) = endpoint.and_then(|endpoint| endpoint.strip_prefix("http://")) else {
            return Ok(is_allowed);
        };
        let authority = host.split(['/', '?']).next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback =
            host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if !is_loopback && !is_allowed {
            return Err(StorageError::failed(format!(
                "the endpoint of objects is plain http on another machine: use https, or set {variable}=true"
            )));
        }
        Ok(true)
    }

    fn is_true(value: Option<String>) -> bool {
        value.is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    #[cfg(feature = "s3")]
    pub(super) fn s3(url: &Url, options: &ObjectOptions) -> Result<Arc<dyn ObjectStore>, StorageError> {
        use object_store::ClientConfigKey;
        use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
        let variables = options.environment.keys::<Key>("AWS_");
        let builder =
            variables.fold(AmazonS3Builder::new(), |builder, (key, value)| builder.with_config(key, value));
        let endpoint = builder.get_config_value(&Key::Endpoint);
        let allowed = is_true(builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp)));
        let allow_http = check_http(endpoint.as_deref(), allowed, "AWS_ALLOW_HTTP")?;
        let store = builder
            .with_bucket_name(url.host_str().unwrap_or_default())
            .with_allow_http(allow_http)
            .with_retry(retry(options))
            .with_http_connector(Connector::new(options)?)
            .build();
        Ok(Arc::new(store.map_err(cannot_open)?))
    }

    #[cfg(feature = "azure")]
    pub(super) fn azure(url: &Url, options: &ObjectOptions) -> Result<Arc<dyn ObjectStore>, StorageError> {
        use object_store::ClientConfigKey;
        use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
        let variables = options.environment.keys::<Key>("AZURE_");
        let builder = variables
            .fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| builder.with_config(key, value));
        let endpoint = builder.get_config_value(&Key::Endpoint);
        let allowed = is_true(builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp)));
        let allow_http = check_http(endpoint.as_deref(), allowed, "AZURE_ALLOW_HTTP")?;
        let store = builder
            .with_container_name(url.host_str().unwrap_or_default())
            .with_allow_http(allow_http)
            .with_retry(retry(options))
            .with_http_connector(Connector::new(options)?)
            .build();
        Ok(Arc::new(store.map_err(cannot_open)?))
    }

    #[cfg(feature = "gcs")]
    pub(super) fn gcs(url: &Url, options: &ObjectOptions) -> Result<Arc<dyn ObjectStore>, StorageError> {
        use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
        let variables = options.environment.keys::<GoogleConfigKey>("GOOGLE_");
        let store = variables
            .fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| builder.with_config(key, value))
            .with_bucket_name(url.host_str().unwrap_or_default())
            .with_retry(retry(options))
            .with_http_connector(Connector::new(options)?)
            .build();
        Ok(Arc::new(store.map_err(cannot_open)?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn plain_http_is_for_this_machine_or_for_who_asks_for_it() {
            for (endpoint, asked, expected) in [
                (None, false, Some(false)),
                (Some("https://s3.example"), false, Some(false)),
                (Some("http://127.0.0.1:9000"), false, Some(true)),
                (Some("http://localhost"), false, Some(true)),
                (Some("http://[::1]:9000/x"), false, Some(true)),
                (Some("http://10.0.0.1:9000"), false, None),
                (Some("http://127.0.0.1.example"), false, None),
                (Some("http://10.0.0.1:9000"), true, Some(true)),
            ] {
                assert_eq!(check_http(endpoint, asked, "X").ok(), expected, "{endpoint:?} {asked}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_bucket_and_a_prefix() {
        assert!(parse("s3://bucket").is_ok() && parse("az://container/some/prefix/").is_ok());
        for (url, expected) in [
            ("bucket", "not a URL"),
            ("ftp://bucket", "not known to this build"),
            ("file:///tmp/x", "not known to this build"),
            ("s3:///prefix", "names no bucket"),
            ("s3://key:secret@bucket/prefix", "credentials"),
            ("s3://bucket/prefix?region=x", "nothing else"),
            ("s3://bucket:9000/prefix", "no port"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
