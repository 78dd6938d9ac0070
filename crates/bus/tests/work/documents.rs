//! Parsing and rendering, as laws over any text. Never touches a disk.

use muster_bus::work::{Document, Kind, Record};
use proptest::prelude::*;

fn records(kind: Kind, text: &str) -> Vec<Record> {
    Document::parse(kind, text).records().cloned().collect()
}

fn queue(priority: Option<&str>, text: &str, done: bool) -> Record {
    Record::Queue {
        priority: priority.map(str::to_owned),
        text: text.to_owned(),
        done,
    }
}

fn done(text: &str, reference: Option<&str>, date: Option<&str>) -> Record {
    Record::Done {
        text: text.to_owned(),
        reference: reference.map(str::to_owned),
        date: date.map(str::to_owned),
    }
}

// spec: WRK-004
#[test]
fn a_queue_item_has_its_text_its_tick_and_the_priority_of_the_heading_above() {
    let text = "# Queue\n- [ ] before any\n\n## P0 — now\n- [ ] first\n- [x] second\n### details\n- [ ] third\n## p1: next\n  * [X] fourth  \n## Later\n- [ ] fifth\n- no box\n- [ ] \n";
    assert_eq!(
        records(Kind::Queue, text),
        [
            queue(None, "before any", false),
            queue(Some("P0"), "first", false),
            queue(Some("P0"), "second", true),
            queue(Some("P0"), "third", false),
            queue(Some("P1"), "fourth", true),
            queue(None, "fifth", false),
        ]
    );
}

// spec: WRK-005 WRK-018
#[test]
fn the_reference_stands_behind_the_last_dash_and_the_date_behind_a_trailing_dot() {
    let lines = [
        (
            "- plain — abc123 · 2026-11-30",
            done("plain", Some("abc123"), Some("2026-11-30")),
        ),
        ("- a — b — c · d", done("a — b", Some("c"), Some("d"))),
        ("- a · b — c", done("a · b", Some("c"), None)),
        (
            "- a — b · c · 2026-01-02",
            done("a", Some("b · c"), Some("2026-01-02")),
        ),
        ("- a · b", done("a · b", None, None)),
        ("- a · 2026-01-02", done("a", None, Some("2026-01-02"))),
        (
            "- [x] ticked — #12 · 2026-01-02",
            done("ticked", Some("#12"), Some("2026-01-02")),
        ),
        ("- nothing at all", done("nothing at all", None, None)),
        (
            "bare — #1 · 2026-01-02",
            done("bare", Some("#1"), Some("2026-01-02")),
        ),
    ];
    for (line, record) in lines {
        assert_eq!(records(Kind::Done, line), [record], "{line}");
    }
    assert_eq!(
        records(
            Kind::Done,
            "A sentence — with a dash.\n\n# A heading — x · 2026-01-02"
        ),
        []
    );
}

// spec: WRK-012
#[test]
fn a_record_renders_with_its_reference_behind_the_last_dash_and_its_date_behind_a_trailing_dot() {
    assert_eq!(
        done("a — b", Some("c"), Some("2026-01-02")).line(),
        "- a — b — c · 2026-01-02"
    );
    assert_eq!(done("a", Some("c"), None).line(), "- a — c");
    assert_eq!(done("a", None, Some("2026-01-02")).line(), "- a · 2026-01-02");
    assert_eq!(queue(Some("P0"), "a", true).line(), "- [x] a");
    assert_eq!(queue(None, "a", false).line(), "- [ ] a");
}

// spec: WRK-003
#[test]
fn a_board_row_has_its_cells_by_column_and_the_heading_above_its_table() {
    let text = "# Board\n## Now\n\n| Stream | Owner |\n|:---|---:|\n| bus \\| web | `ann` |\n| short |\n| a | b | c |\n\nno row\n| not | a table |\n| either | way |\n";
    let row = |section: &str, cells: &[(&str, &str)]| Record::Board {
        section: Some(section.to_owned()),
        cells: cells
            .iter()
            .map(|(name, cell)| ((*name).to_owned(), (*cell).to_owned()))
            .collect(),
    };
    assert_eq!(
        records(Kind::Board, text),
        [
            row("Now", &[("Stream", "bus | web"), ("Owner", "`ann`")]),
            row("Now", &[("Stream", "short")]),
            row("Now", &[("Stream", "a"), ("Owner", "b"), ("", "c")]),
        ]
    );
}

#[test]
fn what_stands_in_a_block_of_code_is_no_record() {
    let text = "## P0\n```md\n- [ ] an example\n~~~\n## P1\n```\n- [ ] real\n~~~~\n```\n- [ ] another example\n~~~~\n- [ ] real too\n";
    assert_eq!(
        records(Kind::Queue, text),
        [
            queue(Some("P0"), "real", false),
            queue(Some("P0"), "real too", false)
        ]
    );
}

/// Text made of the pieces that mean something here, so that chance finds the strange orders of them.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("- [ ] ".to_owned()),
        Just("- [x] ".to_owned()),
        Just("* [X]".to_owned()),
        Just("- ".to_owned()),
        Just("## P0".to_owned()),
        Just("###".to_owned()),
        Just(" — ".to_owned()),
        Just(" · ".to_owned()),
        Just("2026-01-02".to_owned()),
        Just("|".to_owned()),
        Just("| --- | :-: |\n".to_owned()),
        Just("\\".to_owned()),
        Just("\\|".to_owned()),
        Just("```".to_owned()),
        Just(" ".to_owned()),
        Just("\t".to_owned()),
        "[a-zäß\u{2028}😀]{1,3}",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn kinds() -> [Kind; 3] {
    [Kind::Queue, Kind::Done, Kind::Board]
}

proptest! {
    // spec: WRK-013
    #[test]
    fn every_document_renders_to_the_bytes_it_was_read_from(text in text()) {
        for kind in kinds() {
            let document = Document::parse(kind, &text);
            prop_assert_eq!(document.render(), text.as_str());
            // And after it was stored.
            let stored: Document = serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
            prop_assert_eq!(stored.render(), text.as_str());
            prop_assert_eq!(stored, document);
        }
    }

    // spec: WRK-012
    #[test]
    fn a_rendered_record_reads_as_itself(
        text in "[a-z·—][a-z —·]{0,20}[a-z]", reference in "[a-z#0-9]{1,8}", date in "20[0-9]{2}-[01][0-9]-[0-3][0-9]", ticked: bool,
    ) {
        let text = text.trim().to_owned();
        let whole = done(&text, Some(&reference), Some(&date));
        prop_assert_eq!(records(Kind::Done, &whole.line()), [whole]);
        let undated = done(&text, Some(&reference), None);
        prop_assert_eq!(records(Kind::Done, &undated.line()), [undated]);
        let item = queue(Some("P3"), &text, ticked);
        prop_assert_eq!(records(Kind::Queue, &format!("## P3\n{}", item.line())), [item]);
    }
}
