//! What a diff shows: commits, changes, new files, odd files, and only what its limits allow. Never writes to the agent's index.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use muster_worktree::{Change, DiffQuery, Limits, Refusal, diff, ensure};

use super::support::{Site, no_process_stays_in, paths, put};

#[test]
fn commits_changes_and_new_files_are_shown_together() {
    let site = Site::new();
    let work = site.made(1).path;
    assert_eq!(site.diff(1).files, []);
    assert_eq!(site.diff(1).diff, "");
    put(&work, "committed.txt", "c\n");
    site.commit(&work, "work");
    put(&work, "staged.txt", "s\n");
    site.git(&work, &["add", "staged.txt"]);
    put(&work, "a.txt", "one\n2\nthree\n");
    put(&work, "deep/new.txt", "n\nn\n");
    fs::remove_file(work.join("sub/b.txt")).unwrap();
    put(&work, ".gitignore", "*.log\n");
    put(&work, "noise.log", "no\n");
    let index = fs::read(site.root.join(".git/worktrees/task-1/index")).unwrap();
    let status = site.git(&work, &["status", "--porcelain"]);

    let seen = site.diff(1);
    let rows: Vec<_> = seen
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.change, file.added, file.removed))
        .collect();
    assert_eq!(
        rows,
        [
            (".gitignore", Change::Added, Some(1), Some(0)),
            ("a.txt", Change::Modified, Some(1), Some(1)),
            ("committed.txt", Change::Added, Some(1), Some(0)),
            ("deep/new.txt", Change::Added, Some(2), Some(0)),
            ("staged.txt", Change::Added, Some(1), Some(0)),
            ("sub/b.txt", Change::Deleted, Some(0), Some(1)),
        ]
    );
    assert!(!seen.truncated);
    assert!(seen.diff.contains("-two\n+2\n"), "{}", seen.diff);
    assert!(
        seen.diff
            .contains("diff --git a/deep/new.txt b/deep/new.txt\nnew file mode 100644\n"),
        "{}",
        seen.diff
    );
    assert!(seen.diff.contains("+++ b/staged.txt\n"), "{}", seen.diff);

    // What is shown is what a person would apply: it turns the base into the worktree.
    let copy = site.top().join("copy");
    site.git(
        &site.root,
        &[
            "worktree",
            "add",
            "--quiet",
            "--detach",
            copy.to_str().unwrap(),
            "main",
        ],
    );
    put(&site.top(), "patch", &seen.diff);
    site.git(&copy, &["apply", site.top().join("patch").to_str().unwrap()]);
    fs::remove_file(work.join("noise.log")).unwrap();
    assert_eq!(super::support::listing(&copy), super::support::listing(&work));

    // The agent's index is as it was, byte for byte, and nothing is left in the repository.
    assert_eq!(
        fs::read(site.root.join(".git/worktrees/task-1/index")).unwrap(),
        index
    );
    assert_eq!(site.git(&work, &["status", "--porcelain"]), status);
}

#[test]
fn a_list_alone_has_no_text_and_a_path_narrows_both() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, "a.txt", "x\n");
    put(&work, "sub/b.txt", "y\n");
    put(&work, "sub/c*d.txt", "z\n");
    put(&work, "subway.txt", "z\n");
    let of = |path, stat| site.diff_of(1, DiffQuery { path, stat }).unwrap();
    let list = of(None, true);
    assert_eq!(paths(&list), ["a.txt", "sub/b.txt", "sub/c*d.txt", "subway.txt"]);
    assert_eq!(list.diff, "");
    assert_eq!(paths(&of(Some("sub"), false)), ["sub/b.txt", "sub/c*d.txt"]);
    assert_eq!(paths(&of(Some("./sub/b.txt"), false)), ["sub/b.txt"]);
    // A star is a star.
    assert_eq!(paths(&of(Some("sub/c*d.txt"), false)), ["sub/c*d.txt"]);
    assert_eq!(paths(&of(Some("*"), false)), Vec::<&str>::new());
    assert_eq!(paths(&of(Some(":(top)a.txt"), false)), Vec::<&str>::new());
    assert_eq!(paths(&of(Some("-p"), false)), Vec::<&str>::new());
    assert!(of(Some("sub/b.txt"), false).diff.contains("-b\n+y\n"));
    for path in [
        "",
        "/etc/passwd",
        "../root/a.txt",
        "sub/../../x",
        ".git/config",
        "sub/.git",
    ] {
        let query = DiffQuery {
            path: Some(path),
            stat: false,
        };
        assert!(
            matches!(site.diff_of(1, query), Err(Refusal::BadPath(_))),
            "{path}"
        );
    }
}

