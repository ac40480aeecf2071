//! What [`tools`] says, over stdio: for a peer's client to start.

mod tools;

#[tokio::main(flavor = "current_thread")]
async fn main() -> agent_hub_kit::Result<()> {
    tools::echo_and_hold().serve_stdio().await
}
