//! The figures of scalability targets, and how they are given: by the name of a set, by a table of the configuration
//! file or by a file of its own.

use crate::config::{ConfigError, path};
use crate::redact::without_value;
use serde::Deserialize;
use std::str::FromStr;

/// The targets that hold for each account. A figure of `None` is not limited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Units of an account in a second: a request counts its units, and at least one.
    pub account_units: Option<f64>,
    /// Units of a partition of a table in a second.
    pub partition_units: Option<f64>,
    /// Units of a queue in a second.
    pub queue_units: Option<f64>,
    /// Requests for one blob in a second.
    pub blob_requests: Option<f64>,
    /// Bytes of one blob in a second, in both directions together.
    pub blob_bytes: Option<f64>,
    /// Bytes of request bodies of an account in a second.
    pub ingress_bytes: Option<f64>,
    /// Bytes of answers of an account in a second.
    pub egress_bytes: Option<f64>,
    /// How much may be saved up while nothing is asked for, in seconds of each target.
    pub burst_seconds: f64,
    /// How long a new table takes until it carries all that its account may ask for. 0: it does at once.
    pub warm_up_seconds: f64,
    /// What a new table carries at first, as a share of the account's units.
    pub warm_up_start: f64,
}

/// Which targets are in force.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum TargetSetting {
    #[default]
    Off,
    On(Figures),
}

const BITS: f64 = 8.0;
const GIGA: f64 = 1e9;

/// What the design guide and the checklist of 2016 to 2018 say, for locally redundant storage in the USA.
pub const SEED_2016: Figures = Figures {
    account_units: Some(20_000.0),
    partition_units: Some(2_000.0),
    queue_units: Some(2_000.0),
    blob_requests: Some(500.0),
    blob_bytes: Some(60e6),
    ingress_bytes: Some(20.0 * GIGA / BITS),
    egress_bytes: Some(30.0 * GIGA / BITS),
    burst_seconds: 1.0,
    warm_up_seconds: 10.0,
    warm_up_start: 0.1,
};

/// What is documented now, for the large regions. A block blob may use all the bandwidth of its account.
pub const AZURE_2026: Figures = Figures {
    account_units: Some(40_000.0),
    blob_bytes: None,
    ingress_bytes: Some(60.0 * GIGA / BITS),
    egress_bytes: Some(200.0 * GIGA / BITS),
    warm_up_start: 0.05,
    ..SEED_2016
};

const NO_LIMITS: Figures = Figures {
    account_units: None,
    partition_units: None,
    queue_units: None,
    blob_requests: None,
    blob_bytes: None,
    ingress_bytes: None,
    egress_bytes: None,
    ..SEED_2016
};

const OFF: &str = "off";
const NAMED: [(&str, Figures); 2] = [("seed-2016", SEED_2016), ("azure-2026", AZURE_2026)];

fn named(name: &str) -> Option<Figures> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, figures)| *figures)
}

impl TargetSetting {
    pub fn figures(&self) -> Option<&Figures> {
        match self {
            Self::Off => None,
            Self::On(figures) => Some(figures),
        }
    }
}

/// A name, or the path of a TOML file.
impl FromStr for TargetSetting {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text == OFF {
            return Ok(Self::Off);
        }
        if let Some(figures) = named(text) {
            return Ok(Self::On(figures));
        }
        let read = path(text).and_then(|path| std::fs::read_to_string(path).map_err(|e| e.to_string()));
        let file = read.map_err(|why| {
            ConfigError(format!("targets are off, seed-2016, azure-2026 or a TOML file ({why}): {text}"))
        })?;
        let table: FigureTable = toml::from_str(&file).map_err(|error| {
            let line = error.span().map_or(1, |span| file[..span.start].matches('\n').count() + 1);
            let what = without_value(error.message()).replace("unknown field", "unknown key");
            ConfigError(format!("{what} (line {line}): {text}"))
        })?;
        table.setting().map_err(|what| ConfigError(format!("{what}: {text}")))
    }
}

/// The keys of `[targets]` and of a file. What is not given is as in `base`; without one, there is no such limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FigureTable {
    base: Option<String>,
    account_units: Option<f64>,
    partition_units: Option<f64>,
    queue_units: Option<f64>,
    blob_requests: Option<f64>,
    blob_bytes: Option<f64>,
    ingress_bytes: Option<f64>,
    egress_bytes: Option<f64>,
    burst_seconds: Option<f64>,
    warm_up_seconds: Option<f64>,
    warm_up_start: Option<f64>,
}

/// The largest figure: more is as good as no limit, and could not be counted exactly.
const MAX_RATE: f64 = 1e12;
const MAX_SECONDS: f64 = 3600.0;

