//! A disk that is full or may not be written: a clear refusal, nothing corrupted, and work again once there is room. Never fills the machine's own disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_core::{Fault, FaultKind};
use muster_store::{Db, OpenError, Options, system};
use tokio::task::JoinSet;

use crate::support::{ADD, Raw, add, child_with_mounts, count, ends_well, is_child, place};

fn mount(words: &[&str], at: &Path) {
    let said = Command::new("mount").args(words).arg(at).output().unwrap();
    assert!(
        said.status.success(),
        "mount {words:?}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
}

/// Runs `law` in this process when it is the child, else in a child that may mount; the folder is the child's to mount on.
fn with_mounts<F: Future<Output = ()>>(test: &str, law: impl FnOnce(PathBuf) -> F) {
    if is_child() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        return runtime.block_on(law(place().into()));
    }
    let dir = tempfile::tempdir().unwrap();
    if let Some(command) = child_with_mounts(test, dir.path().to_str().unwrap()) {
        ends_well(command);
    }
}

fn url(dir: &Path) -> String {
    format!("sqlite://{}", dir.join("muster.db").display())
}

async fn open(dir: &Path) -> Db {
    Db::open(&Options::new(url(dir), dir.join("locks")))
        .await
        .unwrap()
}

/// A row of about 20 KB.
async fn add_much(db: &Db, name: String) -> Result<(), Fault> {
    let much = "x".repeat(20_000);
    db.system_write("test", move |tx| {
        Box::pin(async move { tx.run(&ADD, (name, much)).await.map(|_| ()) })
    })
    .await
}

#[test]
fn a_full_disk_refuses_with_its_sentence_keeps_what_was_stored_and_takes_more_once_there_is_room() {
    with_mounts(
        "heavy::disk::a_full_disk_refuses_with_its_sentence_keeps_what_was_stored_and_takes_more_once_there_is_room",
        async |dir| {
            mount(&["-t", "tmpfs", "-o", "size=3m", "tmpfs"], &dir);
            std::fs::write(dir.join("ballast"), vec![0; 1 << 20]).unwrap();
            let db = open(&dir).await;
            let mut stored = 0_i64;
            let full = loop {
                match add_much(&db, format!("row-{stored}")).await {
                    Ok(()) => stored += 1,
                    Err(fault) => break fault,
                }
            };
            assert!(stored > 10, "{stored} rows fit");
            assert_eq!(*full.kind(), FaultKind::StorageFull, "{}", full.chain());
            // Small writes still fit into the room that the large one had begun to take. Once they do not, a probe says so.
            std::fs::write(dir.join("rest"), vec![0; 1 << 20]).unwrap_err();
            let mut small = 0;
            while add(&db, &format!("small-{small}")).await.is_ok() {
                small += 1;
            }
            let mut probed = db.probe().await;
            for _ in 0..3 {
                // A commit of one page may have fitted; an answer stands for a second.
                if probed.is_ok() {
                    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
                    probed = db.probe().await;
                }
            }
            let probed = probed.unwrap_err();
            assert_eq!(*probed.kind(), FaultKind::StorageFull, "{}", probed.chain());
            assert_eq!(
                full.sentence(),
                "muster's disk is full, so nothing was stored. Try again once its owner has made room."
            );

            // Many at once: none of them is half stored, and none takes another down with a worse word.
            let mut jobs = JoinSet::new();
            for n in 0..100 {
                let db = db.clone();
                jobs.spawn(async move { add_much(&db, format!("crowd-{n}")).await });
            }
            let mut crowd = 0_i64;
            while let Some(ended) = jobs.join_next().await {
                match ended.unwrap() {
                    Ok(()) => crowd += 1,
                    Err(fault) => assert_eq!(*fault.kind(), FaultKind::StorageFull, "{}", fault.chain()),
                }
            }
            assert!(crowd < 100, "the disk was not full");
            assert_eq!(
                count(&db, "row-").await.unwrap(),
                stored,
                "what was stored can be read"
            );
            assert_eq!(count(&db, "crowd-").await.unwrap(), crowd);
            assert_eq!(
                Raw::at(&url(&dir)).await.rows("PRAGMA integrity_check").await[0].text(),
                "ok"
            );

            for file in ["ballast", "rest"] {
                std::fs::remove_file(dir.join(file)).unwrap();
            }
            add_much(&db, "room-again".to_owned()).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
            db.probe().await.unwrap();
            assert_eq!(count(&db, "room-again").await.unwrap(), 1, "without a restart");
            db.close().await;
            let again = open(&dir).await;
            assert_eq!(count(&again, "row-").await.unwrap(), stored);
            assert_eq!(
                Raw::at(&url(&dir)).await.rows("PRAGMA integrity_check").await[0].text(),
                "ok"
            );
            again.close().await;
        },
    );
}

