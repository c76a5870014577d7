//! Escrow check: whether the escrows of the configuration keep records as this version reads them.
//!
//! An escrow of another layout takes deposits all the same, as what payers and the reserver sign is the same, and a gateway that
//! cannot read its records could neither release nor refund what is in it. So the process ends where it is sure of that.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;

use events::Account;
use sagas::ports::Transient;

/// Pause before a node is asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// So often in a row a contract must refuse to answer: one of several nodes may err.
const REFUSALS: u32 = 3;

/// An escrow of the configuration, and a node of its chain.
pub(super) enum ConfiguredEscrow {
    /// On an EVM chain.
    Evm(chains_evm::node::Node),
    /// On a Tron chain.
    Tron(chains_tron::node::Node),
}

impl ConfiguredEscrow {
    fn contract(&self) -> &Account {
        match self {
            Self::Evm(node) => &node.config().common.escrow_contract,
            Self::Tron(node) => &node.config().common.escrow_contract,
        }
    }

    async fn is_readable(&self) -> Result<Option<bool>, Transient> {
        match self {
            Self::Evm(node) => chains_evm::escrows::Escrows::of(node).is_readable(self.contract()).await,
            Self::Tron(node) => chains_tron::escrows::Escrows::of(node).is_readable(self.contract()).await.map(Some),
        }
    }

    /// Asks until the chain has answered.
    async fn check(&self) -> Result<()> {
        let contract = self.contract();
        let mut refused = 0;
        loop {
            match self.is_readable().await {
                Ok(Some(true)) => return Ok(()),
                Ok(Some(false)) => {
                    refused += 1;
                    ensure!(
                        refused < REFUSALS,
                        "the contract {contract} does not answer as an escrow of this version: if payments are in it, finish them \
                         with the version that deployed it; then deploy `GatewayEscrow` anew and name it as `escrow_contract`"
                    );
                }
                Ok(None) => {
                    refused = 0;
                    tracing::warn!(%contract, "there is no contract at the escrow's address; looking again");
                }
                Err(fault) => {
                    refused = 0;
                    tracing::warn!(%contract, %fault, "the escrow could not be checked; trying again");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Checks `escrows` once each and waits for `shutdown`.
///
/// # Errors
/// When one of them is not an escrow of this version.
pub(super) async fn run(escrows: Vec<ConfiguredEscrow>, shutdown: CancellationToken) -> Result<()> {
    let checked = try_join_all(escrows.iter().map(ConfiguredEscrow::check));
    if let Some(checked) = shutdown.run_until_cancelled(checked).await {
        checked?;
        shutdown.cancelled().await;
    }
    Ok(())
}
