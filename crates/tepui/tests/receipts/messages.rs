//! Messages.

use crate::ledger::{Counted, Ledger, check};
use crate::support::blob::inside;

/// A message as the body of a request.
fn message(bytes: usize) -> Vec<u8> {
    format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", "x".repeat(bytes)).into_bytes()
}

#[test]
fn messages() {
    let mut ledger = Ledger::of("queue");
    ledger.done("PUT", "/jobs", &[], b"");
    let all = [10, 3 * 1024, 500, 1024];
    let units = |bytes: usize| (bytes / 1024).max(1);
    for bytes in all {
        let reply = ledger.done("POST", "/jobs/messages", &[], &message(bytes));
        let expected = format!("ranges=0, scanned=0, returned=0, units={}", units(bytes));
        let counted = Counted { units: units(bytes), ..Counted::default() };
        check(&format!("put {bytes}"), &reply, &expected, counted);
    }
    for (case, options, found, receipt) in [
        ("peek", "?peekonly=true", &all[..1], "ranges=1, scanned=1, returned=1, units=1"),
        ("peek two", "?peekonly=true&numofmessages=2", &all[..2], "ranges=1, scanned=2, returned=2, units=4"),
        ("peek all", "?peekonly=true&numofmessages=32", &all, "ranges=1, scanned=4, returned=4, units=6"),
        ("get", "", &all[..1], "ranges=1, scanned=1, returned=1, units=1"),
        ("get the rest", "?numofmessages=32", &all[1..], "ranges=1, scanned=3, returned=3, units=5"),
        ("get nothing", "?numofmessages=32", &[], "ranges=1, scanned=0, returned=0, units=1"),
        ("peek at nothing", "?peekonly=true", &[], "ranges=1, scanned=0, returned=0, units=1"),
    ] {
        let reply = ledger.done("GET", &format!("/jobs/messages{options}"), &[], b"");
        let sum: usize = found.iter().map(|bytes| units(*bytes)).sum();
        let counted =
            Counted { scanned: found.len(), returned: found.len(), units: sum.max(1), has_more: false };
        check(case, &reply, receipt, counted);
    }

    ledger.done("POST", "/jobs/messages", &[], &message(10));
    let got = ledger.done("GET", "/jobs/messages", &[], b"").text();
    let part = |name: &str| inside(&got, name).unwrap().to_owned();
    let escaped = |receipt: String| receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let path = format!("/jobs/messages/{}", part("MessageId"));
    let receipt = escaped(part("PopReceipt"));
    let update = format!("{path}?popreceipt={receipt}&visibilitytimeout=60");
    let reply = ledger.done("PUT", &update, &[], &message(2048));
    let changed = |units| Counted { units, ..Counted::default() };
    check("update", &reply, "ranges=0, scanned=0, returned=0, units=2", changed(2));
    let stale = ledger.send("DELETE", &format!("{path}?popreceipt={receipt}"), &[], b"");
    assert_eq!((stale.status, stale.header("tepui-receipt")), (404, None), "a stale pop receipt");
    let receipt = escaped(reply.header("x-ms-popreceipt").unwrap().to_owned());
    let reply = ledger.done("DELETE", &format!("{path}?popreceipt={receipt}"), &[], b"");
    check("delete", &reply, "ranges=0, scanned=0, returned=0, units=1", changed(1));
    ledger.audit();
}
