//! `agent-hub call --image`: what becomes of the files, and what is said of those that are none.

use super::*;

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let name = format!("agent-hub-cli-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, data: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, data).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn images_fill_the_argument_in_their_order() {
    let folder = Folder::new("fill");
    let served = serve().await;
    let png = &*folder.file("a b.png", b"\x89PNG\r\n\x1a\n");
    let gif = &*folder.file("GIF", b"GIF89a");
    let both = [
        "data:image/png;base64,iVBORw0KGgo=",
        "data:image/gif;base64,R0lGODlh",
    ];
    for (args, input, wanted) in [
        (
            &["--image", png, "--image", gif][..],
            "",
            json!({ "images": both }),
        ),
        (
            &[r#"{"n":1,"images":["data:,x"]}"#, "--image", png],
            "",
            json!({ "n": 1, "images": ["data:,x", both[0]] }),
        ),
        (
            &["-", "--image", gif],
            r#"{"images":null}"#,
            json!({ "images": [both[1]] }),
        ),
    ] {
        let args = [&["call", &served.url, "given"], args].concat();
        let call = run_fed(&args, input.as_bytes()).await;
        assert_eq!(call.code, Some(0), "{args:?}: {}", call.err);
        let given: Value = serde_json::from_str(&call.out).unwrap();
        assert_eq!(given, wanted, "{args:?}");
    }
    // Before the words too, which it must not swallow.
    let call = run(&["call", "--image", gif, &served.url, "given", "{}"]).await;
    assert_eq!(call.out.trim(), json!({ "images": [both[1]] }).to_string());
}

#[tokio::test]
async fn what_is_no_image_is_wrong_usage_and_calls_nobody() {
    let folder = Folder::new("wrong");
    let missing = folder.0.join("no such.png");
    let text = folder.file("notes.txt", b"Dear diary");
    let empty = folder.file("empty.png", b"");
    let good = folder.file("good.png", b"\x89PNG\r\n\x1a\n");
    let pipe = folder.0.join("pipe.png");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (args, wanted) in [
        (
            &["--image", missing.to_str().unwrap()][..],
            "no such.png\" does not exist",
        ),
        (&["--image", &text], "notes.txt\" is no image"),
        (
            &["--image", &good, "--image", &empty],
            "empty.png\" is empty",
        ),
        (&["--image", folder.0.to_str().unwrap()], "is a directory"),
        (
            &["--image", pipe.to_str().unwrap()],
            "pipe.png\" is no regular file",
        ),
        (&["--image"], "--image <FILE>"),
        (
            &[r#"{"images":"x"}"#, "--image", &good],
            "`images` in the JSON is no array",
        ),
    ] {
        // Nobody listens there, which would be another exit status.
        let (url, _socket) = nowhere();
        let call = run(&[&["call", &url, "given"], args].concat()).await;
        assert_eq!(call.code, Some(2), "{args:?}: {}", call.err);
        assert!(call.err.contains(wanted), "{args:?}: {}", call.err);
        assert_eq!(call.out, "", "{args:?}");
    }
}
