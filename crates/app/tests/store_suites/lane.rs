//! Writes: each is stored or refused whole, beside whatever else is written at the same time, and wakes whom it concerns once it is stored. Never measures speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_core::ids::{OwnerId, PluginId};
use muster_core::{Fault, FaultKind};
use muster_store::{Db, Engine, Options, Sql, Topic, system};
use muster_testkit::{TestMuster, on_both};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::support::{ADD, COUNT, Raw, add, add_in, beginning, count, hears, second_db, within};

/// A write that stands at the database until it is let go: on SQLite everything that comes meanwhile waits behind it.
struct Held {
    gate: Arc<Notify>,
    write: tokio::task::JoinHandle<Result<(), Fault>>,
}

impl Held {
    /// Begins it, with a row of its own that has this name.
    async fn begin(db: &Db, name: Option<&'static str>) -> Self {
        let (gate, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (db, opens, told) = (db.clone(), gate.clone(), begun.clone());
        let write = tokio::spawn(async move {
            db.system_write("test", move |tx| {
                Box::pin(async move {
                    if let Some(name) = name {
                        add_in(tx, name).await?;
                    }
                    told.notify_one();
                    opens.notified().await;
                    Ok(())
                })
            })
            .await
        });
        begun.notified().await;
        Self { gate, write }
    }

    async fn let_go(self) -> Result<(), Fault> {
        self.gate.notify_one();
        self.write.await.unwrap()
    }
}

/// Gives what has been spawned the time to reach the database.
async fn arrived() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// The ways a job of the mix ends, by its number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Stores,
    RefusesAfterwards,
    BreaksAConstraint,
    BreaksOneAndSaysOk,
    Panics,
}

fn way(n: usize) -> Way {
    match n % 10 {
        1 => Way::RefusesAfterwards,
        3 => Way::BreaksAConstraint,
        5 => Way::BreaksOneAndSaysOk,
        7 => Way::Panics,
        _ => Way::Stores,
    }
}

async fn mixed(db: Db, n: usize) -> Result<(), Fault> {
    db.system_write("test", move |tx| {
        Box::pin(async move {
            add_in(tx, &format!("mix-{n}")).await?;
            match way(n) {
                Way::Stores => {}
                Way::RefusesAfterwards => return Err(Fault::other("refused")),
                Way::BreaksAConstraint => add_in(tx, "held").await?,
                Way::BreaksOneAndSaysOk => drop(add_in(tx, "held").await.unwrap_err()),
                Way::Panics => panic!("a job of the mix panics"),
            }
            // Each job has further work, and it is kept or undone with the first.
            if way(n) == Way::Stores {
                add_in(tx, &format!("also-{n}")).await
            } else {
                Ok(())
            }
        })
    })
    .await
}

#[test]
fn of_a_thousand_writes_at_once_exactly_those_that_answered_ok_are_stored() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        add(db, "held").await.unwrap();
        let gate = Held::begin(db, None).await;
        let mut jobs = JoinSet::new();
        for n in 0..1_000 {
            let db = db.clone();
            jobs.spawn(async move { (n, mixed(db, n).await) });
        }
        arrived().await;
        gate.let_go().await.unwrap();
        let mut stored = Vec::new();
        while let Some(ended) = jobs.join_next().await {
            let (n, answer) = ended.unwrap();
            assert_eq!(
                answer.is_ok(),
                way(n) == Way::Stores,
                "{n} {:?}: {answer:?}",
                way(n)
            );
            match (way(n), answer) {
                (Way::Stores, _) => stored.extend([format!("also-{n}"), format!("mix-{n}")]),
                (Way::RefusesAfterwards, Err(fault)) => assert_eq!(fault.to_string(), "refused"),
                (Way::Panics, Err(fault)) => assert_eq!(fault.to_string(), "a job on the database panicked"),
                (_, Err(fault)) => assert!(
                    fault.constraint().is_some_and(|name| name.contains("owners")),
                    "{}",
                    fault.chain()
                ),
                (_, Ok(())) => unreachable!(),
            }
        }
        let mut raw = Raw::of(&muster).await;
        let found = raw
            .rows("SELECT name FROM owners WHERE substr(name, 1, 4) = 'mix-' OR substr(name, 1, 5) = 'also-'")
            .await;
        let mut found: Vec<String> = found.iter().map(crate::support::Loose::text).collect();
        found.sort();
        stored.sort();
        assert_eq!(stored.len(), 1_200);
        assert_eq!(found, stored);
        add(db, "afterwards").await.unwrap();
    });
}

