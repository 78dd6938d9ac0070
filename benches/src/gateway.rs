//! What the database gateway costs: a statement's class, a small read, a large read, the memory of an endless one. Never measures the server: each read stands beside the same statement on a driver of its own.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_db_gateway::{Class, Connection, Engine, Limits, Url, classify};
use muster_policy::{
    Action, Decision, Grant, Layer, Needs, Permit, Policy, Standing, Target as Named, decide,
};
use sqlx::{Connection as _, PgConnection, Row as _};
use xtask::pg::{ADMIN, Cluster, Durability};

use crate::report::{Amount, Figure, Samples, Target};

const NAME: &str = "db_connection:bench";
const SMALL: &str = "SELECT id, v FROM t WHERE id = 7";
/// The same with names that the server is asked about before: calls, and columns behind dots.
const CALLING: &str = "SELECT t.id, lower(t.v) FROM t WHERE t.id = abs(-7)";
const LARGE: &str = "SELECT a, b, c, d, e, f, g, h, i, j FROM big";

/// The figures over `time` each.
pub(crate) fn run(time: Duration) -> Result<Vec<Figure>> {
    let mut figures = classes(time)?;
    let cluster = Cluster::start(Durability::Fast)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    figures.extend(runtime.block_on(reads(&cluster, time))?);
    Ok(figures)
}

/// A statement of about 1 KiB for each engine, with what it is.
fn statements() -> Vec<(Engine, String)> {
    let long = |piece: &str, front: &str, back: &str| {
        let mut text = front.to_owned();
        while text.len() + piece.len() + back.len() < 1024 {
            text.push_str(piece);
        }
        text + back
    };
    let sql = |front: &str| {
        long(
            "coalesce(lower(v), 'none') AS name, count(*) AS n, ",
            front,
            "1 FROM t WHERE id > 5",
        )
    };
    vec![
        (Engine::Postgres, sql("WITH x AS (SELECT 1) SELECT ")),
        (Engine::Mysql, sql("SELECT 'it\\'s', ")),
        (Engine::Sqlite, sql("SELECT ")),
        (Engine::Redis, long("key:0123456789 ", "MGET ", "last")),
        (
            Engine::Mongodb,
            long(
                "{\"name\":{\"$in\":[\"a\",\"b\"]},\"n\":{\"$gt\":5}},",
                "{\"find\":\"a\",\"filter\":{\"$or\":[",
                "{\"z\":1}]}}",
            ),
        ),
    ]
}

fn heaps() -> Vec<String> {
    let size = 64 * 1024;
    let mut found: Vec<String> = [
        "(",
        "'",
        "\"",
        "$a$",
        "$",
        "/*",
        "--\n",
        "[",
        "a.",
        "a(",
        "SELECT ",
        "WITH a AS (",
        "\\'",
        "`",
        "/*!50000 ",
        "{\"a\":",
        "\"a\" ",
        ";",
        ",",
        "lower(v), ",
        "$aaaaaaaaaaaaaaaaaaaaaaa",
        "update a ",
        "a ",
    ]
    .iter()
    .flat_map(|piece| {
        let heap = piece.repeat(size / piece.len());
        [format!("SELECT {heap}"), heap]
    })
    .collect();
    found.push(format!(
        "SELECT {}1{}",
        "(".repeat(size / 2 - 8),
        ")".repeat(size / 2 - 8)
    ));
    found
}

fn classes(time: Duration) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (engine, statement) in statements() {
        if classify(engine, &statement).class != Class::Read {
            bail!("{statement} is no read");
        }
        let mut samples = Samples::default();
        let begun = Instant::now();
        while begun.elapsed() < time / 4 {
            let one = Instant::now();
            for _ in 0..64 {
                black_box(classify(engine, black_box(&statement)));
            }
            samples.add(one.elapsed().as_secs_f64() * 1e6 / 64.0);
        }
        figures.push(Figure::new(
            format!("class of a statement of {} bytes, {engine}", statement.len()),
            Amount::of(samples.median(), "µs"),
            None,
            Target::Below(50.0),
            format!(
                "median of {} batches of 64, p99 {:.1} µs",
                samples.len(),
                samples.percentile(0.99)
            ),
        ));
    }
    let mut worst = (0.0_f64, String::new());
    for heap in heaps() {
        for engine in Engine::ALL {
            let one = Instant::now();
            black_box(classify(engine, black_box(&heap)));
            let spent = one.elapsed().as_secs_f64() * 1e3;
            if spent > worst.0 {
                worst = (
                    spent,
                    format!("{engine}: {:?}…", heap.chars().take(12).collect::<String>()),
                );
            }
        }
    }
    figures.push(Figure::new(
        "class of the worst 64 KiB",
        Amount::of(worst.0, "ms"),
        None,
        Target::Below(50.0),
        format!(
            "the slowest of {} inputs on each engine, {}",
            heaps().len(),
            worst.1
        ),
    ));
    Ok(figures)
}

fn permit() -> Result<Permit> {
    let policy = Policy::new(
        Layer::authored([Grant::parse("db_read", NAME, "allow")?])?,
        Layer::absent(),
        Layer::absent(),
    );
    let needs = Needs::of(Action::DbRead, Named::new(NAME.parse()?)?);
    match decide(Standing::Under(&policy), &needs) {
        Decision::Allow(permit) => Ok(permit),
        _ => bail!("the policy of the bench allows no read"),
    }
}

