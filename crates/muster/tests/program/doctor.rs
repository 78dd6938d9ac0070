//! `muster doctor`: what it finds, in what words, and that it makes nothing. Never looks inside.

use serde_json::Value;

use crate::support::Place;

/// Doctor's findings as rows of check and detail.
fn findings(place: &Place) -> (i32, Vec<(String, String)>) {
    let said = place.run(&["doctor", "--json"]);
    let all: Value = serde_json::from_str(&said.out).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = all["findings"].as_array().unwrap();
    (
        said.code(),
        rows.iter()
            .map(|row| (text(&row["check"]), text(&row["detail"])))
            .collect(),
    )
}

#[test]
fn doctor_makes_nothing_and_counts_in_english() {
    let place = Place::new().with("MUSTER_PLUGINS", "");
    let says = |place: &Place, check: &str, words: &str| {
        let (_, all) = findings(place);
        assert!(
            all.iter()
                .any(|(name, detail)| name == check && detail.contains(words)),
            "{check}: {words} is not in {all:?}"
        );
    };
    assert_eq!(findings(&place).0, 1);
    says(&place, "data folder", "is not made yet; muster serve makes it");
    says(
        &place,
        "database",
        "muster.db is not made yet; muster serve makes it",
    );
    says(&place, "connectors", "MUSTER_PLUGINS is off");
    says(&place, "owners", "muster owner add");
    says(&place, "bus", "there is no bus at");
    assert!(!place.data().exists() && !place.path("home").exists());

    place.add_owner("ada");
    place.add_connector("ada", "mail");
    place.ok(&["chief", "set", "--runtime", "command", "--command", "cat"]);
    assert_eq!(findings(&place).0, 0);
    says(&place, "owner", "ada: chief command, 1 connector");
    assert!(
        !findings(&place)
            .1
            .iter()
            .any(|(_, detail)| detail.contains("1 connectors"))
    );
    place.add_connector("ada", "chat");
    says(&place, "owner", "ada: chief command, 2 connectors");
    place.run(&[
        "chief",
        "set",
        "--runtime",
        "command",
        "--command",
        "/nonexistent/chief",
    ]);
    assert_eq!(findings(&place).0, 1);
    says(
        &place,
        "owner",
        "ada: the chief's program is not found on this machine: /nonexistent/chief",
    );
    let place = place.with("MUSTER_PLUGINS", "1");
    says(&place, "connectors", "MUSTER_PLUGINS is on");
}

#[test]
fn doctor_looks_at_the_bus_too() {
    let place = Place::new();
    place.add_owner("ada");
    place.ok(&["init"]);
    let bus = |place: &Place| {
        let (code, all) = findings(place);
        let of = all.into_iter().find(|(name, _)| name == "bus").unwrap().1;
        (code, of)
    };
    let (code, said) = bus(&place);
    assert!(code == 0 && said.starts_with("healthy: the bus at "), "{said}");
    std::fs::write(place.path("home/agent-coord/room.jsonl"), "damage\n").unwrap();
    let (code, said) = bus(&place);
    assert!(
        code == 1 && said.starts_with("not healthy") && said.contains("muster bus doctor"),
        "{said}"
    );
    let left = std::fs::read_to_string(place.path("home/agent-coord/room.jsonl")).unwrap();
    assert_eq!(left, "damage\n", "it never repairs");
}
