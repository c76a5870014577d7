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
use events::{Account, Amount, AssetId, ChainId, OwnedAsset, PaymentId};
use gateway_program::{
    Key as ProgramKey,
    host::{self, AccountMeta, EscrowAccounts, Instruction},
    token::Mint,
};

use super::{Look, Trial, config, fault, json_rpc::JsonRpc, unusable, within};
use crate::{deposit_address::Checked, error::Error, key::Key};

const UNIT: &str = "lamports";
/// `Approve` of SPL Token and of Token-2022: this byte, and the amount in eight, the lowest first.
const APPROVE: u8 = 4;
/// `TransferChecked`: this byte, the amount in eight, and the token's decimals.
const TRANSFER_CHECKED: u8 = 12;
/// Bytes of an associated token account with all extensions that a mint of Token-2022 can ask for in it, and a few more: what is
/// reckoned for its rent.
const TOKEN_ACCOUNT_BYTES: u64 = 200;
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
    rpc: JsonRpc,
    program: ProgramKey,
}

/// What is to be sent in one transaction.
#[derive(Clone)]
struct ToSend {
    what: &'static str,
    instructions: Vec<Instruction>,
    /// Lamports that the accounts which it makes take at most.
    rent: u64,
}

impl ToSend {
    fn one(what: &'static str, instruction: Instruction) -> Self {
        Self { what, instructions: vec![instruction], rent: 0 }
    }

    fn and(mut self, instruction: Instruction) -> Self {
        self.instructions.push(instruction);
        self
    }
}

/// A token, as its mint says it.
struct Token {
    mint: ProgramKey,
    program: ProgramKey,
    decimals: u8,
}

impl Token {
    /// Sends from one wallet's associated token account to another's.
    fn transfer(&self, from: ProgramKey, to: &ProgramKey, units: u64) -> Instruction {
        let account_of = |wallet: &ProgramKey| host::associated_token_address(wallet, &self.program, &self.mint).key;
        let meta = |key, signer, writable| AccountMeta { key, signer, writable };
        Instruction {
            program_id: self.program,
            accounts: vec![
                meta(account_of(&from), false, true),
                meta(self.mint, false, false),
                meta(account_of(to), false, true),
                meta(from, true, false),
            ],
            data: [&[TRANSFER_CHECKED][..], &units.to_le_bytes(), &[self.decimals]].concat(),
        }
    }
}

impl Solana {
    /// The chain's id is the beginning of its cluster's genesis hash; the rest is the node's to say.
    pub(super) async fn connect(id: &ChainId, url: &str, escrow: &Account) -> Result<Self, Error> {
        let rpc = JsonRpc::new(url)?;
        let genesis: String = rpc.call("getGenesisHash", json!([])).await?;
        if genesis.get(..CHAIN_REFERENCE_CHARS) != Some(id.reference()) {
            return Err(unusable(format!("the node is of another cluster than {id}")));
        }
        let besides = [("signature_cluster_id", json!(genesis))];
        let ChainConfig::Solana(config) = config(id, url, escrow, &besides)? else {
            return Err(unusable(format!("{id} is not a Solana cluster")));
        };
        let node = Node::connect(&config).map_err(unusable)?;
        Ok(Self { node, rpc, program: program::key(escrow).map_err(unusable)? })
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
        let holding = holding.ok_or_else(|| no_account(source))?;
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
        Ok(vec![self.send(ToSend::one("the approval", instruction), key, fee_max).await?])
    }

    pub(super) async fn balance(&self, held: &OwnedAsset) -> Result<U256, Error> {
        let holding = Holding::read(&self.node, held).await.map_err(fault)?;
        Ok(U256::from(holding.map_or(0, |holding| holding.amount)))
    }

