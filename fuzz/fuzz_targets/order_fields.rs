#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| adapter_http::fuzzing::order_fields(data));
