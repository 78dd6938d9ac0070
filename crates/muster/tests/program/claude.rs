//! The loop with the real Claude Code program as chief, against a scripted model on loopback. Nothing leaves the machine.

use muster_testkit::{Model, claude, claude_env};
use serde_json::json;

use crate::support::{Place, message, offered};

/// The same place whose server passes on what the program needs: its own home, the scripted model, nothing that would leave the machine.
fn prepared(place: Place, port: u16) -> Place {
    let home = place.path("home");
    std::fs::create_dir_all(&home).unwrap();
    let config = home.join(".claude").display().to_string();
    let fixed = claude_env(port)
        .into_iter()
        .chain([("TERM".to_owned(), "dumb".to_owned())]);
    let place = fixed.fold(place, |place, (name, value)| place.with(&name, &value));
    place.with("CLAUDE_CONFIG_DIR", &config)
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_drafts_a_reply_through_musters_own_door() {
    let Some(program) = claude() else { return };
    let place = Place::new();
    let call = |id: i64, body: &str| json!({"tool": "mcp__muster__reply_draft", "input": {"message_id": id, "body": body}});
    // The second reply holds what the screen refuses; the model is told why and tries again.
    let steps = json!([call(1, "Noon works for me."), {"text": "I drafted a reply."}, call(2, "Ask 10.0.0.1 about it."), call(2, "Ask a colleague about it."), {"text": "Done."}]);
    let model = Model::new(&place.path(""), "model", &steps);
    let place = prepared(place, model.port);
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let command = format!("'{}' --model claude-sonnet-4-5", program.display());
    place.ok(&["chief", "set", "--runtime", "claude-code", "--command", &command]);
    let server = place.serve();
    let http = server.http();
    let mut ada = server.sign_in("ada").await;

    // The scripted model knows the ids beforehand: each message is sent once, since a repeat may use one up.
    let look = place.look().await;
    assert_eq!(http.message(&token, &message("first")).await.json()["id"], 1);
    look.becomes("SELECT state FROM messages WHERE id = 1", "delivered")
        .await;
    let page = ada.get("/attention?tab=drafts").await.text;
    assert_eq!(offered(&page), [1]);
    assert!(
        page.contains("Noon works for me.") && page.contains("body of first"),
        "{page}"
    );
    ada.approve(1).await;
    let claimed = http.claim(&token, 5).await;
    assert_eq!(
        (claimed.status, claimed.json()["body"].as_str()),
        (200, Some("Noon works for me."))
    );

    assert_eq!(http.message(&token, &message("second")).await.json()["id"], 2);
    look.becomes("SELECT state FROM messages WHERE id = 2", "delivered")
        .await;
    look.close().await;
    let page = ada.get("/attention?tab=drafts").await.text;
    assert_eq!(offered(&page), [2]);
    assert!(
        page.contains("Ask a colleague about it.") && !page.contains("10.0.0.1"),
        "{page}"
    );
    let asked = model.asked();
    assert_eq!(asked.len(), 5, "{asked:#?}");
    assert!(
        asked[3].contains("screened"),
        "the model was not told why: {}",
        asked[3]
    );
    assert!(
        asked[2].contains("body of first") && asked[2].contains("I drafted a reply."),
        "the conversation was not resumed"
    );
    let conversation = ada.get("/chief/conversations/1").await.text;
    assert!(
        conversation.contains("I drafted a reply.") && conversation.contains("Done."),
        "{conversation}"
    );
    let (said, _) = server.stop();
    assert!(said.code() == 0 && !said.err.contains("WARN"), "{said:?}");
}
