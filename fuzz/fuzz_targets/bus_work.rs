//! Reads any text as each of the work documents. Never may a byte of it be lost on the way through the store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_bus::work::{Document, Kind};

fuzz_target!(|text: &str| {
    for kind in [Kind::Queue, Kind::Done, Kind::Board] {
        let document = Document::parse(kind, text);
        assert_eq!(document.render(), text);
        let stored = serde_json::to_string(&document).expect("a document is JSON");
        let read: Document = serde_json::from_str(&stored).expect("and reads back");
        assert_eq!(read, document);
        for record in document.records() {
            assert_eq!(record.kind(), kind);
            assert!(!record.line().contains('\n'));
        }
    }
});
