//! Admitted deposits, audited: the gateway's call that deposited what is in escrow and named the settler.

use chains::auditor::{Case, Discrepancies, Discrepancy};
use escrow_abi::{
    contracts::{GatewayEscrow, units},
    evidence::{Agreement, Evidence, Parties},
};
use events::{
    Account, Hash32,
    event::{Authorization, EscrowSecured},
};

use super::unreadable;
use crate::address::address;

/// Where the money of an admitted deposit came from, and the quote that the payer had agreed to.
pub(super) struct MoneySource<'a> {
    /// The account that the token moved from: the payer's, or the address that it was sent to.
    pub account: &'a Account,
    /// The quote; zero for none.
    pub agreed: Hash32,
}

impl<'a> MoneySource<'a> {
    /// Of a case whose deposit is the gateway's call; `None` where the payer's own transaction deposits, and for another family.
    pub fn of(case: &'a Case<'_>) -> Option<Self> {
        match case.authorization {
            Authorization::DepositAddress(given) => Some(Self { account: &given.address, agreed: Hash32::ZERO }),
            Authorization::TronPermit2Escrow(permit) => {
                Some(Self { account: case.terms.source.account(), agreed: permit.quote_hash })
            }
            Authorization::Tron(_)
            | Authorization::EvmPermit2Escrow(_)
            | Authorization::EvmPermit2(_)
            | Authorization::EvmEip3009(_)
            | Authorization::EvmPermit2Batch(_)
            | Authorization::EvmPermit2Mandate(_)
            | Authorization::EvmX402Exact(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Solana(_) => None,
        }
    }
}

/// What does not fit in the deposit that the transaction of `evidence` made of money from `source`.
pub(super) fn audit_admitted(
    case: &Case<'_>,
    source: &MoneySource<'_>,
    parties: &Parties,
    evidence: &Evidence,
    secured: &EscrowSecured,
) -> Vec<Discrepancy> {
    let mut discrepancies = Discrepancies::default();
    let (amount, price) = (secured.amount, case.quote.source_amount);
    discrepancies.require(amount >= price, || format!("{amount} are in escrow, and the quote asks for {price}"));
    let deposits: Vec<GatewayEscrow::Deposited> = evidence.events(parties.escrow);
    let Some(made) = deposits.iter().find(|event| event.paymentId == parties.id) else {
        evidence.no_deposit(parties, &secured.inclusion.transaction_hash, &mut discrepancies);
        return discrepancies.0;
    };
    discrepancies.same("the amount deposited", units(amount), made.amount);
    let terms_hash = case.terms.hash();
    let agreement = Agreement { plan: case.plan, terms_hash, agreed: source.agreed, quote_hash: case.quote_hash };
    Evidence::deposited(parties, &agreement, made, &mut discrepancies);
    match address(source.account) {
        Ok(payer) => {
            let taken_from = Parties { payer, ..*parties };
            evidence.taken(&taken_from, deposits.len(), made.amount, &mut discrepancies);
        }
        Err(error) => return unreadable(error),
    }
    discrepancies.0
}
