//! muster's own database is no connection, by whichever name. Never writes to it.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::databases::{add, document, place};

#[test]
fn musters_own_database_is_no_connection_by_any_name() {
    let place = place();
    let own = place.data().join("muster.db");
    let (link, twin, copy) = (
        place.path("link.db"),
        place.path("twin.db"),
        place.path("copy.db"),
    );
    std::os::unix::fs::symlink(&own, &link).unwrap();
    std::fs::hard_link(&own, &twin).unwrap();
    // Tokens and grants are no less in a copy.
    std::fs::copy(&own, &copy).unwrap();
    for file in [&own, &link, &twin, &copy] {
        let url = format!("sqlite://{}", file.display());
        for more in [&[][..], &["--accept-wide-account"]] {
            let said = add(&place, "own", &url, more);
            assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
        }
        let other = place.path("other.db");
        std::fs::write(&other, "").unwrap();
        let said = add(
            &place,
            "own",
            &format!("sqlite://{}", other.display()),
            &["--write-url", &url],
        );
        assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
    }
    assert_eq!(place.json(&["db", "list"]), json!([]));
    // One that leads there later is not opened.
    let later = place.path("later.db");
    std::fs::write(&later, "").unwrap();
    add(&place, "later", &format!("sqlite://{}", later.display()), &[]).ok();
    place.ok(&["db", "test", "later"]);
    std::fs::remove_file(&later).unwrap();
    std::os::unix::fs::symlink(&own, &later).unwrap();
    let said = place.run_with(&["db", "test", "later", "--json"], "");
    assert_eq!(said.code(), 1, "{said:?}");
    assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
    for (words, input) in [
        (&["db", "check", "later"][..], ""),
        (&["db", "shell", "later"], "SELECT 1;\n"),
    ] {
        let said = place.run_with(words, input);
        assert_eq!(said.code(), 1, "{said:?}");
        assert!(
            format!("{}{}", said.out, said.err).contains("keeps its grants, tokens and audit log"),
            "{said:?}"
        );
    }
}

#[test]
fn a_shell_that_is_open_does_not_follow_a_name_to_musters_own_database() {
    let place = place();
    let (good, name) = (place.path("good.db"), place.path("name.db"));
    std::fs::write(&good, "").unwrap();
    std::os::unix::fs::symlink(&good, &name).unwrap();
    add(&place, "swapped", &format!("sqlite://{}", name.display()), &[]).ok();
    let mut shell = place
        .command(&["db", "shell", "swapped", "--write"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    input.write_all(b"CREATE TABLE seen (id INTEGER);\n").unwrap();
    let begun = Instant::now();
    while std::fs::metadata(&good).unwrap().len() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(&name).unwrap();
    std::os::unix::fs::symlink(place.data().join("muster.db"), &name).unwrap();
    input.write_all(b"UPDATE owners SET name = 'eve';\n").unwrap();
    drop(input);
    let said = shell.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("keeps its grants, tokens and audit log"), "{said}");
    assert!(!place.ok(&["owner", "list"]).contains("eve"));
}

mod heavy {
    use super::*;
    use crate::databases::furnished;
    use crate::support::Place;
    use xtask::pg::{ADMIN, Cluster, Durability};

    #[test]
    fn musters_own_postgres_is_no_connection_by_any_name_nor_for_any_account() {
        let cluster = match Cluster::start(Durability::Fast) {
            Ok(cluster) => cluster,
            Err(error)
                if std::env::var_os("CI").is_none()
                    && error.to_string().starts_with("no Postgres server") =>
            {
                eprintln!("SKIPPED: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let own = cluster.app_url();
        let place = furnished(Place::new().with("MUSTER_DATABASE_URL", &own));
        let (_, folder) = own.split_once("host=").unwrap();
        let link = place.path("sockets");
        std::os::unix::fs::symlink(folder, &link).unwrap();
        let link = link.display().to_string();
        for url in [
            own.clone(),
            own.replace("localhost", "LOCALHOST"),
            own.replace("localhost", "db.example.test"),
            own.replace(folder, &link),
            own.replace(folder, &format!("{link}/")),
            format!("postgres://muster_app@{}/muster_test", link.replace('/', "%2F")),
            cluster.url(ADMIN, "muster_test"),
        ] {
            let said = add(&place, "own", &url, &["--accept-wide-account"]);
            assert_eq!(
                document(&said)["error"]["code"],
                "own_database",
                "{url}: {said:?}"
            );
        }
        assert_eq!(place.json(&["db", "list"]), json!([]));
        // Another database of the same server is one like any other.
        add(
            &place,
            "other",
            &cluster.url(ADMIN, "postgres"),
            &["--accept-wide-account"],
        )
        .ok();
    }
}
