//! Importing and listing. Never writes a document.

use muster_bus::BusError;
use muster_bus::work::{Counts, Filter, From, Kind, Place, Record, import_work, list_work};

use crate::{World, all};

const QUEUE: &str = "# Queue\n\n## P0\n- [ ] one\n- [x] two\n\n## P1\n- [ ] three\n";
const DONE: &str = "# Done\n\n- older — abc · 2026-01-02\n";
const BOARD: &str = "| Stream | Owner |\n| --- | --- |\n| bus | ann |\n| web | bob |\n";

fn everything() -> World {
    World::new(&[
        ("docs/QUEUE.md", QUEUE),
        ("docs/DONE.md", DONE),
        ("docs/WORKSTREAMS.md", BOARD),
    ])
}

fn texts(records: &[Record]) -> Vec<&str> {
    records
        .iter()
        .map(|record| match record {
            Record::Queue { text, .. } | Record::Done { text, .. } => text.as_str(),
            Record::Board { cells, .. } => cells[0].1.as_str(),
        })
        .collect()
}

// spec: WRK-001 WRK-003
#[test]
fn an_import_counts_what_the_documents_hold_and_touches_none_of_them() {
    let world = everything();
    let before = all(&world.repo);
    let imported = import_work(&world.home, "muster", world.named()).unwrap();
    assert_eq!(
        imported.counts,
        Counts {
            queue: 3,
            done: 1,
            board: 2
        }
    );
    assert_eq!(
        imported.documents,
        ["docs/QUEUE.md", "docs/DONE.md", "docs/WORKSTREAMS.md"]
    );
    assert_eq!(imported.repo, world.repo);
    assert_eq!(all(&world.repo), before);
}

// spec: WRK-002
#[test]
fn the_old_backlog_counts_only_where_there_is_no_queue() {
    let world = World::new(&[("docs/BACKLOG.md", QUEUE)]);
    let imported = import_work(&world.home, "muster", world.named()).unwrap();
    assert_eq!(
        (imported.counts.queue, imported.documents),
        (3, vec!["docs/BACKLOG.md".to_owned()])
    );
    world.put("docs/QUEUE.md", "- [ ] only\n");
    let imported = import_work(&world.home, "muster", world.named()).unwrap();
    assert_eq!(
        (imported.counts.queue, imported.documents),
        (1, vec!["docs/QUEUE.md".to_owned()])
    );
}

// spec: WRK-006
#[test]
fn a_second_import_replaces_what_the_first_one_read() {
    let world = everything();
    import_work(&world.home, "muster", world.named()).unwrap();
    world.put("docs/QUEUE.md", "## P2\n- [ ] another\n");
    let list = |filter| list_work(&world.home, "muster", filter, world.named()).unwrap();
    let queue = Filter {
        kind: Some(Kind::Queue),
        ..Filter::default()
    };
    let before = list(queue);
    assert_eq!(texts(&before.records), ["one", "three"]);
    assert!(before.note.unwrap().contains("docs/QUEUE.md changed since"));
    import_work(&world.home, "muster", world.named()).unwrap();
    let after = list(queue);
    assert_eq!(
        (texts(&after.records), after.note.clone()),
        (vec!["another"], None)
    );
}

// spec: WRK-007 WRK-009
#[test]
fn a_list_is_filtered_by_kind_by_priority_and_by_what_is_done() {
    let world = everything();
    import_work(&world.home, "muster", world.named()).unwrap();
    let list = |filter| {
        let listed = list_work(&world.home, "muster", filter, world.named()).unwrap();
        assert_eq!(listed.from, From::Store);
        texts(&listed.records).join(" ")
    };
    let all = Filter::default();
    assert_eq!(list(all), "one three bus web");
    assert_eq!(
        list(Filter {
            include_done: true,
            ..all
        }),
        "one two three older bus web"
    );
    assert_eq!(
        list(Filter {
            kind: Some(Kind::Done),
            ..all
        }),
        "older"
    );
    assert_eq!(
        list(Filter {
            kind: Some(Kind::Board),
            ..all
        }),
        "bus web"
    );
    assert_eq!(
        list(Filter {
            priority: Some("p0"),
            ..all
        }),
        "one"
    );
    assert_eq!(
        list(Filter {
            priority: Some("P0"),
            include_done: true,
            ..all
        }),
        "one two"
    );
    assert_eq!(
        list(Filter {
            priority: Some("P7"),
            ..all
        }),
        ""
    );
}

