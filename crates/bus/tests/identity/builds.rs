//! Which build runs.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use muster_bus::build_id;

#[test]
fn a_build_is_the_content_of_its_executable() {
    let stamp = build_id::stamp().unwrap();
    assert!(stamp.len() == 32 && stamp.bytes().all(|b| b.is_ascii_hexdigit()));
    let own = muster_core::secret::sha256_hex(&fs::read(std::env::current_exe().unwrap()).unwrap());
    assert_eq!(Some(stamp), own.get(..32));
    assert_eq!(build_id::installed().unwrap().as_deref(), Some(stamp));
    assert!(!build_id::running_is_behind().unwrap() && !build_id::is_behind(stamp).unwrap());
    assert!(build_id::is_behind("another build").unwrap());
    assert_eq!(build_id::module().unwrap(), std::env::current_exe().unwrap());
}

/// The role of [`a_running_process_is_behind_once_another_build_is_installed`]: answers each line with what it finds.
#[test]
fn looks_at_its_build() {
    if std::env::var("BUS_ROLE").as_deref() != Ok("look") {
        return;
    }
    let out = std::io::stdout();
    for line in std::io::stdin().lines() {
        let stamp = if line.unwrap() == "stamp" {
            build_id::stamp().unwrap()
        } else {
            "-"
        };
        let (behind, installed) = (
            build_id::running_is_behind().unwrap(),
            build_id::installed().unwrap(),
        );
        writeln!(
            out.lock(),
            "\nanswer {stamp} {behind} {} {}",
            installed.is_some(),
            build_id::module().unwrap().display()
        )
        .unwrap();
    }
}

#[test]
fn a_running_process_is_behind_once_another_build_is_installed() {
    let dir = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(dir.path()).unwrap().join("muster");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let mut child = Command::new(&path)
        .args(["--exact", "builds::looks_at_its_build", "--nocapture"])
        .env("BUS_ROLE", "look")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut asks = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |what: &str| {
        writeln!(asks, "{what}").unwrap();
        let answer = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.starts_with("answer "))
            .unwrap();
        let words: Vec<String> = answer.split(' ').skip(1).map(str::to_owned).collect();
        <[String; 4]>::try_from(words).unwrap()
    };
    let place = path.display().to_string();
    let yes_no = |behind: bool, there: bool| [behind.to_string(), there.to_string(), place.clone()];
    assert_eq!(ask("look")[1..], yes_no(false, true));

    // The same build installed again is none that it would be behind.
    let put = |extra: &[u8]| {
        let new = path.with_extension("new");
        let mut content = fs::read(std::env::current_exe().unwrap()).unwrap();
        content.extend_from_slice(extra);
        fs::write(&new, content).unwrap();
        fs::rename(&new, &path).unwrap();
    };
    put(b"");
    assert_eq!(ask("look")[1..], yes_no(false, true));
    put(b"!");
    assert_eq!(ask("look")[1..], yes_no(true, true));
    // It is known by what it runs, not by what lies there now.
    assert_eq!(ask("stamp")[0], build_id::stamp().unwrap());
    fs::remove_file(&path).unwrap();
    assert_eq!(ask("look")[1..], yes_no(false, false));

    drop(asks);
    assert!(child.wait().unwrap().success());
}