#[test]
fn writes_that_wait_together_share_a_commit() {
    on_both(|muster| async move {
        if muster.engine != Engine::Sqlite {
            return;
        }
        let db = &muster.app.db;
        let mut raw = Raw::of(&muster).await;
        let gate = Held::begin(db, None).await;
        let mut jobs = JoinSet::new();
        for n in 0..500 {
            let db = db.clone();
            jobs.spawn(async move { add(&db, &format!("shared-{n}")).await });
        }
        arrived().await;
        gate.let_go().await.unwrap();
        let mut seen = std::collections::BTreeSet::new();
        let mut left = 500;
        while let Some(ended) = jobs.join_next().await {
            ended.unwrap().unwrap();
            left -= 1;
            seen.insert(
                raw.number("SELECT count(*) FROM owners WHERE substr(name, 1, 7) = 'shared-'")
                    .await,
            );
        }
        assert_eq!((left, count(db, "shared-").await.unwrap()), (0, 500));
        // A commit of at most 64 (the one that held was of the first): what is seen moves in few and large steps.
        assert!(
            seen.iter().all(|rows| rows % 64 == 63 || *rows == 500) && seen.len() <= 8,
            "{seen:?}"
        );
    });
}

#[test]
fn after_a_statement_failed_nothing_more_runs_in_its_transaction() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        add(db, "taken").await.unwrap();
        let said: Result<(), Fault> = db
            .system_write("test", |tx| {
                Box::pin(async move {
                    add_in(tx, "taken").await.unwrap_err();
                    let next = add_in(tx, "next").await.unwrap_err();
                    assert!(next.to_string().contains("was not run"), "{next}");
                    Ok(())
                })
            })
            .await;
        let said = said.unwrap_err();
        assert!(
            said.constraint().is_some() && said.to_string().contains("nothing of the write was stored"),
            "{}",
            said.chain()
        );
        assert_eq!(count(db, "next").await.unwrap(), 0);
        add(db, "next").await.unwrap();
    });
}

#[test]
fn a_job_that_panics_takes_nobody_down_wherever_it_panics() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        // Before it has asked for anything, and in the part that only makes the future.
        let early: Result<(), Fault> = db.system_write("test", |_| panic!("a job panics at once")).await;
        assert_eq!(early.unwrap_err().to_string(), "a job on the database panicked");
        let late: Result<(), Fault> = db
            .system_write("test", |tx| {
                Box::pin(async move {
                    add_in(tx, "panicked").await?;
                    panic!("a job panics after its work")
                })
            })
            .await;
        assert_eq!(late.unwrap_err().to_string(), "a job on the database panicked");
        assert_eq!(count(db, "panicked").await.unwrap(), 0);
        add(db, "lives").await.unwrap();
        assert_eq!(count(db, "lives").await.unwrap(), 1);
    });
}

#[test]
fn a_read_that_panics_is_an_error_and_leaves_no_transaction_behind() {
    on_both(|muster| async move {
        // Two connections, so that what one of them was left in meets the next who asks.
        let db = narrow(&muster).await;
        for round in 0..4 {
            let read: Result<(), Fault> = db
                .system_read("test", |tx| {
                    Box::pin(async move {
                        tx.number(&COUNT, beginning("x")).await?;
                        panic!("a reader panics after its look")
                    })
                })
                .await;
            assert_eq!(read.unwrap_err().to_string(), "a job on the database panicked");
            add(&db, &format!("round-{round}")).await.unwrap();
            assert_eq!(count(&db, "round-").await.unwrap(), round + 1);
        }
        db.close().await;
    });
}

