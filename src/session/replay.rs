//! What was sent on the streams of a session, for a client that comes back.
//!
//! Owns the ids of events, what is kept and for how long, and whether the rest of a stream is
//! whole; must not know who reads a stream or what its bytes mean.

use std::collections::{HashMap, VecDeque};
use std::fmt;

/// Which event of which stream: `s3-7` is the seventh of stream 3. The number 0 stands for the
/// beginning, before the first event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) number: u64,
}

impl EventId {
    /// Reads an id in the one spelling that is given out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.strip_prefix('s')?.split_once('-')?;
        let id = Self {
            stream: stream.parse().ok()?,
            number: number.parse().ok()?,
        };
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}-{}", self.stream, self.number)
    }
}

/// The newest events of all streams of a session. When it is full the oldest ones go, whichever
/// stream they are of. `R` leads to whoever reads a stream.
#[derive(Debug)]
pub(crate) struct Ring<R> {
    max_events: usize,
    max_bytes: usize,
    bytes: usize,
    /// Oldest first.
    events: VecDeque<Kept>,
    streams: HashMap<u64, Track<R>>,
}

#[derive(Debug)]
struct Kept {
    id: EventId,
    frame: Box<[u8]>,
}

/// A stream that can be gone on with. One that has ended is here only as long as something of it
/// is kept, so there are never more of them than events.
#[derive(Debug)]
struct Track<R> {
    reader: R,
    /// The number of its newest event.
    last: u64,
    /// The number of the newest event that is not kept any more.
    lost: u64,
    ended: bool,
}

impl<R> Ring<R> {
    pub(crate) fn new(max_events: usize, max_bytes: usize) -> Self {
        Self {
            max_events,
            max_bytes,
            bytes: 0,
            events: VecDeque::new(),
            streams: HashMap::new(),
        }
    }

    /// A stream begins.
    pub(crate) fn begin(&mut self, stream: u64, reader: R) {
        let track = Track {
            reader,
            last: 0,
            lost: 0,
            ended: false,
        };
        self.streams.insert(stream, track);
    }

    /// Keeps the next event of a stream, as it stands on the wire.
    pub(crate) fn record(&mut self, id: EventId, frame: &[u8]) {
        let Some(track) = self.streams.get_mut(&id.stream) else {
            return;
        };
        track.last = id.number;
        if self.max_events == 0 || frame.len() > self.max_bytes {
            track.lost = id.number;
            return;
        }
        while self.events.len() >= self.max_events || self.bytes + frame.len() > self.max_bytes {
            self.lose_oldest();
        }
        self.bytes += frame.len();
        let frame = frame.into();
        self.events.push_back(Kept { id, frame });
    }

    fn lose_oldest(&mut self) {
        let Some(Kept { id, frame }) = self.events.pop_front() else {
            return;
        };
        self.bytes -= frame.len();
        if let Some(track) = self.streams.get_mut(&id.stream) {
            track.lost = track.lost.max(id.number);
            self.drop_if_over(id.stream);
        }
    }

    /// A stream has its last event.
    pub(crate) fn finish(&mut self, stream: u64) {
        if let Some(track) = self.streams.get_mut(&stream) {
            track.ended = true;
            self.drop_if_over(stream);
        }
    }

    fn drop_if_over(&mut self, stream: u64) {
        let is_over = |track: &Track<R>| track.ended && track.lost == track.last;
        if self.streams.get(&stream).is_some_and(is_over) {
            self.streams.remove(&stream);
        }
    }

    /// Nobody comes back to a stream.
    pub(crate) fn forget(&mut self, stream: u64) {
        if self.streams.remove(&stream).is_some() {
            let bytes = &mut self.bytes;
            self.events.retain(|kept| {
                let stays = kept.id.stream != stream;
                if !stays {
                    *bytes -= kept.frame.len();
                }
                stays
            });
        }
    }

    /// Nobody comes back at all.
    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.events = VecDeque::new();
        self.streams = HashMap::new();
    }

    /// Who reads a stream that can be gone on with.
    pub(crate) fn reader(&self, stream: u64) -> Option<&R> {
        self.streams.get(&stream).map(|track| &track.reader)
    }

    /// All events of a stream so far that follow this one; `None` if they are not known to be all.
    pub(crate) fn rest(&self, after: EventId) -> Option<Vec<u8>> {
        let track = self.streams.get(&after.stream)?;
        if !(track.lost..=track.last).contains(&after.number) {
            return None;
        }
        let follows = |id: EventId| id.stream == after.stream && id.number > after.number;
        let frames = self.events.iter().filter(|kept| follows(kept.id));
        let frames: Vec<&[u8]> = frames.map(|kept| &*kept.frame).collect();
        Some(frames.concat())
    }
}

#[cfg(test)]
mod tests;