#[test]
fn a_base_that_went_on_is_not_part_of_the_diff_and_one_that_is_gone_is_remembered() {
    let site = Site::new();
    site.git(&site.root, &["branch", "topic"]);
    let work = ensure(site.place(1), Some("topic")).unwrap().path;
    put(&work, "mine.txt", "m\n");
    site.commit(&work, "work");
    site.git(&site.root, &["checkout", "--quiet", "topic"]);
    site.put("theirs.txt", "t\n");
    site.commit(&site.root, "theirs");
    assert_eq!(paths(&site.diff(1)), ["mine.txt"]);
    // Merged in, it is still not the task's doing.
    site.git(&work, &["merge", "--quiet", "topic", "-m", "merge"]);
    assert_eq!(paths(&site.diff(1)), ["mine.txt"]);
    site.git(&site.root, &["checkout", "--quiet", "main"]);
    site.git(&site.root, &["branch", "-D", "topic"]);
    assert_eq!(paths(&site.diff(1)), ["mine.txt", "theirs.txt"]);
}

#[test]
fn it_is_the_worktree_that_counts_whatever_it_stands_on() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, "one.txt", "1\n");
    site.commit(&work, "one");
    site.git(&work, &["checkout", "--quiet", "--detach"]);
    put(&work, "two.txt", "2\n");
    site.commit(&work, "two");
    assert_eq!(paths(&site.diff(1)), ["one.txt", "two.txt"]);
    // A branch without a commit.
    site.git(&work, &["checkout", "--quiet", "--orphan", "fresh"]);
    assert_eq!(paths(&site.diff(1)), ["one.txt", "two.txt"]);
    // A history of its own, with no commit in common.
    site.commit(&work, "alone");
    assert_eq!(paths(&site.diff(1)), ["one.txt", "two.txt"]);
}

