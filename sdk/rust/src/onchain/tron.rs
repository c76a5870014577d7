//! Tron: the escrow's record, told by the blocks that it names, and transactions of one's own.

use std::time::Duration;

use alloy::{
    primitives::{Address, B256, Log},
    sol_types::{SolCall, SolEvent},
};
use ruint::aliases::U256;
use tokio::time::{Instant, sleep};

use chains::config::ChainConfig;
use chains_tron::{
    address::{address, trc20},
    node::{Answer, BroadcastError, Node, State},
    token,
    transaction::{self, Call, Draft, Reference},
};
use escrow_abi::{
    contracts::{DevToken as Trc20, GatewayEscrow, word},
    record::{self, EscrowTerms, Stored},
};
use events::{Account, Amount, AssetId, ChainId, OwnedAsset, PaymentId};
use signer::Hash;

use super::{Look, Trial, config, fault, solidity, unusable, within};
use crate::{
    deposit_address::Checked,
    error::Error,
    key::{Key, sign_secp256k1},
};

const UNIT: &str = "sun";
/// Energy that must be left while the escrow pays out, beyond what a trial takes: the contract asks for 384,761. What is not used is
/// not paid.
const PAYOUT_ENERGY: u64 = 400_000;
/// Bytes that the network adds to a transaction for its result.
const RESULT_BYTES: u64 = 64;
/// How long a transaction may wait for its block.
const LIFETIME_MS: u64 = 60_000;
/// How long a transaction is waited for, whatever time the node says: it lives for a minute, and its end is settled a minute later.
const WAIT_MAX: Duration = Duration::from_secs(240);
const POLL: Duration = Duration::from_millis(500);
/// A transaction that is in no block is sent again after so long: nodes forget.
const RESEND: Duration = Duration::from_secs(6);

/// A chain.
#[derive(Debug)]
pub(super) struct Tron {
    node: Node,
    escrow: Address,
}

/// A call that is to be sent.
struct ToSend {
    what: &'static str,
    to: Address,
    data: Vec<u8>,
    /// Energy that must be left, beyond what a trial takes.
    spare: u64,
}

impl Tron {
    pub(super) fn connect(id: &ChainId, url: &str, escrow: &Account) -> Result<Self, Error> {
        let ChainConfig::Tron(config) = config(id, url, escrow, &[])? else {
            return Err(unusable(format!("{id} is not a Tron chain")));
        };
        let node = Node::connect(&config).map_err(unusable)?;
        Ok(Self { node, escrow: address(escrow).map_err(unusable)? })
    }

    pub(super) async fn balance(&self, held: &OwnedAsset) -> Result<U256, Error> {
        let token = trc20(held.asset()).map_err(unusable)?;
        let account = address(held.account()).map_err(unusable)?;
        match self.node.call(None, token, &Trc20::balanceOfCall { account }, State::Newest).await.map_err(fault)? {
            Answer::Returned { value, .. } => Ok(value),
            Answer::Reverted { reason, .. } => Err(fault(format!("the balance: {reason}"))),
        }
    }

    pub(super) async fn allowance(&self, source: &OwnedAsset, spender: &Account) -> Result<U256, Error> {
        let contract = trc20(source.asset()).map_err(unusable)?;
        let (owner, spender) = (address(source.account()).map_err(unusable)?, address(spender).map_err(unusable)?);
        token::allowance(&self.node, contract, owner, spender).await.map_err(fault)
    }