// spec: WRK-008
#[test]
fn without_an_import_the_documents_themselves_are_listed() {
    let world = everything();
    let listed = list_work(&world.home, "muster", Filter::default(), world.named()).unwrap();
    assert_eq!(listed.from, From::Documents);
    let before = listed.records;
    assert!(!world.home.root().join("work").exists());
    import_work(&world.home, "muster", world.named()).unwrap();
    let listed = list_work(&world.home, "muster", Filter::default(), Place::default()).unwrap();
    assert_eq!((listed.from, listed.records), (From::Store, before));
}

// spec: WRK-017
#[test]
fn a_missing_document_a_missing_repository_and_a_bad_project_each_have_their_sentence() {
    let world = World::new(&[]);
    let import = |project: &str, place| import_work(&world.home, project, place).unwrap_err().to_string();
    assert!(import("muster", world.named()).starts_with("none of docs/QUEUE.md, docs/BACKLOG.md"));
    assert!(import("muster", Place::default()).contains("'muster' lives is not known: pass repo"));
    let gone = world.repo.join("gone");
    let place = Place {
        repo: Some(&gone),
        default_repo: None,
    };
    assert!(import("muster", place).contains("is no folder that this user can open"));
    let place = Place {
        repo: Some("docs".as_ref()),
        default_repo: None,
    };
    assert!(import("muster", place).contains("is no absolute path"));
    for project in ["", "..", "../x", "a/b", "a\0b", "-x", "system"] {
        assert!(
            import(project, world.named()).starts_with("a project is named by 1 to 64"),
            "{project:?}"
        );
        let listed = list_work(&world.home, project, Filter::default(), world.named());
        assert!(matches!(listed, Err(BusError::ProjectName)), "{project:?}");
    }
    assert!(!world.home.root().join("work/muster.json").exists());
}

// spec: WRK-017
#[test]
fn the_repository_is_the_one_named_else_the_projects_own_else_the_imported_one() {
    let (one, two) = (everything(), everything());
    two.put("docs/QUEUE.md", "- [ ] elsewhere\n");
    let own = Place {
        repo: None,
        default_repo: Some(&one.repo),
    };
    assert_eq!(import_work(&one.home, "p", own).unwrap().repo, one.repo);
    let both = Place {
        repo: Some(&two.repo),
        default_repo: Some(&one.repo),
    };
    let listed = list_work(&one.home, "p", Filter::default(), both).unwrap();
    assert_eq!(
        (listed.from, texts(&listed.records)[0]),
        (From::Documents, "elsewhere")
    );
    assert_eq!(
        import_work(&one.home, "p", Place::default()).unwrap().repo,
        one.repo
    );
    assert_eq!(import_work(&one.home, "p", both).unwrap().repo, two.repo);
}

#[test]
fn a_document_outside_the_repository_a_pipe_and_what_is_no_text_are_refused() {
    let world = World::new(&[]);
    let import = || {
        import_work(&world.home, "p", world.named())
            .unwrap_err()
            .to_string()
    };
    let queue = world.repo.join("docs/QUEUE.md");
    let secret = world.home.root().join("secret");
    std::fs::write(&secret, "- [ ] secret\n").unwrap();
    std::os::unix::fs::symlink(&secret, &queue).unwrap();
    assert!(import().contains("is a link to a place outside its repository"));
    std::fs::remove_file(&queue).unwrap();
    std::os::unix::fs::symlink("gone", &queue).unwrap();
    assert!(import().contains("is a link to nothing"));
    std::fs::remove_file(&queue).unwrap();
    nix::unistd::mkfifo(&queue, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(import().contains("is no file"));
    std::fs::remove_file(&queue).unwrap();
    std::fs::write(&queue, b"- [ ] \xff\n").unwrap();
    assert!(import().contains("is not UTF-8"));
    std::fs::write(&queue, vec![b'x'; 4 * 1024 * 1024 + 1]).unwrap();
    assert!(import().contains("is longer than 4 MiB"));
    std::fs::write(&queue, "- [ ] at last\n").unwrap();
    assert_eq!(
        import_work(&world.home, "p", world.named()).unwrap().counts.queue,
        1
    );
}

#[test]
fn a_store_that_cannot_be_read_is_not_taken_for_none_and_an_import_keeps_a_copy_of_it() {
    let world = everything();
    import_work(&world.home, "p", world.named()).unwrap();
    let file = world.home.root().join("work/p.json");
    std::fs::write(&file, "{\"torn").unwrap();
    let listed = list_work(&world.home, "p", Filter::default(), world.named());
    assert!(matches!(listed, Err(BusError::Damaged(_))));
    let imported = import_work(&world.home, "p", world.named()).unwrap();
    assert!(imported.note.unwrap().contains("p.json.bak"));
    assert_eq!(
        std::fs::read_to_string(file.with_extension("json.bak")).unwrap(),
        "{\"torn"
    );
    assert_eq!(imported.counts.queue, 3);
}
