//! Metrics tables and logs are about the same requests.

use crate::client::Service;
use crate::logs::Logs;
use crate::reader::Record;
use crate::script;
use crate::session::{Session, port, request, service_name};
use crate::support::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use tempfile::TempDir;

const METRICS: &str = "<Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
    <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";

/// The rows of a metrics table.
struct Rows(Vec<Value>);

impl Rows {
    fn read(server: &Server, table: &str) -> Self {
        let get = request(Service::Table, "GET", &format!("/{table}()"));
        let traffic = get.with("Accept", "application/json;odata=nometadata").send(server.port);
        assert_eq!(
            (traffic.status, traffic.header("x-ms-continuation-nextpartitionkey")),
            (200, ""),
            "{table}"
        );
        let rows: Value = serde_json::from_slice(&traffic.body).unwrap();
        Self(rows["value"].as_array().unwrap().clone())
    }

    /// The sum of a column over the hours or minutes of a RowKey.
    fn sum(&self, row_key: &str, column: &str) -> u64 {
        let of_key = self.0.iter().filter(|row| row["RowKey"] == row_key);
        of_key.map(|row| row[column].as_str().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// The operations of users that have rows.
    fn operations(&self) -> BTreeSet<String> {
        let keys = self.0.iter().filter_map(|row| row["RowKey"].as_str()?.strip_prefix("user;"));
        keys.filter(|operation| *operation != "All").map(str::to_owned).collect()
    }
}

#[test]
fn metrics_sum_up_to_what_is_logged() {
    let directory = TempDir::new().unwrap();
    // Everything is written when it stops.
    let server = Server::on_disk_with(directory.path(), &["--analytics-flush-seconds", "60"]);
    for service in crate::SERVICES {
        let body = format!(
            "<StorageServiceProperties><HourMetrics>{METRICS}</HourMetrics><MinuteMetrics>{METRICS}</MinuteMetrics>\
             </StorageServiceProperties>"
        );
        let set = request(service, "PUT", "/?restype=service&comp=properties").body(&body);
        assert_eq!(set.send(port(&server, service)).status, 202);
    }
    script::run(&mut Session::new(&server, "session"), "1.0");
    assert!(server.stop().0.success());
    let server = Server::on_disk(directory.path());
    let logs = Logs::read(&server);
    for (service, name) in [(Service::Blob, "Blob"), (Service::Queue, "Queue"), (Service::Table, "Table")] {
        for period in ["Hour", "Minute"] {
            let rows = Rows::read(&server, &format!("$Metrics{period}PrimaryTransactions{name}"));
            compare(&rows, &logs, service, name);
        }
    }
    // Each log was written by one request of the server itself.
    let blob = Rows::read(&server, "$MetricsHourPrimaryTransactionsBlob");
    assert_eq!(blob.sum("system;All", "Success"), logs.names.len() as u64);
    assert_eq!(blob.sum("system;PutBlob", "TotalRequests"), logs.names.len() as u64);
}

fn compare(rows: &Rows, logs: &Logs, service: Service, name: &str) {
    // The further lines of a copy are about the same request.
    let is_first = |record: &&Record| {
        record.get("service-type") == service_name(service) && record.number("operation-count") == 0
    };
    let records: Vec<&Record> = logs.records.iter().filter(is_first).collect();
    let logged: BTreeSet<String> =
        records.iter().map(|record| record.get("operation-type").to_owned()).collect();
    assert!(rows.operations().is_superset(&logged), "{logged:?}");
    let (mut compared, mut total) = (0, 0);
    for operation in rows.operations() {
        let row_key = format!("user;{operation}");
        let sum = |column: &str| rows.sum(&row_key, column);
        // What is counted and not logged: the request that switched metrics on, before logging was, and refused anonymous ones.
        let switching = u64::from(operation == format!("Set{name}ServiceProperties"));
        let refused = ["ClientOtherError", "AuthorizationError", "NetworkError"]
            .map(|error| sum(&format!("Anonymous{error}")))
            .iter()
            .sum::<u64>();
        let of_operation: Vec<&&Record> =
            records.iter().filter(|record| record.get("operation-type") == operation).collect();
        let lines = of_operation.len() as u64;
        assert_eq!(sum("TotalRequests"), lines + switching + refused, "{name} {operation}");
        total += sum("TotalRequests");
        if switching + refused > 0 {
            continue;
        }
        let in_lines = |fields: [&str; 2]| -> u64 {
            of_operation.iter().flat_map(|record| fields.map(|field| record.number(field))).sum()
        };
        let ingress = in_lines(["request-header-size", "request-packet-size"]);
        let egress = in_lines(["response-header-size", "response-packet-size"]);
        assert_eq!((sum("TotalIngress"), sum("TotalEgress")), (ingress, egress), "{name} {operation}");
        let successes = ["Success", "SASSuccess", "AnonymousSuccess"];
        for status in successes.into_iter().chain(["AuthorizationError"]) {
            let lines = of_operation.iter().filter(|record| record.get("request-status") == status).count();
            assert_eq!(sum(status), lines as u64, "{name} {operation} {status}");
        }
        compared += 1;
    }
    assert!(compared > 5, "{name}: the test tests nothing");
    assert_eq!(rows.sum("user;All", "TotalRequests"), total);
}
