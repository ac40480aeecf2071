//! When a stream that ended too early is asked for again.
//!
//! Owns the waits, the number of attempts and the event to go on after; must not know how a stream
//! is asked for, nor what it carries.

use std::time::Duration;

use crate::limits::Limits;
use crate::wire::sse::Position;

/// One stream across all its connections.
#[derive(Debug, Default)]
pub(crate) struct Resumption {
    position: Position,
    /// Attempts since the last event that was new.
    attempts: usize,
}

/// A stream to be asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) wait: Duration,
    pub(crate) after: Box<str>,
}

impl Resumption {
    /// A connection of the stream ended, and this is how far it came. Only an event with another
    /// id shows that the stream goes on: a peer that opens it and says nothing would be asked for
    /// ever.
    pub(crate) fn handle_end(&mut self, seen: Position) {
        if seen.last_event_id.is_some() && seen.last_event_id != self.position.last_event_id {
            self.position.last_event_id = seen.last_event_id;
            self.attempts = 0;
        }
        if seen.retry.is_some() {
            self.position.retry = seen.retry;
        }
    }

    /// The next attempt; `None` if there were too many, or the peer gave no event to go on after.
    pub(crate) fn next_attempt(&mut self, limits: &Limits) -> Option<Attempt> {
        let after = self.after()?;
        if self.attempts >= limits.max_resume_attempts {
            return None;
        }
        let wait = self.next_wait(limits);
        Some(Attempt { wait, after })
    }

    /// Whether there would be an event to go on after, had it not been asked for often enough.
    pub(crate) fn is_spent(&self, limits: &Limits) -> bool {
        self.attempts >= limits.max_resume_attempts.max(1) && self.after().is_some()
    }

    /// The event to go on after, if there is one.
    pub(crate) fn after(&self) -> Option<Box<str>> {
        self.position.last_event_id.clone()
    }

    /// The wait before the next attempt, for a stream that may be asked for without end.
    pub(crate) fn next_wait(&mut self, limits: &Limits) -> Duration {
        let wait = backoff(self.position.retry, self.attempts, limits);
        self.attempts += 1;
        wait
    }

    /// Something showed that the stream is well.
    pub(crate) fn forgive(&mut self) {
        self.attempts = 0;
    }
}

/// Whether a status is one of a server that is overloaded, or being started anew, so that the same
/// request may succeed later.
pub(crate) fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// The wait after so many failures. The peer's own wish is never cut short.
fn backoff(retry: Option<Duration>, failures: usize, limits: &Limits) -> Duration {
    let first = retry.unwrap_or(limits.resume_delay);
    let doublings = u32::try_from(failures).unwrap_or(u32::MAX);
    let grown = first.saturating_mul(2_u32.saturating_pow(doublings));
    grown.min(limits.max_resume_delay.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str, retry: Option<u64>) -> Position {
        Position {
            last_event_id: Some(id).filter(|id| !id.is_empty()).map(Box::from),
            retry: retry.map(Duration::from_millis),
        }
    }

    // Covers R-1316.
    #[test]
    fn waits_grow_and_only_a_new_event_begins_them_anew() {
        // what each connection said, and then the wait in milliseconds and the event to go on
        // after
        type Step = ((&'static str, Option<u64>), Option<(u64, &'static str)>);
        let table: &[(&str, &[Step])] = &[
            ("no id", &[(("", Some(5)), None), (("", None), None)]),
            (
                "nothing new",
                &[
                    (("1", None), Some((1_000, "1"))),
                    (("", None), Some((2_000, "1"))),
                    (("1", None), Some((4_000, "1"))),
                    (("", None), Some((8_000, "1"))),
                    (("1", None), Some((16_000, "1"))),
                    (("", None), None),
                    (("", None), None),
                ],
            ),
            (
                "a new event",
                &[
                    (("1", None), Some((1_000, "1"))),
                    (("", None), Some((2_000, "1"))),
                    (("2", None), Some((1_000, "2"))),
                    (("3", None), Some((1_000, "3"))),
                ],
            ),
            (
                "the peer's wish",
                &[
                    (("1", Some(500)), Some((500, "1"))),
                    (("", None), Some((1_000, "1"))),
                    (("", Some(20_000)), Some((30_000, "1"))),
                    (("", Some(60_000)), Some((60_000, "1"))),
                    (("2", Some(0)), Some((0, "2"))),
                    (("", None), Some((0, "2"))),
                ],
            ),
        ];
        let limits = Limits::default();
        for (case, steps) in table {
            let mut resumption = Resumption::default();
            for (step, ((id, retry), expected)) in steps.iter().enumerate() {
                resumption.handle_end(seen(id, *retry));
                let attempt = resumption.next_attempt(&limits);
                let expected = expected.map(|(wait, after)| Attempt {
                    wait: Duration::from_millis(wait),
                    after: after.into(),
                });
                assert_eq!(attempt, expected, "{case}, connection {step}");
            }
        }
    }

    #[test]
    fn a_stream_may_be_asked_for_without_end() {
        let limits = Limits::default();
        let mut resumption = Resumption::default();
        let mut waits = |n| -> Vec<u64> {
            (0..n)
                .map(|_| resumption.next_wait(&limits).as_secs())
                .collect()
        };
        assert_eq!(waits(8), [1, 2, 4, 8, 16, 30, 30, 30]);
        resumption.forgive();
        assert_eq!(resumption.next_wait(&limits).as_secs(), 1);
        assert_eq!(resumption.after(), None);
        resumption.handle_end(seen("7", Some(3_000)));
        assert_eq!(resumption.after().as_deref(), Some("7"));
        assert_eq!(resumption.next_wait(&limits).as_secs(), 3);
    }

    #[test]
    fn an_attempt_that_reaches_nobody_counts() {
        let mut resumption = Resumption::default();
        resumption.handle_end(seen("1", None));
        let limits = Limits::default();
        let waits = std::iter::from_fn(|| resumption.next_attempt(&limits));
        let seconds: Vec<_> = waits.map(|attempt| attempt.wait.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16]);
    }

    #[test]
    fn odd_limits_do_no_harm() {
        let second = Some(Duration::from_secs(1));
        let limits = Limits::default();
        assert_eq!(backoff(second, usize::MAX, &limits).as_secs(), 30);
        let none = Limits {
            max_resume_delay: Duration::ZERO,
            resume_delay: Duration::MAX,
            ..limits
        };
        assert_eq!(backoff(None, 9, &none), Duration::MAX);
        assert_eq!(backoff(second, 9, &none).as_secs(), 1);
    }
}
