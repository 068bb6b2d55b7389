//! The numbers of a row of the transaction metrics, and its columns.
//!
//! A row can be added to: every column follows from numbers that can be read back from the stored row, exactly.

use super::status::{RequestStatus, Requester, StatusKind};
use crate::pipeline::FinishedExchange;
use std::time::Duration;
use tepui_model::table::{Properties, PropertiesBuilder, ValueRef};

/// What some requests add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Transactions {
    /// By [`StatusKind`] and [`prefix`].
    requests: [[u64; PREFIXES.len()]; StatusKind::ALL.len()],
    /// Bytes of heads and bodies.
    ingress: u64,
    egress: u64,
    /// The sums over successful requests.
    end_to_end_micros: u64,
    server_micros: u64,
}

/// What columns of statuses begin with.
const PREFIXES: [&str; 3] = ["", "Anonymous", "SAS"];

/// Who a column of [`PREFIXES`] stands for.
const REQUESTERS: [Requester; 3] = [Requester::Key, Requester::Anonymous, Requester::Sas];

/// There are no columns for requests with tokens of their own.
fn prefix(requester: Requester) -> usize {
    match requester {
        Requester::Key | Requester::Bearer => 0,
        Requester::Anonymous => 1,
        Requester::Sas => 2,
    }
}

/// The columns that are shares of all requests.
const PERCENTAGES: [(&str, &[StatusKind]); 7] = {
    use StatusKind::*;
    [
        ("PercentSuccess", &[Success]),
        ("PercentThrottlingError", &[ThrottlingError]),
        ("PercentTimeoutError", &[ClientTimeoutError, ServerTimeoutError]),
        ("PercentServerOtherError", &[ServerOtherError]),
        ("PercentClientOtherError", &[ClientOtherError]),
        ("PercentAuthorizationError", &[AuthorizationError]),
        ("PercentNetworkError", &[NetworkError]),
    ]
};

const TOTAL_INGRESS: &str = "TotalIngress";
const TOTAL_EGRESS: &str = "TotalEgress";
const END_TO_END: &str = "AverageE2ELatency";
const SERVER: &str = "AverageServerLatency";
const MICROS_PER_MILLI: f64 = 1000.0;

impl Transactions {
    /// One request.
    pub(crate) fn of(exchange: &FinishedExchange) -> Self {
        Self::one(
            RequestStatus::of(exchange),
            exchange.request_head_bytes() + exchange.bytes_in,
            exchange.answer.as_ref().map_or(0, |answer| answer.head_bytes) + exchange.bytes_out,
            exchange.end_to_end_latency(),
            exchange.server_latency(),
        )
    }

    pub(crate) fn one(
        status: RequestStatus,
        ingress: u64,
        egress: u64,
        end_to_end: Duration,
        server: Duration,
    ) -> Self {
        let mut one = Self { ingress, egress, ..Self::default() };
        one.requests[status.kind as usize][prefix(status.requester)] = 1;
        if status.kind == StatusKind::Success {
            one.end_to_end_micros = micros(end_to_end);
            one.server_micros = micros(server);
        }
        one
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        for (to, more) in self.requests.as_flattened_mut().iter_mut().zip(other.requests.as_flattened()) {
            add(to, *more);
        }
        add(&mut self.ingress, other.ingress);
        add(&mut self.egress, other.egress);
        add(&mut self.end_to_end_micros, other.end_to_end_micros);
        add(&mut self.server_micros, other.server_micros);
    }

    /// How many requests they are.
    pub(crate) fn total(&self) -> u64 {
        self.requests.as_flattened().iter().sum()
    }

    /// How many of them have such a status.
    fn count(&self, included: impl Fn(RequestStatus) -> bool) -> u64 {
        self.each().filter(|(status, _)| included(*status)).map(|(_, count)| count).sum()
    }

    fn each(&self) -> impl Iterator<Item = (RequestStatus, u64)> {
        StatusKind::ALL.into_iter().flat_map(move |kind| {
            let status = move |requester| RequestStatus { kind, requester };
            REQUESTERS.map(status).into_iter().zip(self.requests[kind as usize])
        })
    }

    fn successes(&self) -> u64 {
        self.count(|status| status.kind == StatusKind::Success)
    }

