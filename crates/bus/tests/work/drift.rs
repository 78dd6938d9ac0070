//! Who wrote an owned document last. Never looks beyond the repositories of its own folder.

use std::path::Path;
use std::process::Command;

use muster_bus::registry::register;
use muster_bus::scopes::drift;
use muster_bus::work::import_work;

use crate::{World, all, seat};

fn git(repo: &Path, words: &[&str]) {
    let said = Command::new("git")
        .args(words)
        .current_dir(repo)
        .env("HOME", repo)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(
        said.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
}

fn commit(repo: &Path, author: &str) {
    git(repo, &["add", "-A"]);
    let (name, mail) = (format!("user.name={author}"), "user.email=a@b.test");
    git(
        repo,
        &[
            "-c",
            &name,
            "-c",
            mail,
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "change",
        ],
    );
}

fn world() -> World {
    let world = World::new(&[("docs/QUEUE.md", "- [ ] one\n"), ("docs/NOTES.md", "notes\n")]);
    git(&world.repo, &["init", "-q"]);
    for (id, role) in [("ann", "lead"), ("bob", "dev")] {
        register(&world.home, &seat(id), None, Some(role)).unwrap();
    }
    import_work(&world.home, "p", world.named()).unwrap();
    world
}

// spec: DOC-021 SCO-009
#[test]
fn a_document_whose_last_writer_has_another_role_is_found() {
    let world = world();
    world.declare(r#"{"docs/QUEUE.md": "lead"}"#);
    commit(&world.repo, "ann");
    assert_eq!(drift(&world.home).unwrap(), muster_bus::scopes::Drift::default());
    world.put("docs/QUEUE.md", "- [x] one\n");
    commit(&world.repo, "bob");
    // Another document's commit is not this one's.
    world.put("docs/NOTES.md", "more\n");
    commit(&world.repo, "ann");
    let before = all(&world.repo);
    let found = drift(&world.home).unwrap();
    assert_eq!((found.drifted.len(), found.unknown.len()), (1, 0), "{found:?}");
    let one = &found.drifted[0];
    assert_eq!(Path::new(&one.path), world.repo.join("docs/QUEUE.md"));
    assert_eq!(
        (one.agent.as_str(), one.role.as_deref(), one.owners.as_slice()),
        ("bob", Some("dev"), ["lead".to_owned()].as_slice())
    );
    assert_eq!(all(&world.repo), before);
    world.put("docs/QUEUE.md", "- [ ] one\n");
    commit(&world.repo, "ann");
    assert_eq!(drift(&world.home).unwrap().drifted, []);
}

// spec: DOC-021
#[test]
fn an_absolute_path_and_a_pattern_are_looked_up_too() {
    let world = world();
    commit(&world.repo, "bob");
    let absolute = format!("{{{:?}: \"lead\"}}", world.repo.join("docs/NOTES.md"));
    for (scopes, count) in [
        (absolute.as_str(), 1),
        (r#"{"docs/*.md": "lead"}"#, 2),
        (r#"{"**/*.md": "lead"}"#, 2),
        (r#"{"*.md": "lead"}"#, 0),
    ] {
        world.declare(scopes);
        let found = drift(&world.home).unwrap();
        assert_eq!(
            (found.drifted.len(), found.unknown.len()),
            (count, 0),
            "{scopes}: {found:?}"
        );
    }
    // What names the document itself counts before a pattern.
    world.declare(r#"{"docs/*.md": "lead", "docs/NOTES.md": "dev"}"#);
    assert_eq!(drift(&world.home).unwrap().drifted.len(), 1);
}

#[test]
fn an_author_who_is_no_agent_and_a_document_without_a_history_say_nothing() {
    let world = world();
    world.declare(r#"{"docs/QUEUE.md": "lead", "docs/gone.md": "lead", "/nowhere/x.md": "lead"}"#);
    assert_eq!(
        drift(&world.home).unwrap(),
        muster_bus::scopes::Drift::default(),
        "no commit yet, which git may call a failure"
    );
    commit(&world.repo, "A. Person");
    assert_eq!(drift(&world.home).unwrap(), muster_bus::scopes::Drift::default());
}

#[test]
fn a_repository_that_git_cannot_read_is_said_to_be_unknown() {
    let world = world();
    world.declare(r#"{"docs/QUEUE.md": "lead"}"#);
    commit(&world.repo, "bob");
    std::fs::write(world.repo.join(".git/HEAD"), "broken").unwrap();
    let found = drift(&world.home).unwrap();
    assert_eq!((found.drifted.len(), found.unknown.len()), (0, 1), "{found:?}");
    assert!(
        found.unknown[0].contains("cannot be told: git ended with"),
        "{}",
        found.unknown[0]
    );
}

#[test]
fn no_setting_of_a_repository_starts_another_program() {
    let world = world();
    world.declare(r#"{"docs/QUEUE.md": "lead", "docs/*.md": "lead"}"#);
    commit(&world.repo, "bob");
    let trace = world.repo.join("trace");
    let script = world.repo.join("script");
    std::fs::write(&script, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = script.to_str().unwrap();
    for (name, value) in [
        ("core.fsmonitor", script),
        ("core.pager", script),
        ("log.showSignature", "true"),
        ("gpg.program", script),
    ] {
        git(&world.repo, &["config", name, value]);
    }
    assert_eq!(drift(&world.home).unwrap().drifted.len(), 2);
    assert!(!trace.exists());
}
