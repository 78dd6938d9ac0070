//! Which session of the agent belongs to which conversation, over restarts of both. It keeps the ids that the agent chose, and nothing else.

use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    ErrorCode, HttpHeader, LoadSessionRequest, McpServer, McpServerHttp, Meta, NewSessionRequest,
    ResumeSessionRequest, SessionId,
};

use super::connection::Live;
use crate::Turn;
use crate::seat::{Seat, replace};
use crate::text::told;

/// The folder of the notes, one file per conversation.
const NOTES: &str = "acp-sessions";
/// The longest session id that is kept, in bytes.
const ID_LIMIT: usize = 4 * 1024;

impl Live {
    /// The conversation's session: the one that is open, the one the agent can take up again, or a new one.
    ///
    /// # Errors
    /// A sentence when the agent opens none.
    pub(super) async fn session(&mut self, seat: &Seat, turn: &Turn) -> Result<SessionId, String> {
        if let Some(session) = self.open.get(&turn.conversation) {
            return Ok(session.clone());
        }
        let note = seat.folder.join(NOTES).join(&turn.conversation);
        let session = match read(&note) {
            Some(known) if self.take_up(&known, seat, turn).await => known,
            _ => {
                let session = self.begin(seat, turn).await?;
                write(&note, &session)?;
                session
            }
        };
        self.open.insert(turn.conversation.clone(), session.clone());
        Ok(session)
    }

    /// Asks the agent to go on with a session of an earlier run; whether it does.
    async fn take_up(&self, session: &SessionId, seat: &Seat, turn: &Turn) -> bool {
        let taken = if self.abilities.session_capabilities.resume.is_some() {
            let request = ResumeSessionRequest::new(session.clone(), &seat.folder)
                .mcp_servers(self.servers(turn))
                .meta(about(turn));
            self.connection.send_request(request).block_task().await.map(drop)
        } else if self.abilities.load_session {
            let request = LoadSessionRequest::new(session.clone(), &seat.folder)
                .mcp_servers(self.servers(turn))
                .meta(about(turn));
            self.connection.send_request(request).block_task().await.map(drop)
        } else {
            return false;
        };
        if taken.is_err() {
            tracing::warn!(conversation = %turn.conversation, "the chief's agent does not know the conversation's session any more; a new one begins");
        }
        taken.is_ok()
    }

    async fn begin(&self, seat: &Seat, turn: &Turn) -> Result<SessionId, String> {
        let request = NewSessionRequest::new(&seat.folder)
            .mcp_servers(self.servers(turn))
            .meta(about(turn));
        let response = self.connection.send_request(request).block_task().await.map_err(|error| {
            let sentence = if error.code == ErrorCode::AuthRequired {
                "the chief's agent asks for a sign-in; run it once as the user that muster runs as and sign in."
            } else {
                "the chief's agent opened no session."
            };
            told(sentence, &error.to_string())
        })?;
        Ok(response.session_id)
    }

    /// muster's tools, for an agent that takes them over HTTP. The protocol has no other way that would not need a program of its own.
    fn servers(&self, turn: &Turn) -> Vec<McpServer> {
        if !self.abilities.mcp_capabilities.http {
            tracing::warn!(
                "the chief's agent takes no MCP server over HTTP, so it gets muster's tools only if it is set up with them itself"
            );
            return Vec::new();
        }
        let bearer = format!("Bearer {}", turn.agent_token.expose());
        let server = McpServerHttp::new("muster", &turn.mcp_url)
            .headers(vec![HttpHeader::new("Authorization", bearer)]);
        vec![McpServer::Http(server)]
    }
}

/// What a session is for, and that Claude's agent need not ask before it uses muster's tools. Other agents pass over what they do not know.
fn about(turn: &Turn) -> Option<Meta> {
    let about = serde_json::json!({
        "muster": {"conversation": turn.conversation, "title": turn.title},
        "claudeCode": {"options": {"allowedTools": ["mcp__muster"]}},
    });
    about.as_object().cloned()
}

fn read(note: &PathBuf) -> Option<SessionId> {
    let id = std::fs::read_to_string(note).ok()?;
    (!id.is_empty() && id.len() <= ID_LIMIT).then(|| SessionId::new(id))
}

fn write(note: &std::path::Path, session: &SessionId) -> Result<(), String> {
    let kept = match note.parent() {
        Some(folder) => std::fs::create_dir_all(folder).and_then(|()| replace(note, session.0.as_bytes())),
        None => Ok(()),
    };
    kept.map_err(|error| {
        format!("the chief's work folder cannot be written ({error}); free some space, the message waits")
    })
}
