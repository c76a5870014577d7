//! Payers on Tron: signatures for Permit2; transactions of their own that deposit, which the escrow's reserver admits by its signature; or
//! addresses, to which the money is sent.

use std::sync::Arc;

use alloy::primitives::{Address, U256};
use async_trait::async_trait;
use serde_json::{Map, Value};

use chains::reservers::Reservers;
use chains_tron::{
    address::{address, trc20},
    authorization::{
        self, AuthorizationError, Choice, Denied, EscrowSettings, OnchainError, OpeningSigner, SpendRequest,
    },
    deposit_addresses,
    node::Node,
    permit2, token,
};
use events::{
    Account, Amount,
    event::{Authorization, DepositAddress, TronSpend},
};
use sagas::ports::Transient;
use signer::Secp256k1Key;

use crate::{
    authorization::{
        AddressRequest, AuthorizationRequest, AuthorizeError, Authorized, Authorizer, FirstThatAuthorizes,
        MessageScheme, Prepared, PreparedDraw, SignedMessage, UnsignedMessage, Wish,
        asked_escrows::{self, AskedEscrows, crowded, takes_no_refund},
    },
    bulkhead::Bulkhead,
    connected::Connected,
};

/// What an escrow without this chain's Permit2 is told.
const NO_PERMIT2: &str = "message_scheme: the escrow draws by no Permit2 that this gateway knows; TRON asks for none";

/// [`Authorizer`] for the Tron chains it has a node of.
#[derive(Clone)]
pub struct TronAuthorizer {
    chains: Connected<Chain>,
}

#[derive(Clone)]
struct Chain {
    node: Node,
    reservers: Reservers<OpeningSigner>,
    /// Questions for those who proved nothing.
    asks: Arc<Bulkhead>,
    /// Questions for those who signed.
    signed_asks: Arc<Bulkhead>,
    /// The factory, and the block as of which addresses are given.
    addressed_escrows: AskedEscrows<(Address, u64)>,
    /// The Permit2 by which an escrow draws.
    permit2s: AskedEscrows<Address>,
}

impl TronAuthorizer {
    /// An authorizer for the chains of these nodes, each with the keys of its escrows' reservers.
    pub fn new(chains: impl IntoIterator<Item = (Node, Reservers<Secp256k1Key>)>) -> Self {
        let chain = |(node, keys): (Node, Reservers<Secp256k1Key>)| {
            let chain = Chain {
                reservers: keys.map(OpeningSigner::from),
                asks: asked_escrows::asks("unsigned_tokens"),
                signed_asks: asked_escrows::asks("tokens"),
                addressed_escrows: AskedEscrows::default(),
                permit2s: AskedEscrows::default(),
                node,
            };
            (chain.node.chain_id().clone(), chain)
        };
        Self { chains: chains.into_iter().map(chain).collect() }
    }

    fn chain(&self, request: &AuthorizationRequest<'_>) -> Result<&Chain, AuthorizeError> {
        Ok(self.chains.of(&request.terms.source)?)
    }
}

impl Chain {
    /// The Permit2 for which payers may sign; `None` where this escrow draws by none.
    async fn permit2_of(&self, escrow: &Account, asks: &Bulkhead) -> Result<Option<Address>, Transient> {
        self.permit2s.of(escrow, asks, permit2::served_from(&self.node, escrow)).await
    }

    /// The spend by Permit2 that a message is said to authorize.
    fn permitted(
        &self,
        request: &AuthorizationRequest<'_>,
        index: usize,
        signed: &SignedMessage,
    ) -> Result<Authorized, AuthorizeError> {
        match authorization::authorize_permit(&spend(request)?, &as_signed(signed)) {
            Ok((authorization, escrow)) => Ok(Authorized { authorization, escrow }),
            Err(error) => Err(refused(&Denied { message: Some(index), error })),
        }
    }

