//! A graph as a Mermaid flowchart.

use super::llm_graph::{END, Next, START, Step, Target};

pub(super) fn flowchart<S>(steps: &[Step<S>], first: Target) -> String {
    let mut out = format!("graph TD\n  {START}(START)\n  {END}(END)\n");
    let ids: Vec<String> = steps.iter().enumerate().map(id).collect();
    for (step, id) in steps.iter().zip(&ids) {
        let label = quoted(step.name.as_str());
        let node = match step.next {
            Next::By(..) => format!("  {id}{{{label}}}\n"),
            Next::To(_) => format!("  {id}[{label}]\n"),
        };
        out.push_str(&node);
    }
    let target = |target: Target| match target {
        Target::End => END,
        Target::Step(place) => ids.get(place).map_or(END, String::as_str),
    };
    let mut edge = |from: &str, arrow: &str, to: Target| {
        out.push_str(&format!("  {from} {arrow} {}\n", target(to)));
    };
    edge(START, "-->", first);
    for (step, id) in steps.iter().zip(&ids) {
        match &step.next {
            Next::To(to) => edge(id, "-->", *to),
            Next::By(_, targets) => {
                for (key, to) in targets {
                    edge(id, &format!("-- {} -->", label(key)), *to);
                }
            }
        }
    }
    out
}

/// The name where it can be one of Mermaid's ids, else one by its place.
fn id<S>((place, step): (usize, &Step<S>)) -> String {
    let name = step.name.as_str();
    if is_word(name) && !RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
        name.to_owned()
    } else {
        format!("__NODE_{place}__")
    }
}

fn label(key: &str) -> String {
    if is_word(key) && !RESERVED.contains(&key.to_ascii_lowercase().as_str()) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A text that may hold anything, as one label on one line.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' => out.push_str(&format!("#{};", u32::from(c))),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Words of Mermaid's own that break a chart as an id or a bare label.
const RESERVED: &[&str] = &[
    "call",
    "class",
    "classdef",
    "click",
    "default",
    "direction",
    "end",
    "flowchart",
    "graph",
    "href",
    "interpolate",
    "linkstyle",
    "style",
    "subgraph",
];
