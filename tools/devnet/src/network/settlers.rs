//! The network's settlers: three, of which the last never delivers, and one that fades where it is wanted.

use std::time::Duration;

use anyhow::{Context, Result};

use devkit::{Process, Signal};

use super::{Gateway, Network, config};
use crate::users::NatsUser;

/// The name of the process of the settler that fades.
const FADING: &str = "settler-fading";

impl Network {
    pub(super) fn spawn_settler(&self, n: u8) -> Result<Process> {
        let name = format!("settler-{n}");
        let config = self.write(&name, &config::settler(self, n)?)?;
        self.spawn(&name, "settler", &config)
    }

    /// Waits until every gateway knows all three settlers: any of them may be the one to ask.
    pub(super) async fn settlers_registered(&self) -> Result<()> {
        self.registered(&[1, 2, 3].map(NatsUser::Settler)).await
    }

    async fn registered(&self, settlers: &[NatsUser]) -> Result<()> {
        let settlers: Vec<_> = settlers.iter().map(|user| user.did().token()).collect();
        let is_known = |gateway: &Gateway| {
            let log = self.log(&gateway.name).unwrap_or_default();
            let told = |line: &&str| line.contains("settler is registered");
            settlers.iter().all(|token| log.lines().filter(told).any(|line| line.contains(&token.to_string())))
        };
        let registered = async {
            while !self.gateways.iter().all(is_known) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), registered).await;
        waited.context("the settlers did not register, see settler-*.log")
    }

    /// Ends settler `n`, counted from 1, as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill_settler(&mut self, n: u8) -> Result<()> {
        match self.settlers[usize::from(n) - 1].take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts settler `n`, counted from 1, again.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_settler(&mut self, n: u8) -> Result<()> {
        self.settlers[usize::from(n) - 1] = Some(self.spawn_settler(n)?);
        Ok(())
    }

    /// Stops settler `n`, counted from 1, where it stands, or lets it go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn signal_settler(&self, n: u8, signal: Signal) -> Result<()> {
        let process = self.settlers[usize::from(n) - 1].as_ref();
        process.context("the settler does not run")?.signal(signal).await
    }

    /// Starts a settler besides that offers the best price, accepts its awards and never delivers. It works until it is dropped.
    ///
    /// # Errors
    /// When it does not start, or the gateways do not hear of it.
    pub async fn start_fading_settler(&self) -> Result<Process> {
        let config = self.write(FADING, &config::fading_settler(self)?)?;
        let fading = self.spawn(FADING, "settler", &config)?;
        self.registered(&[NatsUser::Fading]).await?;
        Ok(fading)
    }
}
