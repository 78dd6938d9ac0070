//! Takes a request's body, bounded in size and time, and reads it. Never keeps what it refused.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use muster_wire::read::ReadError;

/// The largest body that is read: 16 KiB of text spelled entirely in `\u0000` escapes, and room for the other fields.
const LIMIT: usize = 256 * 1024;
/// How much of a larger body is read and thrown away, so that its sender gets to see the refusal.
const DRAIN: usize = 16 * 1024 * 1024;
/// How long a body may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a body was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is larger than 256 KiB; nothing was stored")]
    TooLarge,
    #[error("the body did not arrive within 10 seconds; nothing was stored")]
    TooSlow,
    #[error("the body broke off before its end; nothing was stored")]
    BrokenOff,
    #[error("{0}")]
    Unread(#[from] ReadError),
}

/// Takes a body and reads it with `reader`.
pub(super) async fn read<T>(
    body: Body,
    reader: impl FnOnce(&[u8]) -> Result<T, ReadError>,
) -> Result<T, BodyError> {
    let bytes = tokio::time::timeout(PATIENCE, collect(body))
        .await
        .unwrap_or(Err(BodyError::TooSlow))?;
    Ok(reader(&bytes)?)
}

async fn collect(body: Body) -> Result<Vec<u8>, BodyError> {
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut seen = 0_usize;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| BodyError::BrokenOff)?;
        seen = seen.saturating_add(chunk.len());
        if seen <= LIMIT {
            bytes.extend_from_slice(&chunk);
        } else {
            bytes = Vec::new();
            if seen > DRAIN {
                break;
            }
        }
    }
    if seen > LIMIT {
        Err(BodyError::TooLarge)
    } else {
        Ok(bytes)
    }
}
