//! Payers on EVM chains: Permit2 signatures, by keys and by contract accounts.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::time::timeout;

use chains_evm::{
    node::Node,
    payers::{ContractPayer, Payers},
    permit2::{self, AuthorizationError, Choice, EscrowSettings, OnchainError, Scheme, SpendRequest},
};
use journal::budget::Budgets;
use net::callers::Refusal;
use sagas::ports::{Clock, Transient};

use crate::{
    authorization::{
        AuthorizationRequest, AuthorizeError, Authorized, Authorizer, FirstThatAuthorizes, MessageScheme, Prepared,
        PreparedDraw, SignedMessage, UnsignedMessage,
    },
    bulkhead::{
        Bulkhead,
        fair::{FairBulkhead, Full},
    },
    connected::Connected,
};

/// Questions of ours to a node about payers that signed well, at a time, and those that wait for it. They run no code.
const LOOKS_MAX: usize = 64;
/// How long they wait.
const LOOK_WAIT_MAX: Duration = Duration::from_millis(250);
/// How long a signature waits for its turn to be judged by a contract.
const TURN_WAIT_MAX: Duration = Duration::from_millis(1_000);

/// [`Authorizer`] for the EVM chains it has a node of.
///
/// A key's signature is judged by itself, and by the code of its account where that has some (EIP-7702). What code judges has
/// bulkheads of its own: one for each chain, in which every caller has its lane, so that however many of them are brought,
/// payers with keys do not wait for them.
#[derive(Clone)]
pub struct EvmAuthorizer {
    chains: Connected<EvmChain>,
    budgets: Arc<dyn Budgets>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone)]
struct EvmChain {
    payers: Payers,
    looks: Arc<Bulkhead>,
    foreign: FairBulkhead,
}

impl EvmAuthorizer {
    /// An authorizer that asks these nodes about contract accounts, which may cost what `budgets` have left.
    pub fn new(nodes: impl IntoIterator<Item = Node>, budgets: Arc<dyn Budgets>, clock: Arc<dyn Clock>) -> Self {
        let chain = |node: Node| {
            let gas = &node.config().gas;
            let foreign = FairBulkhead::new(gas.calls_max, gas.caller_calls_max, TURN_WAIT_MAX);
            let looks = Arc::new(Bulkhead::new("contract_payers", LOOKS_MAX, LOOKS_MAX, LOOK_WAIT_MAX));
            (node.chain_id().clone(), EvmChain { payers: Payers::new(node), looks, foreign })
        };
        Self { chains: nodes.into_iter().map(chain).collect(), budgets, clock }
    }

    fn chain(&self, request: &AuthorizationRequest<'_>) -> Result<&EvmChain, AuthorizeError> {
        Ok(self.chains.of(&request.terms.source)?)
    }
}

impl EvmChain {
    /// What one message authorizes, by a key, or by the word of a contract. What the code of a key's account says is asked later,
    /// by [`EvmChain::confirm_key`], unless there are other messages to choose from.
    async fn authorize(
        &self,
        request: &AuthorizationRequest<'_>,
        spend: &SpendRequest,
        index: usize,
        signed: &SignedMessage,
    ) -> Result<Authorized, AuthorizeError> {
        let signed = as_signed(signed);
        let account = request.terms.source.account();
        match permit2::authorize(spend, &signed) {
            Ok((authorization, escrow)) => {
                let authorized = Authorized { authorization, escrow };
                let is_last = index + 1 == request.signed_messages.len();
                if !is_last && self.payer(request, &authorized).await?.is_some() {
                    self.judge(request, index, permit2::confirm_by_code(spend, &signed, &self.payers)).await?;
                }
                Ok(authorized)
            }
            // An account that is not there yet may be deployed by its deposit; without code and without that it is a key's.
            Err(error) if error.may_be_contract() && (error.may_deploy() || !self.payers.had_no_code(account)) => {
                let asked = permit2::authorize_onchain(spend, &signed, &self.payers);
                let (authorization, escrow) = self.judge(request, index, asked).await?;
                Ok(Authorized { authorization, escrow })
            }
            Err(error) => Err(refused(index, &error)),
        }
    }

    /// Whether the payer's code takes the signature of its key, where it is a key's: Permit2 asks the code and not the key
    /// (EIP-7702).
    async fn confirm_key(
        &self,
        request: &AuthorizationRequest<'_>,
        spend: &SpendRequest,
        authorized: &Authorized,
    ) -> Result<(), AuthorizeError> {
        for (index, signed) in request.signed_messages.iter().enumerate() {
            let signed = as_signed(signed);
            let Ok((authorization, _)) = permit2::authorize(spend, &signed) else { continue };
            if authorization == authorized.authorization {
                return self.judge(request, index, permit2::confirm_by_code(spend, &signed, &self.payers)).await;
            }
        }
        // Code has judged it.
        Ok(())
    }

