//! The faults by name, and which row of the catalogue in `docs/faults.md` each is.

/// Something that is done to nodes, to the database, or to the network between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL for one node after another.
    KillOne,
    /// SIGKILL for all nodes; others come when the leases are over.
    KillAll,
    /// SIGSTOP for longer than a lease, then SIGCONT.
    PauseLong,
    /// SIGSTOP for half a lease.
    PauseShort,
    /// SIGTERM under load.
    Leave,
    /// SIGTERM, and SIGKILL in the middle of leaving.
    LeaveAndKill,
    /// The server ends our connections, five in a second.
    EndConnections,
    /// The server is restarted, `fast`.
    RestartFast,
    /// The server is restarted, `immediate`.
    RestartImmediate,
    /// SIGKILL for the server.
    KillServer,
    /// No server for a while.
    ServerDown,
    /// The server accepts and never answers.
    ServerFrozen,
    /// A commit happens, and its reply is lost.
    LostCommits,
    /// Replies come after the lease has ended.
    LateReplies,
    /// One node is cut off, for less than a lease.
    CutShort,
    /// One node is cut off, for longer than a lease.
    CutLong,
    /// Connections are reset in the middle of a request.
    Resets,
    /// Every reply takes 200 ms, more or less.
    Latency,
    /// A third of all packets is lost.
    Loss,
    /// 64 kbit in a second.
    Narrow,
    /// No new connections, because others have them all.
    TooManyConnections,
    /// The server's disk is full.
    DiskFull,
    /// A transaction that wrote is left open.
    IdleWriter,
    /// A transaction that read is left open, which keeps no old rows: what the same load does without a snapshot.
    IdleReader,
    /// Four others read for ever in one snapshot each.
    Scanners,
    /// pgbouncer in between, and connections that end.
    Pooler,
    /// Connections that listen are ended as soon as they do.
    Deaf,
    /// The owner of an SQLite file is killed in the middle of writing.
    FileKill,
    /// The disk of an SQLite file is full.
    FileDiskFull,
    /// A second server on the same SQLite file.
    FileTwice,
    /// How long until another node has the run that a dead one held.
    TakeoverOne,
    /// The same for ten thousand runs.
    TakeoverMany,
    /// Nodes of the schema before and of this one side by side, there and back.
    RollingUpgrade,
}

impl Fault {
    /// All of them, in the order in which they are played.
    pub const ALL: [Fault; 33] = [
        Fault::KillOne,
        Fault::KillAll,
        Fault::PauseLong,
        Fault::PauseShort,
        Fault::Leave,
        Fault::LeaveAndKill,
        Fault::EndConnections,
        Fault::RestartFast,
        Fault::RestartImmediate,
        Fault::KillServer,
        Fault::ServerDown,
        Fault::ServerFrozen,
        Fault::LostCommits,
        Fault::LateReplies,
        Fault::CutShort,
        Fault::CutLong,
        Fault::Resets,
        Fault::Latency,
        Fault::Loss,
        Fault::Narrow,
        Fault::TooManyConnections,
        Fault::DiskFull,
        Fault::IdleWriter,
        Fault::IdleReader,
        Fault::Scanners,
        Fault::Pooler,
        Fault::Deaf,
        Fault::FileKill,
        Fault::FileDiskFull,
        Fault::FileTwice,
        Fault::TakeoverOne,
        Fault::TakeoverMany,
        Fault::RollingUpgrade,
    ];

    /// What it is called on the command line, and its row in the catalogue.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Fault::KillOne => ("kill-one", "P3"),
            Fault::KillAll => ("kill-all", "P4"),
            Fault::PauseLong => ("pause-long", "P5"),
            Fault::PauseShort => ("pause-short", "P6"),
            Fault::Leave => ("leave", "P7"),
            Fault::LeaveAndKill => ("leave-and-kill", "P8"),
            Fault::EndConnections => ("end-connections", "D1"),
            Fault::RestartFast => ("restart-fast", "D2"),
            Fault::RestartImmediate => ("restart-immediate", "D2"),
            Fault::KillServer => ("kill-server", "D3"),
            Fault::ServerDown => ("server-down", "D4"),
            Fault::ServerFrozen => ("server-frozen", "D5"),
            Fault::LostCommits => ("lost-commits", "D6"),
            Fault::LateReplies => ("late-replies", "D7"),
            Fault::CutShort => ("cut-short", "N1"),
            Fault::CutLong => ("cut-long", "N1"),
            Fault::Resets => ("resets", "N3"),
            Fault::Latency => ("latency", "N4"),
            Fault::Loss => ("loss", "N5"),
            Fault::Narrow => ("narrow", "N5"),
            Fault::TooManyConnections => ("too-many-connections", "D9"),
            Fault::DiskFull => ("disk-full", "D10"),
            Fault::IdleWriter => ("idle-writer", "D11"),
            Fault::IdleReader => ("idle-reader", "D11"),
            Fault::Scanners => ("scanners", "D12"),
            Fault::Pooler => ("pooler", "D19"),
            Fault::Deaf => ("deaf", "D20"),
            Fault::FileKill => ("file-kill", "S1"),
            Fault::FileDiskFull => ("file-disk-full", "S3"),
            Fault::FileTwice => ("file-twice", "S4"),
            Fault::TakeoverOne => ("takeover-one", "P4"),
            Fault::TakeoverMany => ("takeover-many", "P4"),
            Fault::RollingUpgrade => ("rolling-upgrade", "U1"),
        }
    }

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// Its row in the catalogue.
    pub fn row(self) -> &'static str {
        self.names().1
    }

    /// The fault of this name.
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Whether it must not end anybody's lease, or is so slow that a short one would never last.
    pub(crate) fn needs_long_lease(self) -> bool {
        use Fault::*;
        matches!(self, PauseShort | CutShort | Latency | Loss | Narrow)
    }

    /// Whether nodes come back from it whose leases have ended.
    pub(crate) fn outlasts_leases(self) -> bool {
        matches!(self, Fault::PauseLong | Fault::CutLong | Fault::LateReplies | Fault::ServerFrozen)
    }

    /// Whether it is about an SQLite file.
    pub(crate) fn is_about_a_file(self) -> bool {
        matches!(self, Fault::FileKill | Fault::FileDiskFull | Fault::FileTwice)
    }

    /// Whether nodes note how long each claim takes.
    pub(crate) fn is_measured(self) -> bool {
        matches!(self, Fault::IdleWriter | Fault::IdleReader | Fault::Scanners)
    }

    /// How many runs a single node holds before anything else is there, where that is what it is about.
    pub(crate) fn holds(self) -> Option<usize> {
        match self {
            Fault::TakeoverOne => Some(1),
            Fault::TakeoverMany => Some(10_000),
            _ => None,
        }
    }

    /// Whether it can be played on a server that others use too.
    pub(crate) fn shares_server(self) -> bool {
        use Fault::*;
        matches!(self, KillOne | KillAll | PauseLong | PauseShort | Leave | LeaveAndKill | LostCommits)
            || matches!(self, LateReplies | CutShort | CutLong | Resets | Latency | Loss | Narrow)
    }
}