    /// All columns of a row.
    pub(crate) fn to_properties(self) -> Properties {
        let mut columns = PropertiesBuilder::new();
        let mut push = |name: &str, value| {
            if let Err(error) = columns.push(name, value) {
                tracing::error!(%error, name, "a column of metrics cannot be written");
            }
        };
        let total = self.total();
        let billable = self.count(RequestStatus::is_billable);
        for (name, number) in [
            (TOTAL_INGRESS, self.ingress),
            (TOTAL_EGRESS, self.egress),
            ("TotalRequests", total),
            ("TotalBillableRequests", billable),
        ] {
            push(name, integer(number));
        }
        for (status, count) in self.each() {
            push(&column(status), integer(count));
        }
        let of_available = self.count(RequestStatus::counts_in_availability);
        // Nobody was let down.
        let availability = if of_available == 0 { 100.0 } else { percentage(billable, of_available) };
        push("Availability", ValueRef::Double(availability));
        for (name, sum) in [(END_TO_END, self.end_to_end_micros), (SERVER, self.server_micros)] {
            push(name, ValueRef::Double(average_millis(sum, self.successes())));
        }
        for (name, kinds) in PERCENTAGES {
            let some = self.count(|status| kinds.contains(&status.kind));
            push(name, ValueRef::Double(percentage(some, total)));
        }
        columns.finish()
    }

    /// Reads a row. A column that is missing counts as zero.
    pub(crate) fn from_properties(row: &Properties) -> Self {
        let integer = |name: &str| match row.get(name) {
            Some(ValueRef::Int64(number)) => u64::try_from(number).unwrap_or(0),
            _ => 0,
        };
        let mut read =
            Self { ingress: integer(TOTAL_INGRESS), egress: integer(TOTAL_EGRESS), ..Self::default() };
        for kind in StatusKind::ALL {
            read.requests[kind as usize] =
                REQUESTERS.map(|requester| integer(&column(RequestStatus { kind, requester })));
        }
        let successes = read.successes();
        let sum = |name: &str| match row.get(name) {
            Some(ValueRef::Double(average)) => sum_micros(average, successes),
            _ => 0,
        };
        (read.end_to_end_micros, read.server_micros) = (sum(END_TO_END), sum(SERVER));
        read
    }
}

/// The column of a status.
fn column(status: RequestStatus) -> String {
    format!("{}{}", PREFIXES[prefix(status.requester)], status.kind.name())
}

fn integer(number: u64) -> ValueRef<'static> {
    ValueRef::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn percentage(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * some as f64 / all as f64 }
}

fn average_millis(sum_micros: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum_micros as f64 / count as f64 / MICROS_PER_MILLI }
}

