//! Requests: how many, how long, how large, and how they ended.

use super::connections::Watched;
use super::{collected, count, latency, metric, opts};
use crate::pipeline::{Caller, FinishedExchange, OperationKind};
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use std::sync::{Arc, OnceLock};
use tepui_model::table::PlanKind;
use tepui_model::{AuthFailure, Throttle, blob, queue, table};
use tepui_storage::stats::Counter;
use tepui_wire::address::Service;

/// The metrics of requests. [`FinishedExchange`]s are counted when their last byte is sent.
pub(crate) struct RequestMetrics {
    requests: IntCounterVec,
    errors: IntCounterVec,
    durations: HistogramVec,
    query_read: IntCounterVec,
    query_returned: IntCounterVec,
    query_scans: HistogramVec,
    services: [ServiceMetrics; 3],
    plans: [OnceLock<PlanMetrics>; PlanKind::ALL.len()],
}

/// The series of one service.
struct ServiceMetrics {
    in_flight: IntGauge,
    server_duration: Histogram,
    bytes_in: IntCounter,
    bytes_out: IntCounter,
    units: IntCounter,
    batch_operations: Histogram,
    throttled: [Arc<Counter>; Throttle::ALL.len()],
    auth_failures: [IntCounter; AuthFailure::ALL.len()],
    /// By [`OperationKind::index`]; the last is for requests whose operation is not known.
    operations: Vec<OperationMetrics>,
}

#[derive(Default)]
struct OperationMetrics {
    duration: OnceLock<Histogram>,
    /// By class of the status and by caller.
    requests: [[OnceLock<IntCounter>; CALLERS.len()]; CLASSES.len()],
}

struct PlanMetrics {
    read: IntCounter,
    returned: IntCounter,
    scans: Histogram,
}

/// The classes of statuses. The last is for answers that were never begun: the client had gone.
const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "none"];
/// The last is for requests that were refused before it was known who sent them.
const CALLERS: [&str; 5] = ["key", "sas", "bearer", "anonymous", "unknown"];
/// The label of an operation that is not known.
const UNKNOWN: &str = "Unknown";

impl RequestMetrics {
    pub(super) fn register(registry: &Registry, watched: Watched) -> Self {
        let counters =
            |name, help, labels: &[&str]| metric!(registry, IntCounterVec::new(opts(name, help), labels));
        let in_flight = metric!(
            registry,
            IntGaugeVec::new(
                opts("tepui_requests_in_flight", "Requests whose answer is not sent yet."),
                &["service"]
            )
        );
        let server_duration = metric!(
            registry,
            HistogramVec::new(
                latency(
                    "tepui_request_server_duration_seconds",
                    "Time of requests until their answer was ready, without sending it."
                ),
                &["service"]
            )
        );
        let batch_operations = metric!(
            registry,
            HistogramVec::new(count("tepui_batch_operations", "Operations in a batch."), &["service"])
        );
        let bytes_in =
            counters("tepui_request_bytes_total", "Bytes of bodies that were received.", &["service"]);
        let bytes_out =
            counters("tepui_response_bytes_total", "Bytes of bodies that were sent.", &["service"]);
        let units = counters(
            "tepui_units_total",
            "Entities and messages read and written, as Azure's scalability targets count them.",
            &["service"],
        );
        let auth_failures = counters(
            "tepui_auth_failures_total",
            "Requests that were refused because of their credentials.",
            &["service", "reason"],
        );
        let services = SERVICES.map(|service| {
            let label = [service.name()];
            ServiceMetrics {
                in_flight: in_flight.with_label_values(&label),
                server_duration: server_duration.with_label_values(&label),
                bytes_in: bytes_in.with_label_values(&label),
                bytes_out: bytes_out.with_label_values(&label),
                units: units.with_label_values(&label),
                batch_operations: batch_operations.with_label_values(&label),
                throttled: Default::default(),
                auth_failures: AuthFailure::ALL
                    .map(|reason| auth_failures.with_label_values(&[service.name(), reason.name()])),
                operations: (0..=operations(service)).map(|_| OperationMetrics::default()).collect(),
            }
        });
        register_throttled(registry, &services, watched);
        Self {
            requests: counters(
                "tepui_requests_total",
                "Requests whose answer was sent or given up.",
                &["service", "operation", "class", "auth"],
            ),
            errors: counters(
                "tepui_request_errors_total",
                "Answers with an error code.",
                &["service", "code"],
            ),
            durations: metric!(
                registry,
                HistogramVec::new(
                    latency(
                        "tepui_request_duration_seconds",
                        "Time of requests from their head to the last byte of their answer."
                    ),
                    &["service", "operation"]
                )
            ),
            query_read: counters(
                "tepui_query_entities_read_total",
                "Entities that queries have read, by plan.",
                &["plan"],
            ),
            query_returned: counters(
                "tepui_query_entities_returned_total",
                "Entities that queries have returned, by plan.",
                &["plan"],
            ),
            query_scans: metric!(
                registry,
                HistogramVec::new(
                    count(
                        "tepui_query_scan_entities",
                        "Entities that one page of a query has read, by plan."
                    ),
                    &["plan"]
                )
            ),
            services,
            plans: Default::default(),
        }
    }

