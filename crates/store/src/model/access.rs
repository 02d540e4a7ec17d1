//! Who may use the API, what they did, and what they were answered: tokens, the audit log, kept replies.

use std::time::Duration;

use bytes::Bytes;
use outlast_core::Timestamp;
use uuid::Uuid;

/// A change of what the API keeps for itself. Nothing of it concerns a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Makes this the key with which the API signs, if it has none yet.
    Key(String),
    /// Adds a token.
    Token(TokenCard),
    /// From now on the token opens nothing.
    Revoke {
        /// Which.
        token: Uuid,
    },
    /// The token was used now. Noted at most once a minute.
    Used {
        /// Which.
        token: Uuid,
    },
    /// Begins a session of a browser that showed a token. A few that nobody uses any more go.
    Session {
        /// The hash of what the browser was given for it.
        hash: Bytes,
        /// Which.
        token: Uuid,
        /// How long a session lasts that nobody uses.
        idle: Duration,
    },
    /// Makes a session of a ticket, which is a session under the hash of what somebody was told once: whoever comes first has it,
    /// and the ticket is gone.
    Redeem {
        /// The hash of the ticket.
        ticket: Bytes,
        /// The hash of what the browser is given for it.
        hash: Bytes,
        /// How long a ticket lasts.
        within: Duration,
    },
    /// The session was used now. Noted at most once a minute.
    Seen {
        /// Of which session.
        hash: Bytes,
    },
    /// Ends a session.
    Leave {
        /// Of which.
        hash: Bytes,
    },
    /// Adds to the audit log, and to its chain.
    Note(AuditNote),
    /// Forgets lines of the audit log that are older than this, the oldest first, and notes where its chain begins then. Lines
    /// that have no place in the chain are given one.
    Forget {
        /// How long lines are kept.
        keep: Duration,
        /// At most so many at once.
        limit: u32,
    },
    /// Takes the right to answer a request with an idempotency key.
    Reserve(Reserve),
    /// Says that whoever holds that right is still at it.
    Extend {
        /// The holder.
        holder: Uuid,
        /// How long from now it is theirs.
        hold: Duration,
    },
    /// Keeps the answer of whoever holds that right.
    Reply {
        /// The holder.
        holder: Uuid,
        /// The answer.
        reply: Reply,
    },
    /// Gives the right back without an answer: whoever asks again does it again.
    Release {
        /// The holder.
        holder: Uuid,
    },
    /// Gives the right back of what may have been done: whoever asks again makes the same of it.
    Yield {
        /// The holder.
        holder: Uuid,
    },
}

/// The answer to an [`Access`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accessed {
    /// It is done.
    Done,
    /// The key with which the API signs: the first that was given.
    Key(String),
    /// The token as it stands; `None` when there is none.
    Token(Option<TokenView>),
    /// So many lines were forgotten.
    Forgotten(u32),
    /// The request is the caller's to answer: with what is made of this seed.
    Reserved {
        /// The same for everybody who ever answers this request.
        seed: Uuid,
        /// Whether somebody who had it before did what it asks for ([`crate::holding`]), and whether that changed something.
        changed: Option<bool>,
    },
    /// Somebody else is about to answer it.
    Busy {
        /// When they have lost the right to.
        until: Timestamp,
    },
    /// The key belongs to another request.
    Other,
    /// It was answered.
    Replied(Reply),
}

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenCard {
    /// Its id, by which people name it.
    pub id: Uuid,
    /// The hash of its secret.
    pub hash: Bytes,
    /// Whom it stands for.
    pub subject: String,
    /// What they may do.
    pub role: String,
    /// The tenant to which it is bound; `None`: all of them.
    pub tenant: Option<String>,
    /// The queues to which it is bound; `None`: all of them. With none in it, it opens nothing.
    pub queues: Option<Vec<String>>,
    /// Who made it.
    pub by: String,
    /// From when on it opens nothing.
    pub expires_at: Timestamp,
}

/// A token for people to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    /// What it is.
    pub card: TokenCard,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl TokenView {
    /// Whether it opens anything at this time.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.card.expires_at > now
    }
}

/// A session of a browser, with the token that it showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// What it opens.
    pub token: TokenView,
    /// When it began.
    pub created_at: Timestamp,
    /// When it was last used, to the minute.
    pub seen_at: Timestamp,
}

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditNote {
    /// Its id.
    pub id: Uuid,
    /// The tenant that it concerns; empty where it concerns the whole.
    pub tenant: String,
    /// Who.
    pub actor: String,
    /// With which token.
    pub token: Option<Uuid>,
    /// Did what: `run.cancel`.
    pub action: String,
    /// To what.
    pub target: String,
    /// Why.
    pub reason: Option<String>,
    /// In which request.
    pub request: String,
    /// What they were answered: a status of HTTP.
    pub status: u16,
    /// From which address; `None` where it came by no network.
    pub ip: Option<String>,
    /// How what they changed stood before, as JSON; of what people sent there is only the hash.
    pub before: Option<String>,
    /// How it stood afterwards.
    pub after: Option<String>,
}

/// A line of the audit log, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditView {
    /// The line.
    pub note: AuditNote,
    /// When.
    pub at: Timestamp,
    /// Its place in the chain; `None` until it has one.
    pub place: Option<i64>,
}

/// Which lines of the audit log's chain to read, in its order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainList {
    /// Behind this place.
    pub after: i64,
    /// At most so many.
    pub limit: u32,
}

/// Which lines of the audit log to read, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditList {
    /// Of this tenant; `None`: all.
    pub tenant: Option<String>,
    /// About this target.
    pub target: Option<String>,
    /// Of this kind of thing alone: `queue` has what was done to queues. Other things may have the same name.
    pub kind: Option<String>,
    /// Before this one, by its time and id.
    pub before: Option<(Timestamp, Uuid)>,
    /// At most so many.
    pub limit: u32,
}

/// A request that asks to be answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// Whoever works on it now.
    pub holder: Uuid,
    /// Who asks: keys of others are others' keys.
    pub actor: String,
    /// The key that they gave.
    pub key: String,
    /// Where they ask: method and path.
    pub route: String,
    /// The hash of what they sent.
    pub body_hash: Bytes,
    /// What the answer's things are made of, if this is the first to ask.
    pub seed: Uuid,
    /// How long the holder has for it.
    pub hold: Duration,
    /// How long the answer is kept.
    pub keep: Duration,
}

/// An answer that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// Headers worth repeating, as the API writes them.
    pub headers: String,
    /// The body.
    pub body: Bytes,
}
