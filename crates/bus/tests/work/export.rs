//! Exporting. Never may an edit that somebody made be written over.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use muster_bus::BusError;
use muster_bus::registry::register;
use muster_bus::work::{Place, export_work, import_work};

use crate::{World, all, seat};

const QUEUE: &str = "# Queue\n\nSome prose — kept · as it is.\n\n## P0\n- [ ] one\n  and more of it\n* [X] two\r\n\n```\n- [ ] code\n```";
const DONE: &str = "- a — b — c · 2026-01-02\n- d\n";
const BOARD: &str = "| Stream   | Owner |\n| -------- | ----- |\n| bus      | ann   |\n| web | bob |\n";

fn everything() -> World {
    let world = World::new(&[
        ("docs/QUEUE.md", QUEUE),
        ("docs/DONE.md", DONE),
        ("docs/WORKSTREAMS.md", BOARD),
    ]);
    import_work(&world.home, "p", world.named()).unwrap();
    world
}

// spec: WRK-010 WRK-013
#[test]
fn an_export_reports_the_documents_byte_for_byte_and_writes_none() {
    let world = everything();
    let before = all(&world.repo);
    let exported = export_work(&world.home, "p", false, None, world.named()).unwrap();
    let texts: Vec<_> = exported
        .documents
        .iter()
        .map(|document| document.text.as_str())
        .collect();
    assert_eq!(texts, [QUEUE, DONE, BOARD]);
    assert!(
        exported
            .documents
            .iter()
            .all(|document| document.same && !document.written)
    );
    assert_eq!(all(&world.repo), before);
}

// spec: WRK-011 WRK-012 WRK-013
#[test]
fn a_written_export_makes_the_files_what_was_reported_and_keeps_their_modes() {
    let world = everything();
    let queue = world.repo.join("docs/QUEUE.md");
    std::fs::set_permissions(&queue, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::remove_file(world.repo.join("docs/DONE.md")).unwrap();
    let report = export_work(&world.home, "p", false, None, world.named()).unwrap();
    assert!(!report.documents[1].same);
    let exported = export_work(&world.home, "p", true, None, world.named()).unwrap();
    assert!(
        exported
            .documents
            .iter()
            .all(|document| document.same && document.written)
    );
    assert_eq!(exported.notes, ["docs/DONE.md is not there and is made"]);
    for (document, reported) in exported.documents.iter().zip(&report.documents) {
        assert_eq!(world.text(&document.path), reported.text);
    }
    assert_eq!(queue.metadata().unwrap().mode() & 0o777, 0o640);
    assert_eq!(all(&world.repo).len(), 3, "nothing is left beside them");
}

// spec: WRK-014
#[test]
fn an_export_of_nothing_is_refused_and_blanks_no_document() {
    let world = World::new(&[("docs/QUEUE.md", QUEUE)]);
    let before = all(&world.repo);
    for write in [false, true] {
        let refused = export_work(&world.home, "p", write, None, world.named());
        assert!(matches!(refused, Err(BusError::NothingImported(_))));
    }
    // A store without documents is as empty as none.
    std::fs::create_dir_all(world.home.root().join("work")).unwrap();
    let empty = format!(
        r#"{{"project":"p","repo":{:?},"importedAt":1,"documents":[]}}"#,
        world.repo
    );
    std::fs::write(world.home.root().join("work/p.json"), empty).unwrap();
    let refused = export_work(&world.home, "p", true, None, world.named());
    assert!(matches!(refused, Err(BusError::NothingImported(_))));
    assert_eq!(all(&world.repo), before);
}

// spec: WRK-015 SCO-004
#[test]
fn a_scope_of_another_role_is_told_of_and_the_document_is_written_all_the_same() {
    let world = everything();
    world.declare(r#"{"docs/QUEUE.md": "lead"}"#);
    register(&world.home, &seat("ann"), None, Some("docs")).unwrap();
    register(&world.home, &seat("bob"), None, Some("lead")).unwrap();
    let export = |id: Option<&str>| {
        std::fs::remove_file(world.repo.join("docs/QUEUE.md")).unwrap();
        let seat = id.map(seat);
        let exported = export_work(&world.home, "p", true, seat.as_ref(), world.named()).unwrap();
        assert_eq!(world.text("docs/QUEUE.md"), QUEUE);
        exported.notes.join("; ")
    };
    assert!(
        export(Some("ann")).contains("docs/QUEUE.md: this document is declared for lead, and 'ann' is docs")
    );
    assert!(!export(Some("bob")).contains("declared"));
    assert!(export(None).contains("declared for lead, and no agentId was given"));
    world.declare("{");
    assert!(export(Some("bob")).contains("who owns it cannot be told"));
}

// spec: WRK-016
#[test]
fn a_document_that_was_edited_since_its_import_is_never_written_over() {
    let world = everything();
    world.put("docs/DONE.md", "- edited\n");
    std::fs::remove_file(world.repo.join("docs/QUEUE.md")).unwrap();
    let before = all(&world.repo);
    let refused = export_work(&world.home, "p", true, None, world.named()).unwrap_err();
    assert!(
        matches!(&refused, BusError::Edited(names) if names == "docs/DONE.md"),
        "{refused}"
    );
    assert_eq!(all(&world.repo), before, "not even the others were written");
    let report = export_work(&world.home, "p", false, None, world.named()).unwrap();
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("docs/DONE.md changed since it was imported"))
    );
    import_work(&world.home, "p", world.named()).unwrap();
    export_work(&world.home, "p", true, None, world.named()).unwrap();
    assert_eq!(world.text("docs/DONE.md"), "- edited\n");
}

