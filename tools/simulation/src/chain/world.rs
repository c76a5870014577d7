//! The world's access to a chain besides block production: changes, and reads that bypass the nodes.

use std::{collections::BTreeMap, sync::Arc};

use alloy::{
    consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    primitives::{Address, B256, Bytes, TxKind, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolEvent},
};

use serde_json::Value;

use chains::{
    config::{AssetConfig, CommonConfig, Depth, EvmConfig, GasConfig},
    escrow::EscrowRecord,
};
use escrow_abi::{
    contracts::{DevToken, FulfillmentProxy, GatewayEscrow, account, text, word},
    record::{self, EscrowTerms},
};
use events::{Account, ChainId, Hash32, PaymentId};

use super::{
    NodeKind, SimChain, SimError,
    block::Block,
    call::CallRequest,
    genesis::{alter, balance_slot},
};

/// Gas limit of the world's own transactions.
const GAS: u64 = 500_000;
/// Tip of the world's own transactions, wei per unit of gas.
const TIP: u128 = 1_000_000_000;

/// How often the events of one payment are in the canonical blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaymentEvents {
    /// `Deposited` of the escrow.
    pub deposited: u32,
    /// `Reserved` of the escrow.
    pub reserved: u32,
    /// `Reassigned` of the escrow, each with a `Reserved` of its own.
    pub reassigned: u32,
    /// `Released` of the escrow.
    pub released: u32,
    /// `Refunded` of the escrow.
    pub refunded: u32,
    /// `Fulfilled` of the proxy.
    pub fulfilled: u32,
}

/// The account of a contract or key of the genesis.
#[expect(clippy::expect_used, reason = "nothing of the genesis has the zero address")]
fn known(address: Address) -> Account {
    account(address).expect("nothing of the genesis has the zero address")
}

/// What happened to a payment in a canonical block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Its escrow was reserved for another quote.
    Reassigned,
    /// Its escrow was paid out to the settler.
    Released,
    /// Its escrow was paid back to the payer.
    Refunded,
    /// Something was delivered for it.
    Delivered(FulfillmentProxy::Fulfilled),
}

/// A change of a payment, with the call that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentChange {
    /// The payment, as contracts have it.
    pub payment_id: B256,
    /// What happened.
    pub change: Change,
    /// The transaction.
    pub transaction: B256,
    /// The contract that the transaction called.
    pub to: Option<Address>,
    /// What it called it with.
    pub input: Bytes,
    /// The UNIX second of the block.
    pub time: u64,
}

impl SimChain {
    /// A configuration for the adapters. `rpc_url` is only a name.
    pub fn config(&self, required_depth: Depth, refund_delay_seconds: u64) -> EvmConfig {
        let (genesis, contracts) = (&self.deployed.genesis, self.contracts());
        let chain_id = ChainId::evm(self.evm_id());
        let assets = contracts.tokens.iter().zip(&genesis.tokens).filter_map(|(token, (_, symbol, decimals))| {
            let asset_identifier = format!("{chain_id}/erc20:{}", text(*token)).parse().ok()?;
            Some(AssetConfig { asset_identifier, symbol: symbol.clone(), decimals: *decimals, wraps: None })
        });
        EvmConfig {
            common: CommonConfig {
                rpc_url: format!("simulation:{}", self.evm_id()),
                rpc_urls: Vec::new(),
                escrow_contract: known(contracts.escrow),
                fulfillment_proxy: known(contracts.proxy),
                trusted_escrow_contracts: Vec::new(),
                trusted_fulfillment_proxies: Vec::new(),
                reserver: known(genesis.reserver),
                releaser: known(genesis.releaser),
                required_depth,
                refund_delay_seconds,
                submitter_deposits_warning: 100,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 500,
                rpc_timeout_ms: 1_000,
                assets: assets.collect(),
                chain_id: chain_id.clone(),
            },
            permit2: known(contracts.permit2),
            admission_seconds: 120,
            reprice_seconds: 30,
            contract_payers: true,
            gas: GasConfig::default(),
        }
    }

