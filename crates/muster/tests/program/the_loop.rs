//! The whole loop by commands alone: a message in, a turn, a draft, the owner's word, the reply out. Never through a door that a script has not.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Place, Server, engines, message, offered};

/// The socket numbers of a process.
fn sockets(pid: i32) -> BTreeSet<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let names = links.filter_map(|link| link.to_str().map(str::to_owned));
    names
        .filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// The TCP connections of the server whose own end is not the port it listens on: those that it opened itself.
fn outbound(server: &Server) -> Vec<String> {
    let own = sockets(server.pid());
    let listening = format!(":{:04X}", server.port);
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    lines
        .filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            own.contains(fields[9]) && !fields[1].ends_with(&listening)
        })
        .map(str::to_owned)
        .collect()
}

// spec: GATE-008 GATE-009
#[tokio::test(flavor = "multi_thread")]
async fn the_loop_runs_by_commands_alone() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        place.set_chief("ada", "turns", "--keep --sleep 0.2 --draft 'Thanks, noon works.'");
        let server = place.serve();
        let http = server.http();

        let stored = http.message(&token, &message("msg-1")).await;
        assert_eq!(
            (stored.status, &stored.json()["status"]),
            (202, &json!("queued")),
            "{stored:?}"
        );
        place.recorded("turns", 1).await;
        assert_eq!(
            outbound(&server),
            Vec::<String>::new(),
            "muster opened a connection of its own while a turn ran"
        );
        let turns = place.recorded("turns", 2).await;
        let turn = turns[0]["turn"].as_str().unwrap();
        assert!(
            turn.starts_with("Untrusted data from an outside sender") && turn.contains("\n# body of msg-1\n"),
            "{turn}"
        );
        assert_eq!(turns[0]["message"], stored.json()["id"]);
        let draft = turns[1]["draft"].as_i64().unwrap_or_else(|| panic!("{turns:?}"));

        let nothing_yet = http.claim(&token, 0).await;
        assert_eq!(
            (nothing_yet.status, nothing_yet.text.as_str()),
            (204, ""),
            "a draft that nobody approved was handed out"
        );
        let mut ada = server.sign_in("ada").await;
        let page = ada.get("/attention?tab=drafts").await;
        assert!(
            page.text.contains("Thanks, noon works.") && page.text.contains("body of msg-1"),
            "{}",
            page.text
        );
        assert_eq!(offered(&page.text), [draft]);

        // A claim that waits gets it as soon as it is approved.
        let waiting = tokio::spawn({
            let (http, token) = (http.clone(), token.clone());
            async move { http.claim(&token, 25).await }
        });
        ada.approve(draft).await;
        let claimed = waiting.await.unwrap();
        assert_eq!(claimed.status, 200, "{claimed:?}");
        let claimed = claimed.json();
        assert_eq!(
            (
                &claimed["draft_id"],
                &claimed["message_external_id"],
                &claimed["body"]
            ),
            (&json!(draft), &json!("msg-1"), &json!("Thanks, noon works."))
        );
        assert_eq!(outbound(&server), Vec::<String>::new(), "muster called somebody");

        let sent = json!({"ok": true, "external_ref": "upstream-1"});
        let reported = http.report(&token, draft, &sent).await;
        assert_eq!(
            (reported.status, reported.json()),
            (200, json!({"draft_id": draft, "status": "sent"}))
        );
        assert_eq!(
            http.report(&token, draft, &sent).await.json()["status"],
            "sent",
            "the same result again changes nothing"
        );
        let archive = ada.get("/attention?tab=drafts&archived=1").await.text;
        assert!(
            archive.contains("sent") && archive.contains("upstream-1"),
            "{archive}"
        );

        assert_eq!(events(&place), EXPECTED, "the audit log tells the loop in order");
        assert_eq!(server.stop().0.code(), 0);
        place.end().await;
    }
}

