//! What is waiting to be written to a stream: messages in their order, as many in one write as there are. Never holds more than its limit; a sender waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Most bytes that wait, in blocks.
const BLOCKS: usize = 32 * 1024;
/// Bytes in a block.
const BLOCK: usize = 1024;
/// Most bytes in one write.
const BATCH: usize = 256 * 1024;

/// A stream's queue. Cheap to share.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    room: Arc<Semaphore>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The other side does not read any more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed;

impl Outbox {
    /// A queue in front of `stream`, which is closed when the queue is closed and empty.
    pub(crate) fn new(mut stream: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        let room = Arc::new(Semaphore::new(BLOCKS));
        let free = room.clone();
        let writer = tokio::spawn(async move {
            while let Some(mut batch) = queue.recv().await {
                let mut blocks = size(&batch);
                while batch.len() < BATCH
                    && let Ok(more) = queue.try_recv()
                {
                    blocks += size(&more);
                    batch.extend_from_slice(&more);
                }
                let written = stream.write_all(&batch).await;
                if written.is_err() || stream.flush().await.is_err() {
                    break;
                }
                free.add_permits(blocks);
            }
            free.close();
            let _ = stream.shutdown().await;
        });
        Self {
            queue: Mutex::new(Some(sender)),
            room,
            writer: Mutex::new(Some(writer)),
        }
    }

    /// Queues a message; waits while too much is queued.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Result<(), Closed> {
        let blocks = u32::try_from(size(&bytes)).map_err(|_| Closed)?;
        let permit = self.room.acquire_many(blocks).await.map_err(|_| Closed)?;
        permit.forget();
        let sender = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sender.ok_or(Closed)?.send(bytes).map_err(|_| Closed)
    }

    /// Takes no more; what is queued is still written, then the stream is closed.
    pub(crate) fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Closes, and waits for what is queued to be written, no longer than `span`; what is not written then is lost, and the stream closed.
    pub(crate) async fn shut(&self, span: Duration) {
        self.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut writer) = writer
            && timeout(span, &mut writer).await.is_err()
        {
            writer.abort();
            let _ = writer.await;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // A writer that hangs in a full pipe must not keep the pipe open for ever.
        if let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.close();
            if self.room.available_permits() < BLOCKS {
                writer.abort();
            }
        }
    }
}

/// What a message takes of the room: never more than there is, so that one large message still goes.
fn size(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(BLOCK).clamp(1, BLOCKS)
}
