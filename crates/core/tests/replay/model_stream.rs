//! What an endpoint could send: raw bytes of a body, or pieces of content in well-formed events. However they are cut,
//! the same chunks come of them, and the last one, and only that, is an end.
//!
//! The first three bytes choose whether the stream begins inside the thinking, which of the two it is, and how it is cut.

use sotto_core::model::Chunk;
use sotto_core::model::stream::{Chunks, Stream, StreamOptions};

fn read<'a>(starts_inside: bool, pieces: impl Iterator<Item = &'a [u8]>) -> Chunks {
    let mut stream = Stream::new(StreamOptions { starts_inside, ..StreamOptions::default() });
    let mut chunks = Chunks::new();
    let mut join = |more: Chunks| {
        for chunk in more {
            match (chunks.last_mut(), chunk) {
                (Some(Ok(Chunk::Text(before))), Ok(Chunk::Text(text)))
                | (Some(Ok(Chunk::Reasoning(before))), Ok(Chunk::Reasoning(text))) => before.push_str(&text),
                (_, chunk) => chunks.push(chunk),
            }
        }
    };
    for piece in pieces {
        join(stream.push(piece));
    }
    join(stream.finish());
    chunks
}

/// One event for each piece of the text; the pieces are separated by a zero byte.
fn as_events(content: &[u8]) -> Vec<u8> {
    let events = content.split(|&byte| byte == 0).map(|piece| {
        let piece = serde_json::Value::from(String::from_utf8_lossy(piece));
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{piece}}}}}]}}\n\n")
    });
    events.chain(["data: [DONE]\n\n".to_owned()]).collect::<String>().into_bytes()
}

pub(crate) fn check(input: &[u8]) {
    let [starts_inside, raw, cut, bytes @ ..] = input else { return };
    let (starts_inside, raw) = (starts_inside & 1 == 1, raw & 1 == 1);
    let body = if raw { bytes.to_vec() } else { as_events(bytes) };
    let whole = read(starts_inside, std::iter::once(&body[..]));
    assert_eq!(whole, read(starts_inside, body.chunks(*cut as usize + 1)));
    let is_end = |chunk: &Result<Chunk, _>| matches!(chunk, Ok(Chunk::Finish(_)) | Err(_));
    assert!(whole.last().is_some_and(is_end));
    assert_eq!(whole.iter().filter(|chunk| is_end(chunk)).count(), 1);
    if !raw {
        // The same content in one event: how a model's text is cut into events says nothing either.
        let joined: Vec<u8> = bytes.iter().copied().filter(|&byte| byte != 0).collect();
        if std::str::from_utf8(bytes).is_ok() {
            assert_eq!(whole, read(starts_inside, std::iter::once(&as_events(&joined)[..])));
        }
    }
}
