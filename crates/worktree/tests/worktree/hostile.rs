//! A repository whose every setting that can name a program names a trap, and an environment that does the same. Never springs one: only a person's git does, to show that the traps work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use muster_worktree::{DiffQuery, Keep, Refusal, ensure, remove};

use super::support::{Site, paths, put};

/// Every hook that git knows of.
const HOOKS: [&str; 12] = [
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-commit",
    "post-commit",
    "fsmonitor-watchman",
    "post-rewrite",
    "post-merge",
    "pre-auto-gc",
    "update",
    "post-update",
    "proc-receive",
];

/// Sets a trap wherever the configuration of a repository can name a program.
fn arm(site: &Site, config: &Path) {
    let trap = |name: &str| site.trap(name);
    let hooks = site.top().join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in HOOKS {
        for folder in [&hooks, &site.root.join(".git/hooks")] {
            fs::create_dir_all(folder).unwrap();
            fs::copy(trap("hook"), folder.join(hook)).unwrap();
            fs::set_permissions(folder.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let evil = site.top().join("attributes");
    fs::write(&evil, "* filter=evil diff=evil merge=evil\n").unwrap();
    let set = |key: &str, value: &str| {
        site.git(
            &site.root,
            &["config", "--file", config.to_str().unwrap(), key, value],
        );
    };
    for (key, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("core.pager", "pager"),
        ("core.editor", "editor"),
        ("core.sshCommand", "ssh"),
        ("core.askPass", "askpass"),
        ("core.gitProxy", "proxy"),
        ("core.alternateRefsCommand", "alternates"),
        ("diff.external", "external"),
        ("diff.evil.command", "diff-command"),
        ("diff.evil.textconv", "textconv"),
        ("filter.evil.clean", "clean"),
        ("filter.evil.smudge", "smudge"),
        ("filter.evil.process", "process"),
        ("merge.evil.driver", "merge"),
        ("credential.helper", "credential"),
        ("gpg.program", "gpg"),
        ("pager.diff", "pager"),
        ("pager.worktree", "pager"),
        ("sequence.editor", "editor"),
        ("interactive.diffFilter", "filter"),
        ("uploadpack.packObjectsHook", "pack"),
        ("gc.recentObjectsHook", "gc"),
        ("hook.evil.command", "config-hook"),
        ("remote.origin.uploadpack", "uploadpack"),
    ] {
        set(key, &trap(name));
    }
    for command in [
        "diff",
        "worktree",
        "rev-parse",
        "read-tree",
        "update-index",
        "ls-files",
        "config",
        "checkout-index",
    ] {
        set(&format!("alias.{command}"), &format!("!{}", trap("alias")));
    }
    for event in ["post-checkout", "post-index-change", "reference-transaction"] {
        site.git(
            &site.root,
            &[
                "config",
                "--file",
                config.to_str().unwrap(),
                "--add",
                "hook.evil.event",
                event,
            ],
        );
    }
    set("filter.evil.required", "true");
    set("diff.evil.cachetextconv", "true");
    set("core.hooksPath", hooks.to_str().unwrap());
    set("core.attributesFile", evil.to_str().unwrap());
    set("remote.origin.url", &format!("ext::{}", trap("remote")));
    set("remote.origin.promisor", "true");
    set("remote.origin.partialclonefilter", "blob:none");
    set("protocol.allow", "always");
    set("protocol.ext.allow", "always");
    set("submodule.recurse", "true");
    set("diff.submodule", "diff");
    set("diff.ignoreSubmodules", "none");
    set("status.submoduleSummary", "true");
}

fn armed() -> Site {
    let site = Site::new();
    put(&site.root, ".gitattributes", "* filter=evil diff=evil\n");
    site.commit(&site.root, "attributes");
    arm(&site, &site.root.join(".git/config"));
    fs::create_dir_all(site.root.join(".git/info")).unwrap();
    fs::write(
        site.root.join(".git/info/attributes"),
        "* filter=evil diff=evil\n",
    )
    .unwrap();
    site
}

#[test]
fn the_traps_spring_for_a_git_that_obeys_the_configuration() {
    let site = armed();
    put(&site.root, "a.txt", "changed\n");
    let path = site.top().join("obeyed");
    site.try_git(
        &site.root,
        &["worktree", "add", "--quiet", path.to_str().unwrap()],
    );
    site.try_git(&site.root, &["status"]);
    site.try_git(&site.root, &["diff"]);
    site.try_git(&site.root, &["-c", "diff.external=", "diff", "--no-ext-diff"]);
    let sprung = site.marks();
    for name in ["mark-fsmonitor", "mark-hook", "mark-process"] {
        assert!(sprung.contains(&name.to_owned()), "{sprung:?}");
    }
}

#[test]
fn no_setting_of_the_repository_makes_a_program_run() {
    let site = armed();
    let made = ensure(site.place(1), None).unwrap();
    assert_eq!(site.marks(), Vec::<String>::new());
    put(&made.path, "a.txt", "changed\n");
    put(&made.path, "new.txt", "new\n");
    put(
        &made.path,
        ".gitattributes",
        "* filter=evil diff=evil text\n*.md filter=evil -text\n",
    );
    assert_eq!(paths(&site.diff(1)), [".gitattributes", "a.txt", "new.txt"]);
    assert!(site.diff(1).diff.contains("+changed\n"));
    let query = DiffQuery {
        path: Some("a.txt"),
        stat: true,
    };
    site.diff_of(1, query).unwrap();
    assert_eq!(ensure(site.place(1), None).unwrap(), made);
    assert!(matches!(
        remove(site.place(1), Keep::Uncommitted),
        Err(Refusal::Uncommitted(3))
    ));
    remove(site.place(1), Keep::Nothing).unwrap();
    ensure(site.place(1), None).unwrap();
    assert_eq!(site.marks(), Vec::<String>::new());
}

#[test]
fn nor_does_one_that_is_set_while_the_task_works() {
    let site = Site::new();
    let made = site.made(1);
    // From within a worktree an agent reaches the configuration of all.
    arm(&site, &site.root.join(".git/config"));
    let own = site.root.join(".git/worktrees/task-1/config.worktree");
    fs::write(&own, "").unwrap();
    arm(&site, &own);
    fs::OpenOptions::new()
        .append(true)
        .open(site.root.join(".git/config"))
        .map(|mut file| {
            use std::io::Write as _;
            write!(
                file,
                "[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = {}\n",
                own.display()
            )
            .unwrap();
        })
        .unwrap();
    put(&made.path, ".gitattributes", "* filter=evil diff=evil\n");
    put(&made.path, "a.txt", "changed\n");
    assert_eq!(paths(&site.diff(1)), [".gitattributes", "a.txt"]);
    site.made(2);
    remove(site.place(1), Keep::Nothing).unwrap();
    assert_eq!(site.marks(), Vec::<String>::new());
}

#[test]
fn a_repository_within_the_worktree_is_not_obeyed_either() {
    let site = Site::new();
    let made = site.made(1);
    let inner = made.path.join("inner");
    put(&inner, "f.txt", "f\n");
    site.git(&inner, &["init", "--quiet"]);
    site.commit(&inner, "inner");
    site.git(&made.path, &["add", "inner"]);
    site.git(&made.path, &["commit", "--quiet", "-m", "a submodule"]);
    arm(&site, &inner.join(".git/config"));
    put(&inner, "f.txt", "changed\n");
    put(
        &made.path,
        ".gitmodules",
        "[submodule \"inner\"]\n\tpath = inner\n\turl = ext::sh\n\tignore = none\n\tupdate = !sh\n",
    );
    let seen = site.diff(1);
    assert_eq!(paths(&seen), [".gitmodules", "inner"]);
    assert!(!seen.diff.contains("changed"));
    // The worktree's own link to its repository, turned to a hostile one.
    let evil = site.top().join("evil");
    site.git(&site.root, &["init", "--quiet", evil.to_str().unwrap()]);
    arm(&site, &evil.join(".git/config"));
    fs::write(
        made.path.join(".git"),
        format!("gitdir: {}\n", evil.join(".git").display()),
    )
    .unwrap();
    assert_eq!(paths(&site.diff(1)), [".gitmodules", "inner"]);
    remove(site.place(1), Keep::Nothing).unwrap();
    assert_eq!(site.marks(), Vec::<String>::new());
}

#[test]
fn an_object_that_is_not_there_is_not_fetched() {
    let site = armed();
    let blob = site.git(&site.root, &["rev-parse", "HEAD:a.txt"]);
    let (folder, name) = blob.split_at(2);
    fs::remove_file(site.root.join(format!(".git/objects/{folder}/{name}"))).unwrap();
    let error = ensure(site.place(1), None).unwrap_err();
    assert!(matches!(error, Refusal::Git { .. }), "{error}");
    assert_eq!(site.marks(), Vec::<String>::new());
}

#[test]
fn a_tree_that_would_write_through_a_link_is_not_written_out() {
    let site = Site::new();
    let outside = site.top().join("outside");
    fs::create_dir(&outside).unwrap();
    // A tree with a link and a folder of the same name, which no checkout makes.
    let blob = site.git(&site.root, &["rev-parse", "HEAD:a.txt"]);
    let inner = made_tree(&site, &format!("100644 blob {blob}\tescaped\n"));
    put(&site.root, "target", outside.to_str().unwrap());
    let link = site.git(&site.root, &["hash-object", "-w", "target"]);
    let tree = made_tree(
        &site,
        &format!("120000 blob {link}\tdoor\n040000 tree {inner}\tdoor\n"),
    );
    let commit = site.git(&site.root, &["commit-tree", &tree, "-p", "HEAD", "-m", "evil"]);
    site.git(&site.root, &["update-ref", "refs/heads/evil", &commit]);
    let _ = ensure(site.place(1), Some("evil"));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

fn made_tree(site: &Site, rows: &str) -> String {
    put(&site.top(), "rows", rows);
    let output = Command::new("git")
        .args(["mktree", "--missing"])
        .current_dir(&site.root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(fs::File::open(site.top().join("rows")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

const SITE: &str = "WORKTREE_TEST_SITE";

#[test]
#[ignore = "run as a process of its own by no_variable_of_the_environment_reaches_git"]
fn work_in_a_hostile_environment() {
    let top = std::path::PathBuf::from(std::env::var_os(SITE).unwrap());
    let place = muster_worktree::Place {
        root: &top.join("root"),
        data_dir: &top.join("data"),
        task: 1,
    };
    let made = ensure(place, None).unwrap();
    put(&made.path, "a.txt", "changed\n");
    let seen = muster_worktree::diff(place, DiffQuery::default(), &Default::default()).unwrap();
    assert_eq!(paths(&seen), ["a.txt"]);
    remove(place, Keep::Nothing).unwrap();
}

#[test]
fn no_variable_of_the_environment_reaches_git() {
    let site = Site::new();
    let global = site.top().join("home/.gitconfig");
    fs::write(&global, "").unwrap();
    arm(&site, &global);
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--ignored", "--exact", "hostile::work_in_a_hostile_environment"])
        .env(SITE, site.top())
        .env("HOME", site.top().join("home"))
        .env("GIT_DIR", site.top().join("nowhere"))
        .env("GIT_WORK_TREE", "/")
        .env("GIT_INDEX_FILE", site.top().join("stray-index"))
        .env("GIT_OBJECT_DIRECTORY", site.top().join("nowhere"))
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.fsmonitor")
        .env("GIT_CONFIG_VALUE_0", site.trap("variable"))
        .env(
            "GIT_CONFIG_PARAMETERS",
            format!("'diff.external={}'", site.trap("variable")),
        )
        .env("GIT_EXEC_PATH", site.top())
        .env("GIT_NAMESPACE", "evil")
        .env("GIT_TRACE", site.mark("trace"))
        .env("GIT_REDIRECT_STDOUT", site.mark("redirect"));
    for name in [
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "PAGER",
        "GIT_EDITOR",
        "EDITOR",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_ASKPASS",
        "SSH_ASKPASS",
        "GIT_PROXY_COMMAND",
    ] {
        child.env(name, site.trap("variable"));
    }
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(site.marks(), Vec::<String>::new());
    assert!(!site.top().join("stray-index").exists());
}

#[test]
#[ignore = "run as a process of its own by a_git_that_hangs_is_ended_with_all_that_it_started"]
fn wait_for_a_git_that_hangs() {
    let top = std::path::PathBuf::from(std::env::var_os(SITE).unwrap());
    let place = muster_worktree::Place {
        root: &top.join("root"),
        data_dir: &top.join("data"),
        task: 1,
    };
    let limits = muster_worktree::Limits {
        time: std::time::Duration::from_secs(1),
        ..Default::default()
    };
    let begin = std::time::Instant::now();
    let answer = muster_worktree::diff(place, DiffQuery::default(), &limits);
    assert!(matches!(answer, Err(Refusal::TooSlow(_))), "{answer:?}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn a_git_that_hangs_is_ended_with_all_that_it_started() {
    let site = Site::new();
    site.made(1);
    let programs = site.top().join("programs");
    put(&programs, "git", "#!/bin/sh\n/bin/sleep 61 &\n/bin/sleep 61\n");
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "hostile::wait_for_a_git_that_hangs"])
        .env(SITE, site.top())
        .env("PATH", &programs)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    super::support::no_process_stays_in(&site.top());
}