/// The same database with as few connections as muster takes.
async fn narrow(muster: &TestMuster) -> Db {
    let mut options = Options::new(&muster.url, muster.dir.path().join("locks"));
    options.connections = 2;
    Db::open(&options).await.unwrap()
}

#[test]
fn a_write_whose_caller_has_gone_before_it_began_is_not_run() {
    on_both(|muster| async move {
        let db = &narrow(&muster).await;
        let mut held = vec![Held::begin(db, Some("held")).await];
        if muster.engine == Engine::Postgres {
            // All its connections, so that what comes has to wait.
            held.push(Held::begin(db, None).await);
        }
        let ran = Arc::new(AtomicBool::new(false));
        let (gone, mark) = (db.clone(), ran.clone());
        let caller = tokio::spawn(async move {
            gone.system_write("test", move |tx| {
                Box::pin(async move {
                    mark.store(true, Ordering::SeqCst);
                    add_in(tx, "gone").await
                })
            })
            .await
        });
        let stays = tokio::spawn({
            let db = db.clone();
            async move { add(&db, "stays").await }
        });
        arrived().await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        for held in held {
            held.let_go().await.unwrap();
        }
        stays.await.unwrap().unwrap();
        assert!(!ran.load(Ordering::SeqCst));
        assert_eq!(count(db, "gone").await.unwrap(), 0);
        db.close().await;
    });
}

#[test]
fn a_write_that_began_is_finished_although_its_caller_has_gone() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        let held = Held::begin(db, Some("held")).await;
        held.write.abort();
        assert!(held.write.await.unwrap_err().is_cancelled());
        held.gate.notify_one();
        within(SOON, "stored", async || count(db, "held").await.unwrap() == 1).await;
    });
}

#[test]
fn a_statement_that_changes_nothing_says_so_whatever_was_written_before_it() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        let rename = |db: &Db| {
            let db = db.clone();
            tokio::spawn(async move {
                db.system_write("test", |tx| {
                    Box::pin(async move { tx.run(&RENAME, ("nobody", "somebody")).await })
                })
                .await
            })
        };
        add(db, "one").await.unwrap();
        assert_eq!(rename(db).await.unwrap().unwrap(), 0, "first of its transaction");
        let held = Held::begin(db, Some("held")).await;
        let queued: Vec<_> = (0..3).map(|_| rename(db)).collect();
        arrived().await;
        held.let_go().await.unwrap();
        for job in queued {
            assert_eq!(job.await.unwrap().unwrap(), 0, "after others that wrote");
        }
    });
}

#[test]
fn a_job_without_a_statement_undoes_nothing_of_its_neighbours() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        let idle = |refuses: bool| {
            let db = db.clone();
            tokio::spawn(async move {
                db.system_write("test", move |_tx| {
                    Box::pin(async move {
                        if refuses {
                            Err(Fault::other("refused"))
                        } else {
                            Ok(())
                        }
                    })
                })
                .await
            })
        };
        let held = Held::begin(db, Some("held")).await;
        let mut writes = Vec::new();
        for n in 0..4 {
            drop(idle(n % 2 == 0));
            let db = db.clone();
            writes.push(tokio::spawn(
                async move { add(&db, &format!("beside-{n}")).await },
            ));
        }
        let last = idle(true);
        arrived().await;
        held.let_go().await.unwrap();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        last.await.unwrap().unwrap_err();
        assert_eq!(count(db, "beside-").await.unwrap(), 4);
    });
}

