//! Rules about single files: first lines, marks of unfinished work, dropped errors, words of one machine, sizes. Never looks across files.

use super::rust::{code_only, line_of};
use super::{Report, Tree};

/// Files written by tools or copied word for word: their text is not ours to rule.
const NOT_OURS: [&str; 5] = [
    "Cargo.lock",
    "fuzz/Cargo.lock",
    "tests/tools/package-lock.json",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

const SIZES: &str = "xtask/tidy-sizes.txt";
const LARGEST_SOURCE: usize = 600;
const LARGEST_TEST: usize = 900;

// Written in two halves, so that this file does not hold what it forbids.
pub(super) const UNFINISHED_WORDS: [&str; 3] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
pub(super) const UNFINISHED_CODE: [&str; 4] = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];
/// A test that another test runs in a process of its own is no skipped test.
pub(super) const PROCESS: &str = "#[ignore = \"run as a process of its own by ";
pub(super) const REGISTRIES: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("debian", ".org"),
];
pub(super) const MACHINE_FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Each module begins with the sentence that says what it is for.
pub(super) fn first_line_says_what_for(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.rust() {
        let sentence = text.lines().next().and_then(|line| line.strip_prefix("//! "));
        if sentence.is_none_or(|sentence| !sentence.contains(' ')) {
            report.finding(
                path,
                1,
                "the first line must be a `//!` sentence: what the module is for and what it never does",
            );
        }
    }
}

/// No mark of work put off, no test switched off, no leftover of debugging.
pub(super) fn nothing_is_left_unfinished(tree: &Tree, report: &mut Report) {
    for (path, text) in ours(tree) {
        for (number, line) in text.lines().enumerate() {
            for word in UNFINISHED_WORDS {
                if holds_word(line, word) {
                    report.finding(
                        path,
                        number + 1,
                        format!("`{word}` marks unfinished work: finish it or file an issue"),
                    );
                }
            }
        }
    }
    for (path, text) in tree.rust() {
        let code = code_only(text);
        for mark in UNFINISHED_CODE {
            for (at, _) in code.match_indices(mark) {
                // `my_dbg!(` is another macro.
                let before = code.get(..at).and_then(|head| head.chars().next_back());
                let line = text
                    .lines()
                    .nth(line_of(&code, at).saturating_sub(1))
                    .unwrap_or_default();
                if !line.contains(PROCESS) && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    report.finding(
                        path,
                        line_of(&code, at),
                        format!("`{mark}` does not belong in finished code"),
                    );
                }
            }
        }
    }
}

/// A failed query must never look like an empty answer: where the database is asked, no error is thrown away.
pub(super) fn no_query_error_is_dropped(tree: &Tree, report: &mut Report) {
    let asks = |path: &str| path.starts_with("crates/app/src/") || path.starts_with("crates/store/src/");
    for (path, text) in tree.rust().filter(|(path, _)| asks(path)) {
        let code = code_only(text);
        for (at, _) in code.match_indices(".ok()") {
            let statement = code
                .get(..at)
                .and_then(|head| head.rsplit([';', '{', '}']).next());
            if statement.is_some_and(|statement| statement.contains(".await")) {
                report.finding(
                    path,
                    line_of(&code, at),
                    "`.ok()` after `.await` drops a database error: handle it or pass it on",
                );
            }
        }
    }
}

/// Nothing in the repository depends on where or from which registry it was built.
pub(super) fn no_word_of_the_build_machine(tree: &Tree, report: &mut Report) {
    for (path, text) in ours(tree) {
        for (number, line) in text.lines().enumerate() {
            let folded = line.to_ascii_lowercase();
            for host in REGISTRIES {
                if folded.contains(host) {
                    report.finding(
                        path,
                        number + 1,
                        format!("`{host}` is a registry's host: name the package, not where it lies"),
                    );
                }
            }
            for folder in MACHINE_FOLDERS {
                if line.match_indices(folder).any(|(at, _)| begins_a_path(line, at)) {
                    report.finding(path, number + 1, format!("`{folder}` is a folder of one machine"));
                }
            }
        }
    }
}

/// Reports, without failing, the files that no longer fit one reading; a listed reason silences the note.
pub(super) fn sizes(tree: &Tree, report: &mut Report) {
    let mut listed = Vec::new();
    for (number, line) in tree.text(SIZES).unwrap_or_default().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once(' ') {
            Some((path, reason)) if !reason.trim().is_empty() => listed.push((number + 1, path)),
            _ => report.finding(SIZES, number + 1, "each line is a path, a space and the reason"),
        }
    }
    let too_large: Vec<(&str, usize, usize)> = tree
        .rust()
        .map(|(path, text)| {
            (
                path,
                text.lines().count(),
                if is_test(path) {
                    LARGEST_TEST
                } else {
                    LARGEST_SOURCE
                },
            )
        })
        .filter(|(_, lines, limit)| lines > limit)
        .collect();
    for (path, lines, limit) in &too_large {
        if !listed.iter().any(|(_, named)| named == path) {
            report.note(
                path,
                1,
                format!(
                    "{lines} lines, more than {limit}: is there a seam? If not, give the reason in {SIZES}"
                ),
            );
        }
    }
    for (number, named) in listed {
        if !too_large.iter().any(|(path, ..)| *path == named) {
            report.finding(
                SIZES,
                number,
                format!("{named} is not too large (any more): remove the line"),
            );
        }
    }
}

fn ours(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, _)| !NOT_OURS.contains(path))
}

fn is_test(path: &str) -> bool {
    path.contains("tests/") || path.ends_with("tests.rs") || path.ends_with("_test.rs")
}

fn holds_word(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|head| head.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|tail| tail.chars().next());
        !joins(before) && !joins(after)
    })
}

/// `/name/` begins an absolute path when nothing of a longer path stands before it.
fn begins_a_path(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|head| head.chars().next_back());
    before.is_none_or(|c| !(c.is_alphanumeric() || "_.-~/}*".contains(c)))
}