#[test]
fn a_write_larger_than_the_disk_takes_its_neighbours_down_with_the_true_reason() {
    with_mounts(
        "heavy::disk::a_write_larger_than_the_disk_takes_its_neighbours_down_with_the_true_reason",
        async |dir| {
            mount(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], &dir);
            let db = open(&dir).await;
            // Small pages are kept in memory only up to this, so a large write meets the full disk before its commit: SQLite then undoes the
            // whole transaction by itself.
            static SPILL: muster_store::Sql = system("test.spill", "PRAGMA cache_size = 50");
            db.system_write("test", |tx| Box::pin(async move { tx.run(&SPILL, ()).await }))
                .await
                .unwrap();
            let mut jobs = JoinSet::new();
            for n in 0..40 {
                let db = db.clone();
                jobs.spawn(async move {
                    if n % 8 == 3 {
                        let large: Result<(), Fault> = db
                            .system_write("test", move |tx| {
                                Box::pin(async move {
                                    for part in 0..400 {
                                        tx.run(&ADD, (format!("large-{n}-{part}"), "y".repeat(20_000)))
                                            .await?;
                                    }
                                    Ok(())
                                })
                            })
                            .await;
                        (n, large)
                    } else {
                        (n, add(&db, &format!("small-{n}")).await)
                    }
                });
            }
            let mut small = 0_i64;
            while let Some(ended) = jobs.join_next().await {
                match ended.unwrap() {
                    (n, Ok(())) => {
                        assert!(n % 8 != 3, "{n} cannot fit");
                        small += 1;
                    }
                    (_, Err(fault)) => assert_eq!(*fault.kind(), FaultKind::StorageFull, "{}", fault.chain()),
                }
            }
            assert_eq!(
                count(&db, "small-").await.unwrap(),
                small,
                "exactly those that answered Ok"
            );
            assert_eq!(count(&db, "large-").await.unwrap(), 0);
            assert_eq!(
                Raw::at(&url(&dir)).await.rows("PRAGMA integrity_check").await[0].text(),
                "ok"
            );
            add(&db, "afterwards").await.unwrap();
            db.close().await;
        },
    );
}

