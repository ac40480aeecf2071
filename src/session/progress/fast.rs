//! A progress notification taken apart in one scan of its bytes, or in less.
//!
//! Owns what is remembered of a stream from one event to the next; must not know what anything
//! unusual means: that is for the general path, which gives the same for all that is read here.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;

use super::decode::number;
use crate::event::{
    Content, EventKind, Node, Quoted, QuotedContent, QuotedMessage, Scanner, StreamEvent,
    clean_len, unescape_twice,
};

/// Decodes the progress notifications of one stream.
#[derive(Debug)]
pub(crate) struct ProgressDecoder {
    max_depth: usize,
    template: Option<Template>,
}

impl ProgressDecoder {
    /// A decoder of messages that nest at most `max_depth` deep.
    pub(crate) fn new(max_depth: usize) -> Self {
        Self {
            max_depth,
            template: None,
        }
    }

    /// The number that a notification has as its token, and what the caller sees. What is no such
    /// notification, or an unusual one, is given back.
    pub(crate) fn decode(&mut self, message: Bytes) -> Result<(i64, StreamEvent), Bytes> {
        let Self {
            max_depth,
            template,
        } = self;
        if let Some(found) = template.as_ref().and_then(|kept| kept.find(&message)) {
            return Ok(found.event(message));
        }
        let Ok(text) = ByteString::try_from(message.clone()) else {
            return Err(message);
        };
        let Some(notification) = Notification::scan(&text, *max_depth) else {
            return Err(message);
        };
        // Its vector is used again.
        let old = template.take();
        *template = Template::of(&notification, &text, old);
        Ok(notification.event(&text))
    }

    #[cfg(test)]
    pub(super) fn remembers(&self) -> usize {
        self.template.as_ref().map_or(0, |kept| kept.fixed.len())
    }
}

/// A progress notification with a message, as slices of its text.
#[derive(Debug)]
struct Notification<'a> {
    token: i64,
    progress: Option<&'a str>,
    numbers: (f64, Option<f64>),
    /// The inside of the message's quotes.
    message: &'a str,
    quoted: Quoted<'a>,
}

impl<'a> Notification<'a> {
    fn scan(text: &'a str, max_depth: usize) -> Option<Self> {
        let mut scan = Scanner::new(text, max_depth);
        let (mut version, mut method, mut params) = (None, None, None);
        scan.object(|scan, key| match key {
            "jsonrpc" => once(&mut version, scan.value()?),
            "method" => once(&mut method, scan.text()?),
            "params" => once(&mut params, Params::scan(scan)?),
            "id" | "result" | "error" => None,
            _ => unknown(scan, key),
        })?;
        scan.end()?;
        if version? != "\"2.0\"" || method? != "notifications/progress" {
            return None;
        }
        let params = params?;
        let (message, quoted) = params.message?;
        let progress = params.progress;
        Some(Self {
            token: token(params.token?)?,
            progress,
            numbers: (
                progress.and_then(number).unwrap_or_default(),
                params.total.and_then(number),
            ),
            message,
            quoted,
        })
    }

    fn event(&self, text: &ByteString) -> (i64, StreamEvent) {
        let (kind, content, node) = self.quoted.decode(text);
        let message = Some(text.slice_ref(self.message).into());
        let event = StreamEvent::notified(kind, content, node, self.numbers, message);
        (self.token, event)
    }
}

/// Raw, but for the message.
#[derive(Default)]
struct Params<'a> {
    token: Option<&'a str>,
    progress: Option<&'a str>,
    total: Option<&'a str>,
    message: Option<(&'a str, Quoted<'a>)>,
}

impl<'a> Params<'a> {
    fn scan(scan: &mut Scanner<'a, false>) -> Option<Self> {
        let mut params = Self::default();
        scan.object(|scan, key| match key {
            "progressToken" => once(&mut params.token, scan.value()?),
            "progress" => once(&mut params.progress, scan.value()?),
            "total" => once(&mut params.total, scan.value()?),
            "message" => once(&mut params.message, Quoted::read(scan)?),
            _ => unknown(scan, key),
        })?;
        Some(params)
    }
}

/// A member that is given twice is for the general path to judge.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.replace(value).is_none().then_some(())
}

/// Skips a member, unless it could be one that we know, spelled with escapes.
fn unknown(scan: &mut Scanner<'_, false>, key: &str) -> Option<()> {
    if key.contains('\\') {
        return None;
    }
    scan.value().map(|_| ())
}

/// A token that is a number, also where a peer has turned it into a string.
fn token(raw: &str) -> Option<i64> {
    /// All that is needed for a number.
    const MAX_BYTES: usize = 24;
    let inner = raw
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let digits = inner.unwrap_or(raw);
    (digits.len() <= MAX_BYTES).then(|| digits.parse().ok())?
}

/// What the events of a stream have in common: everything but the progress number and the content.
///
/// Places are in `fixed`, unless they are said to be elsewhere.
#[derive(Debug)]
struct Template {
    /// What stands before the number, between it and the content, and after that.
    fixed: Vec<u8>,
    number: usize,
    content: usize,
    token: i64,
    total: Option<f64>,
    message: Range<usize>,
    kind: Result<EventKind, Range<usize>>,
    node: Option<Range<usize>>,
}

