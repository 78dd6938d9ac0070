//! Each rule of tidy on samples: one that must be found, and its neighbour that must not.

use super::{Tree, check, rust};

/// Every rule over these files alone; what each finding says, with its place.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    check(&tree(files))
        .findings
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = Tree::default();
    for (path, text) in [&[("docs/spec-decisions.md", "# Decisions\n")], files].concat() {
        tree.texts.insert(path.to_owned(), text.to_owned());
    }
    tree
}

/// The file breaks exactly one rule, at `line`, and the sentence says so.
#[track_caller]
fn breaks(path: &str, text: &str, line: usize, words: &str) {
    let found = findings(&[(path, text)]);
    let place = format!("{path}:{line}: ");
    assert!(
        matches!(found.as_slice(), [one] if one.starts_with(&place) && one.contains(words)),
        "expected {place}…{words}…, found {found:#?}"
    );
}

#[track_caller]
fn keeps(path: &str, text: &str) {
    assert_eq!(findings(&[(path, text)]), Vec::<String>::new());
}

const HEAD: &str = "//! A module for samples. Never run.\n";

fn module(rest: &str) -> String {
    format!("{HEAD}{rest}")
}

fn manifest(rest: &str) -> String {
    format!("[package]\nname = \"x\"\n[lints]\nworkspace = true\n{rest}")
}

#[test]
fn a_module_without_its_sentence_is_found() {
    breaks("crates/core/src/a.rs", "use std::fmt;\n", 1, "first line");
    breaks("crates/core/src/a.rs", "", 1, "first line");
    breaks(
        "crates/core/src/a.rs",
        "\n//! Too late by a line.\n",
        1,
        "first line",
    );
    breaks("fuzz/fuzz_targets/a.rs", "//! stub\n", 1, "first line");
    keeps("crates/core/src/a.rs", HEAD);
}

#[test]
fn a_mark_of_unfinished_work_is_found_in_every_kind_of_file() {
    for word in super::source::UNFINISHED_WORDS {
        breaks(
            "crates/core/src/a.rs",
            &module(&format!("// {word}: later\n")),
            2,
            word,
        );
        breaks("README.md", &format!("one\n\n({word})\n"), 3, word);
    }
    keeps("test", "dir=$(mktemp -d /tmp/a.XXXXXXXX)\n");
    keeps(
        "Cargo.lock",
        &format!("checksum = \"{}\"\n", super::source::UNFINISHED_WORDS.join("+")),
    );
}

#[test]
fn unfinished_code_is_found_but_not_words_about_it() {
    for mark in super::source::UNFINISHED_CODE {
        breaks(
            "crates/core/src/a.rs",
            &module(&format!("fn a() {{\n    {mark}\n}}\n")),
            3,
            mark,
        );
        keeps(
            "crates/core/src/a.rs",
            &module(&format!("// about {mark}\nconst A: &str = \"{mark}\";\n")),
        );
        keeps(
            "crates/core/src/a.rs",
            &module(&format!(
                "const A: &str = r#\"a \" {mark}\"#; /* {mark} /* */ {mark} */\n"
            )),
        );
    }
    keeps("crates/core/src/a.rs", &module("fn a() { my_dbg!(1) }\n"));
}

#[test]
fn a_dropped_query_error_is_found() {
    let dropped = module(
        "async fn a() {\n    let row = tx\n        .one(BY_ID, (1,))\n        .await\n        .ok();\n}\n",
    );
    breaks(
        "crates/app/src/drafts/ops.rs",
        &dropped,
        6,
        "drops a database error",
    );
    breaks(
        "crates/store/src/tx.rs",
        &module("fn a() { b().await.map(c).ok() }\n"),
        2,
        "drops a database error",
    );
    keeps("crates/web/src/a.rs", &dropped);
    keeps(
        "crates/app/src/drafts/ops.rs",
        &module("async fn a() { b().await?; \"1\".parse().ok() }\n"),
    );
}

#[test]
fn a_registry_or_a_folder_of_one_machine_is_found() {
    for host in super::source::REGISTRIES {
        breaks(
            "README.md",
            &format!("see https://files.{}/x\n", host.to_uppercase()),
            1,
            "registry",
        );
        keeps("Cargo.lock", &format!("source = \"{host}\"\n"));
    }
    for folder in super::source::MACHINE_FOLDERS {
        breaks(
            "docs/a.md",
            &format!("run it in {folder}main\n"),
            1,
            "one machine",
        );
        breaks("test", &format!("cd \"{folder}main\"\n"), 1, "one machine");
        keeps(
            "docs/a.md",
            &format!("a relative ..{folder}main and https://example.com{folder}\n"),
        );
    }
}

