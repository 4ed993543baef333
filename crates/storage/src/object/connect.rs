//! From a URL and options to a client of an object store.
//!
//! Credentials come from the options or, where those are silent, from the environment, under the
//! names that each store's own tools use. Spark's names (`fs.s3a.access.key`, with or without
//! `spark.hadoop.`) are understood too.

use super::uploads::{S3Uploads, SharedConnector};
use super::{BucketStore, Client, redact};
use crate::location::decode_path;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3CopyIfNotExists};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, RetryConfig};
use onefold_types::{Error, OptionMap, Result};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Opens `scheme://bucket/prefix`.
///
/// # Errors
/// Invalid, for an unknown scheme, a URL with a password, an option that the store does not have,
/// or one that is missing.
pub(crate) fn connect(url: &str, options: &OptionMap) -> Result<BucketStore> {
    let shown = redact(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Error::invalid(format!("{shown} is not a URL")));
    };
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.is_empty() {
        return Err(Error::invalid(format!(
            "{shown} names no bucket; write {scheme}://bucket/path"
        )));
    }
    if authority.contains(':') && authority.contains('@') {
        return Err(Error::invalid(format!(
            "{shown} holds a password; give it as an option or in the environment"
        )));
    }
    let client = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" | "s3n" => s3(authority, options)?,
        "gs" => google(authority, options)?,
        "abfs" | "abfss" | "wasb" | "wasbs" | "az" => azure(authority, options)?,
        _ => {
            return Err(Error::invalid(format!(
                "cannot open {shown}: the schemes are file, s3, s3a, gs and abfss"
            )));
        }
    };
    let start = format!("{scheme}://{authority}");
    Ok(BucketStore::new(client, &start, &decode_path(prefix)?))
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            base: 2.,
        },
        max_retries: 6,
        retry_timeout: Duration::from_secs(60),
    }
}

/// Options as (key of the client, value); names that belong to others are left out.
fn keys<K: FromStr>(
    options: &OptionMap,
    store: &str,
    own: &str,
    spark: fn(&str, &str) -> Option<(&'static str, String)>,
    spark_prefix: &str,
) -> Result<Vec<(K, String)>> {
    let mut found = Vec::new();
    for (name, value) in options.iter() {
        let lower = name.to_ascii_lowercase();
        let plain = lower.strip_prefix("spark.hadoop.").unwrap_or(&lower);
        let (key, value) = if let Some((key, value)) = spark(plain, value) {
            (key.to_owned(), value)
        } else if plain.starts_with(own) {
            (plain.to_owned(), value.to_owned())
        } else if plain.starts_with(spark_prefix) {
            tracing::debug!(option = name, "this setting of Hadoop's has no meaning here");
            continue;
        } else {
            continue;
        };
        let Ok(key) = key.parse::<K>() else {
            return Err(Error::invalid(format!("{store} has no option {name}; check its name")));
        };
        found.push((key, value));
    }
    Ok(found)
}

/// What a builder says when it cannot build, without the values it was given.
fn refused(store: &str, error: &object_store::Error) -> Error {
    Error::invalid(format!("cannot open {store}: {}", redact(&error.to_string())))
}

fn s3(bucket: &str, options: &OptionMap) -> Result<Client> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    for (key, value) in keys::<AmazonS3ConfigKey>(options, "S3", "aws_", s3_of_spark, "fs.s3a.")? {
        builder = builder.with_config(key, value);
    }
    let endpoint = builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
    if let Some(endpoint) = endpoint {
        if endpoint.starts_with("http://") {
            builder = builder.with_allow_http(true);
        } else if !endpoint.contains("://") {
            builder = builder.with_endpoint(format!("https://{endpoint}"));
        }
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let signs = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature);
    let signs = !signs.is_some_and(|skips| skips.eq_ignore_ascii_case("true"));
    let connector = SharedConnector::default();
    let bucket = builder
        .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
        .with_retry(retries())
        .with_http_connector(connector.clone())
        .build()
        .map_err(|error| refused("S3", &error))?;
    let bucket = Arc::new(bucket);
    let uploads = S3Uploads::new(Arc::clone(&bucket), &connector, region).filter(|_| signs);
    Ok(Client { bucket, uploads })
}