#[test]
fn a_rename_a_mode_a_link_and_a_binary_are_named_as_such() {
    let site = Site::new();
    let text = "a line of its own\n".repeat(30);
    site.put("long.txt", &text);
    site.put("kind.txt", "k\n");
    site.commit(&site.root, "more");
    let work = site.made(1).path;
    fs::rename(work.join("long.txt"), work.join("renamed.txt")).unwrap();
    fs::set_permissions(work.join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(work.join("kind.txt")).unwrap();
    symlink("/etc/passwd", work.join("kind.txt")).unwrap();
    symlink("/etc", work.join("etc")).unwrap();
    put(&work, "pic.bin", b"\x00\x01\x02secretbytes");
    let seen = site.diff(1);
    let of = |path: &str| seen.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!(of("renamed.txt").change, Change::Renamed);
    assert_eq!(of("renamed.txt").old_path.as_deref(), Some("long.txt"));
    assert_eq!(
        (of("a.txt").change, of("a.txt").added),
        (Change::Modified, Some(0))
    );
    assert_eq!(of("kind.txt").change, Change::TypeChanged);
    assert_eq!((of("pic.bin").change, of("pic.bin").added), (Change::Added, None));
    assert_eq!(
        paths(&seen),
        ["a.txt", "etc", "kind.txt", "pic.bin", "renamed.txt"]
    );
    assert!(
        seen.diff.contains("Binary files /dev/null and b/pic.bin differ"),
        "{}",
        seen.diff
    );
    assert!(!seen.diff.contains("secretbytes"));
    assert!(
        seen.diff.contains("old mode 100644\nnew mode 100755"),
        "{}",
        seen.diff
    );
    // A link is its target's name, never what lies there.
    assert!(seen.diff.contains("+/etc/passwd\n"), "{}", seen.diff);
    assert!(!seen.diff.contains("root:"), "{}", seen.diff);
}

#[test]
fn a_folder_that_became_a_link_is_not_read_through() {
    let site = Site::new();
    let outside = site.top().join("outside");
    put(&outside, "b.txt", "a secret\n");
    put(&outside, "c.txt", "a secret\n");
    let work = site.made(1).path;
    fs::remove_dir_all(work.join("sub")).unwrap();
    symlink(&outside, work.join("sub")).unwrap();
    let seen = site.diff(1);
    assert_eq!(paths(&seen), ["sub", "sub/b.txt"]);
    assert!(!seen.diff.contains("a secret"), "{}", seen.diff);
    let within = DiffQuery {
        path: Some("sub/c.txt"),
        stat: false,
    };
    assert!(!site.diff_of(1, within).unwrap().diff.contains("a secret"));
}

#[test]
fn a_file_and_a_folder_can_trade_places() {
    let site = Site::new();
    let work = site.made(1).path;
    fs::remove_file(work.join("a.txt")).unwrap();
    put(&work, "a.txt/inside.txt", "i\n");
    fs::remove_dir_all(work.join("sub")).unwrap();
    put(&work, "sub", "a file now\n");
    assert_eq!(
        paths(&site.diff(1)),
        ["a.txt", "a.txt/inside.txt", "sub", "sub/b.txt"]
    );
}

#[test]
fn names_of_every_kind_are_listed() {
    let site = Site::new();
    let work = site.made(1).path;
    let names = [
        " lead",
        "-dash",
        "a\tb",
        "new\nline",
        "quo\"te",
        "ümlaut.txt",
        ":colon",
        "git~1",
        "back\\slash",
        "per%cent",
        "esc\u{1b}[2J",
        "*",
    ];
    for name in names {
        put(&work, name, "x\n");
    }
    let mut want: Vec<&str> = names.to_vec();
    want.sort_unstable();
    assert_eq!(paths(&site.diff(1)), want);
    let raw = std::ffi::OsStr::from_bytes(b"latin-\xe4");
    fs::write(work.join(raw), b"caf\xe9\n").unwrap();
    let seen = site.diff(1);
    assert!(paths(&seen).contains(&"latin-\u{fffd}"));
    assert!(seen.diff.contains("+caf\u{fffd}\n"));
}

#[test]
fn nothing_is_hidden_by_attributes_flags_or_forced_ignores() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, ".gitattributes", "*.txt binary\nsub/* -diff\n");
    put(&work, "a.txt", "one\nhidden?\nthree\n");
    put(&work, "sub/b.txt", "hidden too?\n");
    site.git(&work, &["update-index", "--assume-unchanged", "a.txt"]);
    site.git(&work, &["update-index", "--skip-worktree", "sub/b.txt"]);
    assert_eq!(site.git(&work, &["status", "--porcelain"]), "?? .gitattributes");
    let seen = site.diff(1);
    assert_eq!(paths(&seen), [".gitattributes", "a.txt", "sub/b.txt"]);
    assert!(
        seen.diff.contains("+hidden?\n") && seen.diff.contains("+hidden too?\n"),
        "{}",
        seen.diff
    );

    // Ignored, and added by force: in a commit, and staged.
    put(&work, ".gitignore", "*.secret\n");
    put(&work, "one.secret", "1\n");
    put(&work, "two.secret", "2\n");
    put(&work, "three.secret", "3\n");
    site.git(&work, &["add", "--force", "one.secret"]);
    site.git(&work, &["commit", "--quiet", "-m", "forced"]);
    site.git(&work, &["add", "--force", "two.secret"]);
    let seen = site.diff(1);
    let listed = paths(&seen);
    assert!(
        listed.contains(&"one.secret") && listed.contains(&"two.secret") && !listed.contains(&"three.secret"),
        "{listed:?}"
    );

    // A change of the same length with the old times.
    let times = fs::metadata(work.join("a.txt")).unwrap().modified().unwrap();
    site.git(&work, &["update-index", "--no-assume-unchanged", "a.txt"]);
    site.commit(&work, "all");
    put(&work, "a.txt", "one\nHIDDEN?\nthree\n");
    fs::File::options()
        .write(true)
        .open(work.join("a.txt"))
        .unwrap()
        .set_modified(times)
        .unwrap();
    assert!(site.diff(1).diff.contains("+HIDDEN?\n"));
}

#[test]
fn an_index_that_cannot_be_read_changes_nothing() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, "a.txt", "x\n");
    fs::write(site.root.join(".git/worktrees/task-1/index"), "garbage").unwrap();
    assert_eq!(paths(&site.diff(1)), ["a.txt"]);
    fs::remove_file(site.root.join(".git/worktrees/task-1/index")).unwrap();
    assert_eq!(paths(&site.diff(1)), ["a.txt"]);
}

#[test]
fn another_repository_inside_is_named_and_not_entered() {
    let site = Site::new();
    let work = site.made(1).path;
    let inner = work.join("inner");
    put(&inner, "file.txt", "inside\n");
    site.git(&inner, &["init", "--quiet", "--initial-branch=main"]);
    let seen = site.diff(1);
    assert_eq!(paths(&seen), ["inner"]);
    assert_eq!(seen.files[0].change, Change::Repository);
    assert_eq!(seen.diff, "");
    site.commit(&inner, "first");
    assert_eq!(site.diff(1).files[0].change, Change::Repository);
    // As a submodule it is its commit's id.
    site.git(&work, &["add", "inner"]);
    site.git(&work, &["commit", "--quiet", "-m", "a submodule"]);
    let seen = site.diff(1);
    assert!(seen.diff.contains("+Subproject commit "), "{}", seen.diff);
    assert!(!seen.diff.contains("inside"));
}

