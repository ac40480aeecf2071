//! Every bound of the crate that somebody may want to change, in one place.
//!
//! Owns names, units and defaults; must not know who keeps them. What a field would help nobody with is a
//! constant beside its use: how much of a text is quoted or of an id is read, how many turns of a loop
//! are one turn of a task, how long a refused client may read why. What the caller alone can fill (its calls,
//! servers and observers) has no bound.

use std::time::Duration;

/// The bounds that a hub, a server or a model keeps: each buffer, queue, table and wait has one here.
///
/// Start from [`Limits::default`] and change what has to differ:
///
/// ```
/// let mut limits = agent_hub_kit::Limits::default();
/// limits.max_sessions = 100;
/// ```
///
/// Hitting a bound is [`Error::Limit`](crate::Error::Limit) with the name of the field, or
/// [`Error::Timeout`](crate::Error::Timeout) for a wait; a server's answer names it as well.
///
/// A bound of 0 allows nothing and a wait of zero is over at once, but what could then never go on takes one:
/// an event at a time for an outbox or an observer, a comment a millisecond. `usize::MAX` and
/// `Duration::MAX` bound nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    // Both sides.
    /// How deep JSON may nest, arguments and content that is kept raw included. Default 128, as
    /// serde_json's own bound. Costs a scan of every message.
    pub max_json_depth: usize,

    // Client.
    /// Opening a connection as a whole: name lookup, TCP, handshake, first tool list.
    /// Default 30 s.
    pub connect_timeout: Duration,
    /// The TCP part of it, and TLS where there is some, so that a black hole is known before the
    /// whole time is gone. Default 10 s.
    pub tcp_connect_timeout: Duration,
    /// The longest that a client waits for a server to say that it speaks a stateless revision;
    /// after that it opens with a handshake. Never more than half of the connect timeout. Default
    /// 5 s: some servers of the handshake era leave the question unanswered.
    pub discover_timeout: Duration,
    /// Servers of which a hub remembers what they speak, so that connecting them again does not ask
    /// again. Default 1,000; the one found out first makes room.
    pub max_known_servers: usize,
    /// Listing the tools of one server, all pages. Default 60 s.
    pub list_timeout: Duration,
    /// One message that the client takes: an HTTP body, an SSE event or a line; over stdio also what
    /// waits for the child to take it. Default 64 MiB, since
    /// results carry images and meshes.
    pub max_client_message_bytes: usize,
    /// Pages of one server's tool list. Default 1,000.
    pub max_tool_pages: usize,
    /// Tools of one server. Default 10,000.
    pub max_tools: usize,
    /// All pages of one server's tool list together. Default 64 MiB: the schemas of as many tools
    /// as may be, 6 KiB each.
    pub max_list_bytes: usize,
    /// The headers that repeat arguments of one call, names and values together. A call with longer
    /// ones fails before it is sent. Default 16 KiB: the smallest of the bounds that common servers
    /// have for all headers of a request.
    pub max_param_header_bytes: usize,
    /// Events of one call that wait to be read: over stdio all of them, over HTTP those that arrived
    /// on another call's stream. Default 4,096 events.
    pub max_queued_events: usize,
    /// The same in bytes. Default 4 MiB.
    pub max_queued_bytes: usize,
    /// How long a [header provider](crate::ConnectHttp::header_provider) may take for the headers of
    /// one request. Default 10 s, which is within what a server waits for most clients.
    pub header_provider_timeout: Duration,
    /// Redirects to the same origin that one request follows. Default 5.
    pub max_redirects: usize,
    /// Idle HTTP connections kept for one server. Default 16.
    pub max_idle_connections: usize,
    /// How long an unused HTTP connection is kept. Default 60 s, below the 75 s after which
    /// common servers hang up.
    pub pool_idle_timeout: Duration,
    /// How long a cancelled call's stream stays open for the cancel to be delivered. Default 1 s.
    pub cancel_timeout: Duration,
    /// How often in a row a reply that ended too early is asked for again without anything new in
    /// it. Default 5. Only a server whose events have ids can be asked.
    pub max_resume_attempts: usize,
    /// The wait before the first such attempt, if the server names none. Each further one waits
    /// twice as long. Default 1 s.
    pub resume_delay: Duration,
    /// The longest that such a wait grows. Default 30 s; a server may ask for more, up to 5 min.
    /// Also the longest pause between two lists of a server whose tools change at each look; the
    /// first ones are 250 ms.
    pub max_resume_delay: Duration,
    /// How long a full queue of a call over stdio may stay unread. Meanwhile nothing more is read
    /// from that child, then the call ends. Default 5 s.
    pub stalled_queue_timeout: Duration,
    /// How often a child process is started in a row without an answer to a call or a list. Then its
    /// connection stays down until it is made anew. Default 5.
    pub max_child_starts: usize,
    /// How long a child process may take for each stage of its end: after its stdin was closed, and
    /// after SIGTERM. Then it is killed. Default 2 s.
    pub child_stop_timeout: Duration,
    /// How long the goodbye to a server may take when a hub closes. Default 2 s.
    pub close_timeout: Duration,
    /// Cancels, answers to the server's requests and other small messages of one connection that
    /// wait to be sent. Default 1,024; the oldest is dropped, since each is best effort.
    pub max_queued_messages: usize,

    /// Events that wait for an observer given with
    /// [`on_event_async`](crate::AgentHubClientBuilder::on_event_async). Default 1,024; the oldest
    /// is dropped and counted.
    pub max_queued_hub_events: usize,
    /// The same in bytes. Default 16 MiB, a few images; an event alone may always wait.
    pub max_queued_hub_bytes: usize,

    // Server.
    /// One message that the server takes: an HTTP body or a line. Default 16 MiB, since images travel as
    /// arguments.
    pub max_server_message_bytes: usize,
    /// One event that a tool sends. Default 64 MiB, what our own client takes.
    pub max_event_bytes: usize,
    /// Bytes of one call that wait for its reader before the tool's next event waits too.
    /// Default 64 KiB: beyond it throughput no longer grows.
    pub max_outbox_bytes: usize,
    /// The decision between a JSON and a streamed answer: with nothing sent for so long, the
    /// stream's head goes out. Default 100 ms.
    pub answer_window: Duration,
    /// Time between keep-alive comments on a stream that has nothing to say. Default 15 s, well
    /// below the 60 s after which proxies cut a stream.
    pub keep_alive_interval: Duration,
    /// Sessions of handshake-era HTTP clients. Default 10,000; the oldest idle one makes room.
    pub max_sessions: usize,
    /// How long a session lives without a request or a running call. Default 30 min.
    pub session_idle_timeout: Duration,
    /// Calls in flight in one session or over one pipe; and as many subscriptions beside them.
    /// Default 64.
    pub max_session_calls: usize,
    /// Calls in flight in all. Default 4,096.
    pub max_calls: usize,
    /// Subscriptions of clients that want to hear of changed tools. Default 4,096: over HTTP each
    /// holds a connection, so that most of [`max_connections`](Self::max_connections) stay free.
    pub max_subscriptions: usize,
    /// How long a call of a handshake-era client goes on after that client hung up. Default
    /// 5 min. Nothing is buffered meanwhile, unless the server
    /// [replays](crate::McpServerBuilder::sse_replay).
    pub detached_call_timeout: Duration,
    /// Events of one session that are kept for a client that comes back, if the server
    /// [replays](crate::McpServerBuilder::sse_replay). Default 1,024; the oldest makes room.
    pub max_replay_events: usize,
    /// The same in bytes. Default 1 MiB, which every session may cost then. A single event over it
    /// is sent but not kept.
    pub max_replay_bytes: usize,
    /// How long a client is asked to wait before it comes back for the rest of a stream. Default
    /// 1 s, as clients do that are not asked.
    pub replay_retry: Duration,
    /// Connections of a server. Default 10,000; further ones are answered 503 and closed, 64 of
    /// them at once, and the rest wait in the listen backlog.
    pub max_connections: usize,
    /// From accepting a connection, or the first byte of a later request, to the end of that
    /// request's head. Default 10 s.
    pub header_read_timeout: Duration,
    /// How long [`authorize`](crate::McpServerBuilder::authorize) may take to say whose a request is.
    /// Then the request is refused with status 503. Default 10 s.
    pub authorize_timeout: Duration,
    /// From accepting a connection to the end of the TLS handshake, on a server that speaks TLS; the
    /// request's head has its own time after that. Default 10 s.
    pub tls_handshake_timeout: Duration,
    /// How long a request's body may pause. Default 30 s.
    pub body_read_timeout: Duration,
    /// The least bytes a second that a request's body comes at, on the whole; `body_read_timeout`
    /// is granted on top. Default 500, which the slowest mobile network exceeds: without it a body
    /// of a byte at a time holds a connection for months. 0 asks for none.
    pub min_body_rate: usize,
    /// How long a connection may sit idle between requests. Default 75 s.
    pub idle_connection_timeout: Duration,
    /// How long a reader may take nothing while bytes wait for it; then its connection is closed.
    /// For its call that is a client that hung up: it ends by
    /// [`detached_call_timeout`](Self::detached_call_timeout), or at once where hanging up is a
    /// cancel. Default 5 min.
    pub stalled_reader_timeout: Duration,
    /// How long running calls may go on after a server was told to stop. Default 5 s.
    pub shutdown_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            max_json_depth: 128,
            connect_timeout: Duration::from_secs(30),
            tcp_connect_timeout: Duration::from_secs(10),
            discover_timeout: Duration::from_secs(5),
            max_known_servers: 1_000,
            list_timeout: Duration::from_secs(60),
            max_client_message_bytes: 64 * MIB,
            max_tool_pages: 1_000,
            max_tools: 10_000,
            max_list_bytes: 64 * MIB,
            max_param_header_bytes: 16 * KIB,
            max_queued_events: 4_096,
            max_queued_bytes: 4 * MIB,
            header_provider_timeout: Duration::from_secs(10),
            max_redirects: 5,
            max_idle_connections: 16,
            pool_idle_timeout: Duration::from_secs(60),
            cancel_timeout: Duration::from_secs(1),
            max_resume_attempts: 5,
            resume_delay: Duration::from_secs(1),
            max_resume_delay: Duration::from_secs(30),
            stalled_queue_timeout: Duration::from_secs(5),
            max_child_starts: 5,
            child_stop_timeout: Duration::from_secs(2),
            close_timeout: Duration::from_secs(2),
            max_queued_messages: 1_024,
            max_queued_hub_events: 1_024,
            max_queued_hub_bytes: 16 * MIB,
            max_server_message_bytes: 16 * MIB,
            max_event_bytes: 64 * MIB,
            max_outbox_bytes: 64 * KIB,
            answer_window: Duration::from_millis(100),
            keep_alive_interval: Duration::from_secs(15),
            max_sessions: 10_000,
            session_idle_timeout: Duration::from_secs(30 * 60),
            max_session_calls: 64,
            max_calls: 4_096,
            max_subscriptions: 4_096,
            detached_call_timeout: Duration::from_secs(5 * 60),
            max_replay_events: 1_024,
            max_replay_bytes: MIB,
            replay_retry: Duration::from_secs(1),
            max_connections: 10_000,
            header_read_timeout: Duration::from_secs(10),
            authorize_timeout: Duration::from_secs(10),
            tls_handshake_timeout: Duration::from_secs(10),
            body_read_timeout: Duration::from_secs(30),
            min_body_rate: 500,
            idle_connection_timeout: Duration::from_secs(75),
            stalled_reader_timeout: Duration::from_secs(5 * 60),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}
