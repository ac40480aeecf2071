use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn raw(json: &str) -> RawJson {
    RawJson::serialized(&serde_json::from_str::<&RawValue>(json).unwrap()).unwrap()
}

fn read(schema: &str) -> Result<Vec<ParamHeader>, String> {
    ParamHeader::read_all(&raw(schema))
}

/// What `read_all` found, as `path -> header: type`.
fn found(schema: &str) -> Vec<String> {
    let entry = |p: ParamHeader| format!("{} -> {}: {:?}", p.path.join("/"), p.name, p.kind);
    read(schema).unwrap().into_iter().map(entry).collect()
}

/// One property of each type, and one below another.
fn sample() -> Vec<ParamHeader> {
    read(
        r#"{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "count":{"type":"integer","x-mcp-header":"Count"},
            "dry":{"type":"boolean","x-mcp-header":"Dry"},
            "query":{"type":"string"},
            "where":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}}}}"#,
    )
    .unwrap()
}

/// Names and values of headers.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn sent(pairs: Pairs<'_>) -> Vec<(Box<str>, Box<str>)> {
    let pair = |&(name, value): &(&str, &str)| (name.into(), value.into());
    pairs.iter().map(pair).collect()
}

/// As HTTP brings them to the server.
fn arrived(headers: &[(Box<str>, Box<str>)]) -> Vec<(Box<str>, Box<str>)> {
    let arrive = |(name, value): &(Box<str>, Box<str>)| {
        (
            name.to_lowercase().into(),
            value.trim_matches([' ', '\t']).into(),
        )
    };
    headers.iter().map(arrive).collect()
}

// Covers R-1410.
#[test]
fn annotations_are_found_wherever_properties_alone_lead() {
    let cases: &[(&str, &[&str])] = &[
        (r#"{"type":"object"}"#, &[]),
        ("true", &[]),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#,
            &["a -> Mcp-Param-A: String"],
        ),
        (
            r#"{"properties":{"a":{"x-mcp-header":"!#$%&'*+-.^_`|~09azAZ","type":"integer"}}}"#,
            &["a -> Mcp-Param-!#$%&'*+-.^_`|~09azAZ: Integer"],
        ),
        // Nested, and beside a header of its own.
        (
            r#"{"properties":{"a":{"properties":{"b":{"properties":{"c":{"type":"boolean","x-mcp-header":"C"}}}}}}}"#,
            &["a/b/c -> Mcp-Param-C: Boolean"],
        ),
        (
            r#"{"properties":{"a":{"properties":{"b":{"type":"string","x-mcp-header":"B"}},"type":"string","x-mcp-header":"A"}}}"#,
            &["a -> Mcp-Param-A: String", "a/b -> Mcp-Param-B: String"],
        ),
        // Properties that have the names of words.
        (
            r#"{"properties":{"x-mcp-header":{"type":"string"},"items":{"type":"string","x-mcp-header":"I"},
                "properties":{"properties":{"default":{"type":"string","x-mcp-header":"D"}}}}}"#,
            &[
                "items -> Mcp-Param-I: String",
                "properties/default -> Mcp-Param-D: String",
            ],
        ),
        (
            r#"{"properties":{"l":{"items":{"properties":{"x-mcp-header":{"type":"string"}}}}},
                "required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["l"]},
                "$defs":{"x-mcp-header":{"type":"string"}},"patternProperties":{"x-mcp-header":{}}}"#,
            &[],
        ),
        // What is data or prose.
        (
            r#"{"description":"x-mcp-header","default":{"x-mcp-header":"A"},"enum":[{"x-mcp-header":1}],
                "const":{"properties":{"x-mcp-header":{"x-mcp-header":""}}},"examples":[[{"x-mcp-header":null}]]}"#,
            &[],
        ),
        // The word behind an escape.
        (
            r#"{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}"#,
            &["a -> Mcp-Param-A: String"],
        ),
        // The last of two equal keys counts.
        (
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"","type":"string","x-mcp-header":"A"}}}"#,
            &["a -> Mcp-Param-A: String"],
        ),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}},"properties":{}}"#,
            &[],
        ),
        // A text that nobody can read, in a schema without the word in sight.
        (r#"{"description":"\ud800"}"#, &[]),
    ];
    for (schema, expected) in cases {
        assert_eq!(found(schema), *expected, "{schema}");
    }
}

