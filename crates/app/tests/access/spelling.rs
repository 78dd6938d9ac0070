//! Repositories in every case of their letters, as forges know them. Never another kind.

use muster_app::access::Call;
use muster_app::integrations::{self, ForgeKind, ForgeUrl, NewIntegration};
use muster_app::policies::{self, Exported, PolicyError, WhenThere, Whose};
use muster_app::projects::{self, NewProject, RepoName};
use muster_core::Secret;
use muster_policy::{Action, ScopeKind};
use serde_json::json;

use super::kit::{Desk, GLOBAL, TASK, chosen, on_desks, slug, tamper};

/// A project whose repository is spelled so.
async fn project(desk: &Desk, name: &str, repo: &str) -> muster_core::ids::ProjectId {
    let (app, owner) = (desk.app(), desk.owner());
    let integration = match integrations::find(app, owner, "hub").await {
        Ok(found) => found.id,
        Err(_) => {
            let new = NewIntegration {
                name: slug("hub"),
                kind: ForgeKind::Github,
                url: ForgeUrl::parse("https://forge.example").unwrap(),
                token: Secret::new("t"),
            };
            integrations::add(app, owner, new).await.unwrap().id
        }
    };
    let root = desk.muster.dir.path().join(name);
    std::fs::create_dir_all(&root).unwrap();
    let repo = Some((RepoName::parse(repo).unwrap(), integration));
    let new = NewProject {
        name: slug(name),
        root,
        repo,
    };
    projects::add(app, owner, new).await.unwrap().id
}

async fn opens(desk: &Desk, spelling: &str) -> String {
    let call = Call {
        tool: "muster_open_pr".to_owned(),
        arguments: json!({}),
        needs: desk.needs(&[(Action::PrWrite, ScopeKind::Repo, spelling)]).await,
    };
    desk.outcome(call).await
}

#[test]
fn a_repo_is_granted_explained_called_and_revoked_in_any_case() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let first = project(&desk, "one", "Acme/Engine").await;
        project(&desk, "two", "acme/engine").await;
        desk.grant(TASK, "pr_write", "repo:acme/ENGINE", "allow").await;
        let shown = desk.shown().await;
        assert_eq!(shown.layers.task.grants.len(), 1);
        let scope = &shown.layers.task.grants[0].scope;
        assert_eq!(
            (scope.id.as_deref(), scope.name.as_deref()),
            (Some("Acme/Engine"), Some("Acme/Engine"))
        );
        assert_eq!(shown.layers.task.grants[0].dead, None);
        assert_eq!(opens(&desk, "Acme/Engine").await, "allowed");
        assert_eq!(opens(&desk, "acme/engine").await, "allowed");
        // The same scope in another case replaces the effect.
        desk.grant(TASK, "pr_write", "repo:ACME/engine", "deny").await;
        assert_eq!(desk.shown().await.layers.task.grants.len(), 1);
        assert_eq!(opens(&desk, "acme/engine").await, "refused_denied");
        let careful = chosen(app, owner, "careful").await;
        let explained = policies::explain(app, owner, Whose::Policy(careful), "pr_write", "repo:aCME/eNGINE")
            .await
            .unwrap();
        assert_eq!(explained.verdict, "deny");
        let preview = policies::preview(app, owner, desk.edit(GLOBAL), "implementer", first)
            .await
            .unwrap();
        assert!(preview.iter().any(|grant| grant.action == "pr_write"));
        desk.revoke(TASK, "pr_write", "repo:acme/engine").await;
        assert!(desk.shown().await.layers.task.grants.is_empty());
        // Names of no other kind fold.
        let refused = desk
            .try_grant(TASK, "db_read", "db_connection:Staging", "allow")
            .await;
        assert!(matches!(refused, Err(PolicyError::NoSuchResource(_))));
    });
}

#[test]
fn two_spellings_that_were_stored_as_two_scopes_are_one_and_the_strictest_counts() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        project(&desk, "one", "Acme/Engine").await;
        desk.grant(TASK, "pr_write", "repo:acme/engine", "deny").await;
        let second = "INSERT INTO grants (owner_id, layer_id, action, scope_kind, scope, effect) SELECT g.owner_id, g.layer_id, g.action, g.scope_kind, 'acme/engine', 'allow' FROM grants g";
        tamper(&desk, &[second]).await;
        assert_eq!(desk.shown().await.layers.task.grants.len(), 2);
        assert_eq!(opens(&desk, "Acme/Engine").await, "refused_denied");
        // Out and in again it is one, as strict as before.
        let document = policies::export(app, owner, vec!["careful".to_owned()])
            .await
            .unwrap();
        assert_eq!(document[0].layers.task.as_ref().unwrap().len(), 2);
        let other = vec![Exported {
            name: "copy".to_owned(),
            ..document[0].clone()
        }];
        let copy = policies::import(app, owner, other, WhenThere::Refuse)
            .await
            .unwrap()
            .remove(0);
        let grants = desk.show(copy.id).await.layers.task.grants;
        assert_eq!((grants.len(), grants[0].effect), (1, "deny"));
        // One edit reaches both rows.
        desk.grant(TASK, "pr_write", "repo:ACME/ENGINE", "allow").await;
        assert_eq!(desk.shown().await.layers.task.grants.len(), 1);
        assert_eq!(opens(&desk, "Acme/Engine").await, "allowed");
        tamper(
            &desk,
            &[&second
                .replace("'allow'", "'deny'")
                .replace("FROM grants g", "FROM grants g WHERE g.effect = 'allow'")],
        )
        .await;
        desk.revoke(TASK, "pr_write", "repo:acme/engine").await;
        assert!(desk.shown().await.layers.task.grants.is_empty());
    });
}
