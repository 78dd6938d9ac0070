//! kill -9 of the server at random while everybody works: afterwards the database agrees with what each of them wrote down. Never forgives one lost or doubled thing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Browser, Http, Look, Place, QUICK_CHIEF, Server, message, offered};

/// How often the server is killed in one test.
const KILLS: usize = 210;
const OWNERS: [&str; 3] = ["ada", "bob", "eve"];
/// Connectors of each owner.
const CONNECTORS: usize = 4;
/// Messages of each connector: less than its hour's allowance, so that no cap plays a part.
const MESSAGES: usize = 45;
/// How long a server's start takes on a machine with nothing else to do.
const QUICK_START: Duration = Duration::from_millis(50);

/// Numbers by chance; the first one comes from the system.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        Self(std::hash::RandomState::new().build_hasher().finish() | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What the actors wrote down. Each writes before it acts on what it was told, as a connector must.
#[derive(Default)]
struct Notes {
    /// Connector and external id: the message's id that an answer named.
    accepted: BTreeMap<(usize, String), i64>,
    /// How often a retry of a message was asked for.
    retries: BTreeMap<i64, i64>,
    /// Drafts that somebody set out to approve or reject, and those whose answer said that it was done.
    approving: BTreeSet<i64>,
    approved: BTreeSet<i64>,
    rejected: BTreeSet<i64>,
    /// Replies that a claim was given: connector, draft, external id, text.
    claimed: Vec<(usize, i64, String, String)>,
    /// Replies that were sent to the outside.
    sent: Vec<(usize, i64, String)>,
    /// Results that were recorded.
    reported: BTreeMap<i64, &'static str>,
    /// Answers that no retry explains.
    wrong: Vec<String>,
}

/// Everybody's place: where the server is, and how far the test has come.
struct Town {
    place: Place,
    base: String,
    personal: Vec<String>,
    tokens: Vec<String>,
    notes: Mutex<Notes>,
    kills: AtomicUsize,
    over: AtomicUsize,
}

impl Town {
    fn owner_of(connector: usize) -> usize {
        connector / CONNECTORS
    }

    fn note<T>(&self, write: impl FnOnce(&mut Notes) -> T) -> T {
        write(&mut self.notes.lock().unwrap())
    }

    fn wrong(&self, what: &str, answer: &Answer) {
        self.note(|notes| {
            notes.wrong.push(format!(
                "{what}: {} {}",
                answer.status,
                answer.text.chars().take(300).collect::<String>()
            ))
        });
    }

    /// How far the actors may go: until the kills are over, and then until they are told.
    fn goes_on(&self) -> bool {
        self.over.load(Ordering::SeqCst) == 0
    }

    /// Posts until an answer comes that is one; `None` when the test is over before.
    async fn insist(&self, http: &Http, path: &str, token: &str, body: &serde_json::Value) -> Option<Answer> {
        loop {
            match http.try_post(path, token, body).await {
                Ok(answer) if answer.status != 503 => return Some(answer),
                // No answer, or the server says that it could not: nobody knows, so the same again.
                _ if self.goes_on() => tokio::time::sleep(Duration::from_millis(7)).await,
                _ => return None,
            }
        }
    }
}

/// Where an owner's chief writes down what it was handed.
fn record(owner: &str) -> String {
    format!("turns-{owner}")
}

fn name(number: usize) -> String {
    format!("m-{number:03}")
}

/// Posts messages as fast as the kills go on.
async fn poster(town: Arc<Town>, connector: usize) {
    let http = Http::new(&town.base);
    for number in 0..MESSAGES {
        while number > 1 + town.kills.load(Ordering::SeqCst) * MESSAGES / KILLS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Some(answer) = town
            .insist(
                &http,
                "/plugin/v1/messages",
                &town.tokens[connector],
                &message(&name(number)),
            )
            .await
        else {
            return;
        };
        match answer.status {
            200 | 202 => {
                let id = answer.json()["id"].as_i64().unwrap();
                town.note(|notes| notes.accepted.insert((connector, name(number)), id));
            }
            _ => town.wrong("a message", &answer),
        }
    }
}