impl FigureTable {
    fn setting(&self) -> Result<TargetSetting, String> {
        let base = match &self.base {
            None => NO_LIMITS,
            Some(name) => named(name).ok_or_else(|| format!("base is seed-2016 or azure-2026: {name}"))?,
        };
        let between = |name: &str, value: Option<f64>, low: f64, high: f64| match value {
            Some(value) if !(low..=high).contains(&value) => {
                Err(format!("{name} must be from {low} to {high}: {value}"))
            }
            value => Ok(value),
        };
        // 0: not limited, whatever the base says.
        let rate = |name: &str, given: Option<f64>, base: Option<f64>| match given {
            None => Ok(base),
            Some(0.0) => Ok(None),
            Some(_) => between(name, given, 1.0, MAX_RATE).map_err(|what| format!("{what} (0: not limited)")),
        };
        Ok(TargetSetting::On(Figures {
            account_units: rate("account-units", self.account_units, base.account_units)?,
            partition_units: rate("partition-units", self.partition_units, base.partition_units)?,
            queue_units: rate("queue-units", self.queue_units, base.queue_units)?,
            blob_requests: rate("blob-requests", self.blob_requests, base.blob_requests)?,
            blob_bytes: rate("blob-bytes", self.blob_bytes, base.blob_bytes)?,
            ingress_bytes: rate("ingress-bytes", self.ingress_bytes, base.ingress_bytes)?,
            egress_bytes: rate("egress-bytes", self.egress_bytes, base.egress_bytes)?,
            burst_seconds: between("burst-seconds", self.burst_seconds, 0.001, MAX_SECONDS)?
                .unwrap_or(base.burst_seconds),
            warm_up_seconds: between("warm-up-seconds", self.warm_up_seconds, 0.0, MAX_SECONDS)?
                .unwrap_or(base.warm_up_seconds),
            warm_up_start: between("warm-up-start", self.warm_up_start, 0.001, 1.0)?
                .unwrap_or(base.warm_up_start),
        }))
    }
}

/// In the configuration file: a name or a path, or the figures themselves.
impl<'de> Deserialize<'de> for TargetSetting {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        FigureTable::deserialize(from)?.setting().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(text: &str) -> Result<TargetSetting, String> {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("tepui-targets-{}-{:p}.toml", std::process::id(), text));
        std::fs::write(&path, text).unwrap();
        let outcome = path.to_str().unwrap().parse().map_err(|error: ConfigError| error.to_string());
        std::fs::remove_file(&path).unwrap();
        outcome
    }

    #[test]
    fn names_stand_for_figures() {
        for (name, expected) in [
            ("off", TargetSetting::Off),
            ("seed-2016", TargetSetting::On(SEED_2016)),
            ("azure-2026", TargetSetting::On(AZURE_2026)),
        ] {
            assert_eq!(name.parse(), Ok(expected), "{name}");
        }
        assert_eq!(SEED_2016.ingress_bytes, Some(2.5e9));
    }

    #[test]
    fn a_table_has_its_own_figures_and_those_of_its_base() {
        for (case, text, expected) in [
            ("nothing", "", NO_LIMITS),
            ("one", "queue-units = 5", Figures { queue_units: Some(5.0), ..NO_LIMITS }),
            (
                "others than the base",
                "base = 'seed-2016'\npartition-units = 100\nblob-bytes = 0\nwarm-up-seconds = 0\nburst-seconds = 0.5",
                Figures {
                    partition_units: Some(100.0),
                    blob_bytes: None,
                    warm_up_seconds: 0.0,
                    burst_seconds: 0.5,
                    ..SEED_2016
                },
            ),
        ] {
            assert_eq!(of_file(text), Ok(TargetSetting::On(expected)), "{case}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (case, text, says) in [
            ("a key", "\nqueue-unit = 5", "unknown key `queue-unit`"),
            ("its line", "\nqueue-unit = 5", "(line 2)"),
            ("a base", "base = 'azure'", "base is seed-2016 or azure-2026: azure"),
            (
                "below 0",
                "queue-units = -1",
                "queue-units must be from 1 to 1000000000000: -1 (0: not limited)",
            ),
            ("less than one", "queue-units = 0.5", "queue-units must be from 1"),
            ("no number", "queue-units = nan", "queue-units must be from 1"),
            ("too much", "ingress-bytes = 1e13", "ingress-bytes must be from 1"),
            ("text", "queue-units = 'many'", "invalid type: string"),
            ("no burst", "burst-seconds = 0", "burst-seconds must be from 0.001 to 3600: 0"),
            ("a share", "warm-up-start = 2", "warm-up-start must be from 0.001 to 1: 2"),
            ("no TOML", "=", "(line 1)"),
        ] {
            let error = of_file(text).unwrap_err();
            assert!(error.contains(says), "{case}: {error}");
        }
        let error = "seed-2017".parse::<TargetSetting>().unwrap_err().to_string();
        assert!(error.starts_with("targets are off, seed-2016, azure-2026 or a TOML file ("), "{error}");
    }
}
