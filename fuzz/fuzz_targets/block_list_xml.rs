#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tepui_fuzz::targets::block_list_xml(data));
