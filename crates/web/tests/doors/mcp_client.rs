//! A really listening server and the official SDK's client: sockets, keep-alive, both ways to begin.

use muster_core::secret::TokenKind;
use muster_web::{Limits, Origin, Setup, Web, router, serve};
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::kit::{Doors, doors};
use super::mcp::busy;

/// The doors of an app on a port of this machine.
struct Listening {
    address: SocketAddr,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

impl Listening {
    async fn new(doors: &Doors) -> Self {
        // The SDK's HTTP client is built with TLS and wants to know whose, although nothing here is encrypted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let web = Web::new(
            doors.app.clone(),
            Origin::listener(address),
            Setup::default(),
            None,
        );
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, router(web), Limits::default(), stop.clone()));
        Self {
            address,
            stop,
            serving,
        }
    }

    fn transport(&self, token: &str) -> StreamableHttpClientTransport<reqwest::Client> {
        let config = StreamableHttpClientTransportConfig::with_uri(format!("http://{}/mcp", self.address))
            .auth_header(token);
        StreamableHttpClientTransport::with_client(reqwest::Client::new(), config)
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(60), self.serving)
            .await
            .expect("a stop ends the server")
            .unwrap();
    }
}

fn modes() -> [(&'static str, ClientLifecycleMode); 3] {
    [
        ("initialize", ClientLifecycleMode::Initialize),
        (
            "discover",
            ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        ),
        (
            "either",
            ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: None,
            },
        ),
    ]
}

// spec: DRF-003 DRF-005 DRF-006
#[test]
fn the_official_client_finds_the_chiefs_tool_and_drafts_with_it_in_both_eras() {
    doors(|doors| async move {
        let busy = busy(&doors).await;
        let agent = doors.token(doors.ada(), TokenKind::Agent).await;
        let server = Listening::new(&doors).await;
        for (name, mode) in modes() {
            let client =
                ().serve_with_lifecycle(server.transport(&busy.token), mode.clone())
                    .await
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            let tools = client.list_all_tools().await.unwrap();
            assert_eq!(
                tools
                    .iter()
                    .map(|tool| tool.name.as_ref())
                    .filter(|name| !name.starts_with("muster_"))
                    .collect::<Vec<_>>(),
                ["reply_draft"],
                "{name}"
            );
            let mut call = CallToolRequestParams::new("reply_draft");
            call.arguments = json!({"message_id": busy.message.get(), "body": format!("Sent by {name}.")})
                .as_object()
                .cloned();
            let result = client.call_tool(call).await.unwrap();
            assert_ne!(result.is_error, Some(true), "{name}: {result:?}");
            let draft = result.structured_content.unwrap()["draft_id"].as_i64().unwrap();
            let card =
                muster_app::drafts::card(&doors.app, doors.ada(), muster_core::ids::DraftId::new(draft))
                    .await
                    .unwrap()
                    .unwrap();
            assert_eq!(card.body, format!("Sent by {name}."));
            client.cancel().await.unwrap();

            let other =
                ().serve_with_lifecycle(server.transport(&agent), mode)
                    .await
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            let tools = other.list_all_tools().await.unwrap();
            assert!(
                tools.iter().all(|tool| tool.name.starts_with("muster_")),
                "{name}"
            );
            let mut call = CallToolRequestParams::new("reply_draft");
            call.arguments = json!({"message_id": busy.message.get(), "body": "No."})
                .as_object()
                .cloned();
            assert_eq!(
                other.call_tool(call).await.unwrap().is_error,
                Some(true),
                "{name}"
            );
            other.cancel().await.unwrap();
        }
        let stranger =
            ().serve_with_lifecycle(server.transport("mag_nobody"), ClientLifecycleMode::Initialize)
                .await;
        assert!(stranger.is_err(), "a token that is nobody's gets no session");
        server.end().await;
    });
}

#[test]
fn a_listening_server_answers_under_its_own_names_and_stops_in_time_for_a_waiting_claim() {
    doors(|doors| async move {
        let mail = doors.connector(doors.ada(), "mail").await;
        let server = Listening::new(&doors).await;
        let http = reqwest::Client::new();
        let port = server.address.port();
        for (host, status) in [("127.0.0.1", 200), ("localhost", 200), ("evil.example", 421)] {
            let answer = http
                .get(format!("http://127.0.0.1:{port}/metrics"))
                .header("host", format!("{host}:{port}"))
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status().as_u16(), status, "{host}");
        }
        let claim = http
            .post(format!("http://127.0.0.1:{port}/plugin/v1/drafts/claim"))
            .bearer_auth(&mail.token)
            .body(r#"{"wait_seconds":25}"#)
            .send();
        let claim = tokio::spawn(claim);
        super::kit::soon("a claim that waits", || async {
            doors.app.db.wakeups().topics() > 0
        })
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let start = Instant::now();
        doors.app.tasks.stop().await;
        let answer = claim.await.unwrap().unwrap();
        assert_eq!(answer.status().as_u16(), 204, "it is told to ask again");
        server.end().await;
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    });
}