/// A notification with more than that beside its content is taken apart anew each time.
const MAX_FIXED_BYTES: usize = 4 * 1024;

impl Template {
    /// `None` for a notification that is not of the usual form: the number, then an envelope with a
    /// text, and no escapes beside that.
    fn of(notification: &Notification<'_>, text: &str, old: Option<Self>) -> Option<Self> {
        let Quoted::Envelope {
            kind,
            node,
            content: QuotedContent::Text(content),
        } = notification.quoted
        else {
            return None;
        };
        if kind.contains('\\') || node.is_some_and(|node| node.contains('\\')) {
            return None;
        }
        let place = |part: &str| {
            let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
            Some(start..start + part.len())
        };
        let number = place(notification.progress?)?;
        let content = place(content)?;
        let between = text.get(number.end..content.start)?;
        let fixed_len = text.len() - number.len() - content.len();
        if fixed_len > MAX_FIXED_BYTES
            || plain_number(text.as_bytes().get(number.clone())?)?.1 != number.len()
        {
            return None;
        }
        let mut fixed = old.map(|old| old.fixed).unwrap_or_default();
        fixed.clear();
        fixed.extend_from_slice(text.get(..number.start)?.as_bytes());
        fixed.extend_from_slice(between.as_bytes());
        fixed.extend_from_slice(text.get(content.end..)?.as_bytes());
        let moved = |at: usize| match at {
            at if at >= content.end => Some(at - number.len() - content.len()),
            at if at >= number.end => Some(at - number.len()),
            _ => None,
        };
        let moved = |part: &str| {
            let place = place(part)?;
            Some(moved(place.start)?..moved(place.end)?)
        };
        Some(Self {
            number: number.start,
            content: content.start - number.len(),
            fixed,
            token: notification.token,
            total: notification.numbers.1,
            message: moved(notification.message)?,
            kind: match EventKind::known(kind) {
                Some(known) => Ok(known),
                None => Err(moved(kind)?),
            },
            node: match node {
                Some(node) => Some(moved(node)?),
                None => None,
            },
        })
    }

    /// The next event, if it is like the one before.
    fn find(&self, message: &Bytes) -> Option<Found<'_>> {
        let (before, rest) = self.fixed.split_at_checked(self.number)?;
        let (between, after) = rest.split_at_checked(self.content - self.number)?;
        let (number, digits) = plain_number(message.strip_prefix(before)?)?;
        let start = self.content + digits;
        if message.get(self.number + digits..start)? != between {
            return None;
        }
        let rest = message.get(start..)?;
        let clean = clean_len(rest);
        let len = if rest.get(clean..)? == after {
            clean
        } else {
            // It has escapes, or it is another event.
            let content = Scanner::<true>::new(str::from_utf8(rest).ok()?, 0).string()?;
            if rest.get(content.len()..)? != after {
                return None;
            }
            content.len()
        };
        let inner = ByteString::try_from(message.slice(start..start + len)).ok()?;
        let content = match unescape_twice(&inner) {
            Cow::Borrowed(_) => inner,
            Cow::Owned(text) => text.into(),
        };
        Some(Found {
            template: self,
            number,
            content: Content::text(content),
            moved: [digits, digits + len],
        })
    }
}

/// The next event of a stream.
struct Found<'a> {
    template: &'a Template,
    number: f64,
    content: Content,
    /// How far from where it is in the template all that stands before the content has moved, and
    /// all that stands after it.
    moved: [usize; 2],
}

impl Found<'_> {
    fn event(self, message: Bytes) -> (i64, StreamEvent) {
        let template = self.template;
        // Names of the template, which are text.
        let name =
            |place| ByteString::try_from(message.slice(self.place(place))).unwrap_or_default();
        let kind = match &template.kind {
            Ok(known) => known.clone(),
            Err(place) => EventKind::from_shared_type(name(place)),
        };
        let node = template
            .node
            .as_ref()
            .map(|place| Node::from_shared(name(place)));
        let place = self.place(&template.message);
        let message = Some(QuotedMessage::new(message, place));
        let numbers = (self.number, template.total);
        let event = StreamEvent::notified(kind, self.content, node, numbers, message);
        (template.token, event)
    }

    fn place(&self, place: &Range<usize>) -> Range<usize> {
        let [before, after] = self.moved;
        let moved = |at| match at > self.template.content {
            true => at + after,
            false => at + before,
        };
        moved(place.start)..moved(place.end)
    }
}

/// A number of digits only, and how many there are.
fn plain_number(bytes: &[u8]) -> Option<(f64, usize)> {
    /// As many as are exact.
    const MAX_DIGITS: usize = 15;
    let mut number = 0_u64;
    let mut digits = 0;
    for byte in bytes.iter().take(MAX_DIGITS + 1) {
        if !byte.is_ascii_digit() {
            break;
        }
        number = number * 10 + u64::from(byte - b'0');
        digits += 1;
    }
    let leading_zero = digits > 1 && bytes.first() == Some(&b'0');
    let usual = (1..=MAX_DIGITS).contains(&digits) && !leading_zero;
    usual.then_some((number as f64, digits))
}
