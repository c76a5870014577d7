//! `gw doctor`: a pre-flight check of a role against the chains, the NATS server and the endpoints that it is configured for.
//!
//! Nothing is changed anywhere, and nothing secret is shown. Checks run side by side, each bounded in time; one that hangs is
//! reported and holds up no other.

mod chain;
mod disk;
mod endpoints;
mod nats;
mod permissions;
mod report;
mod streams;
mod subject;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use clap::Args as ClapArgs;
use futures::future::{BoxFuture, join_all};
use tokio::time::timeout;

use chains::diagnosis::Diagnosis;

use self::{report::Report, subject::Subject};
use super::role::Role;

/// Longest that one check may take.
const CHECK_MAX: Duration = Duration::from_secs(30);

/// Arguments of `gw doctor`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// What is to be run.
    #[arg(long, value_enum)]
    role: Role,
    /// Its file.
    #[arg(long)]
    config: PathBuf,
    /// The report as JSON.
    #[arg(long)]
    json: bool,
}

/// One check, or several that need each other: where it looks, at what, and what it finds.
struct Check {
    place: String,
    subject: &'static str,
    finds: BoxFuture<'static, Vec<Diagnosis>>,
}

impl Check {
    fn new(
        place: impl Into<String>,
        subject: &'static str,
        finds: impl Future<Output = Vec<Diagnosis>> + Send + 'static,
    ) -> Self {
        Self { place: place.into(), subject, finds: Box::pin(finds) }
    }
}

/// Checks everything that a role needs, and shows what was found; exit code 1 where something is wrong.
///
/// # Errors
/// When the report cannot be written.
pub async fn run(args: &Args) -> Result<ExitCode> {
    let mut report = Report::new(args.role);
    match Subject::load(args.role, &args.config) {
        Ok(subject) => {
            let found = format!("{} can be used by `{}`", args.config.display(), args.role.command());
            report.add("configuration", [Diagnosis::ok("file", found)]);
            for (place, found) in join_all(subject.checks().into_iter().map(|check| bounded(check, CHECK_MAX))).await {
                report.add(&place, found);
            }
        }
        Err(error) => {
            let remedy = "correct the key that is named; `gw config check` looks at the file alone";
            report.add("configuration", [Diagnosis::wrong("file", format!("{error:#}"), remedy)]);
        }
    }
    super::answer(&if args.json { report.json()? } else { report.table() })?;
    Ok(if report.is_wrong() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn bounded(check: Check, within: Duration) -> (String, Vec<Diagnosis>) {
    let Check { place, subject, finds } = check;
    let found = timeout(within, finds).await.unwrap_or_else(|_| {
        let found = format!("did not end within {} s", within.as_secs());
        vec![Diagnosis::wrong(subject, found, "what is asked hangs: see that it is reachable from here, and try again")]
    });
    (place, found)
}

/// This machine's clock, UNIX seconds.
fn now_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use chains::diagnosis::Verdict;

    use super::*;

    #[tokio::test]
    async fn a_check_that_hangs_is_reported_and_holds_up_no_other() {
        let within = Duration::from_millis(20);
        let checks = [
            Check::new("eip155:1", "node", pending()),
            Check::new("eip155:2", "node", async { vec![Diagnosis::ok("node", "answers")] }),
        ];
        let found = join_all(checks.map(|check| bounded(check, within))).await;
        let verdicts: Vec<_> = found.iter().map(|(place, found)| (place.as_str(), found[0].verdict)).collect();
        assert_eq!(verdicts, [("eip155:1", Verdict::Wrong), ("eip155:2", Verdict::Ok)]);
        assert!(found[0].1[0].found.contains("did not end"));
    }
}