#[test]
fn limits_cut_the_text_after_a_whole_line_and_the_list() {
    let site = Site::new();
    let work = site.made(1).path;
    for number in 0..30 {
        put(
            &work,
            &format!("many/{number:02}.txt"),
            "a line of text\n".repeat(100),
        );
    }
    put(&work, "large.bin", vec![b'x'; 5 * 1024 * 1024]);
    let limits = |bytes, files| Limits {
        bytes,
        files,
        ..Limits::default()
    };
    let whole = diff(site.place(1), DiffQuery::default(), &Limits::default()).unwrap();
    assert_eq!((whole.files.len(), whole.truncated), (31, false));
    // Named, not shown: it is too large to be read.
    assert!(whole.diff.contains("b/large.bin differ") && whole.diff.len() < 100_000);
    let cut = diff(site.place(1), DiffQuery::default(), &limits(1_000, 2_000)).unwrap();
    assert!(
        cut.truncated && cut.diff.len() <= 1_000 && cut.diff.ends_with('\n'),
        "{}",
        cut.diff.len()
    );
    assert!(whole.diff.starts_with(&cut.diff));
    assert_eq!(cut.files.len(), 31);
    let cut = diff(site.place(1), DiffQuery::default(), &limits(512 * 1024, 5)).unwrap();
    assert!(cut.truncated);
    assert_eq!(cut.files.len(), 5);
    for bytes in 0..20 {
        assert_eq!(
            diff(site.place(1), DiffQuery::default(), &limits(bytes, 5))
                .unwrap()
                .diff,
            ""
        );
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_a_file_that_is_gone() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, "new.txt", "n\n");
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(work.join(name)).status();
        assert!(made.unwrap().success());
    };
    pipe("pipe");
    assert_eq!(paths(&site.diff(1)), ["new.txt"]);
    fs::remove_file(work.join("a.txt")).unwrap();
    pipe("a.txt");
    fs::remove_file(work.join("sub/b.txt")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(work.join("sub/b.txt")).unwrap();
    let seen = site.diff(1);
    let rows: Vec<_> = seen
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.change))
        .collect();
    let gone = Change::Deleted;
    assert_eq!(
        rows,
        [("a.txt", gone), ("new.txt", Change::Added), ("sub/b.txt", gone)]
    );
}

#[test]
fn a_diff_that_runs_out_of_time_says_so_and_leaves_no_process() {
    let site = Site::new();
    site.made(1);
    let mut slow = 0;
    for time in (0..30).map(Duration::from_millis) {
        let limits = Limits {
            time,
            ..Limits::default()
        };
        match diff(site.place(1), DiffQuery::default(), &limits) {
            Ok(seen) => assert_eq!(seen.files, []),
            Err(Refusal::TooSlow(_)) => slow += 1,
            Err(other) => panic!("{other}"),
        }
        no_process_stays_in(&site.top());
    }
    assert!(slow > 0);
}

#[test]
fn without_a_worktree_there_is_no_diff() {
    let site = Site::new();
    assert!(matches!(
        site.diff_of(1, DiffQuery::default()),
        Err(Refusal::NoWorktree)
    ));
    let work = site.made(1).path;
    site.git(&site.root, &["worktree", "remove", work.to_str().unwrap()]);
    assert!(matches!(
        site.diff_of(1, DiffQuery::default()),
        Err(Refusal::NotAsMade(_))
    ));
}

#[test]
fn an_agent_at_work_does_not_break_it() {
    let site = Site::new();
    let work = site.made(1).path;
    put(&work, "stays.txt", "s\n");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let name = format!("come/{}.txt", number % 50);
                put(&work, &name, format!("{number}\n"));
                std::thread::sleep(Duration::from_millis(1));
                if number.is_multiple_of(3) {
                    let _ = fs::remove_file(work.join(name));
                }
                if number.is_multiple_of(100) {
                    let _ = fs::remove_dir_all(work.join("come"));
                }
            }
        });
        let seen: Vec<_> = (0..20)
            .map(|_| {
                site.diff_of(1, DiffQuery::default())
                    .map_err(|error| error.to_string())
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for seen in seen {
            assert!(paths(&seen.unwrap()).contains(&"stays.txt"));
        }
    });
}
