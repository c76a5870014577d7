//! Payers on EVM chains: signatures for Permit2 and for tokens that take them, by keys and by contract accounts.

mod messages;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use moka::future::Cache;
use serde_json::{Map, Value};
use tokio::time::timeout;

use chains_evm::{
    authorization::{self, AuthorizationError, BatchError, Choice, OnchainError, Scheme, SpendRequest},
    batching::Views,
    deposit_addresses,
    node::Node,
    payers::{ContractPayer, Payers},
    payment_batches,
    token_domain::Tokens,
};
use escrow_abi::contracts::{self, address, erc20};
use events::{
    Account, Amount, Hash32, OwnedAsset,
    event::{Authorization, DepositAddress, EscrowPlan},
    time::unix_seconds,
};
use journal::budget::Budgets;
use net::callers::Refusal;
use sagas::ports::{Clock, Transient};

use self::messages::{add_allowance, as_signed, convert, is_for_token, is_same, refused, spend, unsigned};
use self::tokens::{BATCH_ONLY, KEYS_ONLY, NO_EXACT, NO_OFFERS, NO_TRANSFERS, OLDER_ESCROW, X402_ONLY};
use crate::{
    authorization::{
        AddressRequest, AuthorizationRequest, AuthorizeError, Authorized, Authorizer, FirstThatAuthorizes,
        MandateRequest, MessageScheme, OfferSigning, Prepared, PreparedBatch, PreparedDraw, PreparedMandate,
        SignedMessage, UnsignedMessage, Wish,
        asked_escrows::{AskedEscrows, takes_no_refund},
    },
    bulkhead::{
        Bulkhead,
        fair::{FairBulkhead, Full},
    },
    connected::Connected,
};

/// Questions of ours to a node about payers that signed well, at a time, and those that wait for it. They run no code.
const LOOKS_MAX: usize = 64;
/// Questions to a node about tokens at a time, and those that wait for it. What one answers counts for many payments.
const TOKENS_ASKED_MAX: usize = 16;
/// How long they wait.
const LOOK_WAIT_MAX: Duration = Duration::from_millis(250);
/// For how many blocks before it is accepted a payment's batch may have been drawn.
const DRAWN_WITHIN_BLOCKS: u64 = 20_000;
/// How long a contract's word about the signature of a batch counts for the other payments of the batch. What is deposited is judged anew.
const JUDGED_FOR: Duration = Duration::from_secs(60);
/// Signatures of which it is known.
const JUDGED_MAX: u64 = 4_096;
/// An account, and the hash of a digest with a signature that is the account's.
type JudgedSignature = (Account, Hash32);
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
    tokens: Tokens,
    /// Questions about tokens and escrows for payers that signed.
    tokens_asked: Arc<Bulkhead>,
    /// Questions for those who proved nothing, who take no permit of the others.
    unsigned_asks: Arc<Bulkhead>,
    /// Whether escrows have a call for signed transfers, and since when that is known. Only configured ones are asked, so it is bounded.
    escrows_with_transfers: Arc<Mutex<BTreeMap<Account, (bool, Instant)>>>,
    /// The block as of which deposit addresses of escrows are given.
    addressed_escrows: AskedEscrows<u64>,
    /// Whether batches are drawn, by their addresses.
    drawn_batches: AskedEscrows<()>,
    /// Signatures for batches that payers' code has taken lately, which count for all payments of a batch.
    judged: Cache<JudgedSignature, ()>,
    /// The block as of which batches are taken into escrows.
    batched_escrows: AskedEscrows<u64>,
    /// Which mandates payers have allowed to draw, by their addresses.
    granted_mandates: Cache<Account, ()>,
    /// Whether escrows get deposits from mandates.
    mandated_escrows: AskedEscrows<()>,
    /// Whether escrows get deposits from addresses of offers. Only configured ones are asked.
    offered_escrows: Arc<Mutex<BTreeMap<Account, (bool, Instant)>>>,
    foreign: FairBulkhead,
}

