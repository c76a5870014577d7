//! Payers on Solana: Ed25519 signatures by the payer or by a key that it approved; or addresses, to which the money is sent.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use chains_solana::{
    authorization::{self, AuthorizationError, Choice, ClusterId, Delegation, EscrowSettings, SpendRequest},
    deposit_addresses::{self, Unfit},
    holding::Holding,
    node::Node,
    program::ConvertError,
    purchase_admission::{self, UnfitOffer},
};
use events::{
    Account, ChainId, OwnedAsset,
    event::{Authorization, DepositAddress, SolanaPurchase},
};
use sagas::ports::Transient;

use crate::{
    authorization::{
        AddressRequest, AuthorizationRequest, AuthorizeError, Authorized, Authorizer, FirstThatAuthorizes,
        MessageScheme, OfferSigning, Prepared, PreparedDraw, UnsignedMessage,
        asked_escrows::{self, AskedEscrows, crowded, takes_no_refund},
    },
    bulkhead::Bulkhead,
    connected::Connected,
};

/// Who may draw on a payer's tokens, as the chain has it.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// The delegate of the payer's associated token account; `None` when there is none, or no such account.
    ///
    /// # Errors
    /// When the chain cannot be asked; nothing may be concluded.
    async fn delegate(&self, source: &OwnedAsset) -> Result<Option<Account>, Transient>;
}

#[async_trait]
impl Approvals for Node {
    async fn delegate(&self, source: &OwnedAsset) -> Result<Option<Account>, Transient> {
        Ok(Holding::read(self, source).await?.and_then(|holding| holding.delegate))
    }
}

/// [`Authorizer`] for the Solana chains it knows the cluster id of.
#[derive(Clone)]
pub struct SolanaAuthorizer {
    chains: Connected<(ClusterId, Arc<dyn Approvals>)>,
    addresses: Connected<Addresses>,
}

/// What gives deposit addresses on one chain.
#[derive(Clone)]
struct Addresses {
    node: Node,
    /// Questions for those who proved nothing.
    asks: Arc<Bulkhead>,
    /// The same for those who signed.
    signed_asks: Arc<Bulkhead>,
    /// The slot as of which addresses are given.
    served: AskedEscrows<u64>,
    /// Whether offers have addresses.
    offers: AskedEscrows<()>,
    /// The accounts of the gateway's that pay the fees of what clients of x402 sign; the first of them is told.
    fee_payers: Vec<Account>,
}

impl Addresses {
    /// A slot of the chain, as of which deposit addresses of the escrow are given.
    async fn slot_of(&self, escrow: &Account) -> Result<u64, AuthorizeError> {
        let none = || {
            let rule = "escrow_contract: has no deposit addresses: the program is of an earlier version, or not the one that the \
                        chain's configuration names";
            AuthorizeError::Refused(rule.to_owned())
        };
        let served = deposit_addresses::served_from(&self.node, escrow);
        self.served.of(escrow, &self.asks, served).await?.ok_or_else(none)
    }

    /// Whether what clients of x402 pay to `pay_to` comes into this escrow, and what does not is the merchant's, whose account is the
    /// source's.
    async fn check_offer(
        &self,
        source: &OwnedAsset,
        escrow: &Account,
        pay_to: &Account,
        asks: &Bulkhead,
    ) -> Result<(), AuthorizeError> {
        let refused = |reason: String| Err(AuthorizeError::Refused(reason));
        let asked = async { Ok(purchase_admission::served(&self.node, escrow).await?.then_some(())) };
        if self.offers.of(escrow, asks, asked).await?.is_none() {
            return refused(NO_OFFERS.to_owned());
        }
        let _permit = asks.permit().await.ok_or_else(crowded)?;
        match purchase_admission::unfit(&self.node, source, pay_to).await? {
            None => Ok(()),
            Some(UnfitOffer::Source(Unfit::Token(reason))) => refused(format!("asset: {reason}")),
            Some(UnfitOffer::Source(Unfit::RefundAccount(reason))) => refused(format!("merchant: {reason}")),
            Some(UnfitOffer::Address(reason)) => refused(format!("payTo: {reason}")),
        }
    }
}

/// Why an escrow's program takes nothing from addresses of offers.
const NO_OFFERS: &str = "escrow: exact is not served: the program is of an earlier version, or not the one that the chain's \
                         configuration names";

