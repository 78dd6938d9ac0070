//! What the environment says of the push.

use std::time::Duration;

use muster_bus::push::Settings;

fn of(values: &[(&str, &str)]) -> Result<Settings, String> {
    let env = |name: &str| {
        let value = values.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| (*value).to_owned())
    };
    Settings::of(env).map_err(|error| error.to_string())
}

#[test]
fn nothing_set_gives_the_documented_defaults() {
    let settings = of(&[]).unwrap();
    assert_eq!(settings, Settings::default());
    assert_eq!(
        (settings.tiers, settings.gate_runner, settings.max_queue),
        (true, None, Some(Duration::from_secs(15)))
    );
    // As an entry of a client's configuration that was left empty.
    assert_eq!(
        of(&[("AGENT_COORD_TIERS", ""), ("AGENT_COORD_MAX_QUEUE_MS", " ")]).unwrap(),
        settings
    );
}

#[test]
fn each_variable_sets_its_own_thing() {
    let settings = of(&[
        ("AGENT_COORD_TIERS", "0"),
        ("AGENT_COORD_GATE_RUNNER", "1"),
        ("AGENT_COORD_MAX_QUEUE_MS", "2500"),
    ])
    .unwrap();
    assert_eq!(
        (settings.tiers, settings.gate_runner, settings.max_queue),
        (false, Some(true), Some(Duration::from_millis(2_500)))
    );
    assert_eq!(
        of(&[("AGENT_COORD_GATE_RUNNER", "0")]).unwrap().gate_runner,
        Some(false)
    );
    assert_eq!(of(&[("AGENT_COORD_MAX_QUEUE_MS", "0")]).unwrap().max_queue, None);
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_name_and_what_it_may_be() {
    for (name, value, may) in [
        ("AGENT_COORD_TIERS", "yes", "0 or 1"),
        ("AGENT_COORD_GATE_RUNNER", "2", "0 or 1"),
        ("AGENT_COORD_MAX_QUEUE_MS", "-1", "86400000"),
        ("AGENT_COORD_MAX_QUEUE_MS", "15s", "86400000"),
        ("AGENT_COORD_MAX_QUEUE_MS", "99999999999", "86400000"),
        ("AGENT_COORD_TIERS", "\u{1b}[2J", "0 or 1"),
    ] {
        let sentence = of(&[(name, value)]).unwrap_err();
        assert!(sentence.contains(name) && sentence.contains(may), "{sentence}");
        assert!(!sentence.contains('\u{1b}'), "{sentence}");
    }
}