/// What the audit log holds of one loop, but for the turn's own end, which may come before or after the owner's acts.
const EXPECTED: [&str; 8] = [
    "owner.added",
    "plugin.created",
    "chief.set",
    "plugin.draft.filed",
    "owner.signed_in",
    "plugin.draft.approved",
    "plugin.draft.claimed",
    "plugin.draft.sent",
];

fn events(place: &Place) -> Vec<String> {
    let all = place.json(&["audit", "list"]);
    let names = all
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["event"].as_str().unwrap().to_owned());
    let (ends, others): (Vec<_>, Vec<_>) = names.partition(|name| name == "plugin.delivered");
    assert_eq!(ends.len(), 1, "one settled delivery is one row");
    others
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chief_that_does_nothing_has_dealt_with_the_message() {
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    place.set_chief("ada", "turns", "");
    let server = place.serve();
    let http = server.http();
    assert_eq!(http.message(&token, &message("m")).await.status, 202);
    http.settled(&token, &message("m"), "delivered").await;
    assert_eq!(place.record("turns").len(), 1);
    assert_eq!(http.claim(&token, 0).await.status, 204);
    assert_eq!(
        place.record("turns").len(),
        1,
        "a message that was read is not handed over again"
    );
}

// spec: MSG-043
#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_answer_was_lost_may_be_sent_again() {
    use std::io::{Read as _, Write as _};
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    place.set_chief("ada", "turns", "");
    let server = place.serve();
    let body = message("lost").to_string();
    let head = format!(
        "POST /plugin/v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        server.port,
        body.len()
    );
    let mut link = std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    link.write_all((head + &body).as_bytes()).unwrap();
    // The answer came, and nobody reads it.
    assert_eq!(link.read(&mut [0; 1]).unwrap(), 1);
    drop(link);
    place.recorded("turns", 1).await;
    let http = server.http();
    let id = http.settled(&token, &message("lost"), "delivered").await;
    // Whatever the repeat says, the stored message is the answer.
    let mut other = message("lost");
    other["body"] = json!("another text");
    other["no_reply"] = json!(true);
    let again = http.message(&token, &other).await;
    assert_eq!(
        (again.status, again.json()),
        (200, json!({"id": id, "status": "delivered"}))
    );
    assert_eq!(http.claim(&token, 0).await.status, 204);
    assert_eq!(place.record("turns").len(), 1);
    let turns: Vec<Value> = place.record("turns");
    assert_eq!(turns[0]["message"], id);
}

// spec: TOK-004 TOK-005 TOK-006
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_only_its_hash_is_kept() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let tokens = [place.add_connector("ada", "mail"), place.add_token("ada")];
        assert!(
            tokens[0].starts_with("mpl_") && tokens[1].starts_with("mst_"),
            "{tokens:?}"
        );
        let server = place.serve();
        assert_eq!(server.http().claim(&tokens[0], 0).await.status, 204);
        let ada = server.sign_in("ada").await;
        let mut shown = server.err.text()
            + &place.ok(&["connector", "list", "--json"])
            + &place.ok(&["token", "list", "--json"])
            + &place.ok(&["audit", "list"]);
        for page in ["/", "/plugins", "/settings", "/audit", "/chief"] {
            shown += &ada.get(page).await.text;
        }
        let look = place.look().await;
        let mut kept: Vec<(String,)> = look.all("SELECT token_hash FROM plugins").await;
        kept.extend(look.all::<(String,)>("SELECT token_hash FROM tokens").await);
        look.close().await;
        drop(server);
        for token in &tokens {
            let (_, secret) = token.split_once('_').unwrap();
            assert!(!shown.contains(secret), "a token is shown after its making");
            assert!(kept.contains(&(muster_core::secret::sha256_hex(token.as_bytes()),)));
            for file in crate::support::below(&place.data())
                .into_iter()
                .filter(|path| path.is_file())
            {
                let bytes = std::fs::read(&file).unwrap();
                assert!(
                    !bytes
                        .windows(secret.len())
                        .any(|piece| piece == secret.as_bytes()),
                    "{} holds a token",
                    file.display()
                );
            }
        }
        place.end().await;
    }
}
