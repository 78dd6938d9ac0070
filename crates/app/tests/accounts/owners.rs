//! Owners: who may make the first, names, disabling and enabling. Never looks into a session.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use muster_app::App;
use muster_app::accounts::{self, AccountError, Password};
use muster_core::Secret;
use muster_core::clock::{Clock, Time};
use muster_core::secret::TokenKind;
use muster_core::text::Label;
use muster_store::{Db, Engine, Options};
use muster_testkit::{PASSWORD, PgDatabase, add_owner, engines, on_both, settings};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::kit::{DAY, add, events, everything_stored, sign_in, try_sign_in, who};

async fn set_password(app: &App, name: &str, password: &str) -> Result<u64, AccountError> {
    accounts::set_password(app, name, Password::parse(password).unwrap()).await
}

/// Runs `law` on two apps over one database that has no owner yet, with a Postgres database's address.
fn on_empty<F: Future<Output = ()>>(law: impl Fn(App, App, Option<String>) -> F) {
    for engine in engines() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let dir = Arc::new(tempfile::tempdir().unwrap());
            let database = match engine {
                Engine::Sqlite => None,
                Engine::Postgres => Some(PgDatabase::fresh().await),
            };
            let url = database.as_ref().map_or_else(
                || format!("sqlite://{}", dir.path().join("muster.db").display()),
                |database| database.url.clone(),
            );
            let clock = Clock::manual(Time::from_micros(1_800_000_000_000_000));
            let mut apps = Vec::new();
            for _ in 0..2 {
                let db = Db::open(&Options::new(&url, dir.path().join("locks")))
                    .await
                    .unwrap();
                apps.push(App::new(db, clock.clone(), settings(dir.path())));
            }
            law(
                apps[0].clone(),
                apps[1].clone(),
                database.as_ref().map(|database| database.url.clone()),
            )
            .await;
            for app in apps {
                app.db.close().await;
            }
            if let Some(database) = database {
                database.drop_now().await;
            }
        });
    }
}

/// Holds every insert into `owners` back until ten transactions have got that far, so that they do race. SQLite has one writer.
async fn hold_inserts_back(url: &str) -> PgConnection {
    let mut conn = PgConnection::connect_with(&PgConnectOptions::from_str(url).unwrap())
        .await
        .unwrap();
    conn.execute("BEGIN; LOCK TABLE owners IN SHARE MODE")
        .await
        .unwrap();
    conn
}

