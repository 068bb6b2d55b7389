//! The pages of a blob as XML: the body of Get Page Ranges.

use crate::address::Service;
use crate::xml::Printer;
use tepui_model::blob::{PageRanges, PageState};

pub(super) fn print(pages: &PageRanges) -> Vec<u8> {
    let mut body = Printer::new(Service::Blob);
    body.parent("PageList", |body| {
        for (state, range) in &pages.ranges {
            let name = match state {
                PageState::Written => "PageRange",
                PageState::Cleared => "ClearRange",
            };
            body.parent(name, |body| {
                body.leaf("Start", &range.first.to_string());
                body.leaf("End", &range.last.unwrap_or(range.first).to_string());
            });
        }
        if let Some(next) = pages.next {
            body.leaf("NextMarker", &next.to_string());
        }
    });
    body.finish()
}
