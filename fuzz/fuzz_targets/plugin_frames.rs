//! Reads any bytes as what a server writes. Never may the cutting of the stream change what is found in it, nor anything make the decoder hold more than its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_plugin_host::frame::{Decoder, Frame, Framing};

const LARGEST: usize = 256;

fn frames(bytes: &[u8], piece: usize) -> Vec<Frame> {
    let mut decoder = Decoder::new(LARGEST);
    let mut found = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.buffer().extend_from_slice(piece);
        while let Some(frame) = decoder.next_frame() {
            found.push(frame);
        }
        assert!(decoder.buffer().len() <= LARGEST + 8_192 + piece.len());
    }
    found
}

/// What was found, without the guesses about what was too large: those depend on how much of it was there.
fn messages(frames: &[Frame]) -> Vec<&[u8]> {
    frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Message(bytes) => Some(bytes.as_ref()),
            Frame::TooLarge(_) | Frame::Noise => None,
        })
        .collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else {
        return;
    };
    let whole = frames(bytes, 1);
    let cut = frames(bytes, usize::from(*piece).max(1));
    assert_eq!(messages(&whole), messages(&cut));
    for message in messages(&whole) {
        assert!(message.len() <= LARGEST + 1);
        for framing in [Framing::Lines, Framing::ContentLength] {
            let again = frames(&framing.encode(message), 7);
            // A message just at the limit is over it with its line's end.
            if message.len() < LARGEST {
                assert_eq!(again.len(), 1);
            }
        }
    }
});
