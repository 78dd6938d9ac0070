//! `muster db set-url`: an address is replaced after the look that `add` takes, and a refused one changes nothing. Never asks for a grant again.

use serde_json::json;

use crate::databases::{Postgres, add, document, place};

#[test]
fn an_address_of_another_engine_or_none_at_all_replaces_nothing() {
    let place = place();
    let (one, two) = (place.path("one.db"), place.path("two.db"));
    let url = |file: &std::path::Path| format!("sqlite://{}", file.display());
    for (file, table) in [(&one, "one"), (&two, "two")] {
        std::fs::write(file, "").unwrap();
        add(&place, table, &url(file), &[]).ok();
        let made = place.run_with(
            &["db", "shell", table, "--write"],
            &format!("CREATE TABLE {table} (id INTEGER);\n"),
        );
        assert_eq!(made.code(), 0, "{made:?}");
    }
    let added = document(&add(&place, "local", &url(&one), &[]));
    let objects = || {
        let said = place.run_with(&["db", "shell", "local", "--json"], "\\objects\n");
        assert_eq!(said.code(), 0, "{said:?}");
        said.out
    };
    assert!(objects().contains("\"one\""));
    for (words, code) in [
        (&["--url", "postgres://db/app"][..], 2),
        (&["--write-url", "redis://db/0"], 2),
        (&["--url", "nonsense"], 2),
        (&[], 2),
        (&["--write-url", "sqlite:///x.db", "--no-write-url"], 2),
    ] {
        let said = place.run(&[&["db", "set-url", "local", "--json"], words].concat());
        assert_eq!(said.code(), code, "{words:?} {said:?}");
    }
    let own = url(&place.data().join("muster.db"));
    for which in ["--url", "--write-url"] {
        let said = place.run(&["db", "set-url", "local", "--json", which, &own]);
        assert_eq!(document(&said)["error"]["code"], "own_database", "{said:?}");
    }
    assert_eq!(
        place.error(&["db", "set-url", "none", "--url", &url(&two)])["code"],
        "not_found"
    );
    assert!(objects().contains("\"one\""));
    let changed = place.json(&["db", "set-url", "local", "--url", &url(&two)]);
    assert_eq!(changed, added, "its id, name and project stay");
    assert!(objects().contains("\"two\"") && !objects().contains("\"one\""));
    let log = place.json(&["audit", "list", "--event", "db.set_url"]);
    assert_eq!(log.as_array().unwrap().len(), 1, "{log}");
}

mod heavy {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_new_account_is_looked_at_as_the_first_one_was() {
        let Some(postgres) = Postgres::start().await else {
            return;
        };
        let place = place();
        let added = document(&add(&place, "pg", &postgres.reader(), &[]));
        assert_eq!(
            (&added["wide"], &added["has_write_account"]),
            (&json!(false), &json!(false))
        );
        place.ok(&["db", "check", "pg"]);
        let set = |more: &[&str]| place.run(&[&["db", "set-url", "pg", "--json"], more].concat());
        // Refused as they are for `add`, and nothing is changed.
        for (words, code) in [
            (&["--url", &postgres.wide()][..], "wide_account"),
            (
                &["--url", &postgres.with_account("nobody_of_that_name:x")],
                "sign_in",
            ),
            (
                &["--write-url", &postgres.with_account("nobody_of_that_name:x")],
                "sign_in",
            ),
        ] {
            let said = set(words);
            assert_eq!(said.code(), 1, "{said:?}");
            assert_eq!(document(&said)["error"]["code"], code, "{said:?}");
        }
        assert_eq!(place.json(&["db", "show", "pg"]), added);
        // From standard input, and with an account that writes.
        let wide = postgres.wide();
        let said = place.run_with(
            &["db", "set-url", "pg", "--json", "--write-url-stdin"],
            &format!("{wide}\n"),
        );
        let changed = document(&said);
        assert_eq!(
            (&changed["wide"], &changed["has_write_account"]),
            (&json!(false), &json!(true))
        );
        let wrote = place.run_with(
            &["db", "shell", "pg", "--write"],
            "UPDATE t SET v = 'b' WHERE id = 1;\n",
        );
        assert_eq!(wrote.code(), 0, "{wrote:?}");
        // What the last self-test found was of the old ones.
        assert!(place.ok(&["db", "show", "pg"]).contains("none yet"));
        let changed = document(&set(&["--url", &wide, "--no-write-url", "--accept-wide-account"]));
        assert_eq!(
            (&changed["wide"], &changed["has_write_account"]),
            (&json!(true), &json!(false))
        );
        // Its owner took the wide one: only what is new is asked about.
        let changed = document(&set(&["--write-url", &wide]));
        assert_eq!(
            (&changed["wide"], &changed["has_write_account"]),
            (&json!(true), &json!(true))
        );
        let log = place.ok(&["audit", "list", "--json"]);
        assert!(!log.contains("SECRET") && !log.contains("postgres://"), "{log}");
        postgres.end(&[]).await;
    }
}
