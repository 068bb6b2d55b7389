//! Pop receipts: the value of a parameter.

use tepui_wire::query::Query;
use tepui_wire::queue::pop_receipt::{parse, print};

pub(super) const WORDS: &[&str] =
    &["cG9wM", "cG9wMQfDHtCred4IKgAAAAAAAAABAAAA", "AAAA", "////", "++++", " ", "=", "%2B", "%3D", "%"];

/// A receipt has one text, with which it comes back also if nothing in it was escaped.
pub fn pop_receipt(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(receipt) = parse(text) else { return };
    let printed = String::from_utf8(print(&receipt).to_vec()).expect("base64 is ASCII");
    assert_eq!(printed, text.replace(' ', "+"));
    for sent in [printed.clone(), printed.replace('+', "%2B")] {
        let query = Query::parse(Some(&format!("popreceipt={sent}")));
        assert_eq!(query.get("popreceipt").and_then(parse), Some(receipt), "{sent}");
    }
}
