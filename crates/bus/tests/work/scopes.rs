//! Declared write scopes. Never is a broken declaration taken for none.

use muster_bus::BusError;
use muster_bus::registry::register;
use muster_bus::scopes::{list, may_write, owner};

use crate::{World, all, seat};

fn world(scopes: &str) -> World {
    let world = World::new(&[]);
    world.declare(scopes);
    world
}

// spec: SCO-001 SCO-003 STO-016
#[test]
fn every_form_of_the_file_declares_the_same() {
    let forms = [
        r#"{"docs/QUEUE.md": "lead", "./docs//*.md": ["docs", "lead"]}"#,
        r#"{"documents": [{"path": "docs/QUEUE.md", "role": "lead"}, {"path": "docs/*.md", "roles": ["docs", "lead"]}]}"#,
        r#"{"version": 1, "documents": [{"path": "docs/QUEUE.md", "roles": ["lead"]}, {"path": "docs/x/../*.md", "role": ["docs", "lead"]}]}"#,
    ];
    for form in forms {
        let world = world(form);
        let mut listed: Vec<_> = list(&world.home)
            .unwrap()
            .into_iter()
            .map(|scope| (scope.path, scope.roles.join(",")))
            .collect();
        listed.sort();
        let wanted = [("docs/*.md", "docs,lead"), ("docs/QUEUE.md", "lead")];
        assert_eq!(
            listed,
            wanted.map(|(path, roles)| (path.to_owned(), roles.to_owned())),
            "{form}"
        );
    }
}

