//! Postgres goes away and comes back while muster works: requests fail cleanly or succeed, and everything works again by itself. Never restarts the cluster that other tests use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_core::FaultKind;
use muster_core::ids::OwnerId;
use muster_store::{Db, Engine, Options, Topic};
use muster_testkit::engines;
use xtask::pg::{Cluster, Durability, Shutdown};

use crate::support::{add, add_in, count, within};

/// How long after Postgres is back everything works again.
const RECOVERED: Duration = Duration::from_secs(8);

/// Writes and reads without end; answers the names of what was stored.
async fn work(db: Db, worker: usize, stop: Arc<AtomicBool>, refused: Arc<AtomicUsize>) -> Vec<String> {
    let mut stored = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("w{worker}-{n}-");
        match add(&db, &name).await {
            Ok(()) => stored.push(name),
            Err(fault) => {
                assert_eq!(*fault.kind(), FaultKind::Unavailable, "{}", fault.chain());
                assert!(fault.sentence().contains("did not answer"));
                refused.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        if let Err(fault) = count(&db, "w").await {
            assert_eq!(*fault.kind(), FaultKind::Unavailable, "{}", fault.chain());
        }
    }
    stored
}

#[test]
fn a_restart_of_postgres_loses_nothing_that_was_answered_and_muster_recovers_by_itself() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let cluster = Arc::new(Cluster::start(Durability::Durable).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(cluster.app_url(), dir.path());
        let (db, other) = (
            Db::open(&options).await.unwrap(),
            Db::open(&options).await.unwrap(),
        );
        for how in [Shutdown::Fast, Shutdown::Immediate] {
            let (stop, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let workers: Vec<_> = (0..8)
                .map(|n| tokio::spawn(work(db.clone(), n, stop.clone(), refused.clone())))
                .collect();
            tokio::time::sleep(Duration::from_millis(300)).await;
            let down = cluster.clone();
            tokio::task::spawn_blocking(move || down.halt(how))
                .await
                .unwrap()
                .unwrap();
            // Away for a while, in which requests are refused quickly.
            let from = Instant::now();
            let fault = add(&other, "while it is away").await.unwrap_err();
            assert_eq!(*fault.kind(), FaultKind::Unavailable, "{}", fault.chain());
            assert!(from.elapsed() < Duration::from_secs(20), "{:?}", from.elapsed());
            within(Duration::from_secs(15), "the others notice too", async || {
                refused.load(Ordering::SeqCst) > 0
            })
            .await;
            let up = cluster.clone();
            tokio::task::spawn_blocking(move || up.resume())
                .await
                .unwrap()
                .unwrap();
            let back = Instant::now();
            within(RECOVERED, "writes work again", async || {
                add(&db, &format!("back-{how:?}-{:?}", Instant::now()))
                    .await
                    .is_ok()
            })
            .await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            stop.store(true, Ordering::SeqCst);
            let mut stored = Vec::new();
            for worker in workers {
                stored.extend(worker.await.unwrap());
            }
            for name in &stored {
                assert_eq!(
                    count(&db, name).await.unwrap(),
                    1,
                    "{name} was answered and is not stored"
                );
            }
            assert!(!stored.is_empty());
            wake_ups_work(&db, &other, back).await;
            // What the workers of the next round store has the same names.
            forget(&db).await;
        }
        db.close().await;
        other.close().await;
    });
}

/// A write through one server wakes who waits at the other, soon after Postgres is back.
async fn wake_ups_work(db: &Db, other: &Db, back: Instant) {
    let topic = Topic::Owner(OwnerId::new(5));
    let waiter = db.wakeups().waiter(topic);
    // Quiet first: coming back wakes everybody, for hints may have been lost.
    while tokio::time::timeout(Duration::from_millis(500), waiter.woken())
        .await
        .is_ok()
    {}
    loop {
        let woken = waiter.woken();
        let write = other.system_write("test", move |tx| {
            Box::pin(async move {
                tx.wake(topic);
                add_in(tx, &format!("hint-{:?}", Instant::now())).await
            })
        });
        write.await.unwrap();
        if tokio::time::timeout(Duration::from_millis(500), woken)
            .await
            .is_ok()
        {
            return;
        }
        assert!(back.elapsed() < RECOVERED, "wake-ups did not come back");
    }
}

async fn forget(db: &Db) {
    static HEADS: muster_store::Sql = muster_store::system("test.forget_heads", "DELETE FROM audit_heads");
    static FORGET: muster_store::Sql = muster_store::system("test.forget", "DELETE FROM owners");
    db.system_write("test", |tx| {
        Box::pin(async move {
            tx.run(&HEADS, ()).await?;
            tx.run(&FORGET, ()).await
        })
    })
    .await
    .unwrap();
}

#[test]
fn a_restart_while_nobody_asks_costs_nobody_a_request() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let cluster = Arc::new(Cluster::start(Durability::Fast).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&Options::new(cluster.app_url(), dir.path()))
            .await
            .unwrap();
        // So that many connections lie in the pool.
        let many = (0..12).map(|n| {
            let db = db.clone();
            tokio::spawn(async move { add(&db, &format!("before-{n}")).await.unwrap() })
        });
        for write in many.collect::<Vec<_>>() {
            write.await.unwrap();
        }
        let again = cluster.clone();
        let restart = move || again.halt(Shutdown::Fast).and_then(|()| again.resume());
        tokio::task::spawn_blocking(restart).await.unwrap().unwrap();
        for n in 0..20 {
            add(&db, &format!("after-{n}")).await.unwrap();
        }
        assert_eq!(count(&db, "after-").await.unwrap(), 20);
        db.close().await;
    });
}
