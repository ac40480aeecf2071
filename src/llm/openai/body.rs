//! The text of a request.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::super::request::{ChatMessage, ChatRequest, Role};
use crate::error::{Error, Result};

/// What is the same for all requests.
pub(super) struct Settings {
    pub(super) model: String,
    pub(super) system: Option<String>,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u32>,
    /// Wins over the others; a null leaves out.
    pub(super) more: Map<String, Value>,
}

impl Settings {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            system: None,
            temperature: None,
            max_tokens: None,
            more: Map::new(),
        }
    }

    /// # Errors
    /// [`Error::Config`] for what no server could answer.
    pub(super) fn body(&self, request: &ChatRequest) -> Result<Vec<u8>> {
        let temperature = request.temperature.or(self.temperature);
        if request.messages.is_empty() {
            return Err(Error::config(
                "a request to a model needs at least one message",
            ));
        }
        if temperature.is_some_and(|temperature| !temperature.is_finite()) {
            return Err(Error::config("the temperature is not a number"));
        }
        let body = Body {
            settings: self,
            request,
            temperature,
        };
        serde_json::to_vec(&body)
            .map_err(|error| Error::config(format!("the request cannot be written: {error}")))
    }
}

struct Body<'a> {
    settings: &'a Settings,
    request: &'a ChatRequest,
    temperature: Option<f64>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            settings, request, ..
        } = self;
        let own = |name: &str| !settings.more.contains_key(name);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &settings.model)?;
        map.serialize_entry("messages", &Messages(self))?;
        map.serialize_entry("stream", &true)?;
        if own("stream_options") {
            map.serialize_entry("stream_options", &json!({ "include_usage": true }))?;
        }
        if let Some(temperature) = self.temperature
            && own("temperature")
        {
            map.serialize_entry("temperature", &temperature)?;
        }
        if let Some(tokens) = request.max_tokens.or(settings.max_tokens)
            && own("max_tokens")
        {
            map.serialize_entry("max_tokens", &tokens)?;
        }
        for (name, value) in settings.more.iter().filter(|(_, value)| !value.is_null()) {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct Messages<'a>(&'a Body<'a>);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let messages = &self.0.request.messages;
        let system = self.0.settings.system.as_deref();
        let system = system.filter(|_| !messages.iter().any(|m| m.role == Role::System));
        let first = system.map(|text| Message {
            role: Role::System,
            text,
            images: &[],
        });
        let asked = messages.iter().map(Message::of);
        serializer.collect_seq(first.into_iter().chain(asked))
    }
}

struct Message<'a> {
    role: Role,
    text: &'a str,
    images: &'a [String],
}

impl<'a> Message<'a> {
    fn of(message: &'a ChatMessage) -> Self {
        Self {
            role: message.role,
            text: &message.text,
            images: &message.images,
        }
    }
}

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let role = match self.role {
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::User => "user",
        };
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", role)?;
        match self.images {
            // Many servers take parts of users only, and some not even those.
            [] => map.serialize_entry("content", self.text)?,
            _ => map.serialize_entry("content", &Parts(self))?,
        }
        map.end()
    }
}

struct Parts<'a>(&'a Message<'a>);

enum Part<'a> {
    Image(&'a str),
    Text(&'a str),
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Some(self.0.text).filter(|text| !text.is_empty());
        let images = self.0.images.iter().map(|uri| Part::Image(uri));
        serializer.collect_seq(text.map(Part::Text).into_iter().chain(images))
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Url<'a>(&'a str);

        impl Serialize for Url<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([("url", self.0)])
            }
        }

        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Image(url) => {
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &Url(url))?;
            }
            Self::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
        }
        map.end()
    }
}
