//! The world's access to a cluster besides block production: money, transactions of its own, and reads that bypass the nodes.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use serde_json::Value;
use solana_account::{Account, AccountSharedData, ReadableAccount};

use chains::config::{AssetConfig, CommonConfig, Depth, SolanaConfig};
use chains_solana::{
    program::account,
    transaction::{self, Budget},
};
use events::{AssetId, ChainId, PaymentId};
use gateway_program::{
    Key,
    account::Escrow,
    host::{self, Instruction},
    ids,
    instruction::Tag,
    token::ACCOUNT_SIZE,
};

use super::{
    NodeKind, SimCluster, SimError,
    answer::written,
    block::Landed,
    calls::Call,
    rpc::base58,
    state::State,
    tokens::{self, Held},
    wire::Signed,
};
use crate::chain::PaymentEvents;

/// Characters of the genesis hash in a CAIP-2 id.
const REFERENCE_CHARS: usize = 32;
/// What the world's own transactions may take and offer.
const BUDGET: Budget = Budget { units: 400_000, price: 10_000 };

impl SimCluster {
    /// Its CAIP-2 id.
    ///
    /// # Errors
    /// [`SimError::Refused`] for a genesis hash that is none.
    pub fn chain_id(&self) -> Result<ChainId, SimError> {
        let hash = base58(&self.deployed.genesis.cluster_id);
        let reference = hash.get(..REFERENCE_CHARS).unwrap_or(&hash);
        format!("solana:{reference}").parse().map_err(|_| SimError::Refused(format!("no chain id of {hash}")))
    }

    /// The gateway's program.
    pub fn program(&self) -> Key {
        self.deployed.program
    }

    /// The genesis hash.
    pub fn cluster_id(&self) -> [u8; 32] {
        self.deployed.genesis.cluster_id
    }

    /// The mints, in the order of the genesis.
    pub fn mints(&self) -> &[Key] {
        &self.deployed.mints
    }

    /// The token of the mint at `index`.
    ///
    /// # Errors
    /// [`SimError::Refused`] when there is none.
    pub fn token(&self, index: usize) -> Result<AssetId, SimError> {
        let none = || SimError::Refused(format!("there is no token {index}"));
        let mint = self.deployed.mints.get(index).ok_or_else(none)?;
        format!("{}/token:{}", self.chain_id()?, base58(mint)).parse().map_err(|_| none())
    }

    /// A configuration for the adapter. Its addresses are only names.
    ///
    /// # Errors
    /// [`SimError::Refused`] when the genesis has parties that cannot be.
    pub fn config(&self, refund_delay_seconds: u64) -> Result<SolanaConfig, SimError> {
        let (genesis, chain_id) = (&self.deployed.genesis, self.chain_id()?);
        let known = |key: &Key| account(key).ok_or_else(|| SimError::Refused("a party with the zero key".to_owned()));
        let program = known(&self.deployed.program)?;
        let mut assets = Vec::new();
        for (index, token) in genesis.tokens.iter().enumerate() {
            let (symbol, decimals) = (token.symbol.clone(), token.decimals);
            assets.push(AssetConfig { asset_identifier: self.token(index)?, symbol, decimals, wraps: None });
        }
        Ok(SolanaConfig {
            common: CommonConfig {
                rpc_url: format!("simulation:{chain_id}"),
                rpc_urls: Vec::new(),
                escrow_contract: program.clone(),
                fulfillment_proxy: program,
                trusted_escrow_contracts: Vec::new(),
                trusted_fulfillment_proxies: Vec::new(),
                reserver: known(&genesis.reserver)?,
                releaser: genesis.releaser.clone(),
                required_depth: Depth::Finalized,
                refund_delay_seconds,
                submitter_deposits_warning: 100,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 500,
                rpc_timeout_ms: 2_000,
                assets,
                chain_id,
            },
            signature_cluster_id: base58(&genesis.cluster_id),
            signature_domain_version: gateway_program::message::DOMAIN_VERSION,
        })
    }

    /// The state of the genesis, while there is no block after it.
    fn genesis(&mut self) -> Result<&mut State, SimError> {
        match self.branch.as_mut_slice() {
            [genesis] => Ok(&mut std::sync::Arc::make_mut(genesis).state),
            _ => Err(SimError::Started),
        }
    }

    /// An account in the newest block.
    pub(super) fn account(&self, key: &Key) -> Option<&AccountSharedData> {
        self.runtime.account(&self.head_block().state, key)
    }