// Covers R-611, R-1410.
#[test]
fn one_wrong_annotation_spoils_the_tool() {
    let property = |property: &str| format!(r#"{{"properties":{{"p":{property}}}}}"#);
    let annotated = |name: &str| property(&format!(r#"{{"type":"string","x-mcp-header":{name}}}"#));
    let typed = |kind: &str| property(&format!(r#"{{{kind}"x-mcp-header":"A"}}"#));
    let bad = r#"{"type":"string","x-mcp-header":"A"}"#;
    let mut cases = vec![
        (annotated(r#""""#), "is empty"),
        (annotated("null"), "is not a string"),
        (annotated("false"), "is not a string"),
        (annotated(r#"["A"]"#), "is not a string"),
        (annotated(r#""My Region""#), "is no HTTP header name"),
        (annotated(r#""Region:Primary""#), "is no HTTP header name"),
        (annotated(r#""Région""#), "is no HTTP header name"),
        (annotated(r#""Region\t1""#), "is no HTTP header name"),
        (annotated(r#""A\r\nB""#), "is no HTTP header name"),
        (annotated(r#""A\u007f""#), "is no HTTP header name"),
        (annotated(r#""A/B""#), "is no HTTP header name"),
        (annotated(&format!("{:?}", "a".repeat(129))), "is longer than 128 bytes"),
        (bad.to_owned(), "is not reached"),
        (r#"{"x-mcp-header":"A","properties":{}}"#.to_owned(), "is not reached"),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"MyField"},
                "b":{"type":"string","x-mcp-header":"myfield"}}}"#
                .to_owned(),
            "stands at another property too",
        ),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"R"},
                "o":{"properties":{"b":{"type":"string","x-mcp-header":"R"}}}}}"#
                .to_owned(),
            "stands at another property too",
        ),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"Good"}},"items":{"x-mcp-header":"A"}}"#.to_owned(),
            "is not reached",
        ),
        // Unreadable, with the word in sight.
        (r#"{"x-mcp-header":"\ud800"}"#.to_owned(), "cannot be read"),
        (r#"{"description":"\ud800x-mcp-header"}"#.to_owned(), "cannot be read"),
    ];
    for kind in [
        "",
        r#""type":"number","#,
        r#""type":"object","#,
        r#""type":"array","#,
        r#""type":"null","#,
        r#""type":"String","#,
        r#""type":["string"],"#,
        r#""type":["string","null"],"#,
        r##""$ref":"#/$defs/a","##,
    ] {
        cases.push((typed(kind), "needs the type string, integer or boolean"));
    }
    for word in [
        "items",
        "not",
        "if",
        "then",
        "else",
        "$ref",
        "additionalProperties",
        "contains",
        "propertyNames",
        "unevaluatedProperties",
        "oneOf",
        "anyOf",
        "allOf",
        "prefixItems",
        "x-unknown",
    ] {
        for value in [bad.to_owned(), format!("[true,[{bad}]]"), property(bad)] {
            cases.push((format!(r#"{{"{word}":{value}}}"#), "is not reached"));
            cases.push((
                property(&format!(r#"{{"{word}":{value}}}"#)),
                "is not reached",
            ));
        }
    }
    for word in [
        "$defs",
        "definitions",
        "dependentSchemas",
        "patternProperties",
    ] {
        for value in [bad.to_owned(), property(bad)] {
            cases.push((
                format!(r#"{{"{word}":{{"default":{value}}}}}"#),
                "is not reached",
            ));
        }
    }
    for (schema, why) in cases {
        let error = read(&schema).expect_err(&schema);
        assert!(error.contains(why), "{schema}: {error}");
    }
}

#[test]
fn an_error_names_the_property_and_is_short() {
    let error =
        read(r#"{"properties":{"a":{"properties":{"b":{"type":"number","x-mcp-header":"N"}}}}}"#);
    assert_eq!(
        error.unwrap_err(),
        r#"x-mcp-header at property "a.b" ("N") needs the type string, integer or boolean"#
    );
    let key = "\\u001b世".repeat(10_000);
    let name = "世\\n".repeat(30);
    let error = read(&format!(
        r#"{{"properties":{{"{key}":{{"x-mcp-header":"{name}"}}}}}}"#
    ));
    let error = error.unwrap_err();
    assert!(error.len() < 1_000, "{} bytes", error.len());
    assert!(!error.contains(char::is_control), "{error}");
}

#[test]
fn headers_of_a_tool_and_the_schema_they_stand_in_are_bounded() {
    let schema = |count: usize, filler: usize| {
        let property = |n| format!(r#""p{n}":{{"type":"string","x-mcp-header":"P{n}"}}"#);
        let properties: Vec<String> = (0..count).map(property).collect();
        let filler = "x".repeat(filler);
        format!(
            r#"{{"description":"{filler}","properties":{{{}}}}}"#,
            properties.join(",")
        )
    };
    assert_eq!(read(&schema(64, 0)).unwrap().len(), 64);
    assert!(
        read(&schema(65, 0))
            .unwrap_err()
            .contains("one more than the 64")
    );
    assert_eq!(read(&schema(1, 1_000_000)).unwrap().len(), 1);
    assert!(
        read(&schema(1, 2_000_000))
            .unwrap_err()
            .contains("longer than")
    );
    assert!(read(&schema(0, 2_000_000)).unwrap().is_empty());
    // Deeper than is parsed.
    let deep = format!(r#"{{"a":{}{}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(read(&format!(r#"{deep},"x-mcp-header":1}}"#)).is_err());
    assert!(read(&format!(r#"{deep},"\u0061":1}}"#)).unwrap().is_empty());
}

// Covers R-1409, R-1411.
#[test]
fn a_client_sends_what_the_arguments_hold() {
    let cases: &[(&str, Pairs<'_>)] = &[
        ("{}", &[]),
        ("null", &[]),
        (r#"["us"]"#, &[]),
        (
            r#"{"region":"us-west1","count":42,"dry":false,"query":"SELECT 1","where":{"zone":"b"}}"#,
            &[
                ("Region", "us-west1"),
                ("Count", "42"),
                ("Dry", "false"),
                ("Zone", "b"),
            ],
        ),
        (
            r#"{"region":null,"count":null,"dry":null,"where":null}"#,
            &[],
        ),
        (r#"{"where":{"zone":null}}"#, &[]),
        (r#"{"zone":"b","where":{"where":{"zone":"b"}}}"#, &[]),
        (r#"{"region":""}"#, &[("Region", "")]),
        (
            r#"{"region":" padded "}"#,
            &[("Region", "=?base64?IHBhZGRlZCA=?=")],
        ),
        (
            r#"{"region":"line1\nline2"}"#,
            &[("Region", "=?base64?bGluZTEKbGluZTI=?=")],
        ),
        (
            r#"{"region":"Hello, \u4e16界"}"#,
            &[("Region", "=?base64?SGVsbG8sIOS4lueVjA==?=")],
        ),
        (r#"{"region":"\"a\" \\ \/"}"#, &[("Region", r#""a" \ /"#)]),
        (r#"{ "re\u0067ion" : "us" }"#, &[("Region", "us")]),
        // Integers.
        (r#"{"count":0}"#, &[("Count", "0")]),
        (r#"{"count":-0.0}"#, &[("Count", "0")]),
        (r#"{"count":42.0}"#, &[("Count", "42")]),
        (r#"{"count":-4.2E+1}"#, &[("Count", "-42")]),
        (
            r#"{"count":9007199254740991}"#,
            &[("Count", "9007199254740991")],
        ),
        (
            r#"{"count":-9007199254740991.0}"#,
            &[("Count", "-9007199254740991")],
        ),
        (r#"{"count":9007199254740992}"#, &[]),
        (r#"{"count":-9007199254740992}"#, &[]),
        (r#"{"count":9223372036854775808}"#, &[]),
        (r#"{"count":1e400}"#, &[]),
        (r#"{"count":0.5}"#, &[]),
        // Types that do not fit.
        (r#"{"region":1,"count":"42","dry":"true","where":"b"}"#, &[]),
        (
            r#"{"region":{},"count":[42],"dry":0,"where":[{"zone":"b"}]}"#,
            &[],
        ),
        (r#"{"region":"\ud800","count":true}"#, &[]),
        // The last of two equal keys counts.
        (r#"{"region":"a","region":"b"}"#, &[("Region", "b")]),
        (r#"{"region":"a","region":null}"#, &[]),
        (r#"{"where":{"zone":"a"},"where":{}}"#, &[]),
        (r#"{"where":{"zone":"a"},"where":1}"#, &[]),
    ];
    for (arguments, expected) in cases {
        let mut headers = headers(&sample(), &raw(arguments));
        let mut expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| (format!("Mcp-Param-{name}").into(), (*value).into()))
            .collect();
        headers.sort();
        expected.sort();
        assert_eq!(headers, expected, "{arguments}");
    }
}

// Covers R-1412.
#[test]
fn a_server_wants_headers_to_say_what_the_arguments_say() {
    let fits: &[(&str, Pairs<'_>)] = &[
        ("{}", &[]),
        ("{}", &[("mcp-param-other", "x"), ("mcp-method", "y")]),
        (r#"{"region":"Hello"}"#, &[("mcp-param-region", "Hello")]),
        (
            r#"{"region":"Hello"}"#,
            &[("mcp-param-region", "=?base64?SGVsbG8=?=")],
        ),
        (
            r#"{"region":"SGVsbG8="}"#,
            &[("mcp-param-region", "SGVsbG8=")],
        ),
        (
            r#"{"region":"=?base64?SGVsbG8="}"#,
            &[("mcp-param-region", "=?base64?SGVsbG8=")],
        ),
        (r#"{"region":""}"#, &[("mcp-param-region", "")]),
        (r#"{"region":""}"#, &[("mcp-param-region", "=?base64??=")]),
        (r#"{"count":42}"#, &[("mcp-param-count", "42")]),
        (r#"{"count":42}"#, &[("mcp-param-count", "42.0")]),
        (r#"{"count":42.0}"#, &[("mcp-param-count", "42")]),
        (r#"{"count":42}"#, &[("mcp-param-count", "4.2e1")]),
        (r#"{"count":42}"#, &[("mcp-param-count", "=?base64?NDI=?=")]),
        (r#"{"dry":true}"#, &[("mcp-param-dry", "true")]),
        (r#"{"where":{"zone":"b"}}"#, &[("mcp-param-zone", "b")]),
        // The tool's own check will speak.
        (r#"{"region":1,"count":"42","dry":"true","where":"b"}"#, &[]),
    ];
    for (arguments, headers) in fits {
        let verdict = check(&sample(), &raw(arguments), &sent(headers));
        assert_eq!(verdict, Ok(()), "{arguments} {headers:?}");
    }
    let region = "mcp-param-region";
    let count = "mcp-param-count";
    let breaches: &[(&str, Pairs<'_>, &str)] = &[
        (r#"{"region":"us"}"#, &[], "is missing"),
        (r#"{"region":"us"}"#, &[("region", "us")], "is missing"),
        (r#"{"region":""}"#, &[], "is missing"),
        (r#"{"count":42}"#, &[], "is missing"),
        (r#"{"dry":false}"#, &[], "is missing"),
        (
            r#"{"where":{"zone":"b"}}"#,
            &[("mcp-param-where", "b")],
            "is missing",
        ),
        (r#"{"region":"us"}"#, &[(region, "eu")], "does not match"),
        (r#"{"region":"us"}"#, &[(region, "US")], "does not match"),
        (r#"{"region":"us"}"#, &[(region, "")], "does not match"),
        (r#"{"region":" us"}"#, &[(region, "us")], "does not match"),
        (
            r#"{"region":"us"}"#,
            &[(region, "us, us")],
            "does not match",
        ),
        (
            r#"{"region":"us"}"#,
            &[(region, "us"), (region, "us")],
            "was sent twice",
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?BASE64?SGVsbG8=?=")],
            "does not match",
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?base64?SGVsbG8?=")],
            "base64",
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?base64?SGVs!!!bG8=?=")],
            "base64",
        ),
        (
            r#"{"region":"Hello"}"#,
            &[(region, "=?base64?/w==?=")],
            "UTF-8",
        ),
        (r#"{}"#, &[(region, "us")], "absent or null"),
        (r#"{}"#, &[(region, "")], "absent or null"),
        (r#"{"region":null}"#, &[(region, "null")], "absent or null"),
        (r#"{"region":1}"#, &[(region, "1")], "another type"),
        (r#"{"count":"42"}"#, &[(count, "42")], "another type"),
        (
            r#"{"dry":"true"}"#,
            &[("mcp-param-dry", "true")],
            "another type",
        ),
        (
            r#"{"dry":true}"#,
            &[("mcp-param-dry", "True")],
            "does not match",
        ),
        (
            r#"{"dry":true}"#,
            &[("mcp-param-dry", "1")],
            "does not match",
        ),
        (r#"{"count":42}"#, &[(count, "43")], "does not match"),
        (r#"{"count":42}"#, &[(count, "42.5")], "does not match"),
        (r#"{"count":42}"#, &[(count, "+42")], "does not match"),
        (r#"{"count":42}"#, &[(count, "042")], "does not match"),
        (r#"{"count":42}"#, &[(count, "42.")], "does not match"),
        (r#"{"count":42}"#, &[(count, "0x2a")], "does not match"),
        (r#"{"count":42}"#, &[(count, "\"42\"")], "does not match"),
        (r#"{"count":42}"#, &[(count, "42, 42")], "does not match"),
        (
            r#"{"count":42}"#,
            &[(count, "=?base64?IDQy?=")],
            "does not match",
        ),
        (r#"{"count":0}"#, &[(count, "")], "does not match"),
        (r#"{"count":0}"#, &[(count, "NaN")], "does not match"),
        (
            r#"{"count":9007199254740991}"#,
            &[(count, "9007199254740990")],
            "does not match",
        ),
        (
            r#"{"count":9007199254740991}"#,
            &[(count, "9007199254740992")],
            "does not match",
        ),
        (
            r#"{"count":9007199254740992}"#,
            &[(count, "9007199254740992")],
            "cannot carry",
        ),
        (r#"{"count":9007199254740992}"#, &[], "cannot carry"),
        (r#"{"count":0.5}"#, &[(count, "0.5")], "cannot carry"),
        (
            r#"{"region":"a","region":"b"}"#,
            &[(region, "a")],
            "does not match",
        ),
    ];
    for (arguments, headers, why) in breaches {
        let error = check(&sample(), &raw(arguments), &sent(headers)).expect_err(arguments);
        assert!(error.contains(why), "{arguments} {headers:?}: {error}");
    }
}

#[test]
fn a_breach_names_header_and_argument_but_no_value() {
    let arguments = raw(r#"{"where":{"zone":"secret"}}"#);
    let error = check(&sample(), &arguments, &sent(&[("mcp-param-zone", "other")]));
    assert_eq!(
        error.unwrap_err(),
        r#"Mcp-Param-Zone does not match its argument (argument "where.zone")"#
    );
}

#[test]
fn a_header_of_a_property_and_those_below_it_stand_side_by_side() {
    let of = read(
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","properties":{
            "b":{"type":"string","x-mcp-header":"B"},"c":{"type":"string","x-mcp-header":"C"}}}}}"#,
    )
    .unwrap();
    for (arguments, expected) in [
        (r#"{"a":"x"}"#, vec![("Mcp-Param-A", "x")]),
        (
            r#"{"a":{"c":"z","b":"y"}}"#,
            vec![("Mcp-Param-B", "y"), ("Mcp-Param-C", "z")],
        ),
    ] {
        assert_eq!(
            headers(&of, &raw(arguments)),
            sent(&expected),
            "{arguments}"
        );
    }
}

/// A schema and arguments that share their few keys, as text: with keys that stand twice.
fn property(depth: u32) -> BoxedStrategy<String> {
    let leaf = (
        prop::sample::select(vec!["string", "integer", "boolean"]),
        prop::option::weighted(0.8, "[A-F]{1,3}"),
    )
        .prop_map(|(kind, header)| match header {
            Some(header) => json!({ "type": kind, "x-mcp-header": header }).to_string(),
            None => json!({ "type": kind }).to_string(),
        });
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = vec(("[a-d]", property(depth - 1)), 0..5)
        .prop_map(|members| format!(r#"{{"properties":{}}}"#, object(members)));
    prop_oneof![2 => leaf, 1 => inner].boxed()
}

fn argument(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<i32>().prop_map(|n| n.to_string()),
        any::<i16>().prop_map(|n| format!("{n}.0")),
        any::<i16>().prop_map(|n| format!("{n}.5")),
        any::<String>().prop_map(|text| json!(text).to_string()),
        "[a-c =?]{0,4}".prop_map(|text| json!(text).to_string()),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = vec(("[a-d]", argument(depth - 1)), 0..5).prop_map(object);
    prop_oneof![2 => leaf, 1 => inner].boxed()
}

fn object(members: Vec<(String, String)>) -> String {
    let member = |(key, value): (String, String)| format!(r#""{key}":{value}"#);
    let members: Vec<String> = members.into_iter().map(member).collect();
    format!("{{{}}}", members.join(","))
}

/// The value at a header's path, as serde_json reads the arguments as a whole.
fn at(param: &ParamHeader, arguments: &str) -> serde_json::Value {
    let whole: serde_json::Value = serde_json::from_str(arguments).unwrap();
    let step =
        |value: serde_json::Value, key: &Arc<str>| value.get(&**key).cloned().unwrap_or_default();
    param.path.iter().fold(whole, step)
}

proptest! {
    #[test]
    fn a_server_agrees_with_what_a_client_sends(
        properties in vec(("[a-d]", property(2)), 0..6).prop_map(object),
        arguments in vec(("[a-d]", argument(3)), 0..6).prop_map(object),
    ) {
        // A name that stands twice is another test's matter.
        let of = read(&format!(r#"{{"properties":{properties}}}"#));
        prop_assume!(of.is_ok());
        let of = of.unwrap();
        let json = raw(&arguments);
        let headers = headers(&of, &json);
        let safe = of.iter().all(|param| {
            let value = at(param, &arguments);
            let number = value.as_f64().unwrap_or_default();
            param.kind != Kind::Integer || number.fract() == 0.0 && number.abs() < 9.007_199_254_740_992e15
        });
        let verdict = check(&of, &json, &arrived(&headers));
        prop_assert_eq!(verdict.is_ok(), safe, "{:?}", verdict);
        for param in &of {
            let value = at(param, &arguments);
            let expected = match param.kind {
                Kind::Boolean => value.as_bool().map(|b| b.to_string()),
                Kind::Integer => value
                    .as_f64()
                    .filter(|n| n.fract() == 0.0 && n.abs() < 9.007_199_254_740_992e15)
                    .map(|n| (n as i64).to_string()),
                Kind::String => value.as_str().map(str::to_owned),
            };
            let header = headers.iter().find(|(name, _)| *name == param.name);
            let text = header.map(|(_, text)| value::decode(text).unwrap().into_owned());
            prop_assert_eq!(text, expected, "{}", param.name);
        }
        for index in 0..headers.len() {
            let mut fewer = arrived(&headers);
            fewer.remove(index);
            prop_assert!(check(&of, &json, &fewer).is_err(), "without {:?}", headers[index]);
            let mut other = arrived(&headers);
            other[index].1 = format!("{}x", other[index].1).into();
            prop_assert!(check(&of, &json, &other).is_err(), "other {:?}", headers[index]);
        }
        for param in of.iter().filter(|p| !headers.iter().any(|(name, _)| *name == p.name)) {
            let mut more = arrived(&headers);
            more.push((param.name.to_lowercase().into(), "".into()));
            prop_assert!(check(&of, &json, &more).is_err(), "with {}", param.name);
        }
    }
}