    /// Counts a request as under way until [`RequestMetrics::end`].
    pub(crate) fn begin(&self, service: Service) {
        self.services[index(service)].in_flight.inc();
    }

    /// Counts a request that has ended.
    pub(crate) fn end(&self, service: Service, exchange: &FinishedExchange) {
        let of_service = &self.services[index(service)];
        self.count(service, of_service, exchange);
        // Last: who sees that none is under way, and then asks again, finds all of them counted.
        of_service.in_flight.dec();
    }

    fn count(&self, service: Service, of_service: &ServiceMetrics, exchange: &FinishedExchange) {
        of_service.bytes_in.inc_by(exchange.bytes_in);
        of_service.bytes_out.inc_by(exchange.bytes_out);
        let served = exchange.answered.saturating_duration_since(exchange.started);
        of_service.server_duration.observe(served.as_secs_f64());
        self.count_operation(service, of_service, exchange);
        if let Some(code) = exchange.error_code {
            self.errors.with_label_values(&[service.name(), code]).inc();
        }
        if let Some(throttle) = exchange.throttle {
            of_service.throttled[throttle as usize].add(1);
        }
        if let Some(failure) = exchange.auth_failure {
            of_service.auth_failures[failure as usize].inc();
        }
        let Some(cost) = &exchange.cost else { return };
        of_service.units.inc_by(cost.units);
        if let Some(operations) = cost.operations {
            of_service.batch_operations.observe(operations as f64);
        }
        if let Some(plan) = cost.plan {
            let series = self.plans[plan as usize].get_or_init(|| self.plan(plan));
            series.read.inc_by(cost.scanned);
            series.returned.inc_by(cost.returned);
            series.scans.observe(cost.scanned as f64);
        }
    }

    fn count_operation(&self, service: Service, of_service: &ServiceMetrics, exchange: &FinishedExchange) {
        let last = of_service.operations.len() - 1;
        let operation = exchange.operation.map_or(last, OperationKind::index);
        let name = exchange.operation.map_or(UNKNOWN, OperationKind::name);
        let Some(series) = of_service.operations.get(operation) else { return };
        let duration =
            series.duration.get_or_init(|| self.durations.with_label_values(&[service.name(), name]));
        duration.observe(exchange.ended.saturating_duration_since(exchange.started).as_secs_f64());
        let class = match exchange.status {
            Some(200..300) => 0,
            Some(300..400) => 1,
            Some(400..500) => 2,
            Some(_) => 3,
            None => 4,
        };
        let caller = match exchange.caller {
            Some(Caller::AccountKey) => 0,
            Some(Caller::Sas) => 1,
            Some(Caller::Token) => 2,
            Some(Caller::Anonymous) => 3,
            None => 4,
        };
        let labels = [service.name(), name, CLASSES[class], CALLERS[caller]];
        series.requests[class][caller].get_or_init(|| self.requests.with_label_values(&labels)).inc();
    }

    fn plan(&self, plan: PlanKind) -> PlanMetrics {
        let label = [plan.name()];
        PlanMetrics {
            read: self.query_read.with_label_values(&label),
            returned: self.query_returned.with_label_values(&label),
            scans: self.query_scans.with_label_values(&label),
        }
    }
}

/// Requests that were refused for now. Connections that were refused have no request, but count here.
fn register_throttled(registry: &Registry, services: &[ServiceMetrics; 3], watched: Watched) {
    let counters: Vec<_> = SERVICES
        .iter()
        .zip(services)
        .flat_map(|(service, metrics)| {
            let of_service = Throttle::ALL.iter().zip(&metrics.throttled);
            of_service.map(|(throttle, counter)| (*service, *throttle, Arc::clone(counter)))
        })
        .collect();
    collected::register(registry, move |families| {
        let refused = watched.refused();
        let refused = |service: Service| {
            refused.iter().filter(|(port, _)| *port == service.name()).map(|(_, count)| count).sum::<u64>()
        };
        let series: Vec<_> = counters
            .iter()
            .map(|(service, throttle, counter)| {
                let connections = if *throttle == Throttle::Connections { refused(*service) } else { 0 };
                let labels = [("service", service.name()), ("reason", throttle.name())];
                (labels, (counter.get() + connections) as f64)
            })
            .collect();
        let series: Vec<_> = series.iter().map(|(labels, value)| (&labels[..], *value)).collect();
        families.counter(
            "tepui_requests_throttled_total",
            "Requests, or connections, that were refused for now, by what was too much.",
            &series,
        );
    });
}

const SERVICES: [Service; 3] = [Service::Blob, Service::Queue, Service::Table];

fn index(service: Service) -> usize {
    match service {
        Service::Blob => 0,
        Service::Queue => 1,
        Service::Table => 2,
    }
}

/// How many kinds of operations a service has.
fn operations(service: Service) -> usize {
    match service {
        Service::Blob => blob::OperationKind::ALL.len(),
        Service::Queue => queue::OperationKind::ALL.len(),
        Service::Table => table::OperationKind::ALL.len(),
    }
}
