//! Making, finding and removing: once, twice, at once, after a crash, and where something is in the way. Never looks at diffs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::Barrier;
use std::time::Duration;

use muster_worktree::{Keep, Place, Refusal, ensure, find, remove};

use super::support::{Site, listing, put};

#[test]
fn a_worktree_stands_below_the_data_folder_on_a_branch_of_its_own() {
    let site = Site::new();
    fs::set_permissions(site.root.join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a.txt", site.root.join("link")).unwrap();
    site.commit(&site.root, "a mode and a link");
    assert_eq!(find(site.place(7)).unwrap(), None);
    let made = site.made(7);
    assert_eq!(made.path, site.data.join("worktrees/task-7"));
    assert_eq!(
        (made.branch.as_str(), made.base.as_str()),
        ("muster/task-7", "main")
    );
    assert_eq!(made.base_commit, site.git(&site.root, &["rev-parse", "main"]));
    assert_eq!(listing(&made.path), listing(&site.root));
    assert_eq!(
        fs::metadata(made.path.join("a.txt"))
            .unwrap()
            .permissions()
            .mode()
            & 0o111,
        0o111
    );
    assert_eq!(find(site.place(7)).unwrap(), Some(made.clone()));

    // As a person's git sees it: clean, on its branch, usable.
    assert_eq!(
        site.git(&made.path, &["status", "--porcelain", "--branch"]),
        "## muster/task-7"
    );
    put(&made.path, "new.txt", "new\n");
    site.commit(&made.path, "work");
    assert_eq!(
        site.git(&site.root, &["log", "--format=%s", "-1", "muster/task-7"]),
        "work"
    );
    assert_eq!(site.git(&site.root, &["fsck", "--no-progress"]), "");
    assert_eq!(site.git(&site.root, &["status", "--porcelain"]), "");
    assert!(site.git(&site.root, &["worktree", "list"]).contains("task-7"));
    let mode = fs::metadata(site.data.join("worktrees"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn asked_again_it_is_the_same_and_its_work_is_untouched() {
    let site = Site::new();
    let made = site.made(7);
    put(&made.path, "a.txt", "changed\n");
    put(&made.path, "new.txt", "new\n");
    let before = listing(&made.path);
    site.git(&site.root, &["branch", "other"]);
    for base in [None, Some("main"), Some("other"), Some("nonsense")] {
        assert_eq!(ensure(site.place(7), base).unwrap(), made);
        assert_eq!(listing(&made.path), before);
    }
    assert_ne!(site.made(8).path, made.path);
}

#[test]
fn a_base_is_a_branch_a_remotes_branch_a_tag_or_a_commit() {
    let site = Site::new();
    let first = site.git(&site.root, &["rev-parse", "main"]);
    site.git(&site.root, &["tag", "-a", "v1", "-m", "one"]);
    site.git(&site.root, &["update-ref", "refs/remotes/origin/main", &first]);
    site.git(&site.root, &["branch", "topic"]);
    site.put("a.txt", "later\n");
    site.commit(&site.root, "second");
    for (task, base) in [(1, "topic"), (2, "origin/main"), (3, "v1"), (4, first.as_str())] {
        let made = ensure(site.place(task), Some(base)).unwrap();
        assert_eq!(
            (made.base.as_str(), made.base_commit.as_str()),
            (base, first.as_str())
        );
        assert_eq!(
            fs::read_to_string(made.path.join("a.txt")).unwrap(),
            "one\ntwo\nthree\n"
        );
    }
    let wrong = [
        "",
        "nope",
        "main~0",
        "HEAD",
        "@",
        "-b",
        "main^{commit}",
        "../main",
        ":/first",
        "main:a.txt",
        "refs/heads/main",
        "a..b",
        "--help",
        first.get(..12).unwrap(),
    ];
    for base in wrong {
        let error = ensure(site.place(9), Some(base)).unwrap_err();
        assert!(matches!(error, Refusal::NoBase(_)), "{base}: {error}");
    }
    assert_eq!(site.git(&site.root, &["branch", "--list", "muster/task-9"]), "");
}

#[test]
fn a_root_that_is_no_checkout_with_a_commit_is_refused_in_plain_words() {
    let site = Site::bare_folder();
    let at = |name: &str| site.top().join(name);
    fs::create_dir(at("plain")).unwrap();
    fs::write(at("file"), "").unwrap();
    site.git(
        &site.root,
        &["init", "--quiet", "--bare", at("bare").to_str().unwrap()],
    );
    site.git(&site.root, &["init", "--quiet", at("empty").to_str().unwrap()]);
    let full = Site::new();
    let cases = [
        (at("missing"), "not_a_repository", "no folder"),
        (at("file"), "not_a_repository", "no folder"),
        (at("plain"), "not_a_repository", "git init"),
        (at("bare"), "not_a_repository", "bare"),
        (at("empty"), "empty_repository", "no commit"),
        (at("empty/.git"), "not_a_repository", "not a git repository"),
        (full.root.join("sub"), "not_a_repository", "not its top"),
    ];
    for (root, code, words) in cases {
        let place = Place {
            root: &root,
            data_dir: &site.data,
            task: 1,
        };
        let error = ensure(place, None).unwrap_err();
        assert_eq!(error.code(), code, "{}: {error}", root.display());
        assert!(error.to_string().contains(words), "{}: {error}", root.display());
    }
    assert!(matches!(ensure(full.place(0), None), Err(Refusal::BadTask)));
    assert!(matches!(ensure(full.place(-1), None), Err(Refusal::BadTask)));
}

#[test]
fn a_detached_head_needs_a_base() {
    let site = Site::new();
    site.git(&site.root, &["checkout", "--quiet", "--detach"]);
    assert!(matches!(ensure(site.place(1), None), Err(Refusal::Detached)));
    assert_eq!(ensure(site.place(1), Some("main")).unwrap().base, "main");
}

#[test]
fn what_is_in_the_way_is_left_alone() {
    let site = Site::new();
    site.git(&site.root, &["branch", "muster/task-1"]);
    assert!(matches!(
        ensure(site.place(1), None),
        Err(Refusal::BranchTaken(_))
    ));
    site.git(&site.root, &["branch", "-D", "muster/task-1"]);

    let folder = site.data.join("worktrees/task-1");
    put(&folder, "precious", "mine");
    assert!(matches!(
        ensure(site.place(1), None),
        Err(Refusal::FolderTaken(_))
    ));
    assert_eq!(fs::read_to_string(folder.join("precious")).unwrap(), "mine");
    fs::remove_dir_all(&folder).unwrap();
    let elsewhere = site.top().join("elsewhere");
    put(&elsewhere, "precious", "mine");
    symlink(&elsewhere, &folder).unwrap();
    assert!(matches!(
        ensure(site.place(1), None),
        Err(Refusal::FolderTaken(_))
    ));
    fs::remove_file(&folder).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("precious")).unwrap(), "mine");

    site.git(&site.root, &["branch", "muster"]);
    assert!(matches!(ensure(site.place(1), None), Err(Refusal::BranchTaken(name)) if name == "muster"));
    site.git(&site.root, &["branch", "-D", "muster"]);
    site.made(1);
}

#[test]
fn a_worktree_of_another_repository_is_not_taken_for_the_tasks() {
    let (site, other) = (Site::new(), Site::new());
    site.made(1);
    let moved = Place {
        root: &other.root,
        ..site.place(1)
    };
    assert!(matches!(ensure(moved, None), Err(Refusal::OtherRepository)));
    assert!(matches!(
        remove(moved, Keep::Nothing),
        Err(Refusal::OtherRepository)
    ));
    assert!(site.data.join("worktrees/task-1/a.txt").is_file());
}

#[test]
fn removing_keeps_the_branch_and_making_again_brings_its_work_back() {
    let site = Site::new();
    assert!(remove(site.place(1), Keep::Uncommitted).is_ok());
    let made = site.made(1);
    put(&made.path, "new.txt", "new\n");
    assert!(matches!(
        remove(site.place(1), Keep::Uncommitted),
        Err(Refusal::Uncommitted(1))
    ));
    assert!(made.path.join("new.txt").is_file());
    site.commit(&made.path, "work");
    remove(site.place(1), Keep::Uncommitted).unwrap();
    assert!(!made.path.exists());
    assert_eq!(find(site.place(1)).unwrap(), None);
    assert!(!site.git(&site.root, &["worktree", "list"]).contains("task-1"));
    assert_eq!(
        site.git(&site.root, &["log", "--format=%s", "-1", "muster/task-1"]),
        "work"
    );
    remove(site.place(1), Keep::Uncommitted).unwrap();

    assert_eq!(site.made(1), made);
    assert_eq!(fs::read_to_string(made.path.join("new.txt")).unwrap(), "new\n");
    assert_eq!(site.git(&made.path, &["status", "--porcelain"]), "");

    put(&made.path, "lost.txt", "lost\n");
    remove(site.place(1), Keep::Nothing).unwrap();
    assert!(!made.path.exists());
    // A branch that its owner deleted starts anew from where the first one did.
    site.git(&site.root, &["branch", "-D", "muster/task-1"]);
    site.made(1);
    assert!(!made.path.join("new.txt").exists());
}

#[test]
fn a_folder_that_was_deleted_by_hand_comes_back_with_its_branch() {
    let site = Site::new();
    let made = site.made(1);
    put(&made.path, "new.txt", "new\n");
    site.commit(&made.path, "work");
    site.git(&site.root, &["worktree", "lock", made.path.to_str().unwrap()]);
    fs::remove_dir_all(&made.path).unwrap();
    assert_eq!(find(site.place(1)).unwrap(), None);
    assert_eq!(site.made(1), made);
    assert!(made.path.join("new.txt").is_file());
    assert_eq!(
        site.git(&made.path, &["status", "--porcelain", "--branch"]),
        "## muster/task-1"
    );
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_is_not_checked_out_twice() {
    let site = Site::new();
    site.made(1);
    remove(site.place(1), Keep::Uncommitted).unwrap();
    site.git(&site.root, &["checkout", "--quiet", "muster/task-1"]);
    assert!(matches!(
        ensure(site.place(1), None),
        Err(Refusal::BranchInUse(_))
    ));
    site.git(&site.root, &["checkout", "--quiet", "main"]);
    site.made(1);
}

#[test]
fn a_worktree_that_was_replaced_is_not_taken_for_the_one_that_was_made() {
    let site = Site::new();
    let made = site.made(1);
    let elsewhere = site.top().join("elsewhere");
    put(&elsewhere, "precious", "mine");
    fs::remove_dir_all(&made.path).unwrap();
    symlink(&elsewhere, &made.path).unwrap();
    assert!(matches!(ensure(site.place(1), None), Err(Refusal::NotAsMade(_))));
    assert!(matches!(
        site.diff_of(1, Default::default()),
        Err(Refusal::NotAsMade(_))
    ));
    assert!(matches!(
        remove(site.place(1), Keep::Uncommitted),
        Err(Refusal::NotAsMade(_))
    ));
    remove(site.place(1), Keep::Nothing).unwrap();
    assert_eq!(fs::read_to_string(elsewhere.join("precious")).unwrap(), "mine");
    site.made(1);
}

/// What a crash between two steps leaves behind, step by step.
#[test]
fn what_was_begun_and_not_finished_is_made_anew() {
    type Leave = fn(&Site);
    let leave: [(&str, Leave); 5] = [
        ("the note alone", |site| {
            let path = site.data.join("worktrees/task-1");
            site.git(
                &site.root,
                &["worktree", "remove", "--force", path.to_str().unwrap()],
            );
            site.git(&site.root, &["branch", "-D", "muster/task-1"]);
        }),
        ("the note and the branch", |site| {
            let path = site.data.join("worktrees/task-1");
            site.git(
                &site.root,
                &["worktree", "remove", "--force", path.to_str().unwrap()],
            );
        }),
        ("a worktree that names the view", |site| {
            fs::write(
                site.data.join("worktrees/task-1/.git"),
                "gitdir: /gone/worktrees/task-1\n",
            )
            .unwrap();
            fs::remove_file(site.root.join(".git/worktrees/task-1/index")).unwrap();
            fs::write(site.root.join(".git/worktrees/task-1/locked"), "initializing").unwrap();
        }),
        ("half of the files, one of them cut", |site| {
            fs::write(site.data.join("worktrees/task-1/a.txt"), "on").unwrap();
            fs::remove_file(site.data.join("worktrees/task-1/sub/b.txt")).unwrap();
            fs::write(site.root.join(".git/worktrees/task-1/index.lock"), "").unwrap();
        }),
        ("the folder without git's entry", |site| {
            fs::remove_dir_all(site.root.join(".git/worktrees/task-1")).unwrap();
        }),
    ];
    for (what, leave) in leave {
        let site = Site::new();
        let made = site.made(1);
        let note = site.data.join("worktrees/task-1.json");
        let text = fs::read_to_string(&note).unwrap();
        assert!(text.contains("\"made\""), "{text}");
        leave(&site);
        fs::write(&note, text.replace("\"made\"", "\"making\"")).unwrap();
        assert_eq!(find(site.place(1)).unwrap(), None, "{what}");
        assert_eq!(site.made(1), made, "{what}");
        assert_eq!(listing(&made.path), listing(&site.root), "{what}");
        assert_eq!(
            site.git(&made.path, &["status", "--porcelain", "--branch"]),
            "## muster/task-1",
            "{what}"
        );
    }
}

#[test]
fn a_restoring_that_was_cut_short_is_completed_from_the_branch() {
    let site = Site::new();
    let made = site.made(1);
    put(&made.path, "new.txt", "new\n");
    site.commit(&made.path, "work");
    let whole = listing(&made.path);
    let note = site.data.join("worktrees/task-1.json");
    let text = fs::read_to_string(&note).unwrap();
    fs::write(&note, text.replace("\"made\"", "\"restoring\"")).unwrap();
    fs::write(made.path.join("new.txt"), "ne").unwrap();
    fs::remove_file(made.path.join("a.txt")).unwrap();
    assert_eq!(find(site.place(1)).unwrap(), None);
    assert_eq!(site.made(1), made);
    assert_eq!(listing(&made.path), whole);
    assert_eq!(fs::read_to_string(&note).unwrap(), text);
}

#[test]
fn a_commit_that_no_branch_has_is_not_lost_by_removing() {
    let site = Site::new();
    let made = site.made(1);
    site.git(&made.path, &["checkout", "--quiet", "--detach"]);
    put(&made.path, "new.txt", "new\n");
    site.commit(&made.path, "on no branch");
    assert!(matches!(
        remove(site.place(1), Keep::Uncommitted),
        Err(Refusal::NoBranchHas(_))
    ));
    site.git(&made.path, &["branch", "saved"]);
    remove(site.place(1), Keep::Uncommitted).unwrap();
    // Before its first commit, a branch has nothing but its files.
    let made = site.made(2);
    site.git(&made.path, &["checkout", "--quiet", "--orphan", "fresh"]);
    put(&made.path, "new.txt", "new\n");
    assert!(matches!(
        remove(site.place(2), Keep::Uncommitted),
        Err(Refusal::Uncommitted(1))
    ));
}

#[test]
fn folders_may_have_any_name_that_is_one_line() {
    for name in [
        "with blank",
        "qu\"ote",
        "co:lon",
        "#hash",
        "ümlaut",
        "-dash",
        "$(x)`x`",
        "back\\slash",
    ] {
        let site = Site::new();
        let (root, data) = (site.top().join(name), site.top().join(format!("{name} data")));
        fs::rename(&site.root, &root).unwrap();
        let place = Place {
            root: &root,
            data_dir: &data,
            task: 1,
        };
        let made = ensure(place, None).unwrap();
        assert_eq!(listing(&made.path), listing(&root), "{name}");
        assert_eq!(
            site.git(&made.path, &["status", "--porcelain", "--branch"]),
            "## muster/task-1"
        );
        put(&made.path, "a.txt", "x\n");
        let seen = muster_worktree::diff(place, Default::default(), &Default::default()).unwrap();
        assert_eq!(super::support::paths(&seen), ["a.txt"], "{name}");
        remove(place, Keep::Nothing).unwrap();
    }
}

#[test]
fn line_ends_and_submodules_are_no_changes() {
    let site = Site::new();
    let inner = Site::new();
    site.git(&site.root, &["config", "core.autocrlf", "true"]);
    put(&site.root, ".gitattributes", "*.dos text eol=crlf\n*.raw -text\n");
    put(&site.root, "one.dos", "a\r\nb\r\n");
    put(&site.root, "two.raw", "a\r\nb\n");
    let url = inner.root.to_str().unwrap();
    site.git(
        &site.root,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            url,
            "inner",
        ],
    );
    site.commit(&site.root, "line ends and a submodule");
    let made = site.made(1);
    assert_eq!(fs::read(made.path.join("one.dos")).unwrap(), b"a\r\nb\r\n");
    assert_eq!(fs::read(made.path.join("two.raw")).unwrap(), b"a\r\nb\n");
    assert_eq!(fs::read(made.path.join("sub/b.txt")).unwrap(), b"b\r\n");
    assert_eq!(fs::read_dir(made.path.join("inner")).unwrap().count(), 0);
    assert_eq!(site.git(&made.path, &["status", "--porcelain"]), "");
    assert_eq!(site.diff(1).files, []);
    put(&made.path, "one.dos", "a\r\nc\r\n");
    assert!(site.diff(1).diff.contains("-b\n+c\n"), "{}", site.diff(1).diff);
    site.git(&made.path, &["checkout", "--", "one.dos"]);
    remove(site.place(1), Keep::Uncommitted).unwrap();
}

#[test]
fn a_repository_of_another_account_is_refused() {
    let site = Site::new();
    // Only a privileged account can give a folder away.
    if std::os::unix::fs::chown(&site.root, Some(54_321), None).is_err() {
        return;
    }
    assert!(matches!(ensure(site.place(1), None), Err(Refusal::NotOwned(_))));
}

#[test]
fn an_entry_that_somebody_is_still_writing_is_waited_for() {
    let site = Site::new();
    let entry = site.root.join(".git/worktrees/theirs");
    fs::create_dir_all(&entry).unwrap();
    // As git leaves it for a moment: each file has a name before it has content.
    let write = |name: &str, text: &str| fs::write(entry.join(name), text).unwrap();
    write("gitdir", "/nowhere/theirs/.git\n");
    write("HEAD", "ref: refs/heads/main\n");
    write("commondir", "");
    let made = std::thread::scope(|scope| {
        let maker = scope.spawn(|| site.made(1));
        std::thread::sleep(Duration::from_millis(200));
        write("commondir", "../..\n");
        maker.join().unwrap()
    });
    assert_eq!(listing(&made.path), listing(&site.root));

    // One that stays so is told as what it is.
    write("commondir", "");
    let refused = ensure(site.place(2), None).unwrap_err().to_string();
    assert!(refused.contains("commondir"), "{refused}");
    assert!(!site.data.join("worktrees/task-2").exists());
}

#[test]
fn makers_at_once_get_the_same_worktree() {
    let site = Site::new();
    let barrier = Barrier::new(8);
    let made: Vec<_> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|number| {
                let (site, barrier) = (&site, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    // Two tasks, so that makers of different worktrees of one repository meet as well.
                    (number % 2, ensure(site.place(1 + number % 2), None).unwrap())
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    for (number, worktree) in &made {
        assert_eq!(*worktree, site.made(1 + number));
        assert_eq!(listing(&worktree.path), listing(&site.root));
        assert_eq!(site.git(&worktree.path, &["status", "--porcelain"]), "");
    }
    assert_eq!(site.git(&site.root, &["worktree", "list"]).lines().count(), 3);
}

#[test]
fn other_object_formats_and_kinds_of_references_work_alike() {
    for form in ["--object-format=sha256", "--ref-format=reftable"] {
        let site = Site::bare_folder();
        // Older versions of git do not have tables.
        if !site
            .try_git(&site.root, &["init", "--quiet", "--initial-branch=main", form])
            .status
            .success()
        {
            continue;
        }
        site.fill();
        let made = site.made(1);
        assert_eq!(
            site.git(&made.path, &["status", "--porcelain", "--branch"]),
            "## muster/task-1",
            "{form}"
        );
        put(&made.path, "a.txt", "other\n");
        put(&made.path, "new.txt", "new\n");
        site.commit(&made.path, "work");
        put(&made.path, "newer.txt", "newer\n");
        assert_eq!(
            super::support::paths(&site.diff(1)),
            ["a.txt", "new.txt", "newer.txt"],
            "{form}"
        );
        remove(site.place(1), Keep::Nothing).unwrap();
        assert_eq!(site.made(1), made);
    }
}

#[test]
fn a_root_that_is_itself_a_worktree_serves_as_well() {
    let site = Site::new();
    let linked = site.top().join("linked");
    site.git(
        &site.root,
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            "topic",
            linked.to_str().unwrap(),
        ],
    );
    let place = Place {
        root: &linked,
        ..site.place(1)
    };
    assert_eq!(ensure(place, None).unwrap().base, "topic");
    // The same repository by another of its checkouts.
    assert_eq!(site.made(1).base, "topic");
}

mod heavy {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    const SITE: &str = "WORKTREE_TEST_SITE";

    #[test]
    #[ignore = "run as a process of its own by a_maker_that_is_killed_at_any_moment_leaves_nothing_that_cannot_be_finished"]
    fn make_and_be_killed() {
        let top = std::path::PathBuf::from(std::env::var_os(SITE).unwrap());
        let place = Place {
            root: &top.join("root"),
            data_dir: &top.join("data"),
            task: 1,
        };
        ensure(place, None).unwrap();
    }

    #[test]
    fn a_maker_that_is_killed_at_any_moment_leaves_nothing_that_cannot_be_finished() {
        let mut unfinished = 0;
        for step in 0..40 {
            let site = Site::new();
            for number in 0..60 {
                site.put(&format!("many/{number}.txt"), &"text\n".repeat(200));
            }
            site.commit(&site.root, "many");
            let mut maker = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "make::heavy::make_and_be_killed"])
                .env(SITE, site.top())
                // What a killed maker leaves of its view goes with the site.
                .env("TMPDIR", site.top().join("home"))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(4 * step));
            maker.kill().unwrap();
            maker.wait().unwrap();
            unfinished += usize::from(find(site.place(1)).unwrap().is_none());
            let made = site.made(1);
            assert_eq!(listing(&made.path), listing(&site.root), "{step}");
            assert_eq!(
                site.git(&made.path, &["status", "--porcelain", "--branch"]),
                "## muster/task-1",
                "{step}"
            );
        }
        assert!(unfinished > 3, "{unfinished}");
    }
}
