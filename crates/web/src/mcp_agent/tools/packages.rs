//! What an agent is told of the tools of plugin packages. Never lists them as granted: the owner's rules decide about each call.

use std::fmt::Write as _;

use muster_app::App;
use muster_app::accounts::{self, AgentCaller};
use muster_plugin_host::{Effect, Host, Offered};

/// Most tools that are named.
const MOST: usize = 200;

/// The tools that an agent of the first account may call, as a text; `None` when there are none, or when they cannot be read, which each call tells anew.
pub(super) async fn outlook(app: &App, caller: &AgentCaller) -> Option<String> {
    let first = accounts::first(app).await.ok().flatten()?;
    if first.id != caller.owner {
        return None;
    }
    let host = Host::new(&app.settings.data_dir, app.clock.clone());
    let offered = tokio::task::spawn_blocking(move || host.offered())
        .await
        .ok()?
        .ok()?;
    text(&offered)
}

fn text(offered: &[Offered]) -> Option<String> {
    if offered.is_empty() {
        return None;
    }
    let mut text = "Tools of plugin packages, by their registered names. No policy governs them: the owner's rules decide about each call.".to_owned();
    let mut left = MOST;
    for server in offered {
        let _ = write!(text, "\n{}:", server.key);
        if server.tools.is_empty() {
            text.push_str(" its tools are known after its first start");
        }
        for (name, effect) in server.tools.iter().filter(|(_, effect)| *effect != Effect::Deny) {
            if left == 0 {
                text.push_str("\nand more");
                return Some(text);
            }
            left -= 1;
            let _ = write!(text, "\n- {name}: {}", effect.word());
        }
    }
    Some(text)
}
