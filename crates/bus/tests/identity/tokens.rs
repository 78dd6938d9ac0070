//! The map of tokens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use muster_bus::tokens::{self, Tokens};
use muster_bus::{BusError, SeatId};

use crate::{World, seat};

fn mode(world: &World) -> u32 {
    fs::metadata(world.dir.path().join("tokens.json"))
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

// spec: STO-016 IDN-023 IDN-035
#[test]
fn a_new_token_is_tk_and_24_random_bytes_in_a_file_of_its_user_alone() {
    let world = World::new();
    assert!(Tokens::load(&world.home).unwrap().is_none());
    let first = tokens::mint(&world.home, &seat("alice")).unwrap();
    let other = tokens::mint(&world.home, &seat("bob")).unwrap();
    for token in [&first, &other] {
        let digits = token.expose().strip_prefix("tk_").unwrap();
        assert!(digits.len() == 48 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    }
    assert_ne!(first.expose(), other.expose());
    assert_eq!(mode(&world), 0o600);
    let map = world.json("tokens.json");
    assert_eq!(
        (&map["alice"], &map["bob"]),
        (&first.expose().into(), &other.expose().into())
    );
    assert_eq!(tokens::list(&world.home).unwrap(), [seat("alice"), seat("bob")]);
}

#[test]
fn a_token_is_found_by_its_whole_value_and_by_nothing_else() {
    let world = World::new();
    let token = tokens::mint(&world.home, &seat("alice")).unwrap();
    tokens::mint(&world.home, &seat("bob")).unwrap();
    let map = Tokens::load(&world.home).unwrap().unwrap();
    assert_eq!(map.find(token.expose()), Some(seat("alice")));
    assert!(map.matches(&seat("alice"), token.expose()) && !map.matches(&seat("bob"), token.expose()));
    let short = token.expose().get(..50).unwrap();
    for wrong in [
        "",
        "tk_",
        short,
        &format!("{}0", token.expose()),
        &token.expose().to_uppercase(),
        "alice",
    ] {
        assert_eq!(map.find(wrong), None, "{wrong}");
        assert!(!map.matches(&seat("alice"), wrong) && !map.matches(&seat("nobody"), wrong));
    }
}

#[test]
fn minting_replaces_and_revoking_the_last_one_lets_nobody_in() {
    let world = World::new();
    let old = tokens::mint(&world.home, &seat("alice")).unwrap();
    let new = tokens::mint(&world.home, &seat("alice")).unwrap();
    let map = Tokens::load(&world.home).unwrap().unwrap();
    assert_eq!(
        (map.find(old.expose()), map.find(new.expose())),
        (None, Some(seat("alice")))
    );

    assert!(tokens::revoke(&world.home, &seat("alice")).unwrap());
    assert!(!tokens::revoke(&world.home, &seat("alice")).unwrap());
    let map = Tokens::load(&world.home).unwrap();
    assert!(map.is_some_and(|map| map.find(new.expose()).is_none() && map.seats().is_empty()));
}

// spec: IDN-026
#[test]
fn a_looser_mode_is_seen_and_every_act_repairs_it() {
    let world = World::new();
    assert!(!tokens::loose_mode(&world.home), "there is no file yet");
    tokens::mint(&world.home, &seat("alice")).unwrap();
    let acts: [&dyn Fn(); 4] = [
        &|| drop(tokens::mint(&world.home, &seat("bob")).unwrap()),
        &|| drop(tokens::list(&world.home).unwrap()),
        &|| assert!(!tokens::revoke(&world.home, &seat("nobody")).unwrap()),
        &|| assert!(tokens::tighten(&world.home).unwrap()),
    ];
    for act in acts {
        fs::set_permissions(
            world.dir.path().join("tokens.json"),
            Permissions::from_mode(0o644),
        )
        .unwrap();
        assert!(tokens::loose_mode(&world.home));
        act();
        assert!(!tokens::loose_mode(&world.home));
        assert_eq!(mode(&world), 0o600);
    }
    assert!(!tokens::tighten(&world.home).unwrap());
}

// spec: IDN-027
#[test]
fn a_malformed_map_is_an_error_that_names_the_file_and_no_value_and_is_never_written_over() {
    let world = World::new();
    for text in [
        "{\"alice\":\"tk_secret",
        "[]",
        "null",
        "\"tk_secret\"",
        "",
        r#"{"alice":"tk_secret","bob":"tk_secret"}"#,
        r#"{"alice":"tk_secret","alice":"tk_secret2"}"#,
        r#"{"alice":17}"#,
        r#"{"alice":""}"#,
        r#"{"alice":"tk_secret\n"}"#,
        r#"{"tk_secret!":"alice"}"#,
        r#"{"../tk_secret":"alice"}"#,
        r#"{"system":"tk_secret"}"#,
    ] {
        world.put("tokens.json", text);
        let errors = [
            Tokens::load(&world.home).err(),
            tokens::mint(&world.home, &seat("carol")).err(),
            tokens::list(&world.home).err(),
            tokens::revoke(&world.home, &seat("alice")).err(),
            tokens::rename(&world.home, &seat("alice"), &seat("carol")).err(),
        ];
        for error in errors {
            let error = error.unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(matches!(error, BusError::Tokens(_)), "{text}: {error}");
            let said = format!("{error} {error:?} {}", error.chain());
            assert!(said.contains("tokens.json") && !said.contains("secret"), "{said}");
        }
        assert_eq!(
            fs::read_to_string(world.dir.path().join("tokens.json")).unwrap(),
            text
        );
    }
}

#[test]
fn no_token_is_in_what_a_log_could_show() {
    let world = World::new();
    let token = tokens::mint(&world.home, &seat("alice")).unwrap();
    let map = Tokens::load(&world.home).unwrap().unwrap();
    let shown = format!("{token:?} {map:?} {:#?}", Some(&map));
    assert!(
        !shown.contains(token.expose()) && !shown.contains(token.expose().get(3..20).unwrap()),
        "{shown}"
    );
}

// spec: IDN-032
#[test]
fn a_rename_moves_the_token_in_one_write() {
    let world = World::new();
    let token = tokens::mint(&world.home, &seat("alice")).unwrap();
    let other = tokens::mint(&world.home, &seat("bob")).unwrap();
    assert!(tokens::rename(&world.home, &seat("alice"), &seat("carol")).unwrap());
    assert!(!tokens::rename(&world.home, &seat("alice"), &seat("carol")).unwrap());
    let map = Tokens::load(&world.home).unwrap().unwrap();
    assert_eq!(map.find(token.expose()), Some(seat("carol")));
    assert_eq!(map.seats(), ["bob", "carol"].map(|id| SeatId::parse(id).unwrap()));

    let refused = tokens::rename(&world.home, &seat("carol"), &seat("bob"));
    assert!(matches!(refused, Err(BusError::IdInUse { .. })));
    let map = Tokens::load(&world.home).unwrap().unwrap();
    assert_eq!(
        (map.find(token.expose()), map.find(other.expose())),
        (Some(seat("carol")), Some(seat("bob")))
    );
}

#[test]
fn writers_at_once_lose_no_token() {
    let world = World::new();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let home = &world.home;
            scope.spawn(move || {
                for number in 0..10 {
                    tokens::mint(home, &seat(&format!("agent-{worker}-{number}"))).unwrap();
                }
            });
        }
    });
    assert_eq!(tokens::list(&world.home).unwrap().len(), 40);
}
