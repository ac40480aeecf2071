//! Asks a server for one call with hyper alone and prints what comes, undecoded: `raw_client URL TEXT`.

use std::io::Write;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

type Anything = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(text)) = (args.next(), args.next()) else {
        return Err("usage: raw_client URL TEXT".into());
    };
    let url: hyper::Uri = url.parse()?;
    let host = url.authority().ok_or("no host")?.as_str().to_owned();
    let stream = TcpStream::connect(&host).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    );
    let request = Request::post(url.path())
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .body(Full::<Bytes>::from(body))?;
    let mut body = sender.send_request(request).await?.into_body();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            std::io::stdout().write_all(data)?;
        }
    }
    Ok(())
}
