//! Images as data URIs, the form in which they travel as arguments.
//!
//! Owns what a file, some bytes or a text must be to count as an image, and the only I/O of the
//! lower floors; must not know who sends the URI, nor what an image shows.

#[cfg(feature = "image")]
mod dynamic;
mod media_type;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::event::data_uri::DataUri;

/// What can become an image's data URI: a file, bytes, or a data URI that is there already.
///
/// A file is named by a [`Path`], never by a text, so that no mistyped URI is looked for on the
/// disk. With the feature `image` an `image::DynamicImage` is taken too, and sent as PNG.
///
/// ```
/// use std::path::Path;
/// use agent_hub_kit::{ImageInput, as_image_uris};
///
/// let drawn: &[u8] = b"\x89PNG\r\n\x1a\n..";
/// let inputs = [
///     ImageInput::from(drawn),
///     ImageInput::from("data:image/gif;base64,R0lGODlhAQABAAAAACw="),
/// ];
/// assert_eq!(as_image_uris(inputs)?[1].media_type(), "image/gif");
/// let file = ImageInput::from(Path::new("photo.jpg")); // read when it is encoded
/// # let _ = file;
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
#[derive(Clone)]
pub struct ImageInput(Form);

#[derive(Clone)]
enum Form {
    Bytes(Bytes),
    /// Bytes that were to be made out of something else, as PNG.
    Drawn(Result<Bytes>),
    File(PathBuf),
    Text(String),
    Uri(DataUri),
}

/// Makes data URIs of images, in their order: what a tool takes as its argument `images`.
///
/// Files are read here, one after the other, on the calling thread.
///
/// ```
/// use agent_hub_kit::as_image_uris;
/// use serde_json::json;
///
/// # let file = std::env::temp_dir().join(format!("as_image_uris-{}.png", std::process::id()));
/// # std::fs::write(&file, b"\x89PNG\r\n\x1a\n")?;
/// let arguments = json!({ "user_request": "What is it?", "images": as_image_uris([&file])? });
/// assert_eq!(arguments["images"][0], "data:image/png;base64,iVBORw0KGgo=");
///
/// let missing = as_image_uris([file.with_file_name("no such.png")]).unwrap_err();
/// assert!(missing.to_string().contains("no such.png"), "{missing}");
/// # std::fs::remove_file(&file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`encode_image_to_data_uri`] for the first image that is none, with its place in the
/// list.
pub fn as_image_uris<I>(images: I) -> Result<Vec<DataUri>>
where
    I: IntoIterator<Item: Into<ImageInput>>,
{
    let encoded = images.into_iter().enumerate().map(|(n, image)| {
        encode_image_to_data_uri(image).map_err(|error| match error {
            Error::Config { detail } => Error::config(format!("images[{n}]: {detail}")),
            error => error,
        })
    });
    encoded.collect()
}

/// Makes the data URI of an image.
///
/// The media type of a file is that of its extension (png, jpg, jpeg, gif, webp, bmp, svg, avif,
/// tif, tiff), else what its first bytes say. Bytes without a name are what their first ones say,
/// else `image/png`. A data URI stays as it is, once it is found right. Nothing is decoded: whether
/// the pixels make sense, the receiver sees.
///
/// Reads a file on the calling thread.
///
/// ```
/// use agent_hub_kit::encode_image_to_data_uri;
///
/// let uri = encode_image_to_data_uri(b"GIF89a..")?;
/// assert_eq!(uri.as_str(), "data:image/gif;base64,R0lGODlhLi4=");
/// assert_eq!(encode_image_to_data_uri(uri.as_str())?, uri);
///
/// let text = encode_image_to_data_uri("photo.png").unwrap_err();
/// assert!(text.to_string().contains("Path::new"), "{text}");
/// # Ok::<(), agent_hub_kit::Error>(())
/// ```
///
/// # Errors
/// [`Error::Config`], which names the file and says what to do, when
/// * a file is missing, cannot be read, is no regular file, or is no image by its name and content;
/// * there are no bytes, or too many for a data URI of [`DataUri::MAX_LEN`], which is told before
///   a file is read;
/// * a text is no data URI, or one that is no image.
///
/// [`Error::Limit`] for a text over [`DataUri::MAX_LEN`].
pub fn encode_image_to_data_uri(image: impl Into<ImageInput>) -> Result<DataUri> {
    match image.into().0 {
        Form::Bytes(data) => encode(media_type::by_content(&data), &data),
        Form::Drawn(data) => encode(Some("image/png"), &data?),
        Form::File(path) => {
            let file =
                |fault: &dyn fmt::Display| Error::config(format!("the image {path:?} {fault}"));
            let data = read(&path).map_err(|fault| file(&fault))?;
            let by_name = path.extension().and_then(|name| name.to_str());
            let media_type = by_name
                .and_then(media_type::by_extension)
                .or_else(|| media_type::by_content(&data))
                .ok_or_else(|| file(&NO_IMAGE))?;
            DataUri::encode(media_type, data)
        }
        Form::Text(text) if !has_scheme(&text) => {
            let start: String = text.chars().take(QUOTED_CHARS).collect();
            let more = if start.len() < text.len() { ".." } else { "" };
            Err(Error::config(format!(
                "{start:?}{more} is no data URI, such as \"data:image/png;base64,..\"; if it names \
                 a file, give it as a path: Path::new(..)"
            )))
        }
        Form::Text(text) => image_only(DataUri::parse(text)?),
        Form::Uri(uri) => image_only(uri),
    }
}