#[test]
fn callers_that_go_away_leave_no_transaction_open() {
    on_both(|muster| async move {
        let db = &muster.app.db;
        for n in 0..200_u32 {
            let (db, name) = (db.clone(), format!("left-{n}"));
            let caller = tokio::spawn(async move {
                if n.is_multiple_of(2) {
                    drop(add(&db, &name).await);
                } else {
                    drop(count(&db, &name).await);
                }
            });
            for _ in 0..n % 7 {
                tokio::task::yield_now().await;
            }
            caller.abort();
        }
        add(db, "after").await.unwrap();
        assert_eq!(count(db, "after").await.unwrap(), 1);
        if muster.engine == Engine::Postgres {
            let mut raw = Raw::as_muster(&muster.url).await;
            let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
            within(SOON, "transactions stay open", async || {
                let (open,): (i64,) = sqlx::query_as(open).fetch_one(&mut raw).await.unwrap();
                open == 0
            })
            .await;
        }
    });
}

#[test]
fn closing_runs_what_is_queued_and_refuses_what_comes_later() {
    on_both(|muster| async move {
        // A database of its own, because the test's end closes the other.
        let db = second_db(&muster).await;
        let held = Held::begin(&db, Some("held")).await;
        let mut jobs = JoinSet::new();
        let queued = if muster.engine == Engine::Sqlite { 50 } else { 5 };
        for n in 0..queued {
            let db = db.clone();
            jobs.spawn(async move { add(&db, &format!("queued-{n}")).await });
        }
        arrived().await;
        let closing = tokio::spawn({
            let db = db.clone();
            async move { db.close().await }
        });
        arrived().await;
        assert!(!closing.is_finished(), "it waits for the write that runs");
        held.let_go().await.unwrap();
        while let Some(ended) = jobs.join_next().await {
            ended.unwrap().unwrap();
        }
        closing.await.unwrap();
        let late = add(&db, "late").await.unwrap_err();
        assert_eq!(*late.kind(), FaultKind::Unavailable, "{}", late.chain());
        assert_eq!(*count(&db, "x").await.unwrap_err().kind(), FaultKind::Unavailable);
        db.close().await;
        assert_eq!(count(&muster.app.db, "queued-").await.unwrap(), queued);
        assert_eq!(count(&muster.app.db, "held").await.unwrap(), 1);
        assert_eq!(count(&muster.app.db, "late").await.unwrap(), 0);
    });
}

static RENAME: Sql = system("test.rename", "UPDATE owners SET name = $2 WHERE name = $1");

#[test]
fn a_reader_sees_one_snapshot_and_writes_nothing() {
    on_both(|muster| async move {
        let db = muster.app.db.clone();
        add(&db, "before").await.unwrap();
        let writer = db.clone();
        let counts = db
            .system_read("test", move |tx| {
                Box::pin(async move {
                    let first = tx.number(&COUNT, beginning("before")).await?;
                    writer
                        .system_write("test", |tx| {
                            Box::pin(async move { tx.run(&RENAME, ("before", "after")).await })
                        })
                        .await?;
                    Ok::<_, Fault>((first, tx.number(&COUNT, beginning("before")).await?))
                })
            })
            .await
            .unwrap();
        assert_eq!(counts, (1, 1), "a write in between is not seen");
        assert_eq!(count(&db, "after").await.unwrap(), 1);
        let wrote: Result<u64, Fault> = db
            .system_read("test", |tx| {
                Box::pin(async move { tx.run(&ADD, ("read", None::<&str>)).await })
            })
            .await;
        let fault = wrote.unwrap_err();
        assert_eq!(*fault.kind(), FaultKind::ReadOnly, "{}", fault.chain());
        assert!(
            fault
                .sentence()
                .contains("cannot write to its database, so nothing was stored")
        );
        assert_eq!(count(&db, "read").await.unwrap(), 0);
    });
}