    /// What stood there before is taken back first: USDT's contract takes no other allowance in its place.
    pub(super) async fn approve(
        &self,
        source: &OwnedAsset,
        spender: &Account,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<Vec<String>, Error> {
        let token = trc20(source.asset()).map_err(unusable)?;
        let stands = !self.allowance(source, spender).await?.is_zero();
        let spender = address(spender).map_err(unusable)?;
        let mut sent = Vec::new();
        for value in stands.then_some(U256::ZERO).into_iter().chain([amount.get()]) {
            let data = Trc20::approveCall { spender, value }.abi_encode();
            sent.push(self.send(ToSend { what: "the approval", to: token, data, spare: 0 }, key, fee_max).await?);
        }
        Ok(sent)
    }

    pub(super) async fn transfer(
        &self,
        to: &OwnedAsset,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let token = trc20(to.asset()).map_err(unusable)?;
        let to = address(to.account()).map_err(unusable)?;
        let data = Trc20::transferCall { to, value: amount.get() }.abi_encode();
        self.send(ToSend { what: "the transfer", to: token, data, spare: 0 }, key, fee_max).await
    }

    pub(super) async fn give_back(
        &self,
        address: &Checked,
        token: Option<&AssetId>,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let (to, data) = address.give_back(token)?;
        self.send(ToSend { what: "the return", to, data, spare: 0 }, key, fee_max).await
    }

    pub(super) async fn look(&self, payment_id: &PaymentId) -> Result<Look, Error> {
        let (stored, terms, time) = self.committed(payment_id).await?;
        let record = record::read(&stored, &terms, self.node.chain_id()).map_err(fault)?;
        Ok(Look { record, time })
    }

    /// What the escrow stores, the terms that it commits to, and the time as it sees it.
    async fn committed(&self, payment_id: &PaymentId) -> Result<(Stored, EscrowTerms, u64), Error> {
        let id = word(payment_id.on_chain());
        let call = GatewayEscrow::recordAsOfCall { paymentId: id };
        let answer = match self.node.call(None, self.escrow, &call, State::Newest).await.map_err(fault)? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => return Err(fault(format!("the escrow's record: {reason}"))),
        };
        let time = answer.time.saturating_to::<u64>();
        let stored = answer.record;
        if record::state(stored.state).map_err(fault)?.is_none() {
            return Ok((stored, EscrowTerms::unknown(id), time));
        }
        let deposited = self.told::<GatewayEscrow::Deposited>(stored.depositedAt.to(), id).await?;
        let mut terms = EscrowTerms::told_by(&deposited);
        if !stored.reservedAt.is_zero() {
            terms = terms.reserved_by(&self.told::<GatewayEscrow::Reserved>(stored.reservedAt.to(), id).await?);
        }
        if terms.commitment() != stored.commitment {
            return Err(fault("the escrow's events are not what it commits to"));
        }
        Ok((stored, terms, time))
    }

    /// The escrow's event about a payment in the block `number`. Its words are proven by the escrow's commitment, not here.
    async fn told<E: SolEvent>(&self, number: u64, id: B256) -> Result<E, Error> {
        let infos = self.node.infos_of(number, State::Newest).await.map_err(fault)?;
        let logs = infos.read.into_iter().filter(|info| info.failure.is_none()).flat_map(|info| info.logs);
        let mut ours = logs.filter(|log| log.address == self.escrow && log.topics.get(1) == Some(&id)).map(Log::from);
        let found = ours.find_map(|log| E::decode_log(&log).ok());
        found.map(|log| log.data).ok_or_else(|| fault(format!("block {number} has no {} of the payment", E::SIGNATURE)))
    }

    pub(super) async fn try_refund(&self, payment_id: &PaymentId, from: &Account) -> Result<Trial, Error> {
        let (_, terms, _) = self.committed(payment_id).await?;
        let (draft, _) = self.draft(&self.refunding(terms), address(from).map_err(unusable)?).await?;
        Ok(Trial { cost_max: self.cost(&draft).await?.to_string() })
    }

    pub(super) async fn refund(&self, payment_id: &PaymentId, key: &Key, fee_max: U256) -> Result<String, Error> {
        let (_, terms, _) = self.committed(payment_id).await?;
        self.send(self.refunding(terms), key, fee_max).await
    }

    fn refunding(&self, terms: EscrowTerms) -> ToSend {
        ToSend { what: "the refund", to: self.escrow, data: solidity::refund(terms), spare: PAYOUT_ENERGY }
    }