    /// What the payer has to sign for Permit2.
    async fn prepare_permit(
        &self,
        request: &AuthorizationRequest<'_>,
        choice: &Choice,
    ) -> Result<Prepared, AuthorizeError> {
        if self.permit2_of(request.escrow_contract, &self.asks).await?.is_none() {
            return Err(AuthorizeError::Refused(NO_PERMIT2.to_owned()));
        }
        let prepared = authorization::prepare_permit(&spend(request)?, choice);
        let prepared = prepared.map_err(|error| AuthorizeError::Refused(error.to_string()))?;
        let message = UnsignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: prepared.typed_data.to_string(),
            payload: members(prepared.payload),
        };
        let (draw, amount) = (PreparedDraw::Permit2(prepared.nonce), prepared.amount);
        Ok(Prepared { messages: vec![message], amount, draw, escrow: prepared.plan })
    }

    /// What makes deposit addresses of the escrow, and a block of the chain as of which they are given.
    async fn addresses_from(&self, escrow: &Account) -> Result<(Address, u64), AuthorizeError> {
        let none = || {
            let rule = "escrow_contract: gets nothing from deposit addresses: it is of an earlier version, or the chain's \
                        configuration names no contract that makes them, or not this version's (`gw deploy` brings it)";
            AuthorizeError::Refused(rule.to_owned())
        };
        let served = deposit_addresses::served_from(&self.node, escrow);
        let served = self.addressed_escrows.of(escrow, &self.asks, served).await?;
        served.ok_or_else(none)
    }
}

#[async_trait]
impl Authorizer for TronAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let chain = self.chain(request)?;
        if request.message_scheme == MessageScheme::TronPermit2Escrow {
            let mut search = FirstThatAuthorizes::default();
            for (index, signed) in request.signed_messages.iter().enumerate() {
                if let Some(judged) = search.end(chain.permitted(request, index, signed)) {
                    return judged;
                }
            }
            return Err(search.refused());
        }
        let signed: Vec<_> = request.signed_messages.iter().map(as_signed).collect();
        match authorization::authorize(&spend(request)?, &signed) {
            Ok((authorization, escrow)) => Ok(Authorized { authorization, escrow }),
            Err(denied) => Err(refused(&denied)),
        }
    }

    /// One signature, where the payer has given Permit2 an allowance that is enough.
    async fn offered(&self, wish: &Wish<'_>) -> Result<MessageScheme, AuthorizeError> {
        let chain = self.chains.of(wish.source)?;
        let (Ok(contract), Some(permit2)) =
            (trc20(wish.source.asset()), chain.permit2_of(wish.escrow, &chain.asks).await?)
        else {
            return Ok(MessageScheme::Tron);
        };
        let payer = address(wish.source.account()).map_err(Transient::from)?;
        let _permit = chain.asks.permit().await.ok_or_else(crowded)?;
        let allowance = token::allowance(&chain.node, contract, payer, permit2).await?;
        // Of what may be anything, an allowance without a bound is enough.
        let needed = wish.drawn.map_or(U256::MAX, Amount::get);
        Ok(if allowance >= needed { MessageScheme::TronPermit2Escrow } else { MessageScheme::Tron })
    }

    async fn deposit_address(&self, request: &AddressRequest<'_>) -> Result<DepositAddress, AuthorizeError> {
        let AddressRequest { payment_id, terms, escrow, amount, pay_by } = *request;
        let chain = self.chains.of(&terms.source)?;
        let no_token = |_| AuthorizeError::Refused("source: a deposit address is for a token (TRC-20)".to_owned());
        trc20(terms.source.asset()).map_err(no_token)?;
        let (factory, from_block) = chain.addresses_from(&escrow.contract).await?;
        let given = deposit_addresses::of_payment(factory, payment_id, terms, escrow, amount, pay_by, from_block);
        let given = given.map_err(|error| AuthorizeError::Refused(format!("source: {error}")))?;
        let _permit = chain.asks.permit().await.ok_or_else(crowded)?;
        match deposit_addresses::refuses_refunds(&chain.node, &given, &terms.source).await? {
            Some(reason) => Err(takes_no_refund(&reason)),
            None => Ok(given),
        }
    }

    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let chain = self.chain(request)?;
        let (node, spend) = (&chain.node, spend(request)?);
        match &authorized.authorization {
            Authorization::Tron(own) => authorization::confirm(&spend, own, node).await.map_err(|error| match error {
                OnchainError::Denied(denied) => refused(&of_message(denied, request, own)),
                OnchainError::Transient(error) => error.into(),
            }),
            Authorization::TronPermit2Escrow(_) => {
                if chain.permit2_of(request.escrow_contract, &chain.signed_asks).await?.is_none() {
                    return Err(AuthorizeError::Refused(NO_PERMIT2.to_owned()));
                }
                authorization::confirm_permit(&spend, node).await.map_err(|error| match error {
                    OnchainError::Denied(denied) => {
                        let is_it = |signed| authorization::authorize_permit(&spend, &as_signed(signed)).is_ok();
                        let message = request.signed_messages.iter().position(is_it);
                        refused(&Denied { message, ..denied })
                    }
                    OnchainError::Transient(error) => error.into(),
                })
            }
            _ => Ok(()),
        }
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let refused = |error: AuthorizationError| AuthorizeError::Refused(error.to_string());
        let payload = payload.cloned().map(Value::Object);
        let choice = Choice::from_payload(payload.as_ref()).map_err(refused)?;
        let chain = self.chain(request)?;
        if request.message_scheme == MessageScheme::TronPermit2Escrow {
            return chain.prepare_permit(request, &choice).await;
        }
        let Chain { node, reservers, .. } = chain;
        let reserver = reservers.of(request.reserver).map_err(Transient::from)?;
        let prepared = authorization::prepare_onchain(&spend(request)?, &choice, node, reserver).await;
        let prepared = prepared.map_err(|error| match error {
            OnchainError::Denied(denied) => refused(denied.error),
            OnchainError::Transient(error) => error.into(),
        })?;
        let message = |message: authorization::PreparedMessage| UnsignedMessage {
            message: message.id.to_string(),
            message_prehash: format!("0x{}", hex::encode(message.raw_data)),
            payload: members(message.payload),
        };
        Ok(Prepared {
            messages: prepared.messages.into_iter().map(message).collect(),
            amount: prepared.amount,
            draw: PreparedDraw::PayerDeposit,
            escrow: prepared.plan,
        })
    }
}

