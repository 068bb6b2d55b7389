//! The settings of a service as XML: the bodies of Get and Set Service Properties.

use super::Printer;
use super::document::{self, Element, invalid};
use crate::address::Service;
use crate::version::ServiceVersion;
use tepui_model::ServiceError;
use tepui_model::service_properties::{
    CorsRule, Logging, Metrics, ServiceProperties, ServicePropertiesChange,
};

pub(super) const ROOT: &str = "StorageServiceProperties";
pub(super) const MAX_RETENTION_DAYS: u32 = 365;
const MAX_RULES: usize = 5;
/// All texts of all rules together.
const MAX_RULES_BYTES: usize = 2048;
const MAX_ENTRY_CHARS: usize = 256;
/// Per list of headers: names as they are, and beginnings of names.
const MAX_LITERAL_HEADERS: usize = 64;
const MAX_PREFIXED_HEADERS: usize = 2;
const METHODS: [&str; 8] = ["DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH"];

/// Reads the body of Set Service Properties. Groups come in any order and may be left out, but not all.
///
/// Before 2013-08-15 there were two, both required: logging, and metrics by the hour.
pub fn parse_service_properties(
    body: &[u8],
    version: ServiceVersion,
) -> Result<ServicePropertiesChange, ServiceError> {
    let mut root = document::parse(body, ROOT)?;
    let change = take_shared(&mut root, version)?;
    root.done()?;
    if change == ServicePropertiesChange::default() { Err(invalid("no group at all")) } else { Ok(change) }
}

/// What the body of Get Service Properties says. Groups that are not known are passed over. `None` if it cannot be read.
pub(crate) fn receive_service_properties(body: &[u8], version: ServiceVersion) -> Option<ServiceProperties> {
    let mut root = document::parse(body, ROOT).ok()?;
    let mut properties = ServiceProperties::default();
    take_shared(&mut root, version).ok()?.apply(&mut properties);
    Some(properties)
}

/// Takes the groups out that all services have.
pub(super) fn take_shared(
    root: &mut Element,
    version: ServiceVersion,
) -> Result<ServicePropertiesChange, ServiceError> {
    Ok(if version.has_hour_and_minute_metrics() {
        ServicePropertiesChange {
            logging: root.take("Logging").map(read_logging).transpose()?,
            hour_metrics: root.take("HourMetrics").map(read_metrics).transpose()?,
            minute_metrics: root.take("MinuteMetrics").map(read_metrics).transpose()?,
            cors: root.take("Cors").map(read_rules).transpose()?,
        }
    } else {
        ServicePropertiesChange {
            logging: Some(read_logging(root.require("Logging")?)?),
            hour_metrics: Some(read_metrics(root.require("Metrics")?)?),
            ..ServicePropertiesChange::default()
        }
    })
}

fn read_logging(mut element: Element) -> Result<Logging, ServiceError> {
    let logging = Logging {
        version: read_version(&mut element)?,
        read: element.require("Read")?.bool()?,
        write: element.require("Write")?.bool()?,
        delete: element.require("Delete")?.bool()?,
        retention_days: read_retention(element.require("RetentionPolicy")?)?,
    };
    element.done()?;
    Ok(logging)
}

fn read_metrics(mut element: Element) -> Result<Metrics, ServiceError> {
    let version = read_version(&mut element)?;
    let enabled = element.require("Enabled")?.bool()?;
    let include_apis = element.take("IncludeAPIs").map(Element::bool).transpose()?;
    if enabled && include_apis.is_none() {
        return Err(invalid("IncludeAPIs is missing"));
    }
    let retention_days = read_retention(element.require("RetentionPolicy")?)?;
    element.done()?;
    Ok(Metrics { version, enabled, include_apis: include_apis.filter(|_| enabled), retention_days })
}

fn read_version(element: &mut Element) -> Result<String, ServiceError> {
    let version = element.require("Version")?.into_text()?;
    match version.trim() {
        known @ ("1.0" | "2.0") => Ok(known.to_owned()),
        _ => Err(invalid("an unknown version of logging or metrics")),
    }
}

fn read_retention(mut element: Element) -> Result<Option<u32>, ServiceError> {
    let enabled = element.require("Enabled")?.bool()?;
    let days = element.take("Days").map(Element::number).transpose()?;
    element.done()?;
    match days {
        _ if !enabled => Ok(None),
        Some(days) if (1..=MAX_RETENTION_DAYS).contains(&days) => Ok(Some(days)),
        _ => Err(invalid("days are missing or out of range")),
    }
}

fn read_rules(element: Element) -> Result<Vec<CorsRule>, ServiceError> {
    if element.children.len() > MAX_RULES {
        return Err(invalid("too many rules"));
    }
    let texts = |rule: &Element| rule.children.iter().map(|child| child.text.len()).sum::<usize>();
    if element.children.iter().map(texts).sum::<usize>() > MAX_RULES_BYTES {
        return Err(invalid("the rules are too long"));
    }
    element.children.into_iter().map(read_rule).collect()
}