async fn reads(cluster: &Cluster, time: Duration) -> Result<Vec<Figure>> {
    let url = cluster.url(ADMIN, "postgres");
    let mut direct = PgConnection::connect(&url).await?;
    for statement in [
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 1000) n",
        "CREATE TABLE big AS SELECT n AS a, n AS b, n AS c, n AS d, n AS e, 'text ' || n AS f, 'text ' || n AS g, 'text ' || n AS h, \
         'text ' || n AS i, 'text ' || n AS j FROM generate_series(1, 10000) n",
        "VACUUM ANALYZE",
    ] {
        sqlx::query(statement).execute(&mut direct).await?;
    }
    let connection = Connection::new(NAME.parse()?, Url::parse(&url)?, None)?;
    let permit = permit()?;
    Ok(vec![
        small(&connection, &permit, &mut direct, time, SMALL, "a one-row read").await?,
        small(
            &connection,
            &permit,
            &mut direct,
            time,
            CALLING,
            "one that calls functions",
        )
        .await?,
        large(&connection, &permit, &mut direct, time).await?,
        endless(&connection, &permit).await?,
    ])
}

async fn small(
    connection: &Connection,
    permit: &Permit,
    direct: &mut PgConnection,
    time: Duration,
    statement: &'static str,
    what: &str,
) -> Result<Figure> {
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    let begun = Instant::now();
    // Turn by turn, so that a busy moment falls on both.
    while begun.elapsed() < time * 2 {
        let one = Instant::now();
        black_box(connection.read(permit, statement, Limits::default()).await?);
        ours.add(one.elapsed().as_secs_f64() * 1e3);
        let one = Instant::now();
        let row = sqlx::query(statement)
            .persistent(false)
            .fetch_one(&mut *direct)
            .await?;
        black_box((row.get::<i32, _>(0), row.get::<String, _>(1)));
        theirs.add(one.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Figure::new(
        format!("what the gateway adds to {what} on Postgres"),
        Amount::of(ours.median() - theirs.median(), "ms"),
        Some((
            "the read itself by a driver, prepared anew",
            Amount::of(theirs.median(), "ms"),
        )),
        Target::Below(0.5),
        format!(
            "medians of {} reads each, turn by turn: {:.3} ms through the gateway (permit, class, read-only transaction, rollback, discard), p99 {:.2} ms",
            ours.len(),
            ours.median(),
            ours.percentile(0.99)
        ),
    ))
}

async fn large(
    connection: &Connection,
    permit: &Permit,
    direct: &mut PgConnection,
    time: Duration,
) -> Result<Figure> {
    let limits = Limits {
        rows: 20_000,
        bytes: 64 * 1024 * 1024,
        ..Limits::default()
    };
    let (mut ours, mut theirs, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    let begun = Instant::now();
    while begun.elapsed() < time * 2 {
        let one = Instant::now();
        let answer = connection.read(permit, LARGE, limits).await?;
        let through = one.elapsed().as_secs_f64();
        if answer.rows().is_none_or(|rows| rows.rows.len() != 10_000) {
            bail!("the gateway did not answer all rows");
        }
        let one = Instant::now();
        let rows = sqlx::query(LARGE)
            .persistent(false)
            .fetch_all(&mut *direct)
            .await?;
        for row in &rows {
            for place in 0..5 {
                black_box(row.get::<i32, _>(place));
                black_box(row.get::<String, _>(place + 5));
            }
        }
        let alone = one.elapsed().as_secs_f64();
        ours.add(10_000.0 / through);
        theirs.add(10_000.0 / alone);
        ratios.add(alone / through);
    }
    Ok(Figure::new(
        "10,000 rows of 10 columns through the gateway, Postgres",
        Amount::of(ours.median(), "rows/s"),
        Some((
            "the same rows by a driver, each value taken",
            Amount::of(theirs.median(), "rows/s"),
        )),
        Target::RatioAtLeast(0.7),
        format!(
            "medians of {} turns; the median of their ratios is {:.2}",
            ours.len(),
            ratios.median()
        ),
    ))
}

/// How much the peak of the process grows while results of a gigabyte are asked for.
async fn endless(connection: &Connection, permit: &Permit) -> Result<Figure> {
    black_box(connection.read(permit, SMALL, Limits::default()).await?);
    let before = peak()?;
    for statement in [
        "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)",
        "SELECT repeat('x', 100000000)",
        "SELECT generate_series(1, 100000000)",
    ] {
        let limits = Limits {
            rows: 100_000_000,
            ..Limits::default()
        };
        let answer = connection.read(permit, statement, limits).await?;
        if answer.rows().is_none_or(|rows| !rows.truncated) {
            bail!("{statement} was not cut off");
        }
    }
    Ok(Figure::new(
        "memory that results of 1 GB, 100 MB in one value and 10^8 rows take, limits of 1 MiB",
        Amount::of((peak()? - before) / 1024.0, "MiB"),
        None,
        Target::Below(32.0),
        "growth of the peak of the resident set",
    ))
}

/// The largest resident set so far, in KiB.
fn peak() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("the kernel does not say how large the process was")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
