//! `muster bus token`: who may come over HTTP as whom. Never prints a token but the one it has just made.

use muster_bus::{Home, tokens};
use serde_json::json;

use super::{refused, seat};
use crate::cli::BusToken;
use crate::output::{self, Failure};

pub(super) fn run(home: &Home, command: BusToken, json: bool) -> Result<(), Failure> {
    if tokens::tighten(home).map_err(refused)? {
        output::notice("muster: tokens.json could be read by others; it is this user's alone now");
    }
    match command {
        BusToken::Add { agent } => {
            let agent = seat(&agent)?;
            let had = tokens::list(home).map_err(refused)?.contains(&agent);
            let token = tokens::mint(home, &agent).map_err(refused)?;
            if json {
                return output::document(&json!({"agent": agent, "token": token.expose()}));
            }
            output::line(token.expose())?;
            if had {
                output::notice(&format!(
                    "{agent} had a token, which is replaced: whoever comes with the old one is turned away"
                ));
            }
            output::notice(&format!(
                "a running bus reads it by itself. On {agent}'s machine, for example: claude mcp add --transport http --scope user agent-coord http://HOST:PORT/mcp --header 'Authorization: Bearer <the token>'; then it joins as {agent}. docs/bus.md has the other clients"
            ));
            Ok(())
        }
        BusToken::List => {
            let agents = tokens::list(home).map_err(refused)?;
            if json {
                return output::document(&json!({"agents": agents}));
            }
            agents.iter().try_for_each(|agent| output::line(agent.as_str()))
        }
        BusToken::Revoke { agent } => {
            let agent = seat(&agent)?;
            if !tokens::revoke(home, &agent).map_err(refused)? {
                return Err(Failure::refused(
                    "no_token",
                    format!("'{agent}' has no token, so nothing was revoked"),
                ));
            }
            if json {
                return output::document(&json!({"agent": agent, "revoked": true}));
            }
            output::line(&format!("the token of {agent} is revoked"))
        }
    }
}