/// What the chain denies to the approval or the deposit, with the index that its message has among all that were sent.
fn of_message(denied: Denied, request: &AuthorizationRequest<'_>, own: &TronSpend) -> Denied {
    let transaction = denied.message.map(|index| match (&own.approval, index) {
        (Some(approval), 0) => approval,
        _ => &own.deposit,
    });
    let message = transaction.and_then(|transaction| {
        let digits = |text: &str| text.strip_prefix("0x").unwrap_or(text).to_ascii_lowercase();
        let id = digits(&transaction.transaction_hash);
        request.signed_messages.iter().position(|signed| digits(&signed.message) == id)
    });
    Denied { message: message.or(denied.message), ..denied }
}

fn as_signed(signed: &SignedMessage) -> authorization::SignedMessage {
    authorization::SignedMessage {
        message: signed.message.clone(),
        message_prehash: signed.message_prehash.clone(),
        signature: signed.signature.clone(),
        payload: signed.payload.clone().map(Value::Object),
    }
}

fn members(payload: Value) -> Map<String, Value> {
    match payload {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn refused(denied: &Denied) -> AuthorizeError {
    AuthorizeError::Refused(format!("sender_auth.{denied}"))
}

/// The spend that is to be authorized.
fn spend(request: &AuthorizationRequest<'_>) -> Result<SpendRequest, AuthorizeError> {
    match request.message_scheme {
        MessageScheme::Tron | MessageScheme::TronPermit2Escrow => {}
        other @ (MessageScheme::EvmPermit2
        | MessageScheme::EvmPermit2Escrow
        | MessageScheme::EvmPermit2Batch
        | MessageScheme::EvmPermit2Mandate
        | MessageScheme::EvmEip3009
        | MessageScheme::EvmX402Exact
        | MessageScheme::SolanaX402Exact
        | MessageScheme::Solana) => {
            return Err(AuthorizeError::Refused(format!("{} is not a scheme of a Tron chain", other.name())));
        }
    }
    Ok(SpendRequest {
        payment_id: request.payment_id.clone(),
        terms: request.terms.clone(),
        quote_deadline: request.quote_deadline,
        fulfillment_deadline: request.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: request.escrow_contract.clone(),
            reserver: request.reserver.clone(),
            releaser: request.releaser.clone(),
            permit2: request.permit2.cloned(),
            refund_delay_seconds: request.refund_delay_seconds,
        },
        quote_hash: request.quote_hash,
    })
}
