//! Stealing, step by step, where the order of two processes has to be set. Never waits longer than a stale lock needs.

use super::*;
use crate::limits::Limits;
use muster_core::Clock;

fn shared() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let open = || Home::open(dir.path(), Limits::default(), Clock::system()).unwrap();
    open().choose(Mode::Shared).unwrap();
    let home = open();
    (dir, home)
}

fn fs_lock(home: &Home) -> File {
    kernel(home, "room.jsonl").unwrap()
}

fn orphan(home: &Home) -> PathBuf {
    let path = home.path("room.jsonl.lock");
    fs::create_dir(&path).unwrap();
    let long_ago = fs::metadata(&path).unwrap().modified().unwrap() - Duration::from_secs(6);
    File::open(&path).unwrap().set_modified(long_ago).unwrap();
    path
}

// spec: STO-028
#[test]
fn a_stolen_lock_is_not_entered_before_another_thief_of_the_same_has_come_and_gone() {
    let (_dir, home) = shared();
    let path = orphan(&home);
    let (seen_stale, orphaned) = (stale(&path), made(&fs::metadata(&path).unwrap()));
    let begin = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let thief = scope.spawn(|| {
            begin.wait();
            // It saw the orphan too, and acts on it once the other has taken it away, without another look.
            let begun = Instant::now();
            while fs::metadata(&path).map_or(true, |now| made(&now) == orphaned) {
                assert!(begun.elapsed() < Duration::from_secs(20), "nobody stole it");
                std::thread::yield_now();
            }
            fs::remove_dir(&path).unwrap();
            fs::create_dir(&path).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            fs::remove_dir(&path).unwrap();
        });
        begin.wait();
        let begun = Instant::now();
        let lock = Directory::take(&home, "room.jsonl", &fs_lock(&home)).unwrap();
        assert!(
            seen_stale && thief.is_finished(),
            "entered after {:?}, beside the thief",
            begun.elapsed()
        );
        assert!(lock.stands());
    });
    assert!(!path.exists(), "given back");
}

#[test]
fn a_lock_that_came_alive_between_the_look_and_the_move_is_given_back() {
    let (_dir, home) = shared();
    let path = home.path("room.jsonl.lock");
    fs::create_dir(&path).unwrap();
    let before = made(&fs::metadata(&path).unwrap());
    steal(&home, &path);
    assert_eq!(made(&fs::metadata(&path).unwrap()), before);
    let left: Vec<_> = fs::read_dir(home.private("locks"))
        .unwrap()
        .filter_map(Result::ok)
        .collect();
    assert!(
        left.iter()
            .all(|entry| !entry.file_name().to_string_lossy().starts_with("stolen"))
    );
}

#[test]
fn a_lock_that_another_took_over_is_neither_renewed_nor_removed_under_its_new_holder() {
    let (_dir, home) = shared();
    // Again and again: the file system gives the new one the number of the old one, sometimes or always.
    for _ in 0..50 {
        let lock = Directory::take(&home, "room.jsonl", &fs_lock(&home)).unwrap();
        lock.renew().unwrap();
        fs::remove_dir(&lock.path).unwrap();
        assert!(matches!(lock.renew(), Err(BusError::Held { .. })), "it is gone");
        fs::create_dir(&lock.path).unwrap();
        assert!(
            matches!(lock.renew(), Err(BusError::Held { .. })),
            "it is another's"
        );
        let path = lock.path.clone();
        drop(lock);
        fs::remove_dir(path).unwrap();
    }
}

#[test]
fn a_time_far_ahead_is_as_stale_as_one_long_ago_and_a_second_ahead_is_not() {
    let (_dir, home) = shared();
    let path = orphan(&home);
    let now = fs::metadata(home.path("config.json"))
        .unwrap()
        .modified()
        .unwrap();
    for (ahead, is_stale) in [(0, false), (1, false), (5, false), (60, true), (3_600, true)] {
        File::open(&path)
            .unwrap()
            .set_modified(now + Duration::from_secs(ahead))
            .unwrap();
        assert_eq!(stale(&path), is_stale, "{ahead} seconds ahead");
    }
}

/// Leaves what a holder leaves that was killed: the directory stands, the kernel has given its lock back.
fn killed(home: &Home) -> PathBuf {
    let held = lock(home, "room.jsonl").unwrap();
    let path = home.path("room.jsonl.lock");
    assert!(path.is_dir());
    let Held { foreign, _file } = held;
    std::mem::forget(foreign);
    path
}

// spec: STO-028
#[test]
fn what_a_holder_of_ours_left_that_died_is_taken_over_at_once() {
    let (_dir, home) = shared();
    let path = killed(&home);
    let before = made(&fs::metadata(&path).unwrap());
    let begun = Instant::now();
    let held = lock(&home, "room.jsonl").unwrap();
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_ne!(
        made(&fs::metadata(&path).unwrap()),
        before,
        "it is one of its own"
    );
    drop(held);
    assert!(!path.exists());
}

// spec: STO-028
#[test]
fn a_lock_of_another_program_is_waited_for_though_one_of_ours_died_at_that_place_before() {
    let (_dir, home) = shared();
    // Again and again: the next directory often gets the number of the last.
    for _ in 0..20 {
        let path = killed(&home);
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let theirs = made(&fs::metadata(&path).unwrap());
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| lock(&home, "room.jsonl").map(drop));
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(made(&fs::metadata(&path).unwrap()), theirs, "it still holds it");
            fs::remove_dir(&path).unwrap();
            taker.join().unwrap().unwrap();
        });
    }
}

fn native() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(dir.path(), Limits::default(), Clock::system()).unwrap();
    (dir, home)
}

#[test]
fn a_lock_file_that_is_taken_away_never_lets_two_in() {
    let (_dir, home) = native();
    let inside = std::sync::atomic::AtomicUsize::new(0);
    let over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        let swept = scope.spawn(|| {
            let mut swept = 0;
            while !over.load(order) {
                swept += usize::from(discard(&home, "inbox/x.jsonl", || Ok(true)).unwrap());
            }
            swept
        });
        let takers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let _held = lock(&home, "inbox/x.jsonl").unwrap();
                        assert_eq!(inside.fetch_add(1, order), 0, "two are in");
                        std::thread::yield_now();
                        inside.fetch_sub(1, order);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = takers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        over.store(true, order);
        assert!(ended.into_iter().all(|taker| taker.is_ok()), "two were in");
        assert!(swept.join().unwrap() > 10, "it was taken away under them");
    });
}

#[test]
fn a_lock_that_is_held_or_belongs_to_something_is_not_taken_away() {
    let (_dir, home) = native();
    let path = lock_file(&home, "inbox/x.jsonl");
    let held = lock(&home, "inbox/x.jsonl").unwrap();
    assert!(!discard(&home, "inbox/x.jsonl", || Ok(true)).unwrap());
    drop(held);
    assert!(!discard(&home, "inbox/x.jsonl", || Ok(false)).unwrap());
    assert!(path.exists());
    assert!(discard(&home, "inbox/x.jsonl", || Ok(true)).unwrap());
    assert!(!path.exists());
    assert!(
        !discard(&home, "inbox/x.jsonl", || Ok(true)).unwrap(),
        "there is none"
    );
}
