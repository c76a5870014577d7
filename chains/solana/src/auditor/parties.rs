//! Parties of a case: the payment's accounts and terms in the program's types, and the effects on them in the evidence.

use chains::auditor::Case;
use events::{
    Amount, PaymentId, Terms,
    event::{EscrowPlan, SolanaSpend},
};
use gateway_program::{
    Hash, Key, ZERO_KEY,
    host::{associated_token_address, escrow_address, vault_address},
    instruction::Tag,
    message::{Deposit, Fulfillment},
};

use crate::{
    evidence::{Effect, Evidence},
    program::{ConvertError, key, mint, units},
    reassignments::ESCROW_IN_REASSIGNMENT,
};

/// The accounts of a case on its source chain.
pub(super) struct Parties {
    pub(super) program: Key,
    pub(super) id: Hash,
    pub(super) escrow: Key,
    pub(super) vault: Key,
    pub(super) payer: Key,
    pub(super) mint: Key,
    pub(super) payout: Key,
}

impl Parties {
    pub(super) fn of(case: &Case<'_>) -> Result<Self, ConvertError> {
        let program = key(&case.plan.contract)?;
        let id = case.payment_id.on_chain().0;
        Ok(Self {
            program,
            id,
            escrow: escrow_address(&program, &id).key,
            vault: vault_address(&program, &id).key,
            payer: key(case.terms.source.account())?,
            mint: mint(case.terms.source.asset())?,
            payout: key(&case.quote.payout_account)?,
        })
    }
}

/// The terms that the payer must have signed, rebuilt from the stream.
pub(super) fn deposit_of(
    payment_id: &PaymentId,
    terms: &Terms,
    plan: &EscrowPlan,
    spend: &SolanaSpend,
) -> Result<Deposit, ConvertError> {
    Ok(Deposit {
        payment_id: payment_id.on_chain().0,
        terms_hash: terms.hash().0,
        quote_hash: spend.quote_hash.0,
        payer: key(terms.source.account())?,
        mint: mint(terms.source.asset())?,
        amount: units(spend.amount)?,
        reserver: key(&plan.reserver)?,
        releaser: key(&plan.releaser)?,
        reserve_deadline: plan.reserve_deadline,
        fulfillment_deadline: plan.fulfillment_deadline,
        refund_after: plan.refund_after,
    })
}

/// The accounts of a case, what is due to its settler, and `deposited`, smallest unit.
pub(super) fn parties_and_amounts(case: &Case<'_>, deposited: Amount) -> Result<(Parties, u64, u64), ConvertError> {
    Ok((Parties::of(case)?, units(case.quote.source_amount)?, units(deposited)?))
}

impl Evidence {
    /// The instruction that ended the escrow of the payment, if there is one of these.
    pub(super) fn end_of(&self, parties: &Parties, tags: &[Tag]) -> Option<(Tag, Effect)> {
        self.effects(&parties.program).into_iter().find_map(|effect| {
            let tag = Tag::from_byte(*effect.call.data.first()?).filter(|tag| tags.contains(tag))?;
            (effect.call.accounts.first() == Some(&parties.escrow)).then_some((tag, effect))
        })
    }
}

impl Evidence {
    /// The instruction that reassigned the escrow of the payment, if there is one.
    pub(super) fn reassignment_of(&self, parties: &Parties) -> Option<Effect> {
        let is_one = |effect: &Effect| {
            effect.call.data.first() == Some(&(Tag::Reassign as u8))
                && effect.account(ESCROW_IN_REASSIGNMENT) == parties.escrow
        };
        self.effects(&parties.program).into_iter().find(is_one)
    }

    /// What of the deposit a release in this transaction left for the payer: it went there in the same transaction, or is in the
    /// vault.
    pub(super) fn left_for_payer(&self, parties: &Parties) -> u64 {
        match self.end_of(parties, &[Tag::ReturnRemainder]) {
            Some((_, returned)) => returned.paid(parties, &parties.payer),
            None => self.token_balance(&parties.vault).1,
        }
    }
}

impl Effect {
    /// The instruction's account at `index`; the zero key where it has fewer.
    pub(super) fn account(&self, index: usize) -> Key {
        self.call.accounts.get(index).copied().unwrap_or(ZERO_KEY)
    }

    /// What a delivery under `terms` moved from the settler to the recipient.
    pub(super) fn delivered(&self, terms: &Fulfillment) -> u64 {
        match self.call.accounts.as_slice() {
            [settler, _, _, recipient] => self.lamports_moved(settler, recipient),
            [_, _, _, _, from_token, to_token, _, token_program] => {
                let receiver = associated_token_address(&terms.recipient, token_program, &terms.mint).key;
                self.tokens_moved(|from, to| from == from_token && to == to_token && *to == receiver)
            }
            _ => 0,
        }
    }

    /// What the end of an escrow paid from its vault to `receiver`: into its associated token account, or into the account
    /// that it named when it signed as the last one, which the program asked for.
    pub(super) fn paid(&self, parties: &Parties, receiver: &Key) -> u64 {
        const TO: usize = 2;
        let accounts = self.call.accounts.as_slice();
        let Some(token_program) = accounts.get(5) else { return 0 };
        let has_no_word = [Tag::Refund, Tag::ReturnRemainder].map(|tag| self.call.data.first() == Some(&(tag as u8)));
        let account = match accounts.get(if has_no_word.contains(&true) { 6 } else { 8 }) {
            Some(signed) if signed == receiver => accounts[TO],
            Some(_) => return 0,
            None => associated_token_address(receiver, token_program, &parties.mint).key,
        };
        self.tokens_moved(|from, to| *from == parties.vault && *to == account)
    }
}
