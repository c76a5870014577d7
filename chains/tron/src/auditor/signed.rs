//! Signed transactions in the stream: the gateway's, and the payer's approval and deposit, rebuilt from the stream and compared.

use alloy::{
    primitives::{Address, B256},
    sol_types::SolCall,
};

use chains::auditor::{Discrepancies, Kind};
use escrow_abi::{
    contracts::{DevToken as Trc20, GatewayEscrow, units, word},
    eip712::{self, escrow_domain},
    evidence::Parties,
    signature,
};
use events::{
    PaymentId, Terms,
    event::{EscrowPlan, PayerTransaction, TransactionPrepared, TronSpend},
};

use crate::{
    address::{account, address, text, trc20},
    agreement::agreement,
    deliveries::OrderError,
    transaction::{self, Call, Decoded},
};

/// A journaled transaction must be the one whose hash was journaled with it, signed by its sender and with the
/// expiration that was.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    let (decoded, signer) = signed(&transaction.raw)?;
    let owner = text(decoded.draft.call.owner);
    if decoded.id.to_string() != transaction.transaction_hash {
        return Err(format!("its bytes hash to {}, not to {}", decoded.id, transaction.transaction_hash));
    }
    if account(decoded.draft.call.owner).as_ref() != Some(&transaction.sender) {
        return Err(format!("its owner is {owner}, not {}", transaction.sender));
    }
    if signer != Some(decoded.draft.call.owner) {
        return Err(format!("its signature is not that of {owner}"));
    }
    let expiration_ms = decoded.draft.expiration_ms;
    let journaled = transaction.validity.expiration_ms();
    if journaled != Some(expiration_ms) {
        let journaled = journaled.map_or_else(|| "what is journaled".to_owned(), |journaled| journaled.to_string());
        return Err(format!("it expires at {expiration_ms}, not at {journaled}"));
    }
    Ok(())
}

/// A transaction with whose key it was signed.
fn signed(raw: &str) -> Result<(Decoded, Option<Address>), String> {
    let bytes = raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok()).ok_or("its bytes are not hex")?;
    let (decoded, signature) = transaction::read_signed(&bytes).map_err(|error| error.to_string())?;
    let signer = transaction::signer(decoded.id, &signature);
    Ok((decoded, signer))
}

/// What the payer deposit must be, rebuilt from the stream.
pub(super) struct ExpectedDeposit {
    parties: Parties,
    call: GatewayEscrow::depositOwnCall,
    reserver: Address,
    /// Of the reserver's signature.
    opening: B256,
    approval: Call,
}

impl ExpectedDeposit {
    /// What the transactions of `spend` must be on the chain with the EIP-712 id `chain`.
    ///
    /// # Errors
    /// [`OrderError`] when an account or the asset of the payment is not Tron's.
    pub fn of(
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        spend: &TronSpend,
        chain: u64,
    ) -> Result<Self, OrderError> {
        let parties = parties(payment_id, terms, plan)?;
        let reserver = parties.reserver;
        let deposit = agreement(payment_id, terms.source.account(), terms.hash(), spend.quote_hash, plan)?;
        let (token, amount) = (parties.token, units(spend.amount));
        let call = GatewayEscrow::depositOwnCall {
            d: (&deposit).into(),
            token,
            amount,
            reserverSignature: Default::default(),
        };
        let opening =
            eip712::digest(&eip712::Opening { deposit, token, amount }, &escrow_domain(chain, parties.escrow));
        let approval = Call {
            owner: parties.payer,
            contract: token,
            data: Trc20::approveCall { spender: parties.escrow, value: amount }.abi_encode(),
            value_sun: 0,
        };
        Ok(Self { parties, call, reserver, opening, approval })
    }

    /// Checks that `transaction` is what it is journaled as, signed by the payer; its call, when it can be read.
    fn read(&self, name: &str, transaction: &PayerTransaction, discrepancies: &mut Discrepancies) -> Option<Call> {
        let (decoded, signer) = match signed(&transaction.raw) {
            Ok(read) => read,
            Err(what) => {
                discrepancies.add(Kind::Contradiction, format!("the payer's {name}: {what}"));
                return None;
            }
        };
        let (hash, payer) = (decoded.id.to_string(), text(self.parties.payer));
        discrepancies.require(hash == transaction.transaction_hash, || {
            format!("the bytes of the payer's {name} hash to {hash}, not to {}", transaction.transaction_hash)
        });
        discrepancies.require(signer == Some(self.parties.payer), || {
            format!("the {name} that the stream shows was not signed by the payer {payer}")
        });
        let expiration_ms = decoded.draft.expiration_ms;
        discrepancies.require(expiration_ms == transaction.expires_at, || {
            format!("the payer's {name} expires at {expiration_ms}, not at {}", transaction.expires_at)
        });
        Some(decoded.draft.call)
    }

    /// Compares the approval and the deposit that the stream shows, and their signatures, with this.
    pub fn check(&self, spend: &TronSpend, discrepancies: &mut Discrepancies) {
        if let Some(approval) = &spend.approval
            && let Some(call) = self.read("approval", approval, discrepancies)
        {
            discrepancies.require(call == self.approval, || {
                format!("the payer's approval is not of {} for the escrow", spend.amount)
            });
        }
        let Some(call) = self.read("deposit", &spend.deposit, discrepancies) else { return };
        let is_to = call.owner == self.parties.payer && call.contract == self.parties.escrow && call.value_sun == 0;
        discrepancies.require(is_to, || {
            let (owner, contract) = (text(call.owner), text(call.contract));
            format!("the payer's deposit is from {owner} to {contract} with {} sun", call.value_sun)
        });
        let Some(deposit) = GatewayEscrow::depositOwnCall::abi_decode(&call.data)
            .ok()
            // One encoding of what was read, so nothing was signed that was not.
            .filter(|deposit| deposit.abi_encode() == call.data)
        else {
            return discrepancies.add(Kind::Contradiction, "the payer's deposit calls no depositOwn");
        };
        let wanted =
            GatewayEscrow::depositOwnCall { reserverSignature: deposit.reserverSignature.clone(), ..self.call.clone() };
        discrepancies.require(deposit == wanted, || {
            format!("the payer's deposit has other terms, windows or accounts than the stream: {deposit:?}")
        });
        discrepancies.require(signature::is_of_key(self.reserver, self.opening, &deposit.reserverSignature), || {
            format!("the payer's deposit was not admitted by the reserver {}", text(self.reserver))
        });
    }
}

/// The parties of a payment of these terms under `plan`.
pub(super) fn parties(payment_id: &PaymentId, terms: &Terms, plan: &EscrowPlan) -> Result<Parties, OrderError> {
    Ok(Parties {
        id: word(payment_id.on_chain()),
        escrow: address(&plan.contract)?,
        payer: address(terms.source.account())?,
        token: trc20(terms.source.asset())?,
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        text,
    })
}