    /// Block 0, while it is the only one.
    fn genesis(&mut self) -> Result<&mut Block, SimError> {
        match self.branch.as_mut_slice() {
            [genesis] => Ok(Arc::make_mut(genesis)),
            _ => Err(SimError::Started),
        }
    }

    fn alter(&mut self, from: Address, to: Address, call: &impl SolCall) -> Result<&mut Block, SimError> {
        let evm_id = self.evm_id();
        let genesis = self.genesis()?;
        let nonce = genesis.state.account(from).nonce;
        alter(&mut genesis.state, evm_id, from, TxKind::Call(to), call.abi_encode().into())?;
        // It is part of the genesis state and not a transaction.
        genesis.state.account_mut(from).nonce = nonce;
        Ok(genesis)
    }

    /// Gives `account` `wei` coins besides those it has.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block.
    pub fn fund(&mut self, account: Address, wei: U256) -> Result<(), SimError> {
        let account = self.genesis()?.state.account_mut(account);
        account.balance = account.balance.saturating_add(wei);
        Ok(())
    }

    /// Gives `to` `amount` of a token, smallest unit.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block; then [`SimChain::submit`] a mint.
    pub fn mint(&mut self, token: Address, to: Address, amount: U256) -> Result<(), SimError> {
        let genesis = self.alter(to, token, &DevToken::mintCall { to, amount })?;
        Arc::make_mut(&mut genesis.holders).insert(to);
        Ok(())
    }

    /// Lets `spender`, mostly Permit2, take `amount` of `owner`'s token.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block; then [`SimChain::submit`] an approval.
    pub fn approve(&mut self, owner: Address, token: Address, spender: Address, amount: U256) -> Result<(), SimError> {
        self.alter(owner, token, &DevToken::approveCall { spender, value: amount }).map(|_| ())
    }

    /// Sends a transaction of the world's own with `value` wei, priced for the next blocks; its hash.
    ///
    /// # Errors
    /// [`SimError::Refused`] when the node refuses it.
    pub fn submit(
        &mut self,
        signer: &PrivateKeySigner,
        to: Address,
        value: U256,
        data: Bytes,
    ) -> Result<B256, SimError> {
        let head = self.head_block();
        let nonce = self.pool.next_nonce(signer.address(), head.state.account(signer.address()).nonce);
        let base_fee = self.next_environment(head.header.timestamp).base_fee;
        let transaction = TxEip1559 {
            chain_id: self.evm_id(),
            nonce,
            gas_limit: GAS,
            max_fee_per_gas: u128::from(base_fee) * 2 + TIP,
            max_priority_fee_per_gas: TIP,
            to: to.into(),
            value,
            input: data,
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash());
        let signature = signature.map_err(|error| SimError::Refused(error.to_string()))?;
        let raw = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718();
        self.send(&NodeKind::Honest, &raw.into()).map_err(|fault| SimError::Refused(fault.to_string()))
    }

    /// The transactions that wait for a block, in the order in which they came.
    pub fn pending(&self) -> Vec<B256> {
        self.pool.all().iter().map(|waiting| waiting.transaction.hash()).collect()
    }

    /// The bytes of a transaction that waits.
    pub fn raw(&self, hash: B256) -> Option<Bytes> {
        Some(self.pool.get(hash)?.transaction.envelope.encoded_2718().into())
    }

    /// Lets all nodes forget a transaction that waits; whether it did.
    pub fn drop_transaction(&mut self, hash: B256) -> bool {
        self.pool.remove(hash)
    }

    /// Keeps a transaction that waits out of every block before `block`, and with it what follows it of its sender;
    /// whether it waits. One that replaces it is not kept.
    pub fn delay(&mut self, hash: B256, block: u64) -> bool {
        self.pool.get_mut(hash).is_some_and(|waiting| {
            waiting.not_before = block;
            true
        })
    }