    pub(super) async fn transfer(
        &self,
        to: &OwnedAsset,
        amount: Amount,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        let (from, token) = (key.ed25519()?.public(), self.token(to.asset()).await?);
        let receiver = program::key(to.account()).map_err(unusable)?;
        let sender = OwnedAsset::new(to.asset().clone(), account(&from)?.as_str()).map_err(unusable)?;
        if Holding::read(&self.node, &sender).await.map_err(fault)?.is_none() {
            return Err(no_account(&sender));
        }
        let transfer = token.transfer(from, &receiver, program::units(amount).map_err(unusable)?);
        self.send(self.receiving("the transfer", to, &token, from).await?.and(transfer), key, fee_max).await
    }

    pub(super) async fn open_token_account(
        &self,
        owned: &OwnedAsset,
        key: &Key,
        fee_max: U256,
    ) -> Result<Option<String>, Error> {
        let (payer, token) = (key.ed25519()?.public(), self.token(owned.asset()).await?);
        let to_send = self.receiving("the token account", owned, &token, payer).await?;
        match to_send.instructions.is_empty() {
            true => Ok(None),
            false => self.send(to_send, key, fee_max).await.map(Some),
        }
    }

    pub(super) async fn give_back(
        &self,
        address: &Checked,
        token: Option<&AssetId>,
        key: &Key,
        fee_max: U256,
    ) -> Result<String, Error> {
        const WHAT: &str = "the return";
        let carrier = key.ed25519()?.public();
        let Some(asset) = token else {
            return self.send(ToSend::one(WHAT, address.give_back_lamports()?), key, fee_max).await;
        };
        let token = self.token(asset).await?;
        let refund = OwnedAsset::new(asset.clone(), address.refund_account.as_str()).map_err(unusable)?;
        let made = self.receiving(WHAT, &refund, &token, carrier).await?;
        let (token_program, paid) = (account(&token.program)?, account(&carrier)?);
        let returning = |closes| address.give_back_token(asset, &token_program, &paid, closes);
        let closing = made.clone().and(returning(true)?);
        // One in which Token-2022 withheld fees is not closed; what it has goes back all the same.
        let to_send = match self.budget(&closing.instructions, &carrier).await {
            Err(Error::Reverted(_)) => made.and(returning(false)?),
            _ => closing,
        };
        self.send(to_send, key, fee_max).await
    }

    async fn token(&self, asset: &AssetId) -> Result<Token, Error> {
        let mint = program::mint(asset).map_err(unusable)?;
        let found = self.node.accounts(&[mint], Commitment::Confirmed, 0).await.map_err(fault)?;
        let found = found.account(0).ok_or_else(|| unusable(format!("there is no token {asset}")))?;
        let decimals = Mint::known(&found.owner, &found.data).map_err(unusable)?.decimals;
        Ok(Token { mint, program: found.owner, decimals })
    }

    /// What has to come before a transfer to `owned`: its associated token account, at `payer`'s cost, where it is missing.
    async fn receiving(
        &self,
        what: &'static str,
        owned: &OwnedAsset,
        token: &Token,
        payer: ProgramKey,
    ) -> Result<ToSend, Error> {
        // Where somebody else has it by now, the instruction fails, and the transfer with it.
        if Holding::read(&self.node, owned).await.map_err(fault)?.is_some() {
            return Ok(ToSend { what, instructions: Vec::new(), rent: 0 });
        }
        let wallet = program::key(owned.account()).map_err(unusable)?;
        let create = host::create_associated_token(payer, &wallet, &token.mint, &token.program);
        let rent = self.rpc.call("getMinimumBalanceForRentExemption", json!([TOKEN_ACCOUNT_BYTES])).await?;
        Ok(ToSend { what, instructions: vec![create], rent })
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
        let budget = self.budget(&[instruction], &program::key(from).map_err(unusable)?).await?;
        Ok(Trial { cost_max: cost(budget).to_string() })
    }

    pub(super) async fn refund(&self, payment_id: &PaymentId, key: &Key, fee_max: U256) -> Result<String, Error> {
        let instruction = self.refunding(payment_id).await?;
        self.send(ToSend::one("the refund", instruction), key, fee_max).await
    }