#[test]
fn nothing_is_written_through_a_link_that_leaves_the_repository() {
    let world = everything();
    let elsewhere = World::new(&[("docs/QUEUE.md", QUEUE)]);
    let docs = world.repo.join("docs");
    std::fs::remove_dir_all(&docs).unwrap();
    std::os::unix::fs::symlink(elsewhere.repo.join("docs"), &docs).unwrap();
    let before = all(&elsewhere.repo);
    let refused = export_work(&world.home, "p", true, None, world.named()).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is a link to a place outside its repository"),
        "{refused}"
    );
    assert_eq!(all(&elsewhere.repo), before);
}

#[test]
fn a_link_inside_the_repository_stays_one_and_its_target_is_written() {
    let world = everything();
    std::fs::rename(world.repo.join("docs/QUEUE.md"), world.repo.join("queue.md")).unwrap();
    std::os::unix::fs::symlink("../queue.md", world.repo.join("docs/QUEUE.md")).unwrap();
    let before = world.repo.join("queue.md").metadata().unwrap().ino();
    export_work(&world.home, "p", true, None, world.named()).unwrap();
    assert!(world.repo.join("docs/QUEUE.md").is_symlink());
    assert_ne!(
        world.repo.join("queue.md").metadata().unwrap().ino(),
        before,
        "it was replaced, not filled anew"
    );
    assert_eq!(world.text("queue.md"), QUEUE);
}

#[test]
fn an_export_into_another_checkout_makes_what_is_missing_and_leaves_what_differs() {
    let (world, other) = (everything(), World::new(&[]));
    std::fs::remove_dir(other.repo.join("docs")).unwrap();
    std::fs::create_dir(other.repo.join(".git")).unwrap();
    let place = Place {
        repo: Some(&other.repo),
        default_repo: None,
    };
    export_work(&world.home, "p", true, None, place).unwrap();
    assert_eq!(other.text("docs/WORKSTREAMS.md"), BOARD);
    other.put("docs/QUEUE.md", "- [ ] its own\n");
    let refused = export_work(&world.home, "p", true, None, place);
    assert!(matches!(refused, Err(BusError::Edited(_))));
    assert_eq!(other.text("docs/QUEUE.md"), "- [ ] its own\n");
}

#[test]
fn documents_are_written_into_no_folder_that_is_neither_their_repository_nor_a_checkout() {
    let world = everything();
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join("docs")).unwrap();
    let elsewhere = Place {
        repo: Some(other.path()),
        default_repo: None,
    };
    let refused = export_work(&world.home, "p", true, None, elsewhere);
    assert!(matches!(refused, Err(BusError::Argument(_))), "{refused:?}");
    assert!(all(other.path()).is_empty(), "nothing was made there");
    assert!(export_work(&world.home, "p", true, None, world.named()).is_ok());
}