fn read_rule(mut element: Element) -> Result<CorsRule, ServiceError> {
    if element.name != "CorsRule" {
        return Err(invalid("not a CorsRule"));
    }
    let rule = CorsRule {
        allowed_origins: read_list(element.require("AllowedOrigins")?)?,
        allowed_methods: read_list(element.require("AllowedMethods")?)?,
        allowed_headers: read_list(element.require("AllowedHeaders")?)?,
        exposed_headers: read_list(element.require("ExposedHeaders")?)?,
        max_age_seconds: element.require("MaxAgeInSeconds")?.number()?,
    };
    element.done()?;
    let names_origins_and_methods = !rule.allowed_origins.is_empty() && !rule.allowed_methods.is_empty();
    let knows_methods = rule.allowed_methods.iter().all(|method| METHODS.contains(&method.as_str()));
    let few_headers = [&rule.allowed_headers, &rule.exposed_headers].into_iter().all(|names| {
        let prefixed = names.iter().filter(|name| name.ends_with('*')).count();
        prefixed <= MAX_PREFIXED_HEADERS && names.len() - prefixed <= MAX_LITERAL_HEADERS
    });
    if names_origins_and_methods && knows_methods && few_headers {
        Ok(rule)
    } else {
        Err(invalid("a bad rule"))
    }
}

fn read_list(element: Element) -> Result<Vec<String>, ServiceError> {
    let text = element.into_text()?;
    let entries: Vec<String> =
        text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect();
    let fit = entries.iter().all(|entry| entry.chars().count() <= MAX_ENTRY_CHARS);
    if fit { Ok(entries) } else { Err(invalid("an origin or a header is too long")) }
}

/// Prints the body of Get Service Properties.
pub fn print_service_properties(
    properties: &ServiceProperties,
    version: ServiceVersion,
    service: Service,
) -> Vec<u8> {
    let mut body = Printer::new(service);
    body.parent(ROOT, |body| print_shared(body, properties, version));
    body.finish()
}

/// Prints the body of Set Service Properties. Without a byte order mark, as clients send it.
pub(crate) fn print_service_properties_change(
    change: &ServicePropertiesChange,
    version: ServiceVersion,
) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    body.parent(ROOT, |body| print_shared_change(body, change, version));
    body.finish()
}

/// The groups that all services have.
pub(super) fn print_shared(body: &mut Printer, properties: &ServiceProperties, version: ServiceVersion) {
    let ServiceProperties { logging, hour_metrics, minute_metrics, cors } = properties;
    print_groups(body, (Some(logging), Some(hour_metrics), Some(minute_metrics), Some(cors)), version);
}

/// Those of them that are given.
pub(super) fn print_shared_change(
    body: &mut Printer,
    change: &ServicePropertiesChange,
    version: ServiceVersion,
) {
    let ServicePropertiesChange { logging, hour_metrics, minute_metrics, cors } = change;
    let groups = (logging.as_ref(), hour_metrics.as_ref(), minute_metrics.as_ref(), cors.as_deref());
    print_groups(body, groups, version);
}

type Groups<'a> = (Option<&'a Logging>, Option<&'a Metrics>, Option<&'a Metrics>, Option<&'a [CorsRule]>);

fn print_groups(
    body: &mut Printer,
    (logging, hour_metrics, minute_metrics, cors): Groups<'_>,
    version: ServiceVersion,
) {
    if let Some(logging) = logging {
        print_logging(body, logging);
    }
    if !version.has_hour_and_minute_metrics() {
        return hour_metrics.into_iter().for_each(|metrics| print_metrics(body, "Metrics", metrics));
    }
    for (name, metrics) in [("HourMetrics", hour_metrics), ("MinuteMetrics", minute_metrics)] {
        metrics.into_iter().for_each(|metrics| print_metrics(body, name, metrics));
    }
    if let Some(rules) = cors {
        body.parent("Cors", |body| rules.iter().for_each(|rule| print_rule(body, rule)));
    }
}

fn print_logging(body: &mut Printer, logging: &Logging) {
    body.parent("Logging", |body| {
        body.leaf("Version", &logging.version);
        body.leaf("Read", print_bool(logging.read));
        body.leaf("Write", print_bool(logging.write));
        body.leaf("Delete", print_bool(logging.delete));
        print_retention(body, logging.retention_days);
    });
}

fn print_metrics(body: &mut Printer, name: &'static str, metrics: &Metrics) {
    body.parent(name, |body| {
        body.leaf("Version", &metrics.version);
        body.leaf("Enabled", print_bool(metrics.enabled));
        if metrics.enabled {
            body.leaf("IncludeAPIs", print_bool(metrics.include_apis.unwrap_or(false)));
        }
        print_retention(body, metrics.retention_days);
    });
}

fn print_retention(body: &mut Printer, days: Option<u32>) {
    body.parent("RetentionPolicy", |body| {
        body.leaf("Enabled", print_bool(days.is_some()));
        if let Some(days) = days {
            body.leaf("Days", &days.to_string());
        }
    });
}

fn print_rule(body: &mut Printer, rule: &CorsRule) {
    body.parent("CorsRule", |body| {
        body.leaf("AllowedMethods", &rule.allowed_methods.join(","));
        body.leaf("AllowedOrigins", &rule.allowed_origins.join(","));
        body.leaf("AllowedHeaders", &rule.allowed_headers.join(","));
        body.leaf("ExposedHeaders", &rule.exposed_headers.join(","));
        body.leaf("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
    });
}

pub(super) fn print_bool(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
#[path = "service_properties_tests.rs"]
mod tests;