// spec: SCO-002 SCO-007
#[test]
fn the_owner_may_write_another_may_not_and_nobody_owns_what_is_not_declared() {
    let world = world(r#"{"docs/QUEUE.md": ["lead", "planner"]}"#);
    register(&world.home, &seat("ann"), None, Some("Lead")).unwrap();
    register(&world.home, &seat("bob"), None, Some("dev")).unwrap();
    register(&world.home, &seat("cid"), None, None).unwrap();
    let ask = |path: &str, id: &str| may_write(&world.home, path, &seat(id)).unwrap();
    let owner = ask("docs/QUEUE.md", "ann");
    assert!(owner.owned && owner.may_write, "{owner:?}");
    let other = ask("docs/./QUEUE.md", "bob");
    assert!(other.owned && !other.may_write && other.path == "docs/QUEUE.md");
    assert!(
        other
            .note
            .contains("declared for lead or planner, and 'bob' is dev"),
        "{}",
        other.note
    );
    assert!(ask("docs/QUEUE.md", "cid").note.contains("'cid' has no role"));
    assert!(
        ask("docs/QUEUE.md", "dan")
            .note
            .contains("'dan' is not registered")
    );
    let free = ask("docs/OTHER.md", "dan");
    assert!(!free.owned && free.may_write && free.scope.is_none());
    for path in ["", "  ", "/", "..", "../x", "a/../../x", "a\0b"] {
        assert!(
            matches!(
                may_write(&world.home, path, &seat("ann")),
                Err(BusError::Argument(_))
            ),
            "{path:?}"
        );
    }
}

// spec: SCO-004
#[test]
fn asking_changes_nothing() {
    let world = world(r#"{"docs/QUEUE.md": "lead"}"#);
    register(&world.home, &seat("bob"), None, Some("dev")).unwrap();
    let before = all(world.home.root());
    may_write(&world.home, "docs/QUEUE.md", &seat("bob")).unwrap();
    list(&world.home).unwrap();
    assert_eq!(all(world.home.root()), before);
}

// spec: SCO-005
#[test]
fn an_absent_file_declares_nothing() {
    let world = World::new(&[]);
    assert_eq!(list(&world.home).unwrap(), []);
    let answer = may_write(&world.home, "docs/QUEUE.md", &seat("ann")).unwrap();
    assert!(!answer.owned && answer.may_write);
}

// spec: SCO-006
#[test]
fn a_malformed_file_is_told_of_and_never_taken_for_an_absent_one() {
    for broken in [
        "",
        "{",
        "[]",
        "null",
        "\"lead\"",
        r#"{"docs/QUEUE.md": 1}"#,
        r#"{"docs/QUEUE.md": null}"#,
        r#"{"docs/QUEUE.md": []}"#,
        r#"{"docs/QUEUE.md": ""}"#,
        r#"{"docs/QUEUE.md": ["lead", 2]}"#,
        r#"{"../QUEUE.md": "lead"}"#,
        r#"{"documents": [{"path": "docs/QUEUE.md"}]}"#,
        r#"{"documents": [{"role": "lead"}]}"#,
    ] {
        let world = world(broken);
        for answer in [
            list(&world.home).map(drop),
            may_write(&world.home, "docs/X.md", &seat("ann")).map(drop),
            owner(&world.home, "docs/X.md").map(drop),
        ] {
            let said = answer.unwrap_err().to_string();
            assert!(
                said.starts_with("scopes.json cannot be used ("),
                "{broken}: {said}"
            );
        }
    }
    let world = World::new(&[]);
    std::fs::create_dir(world.home.root().join("scopes.json")).unwrap();
    assert!(list(&world.home).unwrap_err().is_fault());
}

// spec: SCO-008
#[test]
fn the_role_is_the_one_that_the_registry_names_now() {
    let world = world(r#"{"docs/QUEUE.md": "lead"}"#);
    let may = || {
        may_write(&world.home, "docs/QUEUE.md", &seat("ann"))
            .unwrap()
            .may_write
    };
    register(&world.home, &seat("ann"), None, Some("dev")).unwrap();
    assert!(!may());
    register(&world.home, &seat("ann"), None, Some("lead")).unwrap();
    assert!(may());
    // A registry that cannot be read names none, and is not taken for one without her.
    std::fs::write(world.home.root().join("agents.json"), "{").unwrap();
    let answer = may_write(&world.home, "docs/QUEUE.md", &seat("ann"));
    assert!(matches!(answer, Err(BusError::Damaged(_))));
}

#[test]
fn a_relative_declaration_stands_for_that_document_in_every_repository() {
    let world = world(r#"{"docs/QUEUE.md": "lead", "/srv/one/NOTES.md": "one"}"#);
    let of = |path: &str| owner(&world.home, path).unwrap().map(|scope| scope.path);
    assert_eq!(of("/srv/two/docs/QUEUE.md").as_deref(), Some("docs/QUEUE.md"));
    assert_eq!(of("/srv/two/mydocs/QUEUE.md"), None);
    assert_eq!(of("/srv/one/NOTES.md").as_deref(), Some("/srv/one/NOTES.md"));
    assert_eq!(of("/srv/two/NOTES.md"), None);
    assert_eq!(of("NOTES.md").as_deref(), Some("/srv/one/NOTES.md"));
}

#[test]
fn a_star_stands_for_a_part_of_a_name_and_two_for_any_folders() {
    let world = world(
        r#"{"docs/*.md": "docs", "docs/Q*E.md": "queue", "docs/QUEUE.md": "lead", "src/**": "dev", "**/x/*": "x", "a/**/b": "ab"}"#,
    );
    let of = |path: &str| {
        owner(&world.home, path)
            .unwrap()
            .map_or_else(String::new, |scope| scope.roles.join(","))
    };
    for (path, role) in [
        ("docs/QUEUE.md", "lead"),
        ("docs/QUERE.md", "queue"),
        ("docs/OTHER.md", "docs"),
        ("docs/.md", "docs"),
        ("docs/deep/OTHER.md", ""),
        ("docs/OTHER.txt", ""),
        ("src/a/b/c.rs", "dev"),
        ("src", "dev"),
        ("srcs/a", ""),
        ("x/y", "x"),
        ("p/q/x/y", "x"),
        ("p/x/q/y", ""),
        ("a/b", "ab"),
        ("a/1/2/b", "ab"),
        ("a/1/2/c", ""),
        ("/somewhere/src/a", "dev"),
    ] {
        assert_eq!(of(path), role, "{path}");
    }
}

#[test]
fn a_pattern_of_many_stars_is_answered_at_once() {
    let stars = format!(
        "{{\"{}\": \"x\", \"{}\": \"x\"}}",
        "*a".repeat(200),
        "**/a/".repeat(200)
    );
    let world = world(&stars);
    let begun = std::time::Instant::now();
    assert_eq!(
        owner(&world.home, &format!("{}b", "a".repeat(4_000))).unwrap(),
        None
    );
    assert_eq!(
        owner(&world.home, &format!("{}b", "a/".repeat(2_000))).unwrap(),
        None
    );
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
}
