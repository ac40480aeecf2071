//! Servers that are shell scripts, so that what they write is what stands here.

use agent_hub_kit::{AgentHubClient, StdioCommand};

use crate::process;

/// What every script starts from: functions that it may define anew, and the words to answer with.
/// `$line` is the line that came, `$id` the id in it, `$lines` how many came.
/// They are servers of the handshake era.
const PRELUDE: &str = r#"
say() { printf '%s\n' "$1"; }
answer() { say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
progress() { # token, number, message
    say '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'"$1"',"progress":'"$2"',"message":"'"$3"'"}}'
}
welcome() {
    answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"0"}}'
}
tools() { answer '{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"u","inputSchema":{"type":"object"}}]}'; }
discover() { # the question which era it is, which is no line that counts
    lines=$((lines - 1))
    say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}'
}
opening() { welcome; }
listing() { tools; }
call() { text "$lines"; }
note() { :; }
next() {
    IFS= read -r line || return 1
    lines=$((lines + 1)) id=${line#*\"id\":} id=${id%%[,\}]*}
}
serve() {
    while next; do
        case $line in
            *'"method":"server/discover"'*) discover ;;
            *'"method":"initialize"'*) opening ;;
            *'"method":"tools/list"'*) listing ;;
            *'"method":"tools/call"'*) call ;;
            *) note ;;
        esac
    done
}
lines=0
"#;

/// A server of two tools, `t` and `u`, with changes. Its processes can be told by the argument.
pub fn script(changes: &str) -> (StdioCommand, String) {
    bare(&format!("{changes}\nserve"))
}

/// A server that does just this.
pub fn bare(script: &str) -> (StdioCommand, String) {
    let marker = process::marker();
    let command = StdioCommand::new("sh")
        .args(["-c", "eval \"$SCRIPT\"", &marker])
        .env("SCRIPT", format!("{PRELUDE}\n{script}\n"));
    (command, marker)
}

/// Connects such a server under the name `p`.
pub async fn connect(hub: &AgentHubClient, changes: &str) -> String {
    let (command, marker) = script(changes);
    hub.connect_stdio("p", command).await.unwrap();
    marker
}
