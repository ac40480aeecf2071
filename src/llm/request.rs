//! What a model is asked.

/// A conversation so far, and how it is to be gone on with.
///
/// ```
/// use agent_hub_kit::{ChatMessage, ChatRequest};
///
/// let request = ChatRequest::new()
///     .system("Answer in one sentence.")
///     .user("What is a hub?")
///     .assistant("The middle of a wheel.")
///     .message(ChatMessage::user("Is this one?").image("data:image/png;base64,iVBORw0KGgo="))
///     .temperature(0.2)
///     .max_tokens(100);
/// assert_eq!(request.messages.len(), 4);
/// ```
///
/// A lone text becomes the message of a user: `llm.chat("What is a hub?".into())`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The oldest first; the last one is to be answered.
    pub messages: Vec<ChatMessage>,
    /// How freely the model chooses, from 0. Default: the model's own.
    pub temperature: Option<f64>,
    /// The longest answer, thoughts included. Default: the model's own.
    pub max_tokens: Option<u32>,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub text: String,
    /// What is shown with it: `http(s)` URLs or `data:` URIs. Endpoints take images of users only.
    pub images: Vec<String>,
}

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// The model.
    Assistant,
    /// Whoever tells the model how to behave.
    System,
    /// Whoever asks it.
    User,
}

impl ChatRequest {
    /// A conversation in which nothing was said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of the system: how the model is to behave.
    pub fn system(self, text: impl Into<String>) -> Self {
        self.message(ChatMessage::new(Role::System, text))
    }

    /// Adds a message of the user.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(ChatMessage::user(text))
    }

    /// Adds an answer that the model gave before.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(ChatMessage::new(Role::Assistant, text))
    }

    /// Adds any message.
    pub fn message(mut self, message: ChatMessage) -> Self {
        self.messages.push(message);
        self
    }

    /// How freely the model chooses, from 0.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// The longest answer, in tokens, thoughts included.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }
}

impl ChatMessage {
    /// A message of anybody.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            text: text.into(),
            images: Vec::new(),
        }
    }

    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, text)
    }

    /// Shows an image with it: an `http(s)` URL or a `data:` URI.
    pub fn image(mut self, uri: impl Into<String>) -> Self {
        self.images.push(uri.into());
        self
    }
}

impl From<&str> for ChatRequest {
    fn from(text: &str) -> Self {
        Self::new().user(text)
    }
}

impl From<String> for ChatRequest {
    fn from(text: String) -> Self {
        Self::new().user(text)
    }
}

impl From<ChatMessage> for ChatRequest {
    fn from(message: ChatMessage) -> Self {
        Self::new().message(message)
    }
}