    /// Gives `key` lamports besides those it has.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block.
    pub fn fund(&mut self, key: &Key, lamports: u64) -> Result<(), SimError> {
        let mut account: Account = self.account(key).cloned().unwrap_or_default().into();
        account.lamports = account.lamports.saturating_add(lamports);
        account.rent_epoch = u64::MAX;
        self.genesis()?.set(*key, account.into());
        Ok(())
    }

    /// Gives `owner` `amount` of the token at `index`, smallest unit, in its associated token account.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block.
    pub fn mint(&mut self, index: usize, owner: &Key, amount: u64) -> Result<(), SimError> {
        let mint = self.deployed.mints[index];
        let rent = self.runtime.base().rent(ACCOUNT_SIZE);
        let address = host::associated_token_address(owner, &ids::TOKEN_PROGRAM, &mint).key;
        let known = self.account(&address).cloned().unwrap_or_else(|| tokens::empty(rent, &mint, owner));
        let supply = self.account(&mint).map(|mint| tokens::with_supply(mint, amount));
        let state = self.genesis()?;
        state.set(address, tokens::with_more(&known, amount));
        if let Some(supply) = supply {
            state.set(mint, supply);
        }
        Ok(())
    }

    /// Lets deposits that `signer` signs take `amount` of `owner`'s token at `index`.
    ///
    /// # Errors
    /// [`SimError::Started`] after the first block, [`SimError::Refused`] where the owner has no token account.
    pub fn approve(&mut self, index: usize, owner: &Key, signer: &Key, amount: u64) -> Result<(), SimError> {
        let address = self.token_account(index, owner);
        let delegate = host::delegate_address(&self.deployed.program, signer).key;
        let account = self.account(&address).map(|account| tokens::with_delegate(account, &delegate, amount));
        let account = account.ok_or_else(|| SimError::Refused("there is no token account".to_owned()))?;
        self.genesis()?.set(address, account);
        Ok(())
    }

    /// The associated token account of `owner` for the token at `index`.
    pub fn token_account(&self, index: usize, owner: &Key) -> Key {
        host::associated_token_address(owner, &ids::TOKEN_PROGRAM, &self.deployed.mints[index]).key
    }

    /// A transaction with these instructions, paid by the first of `signers`, fit for the next blocks.
    pub(super) fn signed(&self, signers: &[&SigningKey], calls: &[Instruction]) -> Result<Vec<u8>, SimError> {
        let refused = |error: &dyn std::fmt::Display| SimError::Refused(error.to_string());
        let payer = signers.first().ok_or_else(|| refused(&"nobody pays"))?.verifying_key().to_bytes();
        let message = transaction::message(calls, BUDGET, &payer, &self.head_block().blockhash);
        Ok(transaction::sign(&message, signers).map_err(|error| refused(&error))?.wire)
    }

    /// Sends a transaction of the world's own, which the first of `signers` pays for; its first signature, Base58.
    ///
    /// # Errors
    /// [`SimError::Refused`] when it cannot be made.
    pub fn submit(&mut self, signers: &[&SigningKey], calls: &[Instruction]) -> Result<String, SimError> {
        let wire = self.signed(signers, calls)?;
        let signed = Signed::parse(&wire).map_err(SimError::Refused)?;
        let hash = base58(&signed.signature);
        self.pool.add(signed);
        Ok(hash)
    }

    /// The transactions that wait for a block, in the order in which they came, by their first signatures.
    pub fn pending(&self) -> Vec<String> {
        self.pool.all().iter().map(|waiting| base58(&waiting.signed.signature)).collect()
    }

    /// Lets the leaders forget a transaction that waits; whether they did.
    pub fn drop_transaction(&mut self, hash: &str) -> bool {
        signature(hash).is_some_and(|signature| self.pool.remove(&signature))
    }

    /// Keeps a transaction that waits out of every block before the one of `slot`; whether it waits.
    pub fn delay(&mut self, hash: &str, slot: u64) -> bool {
        let waiting = signature(hash).and_then(|signature| self.pool.get_mut(&signature));
        waiting.is_some_and(|waiting| {
            waiting.not_before = slot;
            true
        })
    }

    /// Lamports of an account in the newest block.
    pub fn lamports(&self, key: &Key) -> u64 {
        self.account(key).map_or(0, ReadableAccount::lamports)
    }

