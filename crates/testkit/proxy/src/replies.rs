//! What a server says, cut where one answer ends and the next begins, so that an answer can get lost as a whole.

/// The server's side of one connection.
pub(crate) struct Replies {
    /// A message of which only the beginning has come.
    partial: Vec<u8>,
    /// Messages of an answer that is not whole.
    held: Vec<u8>,
    /// Something was written in this answer.
    wrote: bool,
    committed: bool,
    /// Idle, in a transaction, or in one that failed: `I`, `T`, `E`.
    pub(crate) status: u8,
}

/// Messages that go on together.
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// How the answer ended that these are the last of.
    pub(crate) end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client would have learned that something is durable.
    Commit,
    Other,
}

/// What comes without being asked for: told at once.
const UNASKED: &[u8] = b"ANS";

impl Default for Replies {
    fn default() -> Replies {
        Replies { partial: Vec::new(), held: Vec::new(), wrote: false, committed: false, status: b'I' }
    }
}

impl Replies {
    /// Takes what came, and gives what can go on: whole messages, and where `together`, whole answers.
    pub(crate) fn take(&mut self, bytes: &[u8], together: bool) -> Vec<Piece> {
        self.partial.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let mut from = 0;
        while let Some(length) = length(&self.partial[from..]) {
            let message = self.partial[from..from + length].to_vec();
            from += length;
            let end = self.hear(&message);
            let unasked = UNASKED.contains(&message[0]) && self.held.is_empty();
            self.held.extend(message);
            if end.is_some() || !together || unasked {
                pieces.push(Piece { bytes: std::mem::take(&mut self.held), end });
            }
        }
        self.partial.drain(..from);
        pieces
    }

    fn hear(&mut self, message: &[u8]) -> Option<End> {
        match message[0] {
            b'C' => {
                let tag = &message[5..];
                let is = |word: &str| tag.starts_with(word.as_bytes());
                self.committed |= is("COMMIT");
                self.wrote &= !is("ROLLBACK");
                self.wrote |= is("INSERT") || is("UPDATE") || is("DELETE") || is("MERGE");
                None
            }
            b'Z' => {
                self.status = message.get(5).copied().unwrap_or(b'I');
                let is_over = self.status == b'I';
                let end = match is_over && (self.committed || self.wrote) {
                    true => End::Commit,
                    false => End::Other,
                };
                self.committed = false;
                // What was written in a transaction counts when that ends.
                self.wrote &= !is_over;
                Some(end)
            }
            _ => None,
        }
    }
}

/// The length of the first message, if all of it is there.
fn length(bytes: &[u8]) -> Option<usize> {
    let size: [u8; 4] = bytes.get(1..5)?.try_into().ok()?;
    let length = 1 + u32::from_be_bytes(size) as usize;
    (bytes.len() >= length && length > 4).then_some(length)
}
