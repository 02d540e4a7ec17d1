//! Whether the proxy cuts answers where they end: a reply that was lost by halves would be no such fault.

use super::replies::{End, Replies};

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

#[test]
fn an_answer_that_tells_of_a_commit_is_one_piece_however_it_comes() {
    let begun = [message(b'C', b"BEGIN\0"), message(b'Z', b"T")].concat();
    let written = [message(b'D', b"row"), message(b'C', b"INSERT 0 1\0"), message(b'Z', b"T")].concat();
    let committed = [message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
    let all = [begun, written, committed.clone()].concat();

    let mut replies = Replies::default();
    let mut pieces = Vec::new();
    for byte in &all {
        pieces.extend(replies.take(&[*byte], true));
    }
    let ends: Vec<_> = pieces.iter().map(|piece| piece.end).collect();
    assert_eq!(ends, [Some(End::Other), Some(End::Other), Some(End::Commit)]);
    assert_eq!(pieces[2].bytes, committed);
    assert_eq!(pieces.iter().flat_map(|piece| piece.bytes.clone()).collect::<Vec<_>>(), all);
}

#[test]
fn a_statement_alone_commits_with_its_own_answer_and_a_read_or_a_rollback_does_not() {
    let end = |tag: &[u8]| {
        let answer = [message(b'C', tag), message(b'Z', b"I")].concat();
        Replies::default().take(&answer, true).pop().and_then(|piece| piece.end)
    };
    assert_eq!(end(b"UPDATE 3\0"), Some(End::Commit));
    assert_eq!(end(b"SELECT 3\0"), Some(End::Other));
    assert_eq!(end(b"ROLLBACK\0"), Some(End::Other));
}

#[test]
fn what_nobody_asked_for_is_told_at_once() {
    let mut replies = Replies::default();
    assert_eq!(replies.take(&message(b'A', b"hint"), true).len(), 1);
    assert_eq!(replies.take(&message(b'D', b"row"), true).len(), 0);
    assert_eq!(replies.take(&message(b'A', b"hint"), true).len(), 0, "not before what stands before it");
}