/// Why there is nothing to prepare under x402's `exact`.
const X402_ONLY: &str =
    "message_scheme: SOLANA_X402_EXACT is what clients of x402 sign for a merchant's offer; see SOLANA";

impl SolanaAuthorizer {
    /// An authorizer for these chains.
    pub fn new(chains: impl IntoIterator<Item = (ChainId, ClusterId, Arc<dyn Approvals>)>) -> Self {
        let chains = chains.into_iter().map(|(id, cluster_id, approvals)| (id, (cluster_id, approvals))).collect();
        Self { chains, addresses: Connected::default() }
    }

    /// The same, with deposit addresses, and addresses of offers, on the chains of these nodes; with the accounts that pay the fees there of
    /// what clients of x402 sign.
    pub fn with_addresses(self, nodes: impl IntoIterator<Item = (Node, Vec<Account>)>) -> Self {
        let addresses = |(node, fee_payers): (Node, Vec<Account>)| {
            let (asks, signed_asks) = (asked_escrows::asks("unsigned_tokens"), asked_escrows::asks("tokens"));
            let (served, offers) = (AskedEscrows::default(), AskedEscrows::default());
            (node.chain_id().clone(), Addresses { node, asks, signed_asks, served, offers, fee_payers })
        };
        Self { addresses: nodes.into_iter().map(addresses).collect(), ..self }
    }

    fn chain(&self, request: &AuthorizationRequest<'_>) -> Result<&(ClusterId, Arc<dyn Approvals>), AuthorizeError> {
        Ok(self.chains.of(&request.terms.source)?)
    }

    /// The spend that is to be authorized.
    fn spend(&self, request: &AuthorizationRequest<'_>) -> Result<SpendRequest, AuthorizeError> {
        match request.message_scheme {
            MessageScheme::Solana | MessageScheme::SolanaX402Exact => {}
            other @ (MessageScheme::EvmPermit2
            | MessageScheme::EvmPermit2Escrow
            | MessageScheme::EvmPermit2Batch
            | MessageScheme::EvmPermit2Mandate
            | MessageScheme::EvmEip3009
            | MessageScheme::EvmX402Exact
            | MessageScheme::Tron
            | MessageScheme::TronPermit2Escrow) => {
                return Err(AuthorizeError::Refused(format!("{} is not a scheme of a Solana chain", other.name())));
            }
        }
        let (cluster_id, _) = self.chain(request)?;
        Ok(SpendRequest {
            payment_id: request.payment_id.clone(),
            terms: request.terms.clone(),
            quote_deadline: request.quote_deadline,
            fulfillment_deadline: request.fulfillment_deadline,
            cluster_id: *cluster_id,
            escrow: EscrowSettings {
                program: request.escrow_contract.clone(),
                reserver: request.reserver.clone(),
                releaser: request.releaser.clone(),
                refund_delay_seconds: request.refund_delay_seconds,
            },
            quote_hash: request.quote_hash,
        })
    }
}

