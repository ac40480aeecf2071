//! Data in the form of a URI, found right before it is used.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use base64::engine::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::{Error, Result};

/// Data in the form of a URI (RFC 2397), such as an image that travels as an argument:
/// `data:image/png;base64,iVBOR..`.
///
/// Checked as a whole when it is made, so that what a tool gets it can decode. The check is strict:
/// a media type with both its parts or none, parameters with a value, base64 of the standard
/// alphabet with its padding, and otherwise only characters that a URI may hold, the rest as `%XX`.
/// At most [`MAX_LEN`](Self::MAX_LEN) bytes.
///
/// Cheap to clone.
///
/// ```
/// use agent_hub_kit::DataUri;
///
/// let uri: DataUri = "data:image/svg+xml;charset=utf-8,%3Csvg/%3E".parse()?;
/// assert_eq!(uri.media_type(), "image/svg+xml");
/// assert_eq!(uri.parameter("charset").as_deref(), Some("utf-8"));
/// assert_eq!(uri.decode(), "<svg/>");
///
/// let cut = DataUri::parse("data:image/png;base64,iVBORw0KGgo").unwrap_err();
/// assert!(cut.to_string().contains("the base64 data"), "{cut}");
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
///
/// As the type of an argument, where the caller is told which one is wrong and why:
///
/// ```
/// use agent_hub_kit::{AgentHubClient, DataUri, McpServer, Tool, ToolContext, testing};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct LookArgs {
///     images: Option<Vec<DataUri>>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agent_hub_kit::Result<()> {
/// let look = async |args: LookArgs, _: ToolContext| {
///     Ok(format!("{} images", args.images.unwrap_or_default().len()))
/// };
/// let server = McpServer::builder("eyes", "0.1.0")
///     .tool(Tool::typed::<LookArgs>("look"), look)
///     .build();
/// let hub = AgentHubClient::builder().build();
/// testing::connect_memory(&hub, "eyes", &server).await?;
/// let images = json!({ "images": ["data:image/gif;base64,R0lGODlh"] });
/// assert_eq!(hub.call_tool("look", images).await?, "1 images");
///
/// let wrong = hub.call_tool("look", json!({ "images": ["data:,", "photo.png"] })).await;
/// let told = wrong.unwrap_err().to_string();
/// assert!(told.contains("`images[1]`: expected a data URI, such as"), "{told}");
/// # hub.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DataUri {
    text: ByteString,
    /// In lower case.
    media_type: ByteString,
    /// Where the parameters are, with the `;` before each.
    parameters: (usize, usize),
    data: usize,
    is_base64: bool,
}

impl DataUri {
    /// The longest one that is taken, in bytes of its text: as much as the largest message that a
    /// client takes by default.
    pub const MAX_LEN: usize = 64 * 1024 * 1024;

