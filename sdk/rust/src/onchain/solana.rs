//! Solana: allowances for the program, its escrow records, and transactions of one's own.

use std::time::Duration;

use ruint::aliases::U256;
use serde_json::json;
use tokio::time::{Instant, sleep};

use chains::config::ChainConfig;
use chains_solana::{
    broadcaster::Broadcaster,
    escrows::Escrows,
    history::History,
    holding::Holding,
    node::{Commitment, Node},
    program,
    transaction::{Budget, message, unsigned},
};
use events::{Account, Amount, ChainId, OwnedAsset, PaymentId};
use gateway_program::{
    Key as ProgramKey,
    host::{self, AccountMeta, EscrowAccounts, Instruction},
};

use super::{Look, Trial, config, fault, json_rpc::JsonRpc, unusable, within};
use crate::{error::Error, key::Key};

const UNIT: &str = "lamports";
/// `Approve` of SPL Token and of Token-2022: this byte, and the amount in eight, the lowest first.
const APPROVE: u8 = 4;
/// What a transaction with one signature costs besides its priority, in lamports.
const FEE_LAMPORTS: u64 = 5_000;
/// Millionths of a lamport in a lamport.
const MICRO: u64 = 1_000_000;
/// Characters of the genesis hash in a CAIP-2 id.
const CHAIN_REFERENCE_CHARS: usize = 32;
/// How long a transaction is waited for, whatever height the node says: its blockhash lasts for 150 blocks, about a minute.
const WAIT_MAX: Duration = Duration::from_secs(240);
const POLL: Duration = Duration::from_millis(500);
/// A transaction that is in no block is sent again after so long: nodes forget.
const RESEND: Duration = Duration::from_secs(2);

/// A cluster.
#[derive(Debug)]
pub(super) struct Solana {
    node: Node,
    program: ProgramKey,
}

impl Solana {
    /// The chain's id is the beginning of its cluster's genesis hash; the rest is the node's to say.
    pub(super) async fn connect(id: &ChainId, url: &str, escrow: &Account) -> Result<Self, Error> {
        let genesis: String = JsonRpc::new(url)?.call("getGenesisHash", json!([])).await?;
        if genesis.get(..CHAIN_REFERENCE_CHARS) != Some(id.reference()) {
            return Err(unusable(format!("the node is of another cluster than {id}")));
        }
        let besides = [("signature_cluster_id", json!(genesis))];
        let ChainConfig::Solana(config) = config(id, url, escrow, &besides)? else {
            return Err(unusable(format!("{id} is not a Solana cluster")));
        };
        let node = Node::connect(&config).map_err(unusable)?;
        Ok(Self { node, program: program::key(escrow).map_err(unusable)? })
    }

    pub(super) async fn allowance(&self, source: &OwnedAsset, spender: &Account) -> Result<U256, Error> {
        let holding = Holding::read(&self.node, source).await.map_err(fault)?;
        Ok(U256::from(holding.map_or(0, |holding| holding.allowed_to(spender))))
    }

