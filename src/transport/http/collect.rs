//! Reads the body of a request into one piece, within bounds of size and patience.
//!
//! Must not know what the bytes mean.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep_until};

use super::clock::from_now;
use super::refusal::Refusal;
use crate::limits::Limits;

/// The whole body, at most `max_server_message_bytes` of it, with no pause longer than
/// `body_read_timeout` and not slower than `min_body_rate`.
///
/// A body that announces more is refused before a byte of it is read.
pub(crate) async fn collect<B>(mut body: Pin<&mut B>, limits: &Limits) -> Result<Bytes, Refusal>
where
    B: Body<Data: Buf>,
{
    let max = limits.max_server_message_bytes;
    let announced = body.size_hint().lower();
    if announced > max as u64 {
        return Err(Refusal::too_large(max));
    }
    let mut patience = Patience::new(limits);
    let mut whole = BytesMut::new();
    while let Some(frame) = next_frame(body.as_mut(), &mut patience, whole.len()).await? {
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
    patience: &mut Patience,
    received: usize,
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
            timer.set(Some(sleep_until(patience.next(received))));
        }
        if let Some(timer) = timer.as_mut().as_pin_mut() {
            ready!(timer.poll(cx));
        }
        Poll::Ready(Err(patience.lost()))
    })
    .await
}

/// How long a body is waited for.
struct Patience {
    pause: Duration,
    /// Bytes a second; none counts with 0.
    min_rate: usize,
    /// When it had to be waited for first.
    began: Option<Instant>,
    is_trickle: bool,
}

impl Patience {
    fn new(limits: &Limits) -> Self {
        Self {
            pause: limits.body_read_timeout,
            min_rate: limits.min_body_rate,
            began: None,
            is_trickle: false,
        }
    }

    /// Until when the next bytes have to come, after so many that were received. What a body has
    /// won by coming fast it may lose again.
    fn next(&mut self, received: usize) -> Instant {
        let began = *self.began.get_or_insert_with(|| from_now(Duration::ZERO));
        let pause = from_now(self.pause);
        let Some(ms) = (received as u64)
            .saturating_mul(1000)
            .checked_div(self.min_rate as u64)
        else {
            return pause;
        };
        let won = self.pause.saturating_add(Duration::from_millis(ms));
        let rate = began.checked_add(won);
        self.is_trickle = rate.is_some_and(|rate| rate < pause);
        rate.map_or(pause, |rate| rate.min(pause))
    }

    fn lost(&self) -> Refusal {
        match self.is_trickle {
            true => Refusal::trickled_body(self.min_rate),
            false => Refusal::slow_body(self.pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::Context;

    use http::StatusCode;
    use tokio::time::timeout;

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
        let limits = Limits::default();
        let collecting = collect(body, &limits);
        let outcome = timeout(Duration::from_secs(60), collecting).await;
        let refusal = outcome.unwrap().unwrap_err();
        let status = refusal.into_response().status();
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(start.elapsed().as_secs(), 30);
    }
}