    /// Coins that `account` has in the newest block, wei.
    pub fn coins(&self, account: Address) -> U256 {
        self.head_block().state.account(account).balance
    }

    /// The next nonce of `account` after the newest block.
    pub fn nonce(&self, account: Address) -> u64 {
        self.head_block().state.account(account).nonce
    }

    /// What `account` has of a token in the newest block, smallest unit.
    pub fn token_balance(&self, token: Address, account: Address) -> U256 {
        let slot = balance_slot(account, self.deployed.balances);
        self.head_block().state.stored(token, slot)
    }

    /// Everyone who has some of a token in the newest block, and how much. Together it is the supply, or a token was made to
    /// lie.
    pub fn token_balances(&self, token: Address) -> BTreeMap<Address, U256> {
        let holders = self.head_block().holders.iter();
        let balances = holders.map(|holder| (*holder, self.token_balance(token, *holder)));
        balances.filter(|(_, balance)| !balance.is_zero()).collect()
    }

    /// The total supply of a token in the newest block, as the token itself keeps it.
    pub fn token_supply(&self, token: Address) -> U256 {
        self.head_block().state.stored(token, self.deployed.supply)
    }

    /// The escrow's record of a payment in the newest block; `None` when there is none.
    ///
    /// # Errors
    /// [`SimError::Refused`] when the escrow does not answer as one.
    pub fn escrow_record(&self, payment_id: &PaymentId) -> Result<Option<EscrowRecord>, SimError> {
        Ok(self.escrow(payment_id)?.map(|(record, _)| record))
    }

    /// The terms with which the escrow is called for a payment; terms that it refuses where it has none.
    ///
    /// # Errors
    /// [`SimError::Refused`] when the escrow does not answer as one.
    pub fn escrow_terms(&self, payment_id: &PaymentId) -> Result<EscrowTerms, SimError> {
        let found = self.escrow(payment_id)?;
        Ok(found.map_or_else(|| EscrowTerms::unknown(word(payment_id.on_chain())), |(_, terms)| terms))
    }

    fn escrow(&self, payment_id: &PaymentId) -> Result<Option<(EscrowRecord, EscrowTerms)>, SimError> {
        let id = word(payment_id.on_chain());
        let stored = self.view(self.contracts().escrow, &GatewayEscrow::recordOfCall { paymentId: id })?;
        let refused = |what: String| SimError::Refused(format!("the record of {payment_id}: {what}"));
        if record::state(stored.state).map_err(|error| refused(error.to_string()))?.is_none() {
            return Ok(None);
        }
        let deposited =
            self.event_in(stored.depositedAt.to(), |event: &GatewayEscrow::Deposited| event.paymentId == id);
        let deposited = deposited.ok_or_else(|| refused("no deposit in its block".to_owned()))?;
        let mut terms = EscrowTerms::told_by(&deposited);
        if !stored.reservedAt.is_zero() {
            let is = |event: &GatewayEscrow::Reserved| event.paymentId == id;
            let reserved = self.event_in(stored.reservedAt.to(), is);
            terms = terms.reserved_by(&reserved.ok_or_else(|| refused("no reservation in its block".to_owned()))?);
        }
        let record = record::read(&stored, &terms, &ChainId::evm(self.evm_id()));
        Ok(record.map_err(|error| refused(error.to_string()))?.map(|record| (record, terms)))
    }

    /// The event of the escrow that `is` describes, in canonical block `number`.
    fn event_in<E: SolEvent>(&self, number: u64, is: impl Fn(&E) -> bool) -> Option<E> {
        let block = self.branch.get(usize::try_from(number).ok()?)?;
        let escrow = self.contracts().escrow;
        let logs = block.transactions.iter().flat_map(|mined| &mined.logs).filter(|log| log.address == escrow);
        logs.filter_map(|log| E::decode_log(log).ok()).map(|event| event.data).find(is)
    }