async fn let_them_go(mut conn: PgConnection) {
    const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    for _ in 0..3_000 {
        let (waiting,): (i64,) = sqlx::query_as(WAITING).fetch_one(&mut conn).await.unwrap();
        if waiting >= 10 {
            conn.execute("COMMIT").await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("fewer than ten got as far as the insert");
}

// spec: TOK-025
#[test]
fn of_twenty_first_owners_at_once_one_is_made() {
    on_empty(|app, other, postgres| async move {
        assert!(!accounts::any_owner(&app).await.unwrap());
        let held = match &postgres {
            Some(url) => Some(hold_inserts_back(url).await),
            None => None,
        };
        let tries: Vec<_> = (0..20)
            .map(|n| {
                let app = if n % 2 == 0 { app.clone() } else { other.clone() };
                tokio::spawn(async move { add(&app, &format!("owner-{n}"), PASSWORD, true).await })
            })
            .collect();
        if let Some(held) = held {
            let_them_go(held).await;
        }
        let mut made = Vec::new();
        for one in tries {
            match one.await.unwrap() {
                Ok(id) => made.push(id),
                Err(AccountError::AlreadySetUp) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        let owners = accounts::list(&app).await.unwrap();
        assert_eq!(owners.iter().map(|owner| owner.id).collect::<Vec<_>>(), made);
        assert_eq!(made.len(), 1);
        assert!(accounts::any_owner(&app).await.unwrap());
        assert!(matches!(
            add(&app, "late", PASSWORD, true).await,
            Err(AccountError::AlreadySetUp)
        ));
        assert!(try_sign_in(&app, "late", PASSWORD).await.is_err());
        assert!(try_sign_in(&app, &owners[0].name, PASSWORD).await.is_ok());
        add(&app, "second", PASSWORD, false).await.unwrap();
        assert_eq!(events(&app, made[0], "owner.added").await.len(), 1);
    });
}

// spec: TOK-025
#[test]
fn a_name_belongs_to_one_owner_however_many_ask_at_once() {
    on_both(|muster| async move {
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let app = muster.app.clone();
                tokio::spawn(async move { add(&app, "bob", PASSWORD, false).await })
            })
            .collect();
        let mut made = 0;
        for one in tries {
            match one.await.unwrap() {
                Ok(_) => made += 1,
                Err(AccountError::NameTaken) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(made, 1);
        let names: Vec<_> = accounts::list(&muster.app)
            .await
            .unwrap()
            .into_iter()
            .map(|owner| owner.name)
            .collect();
        assert_eq!(names, ["ada", "bob"], "oldest first");
    });
}

// spec: TOK-025 TOK-031
#[test]
fn a_disabled_account_is_refused_everywhere_at_once_and_loses_nothing() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        let label = || Label::parse("label", "script").unwrap();
        let mut made = Vec::new();
        for kind in [TokenKind::Personal, TokenKind::MirrorHost, TokenKind::Agent] {
            made.push(
                accounts::create_token(app, muster.owner, kind, label(), Some(label()))
                    .await
                    .unwrap()
                    .token,
            );
        }
        let live = || async {
            let tokens = (
                accounts::personal(app, made[0].expose()).await.unwrap().is_some(),
                accounts::mirror(app, made[1].expose()).await.unwrap().is_some(),
                accounts::agent(app, made[2].expose()).await.unwrap().is_some(),
            );
            (
                who(app, &cookie).await.is_some(),
                tokens,
                try_sign_in(app, "ada", PASSWORD).await.is_ok(),
            )
        };
        assert_eq!(live().await, (true, (true, true, true), true));
        let bob = add_owner(app, "bob").await;
        let bobs = sign_in(app, "bob").await;
        accounts::disable(app, "ada").await.unwrap();
        assert_eq!(live().await, (false, (false, false, false), false));
        assert!(who(app, &bobs).await.is_some(), "nobody else notices");
        assert!(
            accounts::first(app).await.unwrap().is_none(),
            "the first account stays the first: {bob} does not take its place"
        );
        assert_eq!(
            accounts::tokens(app, muster.owner).await.unwrap().len(),
            3,
            "nothing of it is deleted"
        );
        accounts::enable(app, "ada").await.unwrap();
        assert_eq!(
            live().await,
            (false, (true, true, true), true),
            "a cookie from before stays refused"
        );
        assert_eq!(accounts::first(app).await.unwrap().unwrap().id, muster.owner);
    });
}

#[test]
fn a_new_password_ends_every_sign_in_and_the_old_one_is_refused() {
    const NEW: &str = "another horse battery";
    on_both(|muster| async move {
        let app = &muster.app;
        add_owner(app, "bob").await;
        let (one, two) = (sign_in(app, "ada").await, sign_in(app, "ada").await);
        let bobs = sign_in(app, "bob").await;
        let label = || Label::parse("label", "script").unwrap();
        let token = accounts::create_token(app, muster.owner, TokenKind::Personal, label(), None)
            .await
            .unwrap()
            .token;
        muster.clock.advance(DAY);
        assert_eq!(set_password(app, "ada", NEW).await.unwrap(), 2);
        for cookie in [&one, &two] {
            assert!(who(app, cookie).await.is_none());
        }
        assert!(who(app, &bobs).await.is_some(), "nobody else notices");
        assert!(accounts::personal(app, token.expose()).await.unwrap().is_some());
        assert!(try_sign_in(app, "ada", PASSWORD).await.is_err());
        assert!(try_sign_in(app, "bob", NEW).await.is_err());
        let cookie = try_sign_in(app, "ada", NEW).await.unwrap();
        let caller = who(app, &cookie).await.unwrap();
        for (word, fits) in [(PASSWORD, false), (NEW, true)] {
            let confirmed = accounts::confirm_password(app, &caller, &Secret::new(word)).await;
            assert_eq!(confirmed.is_ok(), fits, "{word}");
        }
        let rows = events(app, muster.owner, "owner.password_changed").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].actor.as_str(), &rows[0].data["sessions"], rows[0].at),
            ("administrator", &2.into(), app.clock.now())
        );
        assert!(matches!(
            set_password(app, "nobody", NEW).await,
            Err(AccountError::NotFound)
        ));
        assert!(!everything_stored(&muster).await.contains(NEW));

        accounts::disable(app, "ada").await.unwrap();
        set_password(app, "ada", PASSWORD).await.unwrap();
        assert!(
            try_sign_in(app, "ada", PASSWORD).await.is_err(),
            "a new password enables nobody"
        );
    });
}

