//! The outcome of one action, and what of an escrow it is made of.

use events::{
    PaymentId,
    event::{EscrowPlan, EscrowRefunded},
};

use super::Ports;
use crate::{
    payment::{Command, Payment},
    ports::{EscrowState, OpenWindow, Refusal, Transient},
};

/// What came of an action.
pub(super) enum Outcome {
    /// Something to record.
    Command(Box<Command>),
    /// Nothing new; look again when the chain has moved.
    Nothing,
    /// Nothing new, and nothing will be before the event that the action waits for, see [`Action::wake_condition`].
    AwaitEvent,
    /// The delivery has its depth here, and the verifier says that it does not see it; look again soon.
    DeliveryDoubted,
    /// The collection window stays open.
    WindowOpen(OpenWindow),
    /// The payer deposit is on its way; what was refused before was mended. Look again when the chain has moved.
    DepositAwaited,
    /// The source chain refused the deposit, for now.
    DepositRefused(Box<Refusal>),
    /// The source chain refused the reassignment, for now; look again when it has moved.
    ReassignmentRefused(Box<Refusal>),
    /// The source chain refused the release, for now; look again as after [`Outcome::AwaitEvent`].
    ReleaseRefused(Box<Refusal>),
}

impl Outcome {
    pub(super) fn command(command: Command) -> Self {
        Self::Command(Box::new(command))
    }
}

/// Where the escrow of `payment` stands at the required depth.
pub(super) async fn escrow_state(ports: &Ports, payment: &Payment) -> Result<EscrowState, Transient> {
    let plan: &EscrowPlan = &payment.submitted.escrow;
    ports.chains.escrow_state(&payment.submitted.payment_id, plan).await
}

/// The escrow's end, with what of it could not be paid out.
pub(super) async fn ended(
    ports: &Ports,
    payment_id: &PaymentId,
    escrow: &EscrowPlan,
    state: EscrowState,
) -> Result<Outcome, Transient> {
    let claims = match &state {
        EscrowState::Released(end) | EscrowState::Refunded(EscrowRefunded { inclusion: end, .. }) => {
            ports.chains.claims(payment_id, escrow, end).await?
        }
        EscrowState::Absent | EscrowState::Held | EscrowState::Lapsed => Vec::new(),
    };
    Ok(Outcome::command(Command::ObserveEscrow { state, claims }))
}
