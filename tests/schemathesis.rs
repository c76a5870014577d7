//! The running gateway against its own OpenAPI document, judged by a program that knows nothing else of it.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::{process::Command, time::timeout};

use devkit::tools;

use crate::support::*;

/// What counts as a failure.
const CONFIG: &str = include_str!("schemathesis.toml");
/// Most test cases of one operation and kind.
const CASES_MAX: &str = "20";
/// The same cases in every run; what another seed finds is a finding for this test too.
const SEED: &str = "1";

#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_nothing() -> Result<()> {
    let world = World::start(1).await?;
    let schemathesis = tools::program("schemathesis").context("scripts/tools.sh test provides it")?;
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("schemathesis.toml");
    // Ids cannot be made up, so that reads would never find anything.
    let payment_id = world.submit(&world.spec("followed")?).await?;
    world.until(&payment_id, "EscrowReleased").await?;
    let ids = format!("[parameters]\n\"path.payment_id\" = \"{payment_id}\"\n\n");
    std::fs::write(&config, format!("{ids}{CONFIG}"))?;

    let mut command = Command::new(schemathesis);
    command
        .arg("--config-file")
        .arg(&config)
        .args(["--no-color", "run", &format!("{}/openapi.json", world.base(0))])
        .args(["--checks", "all", "--max-examples", CASES_MAX, "--seed", SEED, "--continue-on-failure"])
        .args(["--request-timeout", "40"])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // Thousands of calls, on a machine that may have others at work.
    let output = timeout(PATIENCE * 3, command.output()).await.context("schemathesis does not end")??;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{said}");
    // It tested every operation but the one that serves the document, which it leaves out by itself.
    let tested = said.lines().find_map(|line| line.trim().strip_prefix("Tested:")?.trim().parse().ok());
    ensure!(tested == Some(api::routes::ROUTES.len() - 1), "{tested:?}: {said}");
    Ok(())
}
