//! Laws of an edit: what is asked for is there, nothing else is different, and a second time changes nothing.

use serde_json::json;

use super::*;

const AT: [Step<'static>; 2] = [Step::Key("mcpServers"), Step::Key("agent-coord")];

fn set(text: &str) -> String {
    let mut document = Document::read(text).unwrap();
    document
        .set(&AT, &json!({"args": ["a"], "command": "x"}))
        .unwrap();
    let edited = document.done().text;
    let mut expected: Value = serde_json::from_str(if text.trim().is_empty() { "{}" } else { text }).unwrap();
    expected["mcpServers"]["agent-coord"] = json!({"args": ["a"], "command": "x"});
    assert_eq!(
        serde_json::from_str::<Value>(&edited).unwrap(),
        expected,
        "{edited}"
    );
    let mut again = Document::read(&edited).unwrap();
    again.set(&AT, &json!({"command": "x", "args": ["a"]})).unwrap();
    let again = again.done();
    assert!(
        again.text == edited && again.shown.is_empty(),
        "{:?}",
        again.shown
    );
    edited
}

#[test]
fn an_empty_file_becomes_one_that_reads_well() {
    let expected = "{\n  \"mcpServers\": {\n    \"agent-coord\": {\n      \"args\": [\n        \"a\"\n      ],\n      \"command\": \"x\"\n    }\n  }\n}\n";
    for text in ["", " \n", "{}\n"] {
        assert_eq!(set(text), expected);
    }
}

#[test]
fn what_stands_there_stays_to_the_byte() {
    let texts = [
        "{\"z\":1.50,\"a\":123456789012345678901234567890}",
        "{\n\t\"z\": 1.50,\n\t\"mcpServers\": {},\n\t\"a\": [1,\n2]\n}",
        "{\n    \"mcpServers\": {\n        \"other}\": { \"command\": \"\\\"{[,\" }\n    },\n    \"b\": { }\n}\n\n",
        "{ \"mcpServers\" : {\"x\":{}} , \"é\": \"\\u00e9\" }",
    ];
    for text in texts {
        let edited = set(text);
        // Only something was put in between.
        let before = text
            .bytes()
            .zip(edited.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        let after = text
            .bytes()
            .rev()
            .zip(edited.bytes().rev())
            .take_while(|(one, other)| one == other)
            .count();
        assert!(before + after >= text.len() - 1, "{text}\n{edited}");
    }
    assert_eq!(
        set("{\"a\":1}"),
        "{\"a\":1, \"mcpServers\": {\"agent-coord\":{\"args\":[\"a\"],\"command\":\"x\"}}}"
    );
    assert_eq!(
        set("{\n\t\"mcpServers\": {\n\t\t\"b\": {}\n\t}\n}"),
        "{\n\t\"mcpServers\": {\n\t\t\"b\": {},\n\t\t\"agent-coord\": {\n\t\t\t\"args\": [\n\t\t\t\t\"a\"\n\t\t\t],\n\t\t\t\"command\": \"x\"\n\t\t}\n\t}\n}"
    );
}

#[test]
fn a_value_is_replaced_in_its_place_and_an_element_added_behind_the_last() {
    let mut document = Document::read("{\"a\": [{\"b\": \"old\"}, 2], \"c\": 1}").unwrap();
    document
        .set(&[Step::Key("a"), Step::At(0), Step::Key("b")], &json!("new"))
        .unwrap();
    document.push(&[Step::Key("a")], &json!({"d": 3})).unwrap();
    document
        .push(&[Step::Key("e"), Step::Key("f")], &json!(4))
        .unwrap();
    let edited = document.done();
    assert_eq!(
        edited.text,
        "{\"a\": [{\"b\": \"new\"}, 2, {\"d\":3}], \"c\": 1, \"e\": {\"f\":[4]}}"
    );
    assert_eq!(edited.shown[0..2], ["- a[0].b: \"old\"", "+ a[0].b: \"new\""]);
}

#[test]
fn what_is_no_strict_json_or_says_a_thing_twice_is_refused() {
    for text in ["{", "[]", "{} // x", "{\"a\": 1,}", "\u{feff}{}", "7", "{'a': 1}"] {
        assert!(Document::read(text).is_err(), "{text}");
    }
    for text in [
        "{\"mcpServers\": [], \"b\": 1}",
        "{\"mcpServers\": {}, \"mcpServers\": {}}",
        "{\"mcpServers\": null}",
    ] {
        let mut document = Document::read(text).unwrap();
        assert!(document.set(&AT, &json!({})).is_err(), "{text}");
        let edited = document.done();
        assert!(edited.text == text && edited.shown.is_empty(), "{text}");
    }
}