    /// Reads and checks a data URI.
    ///
    /// ```
    /// use agent_hub_kit::DataUri;
    ///
    /// assert!(DataUri::parse("data:,a%20b")?.decode() == "a b");
    /// let spaced = DataUri::parse("data:,a b").unwrap_err();
    /// assert!(spaced.to_string().contains("at byte 7 the character ' '"), "{spaced}");
    /// # Ok::<(), agent_hub_kit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] that says what is wrong and at which byte; [`Error::Limit`] over
    /// [`MAX_LEN`](Self::MAX_LEN).
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.len() > Self::MAX_LEN {
            return Err(Error::limit("DataUri::MAX_LEN", Self::MAX_LEN));
        }
        match split(&text) {
            Ok(head) => Ok(Self::checked(head, text)),
            Err(fault) => Err(Error::config(format!(
                "{} is no data URI: {fault}",
                Excerpt(&text)
            ))),
        }
    }

    /// Makes a data URI in base64 of a media type, parameters included, and data.
    ///
    /// ```
    /// use agent_hub_kit::DataUri;
    ///
    /// let uri = DataUri::encode("text/plain;charset=utf-8", "é")?;
    /// assert_eq!(uri.as_str(), "data:text/plain;charset=utf-8;base64,w6k=");
    /// assert_eq!(uri.decode(), "é");
    /// # Ok::<(), agent_hub_kit::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for what is no media type; [`Error::Limit`] if the URI would be longer than
    /// [`MAX_LEN`](Self::MAX_LEN).
    pub fn encode(media_type: &str, data: impl AsRef<[u8]>) -> Result<Self> {
        let data = data.as_ref();
        let mut text = format!("{SCHEME}{media_type};base64,");
        let data_start = text.len();
        let len = data.len().div_ceil(3).saturating_mul(4);
        if len.saturating_add(data_start) > Self::MAX_LEN {
            return Err(Error::limit("DataUri::MAX_LEN", Self::MAX_LEN));
        }
        let head = split_head(&text).and_then(|head| match head.data == data_start {
            true => Ok(head),
            false => Err("it holds a comma".to_owned()),
        });
        let head = head.map_err(|fault| {
            let given = Excerpt(media_type);
            Error::config(format!("{given} is no media type: {fault}"))
        })?;
        text.reserve_exact(len);
        STANDARD.encode_string(data, &mut text);
        Ok(Self::checked(head, text))
    }

    fn checked(head: Head, text: String) -> Self {
        Self {
            text: text.into(),
            media_type: head.media_type,
            parameters: head.parameters,
            data: head.data,
            is_base64: head.is_base64,
        }
    }

    /// The URI as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The media type in lower case and without parameters; `text/plain` if there is none.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// A parameter of the media type, by its name in any case.
    pub fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let (start, end) = self.parameters;
        let parameters = self.text.get(start..end)?.split(';');
        let mut parameters = parameters.filter_map(|parameter| parameter.split_once('='));
        let (_, value) = parameters.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(match unescaped(value) {
            Cow::Borrowed(_) => Cow::Borrowed(value),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    /// True for data in base64, false for data in `%XX` and plain characters.
    pub fn is_base64(&self) -> bool {
        self.is_base64
    }

    /// Whether there is any data.
    pub(crate) fn has_data(&self) -> bool {
        self.data < self.text.len()
    }

    /// The data.
    pub fn decode(&self) -> Bytes {
        let data = unescaped(self.text.get(self.data..).unwrap_or_default());
        if self.is_base64 {
            // It was found right when this was made.
            STANDARD.decode(&data).unwrap_or_default().into()
        } else {
            data.into_owned().into()
        }
    }
}

/// What stands before the data, as [`DataUri`] keeps it.
struct Head {
    media_type: ByteString,
    parameters: (usize, usize),
    data: usize,
    is_base64: bool,
}

fn split(text: &str) -> Result<Head, String> {
    let head = split_head(text)?;
    let data = text.get(head.data..).unwrap_or_default();
    match head.is_base64 {
        true => check_base64(data, head.data)?,
        false => check_characters(data, head.data)?,
    }
    Ok(head)
}

fn split_head(text: &str) -> Result<Head, String> {
    let scheme = text.get(..SCHEME.len());
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
        return Err("it does not start with `data:`".to_owned());
    }
    let rest = text.get(SCHEME.len()..).unwrap_or_default();
    let window = rest.len().min(MAX_HEAD);
    let Some(comma) = rest.as_bytes().iter().take(window).position(|b| *b == b',') else {
        return Err(if rest.len() > MAX_HEAD {
            format!("no comma within {MAX_HEAD} bytes ends what stands before the data")
        } else {
            "no comma stands before the data".to_owned()
        });
    };
    let head = rest.get(..comma).unwrap_or_default();
    let (head, is_base64) = match head.rsplit_once(';') {
        Some((before, last)) if last.eq_ignore_ascii_case("base64") => (before, true),
        _ => (head, false),
    };
    let (media_type, parameters) = head
        .split_once(';')
        .map_or((head, None), |(m, p)| (m, Some(p)));
    check_media_type(media_type)?;
    for parameter in parameters.into_iter().flat_map(|all| all.split(';')) {
        check_parameter(parameter)?;
    }
    Ok(Head {
        media_type: match media_type {
            "" => ByteString::from_static(DEFAULT_MEDIA_TYPE),
            given => given.to_ascii_lowercase().into(),
        },
        parameters: (SCHEME.len() + media_type.len(), SCHEME.len() + head.len()),
        data: SCHEME.len() + comma + 1,
        is_base64,
    })
}

fn check_media_type(media_type: &str) -> Result<(), String> {
    let fault = match media_type.split_once('/') {
        None if media_type.is_empty() => return Ok(()),
        None => "has no `/`",
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => return Ok(()),
        Some(_) => "is not two names of letters, digits and !#$&-^_.+",
    };
    Err(format!("its media type {media_type:?} {fault}"))
}

fn check_parameter(parameter: &str) -> Result<(), String> {
    match parameter.split_once('=') {
        None if parameter.eq_ignore_ascii_case("base64") => {
            Err("`;base64` is not the last word before the comma".to_owned())
        }
        Some((name, value)) if is_token(name) && !value.is_empty() => check_characters(value, 0)
            .map_err(|_| {
                format!(
                    "the value of its parameter `{name}` holds more than a URI may, or a bad %XX"
                )
            }),
        _ => Err(format!(
            "its parameter {parameter:?} is not a name, `=` and a value"
        )),
    }
}

/// A name of RFC 6838, section 4.2.
fn is_token(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b);
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    first && name.len() <= 127 && name.bytes().all(inner)
}

