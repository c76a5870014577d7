//! What only the token, or the escrow, can say of a signature that is for a token (ERC-2612, ERC-3009).

use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

use alloy::primitives::{Address, U256};

use chains_evm::{
    authorization, deposit_addresses,
    escrows::Escrows,
    mandates, offers, payment_batches,
    token_domain::{TokenDomain, TokenSignatures},
};
use escrow_abi::contracts::{address, erc20};
use events::{
    Account, OwnedAsset,
    event::{Authorization, DepositAddress, TokenPermit},
};

use super::{
    EvmChain,
    messages::{as_signed, convert},
};
use crate::{
    authorization::{AuthorizationRequest, AuthorizeError, Authorized, SignedMessage, asked_escrows::crowded},
    bulkhead::Bulkhead,
};

/// Why a token's payer cannot give the allowance by a signature.
pub(super) const NO_PERMITS: &str =
    "sender_auth.signed_messages: the source's token takes no signed allowances (ERC-2612)";
/// How long it counts that an escrow takes no signed transfers.
const OLDER_FOR: Duration = Duration::from_secs(30);
/// Why a contract cannot pay so: some tokens ask no contracts, and none says whether it does.
pub(super) const KEYS_ONLY: &str = "source.account: is a contract, of which a token may take no signature: sign for Permit2 alone \
     (EVM_PERMIT2_ESCROW), and give the allowance by a transaction";
/// Why an escrow takes none.
pub(super) const OLDER_ESCROW: &str =
    "message_scheme: the escrow was deployed before it took signed transfers (ERC-3009); see EVM_PERMIT2_ESCROW";
/// Why an escrow gets nothing from addresses of offers.
pub(super) const NO_OFFERS: &str = "escrow_contract: gets nothing from addresses of offers: it is of an earlier version, or the chain lacks the \
     contract that makes them (`gw deploy` brings it)";
/// Why an escrow gets nothing from mandates.
pub(super) const NO_MANDATES: &str = "escrow_contract: gets nothing from mandates: it is of an earlier version, or the chain lacks the contract \
     that keeps them (`gw deploy` brings it)";
/// Why there are no offers in a token.
pub(super) const NO_EXACT: &str =
    "asset: the token takes no signed transfers (ERC-3009), which exact is; see gw-escrow";
/// Why there is nothing to prepare under x402's `exact`.
pub(super) const X402_ONLY: &str =
    "message_scheme: EVM_X402_EXACT is what clients of x402 sign for a merchant's offer; see EVM_EIP3009";
/// Why one payment is not prepared as a batch.
pub(super) const BATCH_ONLY: &str = "message_scheme: EVM_PERMIT2_BATCH is prepared for all payments of a batch by /v1/payments/batches/prepare; see EVM_PERMIT2_ESCROW";
/// Why a token cannot be paid with by a signature of its own.
pub(super) const NO_TRANSFERS: &str =
    "message_scheme: the source's token takes no signed transfers (ERC-3009); see EVM_PERMIT2_ESCROW";