/// The reverse of [`average_millis`]. Exact up to 2^50 microseconds, which is 35 years of requests in one row: the error of the three
/// roundings is then less than half a microsecond.
fn sum_micros(average_millis: f64, count: u64) -> u64 {
    (average_millis * MICROS_PER_MILLI * count as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn get(row: &Properties, name: &str) -> f64 {
        match row.get(name) {
            Some(ValueRef::Int64(number)) => number as f64,
            Some(ValueRef::Double(number)) => number,
            other => panic!("{name}: {other:?}"),
        }
    }

    const COLUMNS: &str = "TotalIngress, TotalEgress, TotalRequests, TotalBillableRequests, \
        Success, AnonymousSuccess, SASSuccess, ThrottlingError, AnonymousThrottlingError, SASThrottlingError, \
        ClientTimeoutError, AnonymousClientTimeoutError, SASClientTimeoutError, \
        ServerTimeoutError, AnonymousServerTimeoutError, SASServerTimeoutError, \
        ClientOtherError, SASClientOtherError, AnonymousClientOtherError, \
        ServerOtherError, AnonymousServerOtherError, SASServerOtherError, \
        AuthorizationError, AnonymousAuthorizationError, SASAuthorizationError, \
        NetworkError, AnonymousNetworkError, SASNetworkError";
    const DOUBLES: &str = "Availability, AverageE2ELatency, AverageServerLatency, PercentSuccess, \
        PercentThrottlingError, PercentTimeoutError, PercentServerOtherError, PercentClientOtherError, \
        PercentAuthorizationError, PercentNetworkError";

    #[test]
    fn columns() {
        let row = Transactions::default().to_properties();
        let named = |is_integer: bool| {
            let of_kind = row.iter().filter(|(_, value)| matches!(value, ValueRef::Int64(_)) == is_integer);
            let mut names: Vec<_> = of_kind.map(|(name, _)| name.to_owned()).collect();
            names.sort();
            names
        };
        for (expected, is_integer, count) in [(COLUMNS, true, 28), (DOUBLES, false, 10)] {
            let mut expected: Vec<_> = expected.split(',').map(|name| name.trim().to_owned()).collect();
            expected.sort();
            assert_eq!((expected.len(), named(is_integer)), (count, expected));
        }
        for (name, expected) in [("Availability", 100.0), ("PercentSuccess", 0.0), ("AverageE2ELatency", 0.0)]
        {
            assert_eq!(get(&row, name), expected, "{name} without requests");
        }
    }

    /// Statuses by name, how often, and the columns that follow, computed by hand.
    #[test]
    fn shares_and_availability() {
        use Requester::*;
        use StatusKind::*;
        for (case, requests, expected) in [
            (
                "errors of clients are no fault of ours",
                vec![(Success, Key, 6), (ClientOtherError, Sas, 3), (AuthorizationError, Key, 1)],
                vec![
                    ("TotalRequests", 10.0),
                    ("TotalBillableRequests", 10.0),
                    ("Availability", 100.0),
                    ("PercentSuccess", 60.0),
                    ("PercentClientOtherError", 30.0),
                    ("PercentAuthorizationError", 10.0),
                    ("SASClientOtherError", 3.0),
                    ("ClientOtherError", 0.0),
                ],
            ),
            (
                "server errors lower availability, throttling does not",
                vec![
                    (Success, Sas, 6),
                    (ThrottlingError, Key, 4),
                    (ServerTimeoutError, Key, 1),
                    (ServerOtherError, Sas, 1),
                ],
                vec![
                    ("TotalBillableRequests", 6.0),
                    ("Availability", 75.0),
                    ("PercentSuccess", 50.0),
                    ("PercentThrottlingError", 400.0 / 12.0),
                    ("PercentTimeoutError", 100.0 / 12.0),
                ],
            ),
            (
                "anonymous refusals count in the total only",
                vec![
                    (Success, Anonymous, 1),
                    (AuthorizationError, Anonymous, 3),
                    (ClientTimeoutError, Sas, 1),
                ],
                vec![
                    ("TotalRequests", 5.0),
                    ("TotalBillableRequests", 2.0),
                    ("Availability", 100.0),
                    ("PercentTimeoutError", 20.0),
                    ("AnonymousSuccess", 1.0),
                    ("AnonymousAuthorizationError", 3.0),
                ],
            ),
            (
                "tokens have no columns of their own",
                vec![(Success, Bearer, 2), (NetworkError, Bearer, 2)],
                vec![
                    ("Success", 2.0),
                    ("NetworkError", 2.0),
                    ("PercentNetworkError", 50.0),
                    ("Availability", 100.0),
                ],
            ),
        ] {
            let mut sum = Transactions::default();
            for (kind, requester, count) in requests {
                let status = RequestStatus { kind, requester };
                for _ in 0..count {
                    sum.add(&Transactions::one(status, 10, 20, Duration::ZERO, Duration::ZERO));
                }
            }
            let row = sum.to_properties();
            for (name, expected) in expected {
                assert_eq!(get(&row, name), expected, "{case}: {name}");
            }
            assert_eq!(get(&row, "TotalEgress"), 2.0 * get(&row, "TotalIngress"), "{case}");
        }
    }

    #[test]
    fn latencies_are_those_of_successful_requests() {
        let mut sum = Transactions::default();
        for (kind, millis) in
            [(StatusKind::Success, 10), (StatusKind::Success, 30), (StatusKind::ClientOtherError, 5000)]
        {
            let status = RequestStatus { kind, requester: Requester::Sas };
            let (end_to_end, server) = (Duration::from_millis(millis), Duration::from_millis(millis / 2));
            sum.add(&Transactions::one(status, 0, 0, end_to_end, server));
        }
        let row = sum.to_properties();
        assert_eq!((get(&row, END_TO_END), get(&row, SERVER)), (20.0, 10.0));
    }

    proptest! {
        #[test]
        fn rows_are_read_back_exactly(
            counts in prop::collection::vec(0u64..1 << 40, 24),
            (ingress, egress) in (0u64..1 << 62, 0u64..1 << 62),
            (end_to_end, server) in (0u64..1 << 50, 0u64..1 << 50),
        ) {
            let mut row = Transactions { ingress, egress, end_to_end_micros: end_to_end, server_micros: server, ..Default::default() };
            row.requests.as_flattened_mut().copy_from_slice(&counts);
            if row.successes() == 0 {
                (row.end_to_end_micros, row.server_micros) = (0, 0);
            }
            prop_assert_eq!(Transactions::from_properties(&row.to_properties()), row);
        }
    }
}