impl EvmAuthorizer {
    /// An authorizer that asks these nodes about contract accounts, which may cost what `budgets` have left.
    pub fn new(nodes: impl IntoIterator<Item = Node>, budgets: Arc<dyn Budgets>, clock: Arc<dyn Clock>) -> Self {
        let chain = |node: Node| {
            let gas = &node.config().gas;
            let foreign = FairBulkhead::new(gas.calls_max, gas.caller_calls_max, TURN_WAIT_MAX);
            let looks = Arc::new(Bulkhead::new("contract_payers", LOOKS_MAX, LOOKS_MAX, LOOK_WAIT_MAX));
            let tokens_asked = Arc::new(Bulkhead::new("tokens", TOKENS_ASKED_MAX, 4 * TOKENS_ASKED_MAX, LOOK_WAIT_MAX));
            let unsigned_asks =
                Arc::new(Bulkhead::new("unsigned_tokens", TOKENS_ASKED_MAX, 4 * TOKENS_ASKED_MAX, LOOK_WAIT_MAX));
            let tokens = Tokens::new(Views::new(node.clone()));
            (
                node.chain_id().clone(),
                EvmChain {
                    payers: Payers::new(node),
                    looks,
                    tokens,
                    tokens_asked,
                    unsigned_asks,
                    escrows_with_transfers: Arc::default(),
                    addressed_escrows: AskedEscrows::default(),
                    batched_escrows: AskedEscrows::default(),
                    drawn_batches: AskedEscrows::default(),
                    granted_mandates: Cache::builder().time_to_live(JUDGED_FOR).max_capacity(JUDGED_MAX).build(),
                    mandated_escrows: AskedEscrows::default(),
                    judged: Cache::builder().time_to_live(JUDGED_FOR).max_capacity(JUDGED_MAX).build(),
                    offered_escrows: Arc::default(),
                    foreign,
                },
            )
        };
        Self { chains: nodes.into_iter().map(chain).collect(), budgets, clock }
    }

    /// Whether what a merchant asks for would be held too long were it deposited now; the auction may end at any time.
    fn check_lock(&self, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let Authorization::EvmPermit2Mandate(charge) = &authorized.authorization else { return Ok(()) };
        let now = unix_seconds(self.clock.now());
        authorization::check_lock(charge, &authorized.escrow, now).map_err(|error| refused(0, &error))
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
        index: usize,
        signed: &SignedMessage,
    ) -> Result<Authorized, AuthorizeError> {
        let signed = as_signed(signed);
        let spend = &spend(request, authorization::claimed_domain(&signed))?;
        let account = request.terms.source.account();
        match authorization::authorize(spend, &signed) {
            Ok((authorization, escrow)) => {
                let mut authorized = Authorized { authorization, escrow };
                add_allowance(request, spend, &mut authorized)?;
                self.add_first_block(request, &mut authorized).await?;
                self.check_granted(request, &authorized).await?;
                // A merchant is a key, whatever the payer is.
                let is_last = index + 1 == request.signed_messages.len() || spend.scheme == Scheme::EvmPermit2Mandate;
                if !is_last && self.payer(request, &authorized).await?.is_some() {
                    self.judge(request, index, authorization::confirm_by_code(spend, &signed, &self.payers)).await?;
                }
                Ok(authorized)
            }
            // An account that is not there yet may be deployed by its deposit; without code and without that it is a key's.
            Err(error)
                if error.may_be_contract()
                    // Not all tokens ask contracts, and merchants are keys.
                    && !matches!(spend.scheme, Scheme::EvmEip3009 | Scheme::EvmX402Exact | Scheme::EvmPermit2Mandate)
                    && (error.may_deploy() || !self.payers.had_no_code(account)) =>
            {
                let (authorization, escrow) = self.judged(request, index, spend, &signed).await?;
                let mut authorized = Authorized { authorization, escrow };
                self.add_first_block(request, &mut authorized).await?;
                Ok(authorized)
            }
            Err(error) => Err(refused(index, &error)),
        }
    }

    /// What one message authorizes by the word of a contract, which counts for all payments of a batch.
    async fn judged(
        &self,
        request: &AuthorizationRequest<'_>,
        index: usize,
        spend: &SpendRequest,
        signed: &authorization::SignedMessage,
    ) -> Result<(Authorization, EscrowPlan), AuthorizeError> {
        let asked = authorization::authorize_onchain(spend, signed, &self.payers);
        if spend.scheme != Scheme::EvmPermit2Batch {
            return self.judge(request, index, asked).await;
        }
        let account = request.terms.source.account();
        let key = (account.clone(), Hash32::keccak256(format!("{} {}", signed.message, signed.signature)));
        if self.judged.contains_key(&key) {
            return authorization::authorize_as_judged(spend, signed).map_err(|error| refused(index, &error));
        }
        let judged = self.judge(request, index, asked).await?;
        self.judged.insert(key, ()).await;
        Ok(judged)
    }

