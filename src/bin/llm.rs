//! The LLM specialist with the model that the command line names.

use agent_hub_kit::specialists::build_llm_server;
use agent_hub_kit::{DummyLlm, McpServerBuilder, OpenAiLlm};

use crate::args::{Backend, LlmArgs};
use crate::failure::Failure;

pub(crate) fn server(args: &LlmArgs) -> Result<McpServerBuilder, Failure> {
    Ok(match args.backend {
        Backend::Dummy => build_llm_server(dummy(args)?),
        Backend::Openai => build_llm_server(openai(args)?),
    })
}

/// Whoever describes an endpoint means it.
fn dummy(args: &LlmArgs) -> Result<DummyLlm, Failure> {
    let given = [
        ("--base-url", args.base_url.is_some()),
        ("--model", args.model.is_some()),
        ("--key-env", args.key_env.is_some()),
        ("--system", args.system.is_some()),
        ("--temperature", args.temperature.is_some()),
        ("--max-tokens", args.max_tokens.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(
            format!("{option} is for an endpoint, and the dummy model has none"),
            "add --backend openai, with --base-url and --model",
        )),
        None => Ok(DummyLlm::new()),
    }
}

fn openai(args: &LlmArgs) -> Result<OpenAiLlm, Failure> {
    let Some(base_url) = &args.base_url else {
        return Err(Failure::usage(
            "--backend openai needs --base-url",
            "--base-url http://127.0.0.1:8080/v1 for a server on this machine",
        ));
    };
    let Some(model) = &args.model else {
        return Err(Failure::usage(
            "--backend openai needs --model",
            "--model NAME: GET URL/models lists the names that an endpoint knows",
        ));
    };
    let mut llm = OpenAiLlm::builder(base_url, model);
    if let Some(variable) = &args.key_env {
        llm = llm.api_key_env(variable);
    }
    if let Some(prompt) = &args.system {
        llm = llm.system(prompt);
    }
    if let Some(temperature) = args.temperature {
        llm = llm.temperature(temperature);
    }
    if let Some(tokens) = args.max_tokens {
        llm = llm.max_tokens(tokens);
    }
    llm.build()
        .map_err(|error| Failure::usage(error.to_string(), "`agent-hub help llm` shows how"))
}
