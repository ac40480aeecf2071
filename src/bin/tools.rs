//! Showing what servers offer.

use agent_hub_kit::{Content, ToolRef};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::ToolsArgs;
use crate::failure::Failure;
use crate::screen::{Screen, Style};
use crate::shown::visible;
use crate::signals;
use crate::target::{self, Targets};

pub(crate) struct Plan {
    targets: Targets,
    json: bool,
}

impl Plan {
    pub(crate) fn new(args: ToolsArgs) -> Result<Self, Failure> {
        Ok(Self {
            targets: Targets::new(&args.targets, args.connect)?,
            json: args.json,
        })
    }
}

pub(crate) async fn run(plan: Plan) -> Result<(), Failure> {
    let (hub, warnings) = target::hub();
    let stop = signals::watch(hub.clone())?;
    let mut screen = Screen::new();
    let connected = tokio::select! {
        biased;
        () = stop.notified() => None,
        connected = screen.wait(plan.targets.connect(&hub)) => Some(connected),
    };
    screen.warn(&warnings);
    let outcome = match connected {
        None => Err(Failure::Cancelled),
        Some(connected) => {
            // What the others offer is worth seeing all the same.
            match show(&mut screen, &plan, &connected.tools) {
                Ok(()) if connected.failures.is_empty() => Ok(()),
                Ok(()) => Err(Failure::connecting(connected.failures)),
                Err(error) => Err(error.into()),
            }
        }
    };
    stop.close(&hub).await;
    outcome
}

fn show(
    screen: &mut Screen,
    plan: &Plan,
    servers: &[(String, Vec<ToolRef>)],
) -> std::io::Result<()> {
    let several = plan.targets.names().count() > 1;
    for (server, tools) in servers {
        if tools.is_empty() {
            screen.line(server, "offers no tools", None);
        }
        for tool in tools {
            match plan.json {
                true => screen.json(&Described {
                    server,
                    tool: tool.raw(),
                })?,
                false => show_tool(screen, tool, several)?,
            }
        }
    }
    Ok(())
}

/// A tool as its server describes it. The two are kept apart, so that nothing a server sends can
/// pass for its name.
#[derive(Serialize)]
struct Described<'a> {
    server: &'a str,
    tool: &'a Content,
}

/// Among several servers a tool is shown by the name that is its alone.
fn show_tool(screen: &mut Screen, tool: &ToolRef, several: bool) -> std::io::Result<()> {
    let name = match several {
        true => tool.qualified_name(),
        false => tool.name().to_owned(),
    };
    let name = screen.emphasized(Style::Bold, &visible(&name));
    let mut text = format!("{name}{}\n", signature(&tool.input_schema().value()));
    for line in tool.description().unwrap_or_default().trim().lines() {
        text.push_str(format!("    {}", visible(line.trim_end())).trim_end());
        text.push('\n');
    }
    screen.print(&text)
}

/// The arguments in short: `(text: string, delay_ms?: integer = 0)`.
fn signature(schema: &Value) -> String {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|n| n.as_str() == Some(name)));
    let mut properties: Vec<_> = properties.unwrap_or(&none).iter().collect();
    properties.sort_by_key(|(name, _)| !is_required(name));
    let mut arguments = Vec::new();
    for (name, property) in properties {
        let mark = if is_required(name) { "" } else { "?" };
        let default = match property.get("default") {
            Some(value) => format!(" = {value}"),
            None => String::new(),
        };
        arguments.push(format!("{name}{mark}: {}{default}", type_of(property)));
    }
    visible(&format!("({})", arguments.join(", "))).into_owned()
}

fn type_of(schema: &Value) -> String {
    let any = || "any".to_owned();
    let list = |name| schema.get(name).and_then(Value::as_array);
    let join = |parts: Vec<String>| parts.join("|");
    if let Some(values) = list("enum") {
        return join(values.iter().map(Value::to_string).collect());
    }
    if let Some(choices) = list("anyOf").or_else(|| list("oneOf")) {
        return join(choices.iter().map(type_of).collect());
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items") {
            Some(items) => format!("[{}]", type_of(items)),
            None => "[any]".to_owned(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => join(
            names
                .iter()
                .map(|n| n.as_str().map_or_else(any, str::to_owned))
                .collect(),
        ),
        _ => any(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_becomes_a_signature() {
        for (schema, wanted) in [
            (json!(null), "()"),
            (json!({ "type": "object" }), "()"),
            (json!({ "properties": 1, "required": 2 }), "()"),
            (
                json!({
                    "properties": {
                        "text": { "type": "string" },
                        "count": { "type": ["integer", "null"], "default": 0 },
                    },
                    "required": ["text"],
                }),
                "(text: string, count?: integer|null = 0)",
            ),
            (
                json!({ "properties": {
                    "a": { "enum": ["x", 1] },
                    "b": { "anyOf": [{ "type": "string" }, { "type": "array" }] },
                    "c": { "type": "array", "items": { "type": "number" } },
                    "d": { "$ref": "#/x" },
                    "e": true,
                } }),
                "(a?: \"x\"|1, b?: string|[any], c?: [number], d?: any, e?: any)",
            ),
            (
                json!({ "properties": { "\u{1b}[2J": { "type": "\u{7}" } } }),
                "(␛[2J?: ␇)",
            ),
        ] {
            assert_eq!(signature(&schema), wanted, "{schema}");
        }
    }
}