    /// How often each event of a payment is in the canonical blocks.
    pub fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        let id = word(payment_id.on_chain());
        let (escrow, proxy) = (self.contracts().escrow, self.contracts().proxy);
        let mut events = PaymentEvents::default();
        let mined = self.branch.iter().flat_map(|block| &block.transactions);
        for log in mined.flat_map(|mined| &mined.logs) {
            let [signature, first, ..] = log.data.topics() else { continue };
            if *first != id {
                continue;
            }
            let count = match *signature {
                GatewayEscrow::Deposited::SIGNATURE_HASH if log.address == escrow => &mut events.deposited,
                GatewayEscrow::Reserved::SIGNATURE_HASH if log.address == escrow => &mut events.reserved,
                GatewayEscrow::Reassigned::SIGNATURE_HASH if log.address == escrow => &mut events.reassigned,
                GatewayEscrow::Released::SIGNATURE_HASH if log.address == escrow => &mut events.released,
                GatewayEscrow::Refunded::SIGNATURE_HASH if log.address == escrow => &mut events.refunded,
                FulfillmentProxy::Fulfilled::SIGNATURE_HASH if log.address == proxy => &mut events.fulfilled,
                _ => continue,
            };
            *count += 1;
        }
        events
    }

    /// The changes in canonical blocks that a reorganisation can drop, of those blocks that `is_new`.
    pub fn changes(&self, mut is_new: impl FnMut(B256) -> bool) -> Vec<PaymentChange> {
        let (escrow, proxy) = (self.contracts().escrow, self.contracts().proxy);
        let mut changes = Vec::new();
        let first = usize::try_from(self.finalized).unwrap_or(usize::MAX);
        for block in self.branch.iter().skip(first).filter(|block| is_new(block.hash)) {
            for mined in &block.transactions {
                for log in &mined.logs {
                    let [signature, payment_id, ..] = log.data.topics() else { continue };
                    let change = match *signature {
                        GatewayEscrow::Reassigned::SIGNATURE_HASH if log.address == escrow => Change::Reassigned,
                        GatewayEscrow::Released::SIGNATURE_HASH if log.address == escrow => Change::Released,
                        GatewayEscrow::Refunded::SIGNATURE_HASH if log.address == escrow => Change::Refunded,
                        FulfillmentProxy::Fulfilled::SIGNATURE_HASH if log.address == proxy => {
                            let Ok(event) = FulfillmentProxy::Fulfilled::decode_log(log) else { continue };
                            Change::Delivered(event.data)
                        }
                        _ => continue,
                    };
                    let envelope = &mined.transaction.envelope;
                    changes.push(PaymentChange {
                        payment_id: *payment_id,
                        change,
                        transaction: mined.transaction.hash(),
                        to: envelope.to(),
                        input: envelope.input().clone(),
                        time: block.header.timestamp,
                    });
                }
            }
        }
        changes
    }

    /// Whether a payment was ever reserved for this quote, in a settled block.
    pub fn was_reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        let (id, quote) = (word(payment_id.on_chain()), word(quote_hash));
        let escrow = self.contracts().escrow;
        let settled = usize::try_from(self.finalized).unwrap_or(usize::MAX);
        let mined = self.branch.iter().take(settled.saturating_add(1)).flat_map(|block| &block.transactions);
        let is = |event: GatewayEscrow::Reserved| event.paymentId == id && event.quoteHash == quote;
        let mut logs = mined.flat_map(|mined| &mined.logs).filter(|log| log.address == escrow);
        logs.any(|log| GatewayEscrow::Reserved::decode_log(log).is_ok_and(|event| is(event.data)))
    }

    fn view<C: SolCall>(&self, contract: Address, call: &C) -> Result<C::Return, SimError> {
        let refused = |text: String| SimError::Refused(text);
        let returned = self
            .call_context(&NodeKind::Honest, &Value::Null)
            .and_then(|context| context.call(&CallRequest::of(contract, call.abi_encode().into())))
            .map_err(|fault| refused(fault.to_string()))?;
        C::abi_decode_returns(&returned).map_err(|error| refused(error.to_string()))
    }
}
