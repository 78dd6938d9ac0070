//! Connectors as accounts of their own: names, tokens, and who may end one. Never stores a message.

use muster_app::plugins::{self, NewPlugin, PluginError};
use muster_core::TokenHash;
use muster_core::text::{DataScope, Label, Slug};
use muster_testkit::{add_owner, on_both};

use super::kit::{events, everything_stored};

fn new() -> NewPlugin {
    NewPlugin {
        name: Slug::parse("name", "mail").unwrap(),
        label: Label::parse("label", "Mail").unwrap(),
        data_scope: DataScope::parse("data scope", "mail").unwrap(),
    }
}

// spec: AUD-003 TOK-006
#[test]
fn a_connectors_token_is_stored_and_audited_without_its_text() {
    on_both(|muster| async move {
        let app = &muster.app;
        let made = plugins::create(app, muster.owner, new()).await.unwrap();
        plugins::authenticate(app, made.token.expose())
            .await
            .unwrap()
            .unwrap();
        plugins::revoke(app, muster.owner, made.id).await.unwrap();
        for event in ["plugin.created", "plugin.revoked"] {
            let rows = events(app, muster.owner, event).await;
            assert_eq!(rows.len(), 1, "{event}");
            assert_eq!(
                (rows[0].subject.clone(), rows[0].actor.as_str()),
                (format!("plugin:{}", made.id), "owner")
            );
        }
        let all = everything_stored(&muster).await;
        let secret = made.token.expose().strip_prefix("mpl_").unwrap();
        assert!(!all.contains(secret));
        assert!(all.contains(TokenHash::of(made.token.expose()).as_str()));
    });
}

// spec: TOK-019 TOK-021
#[test]
fn a_connectors_name_is_one_live_connectors_and_only_its_owner_can_revoke_it() {
    on_both(|muster| async move {
        let app = &muster.app;
        let tries: Vec<_> = (0..6)
            .map(|_| {
                let (app, owner, new) = (app.clone(), muster.owner, new());
                tokio::spawn(async move { plugins::create(&app, owner, new).await })
            })
            .collect();
        let mut made = Vec::new();
        for one in tries {
            match one.await.unwrap() {
                Ok(created) => made.push(created),
                Err(refused @ PluginError::NameTaken) => {
                    assert!(refused.to_string().contains("live connector of this name"))
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(made.len(), 1);
        let bob = add_owner(app, "bob").await;
        plugins::create(app, bob, new()).await.unwrap();
        assert!(matches!(
            plugins::revoke(app, bob, made[0].id).await,
            Err(PluginError::NotFound)
        ));
        let caller = plugins::authenticate(app, made[0].token.expose())
            .await
            .unwrap()
            .unwrap();
        plugins::touch_now(app, &caller).await.unwrap();
        assert!(
            plugins::list(app, bob)
                .await
                .unwrap()
                .iter()
                .all(|plugin| plugin.id != made[0].id)
        );
        plugins::revoke(app, muster.owner, made[0].id).await.unwrap();
        assert!(matches!(
            plugins::touch_now(app, &caller).await,
            Err(PluginError::NotLive)
        ));
        assert!(
            matches!(
                plugins::revoke(app, muster.owner, made[0].id).await,
                Err(PluginError::NotFound)
            ),
            "once"
        );
        plugins::create(app, muster.owner, new()).await.unwrap();
        let lines: Vec<_> = plugins::list(app, muster.owner)
            .await
            .unwrap()
            .into_iter()
            .map(|line| line.revoked_at.is_some())
            .collect();
        assert_eq!(
            lines,
            [true, false],
            "the revoked one stays on the list, and its name is free again"
        );
    });
}
