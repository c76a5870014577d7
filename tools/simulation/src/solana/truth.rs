//! What is so on the cluster, past all nodes.

use std::collections::BTreeMap;

use alloy::primitives::U256;

use chains_solana::{
    authorization::wallet_key,
    program::{account, text},
};
use events::{
    Account, AssetId, Hash32, PaymentId,
    event::{Inclusion, TransactionPrepared},
};
use gateway_program::{
    Key, ZERO_KEY,
    account::{Escrow, State},
    instruction::{Fulfill, Tag},
};

use super::{
    NodeKind, SimCluster,
    begin::SolanaWorld,
    block::{Block, Landed},
    calls::Call,
    node_view::Level,
    rpc::base58,
    wire::Signed,
    world::signature,
};
use crate::family::{Cancelled, Change, Delivered, Happened, Holdings, Reassigned, Released, Reservation, Waits};

/// The account of a key that a program has on record.
#[expect(clippy::expect_used, reason = "the zero key owns nothing and nobody can sign with it")]
pub(super) fn known(key: &Key) -> Account {
    account(key).expect("the zero key owns nothing and nobody can sign with it")
}

impl SolanaWorld {
    pub(super) fn held(&self) -> Holdings {
        let cluster = self.lock();
        let mut held = Holdings { supply: U256::from(cluster.token_supply(0)), ..Holdings::default() };
        for (owner, amount) in cluster.token_balances(0) {
            let owner = known(&owner);
            // Only the program has token accounts whose owners are no keys.
            match wallet_key(&owner) {
                Some(_) => *held.accounts.entry(owner).or_default() += U256::from(amount),
                None => held.escrow += U256::from(amount),
            }
        }
        held.accounts = held.accounts.into_iter().filter(|(_, amount)| !amount.is_zero()).collect::<BTreeMap<_, _>>();
        held
    }

    fn asset(&self, mint: &Key) -> AssetId {
        if *mint == ZERO_KEY {
            return self.coin.clone();
        }
        let named = format!("{}/token:{}", self.config.common.chain_id, text(mint));
        // Every mint makes one; what would not is told as the token that is paid with, and compared with it.
        named.parse().unwrap_or_else(|_| self.token.clone())
    }

    fn told(&self, settler: &Key, delivery: &Fulfill) -> Delivered {
        Delivered {
            payment: Hash32(delivery.payment_id),
            quote_hash: Hash32(delivery.quote_hash),
            settler: known(settler),
            asset: self.asset(&delivery.mint),
            recipient: known(&delivery.recipient),
            amount: U256::from(delivery.amount),
            fulfill_by: delivery.fulfill_by,
        }
    }

