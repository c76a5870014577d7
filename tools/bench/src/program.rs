//! What the programs of the benches share: a run that ends in order when the process is to end.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

/// Runs `work` in the name of a program, until it is done or the process is to end. What fails is told.
pub async fn run(name: &str, work: impl Future<Output = Result<()>>) -> ExitCode {
    let done = tokio::select! {
        done = work => done,
        // Whatever was started ends with the future that is dropped here.
        () = stop_signal() => Err(anyhow!("stopped")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns when the process is to end.
async fn stop_signal() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return drop(ctrl_c().await) };
    tokio::select! {
        _ = ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
