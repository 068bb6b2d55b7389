//! What requests cost, printed under the step that sent them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tepui_client::SentRequest;

/// The requests since a step began.
#[derive(Clone, Default)]
pub(crate) struct Costs(Arc<Mutex<Vec<String>>>);

impl Costs {
    pub(crate) fn record(&self, request: &SentRequest<'_>) {
        let status = request.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        let cost = request.receipt.map(|receipt| receipt.cost.to_string()).unwrap_or_default();
        let line = format!("{:<5} {:<6} {status}  {cost}", request.service, request.method);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Prints what was found, and the requests that it took.
    pub(crate) fn show(&self, found: impl std::fmt::Display) {
        println!("  {found}");
        let lines = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut counts = BTreeMap::new();
        for line in &lines {
            *counts.entry(line.as_str()).or_insert(0) += 1;
        }
        // In the order in which they were first sent.
        for line in &lines {
            if let Some(count) = counts.remove(line.as_str()) {
                let times = if count == 1 { String::new() } else { format!("{count} x ") };
                println!("      {times}{}", line.trim_end());
            }
        }
    }
}