/// Looks at messages that were sent before, and has those retried whose turn was cut off.
async fn retrier(town: Arc<Town>, owner: usize) {
    let (http, mut chance) = (Http::new(&town.base), Chance::new());
    while town.goes_on() {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let own = |connector: usize| Town::owner_of(connector) == owner;
        let known: Vec<(usize, String, i64)> = town.note(|notes| {
            notes
                .accepted
                .iter()
                .filter(|((connector, _), _)| own(*connector))
                .map(|((connector, name), id)| (*connector, name.clone(), *id))
                .collect()
        });
        if known.is_empty() {
            continue;
        }
        let (connector, name, id) = known[usize::try_from(chance.below(known.len() as u64)).unwrap()].clone();
        let Some(answer) = town
            .insist(
                &http,
                "/plugin/v1/messages",
                &town.tokens[connector],
                &message(&name),
            )
            .await
        else {
            return;
        };
        if answer.status != 200 || answer.json()["id"] != id {
            town.wrong(&format!("the repeat of message {id}"), &answer);
        } else if answer.json()["status"] == "unconfirmed" {
            town.note(|notes| *notes.retries.entry(id).or_default() += 1);
            // Once: an answer that was lost is no reason to ask again.
            let Ok(answer) = http
                .try_post(
                    &format!("/api/plugins/messages/{id}/retry"),
                    &town.personal[owner],
                    &json!({}),
                )
                .await
            else {
                continue;
            };
            if !matches!(answer.status, 200 | 409 | 503) {
                town.wrong("a retry", &answer);
            }
        }
    }
}

/// The owner at the browser: approves most drafts, rejects a few.
async fn approver(town: Arc<Town>, browser: Browser) {
    let mut chance = Chance::new();
    while town.goes_on() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let Ok(page) = browser.try_get("/attention?tab=drafts").await else {
            continue;
        };
        if page.status != 200 {
            // A sign-in outlives every kill.
            if page.status < 500 {
                town.wrong("the page of drafts", &page);
            }
            continue;
        }
        for draft in offered(&page.text) {
            let act = if chance.below(10) == 0 {
                "reject"
            } else {
                "approve"
            };
            if act == "approve" {
                town.note(|notes| notes.approving.insert(draft));
            }
            let Ok(answer) = browser
                .try_submit(&format!("/attention/drafts/{draft}/{act}"), &[])
                .await
            else {
                break;
            };
            let done = answer.status == 303
                && answer.header("location") == format!("/attention?tab=drafts#draft-{draft}");
            match (act, done) {
                ("approve", true) => drop(town.note(|notes| notes.approved.insert(draft))),
                (_, true) => drop(town.note(|notes| notes.rejected.insert(draft))),
                // It was decided by a form whose answer was lost.
                _ if matches!(answer.status, 409 | 503) => {}
                _ => town.wrong("a decision", &answer),
            }
        }
    }
}

/// Collects replies, sends them and says so.
async fn claimer(town: Arc<Town>, connector: usize) {
    let (http, mut chance) = (Http::new(&town.base), Chance::new());
    let token = &town.tokens[connector];
    while town.goes_on() {
        let Ok(answer) = http
            .try_post("/plugin/v1/drafts/claim", token, &json!({"wait_seconds": 2}))
            .await
        else {
            tokio::time::sleep(Duration::from_millis(7)).await;
            continue;
        };
        match answer.status {
            200 => {}
            204 => continue,
            503 => {
                tokio::time::sleep(Duration::from_millis(7)).await;
                continue;
            }
            _ => {
                town.wrong("a claim", &answer);
                continue;
            }
        }
        let reply = answer.json();
        let (draft, external_id) = (
            reply["draft_id"].as_i64().unwrap(),
            reply["message_external_id"].as_str().unwrap().to_owned(),
        );
        town.note(|notes| {
            notes.claimed.push((
                connector,
                draft,
                external_id.clone(),
                reply["body"].as_str().unwrap().to_owned(),
            ))
        });
        let ok = chance.below(5) > 0;
        if ok {
            town.note(|notes| notes.sent.push((connector, draft, external_id)));
        }
        let word = if ok { "sent" } else { "failed" };
        let Some(answer) = town
            .insist(
                &http,
                &format!("/plugin/v1/drafts/{draft}/result"),
                token,
                &json!({"ok": ok}),
            )
            .await
        else {
            return;
        };
        if answer.status == 200 && answer.json()["status"] == word {
            town.note(|notes| notes.reported.insert(draft, word));
        } else {
            town.wrong("a result", &answer);
        }
    }
}

