//! Sizes, depths and counts: the last that passes and the first that does not.

use super::{Pack, read};
use crate::wire::{Envelope, Limits, Malformed, decode};

const SMALL: Limits = Limits { bytes: 1_000, depth: 6, keys: 20, content_bytes: 50 };

/// A `UserMessage` with attachments of our choice.
fn with(attachments: &Pack, limits: &Limits) -> Result<Envelope, Malformed> {
    decode(&Pack::user(1).text("attachments").raw(&attachments.0).0, limits)
}

fn nested(depth: usize) -> Pack {
    Pack::new().raw(&vec![0x91; depth - 1]).raw(&[0x90])
}

#[test]
fn bytes() {
    let packet = |filler: usize| {
        let rest = Pack::user(1).text("x").raw(&[0xc5]).0.len() + 2;
        Pack::user(1)
            .text("x")
            .raw(&[0xc5])
            .raw(&(filler as u16 - rest as u16).to_be_bytes())
            .raw(&vec![0; filler - rest])
    };
    assert_eq!(packet(1_000).0.len(), 1_000);
    assert!(decode(&packet(1_000).0, &SMALL).is_ok());
    let malformed = decode(&packet(1_001).0, &SMALL).unwrap_err();
    assert_eq!(malformed.reason, "the packet is larger than 1000 bytes");
    // What stands before the limit is still seen.
    assert_eq!((malformed.stanza, malformed.kind, malformed.id.as_deref()), (Some(7), Some(2), Some("m1")));
}

#[test]
fn depth() {
    // Envelope and body are the first two.
    assert!(with(&nested(4), &SMALL).is_ok());
    let malformed = with(&nested(5), &SMALL).unwrap_err();
    assert_eq!(malformed.reason, "the packet nests maps and arrays deeper than 6");
    assert_eq!((malformed.stanza, malformed.kind, malformed.id.as_deref()), (Some(7), Some(2), Some("m1")));
    assert!(with(&nested(30), &Limits::default()).is_ok());
    assert!(with(&nested(31), &Limits::default()).is_err());
    // In skipped places too, and as a key.
    let pack = Pack::user(1).text("unknown").raw(&nested(5).0);
    assert!(decode(&pack.0, &SMALL).is_err());
    assert!(decode(&Pack::user(1).raw(&nested(5).0).nil().0, &SMALL).is_err());
}

#[test]
fn depth_has_an_end_whatever_the_configuration_says() {
    let endless = Limits { depth: usize::MAX, keys: usize::MAX, ..Limits::default() };
    assert!(with(&nested(126), &endless).is_ok());
    assert_eq!(
        with(&nested(127), &endless).unwrap_err().reason,
        "the packet nests maps and arrays deeper than 128"
    );
}

#[test]
fn keys_and_elements() {
    let elements = |count: u32| Pack::new().array(count).raw(&vec![0xc0; count as usize]);
    // 3 keys of the envelope, 3 of the body.
    assert!(with(&elements(14), &SMALL).is_ok());
    assert_eq!(
        with(&elements(15), &SMALL).unwrap_err().reason,
        "the packet has more than 20 keys and elements"
    );
    let pairs = |count: u32| Pack::new().map(count).raw(&[0xc0, 0xc0].repeat(count as usize));
    assert!(with(&pairs(14), &SMALL).is_ok());
    assert!(with(&pairs(15), &SMALL).is_err());
    // All together, wherever they are.
    assert!(with(&Pack::new().array(2).raw(&elements(6).0).raw(&elements(6).0), &SMALL).is_ok());
    assert!(with(&Pack::new().array(2).raw(&elements(6).0).raw(&elements(7).0), &SMALL).is_err());
    assert!(with(&elements(1_018), &Limits::default()).is_ok());
    assert!(with(&elements(1_019), &Limits::default()).is_err());
}

#[test]
fn content() {
    for (kind, key) in [(2, "content"), (11, "newContent"), (15, "content")] {
        let packet = |length: usize| {
            let pack = Pack::envelope(kind, 5)
                .text("id")
                .text("x")
                .text("targetId")
                .text("y")
                .text("messageId")
                .text("z");
            pack.text("mode").text("edit").text(key).text(&"c".repeat(length))
        };
        assert!(decode(&packet(50).0, &SMALL).is_ok());
        let reason = decode(&packet(51).0, &SMALL).unwrap_err().reason;
        assert_eq!(reason, format!("body.{key} is longer than 50 bytes"));
    }
    // The agent's own answers are not what a client wrote.
    let pack = Pack::envelope(3, 3)
        .text("id")
        .text("a")
        .text("previousId")
        .text("m")
        .text("content")
        .text(&"c".repeat(51));
    assert!(decode(&pack.0, &SMALL).is_ok());
}

/// Lengths that promise more than there is: refused before anything is reserved for them.
#[test]
fn length_bombs() {
    let endless =
        Limits { bytes: usize::MAX, depth: usize::MAX, keys: usize::MAX, content_bytes: usize::MAX };
    for marker in [0xc6, 0xc9, 0xdb, 0xdd, 0xdf] {
        let bomb = [marker, 0xff, 0xff, 0xff, 0xff];
        for pack in
            [Pack::new().raw(&bomb), Pack::user(1).text("attachments").raw(&bomb), Pack::user(1).raw(&bomb)]
        {
            let malformed = decode(&pack.0, &endless).unwrap_err();
            assert_eq!(malformed.reason, "the packet ends in the middle of a value");
        }
    }
    // Each of a thousand arrays promises all that is left.
    let nested = [0xdd, 0x00, 0x0f, 0xff, 0xff].repeat(1_000);
    assert!(decode(&nested, &endless).is_err());
}

/// The stack of a thread is 2 MiB; an eighth of it is enough for whatever comes in.
#[test]
#[expect(clippy::disallowed_types, reason = "a small stack is what is tested")]
fn hostile_packets_on_a_small_stack() {
    let run = || {
        let limits = Limits { depth: usize::MAX, keys: usize::MAX, ..Limits::default() };
        for marker in [0x91_u8, 0x81] {
            let deep = vec![marker; 1 << 20];
            assert!(read(&deep).is_err());
            assert!(decode(&deep, &limits).is_err());
            assert!(with(&Pack::new().raw(&deep), &limits).is_err());
        }
        // As deep as it can be, and read to the end.
        assert!(with(&nested(126), &limits).is_ok());
        let maps = Pack::new().raw(&[0x81, 0xa1, b'a'].repeat(125)).raw(&[0x80]);
        assert!(with(&maps, &limits).is_ok());
        // Maps as keys of maps as keys.
        let keys = Pack::new().raw(&[0x81; 125]).raw(&[0x80]).raw(&[0xc0; 125]);
        assert!(with(&keys, &limits).is_ok());
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread");
    thread.join().expect("no panic, no overflow");
}
