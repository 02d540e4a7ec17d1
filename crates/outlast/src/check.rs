//! The check before a deploy: every unfinished run of a database, or exported ones, replayed against this binary.
//!
//! It only reads: the database is opened to read, no node joins, no body of a step starts, nothing is written. What
//! a run says is decided by the same code that would run it ([`engine::check`](crate::engine)).

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use outlast_core::{Entry, Error, RunId, Status};
use outlast_store::{DynStore, Filter, Loaded, OpenOptions, RunRecord, RunView, StoreError};

use crate::client::repeated;
use crate::engine::{self, Engine};
use crate::export::whole_journal;
use crate::{Outlast, RunExport, Verdict};

/// How many runs are listed at once.
const PAGE: u32 = 200;

/// How many journals are in memory at once.
const JOURNALS: usize = 16;

/// How many runs that do not fit are kept in the report; the others are counted.
const KEPT: usize = 1_000;

/// The largest file that is taken for an exported run.
const FILE_BYTES: u64 = 1 << 30;

/// What a check says to a shell when a run does not fit: a conflict.
const DOES_NOT_FIT: u8 = 4;

impl Outlast {
    /// Checks that the unfinished runs of the database at `url` fit what is registered here: each is replayed as far
    /// as it is recorded. `.await` gives the report.
    ///
    /// The database at `url` is only read, and may be in use; its schema must be of this version. No body of a step,
    /// transaction, call or value starts, and nothing is committed. What a workflow does outside of its operations
    /// happens, as in every replay; states that it asks for there have to be registered.
    ///
    /// Open Outlast itself in memory for it, so that nothing else is touched, and give your own binary such a way
    /// to be called before each deploy:
    ///
    /// ```no_run
    /// use outlast::prelude::*;
    /// use std::process::ExitCode;
    ///
    /// # async fn greet(_ctx: Ctx, name: String) -> Result<String, AnyError> { Ok(name) }
    /// fn register(app: Outlast) -> Outlast {
    ///     app.workflow(Workflow::new("greet", greet)) // and all others
    /// }
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<ExitCode, AnyError> {
    ///     let url = std::env::var("DATABASE_URL")?;
    ///     if std::env::args().nth(1).as_deref() == Some("check") {
    ///         let report = register(Outlast::open("sqlite::memory:").await?).check(&url).await?;
    ///         print!("{report}");
    ///         return Ok(report.exit_code()); // 4 when a run does not fit
    ///     }
    ///     let app = register(Outlast::open(&url).await?).run().await?;
    ///     // …
    /// #   app.shutdown(1.second()).await?;
    ///     Ok(ExitCode::SUCCESS)
    /// }
    /// ```
    pub fn check(self, url: &str) -> Check {
        Check { url: Some(url.to_owned()), ..Check::new(self) }
    }

    /// The same for runs that were exported ([`Client::export`](crate::Client::export)), without any database.
    ///
    /// ```
    /// # use outlast::prelude::*;
    /// # use outlast::testing;
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # fn flow(name: &'static str) -> Workflow<(), (), AnyError> {
    /// #     Workflow::new("flow", move |ctx: Ctx, _: ()| async move {
    /// #         ctx.step(name, |_| async { Ok::<(), AnyError>(()) }).await?;
    /// #         Ok(ctx.sleep(1.hour()).await?)
    /// #     })
    /// # }
    /// # let (old, new) = (flow("charge"), flow("bill"));
    /// # let test = testing::start(|app| app.workflow(old.clone())).await?;
    /// # let run = test.app().start(old, ()).await?;
    /// # test.settle().await?;
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("run.json");
    /// std::fs::write(&file, test.app().export(run.id()).await?.to_json())?;
    /// let report = Outlast::open("sqlite::memory:").await?.workflow(new).check_files([&file]).await?;
    /// assert!(report.misfits()[0].verdict.to_string().starts_with(
    ///     "the journal goes on with step \"charge\" (entry 1), but the code begins step \"bill\""
    /// ));
    /// # Ok::<(), AnyError>(()) }).unwrap();
    /// ```
    pub fn check_files<P: AsRef<Path>>(self, files: impl IntoIterator<Item = P>) -> Check {
        let files = files.into_iter().map(|file| file.as_ref().to_owned()).collect();
        Check { files, ..Check::new(self) }
    }
}

/// A check about to be made: see [`Outlast::check`]. `.await` makes it.
#[must_use = "nothing is checked unless awaited"]
pub struct Check {
    outlast: Outlast,
    url: Option<String>,
    files: Vec<PathBuf>,
    definition: Option<String>,
    sample: Option<u32>,
    each: Box<dyn FnMut(&Checked) + Send>,
}

impl Check {
    fn new(outlast: Outlast) -> Check {
        let each = Box::new(|_: &Checked| {});
        Check { outlast, url: None, files: Vec::new(), definition: None, sample: None, each }
    }

    /// An exported run, beside the others.
    pub fn file(mut self, file: impl AsRef<Path>) -> Check {
        self.files.push(file.as_ref().to_owned());
        self
    }

    /// Only runs of the database with this definition.
    pub fn definition(mut self, name: impl Into<String>) -> Check {
        self.definition = Some(name.into());
        self
    }

    /// Only so many runs of the database for each version of a definition: the newest.
    pub fn sample(mut self, runs: u32) -> Check {
        self.sample = Some(runs);
        self
    }

    /// Called with every run as soon as there is a verdict.
    pub fn each(mut self, seen: impl FnMut(&Checked) + Send + 'static) -> Check {
        self.each = Box::new(seen);
        self
    }