impl EvmChain {
    /// Which signatures the source's token takes; asked in this bulkhead where it is not known lately.
    pub(super) async fn token(
        &self,
        source: &OwnedAsset,
        asks: &Bulkhead,
    ) -> Result<Option<TokenSignatures>, AuthorizeError> {
        let token = convert(erc20(source.asset()))?;
        if let Some(known) = self.tokens.lately(token) {
            return Ok(known);
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        Ok(self.tokens.signatures(token).await?)
    }

    /// The nonce that the payer's next permit has to have.
    pub(super) async fn permit_nonce(
        &self,
        token: Address,
        payer: Address,
        asks: &Bulkhead,
    ) -> Result<U256, AuthorizeError> {
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        Ok(self.tokens.permit_nonce(token, payer).await?)
    }

    /// Whether an escrow has a call for signed transfers. One that was deployed before it had has none, and its code never changes;
    /// but a node may not know it yet.
    pub(super) async fn takes_transfers(&self, escrow: &Account, asks: &Bulkhead) -> Result<bool, AuthorizeError> {
        // Entries are replaced whole.
        let known = self.escrows_with_transfers.lock().unwrap_or_else(PoisonError::into_inner).get(escrow).copied();
        if let Some((takes, at)) = known
            && (takes || at.elapsed() < OLDER_FOR)
        {
            return Ok(takes);
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        let takes = Escrows::of(self.payers.node()).takes_transfers(escrow).await?;
        let mut known = self.escrows_with_transfers.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(escrow.clone(), (takes, Instant::now()));
        Ok(takes)
    }

    /// Why the token would give nothing back to the source's account; `None` where it would.
    pub(super) async fn refuses_refunds(
        &self,
        given: &DepositAddress,
        source: &OwnedAsset,
    ) -> Result<Option<String>, AuthorizeError> {
        let _permit = self.unsigned_asks.permit().await.ok_or_else(crowded)?;
        Ok(deposit_addresses::refuses_refunds(self.payers.node(), given, source).await?)
    }

    /// A block of the chain, as of which deposit addresses of the escrow are given.
    pub(super) async fn addresses_from(&self, escrow: &Account, asks: &Bulkhead) -> Result<u64, AuthorizeError> {
        let none = || {
            let rule = "escrow_contract: gets nothing from deposit addresses: it is of an earlier version, or the chain lacks the \
                        contract that makes them (`gw deploy` brings it)";
            AuthorizeError::Refused(rule.to_owned())
        };
        let served = deposit_addresses::served_from(self.payers.node(), escrow);
        let served = self.addressed_escrows.of(escrow, asks, served).await?;
        served.ok_or_else(none)
    }

    /// A block of the chain, as of which batches are taken into the escrow.
    pub(super) async fn batches_from(&self, escrow: &Account, asks: &Bulkhead) -> Result<u64, AuthorizeError> {
        let none = || {
            let rule = "escrow_contract: gets nothing from batches: it is of an earlier version, or the chain lacks the contract that \
                        draws them (`gw deploy` brings it)";
            AuthorizeError::Refused(rule.to_owned())
        };
        let served = payment_batches::served_from(self.payers.node(), escrow);
        let served = self.batched_escrows.of(escrow, asks, served).await?;
        served.ok_or_else(none)
    }

    /// Whether the escrow gets deposits from addresses of offers, lately.
    pub(super) async fn takes_offers(&self, escrow: &Account, asks: &Bulkhead) -> Result<bool, AuthorizeError> {
        let known = self.offered_escrows.lock().unwrap_or_else(PoisonError::into_inner).get(escrow).copied();
        if let Some((takes, at)) = known
            && (takes || at.elapsed() < OLDER_FOR)
        {
            return Ok(takes);
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        let takes = offers::served(self.payers.node(), escrow).await?;
        let mut known = self.offered_escrows.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(escrow.clone(), (takes, Instant::now()));
        Ok(takes)
    }

    /// Whether the escrow gets deposits from mandates, lately.
    pub(super) async fn check_mandates(&self, escrow: &Account, asks: &Bulkhead) -> Result<(), AuthorizeError> {
        let served = async { Ok(mandates::served(self.payers.node(), escrow).await?.then_some(())) };
        let none = || AuthorizeError::Refused(NO_MANDATES.to_owned());
        self.mandated_escrows.of(escrow, asks, served).await?.ok_or_else(none)
    }

    /// Whether the payer has to do with a mandate that its merchant brings without the payer's signature: else anybody could make one up.
    pub(super) async fn check_granted(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<(), AuthorizeError> {
        let Authorization::EvmPermit2Mandate(charge) = &authorized.authorization else { return Ok(()) };
        if charge.permit.is_some() {
            return Ok(());
        }
        let source = &request.terms.source;
        let parties = (convert(address(source.account()))?, convert(erc20(source.asset()))?);
        // Only that it has is remembered: it may any moment.
        if self.granted_mandates.contains_key(&charge.address) {
            return Ok(());
        }
        let _permit = self.tokens_asked.permit().await.ok_or_else(crowded)?;
        if mandates::is_granted(self.payers.node(), parties, charge).await? {
            self.granted_mandates.insert(charge.address.clone(), ()).await;
            return Ok(());
        }
        let rule = format!(
            "payload.permit is missing, and the payer has not let the mandate {} draw at Permit2 itself",
            charge.address
        );
        Err(AuthorizeError::Refused(format!("sender_auth.signed_messages: {rule}")))
    }

    /// Whether what was signed for the token holds there: in its own domain, and it takes such signatures.
    pub(super) async fn confirm_token(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<(), AuthorizeError> {
        match &authorized.authorization {
            Authorization::EvmEip3009(transfer) => {
                if !self.takes_transfers(request.escrow_contract, &self.tokens_asked).await? {
                    return Err(AuthorizeError::Refused(OLDER_ESCROW.to_owned()));
                }
                let takes = |own: &TokenSignatures| own.receives;
                self.confirm_transfer(request, &transfer.domain, takes, NO_TRANSFERS).await
            }
            Authorization::EvmX402Exact(purchase) => {
                if !self.takes_offers(request.escrow_contract, &self.tokens_asked).await? {
                    return Err(AuthorizeError::Refused(NO_OFFERS.to_owned()));
                }
                self.confirm_transfer(request, &purchase.domain, |own| own.transfers, NO_EXACT).await
            }
            Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => match &permit.allowance {
                Some(allowance) => self.confirm_allowance(request, allowance).await,
                None => Ok(()),
            },
            Authorization::EvmPermit2Mandate(_) => {
                self.check_mandates(request.escrow_contract, &self.tokens_asked).await
            }
            Authorization::EvmPermit2Batch(_)
            | Authorization::DepositAddress(_)
            | Authorization::Solana(_)
            | Authorization::SolanaX402Exact(_)
            | Authorization::Tron(_)
            | Authorization::TronPermit2Escrow(_) => Ok(()),
        }
    }

    async fn confirm_transfer(
        &self,
        request: &AuthorizationRequest<'_>,
        signed: &TokenDomain,
        takes: impl Fn(&TokenSignatures) -> bool,
        takes_none: &str,
    ) -> Result<(), AuthorizeError> {
        let own = self.token(&request.terms.source, &self.tokens_asked).await?.filter(takes);
        let Some(own) = own else { return Err(AuthorizeError::Refused(takes_none.to_owned())) };
        let is_it =
            |message: &SignedMessage| authorization::claimed_domain(&as_signed(message)).as_ref() == Some(signed);
        match *signed == own.domain {
            true => Ok(()),
            false => Err(misnamed(request, is_it, &own.domain)),
        }
    }

    /// Whether the allowance that was signed for the token is going to be taken there: in its own domain, with the nonce that is next.
    async fn confirm_allowance(
        &self,
        request: &AuthorizationRequest<'_>,
        allowance: &TokenPermit,
    ) -> Result<(), AuthorizeError> {
        let source = &request.terms.source;
        let own = self.token(source, &self.tokens_asked).await?.filter(|own| own.permits);
        let Some(own) = own else { return Err(AuthorizeError::Refused(NO_PERMITS.to_owned())) };
        if allowance.domain != own.domain {
            return Err(misnamed(request, is_allowance, &own.domain));
        }
        let (token, payer) = (convert(erc20(source.asset()))?, convert(address(source.account()))?);
        let next = self.permit_nonce(token, payer, &self.tokens_asked).await?;
        let signed = U256::from_be_bytes(allowance.nonce.0);
        if signed != next {
            let rule =
                format!("message_prehash.message.nonce: must be the token's next for the payer, {next}, not {signed}");
            return Err(refused_at(request, is_allowance, &rule));
        }
        Ok(())
    }
}

fn is_allowance(signed: &SignedMessage) -> bool {
    authorization::is_allowance(&as_signed(signed))
}

/// The refusal of a message in whose domain the token has another name.
fn misnamed(
    request: &AuthorizationRequest<'_>,
    is_it: impl Fn(&SignedMessage) -> bool,
    own: &TokenDomain,
) -> AuthorizeError {
    let TokenDomain { name, version } = own;
    let rule = format!("message_prehash.domain: must name the token as {name:?}, version {version:?}");
    refused_at(request, is_it, &rule)
}

fn refused_at(
    request: &AuthorizationRequest<'_>,
    is_it: impl Fn(&SignedMessage) -> bool,
    rule: &str,
) -> AuthorizeError {
    let index = request.signed_messages.iter().position(is_it).unwrap_or_default();
    AuthorizeError::Refused(format!("sender_auth.signed_messages[{index}]: {rule}"))
}
