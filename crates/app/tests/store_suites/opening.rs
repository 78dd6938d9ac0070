//! Opening a database: what muster refuses, with what sentence, and that it leaves alone what it refuses. Never tests what a full or read-only disk does (see heavy).

use std::path::Path;

use muster_core::FaultKind;
use muster_store::{Db, Engine, OpenError, Options};
use muster_testkit::{PgDatabase, engines, on_both, postgres_admin_url};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::support::{Raw, add, child, count, ends_well, file, is_child, place, second_db};

async fn refused(url: &str) -> OpenError {
    let dir = tempfile::tempdir().unwrap();
    match Db::open(&Options::new(url, dir.path().join("locks"))).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_with_the_two_that_there_are() {
    let odd = [
        "",
        "muster.db",
        "/srv/muster.db",
        "mysql://root@localhost/muster",
        "sqlite:muster.db",
        "file:muster.db",
        "http://localhost",
        "SQLITE:///x",
        "postgres://[broken",
    ];
    // These SQLite would keep in memory, and lose with the process.
    let gone_with_the_process = ["sqlite://", "sqlite://:memory:", "sqlite://file:x?mode=memory"];
    for url in odd.into_iter().chain(gone_with_the_process) {
        let error = refused(url).await;
        assert!(matches!(error, OpenError::Address), "{url}: {error}");
        assert!(
            error
                .to_string()
                .contains("sqlite://PATH or postgres://USER@HOST/NAME"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_or_another_programs_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    for content in [&b"Remember the milk.\n"[..], b"SQLite", &[0_u8; 4096]] {
        std::fs::write(&path, content).unwrap();
        let error = refused(&format!("sqlite://{}", path.display())).await;
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("notes.txt is not a SQLite database; it was left as it is"),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    let path = dir.path().join("theirs.db");
    let mut conn = <sqlx::SqliteConnection as sqlx::Connection>::connect(&format!(
        "sqlite://{}?mode=rwc",
        path.display()
    ))
    .await
    .unwrap();
    conn.execute("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x')")
        .await
        .unwrap();
    conn.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = refused(&format!("sqlite://{}", path.display())).await;
    assert!(
        error
            .to_string()
            .contains("theirs.db is a SQLite database of another program; it was left as it is"),
        "{error}"
    );
    assert!(std::fs::read(&path).unwrap() == before, "a byte differs");
    assert_eq!(
        files(dir.path()),
        ["notes.txt", "theirs.db"],
        "nothing was put beside it"
    );
    // A file that claims to be one and is broken behind its first words.
    let path = dir.path().join("broken.db");
    std::fs::write(&path, [b"SQLite format 3\0".as_slice(), &[0xff; 4080]].concat()).unwrap();
    let error = refused(&format!("sqlite://{}", path.display())).await;
    assert!(error.to_string().contains("broken.db"), "{error}");
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_database_of_a_newer_version_is_refused_by_name_and_left_as_it_is() {
    on_both(|muster| async move {
        add(&muster.app.db, "kept").await.unwrap();
        muster.app.db.close().await;
        let mut raw = Raw::of(&muster).await;
        let flag = if muster.engine == Engine::Sqlite {
            "1"
        } else {
            "TRUE"
        };
        raw.run(&format!(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) SELECT 4711, 'later', {flag}, checksum, 1 FROM _sqlx_migrations WHERE version = 1"
        ))
        .await
        .unwrap();
        raw.run("ALTER TABLE owners ADD COLUMN later TEXT").await.unwrap();
        let before = look(&mut raw).await;
        raw.close().await;
        let bytes = (muster.engine == Engine::Sqlite).then(|| std::fs::read(file(&muster)).unwrap());
        let error = refused(&muster.url).await;
        assert!(matches!(error, OpenError::Newer { version: 4711 }), "{error}");
        let said = error.to_string();
        assert!(said.contains("newer muster (it has schema version 4711); it was left as it is. Start that version, or restore a backup"), "{said}");
        if let Some(bytes) = bytes {
            assert!(std::fs::read(file(&muster)).unwrap() == bytes, "a byte differs");
        }
        assert_eq!(look(&mut Raw::of(&muster).await).await, before);
    });
}

/// Everything of a database, schema and rows.
async fn look(raw: &mut Raw) -> Vec<String> {
    let mut all = Vec::new();
    for table in raw
        .tables()
        .await
        .into_iter()
        .chain(["_sqlx_migrations".to_owned()])
    {
        let columns = if table == "_sqlx_migrations" {
            "version, description"
        } else {
            "*"
        };
        all.push(format!(
            "{table}: {:?}",
            raw.rows(&format!("SELECT {columns} FROM {table} ORDER BY 1"))
                .await
        ));
    }
    all
}

#[test]
fn a_database_of_another_build_is_refused_and_left_as_it_is() {
    on_both(|muster| async move {
        muster.app.db.close().await;
        let mut raw = Raw::of(&muster).await;
        let sum = if muster.engine == Engine::Sqlite {
            "x'00'"
        } else {
            "'\\x00'"
        };
        raw.run(&format!(
            "UPDATE _sqlx_migrations SET checksum = {sum} WHERE version = 1"
        ))
        .await
        .unwrap();
        let before = look(&mut raw).await;
        let error = refused(&muster.url).await;
        assert!(matches!(error, OpenError::Altered { version: 1 }), "{error}");
        assert!(
            error.to_string().contains(
                "schema version 1 of this database is not the one this muster has; it was left as it is"
            ),
            "{error}"
        );
        assert_eq!(look(&mut raw).await, before);
    });
}

#[test]
fn a_role_that_row_level_security_does_not_bind_is_refused_with_the_statements_that_make_a_fit_one() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let database = PgDatabase::fresh().await;
        let (bypass, fit) = (format!("muster_bypass_{}", std::process::id()), format!("muster_fit_{}", std::process::id()));
        // An empty database of the superuser's, as a person has who has just installed Postgres.
        let mut server = PgConnection::connect(&postgres_admin_url()).await.unwrap();
        let name = format!("{}_odd \"name\"", database.name).replace('"', "");
        server.execute(AssertSqlSafe(format!("CREATE DATABASE \"{name}\""))).await.unwrap();
        let on = |role: &str| database.admin_url().replace(&database.name, &name.replace(' ', "%20")).replace("postgres@", &format!("{role}@"));

        let error = refused(&on("postgres")).await;
        let OpenError::Role { role, .. } = &error else { panic!("{error}") };
        assert_eq!(role, "\"postgres\"");
        let said = error.to_string();
        assert!(said.starts_with("the database role \"postgres\" is a superuser or has BYPASSRLS, so Postgres would not keep one owner's rows from another."), "{said}");
        let mut conn = PgConnection::connect(&on("postgres")).await.unwrap();
        let (tables,): (i64,) = sqlx::query_as("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetch_one(&mut conn).await.unwrap();
        assert_eq!(tables, 0, "it was left as it is");

        conn.execute(AssertSqlSafe(format!("CREATE ROLE {bypass} LOGIN NOSUPERUSER BYPASSRLS"))).await.unwrap();
        let error = refused(&on(&bypass)).await;
        assert!(error.to_string().contains(&bypass), "{error}");

        // What the sentence tells the person to run works, as it stands there.
        let statements: Vec<&str> = said.lines().skip(1).map(str::trim).collect();
        assert_eq!(statements.len(), 3, "{said}");
        for statement in statements {
            let text = statement.replace("muster_app", &fit).replace('…', "secret");
            conn.execute(AssertSqlSafe(text.clone())).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&Options::new(on(&fit), dir.path())).await.unwrap();
        add(&db, "first").await.unwrap();
        assert_eq!(count(&db, "first").await.unwrap(), 1);
        db.close().await;
        conn.close().await.unwrap();
        server.execute(AssertSqlSafe(format!("DROP DATABASE \"{name}\" WITH (FORCE)"))).await.unwrap();
        for role in [bypass, fit] {
            server.execute(AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
        }
        database.drop_now().await;
    });
}

#[tokio::test]
async fn a_postgres_that_is_not_there_is_named_as_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&format!(
        "postgres://muster_app@localhost/muster?host={}",
        dir.path().display()
    ))
    .await;
    let OpenError::Fault(fault) = &error else {
        panic!("{error}")
    };
    assert_eq!(*fault.kind(), FaultKind::Unavailable);
    assert!(
        error.to_string().contains(
            "Postgres did not let muster in; check that it runs, and the address, role and password"
        ),
        "{error}"
    );
}

const AT_ONCE: &str = "opening::first_starts_at_once_all_succeed";

#[test]
fn first_starts_at_once_all_succeed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if is_child() {
        // Waits for the others, so that all begin together.
        let (url, folder) = place()
            .split_once('|')
            .map(|(url, folder)| (url.to_owned(), folder.to_owned()))
            .unwrap();
        while !Path::new(&folder).join("go").exists() {
            std::thread::yield_now();
        }
        runtime.block_on(async {
            let db = Db::open(&Options::new(url, Path::new(&folder).join("locks")))
                .await
                .unwrap();
            add(&db, &format!("process-{}", std::process::id()))
                .await
                .unwrap();
            db.close().await;
        });
        return;
    }
    for engine in engines() {
        let dir = tempfile::tempdir().unwrap();
        let (url, database) = match engine {
            Engine::Sqlite => (
                format!("sqlite://{}", dir.path().join("new/muster.db").display()),
                None,
            ),
            Engine::Postgres => {
                let database = runtime.block_on(PgDatabase::empty());
                (database.url.clone(), Some(database))
            }
        };
        let place = format!("{url}|{}", dir.path().display());
        let children: Vec<_> = (0..3).map(|_| child(AT_ONCE, &place)).collect();
        let ends: Vec<_> = children
            .into_iter()
            .map(|command| std::thread::spawn(move || ends_well(command)))
            .collect();
        std::fs::write(dir.path().join("go"), "").unwrap();
        // Two in this process beside the three of their own.
        runtime.block_on(async {
            let options = Options::new(&url, dir.path().join("locks"));
            let (one, other) = tokio::join!(Db::open(&options), Db::open(&options));
            let (one, other) = (one.unwrap(), other.unwrap());
            add(&one, "process-one").await.unwrap();
            add(&other, "process-other").await.unwrap();
            let stored =
                tokio::task::spawn_blocking(move || ends.into_iter().map(|end| end.join().unwrap()).count())
                    .await
                    .unwrap()
                    + 2;
            assert_eq!(
                count(&one, "process-").await.unwrap(),
                i64::try_from(stored).unwrap()
            );
            one.close().await;
            other.close().await;
            if let Some(database) = database {
                database.drop_now().await;
            }
        });
    }
}

#[tokio::test]
async fn a_wait_for_a_database_that_another_process_makes_ready_is_bounded_and_names_that_process() {
    let dir = tempfile::tempdir().unwrap();
    let locks = dir.path().join("locks");
    std::fs::create_dir(&locks).unwrap();
    let held = std::fs::File::create(locks.join("boot.lock")).unwrap();
    held.lock().unwrap();
    let mut options = Options::new(
        format!("sqlite://{}", dir.path().join("muster.db").display()),
        &locks,
    );
    assert!((5..=60).contains(&options.patience.as_secs()));
    options.patience = std::time::Duration::from_millis(1_200);
    for (text, holder, words) in [
        ("4242\n", Some(4242), "another muster (process 4242)"),
        ("\u{1b}[2J", None, "another muster has"),
    ] {
        std::fs::write(locks.join("boot.lock"), text).unwrap();
        let begun = std::time::Instant::now();
        let refused = Db::open(&options).await.err().expect("it did not wait");
        assert!(begun.elapsed() >= options.patience && begun.elapsed() < options.patience * 4);
        assert!(
            matches!(&refused, OpenError::Busy { holder: found, .. } if *found == holder),
            "{refused:?}"
        );
        let said = refused.to_string();
        assert!(
            said.contains(words)
                && said.contains("boot.lock")
                && said.contains("nothing was changed")
                && said.contains("start muster again"),
            "{said}"
        );
        assert!(!dir.path().join("muster.db").exists());
    }
    // A wait that is over within its bound is none that anybody sees.
    let opening = tokio::spawn(async move { Db::open(&options).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!opening.is_finished());
    held.unlock().unwrap();
    let db = opening.await.unwrap().unwrap();
    assert_eq!(
        std::fs::read_to_string(locks.join("boot.lock")).unwrap().trim(),
        std::process::id().to_string(),
        "who has it now is written where the next one looks"
    );
    db.close().await;
}

#[test]
fn a_second_opening_finds_what_the_first_one_stored() {
    on_both(|muster| async move {
        add(&muster.app.db, "kept").await.unwrap();
        let other = second_db(&muster).await;
        assert_eq!(count(&other, "kept").await.unwrap(), 1);
        other.close().await;
        assert_eq!(
            count(&muster.app.db, "kept").await.unwrap(),
            1,
            "closing one leaves the other open"
        );
    });
}

#[tokio::test]
async fn asks_of_an_earlier_version_stay_as_they_were_and_those_whose_callers_are_gone_wait_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", dir.path().join("muster.db").display());
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(dir.path().join("muster.db"))
        .create_if_missing(true);
    let mut old = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let steps = sqlx::migrate!("../store/migrations/sqlite");
    steps.run_to(2, &mut old).await.unwrap();
    for text in [
        "INSERT INTO owners (id, name, password_hash, created_at) VALUES (1, 'ada', 'x', 1)",
        "INSERT INTO tokens (id, owner_id, kind, token_hash, label, created_at) VALUES (7, 1, 'agent', 'h', 'worker', 1)",
        "INSERT INTO asks (id, owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at) \
         VALUES (5, 1, 'parked', 'permission', 7, 't', '{}', '[]', 'p', 'a', 1, 2)",
        "INSERT INTO asks (id, owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, decided_at, decided_by) \
         VALUES (9, 1, 'approved', 'permission', 7, 't', '{}', '[]', 'p', 'a', 1, 2, 2, 'ada')",
        "INSERT INTO ask_callers (owner_id, ask_id, process) VALUES (1, 5, 3)",
    ] {
        old.execute(text).await.unwrap();
    }
    old.close().await.unwrap();
    let db = Db::open(&Options::new(url.clone(), dir.path().join("locks")))
        .await
        .unwrap();
    db.close().await;
    let mut raw = Raw::at(&url).await;
    for (text, wanted) in [
        (
            "SELECT count(*) FROM asks WHERE id = 5 AND state = 'parked' AND token_id = 7 AND session IS NULL",
            1,
        ),
        (
            "SELECT count(*) FROM asks WHERE id = 9 AND state = 'approved' AND decided_by = 'ada'",
            1,
        ),
        ("SELECT count(*) FROM ask_callers", 0),
        ("SELECT count(*) FROM pragma_foreign_key_check", 0),
        ("SELECT seq FROM sqlite_sequence WHERE name = 'asks'", 9),
    ] {
        assert_eq!(raw.number(text).await, wanted, "{text}");
    }
    // Neither an agent's nor a session's, or both.
    for (token, session) in [("NULL", "NULL"), ("7", "'s'")] {
        let text = format!(
            "INSERT INTO asks (owner_id, state, kind, token_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at, session) \
             VALUES (1, 'parked', 'plugin_tool', {token}, 't', '{{}}', '[]', 'x', 'a', 1, 2, {session})"
        );
        assert!(raw.run(&text).await.is_err(), "{text}");
    }
    raw.close().await;
}
