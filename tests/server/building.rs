//! What is wrong with a server is told when it is to be bound.

use agent_hub_kit::{Error, McpServerBuilder, RawArgs, Tool, ToolContext};
use serde_json::json;

use crate::fixture::{builder, echo, serve};

fn offering(tool: Tool) -> McpServerBuilder {
    builder().tool(tool, async |_: RawArgs, _: ToolContext| Ok(()))
}

//
#[tokio::test]
async fn a_fault_of_the_server_is_told_when_it_is_bound() {
    let long = "x".repeat(129);
    let table = [
        (echo(echo(builder())), "`echo` is taken"),
        (offering(Tool::new("")), "needs a name"),
        (offering(Tool::new("two words")), "\"two words\""),
        (offering(Tool::new("é")), "allow_any_name"),
        (offering(Tool::new(long)), "1 to 128"),
        (
            offering(Tool::new("t").input_schema(json!({"type": "array"}))),
            "`t`: the input schema needs \"type\": \"object\"",
        ),
        (
            offering(Tool::new("t").input_schema(json!({"properties": {}}))),
            "needs \"type\": \"object\"",
        ),
        (
            offering(Tool::new("t").input_schema("text")),
            "the input schema is not a JSON object",
        ),
        (
            offering(Tool::new("t").output_schema(json!([]))),
            "the output schema is not a JSON object",
        ),
        (
            offering(Tool::typed::<String>("t")),
            "needs \"type\": \"object\"",
        ),
        (builder().path("mcp"), "does not start with a slash"),
        (builder().path(""), "does not start with a slash"),
        (
            builder().allowed_hosts(["http://example.com/x"]),
            "no host name",
        ),
        (builder().allowed_origins(["example.com"]), "no origin"),
        // The first fault is the one that is told.
        (offering(Tool::new("")).path("x"), "slash"),
    ];
    for (builder, expected) in table {
        let server = builder.build();
        let error = server.bind("127.0.0.1:0").await.expect_err(expected);
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        let served = server.serve_http("127.0.0.1:0").await.expect_err(expected);
        assert_eq!(served.to_string(), error.to_string());
    }
}

//
#[tokio::test]
async fn any_name_can_be_allowed_but_none_may_be_empty() {
    let served = serve(offering(Tool::new("two words é").allow_any_name())).await;
    let session = served.session().await;
    assert_eq!(
        session.result("two words é", json!({})).await,
        json!({"content": []})
    );
    let empty = offering(Tool::new("").allow_any_name()).build();
    assert!(empty.bind("127.0.0.1:0").await.is_err());
}

#[tokio::test]
async fn an_address_in_use_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = builder().build().bind(addr).await.expect_err("in use");
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}

#[tokio::test]
async fn a_bound_server_knows_its_address_before_it_serves() {
    let server = echo(builder()).path("/x").build();
    let bound = server.bind("127.0.0.1:0").await.unwrap();
    let addr = bound.local_addr();
    assert_ne!(addr.port(), 0);
    assert_eq!(bound.url(), format!("http://{addr}/x"));
    // The server is the same for every address it is bound to.
    assert_ne!(server.bind("127.0.0.1:0").await.unwrap().local_addr(), addr);
}