fn s3_of_spark(name: &str, value: &str) -> Option<(&'static str, String)> {
    let key = match name {
        "fs.s3a.access.key" => "aws_access_key_id",
        "fs.s3a.secret.key" => "aws_secret_access_key",
        "fs.s3a.session.token" => "aws_session_token",
        "fs.s3a.endpoint" => "aws_endpoint_url",
        "fs.s3a.endpoint.region" => "aws_region",
        "fs.s3a.path.style.access" => {
            let hosted = if value.eq_ignore_ascii_case("true") { "false" } else { "true" };
            return Some(("aws_virtual_hosted_style_request", hosted.to_owned()));
        }
        "fs.s3a.aws.credentials.provider" if value.contains("Anonymous") => {
            return Some(("aws_skip_signature", "true".to_owned()));
        }
        _ => return None,
    };
    Some((key, value.to_owned()))
}

fn google(bucket: &str, options: &OptionMap) -> Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
    let found =
        keys::<GoogleConfigKey>(options, "Google Cloud Storage", "google_", gs_of_spark, "fs.gs.")?;
    for (key, value) in found {
        builder = builder.with_config(key, value);
    }
    let bucket = builder
        .with_retry(retries())
        .build()
        .map_err(|error| refused("Google Cloud Storage", &error))?;
    Ok(Client { bucket: Arc::new(bucket), uploads: None })
}

fn gs_of_spark(name: &str, value: &str) -> Option<(&'static str, String)> {
    match name {
        "fs.gs.auth.service.account.json.keyfile"
        | "google.cloud.auth.service.account.json.keyfile" => {
            Some(("google_service_account", value.to_owned()))
        }
        _ => None,
    }
}

fn azure(authority: &str, options: &OptionMap) -> Result<Client> {
    let (container, host) = authority.split_once('@').unwrap_or((authority, ""));
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    if let Some(account) = host.split('.').next().filter(|account| !account.is_empty()) {
        builder = builder.with_account(account);
    }
    let found =
        keys::<AzureConfigKey>(options, "Azure storage", "azure_", azure_of_spark, "fs.azure.")?;
    for (key, value) in found {
        builder = builder.with_config(key, value);
    }
    let bucket =
        builder.with_retry(retries()).build().map_err(|error| refused("Azure storage", &error))?;
    Ok(Client { bucket: Arc::new(bucket), uploads: None })
}

fn azure_of_spark(name: &str, value: &str) -> Option<(&'static str, String)> {
    let key = if name.starts_with("fs.azure.account.key.") {
        "azure_storage_account_key"
    } else if name.starts_with("fs.azure.account.oauth2.client.id") {
        "azure_storage_client_id"
    } else if name.starts_with("fs.azure.account.oauth2.client.secret") {
        "azure_storage_client_secret"
    } else {
        return None;
    };
    Some((key, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::connect;
    use crate::Store;
    use onefold_types::OptionMap;

    fn keyed() -> OptionMap {
        OptionMap::new()
            .with("spark.hadoop.fs.s3a.access.key", "id")
            .with("fs.s3a.secret.key", "hunter2")
            .with("fs.s3a.endpoint", "http://localhost:1")
            .with("maxFilesPerTrigger", "1")
    }

    #[test]
    fn the_url_keeps_its_scheme_and_is_encoded() {
        let store = connect("s3a://box/a b/c%20d/", &keyed()).unwrap();
        assert_eq!(store.url(), "s3a://box/a%20b/c%20d");
        assert_eq!(connect("s3://box", &keyed()).unwrap().url(), "s3://box");
        assert!(!format!("{store:?}").contains("hunter2"));
    }

    #[test]
    fn what_cannot_be_opened_is_said_without_its_secrets() {
        for (url, part) in [
            ("s3://id:hunter2@box/a", "holds a password"),
            ("ftp://box/a", "the schemes are"),
            ("s3:///a", "names no bucket"),
        ] {
            let error = connect(url, &keyed()).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
            assert!(!error.chain().contains("hunter2"), "{error}");
        }
        let options = keyed().with("aws_acess_key_id", "hunter2");
        let error = connect("s3://box/a", &options).unwrap_err();
        assert!(error.to_string().contains("aws_acess_key_id"), "{error}");
        assert!(!error.chain().contains("hunter2"), "{error}");
    }
}
