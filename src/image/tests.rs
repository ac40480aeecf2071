use std::fs;

use super::*;

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("agent-hub-kit-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, data: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, data).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[test]
fn the_extension_of_a_file_says_its_media_type() {
    let folder = Folder::new("extension");
    for (name, data, wanted) in [
        ("a.png", PNG, "data:image/png;base64,iVBORw0KGgo="),
        ("a.PNG", b"x", "data:image/png;base64,eA=="),
        ("a.jpg", b"x", "data:image/jpeg;base64,eA=="),
        ("a.jpeg", b"x", "data:image/jpeg;base64,eA=="),
        ("a.gif", b"x", "data:image/gif;base64,eA=="),
        ("a.webp", b"x", "data:image/webp;base64,eA=="),
        ("a.bmp", b"x", "data:image/bmp;base64,eA=="),
        ("a.svg", b"x", "data:image/svg+xml;base64,eA=="),
        ("a.avif", b"x", "data:image/avif;base64,eA=="),
        ("a.tif", b"x", "data:image/tiff;base64,eA=="),
        ("a.TiFf", b"x", "data:image/tiff;base64,eA=="),
        // Two names, of which the last counts.
        ("a.txt.jpg", PNG, "data:image/jpeg;base64,iVBORw0KGgo="),
        // No name that is known, so that the bytes decide.
        ("a", PNG, "data:image/png;base64,iVBORw0KGgo="),
        ("a.bin", b"GIF89a", "data:image/gif;base64,R0lGODlh"),
        (".png", PNG, "data:image/png;base64,iVBORw0KGgo="),
        ("é 'q\" .png", b"x", "data:image/png;base64,eA=="),
    ] {
        let path = folder.file(name, data);
        for input in [ImageInput::from(&path), path.as_path().into(), path.into()] {
            let uri = encode_image_to_data_uri(input).expect(name);
            assert_eq!(uri.as_str(), wanted, "{name}");
            assert!(uri.is_base64(), "{name}");
        }
    }
}

#[test]
fn the_first_bytes_say_the_media_type_of_what_has_no_name() {
    for (data, wanted) in [
        (PNG, "png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "jpeg"),
        (b"GIF87a", "gif"),
        (b"GIF89a....", "gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "webp"),
        (b"BM\x9a\0\0\0\0\0\0\0\x36\0\0\0", "bmp"),
        (b"\0\0\0\x20ftypavif", "avif"),
        (b"\0\0\0\x20ftypavis", "avif"),
        (b"II*\0\x08\0\0\0", "tiff"),
        (b"MM\0*\0\0\0\x08", "tiff"),
        (b"<svg/>", "svg+xml"),
        (b"\xef\xbb\xbf\n<?xml version=\"1.0\"?>\n<!-- <b> -->\n<!DOCTYPE svg>\n<svg xmlns=\"\">", "svg+xml"),
        // None that is known: as the Python kit has it.
        (b"x", "png"),
        (b"\x89PNG", "png"),
        (b"GIF88a", "png"),
        (b"RIFF\x24\0\0\0WAVE", "png"),
        (b"\0\0\0\x20ftypheic", "png"),
        (b"BMW builds cars", "png"),
        (b"BMW", "png"),
        (b"<svgs/>", "png"),
        (b"<html><svg/></html>", "png"),
        (b"<!-- <svg>", "png"),
        (b"<?xml <svg", "png"),
        (b"<svg", "png"),
    ] {
        let wanted = format!("image/{wanted}");
        let inputs = [
            ImageInput::from(data),
            data.to_vec().into(),
            Bytes::copy_from_slice(data).into(),
        ];
        for input in inputs {
            let uri = encode_image_to_data_uri(input).unwrap();
            assert_eq!(uri.media_type(), wanted, "{data:?}");
            assert_eq!(uri.decode(), data, "{data:?}");
        }
    }
}

#[test]
fn a_data_uri_stays_as_it_is() {
    for text in [
        "data:image/png;base64,iVBORw0KGgo=",
        "DATA:Image/PNG;Base64,iVBORw0KGgo%3d",
        "data:image/svg+xml;charset=utf-8,%3Csvg/%3E",
    ] {
        let parsed: DataUri = text.parse().unwrap();
        for input in [
            ImageInput::from(text),
            text.to_owned().into(),
            parsed.into(),
        ] {
            assert_eq!(encode_image_to_data_uri(input).unwrap().as_str(), text);
        }
    }
}

#[test]
fn what_is_no_image_is_told_with_its_place_and_what_to_do() {
    let folder = Folder::new("no-image");
    let no_file = folder.0.join("no such.png");
    let empty = folder.file("empty.png", b"");
    let text = folder.file("notes.txt", b"Dear diary");
    let unnamed = folder.file("noise", b"\0\x01\x02");
    let large = folder.file("large.png", b"");
    File::options()
        .write(true)
        .open(&large)
        .unwrap()
        .set_len(MAX_BYTES + 1)
        .unwrap();
    let below_a_file = text.join("x.png");
    let long = "x".repeat(5000);
    let none: &[u8] = b"";
    let cases = [
        (
            ImageInput::from(&no_file),
            "no such.png\" does not exist: check the path",
        ),
        (empty.into(), "empty.png\" is empty"),
        (
            text.into(),
            "notes.txt\" is no image, by its name and by its content: known are png",
        ),
        (unnamed.into(), "noise\" is no image, by its name"),
        (
            large.into(),
            "large.png\" is too large: of 50331601 bytes at most 50331600 fit",
        ),
        (
            folder.0.clone().into(),
            "is a directory: name the files in it",
        ),
        (
            below_a_file.into(),
            "notes.txt/x.png\" cannot be read: Not a directory",
        ),
        (Path::new("").into(), "the image \"\" does not exist"),
        (
            Path::new("a\0.png").into(),
            "the image \"a\\0.png\" cannot be read",
        ),
        (
            Path::new(&*long).into(),
            "cannot be read: File name too long",
        ),
        (none.into(), "images[1]: the image is empty"),
        (
            "photo.png".into(),
            "\"photo.png\" is no data URI, such as \"data:image/png;base64,..\"; if it names a file, give it as a path: Path::new(..)",
        ),
        ("".into(), "\"\" is no data URI"),
        ("/etc/data:".into(), "is no data URI"),
        (long.as_str().into(), "xxx\".. is no data URI"),
        ("データ:あ".into(), "\"データ:あ\" is no data URI"),
        (
            "data:image/png;base64,iVBOR".into(),
            "is cut, or lacks its padding",
        ),
        (
            "data:image/png;base64,".into(),
            "data:image/png;base64, is empty",
        ),
        (
            "data:,hello".into(),
            "of the media type text/plain is no image",
        ),
        (
            "data:application/pdf;base64,JVBERg==".into(),
            "application/pdf is no image",
        ),
    ];
    for (input, wanted) in cases {
        let shown = format!("{input:?}");
        let good = ImageInput::from(PNG);
        let error = as_image_uris([good, input]).expect_err(&shown);
        assert!(matches!(error, Error::Config { .. }), "{shown}: {error:?}");
        let error = error.to_string();
        assert!(error.starts_with("images[1]: "), "{shown}: {error}");
        assert!(error.contains(wanted), "{shown}: {error}");
    }
}

#[test]
fn the_bound_of_an_image_is_that_of_its_data_uri() {
    let head = "data:image/svg+xml;base64,".len() as u64;
    assert!(head + MAX_BYTES.div_ceil(3) * 4 <= DataUri::MAX_LEN as u64);
    assert!(
        DataUri::MAX_LEN as u64 - MAX_BYTES / 3 * 4 < 100,
        "no more is given away"
    );
    let over = encode_image_to_data_uri(vec![0; MAX_BYTES as usize + 1]).unwrap_err();
    assert!(
        over.to_string().starts_with("the image is too large"),
        "{over}"
    );
    let text = "data:image/png,".to_owned() + &"x".repeat(DataUri::MAX_LEN);
    let over = encode_image_to_data_uri(text).unwrap_err();
    assert!(
        matches!(
            over,
            Error::Limit {
                max: 67_108_864,
                ..
            }
        ),
        "{over:?}"
    );
}

#[cfg(unix)]
#[test]
fn what_would_wait_for_ever_is_not_opened() {
    use std::os::unix::net::UnixListener;

    let folder = Folder::new("waits");
    let pipe = folder.0.join("pipe.png");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let socket = folder.0.join("socket.png");
    let _listening = UnixListener::bind(&socket).unwrap();
    let link = folder.0.join("link.png");
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    for path in [&*pipe, &socket, &link, Path::new("/dev/zero")] {
        let error = encode_image_to_data_uri(path).unwrap_err().to_string();
        assert!(error.contains("is no regular file"), "{path:?}: {error}");
    }
    let nowhere = folder.0.join("nowhere.png");
    std::os::unix::fs::symlink(&nowhere, &nowhere).unwrap();
    let error = encode_image_to_data_uri(&nowhere).unwrap_err().to_string();
    assert!(error.contains("nowhere.png\" cannot be read"), "{error}");
    // No length is told of it, yet it has bytes.
    let Ok(version) = fs::read("/proc/version") else {
        return;
    };
    let read = read(Path::new("/proc/version")).unwrap();
    assert_eq!(read, version);
}

#[test]
fn no_images_are_no_fault() {
    assert_eq!(as_image_uris(None::<&Path>).unwrap(), []);
}

#[test]
fn what_is_shown_for_debugging_leaves_the_data_out() {
    for (input, wanted) in [
        (ImageInput::from(PNG), "ImageInput(8 bytes)"),
        (Path::new("a.png").into(), "ImageInput(\"a.png\")"),
        ("data:,x".into(), "ImageInput(7 characters)"),
        (
            DataUri::parse("data:image/png,x").unwrap().into(),
            "ImageInput(DataUri(data:image/png,..1 bytes))",
        ),
    ] {
        assert_eq!(format!("{input:?}"), wanted);
    }
}
