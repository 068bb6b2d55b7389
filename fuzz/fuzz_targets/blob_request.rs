#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tepui_fuzz::targets::blob_request(data));