    pub(super) fn happened(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened> {
        let cluster = self.lock();
        let mut happened = Vec::new();
        for block in cluster.branch.iter().skip(cluster.finalized) {
            if !is_new(Hash32(block.blockhash)) {
                continue;
            }
            for landed in &block.landed {
                let calls = cluster.done(landed);
                happened.extend(calls.iter().filter_map(|call| self.change(block, landed, call)));
            }
        }
        happened
    }

    fn change(&self, block: &Block, landed: &Landed, call: &Call) -> Option<Happened> {
        let (payment, change) = match call.tag {
            Tag::Fulfill => {
                let (settler, delivery) = call.delivery()?;
                (delivery.payment_id, Change::Delivered(self.told(&settler, &delivery)))
            }
            Tag::Release | Tag::Cancel | Tag::Refund | Tag::Reassign => {
                let record = landed.escrow(call)?;
                (record.payment_id, escrow_change(&record, call))
            }
            _ => return None,
        };
        let (payment, transaction) = (Hash32(payment), base58(&landed.signed.signature));
        Some(Happened { payment, change, transaction, time: block.time })
    }

    pub(super) fn delivered(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)> {
        let cluster = self.lock();
        let payment = payment_id.on_chain().0;
        let all = cluster.all_done().filter_map(|(place, _, call)| Some((place, call.delivery()?)));
        let of_it = all.filter(|(_, (_, delivery))| delivery.payment_id == payment);
        of_it.map(|(place, (settler, delivery))| (cluster.branch[place].slot, self.told(&settler, &delivery))).collect()
    }

    pub(super) fn reserved(&self, payment_id: &PaymentId, quote_hash: Hash32) -> bool {
        let cluster = self.lock();
        let (payment, settled) = (payment_id.on_chain().0, cluster.finalized);
        cluster.all_done().filter(|(place, ..)| *place <= settled).any(|(_, landed, call)| {
            let is_of_it = || landed.escrow(&call).is_some_and(|record| record.payment_id == payment);
            match call.tag {
                Tag::DepositAndReserve => call
                    .deposit()
                    .is_some_and(|deposit| deposit.payment_id == payment && deposit.quote_hash == quote_hash.0),
                Tag::Reassign => call.reassignment().is_some_and(|to| to.quote_hash == quote_hash.0) && is_of_it(),
                _ => false,
            }
        })
    }

    /// What a release left in the vault.
    pub(super) fn left(&self, payment_id: &PaymentId) -> u64 {
        let cluster = self.lock();
        let is_released = cluster.escrow(payment_id).and_then(|record| record.state()) == Some(State::Released);
        if is_released { cluster.vault(payment_id) } else { 0 }
    }

    pub(super) fn includes(&self, inclusion: &Inclusion) -> Result<(), String> {
        let cluster = self.lock();
        let settled = cluster.finalized().slot;
        let found = signature(&inclusion.transaction_hash)
            .and_then(|signature| cluster.node_view(NodeKind::Honest).landed(&signature, Level::Processed));
        let Some((block, landed)) = found else { return Err(format!("with slot {settled} settled: nowhere")) };
        let holds = block.slot == inclusion.block_number
            && base58(&block.blockhash) == inclusion.block_hash
            && landed.execution.error.is_none()
            && block.slot <= settled;
        if holds { Ok(()) } else { Err(format!("with slot {settled} settled: in slot {}", block.slot)) }
    }

    pub(super) fn waits(&self) -> Vec<Waits> {
        let cluster = self.lock();
        let waiting = cluster.pool.all().iter().filter_map(|waiting| {
            let signed = &waiting.signed;
            let sender = known(&signed.keys().first()?.to_bytes());
            let calls = cluster.calls_in(signed);
            let is_to_escrow = calls.iter().any(|call| call.tag != Tag::Fulfill);
            Some(Waits { hash: base58(&signed.signature), sender, is_to_escrow })
        });
        waiting.collect()
    }

    /// It failed in a finalized block, or no block can hold it any more.
    pub(super) fn never_lands(&self, prepared: &TransactionPrepared) -> Result<(), String> {
        let cluster = self.lock();
        let wire = hex::decode(prepared.raw.trim_start_matches("0x")).map_err(|error| error.to_string())?;
        let signed = Signed::parse(&wire)?;
        let settled = cluster.finalized();
        let found = cluster.node_view(NodeKind::Honest).landed(&signed.signature, Level::Processed);
        let (hash, height) = (&prepared.transaction_hash, settled.height);
        match found {
            Some((block, landed)) if landed.execution.error.is_some() && block.slot <= settled.slot => Ok(()),
            Some((block, landed)) => {
                let error = &landed.execution.error;
                Err(format!("{hash} is in slot {} with {error:?}, and {} is settled", block.slot, settled.slot))
            }
            None => {
                let last = cluster.last_height(&signed).or_else(|| prepared.validity.last_block_height());
                match last {
                    Some(last) if height > last => Ok(()),
                    last => Err(format!("{hash} can land up to {last:?}, and height {height} is settled")),
                }
            }
        }
    }
}

fn escrow_change(record: &Escrow, call: &Call) -> Change {
    let quote_hash = Hash32(record.quote_hash);
    match call.tag {
        Tag::Release => Change::Released(call.word.clone().map(|attestation| Released {
            quote_hash,
            settler: known(&record.settler),
            attestation,
        })),
        Tag::Reassign => {
            Change::Reassigned(call.reassignment().zip(call.word.clone()).map(|(to, non_delivery)| Reassigned {
                previous: Hash32(to.previous_quote_hash),
                deposited: U256::from(record.deposited),
                reservation: Reservation {
                    quote_hash: Hash32(to.quote_hash),
                    settler: known(&to.settler),
                    source_amount: U256::from(to.source_amount),
                    fulfill_by: to.fulfill_by,
                },
                non_delivery,
            }))
        }
        _ => Change::Refunded(call.word.clone().map(|non_delivery| Cancelled { quote_hash, non_delivery })),
    }
}

impl SimCluster {
    /// The height past which a finalized block shows that the transaction is in none: the block one above it is the last that can hold
    /// it. `None` where its blockhash is of no block of this branch.
    fn last_height(&self, signed: &Signed) -> Option<u64> {
        let blockhash = signed.blockhash();
        let block = self.branch.iter().rev().find(|block| block.blockhash == blockhash)?;
        Some(block.height + self.timing.blockhash_age)
    }
}
