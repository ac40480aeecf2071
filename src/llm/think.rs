//! Takes the thoughts out of a text in which a model marks them, `<think>` to `</think>`.
//!
//! Must not know where the text comes from, nor how it was cut.

use super::stream::ChatChunk;

const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

/// Sorts a text that comes in pieces. Holds back no more than what may be the beginning of a tag.
#[derive(Debug, Default)]
pub(super) struct ThinkSplitter {
    part: Part,
    /// The beginning of a tag, as far as it has come.
    held: String,
    has_text: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    /// After a tag: white space there is the model's habit, not what it says.
    AfterOpening,
    AfterClosing,
    #[default]
    Text,
    Think,
}

impl ThinkSplitter {
    /// Takes the next piece, and gives what is certain to `emit`.
    pub(super) fn push(&mut self, piece: &str, mut emit: impl FnMut(ChatChunk)) {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        let mut rest = text.as_str();
        loop {
            if matches!(self.part, Part::AfterOpening | Part::AfterClosing) {
                rest = rest.trim_start();
                if rest.is_empty() {
                    return;
                }
                self.part = match self.part {
                    Part::AfterOpening => Part::Think,
                    _ => Part::Text,
                };
            }
            let tag = match self.part {
                Part::Think => CLOSING,
                _ => OPENING,
            };
            if let Some((before, after)) = rest.split_once(tag) {
                self.give(before, &mut emit);
                self.part = match self.part {
                    Part::Think if self.has_text => Part::Text,
                    Part::Think => Part::AfterClosing,
                    _ => Part::AfterOpening,
                };
                rest = after;
                continue;
            }
            let (sure, open) = rest.split_at(rest.len() - begun(rest, tag));
            self.give(sure, &mut emit);
            self.held.push_str(open);
            return;
        }
    }

    /// Gives what was held back for a tag that did not come.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(ChatChunk)) {
        let held = std::mem::take(&mut self.held);
        self.give(&held, &mut emit);
    }

    fn give(&mut self, text: &str, emit: &mut impl FnMut(ChatChunk)) {
        if text.is_empty() {
            return;
        }
        emit(match self.part {
            Part::Think => ChatChunk::Think(text.to_owned()),
            _ => {
                self.has_text |= !text.trim_start().is_empty();
                ChatChunk::Text(text.to_owned())
            }
        });
    }
}

/// How many bytes at the end of `text` are a beginning of `tag`.
fn begun(text: &str, tag: &str) -> usize {
    (1..tag.len())
        .rev()
        .find(|len| tag.get(..*len).is_some_and(|part| text.ends_with(part)))
        .unwrap_or(0)
}
