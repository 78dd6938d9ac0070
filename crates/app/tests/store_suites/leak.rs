//! Every owner's statement, run as somebody else with arguments that name the owner's rows: nothing is seen and nothing changes. Never trusts a statement without a recipe.

use muster_app::plugins::NewPlugin;
use muster_app::{accounts, plugins};
use muster_core::ids::OwnerId;
use muster_core::secret::{TokenKind, sha256_hex};
use muster_core::text::{DataScope, Label, Slug};
use muster_core::{Fault, FaultKind, Secret};
use muster_store::{Db, Engine, Scope, Sql, Value};
use muster_testkit::{PASSWORD, TestMuster, on_both};

use crate::catalogue::all;
use crate::recipes::{Expect, Seeded, recipe, seed};
use crate::support::{Cell, Loose, Raw, file};

/// What a statement did.
#[derive(Debug)]
struct Did {
    rows: Vec<Loose>,
    changed: u64,
}

/// Runs one statement in a transaction of `owner`'s, and commits it.
async fn run(db: &Db, owner: OwnerId, sql: &'static Sql, args: Vec<Value>) -> Result<Did, Fault> {
    let answers = !db.prepare(sql).await?.columns.is_empty();
    db.write(owner, move |tx| {
        Box::pin(async move {
            if answers {
                Ok(Did {
                    rows: tx.all(sql, args).await?,
                    changed: 0,
                })
            } else {
                Ok(Did {
                    rows: Vec::new(),
                    changed: tx.run(sql, args).await?,
                })
            }
        })
    })
    .await
}

fn owned() -> impl Iterator<Item = &'static Sql> {
    all().filter(|sql| sql.scope == Scope::Owner)
}

/// Whether a row shows anything of an owner's: a text with its name, an id of its rows.
fn shows(row: &Loose, of: &Seeded) -> bool {
    row.0.iter().any(|(_, cell)| match cell {
        Cell::Text(text) => text.contains(&of.name),
        Cell::Int(n) => of.ids.contains(n),
        Cell::Null | Cell::Bool(_) => false,
    })
}

/// The name that every text of the watched owner holds and nobody else's does.
const ADA: &str = "ada-the-watched";

async fn ada(muster: &TestMuster) -> Seeded {
    seed(muster, ADA, 5_000_000).await
}

#[test]
fn every_statement_of_an_owner_has_a_recipe() {
    on_both(|muster| async move {
        let ada = ada(&muster).await;
        for sql in owned() {
            let (_, args) = recipe(sql.name, &ada).unwrap_or_else(|| {
                panic!(
                    "{}: add arguments that name another owner's rows to recipes.rs",
                    sql.name
                )
            });
            assert_eq!(
                args.len() + 1,
                sql.parameters,
                "{}: the recipe's arguments",
                sql.name
            );
        }
    });
}

#[test]
fn the_recipes_do_name_rows() {
    // Run as the owner herself, so that a recipe that would find nothing anyway is no proof.
    on_both(|muster| async move {
        let mut found_nothing = Vec::new();
        for (at, sql) in owned().enumerate() {
            let base = 10_000_000 + i64::try_from(at).unwrap() * 1_000;
            let herself = seed(&muster, &format!("herself-{at}"), base).await;
            let Some((expect, args)) = recipe(sql.name, &herself) else {
                continue;
            };
            match run(&muster.app.db, herself.owner, sql, args).await {
                Ok(did) if expect == Expect::Zero => assert!(
                    did.rows[0].0.iter().all(|(_, cell)| *cell != Cell::Int(0)),
                    "{}: {did:?}",
                    sql.name
                ),
                Ok(did) if did.rows.is_empty() && did.changed == 0 => found_nothing.push(sql.name),
                Ok(_) => {}
                // She has a chief and a plugin of that name already.
                Err(fault) => assert!(
                    expect == Expect::Own && matches!(fault.kind(), FaultKind::Constraint(_)),
                    "{}: {}",
                    sql.name,
                    fault.chain()
                ),
            }
        }
        assert_eq!(found_nothing, Vec::<&str>::new());
    });
}

#[test]
fn a_stranger_sees_and_changes_nothing_through_any_statement() {
    on_both(|muster| async move {
        let ada = ada(&muster).await;
        let mut raw = Raw::of(&muster).await;
        let before = raw.rows_of(ada.owner).await;
        for (at, sql) in owned().enumerate() {
            let Some((expect, args)) = recipe(sql.name, &ada) else {
                continue;
            };
            // A new one each time, so that what one statement stored is not what the next one sees.
            let stranger = OwnerId::new(20_000_000 + i64::try_from(at).unwrap());
            let identity = if muster.engine == Engine::Postgres {
                " OVERRIDING SYSTEM VALUE"
            } else {
                ""
            };
            raw.run(&format!("INSERT INTO owners (id, name, password_hash, created_at){identity} VALUES ({stranger}, 'stranger-{at}', 'x', 1)")).await.unwrap();
            let did = run(&muster.app.db, stranger, sql, args).await;
            let as_expected = match (&did, expect) {
                (Ok(did), Expect::Nothing) => did.rows.is_empty() && did.changed == 0,
                (Ok(did), Expect::Zero) => {
                    did.rows.len() == 1 && did.rows[0].0.iter().all(|(_, cell)| *cell == Cell::Int(0))
                }
                (Ok(did), Expect::Own) => {
                    did.rows.len() + usize::try_from(did.changed).unwrap() == 1
                        && !did.rows.iter().any(|row| shows(row, &ada))
                }
                (Err(fault), Expect::Refused) => matches!(fault.kind(), FaultKind::Constraint(_)),
                _ => false,
            };
            assert!(
                as_expected,
                "{} on {:?} as a stranger, {expect:?} expected: {did:?}",
                sql.name, muster.engine
            );
            assert_eq!(
                raw.rows_of(ada.owner).await,
                before,
                "{} on {:?} changed another owner's rows",
                sql.name,
                muster.engine
            );
        }
    });
}

