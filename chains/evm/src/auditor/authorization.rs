//! What the payer signed, audited: rebuilt from the stream, and compared with the signature.

use alloy::{
    primitives::{Address, B256, U256},
    sol_types::SolStruct,
};

use chains::auditor::{Discrepancies, Discrepancy, Kind};
use escrow_abi::{
    contracts::{self, ConvertError, address, units},
    eip712::{self, ReceiveWithAuthorization, TransferWithAuthorization, token_domain},
    permit2::{self, Deployed, Drawn},
    signature,
};
use events::{
    Hash32, PaymentId, Terms,
    event::{
        Authorization, BatchPermit, BatchToken, DepositAddress, Eip3009, EscrowPlan, MandateCharge, Permit2,
        TokenPermit, X402Exact,
    },
};
use sagas::ports::Transient;

use super::{Auditor, unreadable};
use crate::{
    authorization::recorded_digest, calls::Calls, deposit_addresses, erc6492, mandates, node::At, offers,
    payment_batches, query::Query, token_domain::TokenDomain,
};

/// What does not fit in the address that the payer's money was sent to: nothing is signed, so it is the address that commits to what the
/// stream shows.
fn sent(payment_id: &PaymentId, terms: &Terms, plan: &EscrowPlan, recorded: &DepositAddress) -> Vec<Discrepancy> {
    let mut discrepancies = Discrepancies::default();
    if let Some(cap) = terms.max_source_amount {
        discrepancies
            .require(cap == recorded.amount, || format!("the address is for {}, the terms say {cap}", recorded.amount));
    }
    match deposit_addresses::mismatch(payment_id, terms, plan, recorded) {
        Ok(mismatch) => discrepancies.0.extend(
            mismatch
                .map(|what| Discrepancy { kind: Kind::Contradiction, what: format!("the deposit address: {what}") }),
        ),
        Err(error) => return unreadable(error),
    }
    discrepancies.0
}