/// A port that no outgoing connection is given: while the server is down, one of a client's could otherwise sit on it.
fn port() -> u16 {
    let start = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (start..32_000)
        .find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// Sets everything up, kills the server again and again while all work, and lets it come to rest.
async fn run(place: Place) -> (Arc<Town>, Vec<Duration>) {
    for owner in OWNERS {
        place.add_owner(owner);
        let line = format!("bash '{QUICK_CHIEF}' '{}'", place.path(&record(owner)).display());
        place.ok(&[
            "chief",
            "set",
            "--owner",
            owner,
            "--runtime",
            "command",
            "--command",
            &line,
        ]);
    }
    let tokens = OWNERS
        .iter()
        .flat_map(|owner| {
            (0..CONNECTORS)
                .map(|number| place.add_connector(owner, &format!("c{number}")))
                .collect::<Vec<_>>()
        })
        .collect();
    let personal = OWNERS.iter().map(|owner| place.add_token(owner)).collect();
    let port = port();
    let start =
        |place: &Place| Server::start(place.serving(&["--listen", &format!("127.0.0.1:{port}")])).unwrap();
    let server = start(&place);
    let mut browsers = Vec::new();
    for owner in OWNERS {
        browsers.push(server.sign_in(owner).await);
    }
    let base = server.url();
    let town = Arc::new(Town {
        place,
        base,
        personal,
        tokens,
        notes: Mutex::default(),
        kills: AtomicUsize::new(0),
        over: AtomicUsize::new(0),
    });

    let mut posters = Vec::new();
    let mut others = Vec::new();
    for connector in 0..town.tokens.len() {
        posters.push(tokio::spawn(poster(town.clone(), connector)));
        others.extend((0..2).map(|_| tokio::spawn(claimer(town.clone(), connector))));
    }
    for (owner, browser) in browsers.into_iter().enumerate() {
        others.push(tokio::spawn(retrier(town.clone(), owner)));
        others.push(tokio::spawn(approver(town.clone(), browser)));
    }

    let mut chance = Chance::new();
    let mut starts = Vec::new();
    let mut server = Some(server);
    for kill in 1..=KILLS {
        // Mostly in the first moments, when everybody comes back at once; now and then later, so that whole turns pass.
        let span = if chance.below(10) < 7 {
            5 + chance.below(116)
        } else {
            120 + chance.below(300)
        };
        // Where everything takes longer, a server lives longer too: as much happens between two kills on a busy machine.
        let slow = starts.last().map_or(1.0, |start: &Duration| {
            start.as_secs_f64() / QUICK_START.as_secs_f64()
        });
        tokio::time::sleep(Duration::from_millis(span).mul_f64(slow.clamp(1.0, 4.0))).await;
        let killed = server.take().unwrap();
        let err = killed.err.clone();
        killed.kill();
        let bad: Vec<String> = err
            .text()
            .lines()
            .filter(|line| line.contains("panicked") || line.contains("ERROR"))
            .map(str::to_owned)
            .collect();
        town.note(|notes| notes.wrong.extend(bad));
        town.kills.store(kill, Ordering::SeqCst);
        let begun = Instant::now();
        server = Some(start(&town.place));
        starts.push(begun.elapsed());
    }

    for poster in posters {
        poster.await.unwrap();
    }
    // A while without kills, so that what can still arrive does.
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    town.over.store(1, Ordering::SeqCst);
    for other in others {
        other.await.unwrap();
    }
    let (said, _) = server.unwrap().stop();
    assert_eq!(said.code(), 0, "{said:?}");
    (town, starts)
}

#[derive(Debug, sqlx::FromRow)]
struct MessageRow {
    id: i64,
    plugin_id: i64,
    external_id: String,
    body: String,
    state: String,
    attempts: i64,
    retries: i64,
    turns: i64,
    settled: i64,
}

#[derive(Debug, sqlx::FromRow)]
struct DraftRow {
    id: i64,
    message_id: i64,
    body: String,
    state: String,
    approved: i64,
    claimed: i64,
    events: String,
}

const MESSAGE_ROWS: &str = "SELECT m.id, m.plugin_id, m.external_id, m.body, m.state, m.attempts, m.retries, \
     (SELECT count(*) FROM turns t WHERE t.message_id = m.id) AS turns, \
     (SELECT count(*) FROM audit a WHERE a.event = 'plugin.delivered' AND a.subject = 'message:' || m.id) AS settled FROM messages m ORDER BY m.id";
const DRAFT_ROWS: &str = "SELECT d.id, d.message_id, d.body, d.state, CASE WHEN d.approved_at IS NULL THEN CAST(0 AS BIGINT) ELSE 1 END AS approved, \
     CASE WHEN d.claimed_at IS NULL THEN CAST(0 AS BIGINT) ELSE 1 END AS claimed, \
     (SELECT string_agg(a.event, ' ') FROM audit a WHERE a.subject = 'draft:' || d.id) AS events FROM drafts d ORDER BY d.id";

/// What one chief wrote down.
#[derive(Default)]
struct Handed {
    /// Message and retry, each once.
    turns: BTreeSet<(i64, i64)>,
    /// Draft: message and text, as the door confirmed them.
    filed: BTreeMap<i64, (i64, String)>,
}

fn handed(town: &Town) -> Handed {
    let mut all = Handed::default();
    for owner in OWNERS {
        for line in town.place.record(&record(owner)) {
            let message = line["message"].as_i64().unwrap();
            if let Some(draft) = line["draft"].as_i64() {
                all.filed
                    .insert(draft, (message, line["body"].as_str().unwrap().to_owned()));
            } else if line["refused"].is_null() {
                let turn = (message, line["retry"].as_i64().unwrap());
                assert!(
                    all.turns.insert(turn),
                    "message and retry {turn:?} were handed to the chief twice"
                );
            }
        }
    }
    all
}

/// Compares what everybody wrote down with the database.
async fn check(town: &Town, look: &Look, starts: &mut [Duration]) {
    let handed = handed(town);
    let notes = std::mem::take(&mut *town.notes.lock().unwrap());
    assert!(
        notes.wrong.is_empty(),
        "{} answers that no retry explains: {:#?}",
        notes.wrong.len(),
        notes.wrong.iter().take(10).collect::<Vec<_>>()
    );
    let messages: BTreeMap<i64, MessageRow> = look
        .all::<MessageRow>(MESSAGE_ROWS)
        .await
        .into_iter()
        .map(|row| (row.id, row))
        .collect();
    let drafts: BTreeMap<i64, DraftRow> = look
        .all::<DraftRow>(DRAFT_ROWS)
        .await
        .into_iter()
        .map(|row| (row.id, row))
        .collect();
    check_messages(&notes, &handed, &messages);
    check_drafts(&notes, &handed, &messages, &drafts);

    let count = |state: &str| messages.values().filter(|row| row.state == state).count();
    let lost_answers = drafts.values().filter(|row| row.claimed == 1).count() - notes.claimed.len();
    starts.sort();
    let (median, worst) = (starts[starts.len() / 2], starts[starts.len() - 1]);
    let cut_off: i64 =
        messages.values().map(|row| row.turns).sum::<i64>() - i64::try_from(count("delivered")).unwrap();
    eprintln!(
        "{} kills; start in {median:?} (median), {worst:?} at worst; {} messages: {} delivered, {} unconfirmed, {} delivering, {} queued; {} turns handed over, {cut_off} cut off; \
         {} drafts filed, {} approved, {} claimed and {lost_answers} claims whose answer was lost, {} sent, {} results recorded",
        starts.len(),
        messages.len(),
        count("delivered"),
        count("unconfirmed"),
        count("delivering"),
        count("queued"),
        handed.turns.len(),
        drafts.len(),
        notes.approved.len(),
        notes.claimed.len(),
        notes.sent.len(),
        notes.reported.len()
    );
    assert!(starts.len() >= 200, "{starts:?}");
    assert!(
        count("delivered") > 30 && cut_off > 20 && notes.sent.len() > 10,
        "too little happened for this to prove anything"
    );
}

fn check_messages(notes: &Notes, handed: &Handed, messages: &BTreeMap<i64, MessageRow>) {
    assert_eq!(
        notes.accepted.len(),
        OWNERS.len() * CONNECTORS * MESSAGES,
        "not every message was answered"
    );
    let mut plugins: BTreeMap<usize, i64> = BTreeMap::new();
    for ((connector, external_id), id) in &notes.accepted {
        let row = messages
            .get(id)
            .unwrap_or_else(|| panic!("message {id} was answered and is lost"));
        assert_eq!(
            (&row.external_id, row.body.as_str()),
            (external_id, format!("body of {external_id}").as_str())
        );
        assert_eq!(
            *plugins.entry(*connector).or_insert(row.plugin_id),
            row.plugin_id,
            "a message changed its connector"
        );
    }
    assert_eq!(messages.len(), notes.accepted.len(), "a message is stored twice");
    for row in messages.values() {
        assert!(
            row.retries <= notes.retries.get(&row.id).copied().unwrap_or(0),
            "retried without the owner's word: {row:?}"
        );
        let open = i64::from(row.state == "delivering");
        assert_eq!(
            (row.turns, row.settled),
            (row.attempts, row.attempts - open),
            "each turn that began is settled once, or is the open one: {row:?}"
        );
        assert!(
            row.attempts <= row.retries + 1,
            "more turns than the first and one for each retry: {row:?}"
        );
        if row.state == "delivered" {
            assert!(
                handed.turns.contains(&(row.id, row.retries)),
                "delivered, and the chief does not know it: {row:?}"
            );
        }
        if row.state == "queued" {
            assert!(
                !handed.turns.contains(&(row.id, row.retries)),
                "handed over and still waiting to be: {row:?}"
            );
        }
    }
    for (message, retry) in &handed.turns {
        assert!(
            messages.get(message).is_some_and(|row| *retry <= row.retries),
            "the chief was handed message {message}, retry {retry}, which is not in the database"
        );
    }
}

fn check_drafts(
    notes: &Notes,
    handed: &Handed,
    messages: &BTreeMap<i64, MessageRow>,
    drafts: &BTreeMap<i64, DraftRow>,
) {
    for (draft, (message, body)) in &handed.filed {
        let row = drafts
            .get(draft)
            .unwrap_or_else(|| panic!("draft {draft} was confirmed to the chief and is lost"));
        assert_eq!((row.message_id, &row.body), (*message, body));
    }
    for row in drafts.values() {
        let events: Vec<&str> = row.events.split(' ').collect();
        let times = |event: &str| {
            events
                .iter()
                .filter(|found| **found == format!("plugin.draft.{event}"))
                .count()
        };
        let is = |state: &str| usize::from(row.state == state);
        assert_eq!(
            [times("filed"), times("approved"), times("claimed")],
            [
                1,
                usize::try_from(row.approved).unwrap(),
                usize::try_from(row.claimed).unwrap()
            ],
            "{row:?}"
        );
        assert_eq!(
            [times("sent"), times("failed"), times("rejected")],
            [is("sent"), is("failed"), is("rejected")],
            "{row:?}"
        );
        assert!(
            row.approved == 0 || notes.approving.contains(&row.id),
            "approved without the owner's word: {row:?}"
        );
    }
    for draft in &notes.approved {
        let row = &drafts[draft];
        assert!(
            match row.state.as_str() {
                "approved" | "sent" | "failed" => true,
                // The answer of its claim was lost, and it has waited for a result for as long as a result is waited for.
                "unconfirmed" => row.claimed == 1 && !notes.reported.contains_key(draft),
                _ => false,
            },
            "the approval is lost: {row:?}"
        );
    }
    for draft in &notes.rejected {
        assert_eq!(drafts[draft].state, "rejected");
    }
    let mut given = BTreeSet::new();
    for (_, draft, external_id, body) in &notes.claimed {
        assert!(given.insert(draft), "draft {draft} was handed out twice");
        let row = &drafts[draft];
        assert_eq!(
            (row.claimed, &row.body, &messages[&row.message_id].external_id),
            (1, body, external_id),
            "{row:?}"
        );
    }
    let mut sent = BTreeSet::new();
    for (connector, draft, external_id) in &notes.sent {
        assert!(
            sent.insert((connector, external_id)),
            "message {external_id} was answered twice, the second time by draft {draft}"
        );
    }
    for (draft, word) in &notes.reported {
        assert_eq!(drafts[draft].state, *word, "the result is lost");
    }
}

mod heavy {
    use super::*;
    use xtask::pg::{ADMIN, Cluster, Durability};

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_kills_lose_and_double_nothing_on_sqlite() {
        let (town, mut starts) = run(Place::new()).await;
        let look = town.place.look().await;
        check(&town, &look, &mut starts).await;
        assert_eq!(look.text("PRAGMA integrity_check").await, "ok");
        assert_eq!(
            look.number("SELECT count(*) FROM pragma_foreign_key_check").await,
            0
        );
        look.close().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_kills_lose_and_double_nothing_on_postgres() {
        let cluster = match Cluster::start(Durability::Durable) {
            Ok(cluster) => cluster,
            Err(error)
                if std::env::var_os("CI").is_none()
                    && error.to_string().starts_with("no Postgres server") =>
            {
                eprintln!("SKIPPED: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let (town, mut starts) = run(Place::new().with("MUSTER_DATABASE_URL", &cluster.app_url())).await;
        let look = Look::postgres(&cluster.url(ADMIN, "muster_test")).await;
        check(&town, &look, &mut starts).await;
        look.close().await;
    }
}