    /// What instructions take, once no program refuses them.
    async fn budget(&self, instructions: &[Instruction], payer: &ProgramKey) -> Result<Budget, Error> {
        let broadcaster = Broadcaster::of(&self.node);
        let trial = message(instructions, Budget::TRIAL, payer, &[0; 32]);
        let programs: Vec<ProgramKey> = trial.program_ids().into_iter().map(|program| program.to_bytes()).collect();
        let simulated = broadcaster.simulate(&unsigned(&trial)).await.map_err(fault)?;
        if let Some(error) = &simulated.error {
            return Err(Error::Reverted(program::reason(error, &programs)));
        }
        let named = instructions.iter().flat_map(|instruction| &instruction.accounts);
        let written: Vec<ProgramKey> = named.filter(|meta| meta.writable).map(|meta| meta.key).collect();
        let recent = broadcaster.recent_fees(&written).await.map_err(fault)?;
        Ok(Budget::new(simulated.units, &recent, 1))
    }

    /// Sends a transaction that the key alone signs, and waits until it is in a confirmed block and had its effect, or never can.
    async fn send(&self, to_send: ToSend, key: &Key, fee_max: U256) -> Result<String, Error> {
        let ToSend { what, instructions, rent } = to_send;
        let signer = key.ed25519()?;
        let payer = signer.public();
        let budget = self.budget(&instructions, &payer).await?;
        within(what, U256::from(cost(budget).saturating_add(rent)), fee_max, UNIT)?;
        let broadcaster = Broadcaster::of(&self.node);
        let settled = self.node.settled().await.map_err(fault)?;
        let blockhash = broadcaster.blockhash(settled).await.map_err(fault)?;
        let message = message(&instructions, budget, &payer, &blockhash.hash);
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
            // What is not confirmed yet, others do not count.
            let head = self.node.head().await.map_err(fault)?;
            match History::of(&self.node).status(&name, settled.slot).await.map_err(fault)? {
                Some(status) if status.slot <= head => {
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
                _ if Instant::now() >= until => {
                    return Err(fault(format!("{what} {name} is in no confirmed block yet")));
                }
                _ => sleep(POLL).await,
            }
        }
    }
}

/// A transaction's name: its first signature in Base58.
fn signer_name(signature: &[u8; 64]) -> String {
    bs58::encode(signature).into_string()
}

fn no_account(source: &OwnedAsset) -> Error {
    unusable(format!("{} has no account of the token", source.account()))
}

fn account(key: &ProgramKey) -> Result<Account, Error> {
    program::account(key).ok_or_else(|| unusable("the zero key is not an account"))
}

/// Lamports that a transaction with one signature takes at most, besides what it makes.
fn cost(budget: Budget) -> u64 {
    let priority = u64::from(budget.units).saturating_mul(budget.price).div_ceil(MICRO);
    FEE_LAMPORTS.saturating_add(priority)
}

#[cfg(test)]
mod tests {
    use gateway_program::ids;

    use super::*;

    /// Between the accounts that wallets are paid to in the token's own program.
    #[test]
    fn a_transfer_is_between_associated_token_accounts() {
        let (mint, from, to) = ([1; 32], [2; 32], [3; 32]);
        for program in [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM] {
            let transfer = Token { mint, program, decimals: 6 }.transfer(from, &to, 258);
            let account_of = |owner: &ProgramKey| {
                host::find_program_address(&[owner, &program, &mint], &ids::ASSOCIATED_TOKEN_PROGRAM).key
            };
            let accounts = transfer.accounts.iter().map(|meta| (meta.key, meta.signer, meta.writable));
            let expected = [
                (account_of(&from), false, true),
                (mint, false, false),
                (account_of(&to), false, true),
                (from, true, false),
            ];
            assert_eq!(accounts.collect::<Vec<_>>(), expected);
            assert_eq!((transfer.program_id, transfer.data), (program, vec![12, 2, 1, 0, 0, 0, 0, 0, 0, 6]));
        }
    }
}