async fn refused(options: &Options) -> String {
    match Db::open(options).await {
        Ok(_) => panic!("{} was opened", options.url),
        Err(OpenError::Fault(fault)) => {
            let said = OpenError::Fault(fault);
            let OpenError::Fault(fault) = &said else {
                unreachable!()
            };
            format!("{:?} {said}", fault.kind())
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_folder_or_file_that_may_not_be_written_is_refused_with_its_name_and_left_as_it_is() {
    with_mounts(
        "heavy::disk::a_folder_or_file_that_may_not_be_written_is_refused_with_its_name_and_left_as_it_is",
        async |dir| {
            mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], &dir);
            let data = dir.join("data");
            let db = open(&data).await;
            add(&db, "kept").await.unwrap();
            db.close().await;
            let path = data.join("muster.db");
            let before = std::fs::read(&path).unwrap();
            let usual = Options::new(url(&data), data.join("locks"));
            let elsewhere = Options::new(url(&data), dir.join("locks"));

            // The file alone, as after a copy by another user.
            mount(&["--bind", path.to_str().unwrap()], &path);
            mount(&["-o", "remount,ro,bind"], &path);
            for options in [&usual, &elsewhere] {
                let said = refused(options).await;
                assert!(
                    said.starts_with("ReadOnly")
                        && said.contains("muster.db or its folder cannot be written; make both writable"),
                    "{said}"
                );
            }
            let said = Command::new("umount").arg(&path).output().unwrap();
            assert!(said.status.success());

            // The whole folder, as with a disk that the system has set to read-only.
            mount(&["--bind", data.to_str().unwrap()], &data);
            mount(&["-o", "remount,ro,bind"], &data);
            let said = refused(&usual).await;
            assert!(
                said.starts_with("ReadOnly")
                    && said
                        .contains("locks cannot be written; make it writable for the user that runs muster"),
                "{said}"
            );
            let said = refused(&elsewhere).await;
            assert!(
                said.starts_with("ReadOnly") && said.contains("muster.db or its folder cannot be written"),
                "{said}"
            );
            let said = refused(&Options::new(url(&data.join("deeper")), dir.join("locks"))).await;
            assert!(
                said.starts_with("ReadOnly") && said.contains("deeper cannot be written"),
                "{said}"
            );
            let said = refused(&Options::new(
                format!("sqlite://{}", data.join("new.db").display()),
                dir.join("locks"),
            ))
            .await;
            assert!(said.contains("new.db could not be opened or made; let the user that runs muster write to it and to its folder"), "{said}");
            let said = Command::new("umount").arg(&data).output().unwrap();
            assert!(said.status.success());

            assert!(std::fs::read(&path).unwrap() == before, "a byte differs");
            let db = open(&data).await;
            assert_eq!(count(&db, "kept").await.unwrap(), 1);
            // A lock file needs the folder too.
            mount(
                &["--bind", data.join("locks").to_str().unwrap()],
                &data.join("locks"),
            );
            mount(&["-o", "remount,ro,bind"], &data.join("locks"));
            let fault = db.locks().try_take("chief", 1).await.err().unwrap();
            assert_eq!(*fault.kind(), FaultKind::ReadOnly, "{}", fault.chain());
            db.close().await;
        },
    );
}

#[test]
fn a_start_on_a_full_disk_says_so_and_changes_nothing() {
    with_mounts(
        "heavy::disk::a_start_on_a_full_disk_says_so_and_changes_nothing",
        async |dir| {
            mount(&["-t", "tmpfs", "-o", "size=2m", "tmpfs"], &dir);
            let db = open(&dir).await;
            add(&db, "kept").await.unwrap();
            db.close().await;
            let fill = || {
                use std::io::Write as _;
                let mut ballast = std::fs::File::options()
                    .create(true)
                    .append(true)
                    .open(dir.join("ballast"))
                    .unwrap();
                while ballast.write_all(&[0; 4096]).is_ok() {}
            };
            fill();
            let before = std::fs::read(dir.join("muster.db")).unwrap();
            let said = refused(&Options::new(url(&dir), dir.join("locks"))).await;
            assert!(
                said.starts_with("StorageFull") && said.contains("is full; make room and start muster again"),
                "{said}"
            );
            assert!(
                std::fs::read(dir.join("muster.db")).unwrap() == before,
                "a byte differs"
            );
            fill();
            let said = refused(&Options::new(
                format!("sqlite://{}", dir.join("new.db").display()),
                dir.join("locks"),
            ))
            .await;
            assert!(
                said.starts_with("StorageFull") && said.contains("is full; make room and start muster again"),
                "{said}"
            );
            std::fs::remove_file(dir.join("ballast")).unwrap();
            let db = open(&dir).await;
            assert_eq!(count(&db, "kept").await.unwrap(), 1);
            db.close().await;
        },
    );
}