#[test]
fn a_large_file_is_noted_and_never_fails() {
    let large = module(&"\n".repeat(700));
    let report = check(&tree(&[
        ("crates/core/src/a.rs", &large),
        ("crates/core/tests/a.rs", &large),
    ]));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(
        matches!(report.notes.as_slice(), [note] if note.to_string().contains("701 lines, more than 600"))
    );

    let listed = (
        "xtask/tidy-sizes.txt",
        "# why a file may be long\ncrates/core/src/a.rs one table\n",
    );
    assert!(
        check(&tree(&[("crates/core/src/a.rs", &large), listed]))
            .notes
            .is_empty()
    );
    assert!(matches!(findings(&[listed]).as_slice(), [one] if one.contains("remove the line")));
    breaks("xtask/tidy-sizes.txt", "crates/core/src/a.rs\n", 1, "the reason");
}

#[test]
fn a_forbidden_edge_between_crates_is_found() {
    let cases = [
        (
            "crates/core",
            "[dependencies]\ntokio.workspace = true\n",
            "core does no I/O",
        ),
        (
            "crates/core",
            "[build-dependencies]\nmuster-store = { path = \"../store\" }\n",
            "must not know muster-store",
        ),
        (
            "crates/app",
            "[dependencies]\nmuster-wire.workspace = true\n",
            "must not know muster-wire",
        ),
        (
            "crates/app",
            "[dependencies.axum]\nworkspace = true\n",
            "axum belongs in",
        ),
        (
            "crates/app",
            "[target.'cfg(unix)'.dependencies]\naxum-extra = \"1\"\n",
            "axum-extra belongs in",
        ),
        (
            "crates/wire",
            "[dependencies]\nsqlx.workspace = true\n",
            "sqlx belongs in",
        ),
        (
            "crates/web",
            "[dependencies]\nsqlx.workspace = true\n",
            "sqlx belongs in",
        ),
        (
            "crates/app",
            "[dependencies]\nrmcp.workspace = true\n",
            "rmcp belongs in",
        ),
        (
            "connectors/maildir",
            "[dependencies]\nmuster-wire.workspace = true\n",
            "must not know muster-wire",
        ),
        (
            "crates/muster",
            "[dependencies]\nmuster-testkit.workspace = true\n",
            "belongs in dev-dependencies",
        ),
        (
            "crates/muster",
            "[dependencies]\nxtask.workspace = true\n",
            "xtask belongs in",
        ),
        ("crates/services", "", "not in the table"),
    ];
    for (folder, rest, words) in cases {
        let line = if rest.contains("dependencies.") { 5 } else { 6 };
        breaks(
            &format!("{folder}/Cargo.toml"),
            &manifest(rest),
            if rest.is_empty() { 1 } else { line },
            words,
        );
    }
    keeps(
        "crates/core/Cargo.toml",
        &manifest("[dependencies]\njiff.workspace = true\n[dev-dependencies]\ntokio = \"1\"\n"),
    );
    keeps(
        "crates/store/Cargo.toml",
        &manifest("[dependencies]\nmuster-core.workspace = true\nsqlx.workspace = true\n"),
    );
    keeps(
        "crates/web/Cargo.toml",
        &manifest("[dependencies]\nhyper = { version = \"1\", features = [\n  \"sqlx-like\",\n] }\n"),
    );
    breaks(
        "crates/core/Cargo.toml",
        "[package]\nname = \"muster-core\"\n[features]\nworkspace = true\n",
        1,
        "lints",
    );
}

#[test]
fn a_forbidden_import_is_found() {
    breaks(
        "crates/core/src/a.rs",
        &module("use std::{fmt, fs::File};\n"),
        2,
        "std::fs::File",
    );
    breaks(
        "crates/core/src/a.rs",
        &module("fn a() {\n    std::net::TcpStream::connect(b)\n}\n"),
        3,
        "std::net",
    );
    keeps(
        "crates/core/src/a.rs",
        &module("use std::net::IpAddr; // not std::fs\nuse std::fsync;\n"),
    );
    breaks(
        "crates/app/src/drafts/sql.rs",
        &module("use sqlx::{FromRow, query};\n"),
        2,
        "sqlx::query",
    );
    keeps(
        "crates/app/src/drafts/sql.rs",
        &module("#[derive(sqlx::FromRow)]\nstruct A;\n"),
    );
}

