//! Releases, and why they and claims are refused: asked alike of every family's chains.

use anyhow::{Context, Result, bail, ensure};

use chains::perform::PerformError;
use sagas::ports::{Chains, DepositOrder, PrepareError, ReleaseOrder, Statement};

/// The order to release a deposit by `attestation`.
pub fn order(deposit: &DepositOrder, attestation: String) -> ReleaseOrder {
    ReleaseOrder {
        payment_id: deposit.payment_id.clone(),
        escrow: deposit.escrow.clone(),
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account.clone(),
        attestation,
    }
}

/// That the delivery for a deposit was made.
pub fn statement(deposit: &DepositOrder) -> Statement {
    Statement::Delivery {
        payment_id: deposit.payment_id.clone(),
        quote_hash: deposit.reservation.quote_hash,
        payout_account: deposit.reservation.payout_account.clone(),
    }
}

/// Why a release is refused, which costs nothing and shows a node nothing that anybody could misuse. It is an attempt that has no
/// nonce: one that has uses it up, so that what comes behind is not held up.
pub async fn refused(chains: &dyn Chains, order: &ReleaseOrder) -> Result<String> {
    match chains.prepare_release(order, 2).await {
        Err(PrepareError::Refused(refusal)) => {
            ensure!(refusal.valid_until == 0, "{refusal:?}");
            refusal.context.revert_reason.context("no reason")
        }
        other => bail!("not refused: {other:?}"),
    }
}

/// Why a settler's transaction is refused.
pub fn reason(outcome: Result<String, PerformError>) -> Result<String> {
    match outcome {
        Err(PerformError::Refused(context)) => context.revert_reason.context("no reason"),
        other => bail!("not refused: {other:?}"),
    }
}
