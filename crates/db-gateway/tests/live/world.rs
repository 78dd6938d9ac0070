//! What every test here needs: permits, statements of the corpus, the comparison of two worlds.

use std::time::{Duration, Instant};

use muster_db_gateway::{Answer, Connection, Engine, Error, Limits, Rows, Url};
use muster_policy::{
    Action, Decision, Grant, Layer, Needs, Pair, Permit, Policy, Resource, Standing, Target, decide,
};

const CORPUS: [&str; 2] = [
    include_str!("../read_write_refuse.tsv"),
    include_str!("../more_kinds.tsv"),
];

pub(crate) fn resource() -> Resource {
    "db_connection:staging".parse().unwrap()
}

/// A permit that a policy gave for `actions` on the connection named `id`.
fn permit_for(id: &str, actions: &[(&str, Action)]) -> Permit {
    let name = format!("db_connection:{id}");
    let grants = actions
        .iter()
        .map(|(word, _)| Grant::parse(word, &name, "allow").unwrap());
    let policy = Policy::new(Layer::authored(grants).unwrap(), Layer::absent(), Layer::absent());
    let target = Target::new(name.parse().unwrap()).unwrap();
    let mut pairs = actions
        .iter()
        .map(|(_, action)| Pair::new(*action, target.clone()));
    let needs = Needs::new(pairs.next().unwrap(), pairs);
    match decide(Standing::Under(&policy), &needs) {
        Decision::Allow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn may_read() -> Permit {
    permit_for("staging", &[("db_read", Action::DbRead)])
}

pub(crate) fn may_write() -> Permit {
    permit_for(
        "staging",
        &[("db_read", Action::DbRead), ("db_write", Action::DbWrite)],
    )
}

pub(crate) fn may_read_and_write_elsewhere() -> Permit {
    permit_for(
        "other",
        &[("db_read", Action::DbRead), ("db_write", Action::DbWrite)],
    )
}

pub(crate) fn limits() -> Limits {
    Limits {
        time: Duration::from_secs(5),
        ..Limits::default()
    }
}

pub(crate) fn connection(read: &str, write: Option<&str>) -> Connection {
    let write = write.map(|url| Url::parse(url).unwrap());
    Connection::new(resource(), Url::parse(read).unwrap(), write).unwrap()
}

/// A write for which the account that reads has no right says how the connection gets an account for it; where it has one, that account's answer
/// stands alone.
pub(crate) async fn says_how_writes_get_an_account(reader: &str, statement: &str) {
    let alone = connection(reader, None);
    let refused = alone
        .write(&may_write(), statement, true, limits())
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::MayNotWrite { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("muster db set-url --write-url"),
        "{refused}"
    );
    assert!(!refused.to_string().contains("SECRETPASSWORD"), "{refused}");
    assert_eq!(refused.code(), "engine_error");
    let both = connection(reader, Some(reader));
    let answered = both.write(&may_write(), statement, true, limits()).await;
    let Err(Error::Engine { code, .. }) = answered else {
        panic!("{answered:?}");
    };
    assert_eq!(refused.engine_code(), Some(code.as_str()));
}

pub(crate) async fn read(connection: &Connection, statement: &str) -> Result<Answer, Error> {
    connection.read(&may_read(), statement, limits()).await
}

pub(crate) async fn rows(connection: &Connection, statement: &str) -> Rows {
    match read(connection, statement).await {
        Ok(answer) => answer.rows().cloned().unwrap(),
        Err(error) => panic!("{statement}: {error}"),
    }
}

/// A statement that would never end is stopped at its limit, and taken along by a caller who goes away.
pub(crate) async fn stopped_and_left(connection: &Connection, slow: &str) {
    let short = Limits {
        time: Duration::from_millis(300),
        ..limits()
    };
    let begun = Instant::now();
    let answer = connection.read(&may_read(), slow, short).await;
    // A server that is busy may say it later than it is waited for.
    let over = matches!(answer, Err(Error::TimedOut { .. } | Error::Unanswered { .. }));
    assert!(over, "{answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let leave = async |after, limits| {
        let permit = may_read();
        let reading = connection.read(&permit, slow, limits);
        let dropped = tokio::time::timeout(Duration::from_millis(after), reading).await;
        assert!(dropped.is_err());
    };
    leave(300, limits()).await;
    let patient = Limits {
        time: Duration::from_secs(3600),
        ..limits()
    };
    // However early that is: a server overhears a request to stop that comes between two messages.
    for millisecond in 0..40 {
        leave(millisecond, patient).await;
    }
    muster_db_gateway::stopped(Duration::from_secs(30)).await;
}

/// What a server says that is there and does not take the address: told as that, with its own code for programs, and without the password.
pub(crate) async fn is_not_let_in(url: &str, password: &str) -> String {
    let connection = connection(url, None);
    let error = connection.test().await.unwrap_err();
    assert!(matches!(error, Error::NotLetIn { .. }), "{url}: {error:?}");
    assert!(!error.is_away(), "{url}");
    assert_eq!(
        (error.code(), error.engine_code()),
        ("engine_error", Some("sign_in"))
    );
    let check = connection.check().await;
    let reached = check.iter().find(|found| found.id == "reachable").unwrap();
    assert!(
        !reached.ok && reached.detail.contains("Let the account in"),
        "{reached:?}"
    );
    let said = format!("{error} {error:?} {connection:?} {check:?}");
    assert!(
        said.contains("Check the name, the password and the database"),
        "{said}"
    );
    assert!(!said.contains(password), "{said}");
    error.to_string()
}

/// The rows alone, as JSON.
pub(crate) async fn json(connection: &Connection, statement: &str) -> String {
    serde_json::to_string(&rows(connection, statement).await.rows).unwrap()
}

pub(crate) fn engine_code(answer: &Result<Answer, Error>) -> String {
    match answer {
        Ok(_) => "none".to_owned(),
        Err(Error::Engine { code, .. }) => code.clone(),
        Err(error) => error.to_string(),
    }
}

/// Statement and expected verdict, of one engine.
pub(crate) fn corpus(engine: Engine) -> Vec<(String, &'static str)> {
    CORPUS
        .iter()
        .flat_map(|rows| rows.lines().skip(1))
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|fields| fields[0].parse() == Ok(engine))
        .map(|fields| {
            let statement = match engine {
                Engine::Mongodb => fields[1].to_owned(),
                _ => fields[1].replace("\\r\\n", "\r\n").replace("\\n", "\n"),
            };
            (statement, fields[3])
        })
        .collect()
}

/// Lines of `after` that `before` has not, and the other way round.
pub(crate) fn traces(before: &str, after: &str) -> Vec<String> {
    let gone = before
        .lines()
        .filter(|line| !after.lines().any(|other| other == *line));
    let new = after
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line));
    gone.map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect()
}
