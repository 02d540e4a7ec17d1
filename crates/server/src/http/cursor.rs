//! Places in lists, as clients carry them: signed, so that nobody makes one up, and bound to whom and what they were given for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use outlast::{Cursor, RunId, Timestamp};
use sha2::Sha256;
use uuid::Uuid;

use super::code::Code;
use super::problem::Problem;

/// Where a cursor leads from its place. The byte says the layout of what is signed, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    /// To what comes behind it.
    On = 1,
    /// To what comes before it.
    Back = 2,
}

/// Direction, time, id.
const BODY: usize = 1 + 8 + 16;
const SIGNATURE: usize = 16;

/// Signs cursors with the key of this database.
#[derive(Clone)]
pub(crate) struct Signer(Hmac<Sha256>);

impl Signer {
    pub(crate) fn new(key: &str) -> Signer {
        let key = Hmac::new_from_slice(key.as_bytes());
        Signer(key.unwrap_or_else(|_| unreachable!("a key of any length will do")))
    }

    /// A place, for whoever asks for the same again. `what` says for whom and for what it is.
    pub(crate) fn write(&self, time: Timestamp, id: Uuid, what: &str) -> String {
        self.written(Towards::On, time, id, what)
    }

    fn written(&self, towards: Towards, time: Timestamp, id: Uuid, what: &str) -> String {
        let mut bytes = vec![towards as u8];
        bytes.extend(time.micros().to_be_bytes());
        bytes.extend(id.as_bytes());
        let signature = self.sign(&bytes, what);
        bytes.extend(&signature[..SIGNATURE]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    pub(crate) fn read(&self, text: &str, what: &str) -> Result<(Timestamp, Uuid), Problem> {
        self.place(text, what).map(|(time, id, _)| (time, id))
    }

    fn place(&self, text: &str, what: &str) -> Result<(Timestamp, Uuid, Towards), Problem> {
        let wrong = || {
            let detail = "the cursor is none that this list gave: take next_cursor of the page before, with the same filters";
            Problem::new(Code::INVALID_CURSOR, detail)
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let (body, signature) = bytes.split_at_checked(BODY).ok_or_else(wrong)?;
        let mut mac = self.0.clone();
        mac.update(body);
        mac.update(what.as_bytes());
        let is_ours = signature.len() == SIGNATURE && mac.verify_truncated_left(signature).is_ok();
        let (Some(time), Ok(id), true) = (body[1..9].try_into().ok(), Uuid::from_slice(&body[9..]), is_ours)
        else {
            return Err(wrong());
        };
        let towards = if body[0] == Towards::Back as u8 { Towards::Back } else { Towards::On };
        Ok((Timestamp::from_micros(i64::from_be_bytes(time)), id, towards))
    }

    fn sign(&self, body: &[u8], what: &str) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(body);
        mac.update(what.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// A place in a list of runs.
    pub(crate) fn write_run(&self, cursor: Cursor, towards: Towards, what: &str) -> String {
        self.written(towards, cursor.created_at, cursor.id.uuid(), what)
    }

    pub(crate) fn read_run(&self, text: &str, what: &str) -> Result<(Cursor, Towards), Problem> {
        let (created_at, id, towards) = self.place(text, what)?;
        Ok((Cursor { created_at, id: RunId::from_uuid(id) }, towards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_only_where_it_was_given_and_as_it_was_given() {
        let signer = Signer::new("key");
        let (time, id) = (Timestamp::from_micros(1_700_000_000_000_000), Uuid::from_u128(7));
        let text = signer.write(time, id, "acme");
        assert_eq!(signer.read(&text, "acme").unwrap(), (time, id));
        assert!(signer.read(&text, "other").is_err());
        assert!(Signer::new("another").read(&text, "acme").is_err());
        for wrong in ["", "x", "' or 1=1 --", &text[1..], &format!("{text}AAAA")] {
            assert!(signer.read(wrong, "acme").is_err(), "{wrong}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'E' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            // The last letter has bits that mean nothing.
            if URL_SAFE_NO_PAD
                .decode(&changed)
                .is_ok_and(|bytes| Some(bytes) != URL_SAFE_NO_PAD.decode(&text).ok())
            {
                assert!(signer.read(&changed, "acme").is_err(), "{at}");
            }
        }
    }
}