/// Only what a URI may hold: RFC 3986, without `#`, which would end it.
fn check_characters(text: &str, start: usize) -> Result<(), String> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'%' => {
                let digits = bytes.get(at + 1..at + 3);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(format!(
                        "at byte {} a `%` without two hexadecimal digits",
                        start + at
                    ));
                }
                3
            }
            byte if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) => 1,
            _ => {
                let c = text.get(at..).and_then(|rest| rest.chars().next());
                return Err(format!(
                    "at byte {} the character {:?}, which must be written as %XX",
                    start + at,
                    c.unwrap_or_default()
                ));
            }
        };
    }
    Ok(())
}

/// Decodes piece by piece, so that a large one is checked without a copy.
fn check_base64(data: &str, start: usize) -> Result<(), String> {
    let (data, start) = match data.contains('%') {
        false => (Cow::Borrowed(data.as_bytes()), Some(start)),
        true => {
            check_characters(data, start)?;
            (unescaped(data), None)
        }
    };
    // With escapes before it, a byte of the data stands elsewhere in the text.
    let place = |at: usize| match start {
        Some(start) => format!("at byte {}", start + at),
        None => format!("at byte {at} of the data without its %XX"),
    };
    let mut out = [0; PIECE / 4 * 3];
    let last = data.len().div_ceil(PIECE).saturating_sub(1);
    for (n, piece) in data.chunks(PIECE).enumerate() {
        let padded = n < last && piece.contains(&b'=');
        if let Some(at) = piece.iter().position(|b| *b == b'=').filter(|_| padded) {
            return Err(format!(
                "the base64 data goes on after the padding {}",
                place(n * PIECE + at)
            ));
        }
        if let Err(e) = STANDARD.decode_slice(piece, &mut out) {
            use base64::DecodeSliceError::{DecodeError, OutputSliceTooSmall};
            return Err(match e {
                DecodeError(base64::DecodeError::InvalidByte(at, byte)) => format!(
                    "the base64 data holds {} {}",
                    match byte {
                        b'-' => "'-', which the standard alphabet writes '+',".into(),
                        b'_' => "'_', which the standard alphabet writes '/',".into(),
                        byte if byte.is_ascii() => format!("{:?}", char::from(byte)),
                        _ => "a character beyond ASCII".to_owned(),
                    },
                    place(n * PIECE + at)
                ),
                DecodeError(base64::DecodeError::InvalidLastSymbol { .. }) => format!(
                    "the base64 data ends in a character that leaves bits over, {}",
                    place(data.len())
                ),
                DecodeError(_) | OutputSliceTooSmall => format!(
                    "the base64 data is cut, or lacks its padding, {}",
                    place(data.len())
                ),
            });
        }
    }
    Ok(())
}

/// The bytes behind `%XX`.
fn unescaped(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('%') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let byte = piece
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.extend(byte);
        out.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
    }
    Cow::Owned(out)
}

impl FromStr for DataUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for DataUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Without the data, which may be large.
impl fmt::Debug for DataUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.text.get(..self.data).unwrap_or_default();
        write!(f, "DataUri({head}..{} bytes)", self.text.len() - self.data)
    }
}

impl AsRef<str> for DataUri {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Serialize for DataUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DataUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyText;

        impl Visitor<'_> for AnyText {
            type Value = DataUri;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<DataUri, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<DataUri, E> {
                let max = DataUri::MAX_LEN;
                if text.len() > max {
                    let len = text.len();
                    return Err(E::custom(format_args!(
                        "expected a data URI of at most {max} bytes, but got {len} bytes"
                    )));
                }
                split(&text)
                    .map_err(|fault| {
                        let given = Excerpt(&text);
                        E::custom(format_args!(
                            "expected {EXPECTED}, but got the string {given}: {fault}"
                        ))
                    })
                    .map(|head| DataUri::checked(head, text))
            }
        }

        deserializer.deserialize_string(AnyText)
    }
}

/// The start of a text that is refused, so that it is told apart.
struct Excerpt<'a>(&'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(QUOTED_CHARS);
        match end.and_then(|(end, _)| self.0.get(..end)) {
            Some(start) => write!(f, "{start:?}.."),
            None => write!(f, "{:?}", self.0),
        }
    }
}

const EXPECTED: &str = "a data URI, such as \"data:image/png;base64,..\"";
const SCHEME: &str = "data:";
const DEFAULT_MEDIA_TYPE: &str = "text/plain";
/// A media type and its parameters; those in use are a tenth of it.
const MAX_HEAD: usize = 1024;
/// Of a text that is refused.
const QUOTED_CHARS: usize = 40;
/// Base64 that is checked at once; a multiple of four.
const PIECE: usize = 4096;
/// What may stand as itself beside letters and digits.
const PLAIN: &[u8] = b"-._~:/?[]@!$&'()*+,;=";

#[cfg(test)]
mod tests;
