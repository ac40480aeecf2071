//! A server over standard streams: blocking reads and writes, nothing else.

use std::io::{BufRead, BufReader, Write};

use crate::{Outcome, wire};

/// A pipe holds this much.
const WRITE: usize = 64 * 1024;

pub(super) fn serve() -> Outcome {
    let mut input = BufReader::with_capacity(WRITE, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let (mut line, mut out) = (String::new(), Vec::with_capacity(2 * WRITE));
    while input.read_line(&mut line)? > 0 {
        answer(&line, &mut out, &mut output)?;
        line.clear();
        if input.buffer().is_empty() || out.len() >= WRITE {
            output.write_all(&out)?;
            output.flush()?;
            out.clear();
        }
    }
    Ok(())
}

fn answer(line: &str, out: &mut Vec<u8>, output: &mut impl Write) -> Outcome {
    let request: wire::Request<'_> = serde_json::from_str(line)?;
    let Some(id) = request.id else {
        return Ok(());
    };
    if request.params.name == Some("stream") {
        let arguments = request.params.arguments.map_or("{}", |raw| raw.get());
        let args: wire::Stream = serde_json::from_str(arguments)?;
        let token = request.params.meta.as_ref().and_then(|meta| meta.token);
        let token = token.ok_or("a stream needs a progress token")?;
        let (frames, text) = (
            wire::Frames::new("", token.get(), "\n"),
            wire::text(args.size),
        );
        for number in 1..=args.n {
            frames.write(out, number, &text);
            if out.len() >= WRITE {
                output.write_all(out)?;
                out.clear();
            }
        }
        out.extend_from_slice(wire::result(id.get(), "done").as_bytes());
    } else {
        out.extend_from_slice(wire::reply(id.get(), &request)?.as_bytes());
    }
    out.push(b'\n');
    Ok(())
}
