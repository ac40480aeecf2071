//! The streaming vocabulary of this crate: what a tool sends while it runs and what its caller
//! sees.
//!
//! Knows nothing of MCP, JSON-RPC or tasks.

mod content;
pub(crate) mod data_uri;
#[cfg(feature = "schemars")]
mod data_uri_schema;
mod envelope;
mod escape;
mod kind;
mod node;
mod quoted;
#[cfg(test)]
mod samples;
mod scan;
mod stream_event;
mod text_chunk;

pub use content::Content;
pub use data_uri::DataUri;
pub use envelope::{ContentRef, ENVELOPE_VERSION, EnvelopeRef, decode_envelope, encode_envelope};
pub use kind::{EventKind, OtherKind, TERMINAL_EVENT_TYPES};
pub use node::{IntoNode, Node};
pub use stream_event::{Progress, StreamEvent};
pub use text_chunk::TextChunk;

pub(crate) use envelope::{
    decode_shared, write_content_envelope, write_json_envelope, write_text_envelope,
};
pub(crate) use escape::{clean_len, escape_into, unescape, unescape_twice};
pub(crate) use quoted::{Quoted, QuotedContent, QuotedMessage};
pub(crate) use scan::Scanner;
pub(crate) use stream_event::describe;
