//! Deadlines for the parts of this transport that wait.
//!
//! Reads the clock, so that nobody else has to; must not know what is waited for.

use std::time::Duration;

use tokio::time::Instant;

/// The moment `wait` from now; a wait beyond what the clock can count ends in thirty years.
#[expect(clippy::disallowed_methods, reason = "transports read the clock")]
pub(crate) fn from_now(wait: Duration) -> Instant {
    const THIRTY_YEARS: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(wait).unwrap_or_else(|| now + THIRTY_YEARS)
}