#[test]
fn an_owner_with_rows_of_the_same_kinds_sees_and_changes_only_her_own() {
    on_both(|muster| async move {
        let ada = ada(&muster).await;
        let mut raw = Raw::of(&muster).await;
        let before = raw.rows_of(ada.owner).await;
        for (at, sql) in owned().enumerate() {
            let Some((expect, args)) = recipe(sql.name, &ada) else {
                continue;
            };
            let bob = seed(
                &muster,
                &format!("bob-{at}"),
                10_000_000 + i64::try_from(at).unwrap() * 1_000,
            )
            .await;
            match run(&muster.app.db, bob.owner, sql, args).await {
                Ok(did) => {
                    assert!(
                        expect != Expect::Refused,
                        "{} on {:?} took another owner's row",
                        sql.name,
                        muster.engine
                    );
                    assert!(
                        !did.rows.iter().any(|row| shows(row, &ada)),
                        "{} on {:?} shows another owner's rows: {did:?}",
                        sql.name,
                        muster.engine
                    );
                }
                Err(fault) => assert!(
                    matches!(fault.kind(), FaultKind::Constraint(_)),
                    "{} on {:?}: {}",
                    sql.name,
                    muster.engine,
                    fault.chain()
                ),
            }
            assert_eq!(
                raw.rows_of(ada.owner).await,
                before,
                "{} on {:?} changed another owner's rows",
                sql.name,
                muster.engine
            );
        }
    });
}

#[test]
fn a_statement_runs_only_in_a_transaction_of_its_own_scope_and_with_all_its_arguments() {
    on_both(|muster| async move {
        let ada = ada(&muster).await;
        let db = &muster.app.db;
        for sql in all() {
            let as_owner = run(db, ada.owner, sql, Vec::new()).await;
            let as_system: Result<Vec<Loose>, Fault> = db
                .system_write("test", move |tx| {
                    Box::pin(async move { tx.all(sql, Vec::<Value>::new()).await })
                })
                .await;
            let (wrong_scope, short) = if sql.scope == Scope::Owner {
                (as_system.err(), as_owner.err())
            } else {
                (as_owner.err(), as_system.err())
            };
            let said = wrong_scope.unwrap().to_string();
            assert!(said.contains("owner") && said.contains(sql.name), "{said}");
            let bound = usize::from(sql.scope == Scope::Owner);
            if sql.parameters > bound {
                let said = short.unwrap().to_string();
                assert_eq!(
                    said,
                    format!(
                        "statement {} takes {} arguments and was given {bound}",
                        sql.name, sql.parameters
                    )
                );
            }
        }
    });
}

// spec: TOK-006
#[test]
fn no_secret_that_was_handed_out_stands_in_the_database() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let label = |text: &str| Label::parse("label", text).unwrap();
        let new = NewPlugin {
            name: Slug::parse("name", "mail").unwrap(),
            label: label("mail"),
            data_scope: DataScope::parse("data scope", "mail").unwrap(),
        };
        let mut secrets = vec![plugins::create(app, owner, new).await.unwrap().token];
        for kind in [TokenKind::Personal, TokenKind::MirrorHost, TokenKind::Agent] {
            secrets.push(
                accounts::create_token(app, owner, kind, label("mine"), None)
                    .await
                    .unwrap()
                    .token,
            );
        }
        secrets.push(
            accounts::sign_in_password(app, "ada", &Secret::new(PASSWORD))
                .await
                .unwrap(),
        );
        let texts = Raw::of(&muster).await.every_text().await;
        let holds = |what: &str| texts.iter().any(|text| text.contains(what));
        for secret in &secrets {
            let bare = secret
                .expose()
                .split_once('_')
                .map_or(secret.expose(), |(_, bare)| bare);
            assert!(!holds(bare), "a secret stands in the database");
            assert!(
                texts.contains(&sha256_hex(secret.expose().as_bytes())),
                "its SHA-256 does"
            );
        }
        assert!(
            !holds(PASSWORD) && !holds(&sha256_hex(PASSWORD.as_bytes())),
            "a password is kept as a slow hash only"
        );
        if muster.engine == Engine::Sqlite {
            // Not in a page that was freed, nor in the log beside the file.
            for end in ["", "-wal"] {
                let bytes = std::fs::read(format!("{}{end}", file(&muster).display())).unwrap();
                let found = |what: &str| bytes.windows(what.len()).any(|window| window == what.as_bytes());
                assert!(
                    secrets.iter().all(|secret| !found(secret.expose())) && !found(PASSWORD),
                    "{end}"
                );
            }
        }
    });
}