fn encode(media_type: Option<&str>, data: &[u8]) -> Result<DataUri> {
    check_len(data.len() as u64).map_err(|fault| Error::config(format!("the image {fault}")))?;
    DataUri::encode(media_type.unwrap_or("image/png"), data)
}

fn image_only(uri: DataUri) -> Result<DataUri> {
    let media_type = uri.media_type();
    if !media_type.starts_with("image/") {
        return Err(Error::config(format!(
            "a data URI of the media type {media_type} is no image: its media type begins with image/"
        )));
    }
    if !uri.has_data() {
        return Err(Error::config(format!(
            "the data URI {uri} is empty: nothing stands behind its comma"
        )));
    }
    Ok(uri)
}

/// The bytes of a file, or what is said of it.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unread = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => "does not exist: check the path and the current folder".into(),
        _ => format!("cannot be read: {error}"),
    };
    // Asked first, since to open a pipe or a device may wait for ever.
    let about = fs::metadata(path).map_err(unread)?;
    if about.is_dir() {
        return Err("is a directory: name the files in it".to_owned());
    }
    if !about.is_file() {
        return Err("is no regular file: copy what it gives into one".to_owned());
    }
    // What stands in /proc has no length, and bytes all the same.
    check_len(about.len().max(1))?;
    let file = File::open(path).map_err(unread)?;
    let mut data = Vec::new();
    // It may have grown since.
    let mut file = file.take(MAX_BYTES + 1);
    file.read_to_end(&mut data).map_err(unread)?;
    check_len(data.len() as u64)?;
    Ok(data)
}

fn check_len(len: u64) -> Result<(), String> {
    match len {
        0 => Err("is empty".to_owned()),
        1..=MAX_BYTES => Ok(()),
        _ => Err(format!(
            "is too large: of {len} bytes at most {MAX_BYTES} fit in a data URI, so scale it down"
        )),
    }
}

fn has_scheme(text: &str) -> bool {
    text.get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

impl From<&Path> for ImageInput {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl From<PathBuf> for ImageInput {
    fn from(path: PathBuf) -> Self {
        Self(Form::File(path))
    }
}

impl From<&PathBuf> for ImageInput {
    fn from(path: &PathBuf) -> Self {
        path.clone().into()
    }
}

impl From<&[u8]> for ImageInput {
    fn from(data: &[u8]) -> Self {
        Bytes::copy_from_slice(data).into()
    }
}

impl<const N: usize> From<&[u8; N]> for ImageInput {
    fn from(data: &[u8; N]) -> Self {
        data.as_slice().into()
    }
}

impl From<Vec<u8>> for ImageInput {
    fn from(data: Vec<u8>) -> Self {
        Bytes::from(data).into()
    }
}

impl From<Bytes> for ImageInput {
    fn from(data: Bytes) -> Self {
        Self(Form::Bytes(data))
    }
}

/// A data URI. A file is given as a [`Path`].
impl From<&str> for ImageInput {
    fn from(uri: &str) -> Self {
        uri.to_owned().into()
    }
}

/// A data URI. A file is given as a [`PathBuf`].
impl From<String> for ImageInput {
    fn from(uri: String) -> Self {
        Self(Form::Text(uri))
    }
}

impl From<DataUri> for ImageInput {
    fn from(uri: DataUri) -> Self {
        Self(Form::Uri(uri))
    }
}

/// Without the data, which may be large.
impl fmt::Debug for ImageInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Bytes(data) | Form::Drawn(Ok(data)) => {
                write!(f, "ImageInput({} bytes)", data.len())
            }
            Form::Drawn(Err(error)) => write!(f, "ImageInput({error})"),
            Form::File(path) => write!(f, "ImageInput({path:?})"),
            Form::Text(text) => write!(f, "ImageInput({} characters)", text.chars().count()),
            Form::Uri(uri) => write!(f, "ImageInput({uri:?})"),
        }
    }
}

/// As many as fit in a data URI: three bytes become four characters, and the rest is what stands
/// before them.
const MAX_BYTES: u64 = (DataUri::MAX_LEN as u64 - 64) / 4 * 3;
/// Of a text that is refused, so that it is told apart.
const QUOTED_CHARS: usize = 40;
const NO_IMAGE: &str = "is no image, by its name and by its content: known are png, jpg, gif, webp, \
                        bmp, svg, avif and tiff";

#[cfg(test)]
mod tests;