    /// Adds to the permit of a batch from which block on its money is looked for.
    async fn add_first_block(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &mut Authorized,
    ) -> Result<(), AuthorizeError> {
        if let Authorization::EvmPermit2Batch(permit) = &mut authorized.authorization {
            permit.from_block = self.batches_from(request.escrow_contract, &self.tokens_asked).await?;
            // Another payment of the batch may have been accepted, and deposited, long before.
            let (node, at) = (self.payers.node(), &permit.address);
            let drawn = async { Ok(payment_batches::is_drawn(node, at).await?.then_some(())) };
            if self.drawn_batches.of(at, &self.tokens_asked, drawn).await?.is_some() {
                permit.from_block = permit.from_block.saturating_sub(DRAWN_WITHIN_BLOCKS);
            }
        }
        Ok(())
    }

    /// Whether the payer's code takes the signature of its key, where it is a key's: Permit2 asks the code and not the key
    /// (EIP-7702).
    async fn confirm_key(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<(), AuthorizeError> {
        for (index, signed) in request.signed_messages.iter().enumerate() {
            let signed = as_signed(signed);
            let spend = spend(request, authorization::claimed_domain(&signed))?;
            let Ok((authorization, _)) = authorization::authorize(&spend, &signed) else { continue };
            if is_same(&authorization, &authorized.authorization) {
                return self.judge(request, index, authorization::confirm_by_code(&spend, &signed, &self.payers)).await;
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

    /// Whether an account has no code, lately, for one who proved nothing.
    async fn is_key(&self, account: &Account) -> Result<bool, AuthorizeError> {
        let full = || Transient::rate_limited("as many accounts as there may be are looked up");
        let _permit = self.unsigned_asks.permit().await.ok_or_else(full)?;
        Ok(self.payers.is_key(account).await?)
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

#[async_trait]
impl Authorizer for EvmAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let chain = self.chain(request)?;
        let mut search = FirstThatAuthorizes::default();
        // An allowance authorizes nothing by itself: it comes last, so that the payer is told what is wrong with what does.
        let messages = request.signed_messages.iter().enumerate();
        let (allowances, deposits): (Vec<_>, Vec<_>) =
            messages.partition(|(_, signed)| authorization::is_allowance(&as_signed(signed)));
        for (index, signed) in deposits.into_iter().chain(allowances) {
            if let Some(judged) = search.end(chain.authorize(request, index, signed).await) {
                return judged;
            }
        }
        Err(search.refused())
    }

    /// A transfer by the token, where it takes keys' signatures and the payer has no code: no allowance is needed.
    async fn offered(&self, wish: &Wish<'_>) -> Result<MessageScheme, AuthorizeError> {
        let Wish { source, escrow, .. } = *wish;
        let chain = self.chains.of(source)?;
        let transfers = chain.token(source, &chain.unsigned_asks).await?.is_some_and(|signatures| signatures.receives);
        if transfers
            && chain.takes_transfers(escrow, &chain.unsigned_asks).await?
            && chain.is_key(source.account()).await?
        {
            return Ok(MessageScheme::EvmEip3009);
        }
        Ok(MessageScheme::EvmPermit2Escrow)
    }

    async fn deposit_address(&self, request: &AddressRequest<'_>) -> Result<DepositAddress, AuthorizeError> {
        let AddressRequest { payment_id, terms, escrow, amount, pay_by } = *request;
        let chain = self.chains.of(&terms.source)?;
        let no_token = |_| AuthorizeError::Refused("source: a deposit address is for a token (ERC-20)".to_owned());
        erc20(terms.source.asset()).map_err(no_token)?;
        let from_block = chain.addresses_from(&escrow.contract, &chain.unsigned_asks).await?;
        let address = deposit_addresses::of_payment(payment_id, terms, escrow, amount, pay_by, from_block);
        let address = address.map_err(|error| AuthorizeError::Refused(format!("source: {error}")))?;
        match chain.refuses_refunds(&address, &terms.source).await? {
            Some(reason) => Err(takes_no_refund(&reason)),
            None => Ok(address),
        }
    }

    async fn offer_signing(
        &self,
        source: &OwnedAsset,
        escrow: &Account,
        _: &Account,
    ) -> Result<OfferSigning, AuthorizeError> {
        let chain = self.chains.of(source)?;
        let token = chain.token(source, &chain.unsigned_asks).await?.filter(|token| token.transfers);
        let Some(token) = token else { return Err(AuthorizeError::Refused(NO_EXACT.to_owned())) };
        match chain.takes_offers(escrow, &chain.unsigned_asks).await? {
            true => Ok(OfferSigning::Domain(token.domain)),
            false => Err(AuthorizeError::Refused(NO_OFFERS.to_owned())),
        }
    }

    async fn allowance(
        &self,
        request: &AuthorizationRequest<'_>,
        prepared: &Prepared,
    ) -> Result<Option<UnsignedMessage>, AuthorizeError> {
        let (chain, source) = (self.chain(request)?, &request.terms.source);
        if !matches!(prepared.draw, PreparedDraw::Permit2(_)) {
            return Ok(None);
        }
        let own = chain.token(source, &chain.unsigned_asks).await?.filter(|signatures| signatures.permits);
        let Some(own) = own else { return Ok(None) };
        if !chain.is_key(source.account()).await? {
            return Ok(None);
        }
        let (token, payer) = (convert(erc20(source.asset()))?, convert(address(source.account()))?);
        let nonce = chain.permit_nonce(token, payer, &chain.unsigned_asks).await?;
        let ends = prepared.escrow.reserve_deadline;
        let prepared = authorization::prepare_allowance(&spend(request, None)?, &own.domain, nonce, ends)
            .map_err(|error| AuthorizeError::Refused(error.to_string()))?;
        Ok(Some(unsigned(&prepared.typed_data, prepared.digest, prepared.payload)))
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
        self.check_lock(authorized)?;
        chain.confirm_token(request, authorized).await?;
        let Some(payer) = chain.payer(request, authorized).await? else { return Ok(()) };
        if is_for_token(&authorized.authorization) {
            return Err(AuthorizeError::Refused(KEYS_ONLY.to_owned()));
        }
        if !chain.payers.node().config().contract_payers {
            let rule = "source.account: is a contract, and this gateway takes payments from accounts with keys only";
            return Err(AuthorizeError::Refused(rule.to_owned()));
        }
        let shut_out = payer.shut_out_until(chain.payers.node(), &*self.budgets, self.clock.now()).await;
        match shut_out? {
            Some(until) => Err(AuthorizeError::Exhausted { until }),
            // By a mandate it is the merchant who has signed, with a key.
            None if matches!(authorized.authorization, Authorization::EvmPermit2Mandate(_)) => Ok(()),
            None => chain.confirm_key(request, authorized).await,
        }
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        match request.message_scheme {
            MessageScheme::EvmX402Exact => return Err(AuthorizeError::Refused(X402_ONLY.to_owned())),
            MessageScheme::EvmPermit2Batch => return Err(AuthorizeError::Refused(BATCH_ONLY.to_owned())),
            _ => {}
        }
        let refused = |error: AuthorizationError| AuthorizeError::Refused(error.to_string());
        let payload = payload.cloned().map(Value::Object);
        let choice = Choice::from_payload(payload.as_ref()).map_err(refused)?;
        let token = match request.message_scheme {
            MessageScheme::EvmEip3009 => {
                let chain = self.chain(request)?;
                chain.token(&request.terms.source, &chain.unsigned_asks).await?
            }
            _ => None,
        };
        if request.message_scheme == MessageScheme::EvmPermit2Mandate {
            let chain = self.chain(request)?;
            chain.check_mandates(request.escrow_contract, &chain.unsigned_asks).await?;
        }
        let transfers = token.filter(|token| token.receives);
        if request.message_scheme == MessageScheme::EvmEip3009 {
            if transfers.is_none() {
                return Err(AuthorizeError::Refused(NO_TRANSFERS.to_owned()));
            }
            let chain = self.chain(request)?;
            if !chain.takes_transfers(request.escrow_contract, &chain.unsigned_asks).await? {
                return Err(AuthorizeError::Refused(OLDER_ESCROW.to_owned()));
            }
        }
        let spend = spend(request, transfers.map(|token| token.domain))?;
        let prepared = authorization::prepare(&spend, &choice).map_err(refused)?;
        let message = unsigned(&prepared.typed_data, prepared.digest, prepared.payload);
        Ok(Prepared {
            messages: vec![message],
            amount: prepared.amount,
            draw: match spend.scheme {
                Scheme::EvmEip3009 | Scheme::EvmX402Exact => PreparedDraw::Transfer(prepared.nonce),
                Scheme::EvmPermit2 | Scheme::EvmPermit2Escrow | Scheme::EvmPermit2Batch => {
                    PreparedDraw::Permit2(prepared.nonce)
                }
                Scheme::EvmPermit2Mandate => {
                    let charge = authorization::charge(&spend, &choice).map_err(refused)?;
                    authorization::check_lock(&charge, &prepared.plan, unix_seconds(self.clock.now()))
                        .map_err(refused)?;
                    PreparedDraw::Mandate(Box::new(charge))
                }
            },
            escrow: prepared.plan,
        })
    }

    async fn prepare_batch(
        &self,
        requests: &[AuthorizationRequest<'_>],
        deadline: Option<u64>,
    ) -> Result<PreparedBatch, AuthorizeError> {
        let Some(first) = requests.first() else {
            return Err(AuthorizeError::Refused("payments: must have at least one payment".to_owned()));
        };
        let chain = self.chain(first)?;
        let escrows: BTreeSet<&Account> = requests.iter().map(|request| request.escrow_contract).collect();
        for escrow in escrows {
            chain.batches_from(escrow, &chain.unsigned_asks).await?;
        }
        let spends: Vec<SpendRequest> =
            requests.iter().map(|request| spend(request, None)).collect::<Result<_, AuthorizeError>>()?;
        let prepared = authorization::prepare_batch(&spends, deadline).map_err(|error| {
            AuthorizeError::Refused(match error {
                BatchError::Member { index, error } if error.field() == "payload.reserve_deadline" => {
                    format!("reserve_deadline: does not suit payments[{index}]: {error}")
                }
                BatchError::Member { index, error } => format!("payments[{index}].{error}"),
                BatchError::Batch(rule) => format!("payments: {rule}"),
            })
        })?;
        let (source, ill_formed) = (&first.terms.source, || Transient::misconfigured("a token that is none"));
        let drawn = prepared.permitted.iter().map(|(token, amount)| {
            let asset = contracts::erc20_asset(source.asset().chain(), *token).ok_or_else(ill_formed)?;
            let owned = OwnedAsset::new(asset, source.account().as_str()).map_err(|_| ill_formed())?;
            Ok((owned, Amount::new(*amount).ok_or_else(ill_formed)?))
        });
        let drawn = drawn.collect::<Result<Vec<_>, Transient>>()?;
        Ok(PreparedBatch {
            message: unsigned(&prepared.typed_data, prepared.digest, Value::Null),
            nonce: prepared.nonce,
            drawn,
            members: prepared.members.into_iter().map(|member| (member.payload, member.plan)).collect(),
        })
    }

    async fn prepare_mandate(&self, request: &MandateRequest<'_>) -> Result<PreparedMandate, AuthorizeError> {
        let MandateRequest { mandate, terms, escrow_contract, releaser, permit2 } = *request;
        let chain = self.chains.of(&terms.source)?;
        chain.check_mandates(escrow_contract, &chain.unsigned_asks).await?;
        let permit2 = permit2.ok_or_else(|| Transient::misconfigured("no Permit2 is configured"))?;
        let prepared = authorization::prepare_mandate(mandate, terms, (escrow_contract, releaser, permit2));
        let prepared = prepared.map_err(|error| AuthorizeError::Refused(error.to_string()))?;
        let (call, cancellation) = prepared.cancel;
        Ok(PreparedMandate {
            message: unsigned(&prepared.typed_data, prepared.digest, Value::Null),
            address: prepared.at.address,
            contract: prepared.at.contract,
            all: prepared.all,
            allowance: prepared.allowance,
            cancel: (call, unsigned(&cancellation.0, cancellation.1, Value::Null)),
        })
    }
}
