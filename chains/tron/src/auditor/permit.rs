//! Permits, audited: what payers signed for Permit2 (ADR 156), rebuilt from the stream and compared with the signature.

use alloy::primitives::{Address, B256};

use chains::auditor::{Discrepancies, Discrepancy, Kind};
use escrow_abi::{
    evidence::Parties,
    permit2::{self, Deployed, Drawn},
    signature,
};
use events::{
    PaymentId, Terms,
    event::{EscrowPlan, Permit2},
};
use sagas::ports::Transient;

use super::{Auditor, signed::parties, unreadable};
use crate::{
    address::{address, text},
    agreement::agreement,
    deliveries::OrderError,
    permit2::of_escrow,
};

impl Auditor {
    /// What does not fit in what the payer signed for Permit2: its signature and every field, rebuilt from what the stream shows. Which
    /// Permit2 it is the escrow says.
    pub(super) async fn permitted(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        permit: &Permit2,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        permit2::check_recorded(permit, payment_id, terms, plan, &mut discrepancies);
        discrepancies.require(permit.allowance.is_none(), || {
            "the stream shows an allowance by signature, which no token on Tron takes".to_owned()
        });
        if let Err(error) = address(&plan.contract) {
            return Ok(unreadable(error));
        }
        let Some(drawn_by) = of_escrow(&self.node, &plan.contract).await? else {
            let what = format!("the escrow {} draws by no Permit2", plan.contract);
            discrepancies.add(Kind::Contradiction, what);
            return Ok(discrepancies.0);
        };
        let verified_by = Deployed { chain_id: self.node.reference().into(), address: drawn_by };
        let (payer, digest) = match digest(payment_id, terms, plan, permit, verified_by) {
            Ok(rebuilt) => rebuilt,
            Err(error) => return Ok(unreadable(error)),
        };
        let is_signed =
            signature::bytes(&permit.signature).is_ok_and(|bytes| signature::is_of_key(payer, digest, &bytes));
        discrepancies.require(is_signed, || {
            format!("the spend that the stream shows was not signed by the payer {}", text(payer))
        });
        Ok(discrepancies.0)
    }
}

/// Who must have signed, and what.
fn digest(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    permit: &Permit2,
    verified_by: Deployed,
) -> Result<(Address, B256), OrderError> {
    let Parties { payer, token, escrow, .. } = parties(payment_id, terms, plan)?;
    let witness = agreement(payment_id, terms.source.account(), terms.hash(), permit.quote_hash, plan)?;
    Ok((payer, permit2::recorded(permit, verified_by, Drawn { token, escrow }, Some(witness)).digest()))
}
