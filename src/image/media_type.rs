//! Which kind of image something is, by its name and by its first bytes.
//!
//! Owns the kinds that are known; must not know where the bytes come from.

/// By the extension of a file's name, in any case.
pub(super) fn by_extension(extension: &str) -> Option<&'static str> {
    let known = KINDS.iter();
    let mut known =
        known.flat_map(|(media_type, names)| names.iter().map(move |n| (n, *media_type)));
    let (_, media_type) = known.find(|(name, _)| name.eq_ignore_ascii_case(extension))?;
    Some(media_type)
}

/// By the first bytes. SVG has none of its own and is found by its root element.
pub(super) fn by_content(data: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| data.starts_with(magic);
    // What follows the length of a box or of a chunk.
    let brand = |from: usize, names: &[&[u8; 4]]| {
        let found = data.get(from..from + 4);
        found.is_some_and(|found| names.iter().any(|name| *name == found))
    };
    // Two letters alone begin many a text; a bitmap has four zeros soon after.
    let reserved = data.get(6..10);
    if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        Some("image/gif")
    } else if starts(b"RIFF") && brand(8, &[b"WEBP"]) {
        Some("image/webp")
    } else if starts(b"BM") && reserved == Some(&[0; 4]) {
        Some("image/bmp")
    } else if brand(4, &[b"ftyp"]) && brand(8, &[b"avif", b"avis"]) {
        Some("image/avif")
    } else if starts(b"II*\0") || starts(b"MM\0*") {
        Some("image/tiff")
    } else if is_svg(data) {
        Some("image/svg+xml")
    } else {
        None
    }
}

/// Whether `<svg` is the first element, behind what XML allows to stand before it.
fn is_svg(data: &[u8]) -> bool {
    let start = data.get(..data.len().min(SVG_WINDOW)).unwrap_or_default();
    let mut rest = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    loop {
        rest = rest.trim_ascii_start();
        let end: &[u8] = match rest {
            [b'<', b's', b'v', b'g', next, ..] => {
                return next.is_ascii_whitespace() || matches!(next, b'>' | b'/');
            }
            [b'<', b'?', ..] => b"?>",
            [b'<', b'!', b'-', b'-', ..] => b"-->",
            [b'<', b'!', ..] => b">",
            _ => return false,
        };
        let Some(at) = rest.windows(end.len()).position(|found| found == end) else {
            return false;
        };
        rest = rest.get(at + end.len()..).unwrap_or_default();
    }
}

const KINDS: &[(&str, &[&str])] = &[
    ("image/avif", &["avif"]),
    ("image/bmp", &["bmp"]),
    ("image/gif", &["gif"]),
    ("image/jpeg", &["jpg", "jpeg"]),
    ("image/png", &["png"]),
    ("image/svg+xml", &["svg"]),
    ("image/tiff", &["tif", "tiff"]),
    ("image/webp", &["webp"]),
];
/// A declaration, a licence and a document type are well below it.
const SVG_WINDOW: usize = 4096;