    async fn make(self) -> Result<CheckReport, Error> {
        let Check { outlast, url, files, definition, sample, each } = self;
        let engine = outlast.into_engine()?;
        let mut checker = Checker { engine, each, report: CheckReport::default() };
        for file in files {
            checker.file(&file).await?;
        }
        if let Some(url) = url {
            let options = OpenOptions { read_only: true, ..OpenOptions::default() };
            let store = outlast_store::open(&url, options).await?;
            checker.database(&store, definition, sample).await?;
        }
        Ok(checker.report)
    }
}

impl IntoFuture for Check {
    type Output = Result<CheckReport, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// A run that was checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Checked {
    /// The run.
    pub run: RunId,
    /// Its definition.
    pub definition: String,
    /// Its definition's version.
    pub version: u32,
    /// Its key.
    pub key: Option<String>,
    /// Where it stood.
    pub status: String,
    /// The file that it is from; `None` for one of the database.
    pub file: Option<PathBuf>,
    /// Whether it fits.
    pub verdict: Verdict,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { run, definition, version, key, verdict, .. } = self;
        let key = key.as_ref().map(|key| format!("/{key}")).unwrap_or_default();
        write!(f, "{run}  {definition}{key} (version {version}): {verdict}")
    }
}

/// What a check found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// How many runs were checked.
    pub runs: u64,
    /// How many of them fit.
    pub fitting: u64,
    misfits: Vec<Checked>,
}

impl CheckReport {
    /// Whether all runs fit.
    pub fn fits(&self) -> bool {
        self.fitting == self.runs
    }

    /// Those that do not: the first thousand.
    pub fn misfits(&self) -> &[Checked] {
        &self.misfits
    }

    /// For a shell: 0 when all runs fit, otherwise 4.
    pub fn exit_code(&self) -> ExitCode {
        if self.fits() { ExitCode::SUCCESS } else { ExitCode::from(DOES_NOT_FIT) }
    }

    fn add(&mut self, checked: Checked) {
        self.runs += 1;
        match checked.verdict.fits() {
            true => self.fitting += 1,
            false if self.misfits.len() < KEPT => self.misfits.push(checked),
            false => {}
        }
    }
}

/// Those that do not fit, a line each, and how many there are in all.
impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.misfits.iter().try_for_each(|checked| writeln!(f, "{checked}"))?;
        let left = self.runs - self.fitting - self.misfits.len() as u64;
        if left > 0 {
            writeln!(f, "… and {left} more")?;
        }
        writeln!(f, "{} of {} unfinished runs fit", self.fitting, self.runs)
    }
}

/// A check on its way.
struct Checker {
    engine: Arc<Engine>,
    each: Box<dyn FnMut(&Checked) + Send>,
    report: CheckReport,
}

impl Checker {
    async fn file(&mut self, file: &Path) -> Result<(), Error> {
        let shown = file.display().to_string();
        let unreadable = |why: String| Error::invalid("file", &shown, why);
        let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
        if size > FILE_BYTES {
            return Err(Error::TooLarge { what: shown, size, limit: FILE_BYTES });
        }
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        let RunExport { record, status, entries, .. } =
            RunExport::from_json(&text).map_err(|error| unreadable(error.to_string()))?;
        let ended = status == Status::Completed.word();
        self.check(record, &status, Some(file), Ok(entries), ended).await;
        Ok(())
    }

    async fn database(
        &mut self,
        store: &DynStore,
        definition: Option<String>,
        sample: Option<u32>,
    ) -> Result<(), Error> {
        let statuses = Status::ALL.into_iter().filter(|status| !status.is_final()).collect();
        let filter = Filter { definition, statuses, ..Filter::default() };
        let mut taken: HashMap<(String, u32), u32> = HashMap::new();
        let mut is_wanted = |view: &RunView| {
            let taken = taken.entry((view.record.definition.clone(), view.record.version)).or_default();
            *taken += 1;
            sample.is_none_or(|most| *taken <= most)
        };
        let mut after = None;
        loop {
            let page = repeated(|| store.list(&filter, after, PAGE)).await?;
            let wanted: Vec<RunView> = page.runs.into_iter().filter(&mut is_wanted).collect();
            for views in wanted.chunks(JOURNALS) {
                self.some(store, views).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn some(&mut self, store: &DynStore, views: &[RunView]) -> Result<(), Error> {
        let runs: Vec<RunId> = views.iter().map(|view| view.record.id).collect();
        // One that was purged meanwhile had ended.
        for loaded in repeated(|| store.load(&runs)).await? {
            let Loaded { record, entries, more, unreadable, .. } = loaded;
            let status = views.iter().find(|view| view.record.id == record.id).map(|view| view.status.word());
            let entries = match (unreadable, more) {
                (Some(detail), _) => Err(detail),
                (None, false) => Ok(entries),
                (None, true) => match whole_journal(&**store, record.id, entries).await {
                    Ok(entries) => Ok(entries),
                    Err(StoreError::Unreadable { detail, .. }) => Err(detail),
                    Err(error) => return Err(error.into()),
                },
            };
            self.check(record, status.unwrap_or_default(), None, entries, false).await;
        }
        Ok(())
    }

    /// Replays one run. Entries that could not be read come as the reason.
    async fn check(
        &mut self,
        record: RunRecord,
        status: &str,
        file: Option<&Path>,
        entries: Result<Vec<Entry>, String>,
        ended: bool,
    ) {
        let RunRecord { id: run, definition, version, key, .. } = record.clone();
        let verdict = match entries {
            Ok(entries) => engine::check(&self.engine, record, entries, ended).await,
            Err(detail) => {
                let message = format!("by this version: {detail}");
                Verdict::CannotDecode { what: "the journal".into(), message }
            }
        };
        let (status, file) = (status.to_owned(), file.map(Path::to_owned));
        let checked = Checked { run, definition, version, key, status, file, verdict };
        (self.each)(&checked);
        self.report.add(checked);
    }
}