    pub(super) async fn approve(
        &self,
        source: &OwnedAsset,
        spender: &Account,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<Vec<String>, Error> {
        let holding = Holding::read(&self.node, source).await.map_err(fault)?;
        let holding = holding.ok_or_else(|| unusable(format!("{} has no account of the token", source.account())))?;
        let units = program::units(amount).map_err(unusable)?;
        let meta = |text: &str, signer, writable| {
            program::parse_key(text).map(|key| AccountMeta { key, signer, writable }).map_err(unusable)
        };
        let instruction = Instruction {
            program_id: program::parse_key(&holding.token_program).map_err(unusable)?,
            accounts: vec![
                meta(&holding.address, false, true)?,
                meta(spender.as_str(), false, false)?,
                meta(source.account().as_str(), true, false)?,
            ],
            data: std::iter::once(APPROVE).chain(units.to_le_bytes()).collect(),
        };
        Ok(vec![self.send("the approval", instruction, key, fee_max).await?])
    }

    pub(super) async fn look(&self, payment_id: &PaymentId) -> Result<Look, Error> {
        let escrows = Escrows::of(&self.node);
        let read = escrows.record(payment_id, &self.program, Commitment::Confirmed, 0).await.map_err(fault)?;
        let record = read.record.as_ref().map(|record| escrows.to_record(record)).transpose().map_err(fault)?;
        Ok(Look { record, time: read.time })
    }

    async fn refunding(&self, payment_id: &PaymentId) -> Result<Instruction, Error> {
        let read = Escrows::of(&self.node).record(payment_id, &self.program, Commitment::Confirmed, 0).await;
        let record = read.map_err(fault)?.record;
        let record = record.ok_or_else(|| Error::Reverted("nothing is in escrow for the payment".to_owned()))?;
        Ok(host::refund(&self.program, &EscrowAccounts::from(&record)))
    }

    pub(super) async fn try_refund(&self, payment_id: &PaymentId, from: &Account) -> Result<Trial, Error> {
        let instruction = self.refunding(payment_id).await?;
        let budget = self.budget(&instruction, &program::key(from).map_err(unusable)?).await?;
        Ok(Trial { cost_max: cost(budget).to_string() })
    }

    pub(super) async fn refund(&self, payment_id: &PaymentId, key: &Key, fee_max: U256) -> Result<String, Error> {
        let instruction = self.refunding(payment_id).await?;
        self.send("the refund", instruction, key, fee_max).await
    }

    /// What an instruction takes, once no program refuses it.
    async fn budget(&self, instruction: &Instruction, payer: &ProgramKey) -> Result<Budget, Error> {
        let broadcaster = Broadcaster::of(&self.node);
        let trial = message(std::slice::from_ref(instruction), Budget::TRIAL, payer, &[0; 32]);
        let programs: Vec<ProgramKey> = trial.program_ids().into_iter().map(|program| program.to_bytes()).collect();
        let simulated = broadcaster.simulate(&unsigned(&trial)).await.map_err(fault)?;
        if let Some(error) = &simulated.error {
            return Err(Error::Reverted(program::reason(error, &programs)));
        }
        let written: Vec<ProgramKey> =
            instruction.accounts.iter().filter(|meta| meta.writable).map(|meta| meta.key).collect();
        let recent = broadcaster.recent_fees(&written).await.map_err(fault)?;
        Ok(Budget::new(simulated.units, &recent, 1))
    }

    /// Sends one instruction that the key alone signs, and waits until it is in a block and had its effect, or never can.
    async fn send(&self, what: &str, instruction: Instruction, key: &Key, fee_max: U256) -> Result<String, Error> {
        let signer = key.ed25519()?;
        let payer = signer.public();
        let budget = self.budget(&instruction, &payer).await?;
        within(what, U256::from(cost(budget)), fee_max, UNIT)?;
        let broadcaster = Broadcaster::of(&self.node);
        let settled = self.node.settled().await.map_err(fault)?;
        let blockhash = broadcaster.blockhash(settled).await.map_err(fault)?;
        let message = message(&[instruction], budget, &payer, &blockhash.hash);
        let bytes = message.serialize();
        let signature = signer.sign(&bytes).await.map_err(|error| Error::Key(error.to_string()))?;
        // One signature, which is the transaction's name, and then the message.
        let wire = [&[1][..], &signature, &bytes].concat();
        let name = signer_name(&signature);
        let until = Instant::now() + WAIT_MAX;
        let mut sent_at: Option<Instant> = None;
        loop {
            if sent_at.is_none_or(|at| at.elapsed() >= RESEND) {
                // Silence is not refusal: it may be on its way.
                let _ = broadcaster.send(&wire).await;
                sent_at = Some(Instant::now());
            }
            let settled = self.node.settled().await.map_err(fault)?;
            match History::of(&self.node).status(&name, settled.slot).await.map_err(fault)? {
                Some(status) => {
                    return match status.error {
                        None => Ok(name),
                        Some(error) => {
                            Err(Error::Reverted(format!("{what} {name} had no effect but its fee: {error}")))
                        }
                    };
                }
                None if settled.height > blockhash.last_valid_height => {
                    return Err(fault(format!("{what} {name} is in no block, and never will be")));
                }
                None if Instant::now() >= until => {
                    return Err(fault(format!("{what} {name} is in no block yet")));
                }
                None => sleep(POLL).await,
            }
        }
    }
}

/// A transaction's name: its first signature in Base58.
fn signer_name(signature: &[u8; 64]) -> String {
    bs58::encode(signature).into_string()
}

/// Lamports that a transaction with one signature takes at most.
fn cost(budget: Budget) -> u64 {
    let priority = u64::from(budget.units).saturating_mul(budget.price).div_ceil(MICRO);
    FEE_LAMPORTS.saturating_add(priority)
}