#[async_trait]
impl Authorizer for SolanaAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let spend = self.spend(request)?;
        let mut search = FirstThatAuthorizes::default();
        for (index, signed) in request.signed_messages.iter().enumerate() {
            let signed = authorization::SignedMessage {
                message: signed.message.clone(),
                message_prehash: signed.message_prehash.clone(),
                signature: signed.signature.clone(),
                payload: signed.payload.clone().map(Value::Object),
            };
            let authorized = match request.message_scheme {
                MessageScheme::SolanaX402Exact => {
                    let fee_payers = &self.addresses.of(&request.terms.source)?.fee_payers;
                    authorization::authorize_purchase(&spend, &signed, fee_payers)
                }
                _ => authorization::authorize(&spend, &signed),
            };
            let judged = match authorized {
                Ok((authorization, escrow)) => Ok(Authorized { authorization, escrow }),
                Err(error) => Err(AuthorizeError::Refused(format!("sender_auth.signed_messages[{index}]: {error}"))),
            };
            if let Some(judged) = search.end(judged) {
                return judged;
            }
        }
        Err(search.refused())
    }

    async fn deposit_address(&self, request: &AddressRequest<'_>) -> Result<DepositAddress, AuthorizeError> {
        let AddressRequest { payment_id, terms, escrow, amount, pay_by } = *request;
        let addresses = self.addresses.of(&terms.source)?;
        let refused = |error: ConvertError| {
            AuthorizeError::Refused(match error {
                ConvertError::Amount(_) => format!("amount: {error}"),
                ConvertError::Asset(_) | ConvertError::Account(_) => {
                    format!("source: a deposit address is for a token (SPL Token or Token-2022): {error}")
                }
            })
        };
        let given = deposit_addresses::of_payment(payment_id, terms, escrow, amount, pay_by, 0).map_err(refused)?;
        let from_block = addresses.slot_of(&escrow.contract).await?;
        let _permit = addresses.asks.permit().await.ok_or_else(crowded)?;
        match deposit_addresses::unfit(&addresses.node, &terms.source).await? {
            Some(Unfit::Token(reason)) => Err(AuthorizeError::Refused(format!("source: {reason}"))),
            Some(Unfit::RefundAccount(reason)) => Err(takes_no_refund(&reason)),
            None => Ok(DepositAddress { from_block, ..given }),
        }
    }

    async fn offer_signing(
        &self,
        source: &OwnedAsset,
        escrow: &Account,
        pay_to: &Account,
    ) -> Result<OfferSigning, AuthorizeError> {
        let addresses = self.addresses.of(source)?;
        let fee_payer = addresses.fee_payers.first().cloned();
        let fee_payer = fee_payer.ok_or_else(|| AuthorizeError::Refused(NO_OFFERS.to_owned()))?;
        addresses.check_offer(source, escrow, pay_to, &addresses.asks).await?;
        Ok(OfferSigning::FeePayer(fee_payer))
    }

    fn fee_payer(&self, chain: &ChainId) -> Option<&Account> {
        self.addresses.get(chain)?.fee_payers.first()
    }

    /// Whoever holds some key could else submit payments in the name of a payer that has never heard of it, and take its
    /// request ids away.
    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let source = &request.terms.source;
        let spend = match &authorized.authorization {
            Authorization::SolanaX402Exact(SolanaPurchase { pay_to, transaction, .. }) => {
                let addresses = self.addresses.of(source)?;
                let (contract, asks) = (&authorized.escrow.contract, &addresses.signed_asks);
                addresses.check_offer(source, contract, pay_to, asks).await?;
                let _permit = asks.permit().await.ok_or_else(crowded)?;
                // Else whoever makes up a blockhash would have settlers asked, and an old transaction be a new payment.
                return match purchase_admission::counts(&addresses.node, transaction).await? {
                    true => Ok(()),
                    false => {
                        let rule =
                            "paymentPayload.payload.transaction: its blockhash does not count, or does not any more";
                        Err(AuthorizeError::Refused(rule.to_owned()))
                    }
                };
            }
            Authorization::Solana(spend) => spend,
            _ => return Ok(()),
        };
        // What cannot be a delegation is not the payer's own signature either.
        let delegation =
            Delegation::of(source.account(), &authorized.escrow.contract, spend).map_err(Transient::from)?;
        let Some(delegation) = delegation else { return Ok(()) };
        let (_, approvals) = self.chain(request)?;
        let approved = approvals.delegate(source).await?;
        if approved.as_ref() == Some(&delegation.address) {
            return Ok(());
        }
        Err(AuthorizeError::Refused(format!(
            "sender_auth.signed_messages: payload.delegate_signer {} is not approved by the payer: the delegate of its \
             associated token account must be {}",
            delegation.signer, delegation.address,
        )))
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let refused = |error: AuthorizationError| AuthorizeError::Refused(error.to_string());
        if request.message_scheme != MessageScheme::Solana {
            return Err(AuthorizeError::Refused(X402_ONLY.to_owned()));
        }
        let payload = payload.cloned().map(Value::Object);
        let choice = Choice::from_payload(payload.as_ref()).map_err(refused)?;
        let prepared = authorization::prepare(&self.spend(request)?, &choice).map_err(refused)?;
        let payload = match prepared.payload {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let message = UnsignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: format!("0x{}", hex::encode(prepared.preimage)),
            payload,
        };
        Ok(Prepared {
            messages: vec![message],
            amount: prepared.amount,
            draw: PreparedDraw::Delegate(prepared.signer),
            escrow: prepared.plan,
        })
    }
}
