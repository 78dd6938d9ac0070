//! Secrets at rest: a forge's token and a database's addresses open for their own row with the data folder's key, and are nowhere else.

use muster_app::databases::{self, DatabaseError, NewWrite};
use muster_app::integrations::{self, IntegrationError};
use muster_app::seal::SealError;
use muster_core::Fault;
use muster_core::ids::OwnerId;
use muster_store::{Db, Sql, owned};
use muster_testkit::{add_owner, on_both};

use super::kit::{connection, integration, project, try_connection, try_integration, url};

static STORED: Sql = owned(
    "test.stored",
    "SELECT c.id, c.url, c.write_url, i.secret FROM db_connections c JOIN integrations i ON i.owner_id = $1 AND i.id = $3 WHERE c.owner_id = $1 AND c.id = $2",
);
static SWAP: Sql = owned(
    "test.swap",
    "UPDATE db_connections SET url = $3, write_url = $4 WHERE owner_id = $1 AND id = $2",
);

type Stored = (i64, String, Option<String>, String);

async fn stored(db: &Db, owner: OwnerId, connection: i64, integration: i64) -> Stored {
    let row: Result<Stored, Fault> = db
        .read(owner, move |tx| {
            Box::pin(async move { tx.one(&STORED, (connection, integration)).await })
        })
        .await;
    row.unwrap()
}

async fn swap(db: &Db, owner: OwnerId, connection: i64, url: String, write_url: Option<String>) {
    let done: Result<u64, Fault> = db
        .write(owner, move |tx| {
            Box::pin(async move { tx.run(&SWAP, (connection, url, write_url)).await })
        })
        .await;
    assert_eq!(done.unwrap(), 1);
}

#[test]
fn what_is_sealed_opens_whole_and_is_nowhere_in_the_clear() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let forge = try_integration(app, owner, "hub", "ghp_the-token").await.unwrap();
        let staging = connection(app, owner, home.id, "staging").await;
        let (found, token) = integrations::credential(app, owner, forge.id).await.unwrap();
        assert_eq!((found.id, token.expose()), (forge.id, "ghp_the-token"));
        let urls = databases::url(app, owner, staging.id).await.unwrap();
        assert_eq!(
            urls.read.secret().expose(),
            "postgres://reader:read-word@db.test/app"
        );
        assert_eq!(
            urls.write.as_ref().unwrap().secret().expose(),
            "postgres://writer:write-word@db.test/app"
        );
        let (_, url, write_url, secret) = stored(&app.db, owner, staging.id.get(), forge.id.get()).await;
        let audit: String = super::kit::events(&muster, "")
            .await
            .iter()
            .map(|row| row.data.to_string())
            .collect();
        let printed = format!("{urls:?}{staging:?}{forge:?}{token:?}");
        for text in [url, write_url.unwrap(), secret, audit, printed] {
            for word in ["read-word", "write-word", "the-token", "db.test"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    });
}