    pub(super) async fn claimable(&self, owner: &Account, asset: &AssetId) -> Result<U256, Error> {
        let (owner, token) = (address(owner).map_err(unusable)?, trc20(asset).map_err(unusable)?);
        let call = GatewayEscrow::claimableCall { owner, token };
        match self.node.call(None, self.escrow, &call, State::Newest).await.map_err(fault)? {
            Answer::Returned { value, .. } => Ok(value),
            Answer::Reverted { reason, .. } => Err(fault(format!("claims: {reason}"))),
        }
    }

    pub(super) async fn claim_for(
        &self,
        owner: &Account,
        asset: &AssetId,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let (owner, token) = (address(owner).map_err(unusable)?, trc20(asset).map_err(unusable)?);
        let data = solidity::claim_for(owner, token);
        self.send(ToSend { what: "the claim", to: self.escrow, data, spare: 0 }, key, fee_max).await
    }

    /// The transaction of a call, once the chain does not refuse it, and its expiration.
    async fn draft(&self, call: &ToSend, from: Address) -> Result<(Draft, u64), Error> {
        let ToSend { to: contract, data, spare, .. } = call;
        let energy = match self.node.trial(from, *contract, data.clone(), 0).await.map_err(fault)? {
            Answer::Returned { energy, .. } => energy,
            Answer::Reverted { reason, .. } => return Err(Error::Reverted(reason)),
        };
        let prices = self.node.prices().await.map_err(fault)?;
        let (head, settled) = (self.node.head().await.map_err(fault)?, self.node.settled().await.map_err(fault)?);
        let energy = energy.saturating_add(energy / 2).saturating_add(*spare);
        let expiration_ms = head.time_ms.saturating_add(LIFETIME_MS);
        let draft = Draft {
            call: Call { owner: from, contract: *contract, data: data.clone(), value_sun: 0 },
            fee_limit_sun: energy.saturating_mul(prices.energy_sun),
            // What is named is not taken away by a fork, and the transaction with it.
            reference: Reference::of(&settled),
            timestamp_ms: head.time_ms,
            expiration_ms,
        };
        Ok((draft, expiration_ms))
    }

    /// Sun that a transaction takes at most: all of its fee limit, and its bytes.
    async fn cost(&self, draft: &Draft) -> Result<U256, Error> {
        let prices = self.node.prices().await.map_err(fault)?;
        let bytes = (draft.raw_data().len() + transaction::SIGNATURE_BYTES) as u64 + RESULT_BYTES;
        Ok(U256::from(draft.fee_limit_sun).saturating_add(U256::from(bytes.saturating_mul(prices.bandwidth_sun))))
    }

    async fn send(&self, call: ToSend, key: &Key, fee_max: U256) -> Result<String, Error> {
        let what = call.what;
        let (draft, expiration_ms) = self.draft(&call, key.address()?).await?;
        within(what, self.cost(&draft).await?, fee_max, UNIT)?;
        let raw_data = draft.raw_data();
        let signature = sign_secp256k1(key, Hash::Sha256, &raw_data).await?;
        let bytes = transaction::assemble(&raw_data, &signature.as_bytes());
        let id = transaction::id(&raw_data);
        let until = Instant::now() + WAIT_MAX;
        let mut sent_at: Option<Instant> = None;
        let mut told = String::new();
        loop {
            if sent_at.is_none_or(|at| at.elapsed() >= RESEND) {
                // Neither silence nor a refusal says what becomes of it.
                if let Err(BroadcastError::Refused { code, message }) = self.node.broadcast(&bytes).await {
                    told = format!(": {code}, {message}");
                }
                sent_at = Some(Instant::now());
            }
            let settled = self.node.settled().await.map_err(fault)?;
            if let Some(info) = self.node.info(id, State::Newest).await.map_err(fault)? {
                return match info.failure {
                    None => Ok(id.to_string()),
                    Some(failure) => Err(Error::Reverted(format!("{what} {id} had no effect but its fee: {failure}"))),
                };
            }
            if settled.time_ms >= expiration_ms {
                return Err(fault(format!("{what} {id} is in no block, and never will be{told}")));
            }
            if Instant::now() >= until {
                return Err(fault(format!("{what} {id} is in no block yet{told}")));
            }
            sleep(POLL).await;
        }
    }
}
