//! Locks between processes: one holder at a time, given back by a drop and by a death. Never a row.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use muster_store::{Db, HeldLock, Options};
use muster_testkit::on_both;

use crate::support::{child, is_child, place, second_db, within};

/// Postgres learns of a closed connection a moment later.
const SOON: Duration = Duration::from_secs(5);

async fn free(db: &Db, class: &'static str, id: i64) -> bool {
    db.locks().try_take(class, id).await.unwrap().is_some()
}

#[test]
fn one_holder_at_a_time_and_a_drop_gives_it_back() {
    on_both(|muster| async move {
        let (here, there) = (muster.app.db.clone(), second_db(&muster).await);
        let mut held = here
            .locks()
            .try_take("chief", 3)
            .await
            .unwrap()
            .expect("nobody holds it");
        assert!(held.still_held().await);
        for db in [&here, &there] {
            assert!(!free(db, "chief", 3).await, "it is held");
            // Another number and another class are other locks; each is free again a moment after the look before dropped it.
            within(SOON, "other locks are free", async || {
                free(db, "chief", 4).await && free(db, "owner", 3).await
            })
            .await;
        }
        drop(held);
        within(SOON, "given back", async || free(&there, "chief", 3).await).await;
        there.close().await;
    });
}

#[test]
fn of_many_who_try_at_once_one_takes_it() {
    on_both(|muster| async move {
        let dbs = [muster.app.db.clone(), second_db(&muster).await];
        let tries: Vec<_> = (0..20)
            .map(|n| {
                let locks = dbs[n % 2].locks();
                tokio::spawn(async move { locks.try_take("chief", 9).await.unwrap() })
            })
            .collect();
        let mut taken: Vec<HeldLock> = Vec::new();
        for tried in tries {
            taken.extend(tried.await.unwrap());
        }
        assert_eq!(taken.len(), 1);
    });
}

const KILLED: &str = "locks::a_killed_holder_gives_it_back";

#[test]
fn a_killed_holder_gives_it_back() {
    if is_child() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (url, folder) = place()
                .split_once('|')
                .map(|(url, folder)| (url.to_owned(), folder.to_owned()))
                .unwrap();
            let db = Db::open(&Options::new(url, folder)).await.unwrap();
            let held = db.locks().try_take("chief", 5).await.unwrap();
            println!("\nholds: {}", held.is_some());
            std::io::stdout().flush().unwrap();
            // Until it is killed.
            std::future::pending::<()>().await;
        });
    }
    on_both(|muster| async move {
        let place = format!("{}|{}", muster.url, muster.dir.path().join("locks").display());
        let mut holder = child(KILLED, &place).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
        let told = tokio::task::spawn_blocking(move || {
            lines
                .map_while(Result::ok)
                .find(|line| line.starts_with("holds: "))
        })
        .await
        .unwrap();
        let db = &muster.app.db;
        let excluded = !free(db, "chief", 5).await;
        // SIGKILL: nothing of the holder runs any more.
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(told.as_deref(), Some("holds: true"));
        assert!(excluded, "the other process holds it");
        within(SOON, "given back by a death", async || free(db, "chief", 5).await).await;
    });
}
