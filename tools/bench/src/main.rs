//! Measures the gateway against the figures of its design (§11), see the library.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bench::{
    baseline, console,
    context::{Context, Size},
    crypto, engine,
    environment::Paths,
    fanout,
    machine::Machine,
    overload, program, replay,
    report::{Failed, Report, Row},
    scale, size, status, submissions, takeover,
};
use chrono::{SecondsFormat, Utc};
use clap::Parser;
use mimalloc::MiMalloc;

/// That of `gw`, whose engine is measured in this process, too.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Longest time one bench may take.
const BENCH_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Measures the gateway against the figures of its design.
#[derive(Debug, Parser)]
struct Arguments {
    /// Tiny sizes: shows that every bench works, and judges nothing.
    #[arg(long, conflicts_with = "full")]
    brief: bool,
    /// The largest sizes, too.
    #[arg(long)]
    full: bool,
    /// Only this bench; may be given several times.
    #[arg(long)]
    only: Vec<Bench>,
    /// The gw program; the one beside this program when not given.
    #[arg(long)]
    gw: Option<PathBuf>,
    /// Where the figures go as JSON.
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
    /// Directory for the servers' data, on the disk that is to be measured.
    #[arg(long, default_value = "target/bench-data")]
    data: PathBuf,
}

/// A bench, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Bench {
    Baseline,
    Submissions,
    Sagas,
    Status,
    Replay,
    Rebuild,
    Takeover,
    Events,
    Size,
    Scale,
    Overload,
    Console,
    Crypto,
}

impl Bench {
    fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Submissions => "submissions",
            Self::Sagas => "sagas",
            Self::Status => "status",
            Self::Replay => "replay",
            Self::Rebuild => "rebuild",
            Self::Takeover => "takeover",
            Self::Events => "events",
            Self::Size => "size",
            Self::Scale => "scale",
            Self::Overload => "overload",
            Self::Console => "console",
            Self::Crypto => "crypto",
        }
    }

    async fn run(self, context: &Context) -> Result<Vec<Row>> {
        let mut rows = context.rows(self.name());
        match self {
            Self::Baseline => baseline::run(context, &mut rows).await?,
            Self::Submissions => submissions::run(context, &mut rows).await?,
            Self::Sagas => engine::run(context, &mut rows).await?,
            Self::Status => status::run(context, &mut rows).await?,
            Self::Replay => replay::run(context, &mut rows).await?,
            Self::Rebuild => replay::rebuild(context, &mut rows).await?,
            Self::Takeover => takeover::run(context, &mut rows).await?,
            Self::Events => fanout::run(context, &mut rows).await?,
            Self::Size => size::run(context, &mut rows).await?,
            Self::Scale => scale::run(context, &mut rows).await?,
            Self::Overload => overload::run(context, &mut rows).await?,
            Self::Console => console::run(context, &mut rows).await?,
            Self::Crypto => crypto::run(context, &mut rows).await?,
        }
        Ok(rows.finish())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    program::run("bench", run(Arguments::parse())).await
}

async fn run(arguments: Arguments) -> Result<()> {
    let (started, at) = (Instant::now(), Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true));
    let size = match (arguments.brief, arguments.full) {
        (true, _) => Size::Brief,
        (_, true) => Size::Full,
        _ => Size::Usual,
    };
    let built = std::env::current_exe()?.with_file_name("gw");
    let paths = Paths { gw: arguments.gw.unwrap_or(built), data: arguments.data };
    ensure!(paths.gw.is_file(), "{} is missing: run `make bench`", paths.gw.display());
    std::fs::create_dir_all(&paths.data)?;
    let machine = Machine::look(&paths.data)?;
    let context = Context::new(paths, size)?;
    let all = <Bench as clap::ValueEnum>::value_variants();
    let chosen = all.iter().filter(|bench| arguments.only.is_empty() || arguments.only.contains(bench));
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for bench in chosen {
        let (begun, name) = (Instant::now(), bench.name());
        println!("{name}");
        let measured = tokio::time::timeout(BENCH_TIME_MAX, bench.run(&context)).await;
        match measured.context("it takes too long").flatten() {
            Ok(measured) => rows.extend(measured),
            // The others are of use all the same.
            Err(error) => {
                eprintln!("  FAILED: {error:#}");
                failed.push(Failed { bench: name, error: format!("{error:#}") });
            }
        }
        println!("  ({:.0} s)", begun.elapsed().as_secs_f64());
    }
    let (brief, seconds) = (size == Size::Brief, started.elapsed().as_secs_f64());
    let report = Report { at, machine, brief, seconds, rows, failed };
    report.write(&arguments.json)?;
    println!("\n{}", report.table());
    println!("{:.0} s in all; the same as JSON in {}", report.seconds, arguments.json.display());
    let failed: Vec<_> = report.failed.iter().map(|failed| failed.bench).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}
