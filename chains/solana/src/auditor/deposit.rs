//! Deposits, audited: what was deposited under the payer's signature, and whether that and every other deposit is the case's.

use chains::auditor::{Case, Discrepancies};
use events::{
    Hash32,
    event::{Authorization, EscrowSecured},
    time::unix_seconds,
};
use gateway_program::{ed25519, host::Message, instruction::DepositAndReserve};

use super::{Auditor, Parties, parties::deposit_of, unreadable};
use crate::{
    evidence::{Effect, Evidence},
    program::{key, signature_bytes, text},
};

/// A deposit that was made: the instruction, its terms as one who signs them has them, and what is in escrow by it.
pub(super) struct Deposited {
    pub(super) effect: Effect,
    pub(super) deposit: DepositAndReserve,
    pub(super) due: u64,
}

impl Auditor {
    /// The deposit under the payer's signature that the transaction of `evidence` made, if it made one.
    pub(super) fn signed_deposit(
        &self,
        case: &Case<'_>,
        parties: &Parties,
        evidence: &Evidence,
        secured: &EscrowSecured,
        discrepancies: &mut Discrepancies,
    ) -> Option<Deposited> {
        let deposits = evidence.effects(&parties.program).into_iter().filter_map(|effect| {
            let deposit = DepositAndReserve::from_bytes(&effect.call.data)?;
            (deposit.payment_id == parties.id).then_some((effect, deposit))
        });
        let (effect, deposit) = deposits.into_iter().next()?;
        discrepancies.same("the amount in escrow", secured.amount, case.quote.source_amount);
        self.presented(case, evidence, &deposit, parties, discrepancies);
        Some(Deposited { effect, due: deposit.source_amount, deposit })
    }

    /// Checks that the deposit was made by what the payer signed, and under no other signature.
    fn presented(
        &self,
        case: &Case<'_>,
        evidence: &Evidence,
        deposit: &DepositAndReserve,
        parties: &Parties,
        discrepancies: &mut Discrepancies,
    ) {
        let Authorization::Solana(spend) = case.authorization else {
            return discrepancies.0.extend(unreadable("the payer signed for another family"));
        };
        let rebuilt = deposit_of(case.payment_id, case.terms, case.plan, spend)
            .and_then(|signed| Ok((signed, key(&spend.signer)?)));
        let (signed, signer) = match rebuilt {
            Ok(rebuilt) => rebuilt,
            Err(error) => return discrepancies.0.extend(unreadable(error)),
        };
        discrepancies.same("the key that signed the deposit", text(&signer), text(&deposit.signer));
        discrepancies.same("the most that may be taken", signed.amount, deposit.cap);
        discrepancies.same("the quote that was signed for", spend.quote_hash, Hash32(deposit.agreed_quote_hash));
        let digest = signed.digest(&self.node.domain(&parties.program));
        let presented = evidence.ed25519(deposit.ed25519_index);
        let wanted = signature_bytes(&spend.signature).map(|signature| ed25519::data(&signer, &signature, &digest));
        discrepancies.require(wanted.as_ref().map(<[u8; ed25519::SIZE]>::as_slice) == presented, || {
            "the deposit was made under another signature than the stream shows".to_owned()
        });
    }
}

/// Compares the terms, quote and windows of the case with those of its deposit.
pub(super) fn same_terms(
    case: &Case<'_>,
    parties: &Parties,
    (effect, deposit): (&Effect, &DepositAndReserve),
    discrepancies: &mut Discrepancies,
) {
    let plan = case.plan;
    discrepancies.same("the payer", text(&parties.payer), text(&deposit.payer));
    discrepancies.same("the token", text(&parties.mint), text(&effect.account(7)));
    discrepancies.same("the terms' hash in the deposit", case.terms.hash(), Hash32(deposit.terms_hash));
    discrepancies.same("the quote's hash in the reservation", case.quote_hash, Hash32(deposit.quote_hash));
    discrepancies.same("the account that is to be paid", text(&parties.payout), text(&deposit.settler));
    let fulfill_by = unix_seconds(case.quote.fulfill_by);
    discrepancies.same("the time of delivery in the reservation", fulfill_by, deposit.fulfill_by);
    discrepancies.same("the reserver in the deposit", plan.reserver.to_string(), text(&effect.account(1)));
    discrepancies.same("the releaser in the deposit", plan.releaser.to_string(), text(&deposit.releaser));
    discrepancies.same("the reserve deadline in the deposit", plan.reserve_deadline, deposit.reserve_deadline);
    let (stream, chain) = (plan.fulfillment_deadline, deposit.fulfillment_deadline);
    discrepancies.same("the fulfillment deadline in the deposit", stream, chain);
    discrepancies.same("the begin of the refund window in the deposit", plan.refund_after, deposit.refund_after);
}