    /// What `owner` has of the token at `index` in its associated token account in the newest block, smallest unit.
    pub fn token_balance(&self, index: usize, owner: &Key) -> u64 {
        self.account(&self.token_account(index, owner)).and_then(tokens::held).map_or(0, |held| held.amount)
    }

    /// Every account of a token in the newest block: its address, and what is in it by its owner.
    pub(super) fn token_accounts(&self, index: usize) -> impl Iterator<Item = (Key, Held)> {
        let mint = self.deployed.mints[index];
        let all = self.head_block().state.there().filter_map(|(key, account)| Some((*key, tokens::held(account)?)));
        all.filter(move |(_, held)| held.mint == mint)
    }

    /// What everybody has of a token in the newest block, by the owners of the token accounts. Together it is the supply.
    pub fn token_balances(&self, index: usize) -> BTreeMap<Key, u64> {
        let mut balances = BTreeMap::new();
        for (_, held) in self.token_accounts(index) {
            *balances.entry(held.owner).or_default() += held.amount;
        }
        balances
    }

    /// The total supply of a token in the newest block, as its mint has it.
    pub fn token_supply(&self, index: usize) -> u64 {
        self.account(&self.deployed.mints[index]).and_then(tokens::supply).unwrap_or_default()
    }

    /// The program's record of a payment in the newest block; `None` when there is none.
    pub fn escrow(&self, payment_id: &PaymentId) -> Option<Escrow> {
        let address = host::escrow_address(&self.deployed.program, &payment_id.on_chain().0).key;
        let account = self.account(&address).filter(|account| account.owner().to_bytes() == self.deployed.program)?;
        Escrow::from_bytes(account.data())
    }

    /// What is in the vault of a payment in the newest block, smallest unit.
    pub fn vault(&self, payment_id: &PaymentId) -> u64 {
        let address = host::vault_address(&self.deployed.program, &payment_id.on_chain().0).key;
        self.account(&address).and_then(tokens::held).map_or(0, |held| held.amount)
    }

    /// All calls of the program that had their effect, oldest first, with the place of the block.
    pub(super) fn all_done(&self) -> impl Iterator<Item = (usize, &Landed, Call)> {
        let landed = self.branch.iter().enumerate();
        let landed = landed.flat_map(|(place, block)| block.landed.iter().map(move |landed| (place, landed)));
        landed.flat_map(|(place, landed)| self.done(landed).into_iter().map(move |call| (place, landed, call)))
    }

    /// How often each call about a payment had its effect.
    pub fn payment_events(&self, payment_id: &PaymentId) -> PaymentEvents {
        let payment = payment_id.on_chain().0;
        let escrow = host::escrow_address(&self.deployed.program, &payment).key;
        let mut events = PaymentEvents::default();
        for (_, _, call) in self.all_done() {
            if call.delivery().is_some_and(|(_, delivery)| delivery.payment_id == payment) {
                events.fulfilled += 1;
            }
            if call.record() != Some(&escrow) {
                continue;
            }
            match call.tag {
                Tag::DepositAndReserve => {
                    events.deposited += 1;
                    events.reserved += 1;
                }
                Tag::Reassign => {
                    events.reassigned += 1;
                    events.reserved += 1;
                }
                Tag::Release => events.released += 1,
                Tag::Cancel | Tag::Refund => events.refunded += 1,
                _ => {}
            }
        }
        events
    }

    /// What a transaction would do in the newest block: `Ok` when it would succeed, otherwise the error as nodes write it.
    pub(super) fn try_out(&mut self, signed: &Signed) -> Result<(), Value> {
        let block = self.head_block().clone();
        let done = self.runtime.simulate(&block.state, block.moment(), signed);
        let done = done.map_err(|error| Value::from(error.to_string()))?;
        match done.error {
            None => Ok(()),
            Some(error) => Err(written(&error)),
        }
    }

    /// Whether the honest node knows a transaction, in a block or waiting.
    pub fn knows(&self, hash: &str) -> bool {
        let Some(signature) = signature(hash) else { return false };
        self.pool.get(&signature).is_some() || self.node_view(NodeKind::Honest).executed(&signature).is_some()
    }
}

/// The bytes of a signature.
pub(super) fn signature(hash: &str) -> Option<[u8; 64]> {
    bs58::decode(hash).into_vec().ok()?.try_into().ok()
}