#[test]
fn a_sign_in_under_way_with_the_old_password_is_nobodys_after_a_new_one() {
    on_both(|muster| async move {
        let (app, other) = (&muster.app, muster.second().await.0);
        let tries: Vec<_> = (0..16)
            .map(|_| {
                let app = app.clone();
                tokio::spawn(async move { try_sign_in(&app, "ada", PASSWORD).await })
            })
            .collect();
        // They have looked the old password up and are checked two at a time; another process is not held up by them.
        set_password(&other, "ada", "another horse battery")
            .await
            .unwrap();
        let mut in_time = 0;
        for one in tries {
            if let Ok(cookie) = one.await.unwrap() {
                in_time += 1;
                assert!(who(app, &cookie).await.is_none());
            }
        }
        assert!(in_time < 16, "all were done before, so nothing was tried");
        other.db.close().await;
    });
}

#[test]
fn disabling_twice_keeps_the_first_moment_and_leaves_one_row() {
    on_both(|muster| async move {
        let app = &muster.app;
        accounts::disable(app, "ada").await.unwrap();
        let at = app.clock.now();
        muster.clock.advance(DAY);
        accounts::disable(app, "ada").await.unwrap();
        assert_eq!(accounts::find(app, "ada").await.unwrap().disabled_at, Some(at));
        for _ in 0..2 {
            accounts::enable(app, "ada").await.unwrap();
        }
        assert_eq!(accounts::find(app, "ada").await.unwrap().disabled_at, None);
        assert_eq!(events(app, muster.owner, "owner.disabled").await.len(), 1);
        assert_eq!(events(app, muster.owner, "owner.enabled").await.len(), 1);
        assert!(matches!(
            accounts::disable(app, "nobody").await,
            Err(AccountError::NotFound)
        ));
        assert!(matches!(
            accounts::enable(app, "nobody").await,
            Err(AccountError::NotFound)
        ));
        assert!(matches!(
            accounts::find(app, "nobody").await,
            Err(AccountError::NotFound)
        ));
    });
}

/// Runs a statement past muster's API, as its own role.
async fn past_muster(url: &str, sqlite: &'static str, postgres: &'static str) {
    match url.strip_prefix("sqlite://") {
        Some(path) => {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
            let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
            conn.execute(sqlite).await.unwrap();
            conn.close().await.unwrap();
        }
        None => {
            let options = PgConnectOptions::from_str(url).unwrap();
            let mut conn = PgConnection::connect_with(&options).await.unwrap();
            conn.execute(postgres).await.unwrap();
            conn.close().await.unwrap();
        }
    }
}

#[test]
fn an_act_on_an_account_and_its_audit_row_are_stored_together_or_not_at_all() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        add_owner(app, "bob").await;
        accounts::disable(app, "bob").await.unwrap();
        let forbid = || {
            past_muster(
                &muster.url,
                "CREATE TRIGGER no_more_rows BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no_more_rows'); END",
                "ALTER TABLE audit ADD CONSTRAINT no_more_rows CHECK (id < 0) NOT VALID",
            )
        };
        let allow = || {
            past_muster(
                &muster.url,
                "DROP TRIGGER no_more_rows",
                "ALTER TABLE audit DROP CONSTRAINT no_more_rows",
            )
        };
        let names = || async {
            let all = accounts::list(app).await.unwrap();
            all.into_iter().map(|owner| owner.name).collect::<Vec<_>>()
        };
        forbid().await;
        assert!(matches!(
            add(app, "eve", PASSWORD, false).await,
            Err(AccountError::Fault(_))
        ));
        assert!(matches!(
            accounts::disable(app, "ada").await,
            Err(AccountError::Fault(_))
        ));
        assert!(matches!(
            accounts::enable(app, "bob").await,
            Err(AccountError::Fault(_))
        ));
        assert!(matches!(
            set_password(app, "ada", "another horse battery").await,
            Err(AccountError::Fault(_))
        ));
        allow().await;
        assert_eq!(names().await, ["ada", "bob"], "an owner without an audit row");
        assert!(
            who(app, &cookie).await.is_some(),
            "disabled, or signed out, without an audit row"
        );
        assert!(
            try_sign_in(app, "ada", PASSWORD).await.is_ok(),
            "another password without an audit row"
        );
        assert!(
            accounts::find(app, "bob").await.unwrap().disabled_at.is_some(),
            "enabled without an audit row"
        );
        let eve = add(app, "eve", PASSWORD, false).await.unwrap();
        assert_eq!(events(app, eve, "owner.added").await.len(), 1);
        accounts::disable(app, "ada").await.unwrap();
        assert!(who(app, &cookie).await.is_none());
    });
}

#[test]
fn a_password_is_kept_only_as_an_argon2id_hash() {
    on_both(|muster| async move {
        add(&muster.app, "eve", "unmistakable password", false)
            .await
            .unwrap();
        try_sign_in(&muster.app, "eve", "unmistakable password")
            .await
            .unwrap();
        let all = everything_stored(&muster).await;
        assert!(all.contains("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert!(!all.contains("unmistakable"));
    });
}