#[test]
fn a_replaced_address_is_gone_and_what_was_found_of_it_with_it_and_what_is_not_named_stays() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let forge = try_integration(app, owner, "hub", "t").await.unwrap();
        let staging = connection(app, owner, home.id, "staging").await;
        databases::looked(app, owner, muster_app::tasks::By::Owner, staging.id)
            .await
            .unwrap();
        let found = databases::Checked {
            id: "reachable".to_owned(),
            ok: true,
            detail: String::new(),
        };
        databases::checked(app, owner, staging.id, vec![found])
            .await
            .unwrap();
        let before = stored(&app.db, owner, staging.id.get(), forge.id.get()).await;
        let sealed = databases::sealed(app, owner, staging.id).await.unwrap();
        let next = "postgres://reader:next-word@db.test/app";
        let read = databases::NewUrls {
            read: Some((url(next), true, true)),
            write: NewWrite::Kept,
        };
        let changed = databases::set_url(app, owner, staging.id, read.clone())
            .await
            .unwrap();
        assert_eq!(
            (changed.id, changed.wide, changed.looked),
            (staging.id, true, true)
        );
        assert!(changed.has_write_account);
        assert!(databases::last_checks(app, owner).await.unwrap().is_empty());
        let urls = databases::url(app, owner, staging.id).await.unwrap();
        assert_eq!(urls.read.secret().expose(), next);
        assert_eq!(
            urls.write.unwrap().secret().expose(),
            "postgres://writer:write-word@db.test/app"
        );
        let after = stored(&app.db, owner, staging.id.get(), forge.id.get()).await;
        assert!(before.1 != after.1 && before.2 == after.2);
        // The same words once more are another replacement.
        assert!(databases::sealed(app, owner, staging.id).await.unwrap() != sealed);
        let without = databases::NewUrls {
            read: None,
            write: NewWrite::Removed,
        };
        let changed = databases::set_url(app, owner, staging.id, without).await.unwrap();
        assert!(!changed.has_write_account && changed.wide);
        // Nothing of an address stands in the log, and another engine changes nothing.
        let rows = super::kit::events(&muster, "db.set_url").await;
        let said: Vec<_> = rows.iter().map(|row| row.data.clone()).collect();
        assert_eq!(
            serde_json::Value::from(said),
            serde_json::json!([
                {"name": "staging", "read": {"wide": true, "looked": true, "unseen": false}},
                {"name": "staging", "write": "removed"}
            ])
        );
        for other in [
            databases::NewUrls {
                read: Some((url("mysql://db/app"), false, true)),
                write: NewWrite::Kept,
            },
            databases::NewUrls {
                write: NewWrite::Set(url("mysql://db/app")),
                ..read
            },
        ] {
            assert!(matches!(
                databases::set_url(app, owner, staging.id, other).await,
                Err(DatabaseError::EngineStays)
            ));
        }
        let urls = databases::url(app, owner, staging.id).await.unwrap();
        assert!(urls.read.secret().expose() == next && urls.write.is_none());
        databases::remove(app, owner, staging.id).await.unwrap();
        let late = databases::NewUrls {
            read: None,
            write: NewWrite::Set(url(next)),
        };
        assert!(matches!(
            databases::set_url(app, owner, staging.id, late).await,
            Err(DatabaseError::NotFound)
        ));
    });
}

#[test]
fn two_replacements_at_once_leave_both_halves_whole() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let staging = connection(app, owner, home.id, "staging").await;
        let (reads, writes) = (
            "postgres://reader:a@db.test/next",
            "postgres://writer:b@db.test/next",
        );
        let read = databases::NewUrls {
            read: Some((url(reads), false, true)),
            write: NewWrite::Kept,
        };
        let write = databases::NewUrls {
            read: None,
            write: NewWrite::Set(url(writes)),
        };
        let (one, two) = tokio::join!(
            databases::set_url(app, owner, staging.id, read),
            databases::set_url(app, owner, staging.id, write)
        );
        one.unwrap();
        two.unwrap();
        let urls = databases::url(app, owner, staging.id).await.unwrap();
        assert_eq!(
            (urls.read.secret().expose(), urls.write.unwrap().secret().expose()),
            (reads, writes)
        );
    });
}