impl Auditor {
    /// What does not fit in what the payer signed: its signature and every field, rebuilt from what the stream shows.
    pub(super) async fn authorized(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        authorization: &Authorization,
    ) -> Result<Vec<Discrepancy>, Transient> {
        match authorization {
            Authorization::EvmPermit2Escrow(permit) => self.permitted(payment_id, terms, plan, permit, true).await,
            Authorization::EvmPermit2(permit) => self.permitted(payment_id, terms, plan, permit, false).await,
            Authorization::EvmEip3009(transfer) => self.transferred(payment_id, terms, plan, transfer).await,
            Authorization::EvmPermit2Batch(permit) => self.in_batch(payment_id, terms, plan, permit).await,
            Authorization::EvmPermit2Mandate(charge) => self.mandated(payment_id, terms, plan, charge).await,
            Authorization::EvmX402Exact(purchase) => self.purchased(payment_id, terms, plan, purchase).await,
            Authorization::DepositAddress(address) => Ok(sent(payment_id, terms, plan, address)),
            Authorization::Solana(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Tron(_)
            | Authorization::TronPermit2Escrow(_) => Ok(unreadable("the payer signed for another family")),
        }
    }

    async fn permitted(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        permit: &Permit2,
        with_witness: bool,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        permit2::check_recorded(permit, payment_id, terms, plan, &mut discrepancies);
        let (payer, digest) = match self.permit_digest(payment_id, terms, plan, permit, with_witness) {
            Ok(rebuilt) => rebuilt,
            Err(error) => return Ok(unreadable(error)),
        };
        discrepancies.0.extend(self.signed_by(payer, digest, &permit.signature).await?);
        if let Some(allowance) = &permit.allowance {
            discrepancies.0.extend(self.allowed(payer, terms, allowance).await?);
        }
        Ok(discrepancies.0)
    }

    async fn allowed(
        &self,
        payer: Address,
        terms: &Terms,
        allowance: &TokenPermit,
    ) -> Result<Option<Discrepancy>, Transient> {
        let token = contracts::erc20(terms.source.asset())?;
        let digest = recorded_digest(allowance, (payer, self.node.permit2(), token), self.node.evm_id());
        Ok(match self.signed_by(payer, digest, &allowance.signature).await? {
            Some(discrepancy) => Some(discrepancy),
            None => self.named(token, &allowance.domain).await?,
        })
    }

    /// Whether a token is named today as it was when it was signed for. It may have been renamed since.
    async fn named(&self, token: Address, domain: &TokenDomain) -> Result<Option<Discrepancy>, Transient> {
        let today = self.tokens.signatures(token).await?;
        let is_same = today.is_some_and(|signatures| signatures.domain == *domain);
        let TokenDomain { name, version } = domain;
        let what = format!(
            "the token {token} does not sign as {name:?}, version {version:?}, today, as the payer's message says"
        );
        Ok((!is_same).then_some(Discrepancy { kind: Kind::Unverifiable, what }))
    }

    async fn transferred(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        transfer: &Eip3009,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let parties = || -> Result<_, ConvertError> {
            let payer = address(terms.source.account())?;
            let deposit = eip712::deposit(payment_id, terms.hash(), transfer.quote_hash, payer, plan)?;
            Ok((payer, deposit.eip712_hash_struct(), contracts::erc20(terms.source.asset())?, address(&plan.contract)?))
        };
        let (payer, nonce, token, escrow) = match parties() {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        discrepancies.same("the authorization's nonce", transfer.nonce, Hash32(nonce.0));
        if let Some(cap) = terms.max_source_amount {
            let amount = transfer.amount;
            // Of a quote that it knew the payer need not have locked all.
            let fits = if transfer.quote_hash == Hash32::ZERO { amount == cap } else { amount <= cap };
            discrepancies.require(fits, || format!("the payer authorizes {amount}, the terms say {cap}"));
        }
        let (valid_before, reserve_deadline) = (transfer.valid_before, plan.reserve_deadline);
        discrepancies.require(valid_before > reserve_deadline, || {
            format!("the authorization ends before {valid_before}, the reserve deadline is {reserve_deadline}")
        });
        let TokenDomain { name, version } = transfer.domain.clone();
        let message = ReceiveWithAuthorization {
            from: payer,
            to: escrow,
            value: units(transfer.amount),
            validAfter: U256::ZERO,
            validBefore: U256::from(valid_before),
            nonce,
        };
        let digest = eip712::digest(&message, &token_domain(name, version, self.node.evm_id(), token));
        discrepancies.0.extend(self.signed_by(payer, digest, &transfer.signature).await?);
        discrepancies.0.extend(self.named(token, &transfer.domain).await?);
        Ok(discrepancies.0)
    }

    /// The offer is rebuilt from what the stream shows, and has to have the address that the buyer signed for.
    async fn purchased(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        purchase: &X402Exact,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let parties = || -> Result<_, ConvertError> {
            let mismatch = offers::mismatch(terms, plan, purchase)?;
            let (payer, to) = (address(terms.source.account())?, address(&purchase.pay_to)?);
            Ok((mismatch, payer, to, contracts::erc20(terms.source.asset())?))
        };
        let (mismatch, payer, to, token) = match parties() {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let contradiction =
            |what| Discrepancy { kind: Kind::Contradiction, what: format!("the offer's address: {what}") };
        discrepancies.0.extend(mismatch.map(contradiction));
        let id = PaymentId::derive(&terms.source.account().originator(), &purchase.nonce.to_string());
        discrepancies.same("the payment's id, made of the buyer and the authorization's nonce", payment_id, &id);
        if let Some(cap) = terms.max_source_amount {
            let amount = purchase.amount;
            discrepancies.require(amount == cap, || format!("the buyer authorizes {amount}, the terms say {cap}"));
        }
        let (valid_before, reserve_deadline) = (purchase.valid_before, plan.reserve_deadline);
        discrepancies.require(valid_before == reserve_deadline.saturating_add(1), || {
            format!("the authorization ends before {valid_before}, the reserve deadline is {reserve_deadline}")
        });
        let TokenDomain { name, version } = purchase.domain.clone();
        let message = TransferWithAuthorization {
            from: payer,
            to,
            value: units(purchase.amount),
            validAfter: U256::from(purchase.valid_after),
            validBefore: U256::from(valid_before),
            nonce: contracts::word(purchase.nonce),
        };
        let digest = eip712::digest(&message, &token_domain(name, version, self.node.evm_id(), token));
        discrepancies.0.extend(self.signed_by(payer, digest, &purchase.signature).await?);
        discrepancies.0.extend(self.named(token, &purchase.domain).await?);
        Ok(discrepancies.0)
    }

    /// The payment has to be under the root that the payer signed. What else is under it is nobody's business here.
    async fn in_batch(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        permit: &BatchPermit,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let verified_by = Deployed { chain_id: self.node.evm_id(), address: self.node.permit2() };
        let parties = || -> Result<_, ConvertError> {
            let mismatch = payment_batches::mismatch(payment_id, terms, plan, permit)?;
            let (payer, token) = (address(terms.source.account())?, contracts::erc20(terms.source.asset())?);
            Ok((mismatch, payer, token, payment_batches::recorded_digest(permit, &plan.contract, verified_by)?))
        };
        let (mismatch, payer, token, digest) = match parties() {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let contradiction = |what| Discrepancy { kind: Kind::Contradiction, what: format!("the batch: {what}") };
        discrepancies.0.extend(mismatch.map(contradiction));
        if let Some(cap) = terms.max_source_amount {
            let amount = permit.amount;
            discrepancies.require(amount == cap, || format!("the payer permits {amount}, the terms say {cap}"));
        }
        let is_of_token = |permitted: &&BatchToken| address(&permitted.token).is_ok_and(|permitted| permitted == token);
        let drawn = permit.permitted.iter().find(is_of_token).map(|permitted| permitted.amount);
        discrepancies.require(drawn >= Some(permit.amount), || {
            format!("the batch does not draw the {} of {token} that the payment takes", permit.amount)
        });
        discrepancies.0.extend(self.signed_by(payer, digest, &permit.signature).await?);
        Ok(discrepancies.0)
    }

    /// The mandate is rebuilt from what the stream shows. Its merchant has to have asked for just this payment, and its payer to have signed
    /// for the address, or else to have given the allowance itself, which the deposit shows by having drawn.
    async fn mandated(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        charge: &MandateCharge,
    ) -> Result<Vec<Discrepancy>, Transient> {
        let mut discrepancies = Discrepancies::default();
        let permit2 = Deployed { chain_id: self.node.evm_id(), address: self.node.permit2() };
        let parties = || -> Result<_, ConvertError> {
            let mismatch = mandates::mismatch(terms, plan, charge)?;
            let (payer, merchant) = (address(terms.source.account())?, address(&charge.mandate.merchant)?);
            Ok((mismatch, payer, merchant, mandates::recorded_digests(payment_id, (terms, plan), charge, permit2)?))
        };
        let (mismatch, payer, merchant, (asked, granted)) = match parties() {
            Ok(parties) => parties,
            Err(error) => return Ok(unreadable(error)),
        };
        let contradiction = |what| Discrepancy { kind: Kind::Contradiction, what: format!("the mandate: {what}") };
        discrepancies.0.extend(mismatch.map(contradiction));
        let (amount, most) = (charge.amount, charge.mandate.amount);
        discrepancies.require(terms.max_source_amount == Some(amount), || {
            format!("the merchant asks for {amount}, and the terms say otherwise")
        });
        discrepancies
            .require(amount <= most, || format!("the merchant asks for {amount}, and the mandate allows {most}"));
        let by_key = |signature: &str, digest, account| {
            signature::bytes(signature).is_ok_and(|bytes| signature::by_key(&bytes, digest, account).is_ok())
        };
        discrepancies.require(by_key(&charge.signature, asked, merchant), || {
            format!("what the stream shows was not asked for by the merchant {merchant}")
        });
        if let Some(permit) = &charge.permit {
            discrepancies.require(by_key(permit, granted, payer), || {
                format!("the mandate that the stream shows was not signed by the payer {payer}")
            });
        }
        Ok(discrepancies.0)
    }

    fn permit_digest(
        &self,
        payment_id: &PaymentId,
        terms: &Terms,
        plan: &EscrowPlan,
        permit: &Permit2,
        with_witness: bool,
    ) -> Result<(Address, B256), ConvertError> {
        let payer = address(terms.source.account())?;
        let verified_by = Deployed { chain_id: self.node.evm_id(), address: self.node.permit2() };
        let drawn = Drawn { token: contracts::erc20(terms.source.asset())?, escrow: address(&plan.contract)? };
        let witness = match with_witness {
            true => Some(eip712::deposit(payment_id, terms.hash(), permit.quote_hash, payer, plan)?),
            false => None,
        };
        Ok((payer, permit2::recorded(permit, verified_by, drawn, witness).digest()))
    }

    async fn signed_by(
        &self,
        account: Address,
        digest: B256,
        signature: &str,
    ) -> Result<Option<Discrepancy>, Transient> {
        let contradiction = |what: String| Some(Discrepancy { kind: Kind::Contradiction, what });
        let bytes = match signature::bytes(signature) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(contradiction(format!("the payer's signature: {error}"))),
        };
        let wrapped = signature::is_erc6492(&bytes).then(|| signature::unwrap_erc6492(&bytes));
        let inner = match &wrapped {
            Some(Ok(wrapped)) => wrapped.signature.to_vec(),
            Some(Err(error)) => return Ok(contradiction(format!("the payer's signature: {error}"))),
            None => bytes,
        };
        let recovered = signature::parse(&inner).and_then(|parsed| signature::recover(&parsed, digest));
        if recovered == Ok(account) {
            return Ok(None);
        }
        let head = At::Block(self.node.head().await?);
        if !Query::of(&self.node).code(account, head).await?.is_empty() {
            let accepts = Calls::of(&self.node).contract_accepts(account, digest, &inner, head).await?;
            // A contract account may have changed its keys since.
            let what = format!("the contract account {account} does not take the payer's signature today");
            return Ok((!accepts).then_some(Discrepancy { kind: Kind::Unverifiable, what }));
        }
        if let Some(Ok(wrapped)) = &wrapped
            && erc6492::accepts(&self.node, account, digest, wrapped, head).await?
        {
            return Ok(None);
        }
        Ok(contradiction(format!("the spend that the stream shows was not signed by the payer {account}")))
    }
}
