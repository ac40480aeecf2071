//! The text of an answer: chunks of a stream, or all of it at once.
//!
//! Takes what deployed servers send, which is more than is written anywhere; must not know how it
//! came.

use std::collections::VecDeque;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::stream::{ChatChunk, FinishReason, Usage};
use super::super::think::ThinkSplitter;
use super::refusal;
use crate::error::{Error, Result};

/// How far an answer has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    thinking: ThinkSplitter,
    reason: Option<Box<str>>,
    usage: Option<Usage>,
}

impl Answer {
    /// Takes one message of the endpoint, and puts what it says into `ready`. True if it was the
    /// last.
    ///
    /// # Errors
    /// What the endpoint says went wrong, or what is wrong with what it says.
    pub(super) fn take(&mut self, message: &[u8], ready: &mut VecDeque<ChatChunk>) -> Result<bool> {
        if message.trim_ascii() == b"[DONE]" {
            // Some servers say nothing else of the end.
            self.reason.get_or_insert_default();
            return Ok(true);
        }
        let chunk: Chunk = serde_json::from_slice(message).map_err(|error| {
            if error.is_eof() {
                Error::transport("the answer broke off in the middle of a chunk")
            } else {
                let text = String::from_utf8_lossy(message);
                Error::protocol(format!("a chunk that cannot be read ({error}): {text}"))
            }
        })?;
        if let Some(fault) = chunk.fault() {
            return Err(refusal::midway(&fault));
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(Usage::new(usage.prompt_tokens.0, usage.completion_tokens.0));
        }
        let mut is_whole = false;
        if let Some(choice) = chunk.choices.and_then(|choices| choices.first) {
            is_whole = choice.message.is_some();
            for said in [choice.delta, choice.message].into_iter().flatten() {
                self.take_said(said, ready);
            }
            match choice.finish_reason {
                Some(reason) if reason == "error" => return Err(refusal::midway(&Value::Null)),
                // Some servers give one with every chunk.
                Some(reason) if !reason.is_empty() => self.reason = Some(reason.into()),
                _ => {}
            }
        }
        if is_whole {
            self.reason.get_or_insert_default();
        }
        Ok(is_whole)
    }

    /// Whether the model had said all.
    pub(super) fn is_finished(&self) -> bool {
        self.reason.is_some()
    }

    /// Gives what was held back, and of a `complete` answer also what is said of it.
    pub(super) fn finish(&mut self, complete: bool, ready: &mut VecDeque<ChatChunk>) {
        self.thinking.finish(|chunk| ready.push_back(chunk));
        if complete {
            let reason = self.reason.take().filter(|reason| !reason.is_empty());
            ready.extend(reason.map(|reason| match &*reason {
                "content_filter" => ChatChunk::Finish(FinishReason::ContentFilter),
                "length" => ChatChunk::Finish(FinishReason::Length),
                "stop" => ChatChunk::Finish(FinishReason::Stop),
                _ => ChatChunk::Finish(FinishReason::Other(reason)),
            }));
            ready.extend(self.usage.take().map(ChatChunk::Usage));
        }
    }

    fn take_said(&mut self, said: Said, ready: &mut VecDeque<ChatChunk>) {
        // Servers that send both names send the same under both.
        let thoughts = [said.reasoning_content, said.reasoning];
        let thoughts = thoughts.into_iter().find(|words| !words.0.is_empty());
        for (_, thought) in thoughts.unwrap_or_default().0 {
            ready.push_back(ChatChunk::Think(thought));
        }
        // A refusal is what the model says instead.
        for (is_thought, text) in said.content.0.into_iter().chain(said.refusal.0) {
            match is_thought {
                true => ready.push_back(ChatChunk::Think(text)),
                false => self.thinking.push(&text, |chunk| ready.push_back(chunk)),
            }
        }
    }
}

/// A chunk, or a whole answer.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Choices>,
    error: Option<Value>,
    usage: Option<Counts>,
    // Of an error that is the chunk itself.
    object: Option<Value>,
    message: Option<Value>,
    code: Option<Value>,
}

impl Chunk {
    fn fault(&self) -> Option<Value> {
        let is_fault = self.object.as_ref().is_some_and(|object| object == "error");
        let own = || serde_json::json!({ "message": self.message, "code": self.code });
        self.error.clone().or_else(|| is_fault.then(own))
    }
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Said>,
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Said {
    content: Words,
    reasoning: Words,
    reasoning_content: Words,
    refusal: Words,
}

/// The one answer that is read, whatever else a list holds: what is not kept costs no memory.
struct Choices {
    first: Option<Choice>,
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Choices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Choices, A::Error> {
                let mut first = None;
                while let Some(choice) = list.next_element::<Option<Choice>>()? {
                    let choice = choice.filter(|choice| choice.index.unwrap_or(0) == 0);
                    first = first.or(choice);
                }
                Ok(Choices { first })
            }
        }

        deserializer.deserialize_seq(Reader)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Counts {
    prompt_tokens: Count,
    completion_tokens: Count,
}

/// A number of tokens; 0 for what is none, since no answer is worth less for its bill.
#[derive(Default)]
struct Count(u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As it was written, so that no number is out of range.
        let written = <Option<&RawValue>>::deserialize(deserializer)?;
        Ok(Self(written.map_or(0, |count| {
            serde_json::from_str(count.get()).unwrap_or(0)
        })))
    }
}

/// Texts, and whether each is a thought: of a string, of a list of parts, or none of anything else.
#[derive(Debug, Default)]
struct Words(Vec<(bool, String)>);

impl Words {
    /// Parts of a kind are one text: many small ones would take far more memory than they came in.
    fn add(&mut self, (is_thought, text): (bool, String)) {
        match self.0.last_mut() {
            Some((last, words)) if *last == is_thought => words.push_str(&text),
            _ => self.0.push((is_thought, text)),
        }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or parts of one")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
                Ok(Words::default())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Words, E> {
                let text = Some(text).filter(|text| !text.is_empty());
                Ok(Words(text.into_iter().map(|text| (false, text)).collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
                let mut words = Words::default();
                while let Some(part) = parts.next_element::<Words>()? {
                    part.0.into_iter().for_each(|said| words.add(said));
                }
                Ok(words)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(name) = part.next_key::<String>()? {
                    let is_thought = name == "thinking";
                    if is_thought || name == "text" {
                        let said = part.next_value::<Words>()?.0.into_iter();
                        words.extend(said.map(|(thought, text)| (thought || is_thought, text)));
                    } else {
                        part.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Words(words))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}
