//! Families whose numbers are kept elsewhere, and are read when they are asked for.

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use std::collections::HashMap;
use tepui_storage::stats::HistogramSnapshot;

/// A label and its value.
pub(super) type Label<'a> = (&'static str, &'a str);

/// What the values of a histogram are counted in.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Nanoseconds,
    Count,
}

/// The families that were read so far.
#[derive(Default)]
pub(super) struct Families(Vec<MetricFamily>);

impl Families {
    /// A family of counters: the labels of each series, and its value.
    pub(super) fn counter(&mut self, name: &str, help: &str, series: &[(&[Label<'_>], f64)]) {
        self.push(name, help, MetricType::COUNTER, series, |metric, value| {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        });
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, series: &[(&[Label<'_>], f64)]) {
        self.push(name, help, MetricType::GAUGE, series, |metric, value| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        });
    }

    /// A histogram without labels.
    pub(super) fn histogram(&mut self, name: &str, help: &str, unit: Unit, values: &HistogramSnapshot) {
        let scale = match unit {
            Unit::Nanoseconds => 1e9,
            Unit::Count => 1.0,
        };
        let mut below = 0;
        let buckets = values.bounds.iter().zip(&values.counts).map(|(bound, count)| {
            below += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound as f64 / scale);
            bucket.set_cumulative_count(below);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(values.counts.iter().sum());
        histogram.set_sample_sum(values.sum as f64 / scale);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        self.0.push(family(name, help, MetricType::HISTOGRAM, vec![metric]));
    }

    fn push(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        series: &[(&[Label<'_>], f64)],
        set: impl Fn(&mut Metric, f64),
    ) {
        let metrics = series.iter().map(|(labels, value)| {
            let mut metric = Metric::from_label(labels.iter().map(label_pair).collect());
            set(&mut metric, *value);
            metric
        });
        self.0.push(family(name, help, kind, metrics.collect()));
    }
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn label_pair((name, value): &Label<'_>) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name((*name).to_owned());
    pair.set_value((*value).to_owned());
    pair
}

struct Collected<R> {
    descriptions: Vec<Desc>,
    read: R,
}

/// Registers families that `read` reads. What it reads now says which they are.
pub(super) fn register(registry: &Registry, read: impl Fn(&mut Families) + Send + Sync + 'static) {
    let mut families = Families::default();
    read(&mut families);
    let describe = |family: &MetricFamily| {
        let labels = family.get_metric().first().map(|metric| metric.get_label().iter());
        let labels = labels.into_iter().flatten().map(|label| label.name().to_owned()).collect();
        Desc::new(family.name().to_owned(), family.help().to_owned(), labels, HashMap::new())
            .expect("names and labels of metrics are valid")
    };
    let descriptions = families.0.iter().map(describe).collect();
    super::register(registry, Collected { descriptions, read });
}

impl<R: Fn(&mut Families) + Send + Sync> Collector for Collected<R> {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Families::default();
        (self.read)(&mut families);
        families.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, TextEncoder};

    #[test]
    fn numbers_are_read_when_they_are_asked_for() {
        let registry = Registry::new();
        let waits = std::sync::Arc::new(tepui_storage::stats::Histogram::of_latencies());
        let read = std::sync::Arc::clone(&waits);
        register(&registry, move |families| {
            families.counter("things_total", "Things.", &[(&[("kind", "a")], 1.0), (&[("kind", "b")], 2.0)]);
            families.histogram("wait_seconds", "Waits.", Unit::Nanoseconds, &read.snapshot());
        });
        waits.observe_time(std::time::Duration::from_millis(1));
        waits.observe_time(std::time::Duration::from_secs(60));
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).expect("it can be written");
        let text = String::from_utf8(text).expect("it is text");
        for line in [
            "# TYPE things_total counter",
            "things_total{kind=\"b\"} 2",
            "wait_seconds_bucket{le=\"0.00025\"} 0",
            "wait_seconds_bucket{le=\"0.001\"} 1",
            "wait_seconds_bucket{le=\"16.384\"} 1",
            "wait_seconds_bucket{le=\"+Inf\"} 2",
            "wait_seconds_sum 60.001",
            "wait_seconds_count 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