#[test]
fn a_sealed_address_does_not_open_in_another_place() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        let theirs = project(app, bob, "engine").await;
        let forge = integration(app, owner, "hub").await;
        integration(app, bob, "hub").await;
        let one = connection(app, owner, home.id, "one").await.id;
        let two = connection(app, owner, home.id, "two").await.id;
        let three = connection(app, bob, theirs.id, "three").await.id;
        let (_, url, write_url, secret) = stored(&app.db, owner, one.get(), forge.id.get()).await;
        let write_url = write_url.unwrap();
        for (owner, connection, url, write_url) in [
            (owner, two, url.clone(), Some(write_url.clone())),
            (bob, three, url.clone(), None),
            (owner, one, write_url.clone(), None),
            (owner, one, url.clone(), Some(url.clone())),
            (owner, one, secret, None),
            (owner, one, "postgres://plain".to_owned(), None),
            (owner, one, String::new(), None),
        ] {
            swap(&app.db, owner, connection.get(), url, write_url).await;
            assert!(matches!(
                databases::url(app, owner, connection).await,
                Err(DatabaseError::Seal(SealError::Foreign))
            ));
        }
        swap(&app.db, owner, one.get(), url, Some(write_url)).await;
        databases::url(app, owner, one).await.unwrap();
    });
}

#[test]
fn a_missing_key_is_missed_while_something_is_sealed_and_never_replaced() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let (file, aside) = (
            app.settings.data_dir.join("secret.key"),
            app.settings.data_dir.join("aside"),
        );
        assert!(!file.exists(), "nothing is sealed yet");
        let home = project(app, owner, "engine").await;
        let forge = integration(app, owner, "hub").await;
        std::fs::rename(&file, &aside).unwrap();
        match integrations::credential(app, owner, forge.id).await {
            Err(IntegrationError::Seal(error @ SealError::Missing { .. })) => {
                let sentence = error.to_string();
                assert!(sentence.contains("secret.key") && sentence.contains("Put the file back"));
            }
            other => panic!("{other:?}"),
        }
        // Another owner's new secret would need a second key.
        let bob = add_owner(app, "bob").await;
        assert!(matches!(
            try_integration(app, bob, "hub", "t").await,
            Err(IntegrationError::Seal(SealError::Missing { .. }))
        ));
        assert!(matches!(
            try_connection(app, owner, home.id, "staging").await,
            Err(DatabaseError::Seal(SealError::Missing { .. }))
        ));
        assert!(!file.exists());
        std::fs::write(&file, [7; 32]).unwrap();
        assert!(matches!(
            integrations::credential(app, owner, forge.id).await,
            Err(IntegrationError::Seal(SealError::Foreign))
        ));
        std::fs::rename(&aside, &file).unwrap();
        integrations::credential(app, owner, forge.id).await.unwrap();
        // What is removed is sealed no more, so that a lost key is no end.
        std::fs::remove_file(&file).unwrap();
        integrations::remove(app, owner, forge.id).await.unwrap();
        integration(app, owner, "hub").await;
        assert!(file.exists());
    });
}

#[test]
fn a_removed_secret_is_gone() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let forge = integration(app, owner, "hub").await;
        let staging = connection(app, owner, home.id, "staging").await;
        databases::remove(app, owner, staging.id).await.unwrap();
        integrations::remove(app, owner, forge.id).await.unwrap();
        let (_, url, write_url, secret) = stored(&app.db, owner, staging.id.get(), forge.id.get()).await;
        assert_eq!((url.as_str(), write_url, secret.as_str()), ("", None, ""));
        assert!(matches!(
            databases::url(app, owner, staging.id).await,
            Err(DatabaseError::NotFound)
        ));
    });
}

#[test]
fn both_accounts_are_of_one_engine_and_a_bad_token_is_not_stored() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let new = databases::NewConnection {
            name: super::kit::slug("staging"),
            project: home.id,
            url: url("postgres://db/app"),
            write_url: Some(url("mysql://db/app")),
            wide: true,
            looked: true,
        };
        assert!(matches!(
            databases::add(app, owner, new).await,
            Err(DatabaseError::OtherEngine)
        ));
        for bad in ["", "two words", "line\nline"] {
            assert!(matches!(
                try_integration(app, owner, "hub", bad).await,
                Err(IntegrationError::Token)
            ));
        }
        assert_eq!(databases::list(app, owner).await.unwrap(), []);
        assert_eq!(integrations::list(app, owner).await.unwrap(), []);
    });
}