    /// What the chain says of a signature, by the payer's code, at the caller's expense: whoever is exempt from limits per caller
    /// shares the permits account by account.
    async fn judge<T>(
        &self,
        request: &AuthorizationRequest<'_>,
        index: usize,
        asked: impl Future<Output = Result<T, OnchainError>>,
    ) -> Result<T, AuthorizeError> {
        let full = |full| match full {
            Full::Caller => AuthorizeError::Limited(Refusal::Crowded("signatures that contracts judge")),
            Full::All => Transient::rate_limited("all permits for contracts' signatures are taken").into(),
        };
        let limited = request.caller.filter(|caller| !caller.is_exempt());
        let share = match limited {
            Some(caller) => {
                caller.foreign_code()?;
                format!("{:?}", caller.address())
            }
            None => request.terms.source.account().to_string(),
        };
        let _permit = self.foreign.permit(&share).await.map_err(full)?;
        let longest = Duration::from_millis(self.payers.node().config().gas.call_ms_max);
        match timeout(longest, asked).await {
            Ok(Ok(judged)) => Ok(judged),
            Ok(Err(OnchainError::Denied(error))) => Err(refused(index, &error)),
            Ok(Err(OnchainError::Transient(error))) => Err(error.into()),
            Err(_) => {
                Err(Transient::unreachable(format!("a contract's signature was not judged in {longest:?}")).into())
            }
        }
    }

    /// The payer as the contract that it is.
    async fn payer(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<Option<ContractPayer>, AuthorizeError> {
        let account = request.terms.source.account();
        let full = || Transient::rate_limited("as many accounts as there may be are looked up");
        let _permit = self.looks.permit().await.ok_or_else(full)?;
        Ok(self.payers.contract_payer(account, &authorized.authorization).await?)
    }
}

fn as_signed(signed: &SignedMessage) -> permit2::SignedMessage {
    permit2::SignedMessage {
        message: signed.message.clone(),
        message_prehash: signed.message_prehash.clone(),
        signature: signed.signature.clone(),
        payload: signed.payload.clone().map(Value::Object),
    }
}

fn refused(index: usize, error: &AuthorizationError) -> AuthorizeError {
    AuthorizeError::Refused(format!("sender_auth.signed_messages[{index}]: {error}"))
}

#[async_trait]
impl Authorizer for EvmAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let chain = self.chain(request)?;
        let spend = spend(request)?;
        let mut search = FirstThatAuthorizes::default();
        for (index, signed) in request.signed_messages.iter().enumerate() {
            if let Some(judged) = search.end(chain.authorize(request, &spend, index, signed).await) {
                return judged;
            }
        }
        Err(search.refused())
    }

    async fn payer_is_contract(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<bool, AuthorizeError> {
        Ok(self.chain(request)?.payer(request, authorized).await?.is_some())
    }

    fn has_bulkheads(&self) -> bool {
        true
    }

    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let chain = self.chain(request)?;
        let Some(payer) = chain.payer(request, authorized).await? else { return Ok(()) };
        if !chain.payers.node().config().contract_payers {
            let rule = "source.account: is a contract, and this gateway takes payments from accounts with keys only";
            return Err(AuthorizeError::Refused(rule.to_owned()));
        }
        let shut_out = payer.shut_out_until(chain.payers.node(), &*self.budgets, self.clock.now()).await;
        match shut_out? {
            Some(until) => Err(AuthorizeError::Exhausted { until }),
            None => chain.confirm_key(request, &spend(request)?, authorized).await,
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
        let prepared = permit2::prepare(&spend(request)?, &choice).map_err(refused)?;
        let payload = match prepared.payload {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let message = UnsignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: prepared.typed_data.to_string(),
            payload,
        };
        Ok(Prepared {
            messages: vec![message],
            amount: prepared.amount,
            draw: PreparedDraw::Permit2(prepared.nonce),
            escrow: prepared.plan,
        })
    }
}

/// The spend that is to be authorized.
fn spend(request: &AuthorizationRequest<'_>) -> Result<SpendRequest, AuthorizeError> {
    let scheme = match request.message_scheme {
        MessageScheme::EvmPermit2 => Scheme::EvmPermit2,
        MessageScheme::EvmPermit2Escrow => Scheme::EvmPermit2Escrow,
        other @ (MessageScheme::Solana | MessageScheme::Tron) => {
            return Err(AuthorizeError::Refused(format!("{} is not a scheme of an EVM chain", other.name())));
        }
    };
    let permit2 = request.permit2.ok_or_else(|| Transient::misconfigured("no Permit2 is configured"))?;
    Ok(SpendRequest {
        scheme,
        payment_id: request.payment_id.clone(),
        terms: request.terms.clone(),
        quote_deadline: request.quote_deadline,
        fulfillment_deadline: request.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: request.escrow_contract.clone(),
            reserver: request.reserver.clone(),
            releaser: request.releaser.clone(),
            permit2: permit2.clone(),
            refund_delay_seconds: request.refund_delay_seconds,
        },
        quote_hash: request.quote_hash,
    })
}