const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_wake_up_comes_after_the_commit_and_never_for_what_was_refused() {
    on_both(|muster| async move {
        let db = muster.app.db.clone();
        hears(&db, &muster.url).await;
        let topic = Topic::Plugin(PluginId::new(7));
        let waiter = db.wakeups().waiter(topic);

        let refused = waiter.woken();
        for way in ["refuses", "panics", "breaks"] {
            let ended: Result<(), Fault> = db
                .system_write("test", move |tx| {
                    Box::pin(async move {
                        tx.wake(topic);
                        match way {
                            "refuses" => Err(Fault::other("refused")),
                            "panics" => panic!("a job panics after its wake-up"),
                            // The name is the first owner's.
                            _ => add_in(tx, "ada").await,
                        }
                    })
                })
                .await;
            ended.unwrap_err();
        }
        add(&db, "another write beside").await.unwrap();
        assert!(
            tokio::time::timeout(Duration::from_millis(300), refused)
                .await
                .is_err(),
            "what was undone woke somebody"
        );

        let (gate, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (opens, begun, writer) = (gate.clone(), told.clone(), db.clone());
        let woken = waiter.woken();
        let mut woken = std::pin::pin!(woken);
        let write = tokio::spawn(async move {
            writer
                .system_write("test", move |tx| {
                    Box::pin(async move {
                        tx.wake(topic);
                        add_in(tx, "woken").await?;
                        begun.notify_one();
                        opens.notified().await;
                        Ok::<_, Fault>(())
                    })
                })
                .await
        });
        told.notified().await;
        assert!(
            tokio::time::timeout(Duration::from_millis(200), woken.as_mut())
                .await
                .is_err(),
            "woken before the commit"
        );
        gate.notify_one();
        tokio::time::timeout(SOON, woken).await.unwrap();
        assert_eq!(
            count(&db, "woken").await.unwrap(),
            1,
            "whoever is woken sees what woke them"
        );
        write.await.unwrap().unwrap();
    });
}

#[test]
fn another_processs_write_wakes_who_waits_here() {
    on_both(|muster| async move {
        let here = muster.app.db.clone();
        let other = second_db(&muster).await;
        hears(&here, &muster.url).await;
        for round in 0..3 {
            let topic = Topic::Owner(OwnerId::new(77));
            let waiter = here.wakeups().waiter(topic);
            let woken = waiter.woken();
            let from = std::time::Instant::now();
            other
                .system_write("test", move |tx| {
                    Box::pin(async move {
                        tx.wake(topic);
                        add_in(tx, &format!("elsewhere-{round}")).await
                    })
                })
                .await
                .unwrap();
            let limit = match muster.engine {
                // SQLite has nobody to tell; the file is looked at every second.
                Engine::Sqlite => Duration::from_secs(2),
                // Told by Postgres at the commit; nothing looks.
                Engine::Postgres => Duration::from_secs(1),
            };
            tokio::time::timeout(limit, woken)
                .await
                .unwrap_or_else(|_| panic!("round {round}: not woken within {limit:?}"));
            eprintln!("{:?}: woken after {:?}", muster.engine, from.elapsed());
            assert_eq!(count(&here, "elsewhere-").await.unwrap(), round + 1);
        }
        other.close().await;
    });
}

#[test]
fn a_postgres_that_became_read_only_refuses_writes_with_that_sentence_and_takes_them_again_later() {
    on_both(|muster| async move {
        if muster.engine != Engine::Postgres {
            return;
        }
        let db = narrow(&muster).await;
        let mut raw = Raw::of(&muster).await;
        let name = raw.rows("SELECT current_database()::text").await[0].text();
        for (setting, writable) in [("on", false), ("off", true)] {
            raw.run(&format!(
                "ALTER DATABASE {name} SET default_transaction_read_only = {setting}"
            ))
            .await
            .unwrap();
            // As after a failover: the connections break, and new ones lead to a server that does not take writes.
            raw.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'muster_app'").await.unwrap();
            let wrote = add(&db, &format!("now-{setting}")).await;
            if writable {
                wrote.unwrap();
            } else {
                let fault = wrote.unwrap_err();
                assert_eq!(*fault.kind(), FaultKind::ReadOnly, "{}", fault.chain());
            }
            assert_eq!(count(&db, "now-").await.unwrap(), i64::from(writable));
        }
        db.close().await;
    });
}
