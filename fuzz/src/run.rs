//! Runs targets for a while: first the files of the corpus, then what becomes of them.

use crate::mutate::{mutated, shrunk};
use crate::random::Random;
use crate::targets::Target;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, process, thread};

/// An input that takes longer is a failure.
const MAX_TIME: Duration = Duration::from_secs(1);
/// An input that takes this long does not end.
const HANGS: Duration = Duration::from_secs(30);
/// How long a failing input is made smaller.
const SHRINK_TIME: Duration = Duration::from_secs(5);

/// How targets are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// For each target, besides its corpus.
    pub time: Duration,
    pub seed: u64,
    /// Where `corpus/` and `artifacts/` are.
    pub home: PathBuf,
    /// Whether each input is written down before it is run, for what no process survives.
    pub careful: bool,
}

/// What became of a target.
#[derive(Debug)]
pub struct Report {
    pub executions: u64,
    pub seeds: usize,
    pub time: Duration,
    /// Of all inputs, the one that took longest.
    pub slowest: Duration,
    pub failure: Option<Failure>,
}

#[derive(Debug)]
pub struct Failure {
    pub why: String,
    /// The input, where it has been written to.
    pub file: PathBuf,
}

/// Runs a target until its time is over or it fails.
pub fn run(target: &Target, options: &Options) -> io::Result<Report> {
    let seeds = read_corpus(&options.home.join("corpus").join(target.name))?;
    let mut random = Random::new(options.seed, target.name);
    let watch = Watch::new(target.name, &options.home);
    let (started, mut executions, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    let mut waiting = seeds.iter();
    let failure = loop {
        let input = match waiting.next() {
            Some(seed) => seed.clone(),
            None if started.elapsed() >= options.time => break None,
            None => mutated(&mut random, &seeds, target.words, target.max_bytes),
        };
        if options.careful {
            write_artifact(&options.home, target.name, "last", &input)?;
        }
        executions += 1;
        let input = Arc::new(input);
        let since = Instant::now();
        let outcome = watch.check(target, &input);
        slowest = slowest.max(since.elapsed());
        if let Err(why) = outcome {
            let input = shrink(target, &input, &why);
            let file = write_artifact(&options.home, target.name, &fingerprint(&input), &input)?;
            break Some(Failure { why: why.text(), file });
        }
    };
    Ok(Report { executions, seeds: seeds.len(), time: started.elapsed(), slowest, failure })
}

/// Why an input is a failure.
#[derive(Debug, Clone)]
enum Why {
    Panicked(String),
    TookTooLong(Duration),
}

impl Why {
    fn text(&self) -> String {
        match self {
            Self::Panicked(message) => message.clone(),
            Self::TookTooLong(time) => format!("took {time:.1?}"),
        }
    }
}

/// Runs one input, and says what is wrong with it.
///
/// # Errors
/// The message of the panic, or how long it took.
pub fn check(target: &Target, input: &[u8]) -> Result<(), String> {
    judge(target, input).map_err(|why| why.text())
}

fn judge(target: &Target, input: &[u8]) -> Result<(), Why> {
    let once = || {
        let started = Instant::now();
        catch_unwind(AssertUnwindSafe(|| (target.run)(input)))
            .map(|()| started.elapsed())
            .map_err(|panic| Why::Panicked(describe(panic.as_ref())))
    };
    // A busy machine makes anything slow now and then, but not three times in a row.
    let mut time = once()?;
    for _ in 0..2 {
        if time <= MAX_TIME {
            return Ok(());
        }
        time = time.min(once()?);
    }
    if time <= MAX_TIME { Ok(()) } else { Err(Why::TookTooLong(time)) }
}

thread_local! {
    /// Where the last panic was: the hook knows, the payload does not.
    static PLACE: RefCell<String> = RefCell::default();
}

/// Keeps panics quiet, because they are caught and reported.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
        PLACE.set(place.unwrap_or_default());
    }));
}

fn describe(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words");
    format!("{message} ({})", PLACE.take())
}

/// An input that is being run, and since when.
type Running = Option<(Instant, Arc<Vec<u8>>)>;

/// Looks after an input that may never end.
struct Watch(Arc<Mutex<Running>>);

impl Watch {
    fn new(name: &'static str, home: &Path) -> Self {
        let running = Arc::new(Mutex::new(Running::None));
        let (watched, home) = (Arc::downgrade(&running), home.to_owned());
        thread::spawn(move || {
            // Ends with the watch.
            while let Some(running) = watched.upgrade() {
                let stuck = running
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .as_ref()
                    .filter(|(since, _)| since.elapsed() > HANGS)
                    .map(|(_, input)| Arc::clone(input));
                drop(running);
                if let Some(input) = stuck {
                    let file = write_artifact(&home, name, &fingerprint(&input), &input);
                    println!("{name}: FAILED: does not end: {file:?}");
                    process::exit(1);
                }
                thread::sleep(Duration::from_millis(500));
            }
        });
        Self(running)
    }

    fn check(&self, target: &Target, input: &Arc<Vec<u8>>) -> Result<(), Why> {
        self.set(Some((Instant::now(), Arc::clone(input))));
        let outcome = judge(target, input);
        self.set(None);
        outcome
    }

    fn set(&self, running: Running) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}

/// A slow input is left as it is: each try would take as long.
fn shrink(target: &Target, input: &[u8], why: &Why) -> Vec<u8> {
    let started = Instant::now();
    match why {
        Why::TookTooLong(_) => input.to_vec(),
        Why::Panicked(_) => shrunk(input, |smaller| {
            started.elapsed() < SHRINK_TIME && matches!(judge(target, smaller), Err(Why::Panicked(_)))
        }),
    }
}

/// The files of a directory in the order of their names.
fn read_corpus(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{error}: {}", directory.display()));
    let mut files = fs::read_dir(directory)
        .map_err(named)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    files.sort();
    files.iter().map(fs::read).collect()
}

fn write_artifact(home: &Path, target: &str, name: &str, input: &[u8]) -> io::Result<PathBuf> {
    let directory = home.join("artifacts");
    fs::create_dir_all(&directory)?;
    let file = directory.join(format!("{target}-{name}"));
    fs::write(&file, input)?;
    Ok(file)
}

/// FNV-1a: the same input gets the same file.
fn fingerprint(input: &[u8]) -> String {
    let hash = input.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    format!("{hash:016x}")
}
