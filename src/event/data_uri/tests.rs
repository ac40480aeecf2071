use serde_json::json;

use super::*;

#[test]
fn data_uris_are_read() {
    let padded = format!("data:;base64,{}", "QUJD".repeat(3000));
    let long = "ABC".repeat(3000);
    #[rustfmt::skip]
    let cases = [
        ("data:,", "text/plain", &b""[..]),
        ("data:,A%20brief%20note", "text/plain", b"A brief note"),
        ("data:text/plain;charset=iso-8859-7,%be%d3%be", "text/plain", b"\xbe\xd3\xbe"),
        ("data:;charset=utf-8,%E3%81%82", "text/plain", "あ".as_bytes()),
        ("data:image/png;base64,iVBORw0KGgo=", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("DATA:Image/PNG;BASE64,iVBORw0KGgo=", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("data:image/png;base64,iVBORw0KGgo%3D", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("data:image/svg+xml;a=b;charset=utf-8;base64,PA==", "image/svg+xml", b"<"),
        ("data:;base64,", "text/plain", b""),
        ("data:base64/x,a", "base64/x", b"a"),
        ("data:a/b,x,y;base64,=", "a/b", b"x,y;base64,="),
        ("data:a/b,-._~:/?[]@!$&'()*+,;=", "a/b", b"-._~:/?[]@!$&'()*+,;="),
        (&padded, "text/plain", long.as_bytes()),
    ];
    for (text, media_type, data) in cases {
        let shown = &text[..text.len().min(60)];
        let uri = DataUri::parse(text).expect(shown);
        assert_eq!(uri.media_type(), media_type, "{shown}");
        assert_eq!(uri.decode(), data, "{shown}");
        assert_eq!(uri.as_str(), text, "{shown}");
        assert_eq!(uri.to_string(), text, "{shown}");
        assert_eq!(text.parse::<DataUri>().unwrap(), uri, "{shown}");
    }
}

#[test]
fn what_is_no_data_uri_is_refused_with_what_and_where() {
    let long_head = format!("data:a/b;c={},x", "d".repeat(MAX_HEAD));
    let long_name = format!("data:{}/b,x", "a".repeat(128));
    let inner_padding = format!(
        "data:;base64,{}QQ=={}",
        "QUJD".repeat(1000),
        "QUJD".repeat(1000)
    );
    let late = format!("data:;base64,{}QU*D", "QUJD".repeat(3000));
    #[rustfmt::skip]
    let cases = [
        ("", "does not start with `data:`"),
        ("あああ", "does not start with `data:`"),
        ("https://example.org/x.png", "does not start with `data:`"),
        (" data:,x", "does not start with `data:`"),
        ("data:", "no comma stands before the data"),
        ("data:image/png;base64", "no comma stands before the data"),
        (&long_head, "no comma within 1024 bytes"),
        ("data:png;base64,QUJD", "its media type \"png\" has no `/`"),
        ("data:image/;base64,QUJD", "its media type \"image/\" is not two names"),
        ("data:/png,x", "its media type \"/png\" is not two names"),
        ("data:image/png/x,x", "is not two names"),
        ("data:image png,x", "has no `/`"),
        ("data:画/png,x", "is not two names"),
        (&long_name, "is not two names"),
        ("data:image/svg+xml;utf8,x", "its parameter \"utf8\" is not a name, `=` and a value"),
        ("data:a/b;,x", "its parameter \"\" is not"),
        ("data:a/b;c=,x", "its parameter \"c=\" is not"),
        ("data:a/b;=d,x", "its parameter \"=d\" is not"),
        ("data:a/b;c=\"d\",x", "the value of its parameter `c` holds more"),
        ("data:a/b;c=%zz,x", "the value of its parameter `c` holds more"),
        ("data:a/b;base64;c=d,QUJD", "`;base64` is not the last word"),
        ("data:,a b", "at byte 7 the character ' ', which must be written as %XX"),
        ("data:,aあ", "at byte 7 the character 'あ'"),
        ("data:,a#b", "at byte 7 the character '#'"),
        ("data:,\n", "at byte 6 the character '\\n'"),
        ("data:image/svg+xml,<svg/>", "the character '<'"),
        ("data:,a%4", "at byte 7 a `%` without two hexadecimal digits"),
        ("data:,%+1", "at byte 6 a `%` without"),
        ("data:,%", "at byte 6 a `%` without"),
        ("data:;base64,QU D", "the base64 data holds ' ' at byte 15"),
        ("data:;base64,QU_D", "the base64 data holds '_', which the standard alphabet writes '/', at byte 15"),
        ("data:;base64,-UID", "the base64 data holds '-', which the standard alphabet writes '+', at byte 13"),
        ("data:;base64,QéID", "the base64 data holds a character beyond ASCII at byte 14"),
        ("data:;base64,%C3%A9UI", "the base64 data holds a character beyond ASCII at byte 0 of"),
        ("data:;base64, QUJD", "the base64 data holds ' ' at byte 13"),
        ("data:;base64 ,QUJD", "its parameter \"base64 \" is not"),
        ("data: image/png,x", "is not two names"),
        ("data:image/*,x", "is not two names"),
        ("data:image/png;base64;base64,QUJD", "`;base64` is not the last word"),
        ("data:image/png;base64=1;,x", "its parameter \"\" is not"),
        ("data:image/png;charset=é,x", "the value of its parameter `charset` holds more"),
        ("data:image/png;ch=a%2,x", "or a bad %XX"),
        ("data:;base64,QUJD\n", "the base64 data"),
        ("data:;base64,QUJ", "is cut, or lacks its padding, at byte 16"),
        ("data:;base64,QQ", "is cut, or lacks its padding"),
        ("data:;base64,QQ=", "is cut, or lacks its padding"),
        ("data:;base64,QR==", "leaves bits over"),
        ("data:;base64,QQ==QUJD", "the base64 data holds '=' at byte"),
        ("data:;base64,====", "the base64 data"),
        ("data:;base64,QU%4", "at byte 15 a `%` without"),
        ("data:;base64,%51U*D", "holds '*' at byte 2 of the data without its %XX"),
        (&inner_padding, "goes on after the padding at byte 4015"),
        (&late, "holds '*' at byte 12015"),
    ];
    for (text, wanted) in cases {
        let shown = &text.chars().take(60).collect::<String>();
        let error = DataUri::parse(text).expect_err(shown);
        assert!(matches!(error, Error::Config { .. }), "{shown}: {error:?}");
        let error = error.to_string();
        assert!(error.contains(wanted), "{shown}: {error}");
        assert!(error.len() < 300, "{shown}: {error}");
    }
}

#[test]
fn data_is_encoded_under_its_media_type() {
    for (media_type, data, wanted) in [
        (
            "image/png",
            &b"\x89PNG"[..],
            "data:image/png;base64,iVBORw==",
        ),
        ("Image/PNG", b"", "data:Image/PNG;base64,"),
        ("", b"x", "data:;base64,eA=="),
        (
            "a/b;c=d;e=%20",
            b"\xff\xfe\xfd",
            "data:a/b;c=d;e=%20;base64,//79",
        ),
    ] {
        let uri = DataUri::encode(media_type, data).expect(media_type);
        assert_eq!(uri.as_str(), wanted);
        assert_eq!(uri, DataUri::parse(wanted).unwrap(), "as it is read");
        assert_eq!(uri.decode(), data, "{wanted}");
    }
    let long = "a/".to_owned() + &"b".repeat(2000);
    for (media_type, wanted) in [
        (
            "png",
            "\"png\" is no media type: its media type \"png\" has no `/`",
        ),
        ("image/png,", "it holds a comma"),
        ("image/png;base64", "`;base64` is not the last word"),
        ("image/png;", "its parameter \"\" is not"),
        ("image/*", "is not two names"),
        ("画/png", "is not two names"),
        (&long, "\".. is no media type: no comma within 1024 bytes"),
    ] {
        let error = DataUri::encode(media_type, "x").expect_err(media_type);
        assert!(matches!(error, Error::Config { .. }), "{error:?}");
        assert!(error.to_string().contains(wanted), "{media_type}: {error}");
    }
    let most = (DataUri::MAX_LEN - "data:a/b;base64,".len()) / 4 * 3;
    let most = vec![0; most + 3];
    let brim = DataUri::encode("a/b", most.get(3..).unwrap()).unwrap();
    assert_eq!(brim.as_str().len(), DataUri::MAX_LEN);
    let over = DataUri::encode("a/b", most).unwrap_err();
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

#[test]
fn a_data_uri_over_the_limit_is_refused() {
    let text = "data:,".to_owned() + &"x".repeat(DataUri::MAX_LEN - 6);
    assert_eq!(
        DataUri::parse(text.clone()).unwrap().decode().len(),
        DataUri::MAX_LEN - 6
    );
    let error = DataUri::parse(text + "x").unwrap_err();
    assert!(
        matches!(
            error,
            Error::Limit {
                max: 67_108_864,
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn parameters_are_found_by_name() {
    let uri = DataUri::parse("data:a/b;x=1;Name=%E3%81%82;x=2;base64,QQ==").unwrap();
    for (name, wanted) in [
        ("x", Some("1")),
        ("name", Some("あ")),
        ("base64", None),
        ("y", None),
    ] {
        assert_eq!(uri.parameter(name).as_deref(), wanted, "{name}");
    }
    assert!(uri.is_base64());
    assert_eq!(
        DataUri::parse("data:,x=1;y=2").unwrap().parameter("y"),
        None
    );
}

#[test]
fn serde_reads_and_writes_it_as_a_text() {
    let uri: DataUri = serde_json::from_value(json!("data:,\u{61}")).unwrap();
    assert_eq!(serde_json::to_value(&uri).unwrap(), json!("data:,a"));
    let uri: DataUri = serde_json::from_str(r#""\u0064ata:,x""#).unwrap();
    assert_eq!(uri.decode(), "x");
    for (json, wanted) in [
        (
            json!("x.png"),
            "expected a data URI, such as \"data:image/png;base64,..\", but got the string \"x.png\": it does not start with `data:`",
        ),
        (json!(7), "expected a data URI, such as"),
        (json!(null), "expected a data URI, such as"),
    ] {
        let error = serde_json::from_value::<DataUri>(json.clone()).unwrap_err();
        assert!(error.to_string().contains(wanted), "{json}: {error}");
    }
}

#[test]
fn what_is_shown_for_debugging_leaves_the_data_out() {
    let uri = DataUri::parse("data:image/png;base64,iVBORw0KGgo=").unwrap();
    assert_eq!(
        format!("{uri:?}"),
        "DataUri(data:image/png;base64,..12 bytes)"
    );
}
