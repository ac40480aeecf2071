//! Reads the body of a request into one piece, within bounds of size and patience.
//!
//! Must not know what the bytes mean.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Sleep, sleep};

use super::refusal::Refusal;

/// The whole body, at most `max` bytes of it, with no pause longer than `patience`.
///
/// A body that announces more is refused before a byte of it is read.
pub(crate) async fn collect<B>(
    mut body: Pin<&mut B>,
    max: usize,
    patience: Duration,
) -> Result<Bytes, Refusal>
where
    B: Body<Data: Buf>,
{
    let announced = body.size_hint().lower();
    if announced > max as u64 {
        return Err(Refusal::too_large(max));
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = next_frame(body.as_mut(), patience).await? {
        // Trailers say nothing that we would want to know.
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        let count = data.remaining();
        if count > max - whole.len() {
            return Err(Refusal::too_large(max));
        }
        if body.is_end_stream() && whole.is_empty() {
            // The usual case, and no copy when it is `Bytes` already.
            return Ok(data.copy_to_bytes(count));
        }
        if whole.is_empty() {
            // Enough for most bodies; not so much that a mere announcement could cost memory.
            const MAX_RESERVED_BYTES: u64 = 256 * 1024;
            whole.reserve(announced.min(MAX_RESERVED_BYTES) as usize);
        }
        whole.put(data);
    }
    Ok(whole.freeze())
}

async fn next_frame<B>(
    mut body: Pin<&mut B>,
    patience: Duration,
) -> Result<Option<Frame<B::Data>>, Refusal>
where
    B: Body,
{
    if body.is_end_stream() {
        return Ok(None);
    }
    let mut timer = pin!(None::<Sleep>);
    let mut is_awaited = false;
    poll_fn(|cx| {
        if let Poll::Ready(frame) = body.as_mut().poll_frame(cx) {
            let frame = frame.transpose();
            return Poll::Ready(frame.map_err(|_| Refusal::broken_body()));
        }
        if !is_awaited {
            // hyper reads a body only after it was asked for once, and most bodies are there by
            // then. To be woken once more is free in that case, to set a timer is not.
            is_awaited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if timer.is_none() {
            timer.set(Some(sleep(patience)));
        }
        if let Some(timer) = timer.as_mut().as_pin_mut() {
            ready!(timer.poll(cx));
        }
        Poll::Ready(Err(Refusal::slow_body(patience)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Context;

    use http::StatusCode;
    use tokio::time::timeout;

    use super::super::clock::from_now;
    use super::*;

    /// Neither gives anything nor wakes anybody.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_any_server_is_given_up_in_time() {
        let start = from_now(Duration::ZERO);
        let body = pin!(Silent);
        let collecting = collect(body, 10, Duration::from_secs(30));
        let outcome = timeout(Duration::from_secs(60), collecting).await;
        let refusal = outcome.unwrap().unwrap_err();
        let status = refusal.into_response().status();
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(start.elapsed().as_secs(), 30);
    }
}