#[test]
fn a_slice_that_reaches_into_another_is_found() {
    let file = "crates/app/src/drafts/ops.rs";
    breaks(
        file,
        &module("use crate::messages::sql::BY_ID;\n"),
        2,
        "messages::sql",
    );
    breaks(
        file,
        &module("\nuse crate::{\n    audit::{self, state as s},\n    drafts::sql,\n};\n"),
        3,
        "audit::state",
    );
    breaks(
        file,
        &module("use super::super::messages::state::Message;\n"),
        2,
        "messages::state",
    );
    breaks(
        file,
        &module("fn a() { crate::messages::sql::BY_ID.text() }\n"),
        2,
        "messages::sql",
    );
    breaks(
        "crates/app/src/drafts/mod.rs",
        &module("use super::messages::sql;\n"),
        2,
        "messages::sql",
    );
    breaks(
        "crates/app/src/audit.rs",
        &module("use super::messages::sql;\n"),
        2,
        "messages::sql",
    );
    keeps(
        file,
        &module(
            "use super::{sql, state};\nuse crate::messages::{self, Message};\nuse crate::drafts::sql::BY_ID;\n",
        ),
    );
    keeps(
        file,
        &module("fn a() -> impl Sized + use<> {}\nuse crate::messages::accept;\n"),
    );
    keeps(
        "crates/app/src/lib.rs",
        &module("const A: &[&[u8]] = &[crate::messages::sql::STATEMENTS];\n"),
    );
}

#[test]
fn a_malformed_or_repeated_decision_is_found() {
    let file = "docs/spec-decisions.md";
    breaks(file, "# Decisions\n\n- MSG-1: too short\n", 3, "`- ID: why`");
    breaks(file, "- MSG-001:\n", 1, "`- ID: why`");
    breaks(file, "* MSG-001: with a star\n", 1, "`- ID: why`");
    breaks(file, "- MSG-004..MSG-001: backwards\n", 1, "`- ID: why`");
    breaks(file, "- MSG-001..DLV-004: two areas\n", 1, "`- ID: why`");
    breaks(file, "- MSG-001: one\n- MSG-001: two\n", 2, "decided twice");
    keeps(
        file,
        "# Decisions\nProse.\n- MSG-001: why: because\n- MSG-002..MSG-004: why\n",
    );
    let none = check(&Tree::default()).findings;
    assert!(matches!(none.as_slice(), [one] if one.to_string().contains("missing")));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    breaks("docs/a.md", "see [b](b.md)\n", 1, "b.md");
    breaks(
        "README.md",
        "see [`b`](docs/b.md#part) and [it](docs/spec-decisions.md)\n",
        1,
        "docs/b.md#part",
    );
    breaks("docs/a.md", "[b]: ../b.md\n", 1, "../b.md");
    breaks("docs/a.md", "[above everything](../../b.md)\n", 1, "../../b.md");
    keeps(
        "docs/a.md",
        "[x](spec-decisions.md#y) [y](../docs) [z](https://example.com/a) [top](#top) [m](mailto:a@example.com)\n",
    );
    keeps("docs/a.md", "an example `[x](y.md)`\n```\n[x](y.md)\n```\n");
}

#[test]
fn code_is_told_from_comments_strings_and_lifetimes() {
    let cases = [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("a \" b") + g"#, "f(        ) + g"),
        (r##"r"x" r#"y"z"# s"##, "              s"),
        (
            "fn f<'a>(c: &'a char) { '\\'' 'x' '\"' }",
            "fn f<'a>(c: &'a char) {              }",
        ),
        ("bar\"x\"", "bar   "),
        ("\"never closed", "             "),
    ];
    for (text, code) in cases {
        assert_eq!(rust::code_only(text), code, "{text}");
    }
}

#[test]
fn the_tree_holds_what_git_would_keep_and_nothing_else() {
    let root = std::env::temp_dir().join(format!("muster-tidy-tree-{}", std::process::id()));
    std::fs::create_dir_all(root.join("target")).unwrap();
    for (path, bytes) in [
        (".gitignore", &b"target\n"[..]),
        ("a.rs", b"//! A."),
        ("target/b.rs", b"//! B."),
        ("c.png", b"\xff\xfe"),
    ] {
        std::fs::write(root.join(path), bytes).unwrap();
    }
    let outside_git = Tree::read(&root).unwrap_err();
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(&root)
        .status()
        .unwrap();
    assert!(made.success());
    let tree = Tree::read(&root).unwrap();
    std::fs::remove_dir_all(&root).unwrap();

    assert!(outside_git.contains("could not list"), "{outside_git}");
    assert_eq!(
        tree.texts().map(|(path, _)| path).collect::<Vec<_>>(),
        [".gitignore", "a.rs"]
    );
    assert!(tree.holds("c.png") && !tree.holds("target") && !tree.is_empty());
}
