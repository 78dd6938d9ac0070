//! Threads that work on SQLite files: as many as there may be at once, and none that anybody waits for longer than its time. Never keeps the program from ending.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::InterruptHandle;
use tokio::sync::{Semaphore, oneshot};

use crate::answer::Rows;
use crate::error::Error;
use crate::limits::Limits;
use crate::stopping;

/// How many statements run at once. One that SQLite does not interrupt keeps its place until it ends.
const AT_ONCE: usize = 8;

static PLACES: Semaphore = Semaphore::const_new(AT_ONCE);

/// Tells a statement to stop.
#[derive(Default)]
pub(super) struct Stop {
    told: AtomicBool,
    handle: Mutex<Option<InterruptHandle>>,
}

impl Stop {
    /// What interrupts the statement, once its file is open.
    pub(super) fn holds(&self, handle: InterruptHandle) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    /// Whether nobody waits any more.
    pub(super) fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    fn tell(&self) {
        self.told.store(true, Ordering::Relaxed);
        if let Some(handle) = &*self.handle.lock().unwrap_or_else(PoisonError::into_inner) {
            handle.interrupt();
        }
    }
}

type Answer = Result<Rows, Error>;

/// Whoever waits for a thread. When nobody does any more it is told to stop, and the end of the program waits a little for that.
struct Waiting {
    stop: Arc<Stop>,
    answer: Option<oneshot::Receiver<Answer>>,
}

impl Waiting {
    async fn heard(&mut self) -> Answer {
        let heard = match &mut self.answer {
            Some(answer) => answer.await,
            None => return Err(ended()),
        };
        self.answer = None;
        heard.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.stop.tell();
            stopping::spawn(async move {
                let _ = answer.await;
            });
        }
    }
}

fn ended() -> Error {
    Error::Unreachable {
        why: "the thread that reads the file ended".to_owned(),
        away: false,
    }
}

/// Runs `work` on a thread of its own. It is told to stop after its time, and soon afterwards nobody waits for it any more: the answer then is
/// `unheard`.
pub(super) async fn run(
    limits: Limits,
    unheard: Error,
    work: impl FnOnce(&Arc<Stop>) -> Answer + Send + 'static,
) -> Answer {
    let place = match tokio::time::timeout(limits.time, PLACES.acquire()).await {
        Ok(Ok(place)) => place,
        Ok(Err(_)) => return Err(ended()),
        Err(_) => {
            return Err(Error::Unreachable {
                why: format!("{AT_ONCE} statements on SQLite files run already, and none has ended"),
                away: false,
            });
        }
    };
    let stop = Arc::new(Stop::default());
    let (tell, answer) = oneshot::channel();
    let mut waiting = Waiting {
        stop: Arc::clone(&stop),
        answer: Some(answer),
    };
    // No thread of the runtime's: its end waits for those.
    let begun = std::thread::Builder::new()
        .name("sqlite".to_owned())
        .spawn(move || {
            let _place = place;
            // Where nobody waits nobody hears it.
            let _ = tell.send(work(&stop));
        });
    if let Err(error) = begun {
        return Err(Error::Unreachable {
            why: format!("no thread could be started: {error}"),
            away: false,
        });
    }
    if let Ok(answer) = tokio::time::timeout(limits.time, waiting.heard()).await {
        return answer;
    }
    waiting.stop.tell();
    let rest = limits.hang_up().saturating_sub(limits.time);
    tokio::time::timeout(rest, waiting.heard())
        .await
        .unwrap_or(Err(unheard))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn limits(milliseconds: u64) -> Limits {
        Limits {
            time: Duration::from_millis(milliseconds),
            ..Limits::default()
        }
    }

    fn too_long() -> Error {
        Error::TimedOut {
            after: Duration::from_millis(50),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_does_not_stop_is_not_waited_for_and_keeps_its_place() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let begun = Instant::now();
        let all: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let wait = Arc::clone(&wait);
                tokio::spawn(run(limits(50), too_long(), move |_| {
                    let _ = wait.lock().unwrap().recv();
                    Ok(Rows::default())
                }))
            })
            .collect();
        for one in all {
            assert!(matches!(one.await.unwrap(), Err(Error::TimedOut { .. })));
        }
        let more = run(limits(50), too_long(), |_| Ok(Rows::default()))
            .await
            .unwrap_err();
        assert!(more.to_string().contains("run already"), "{more}");
        assert!(begun.elapsed() < Duration::from_secs(30));
        drop(end);
        assert!(
            run(limits(30_000), too_long(), |_| Ok(Rows::default()))
                .await
                .is_ok()
        );
        stopping::stopped(Duration::from_secs(30)).await;
    }

    #[test]
    fn the_end_of_the_program_waits_for_no_work() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let (ended, has_ended) = std::sync::mpsc::channel::<()>();
        let answer = runtime.block_on(run(limits(50), too_long(), move |_| {
            let _ = wait.recv();
            let _ = ended.send(());
            Ok(Rows::default())
        }));
        assert!(matches!(answer, Err(Error::TimedOut { .. })));
        drop(runtime);
        assert!(has_ended.try_recv().is_err(), "it was waited for");
        drop(end);
        has_ended.recv_timeout(Duration::from_secs(30)).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_hears_that_nobody_waits_any_more() {
        let (heard, hears) = std::sync::mpsc::channel();
        let work = move |stop: &Arc<Stop>| {
            while !stop.is_told() {
                std::thread::yield_now();
            }
            let _ = heard.send(());
            Ok(Rows::default())
        };
        let left = tokio::time::timeout(
            Duration::from_millis(20),
            run(limits(3_600_000), too_long(), work),
        )
        .await;
        assert!(left.is_err());
        hears.recv_timeout(Duration::from_secs(30)).unwrap();
    }
}
