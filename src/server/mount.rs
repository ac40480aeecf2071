//! Serving inside a server of somebody else's.
//!
//! Owns what such a server is given; must not know who routes requests to it, nor over what.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};

use super::builder::McpServer;
use super::exchange::HttpHost;
use super::http::EndsCalls;
use crate::error::Result;
use crate::transport::BoxFuture;
use crate::transport::http::body::AnswerBody;
use crate::transport::http::service::{HttpService, HyperService};

impl McpServer {
    /// The endpoint as a service, to be mounted in an axum or hyper app.
    ///
    /// Whoever routes requests to it decides on the path: the builder's
    /// [`path`](crate::McpServerBuilder::path) does not count. Of the `Host` and `Origin` checks
    /// only [`allowed_hosts`](crate::McpServerBuilder::allowed_hosts), if there are any, and
    /// [`allowed_origins`](crate::McpServerBuilder::allowed_origins) are left, since nothing is
    /// known of the address: an app that listens on this machine should name its hosts. How many
    /// connections there are, and how long one may stand idle or stall, is the app's to bound.
    /// Credentials are asked for as elsewhere;
    /// [`authorize`](crate::McpServerBuilder::authorize) also sees what outer layers attached to
    /// the request. Sessions expire when the next request comes, since no task of ours runs meanwhile.
    ///
    /// ```no_run
    /// # use agent_hub_kit::{McpServer, RawArgs, Tool, ToolContext};
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// let mcp = McpServer::builder("greeter", "0.1.0")
    ///     .tool(Tool::new("greet"), async |_: RawArgs, _: ToolContext| Ok("hello"))
    ///     .allowed_hosts(["localhost", "127.0.0.1"])
    ///     .build();
    /// let app = axum::Router::new().route_service("/mcp", mcp.into_service()?);
    /// axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8001").await?, app).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for what is wrong with the server itself.
    pub fn into_service(self) -> Result<McpService> {
        self.check()?;
        let authorization = self.settings.guard.authorization()?;
        let service = self.service(None, self.access(None)?, authorization);
        let calls = Arc::new(EndsCalls(service.exchange().clone()));
        Ok(McpService {
            service,
            _calls: calls,
        })
    }
}

/// An MCP endpoint for tower and hyper, made by [`into_service`](McpServer::into_service).
///
/// Cheap to clone: clones share sessions and calls. When the last one is dropped every call ends.
/// Has to run in a tokio runtime with time enabled.
#[derive(Clone)]
pub struct McpService {
    service: HttpService<Arc<HttpHost>>,
    _calls: Arc<EndsCalls>,
}

impl McpService {
    fn answer<B>(&self, request: Request<B>) -> Answering
    where
        B: Body<Data: Buf> + Send + 'static,
    {
        let service = self.service.clone();
        Box::pin(async move { Ok(service.call(request).await.map(McpBody)) })
    }
}

type Answering = BoxFuture<'static, Result<Response<McpBody>, Infallible>>;

impl<B> tower_service::Service<Request<B>> for McpService
where
    B: Body<Data: Buf> + Send + 'static,
{
    type Response = Response<McpBody>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.answer(request)
    }
}

impl<B> HyperService<Request<B>> for McpService
where
    B: Body<Data: Buf> + Send + 'static,
{
    type Response = Response<McpBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<B>) -> Self::Future {
        self.answer(request)
    }
}

impl fmt::Debug for McpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpService")
            .field(self.service.exchange())
            .finish()
    }
}

/// The body of an answer of [`McpService`]. Dropped before its end, the client is gone.
#[derive(Debug)]
pub struct McpBody(AnswerBody);

impl Body for McpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        frame.map_ok(|frame| frame.map_data(|data| data.into_bytes()))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
