//! A real Solana runtime with the program on it, and payments to make there.

pub mod addressed;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};

use chains::config::{CommonConfig, Depth, SolanaConfig};
use chains_solana::{
    adapter::{Keys, SolanaChain},
    authorization::{Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    broadcaster::Broadcaster,
    dev::{DevCluster, DevToken, TokenProgram},
    escrows::Escrows,
    history::{History, Landed},
    keys::account,
    node::{Commitment, Node},
    program,
    transaction::{self, Budget},
};
use devkit::Surfnet;
use events::{
    Account, Hash32, OwnedAsset, PaymentId, Terms,
    event::TransactionPrepared,
    time::{Timestamp, from_unix_seconds},
};
use gateway_program::host::{self, AccountMeta, Instruction};
use sagas::ports::{Chains, Clock, DeliveryOrder, DepositOrder, DepositState, Reservation, Statement};

pub const CAP: u64 = 1_000_000;
pub const PRICE: u64 = 900_000;
pub const DELIVERED: u64 = 850_000;
pub const REFUND_DELAY: u64 = 900;
/// A payer's tokens at the start.
pub const TOKENS: u64 = 10_000_000;
/// Slots come fast, so that what takes a minute elsewhere takes seconds here. A transaction can land for 150 of them, which
/// is time enough on a busy machine.
pub const SLOT_MS: u64 = 60;
/// Longest that anything here is waited for.
pub const WITHIN: Duration = Duration::from_secs(120);

const SOL: u64 = 1_000_000_000;

pub fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

/// The key's account.
pub fn wallet(key: &SigningKey) -> Account {
    account(key).parse().unwrap()
}

/// The system's clock.
pub struct TestClock;

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        from_unix_seconds(now.as_secs()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// A cluster with the program, a token, and money for everyone.
pub struct World {
    pub surfnet: Surfnet,
    pub dev: DevCluster,
    pub token: DevToken,
    pub program: String,
    pub reserver: SigningKey,
    pub releaser: SigningKey,
    /// Whom payers sign for as the releaser: the account of `releaser`, unless a test has them sign for a verifier set.
    pub releaser_account: Account,
    pub submitters: Vec<SigningKey>,
    pub payer: SigningKey,
    pub settler: SigningKey,
    pub recipient: SigningKey,
    payments: AtomicU64,
}

impl World {
    pub async fn start() -> Result<Self> {
        let surfnet = Surfnet::start(SLOT_MS).await?;
        let deployer = key(1);
        for (seed, lamports) in [(1, 100 * SOL), (4, 10 * SOL), (5, 10 * SOL), (7, 10 * SOL), (8, SOL)] {
            surfnet.airdrop(&account(&key(seed)), lamports).await?;
        }
        let program = account(&key(20));
        let elf = Self::artifact();
        let elf = std::fs::read(&elf).with_context(|| format!("read {}", elf.display()))?;
        surfnet.write_program(&program, &elf, &account(&deployer)).await?;
        let dev = DevCluster::connect(&surfnet.url(), &deployer);
        dev.initialize(&program, surfnet.genesis_hash(), &account(&key(2))).await?;
        let token = dev.create_token(&key(21), TokenProgram::Token, 6).await?;
        let payer = key(6);
        dev.mint(&token, &account(&payer), TOKENS).await?;
        dev.mint(&token, &account(&key(7)), TOKENS).await?;
        surfnet.airdrop(&account(&payer), SOL).await?;
        dev.approve(&payer, &token, &program, &account(&payer), TOKENS).await?;
        Ok(Self {
            surfnet,
            dev,
            token,
            program,
            reserver: key(2),
            releaser: key(3),
            releaser_account: wallet(&key(3)),
            submitters: vec![key(4), key(5)],
            payer,
            settler: key(7),
            recipient: key(8),
            payments: AtomicU64::new(0),
        })
    }

    pub fn config(&self) -> SolanaConfig {
        SolanaConfig {
            common: CommonConfig {
                chain_id: self.surfnet.chain_id().parse().unwrap(),
                rpc_url: self.surfnet.url(),
                rpc_urls: Vec::new(),
                escrow_contract: self.program.parse().unwrap(),
                fulfillment_proxy: self.program.parse().unwrap(),
                trusted_escrow_contracts: Vec::new(),
                trusted_fulfillment_proxies: Vec::new(),
                reserver: wallet(&self.reserver),
                releaser: self.releaser_account.clone(),
                required_depth: Depth::Finalized,
                refund_delay_seconds: REFUND_DELAY,
                submitter_deposits_warning: 1,
                exits_reserved: 10,
                ws_url: None,
                poll_ms: 10,
                rpc_timeout_ms: 20_000,
                assets: Vec::new(),
            },
            signature_cluster_id: self.surfnet.genesis_hash().to_owned(),
            signature_domain_version: 1,
        }
    }

    /// The connection through `rpc_url` instead of the cluster's own.
    pub fn node_at(&self, rpc_url: &str) -> Node {
        let mut config = self.config();
        config.common.rpc_url = rpc_url.to_owned();
        Node::connect(&config).unwrap()
    }

    pub fn node(&self) -> Node {
        self.node_at(&self.surfnet.url())
    }

    /// The committed program.
    pub fn artifact() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contracts/artifacts/solana/gateway_escrow.so")
    }

    pub fn keys(&self) -> Keys {
        Keys {
            reserver: self.reserver.clone().into(),
            draining_reservers: Vec::new(),
            submitters: self.submitters.iter().cloned().map(Into::into).collect(),
            exit_submitters: Vec::new(),
        }
    }

    pub fn chain_at(&self, rpc_url: &str) -> SolanaChain {
        SolanaChain::new(self.node_at(rpc_url), Some(self.keys()), Arc::new(TestClock)).unwrap()
    }

    pub fn chain(&self) -> SolanaChain {
        self.chain_at(&self.surfnet.url())
    }

    /// The cluster's clock, UNIX seconds.
    pub async fn time(&self) -> Result<u64> {
        let clock = json!(["SysvarC1ock11111111111111111111111111111111", {"encoding": "jsonParsed"}]);
        let clock = self.surfnet.rpc("getAccountInfo", clock).await?;
        clock.pointer("/value/data/parsed/info/unixTimestamp").and_then(Value::as_u64).context("no clock")
    }

    pub async fn tokens(&self, owner: &SigningKey) -> Result<u64> {
        Ok(self.dev.token_balance(&self.token, &account(owner)).await?)
    }

    fn asset(&self, asset: &str) -> events::AssetId {
        format!("{}/{asset}", self.surfnet.chain_id()).parse().unwrap()
    }

    /// A payment of the payer, signed, with its windows `seconds` long from now on the cluster's clock.
    pub async fn order(&self, seconds: u64) -> Result<DepositOrder> {
        self.order_of(&self.token, &self.payer, seconds).await
    }

    /// A payment of the payer's `token`, signed by `signer`.
    pub async fn order_of(&self, token: &DevToken, signer: &SigningKey, seconds: u64) -> Result<DepositOrder> {
        self.signed_order(token, signer, seconds, Hash32::ZERO).await
    }

    /// A payment of the payer's, who signs for this quote and no other.
    pub async fn order_for_quote(&self, seconds: u64, quote_hash: Hash32) -> Result<DepositOrder> {
        self.signed_order(&self.token, &self.payer, seconds, quote_hash).await
    }

    async fn signed_order(
        &self,
        token: &DevToken,
        signer: &SigningKey,
        seconds: u64,
        quote_hash: Hash32,
    ) -> Result<DepositOrder> {
        let number = self.payments.fetch_add(1, Ordering::Relaxed);
        let payment_id = PaymentId::derive(&format!("solana:{}", account(&self.payer)), &number.to_string());
        let asset = self.asset(&format!("token:{}", token.mint));
        let terms = Terms::new(
            OwnedAsset::new(asset, &account(&self.payer)).unwrap(),
            vec![OwnedAsset::new(self.asset("slip44:501"), &account(&self.recipient)).unwrap()],
            DELIVERED.to_string().parse().unwrap(),
            Some(CAP.to_string().parse().unwrap()),
        );
        let quote_deadline = self.time().await? + seconds / 2;
        let spend = SpendRequest {
            payment_id: payment_id.clone(),
            terms: terms.clone(),
            quote_deadline: from_unix_seconds(quote_deadline).unwrap(),
            fulfillment_deadline: from_unix_seconds(quote_deadline + seconds / 2).unwrap(),
            cluster_id: ClusterId::parse(self.surfnet.genesis_hash()).unwrap(),
            escrow: EscrowSettings {
                program: self.program.parse().unwrap(),
                reserver: wallet(&self.reserver),
                releaser: self.releaser_account.clone(),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash,
        };
        let is_delegate = *signer != self.payer;
        let delegate_signer = is_delegate.then(|| signer.verifying_key());
        let prepared = prepare(&spend, &Choice { delegate_signer, ..Choice::default() })?;
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: None,
            signature: format!("0x{}", hex::encode(signer.sign(&prepared.digest.0).to_bytes())),
            payload: is_delegate.then(|| json!({"delegate_signer": account(signer)})),
        };
        let (authorization, escrow) = authorize(&spend, &signed)?;
        let fulfill_by = escrow.fulfillment_deadline;
        Ok(DepositOrder {
            transfer: None,
            payment_id,
            terms_hash: terms.hash(),
            terms,
            escrow,
            authorization,
            reservation: Reservation {
                quote_hash: Hash32([9; 32]),
                payout_account: wallet(&self.settler),
                source_amount: PRICE.to_string().parse().unwrap(),
                fulfill_by,
            },
        })
    }

    pub fn delivery(&self, order: &DepositOrder) -> DeliveryOrder {
        DeliveryOrder {
            payment_id: order.payment_id.clone(),
            quote_hash: order.reservation.quote_hash,
            destination: order.terms.destination()[0].clone(),
            amount: DELIVERED.to_string().parse().unwrap(),
            delivery_account: wallet(&self.settler),
            proxy: self.program.parse().unwrap(),
            fulfill_by: order.reservation.fulfill_by,
        }
    }

    /// Sends `instructions`, paid by the settler and signed by it and the payer, and waits until they are confirmed; the
    /// hash and the slot.
    pub async fn send(&self, instructions: &[Instruction]) -> Result<(String, u64)> {
        let (node, settler) = (self.node(), self.settler.verifying_key().to_bytes());
        let (broadcaster, history) = (Broadcaster::of(&node), History::of(&node));
        let blockhash = broadcaster.blockhash(node.settled().await?).await?;
        let message = transaction::message(instructions, Budget::TRIAL, &settler, &blockhash.hash);
        let signed = transaction::sign(&message, &[&self.settler, &self.payer])?;
        broadcaster.send(&signed.wire).await?;
        let landed = until(
            || history.transaction(&signed.hash, Commitment::Confirmed),
            |landed: &Option<Landed>| landed.is_some(),
        )
        .await?;
        let landed = landed.context("not landed")?;
        ensure!(landed.error.is_none(), "{} failed: {:?}", signed.hash, landed.error);
        Ok((signed.hash, landed.slot))
    }

    /// Closes the payer's empty account of `token`.
    pub async fn close_payers(&self, token: &DevToken, token_program: [u8; 32]) -> Result<()> {
        const CLOSE_ACCOUNT: u8 = 9;
        let payer = self.payer.verifying_key().to_bytes();
        let account = host::associated_token_address(&payer, &token_program, &program::parse_key(&token.mint)?).key;
        let meta = |key, signer| AccountMeta { key, signer, writable: !signer };
        let accounts = vec![meta(account, false), meta(payer, false), meta(payer, true)];
        self.send(&[Instruction { program_id: token_program, accounts, data: vec![CLOSE_ACCOUNT] }]).await?;
        Ok(())
    }

    pub fn statement(&self, order: &DepositOrder) -> Statement {
        Statement::Delivery {
            payment_id: order.payment_id.clone(),
            quote_hash: order.reservation.quote_hash,
            payout_account: order.reservation.payout_account.clone(),
        }
    }

    pub fn non_delivery(&self, order: &DepositOrder) -> Statement {
        Statement::NonDelivery { payment_id: order.payment_id.clone(), quote_hash: order.reservation.quote_hash }
    }

    /// The releaser's signature, hex with 0x.
    pub fn attest(&self, statement: &Statement) -> String {
        self.attest_by(&self.releaser, statement)
    }

    /// The signature of any key, hex with 0x.
    pub fn attest_by(&self, key: &SigningKey, statement: &Statement) -> String {
        let domain = self.node().domain(&program::parse_key(&self.program).unwrap());
        let digest = program::statement_digest(statement, &domain).unwrap();
        format!("0x{}", hex::encode(key.sign(&digest.0).to_bytes()))
    }

    /// Brings the releaser's word to the escrow, as anyone may.
    pub async fn release(&self, order: &DepositOrder) -> Result<()> {
        let program = program::parse_key(&self.program)?;
        let payment_id = order.payment_id.on_chain().0;
        let mint = program::parse_key(&self.token.mint)?;
        let signature = program::signature_bytes(&self.attest(&self.statement(order))).unwrap();
        let digest = program::statement_digest(&self.statement(order), &self.node().domain(&program))?;
        let escrow = host::EscrowAccounts {
            payment_id,
            settler: self.settler.verifying_key().to_bytes(),
            payer: self.payer.verifying_key().to_bytes(),
            rent_payer: self.submitter_of(order).await?,
            mint,
            token_program: gateway_program::ids::TOKEN_PROGRAM,
        };
        let instructions = [
            host::ed25519(&self.releaser.verifying_key().to_bytes(), &signature, &digest.0),
            host::release(&program, &escrow, 2),
        ];
        self.send(&instructions).await?;
        Ok(())
    }

    /// Who paid for the escrow's accounts.
    pub async fn submitter_of(&self, order: &DepositOrder) -> Result<[u8; 32]> {
        let program = program::parse_key(&self.program)?;
        let node = self.node();
        let read = Escrows::of(&node).record(&order.payment_id, &program, Commitment::Confirmed, 0).await?;
        Ok(read.record.context("no escrow")?.rent_payer)
    }
}

/// Sends `prepared` again and again until its deposit is anything but pending.
pub async fn settle(
    chains: &dyn Chains,
    order: &DepositOrder,
    prepared: &[TransactionPrepared],
) -> Result<DepositState> {
    let started = Instant::now();
    loop {
        match chains.deposit_state(order, prepared).await {
            Ok(DepositState::Pending) => {
                for transaction in prepared {
                    // A node that refuses says nothing about the outcome.
                    let _ = chains.broadcast(transaction).await;
                }
            }
            Ok(state) => return Ok(state),
            Err(fault) if started.elapsed() > WITHIN => bail!("{fault}"),
            Err(_) => {}
        }
        if started.elapsed() > WITHIN {
            bail!("the deposit is pending for {WITHIN:?}");
        }
        chains.next_block(&order.escrow.chain_id).await;
    }
}

/// Asks until the answer is one that `is` takes.
pub async fn until<T, F>(mut ask: impl FnMut() -> F, is: impl Fn(&T) -> bool) -> Result<T>
where
    T: std::fmt::Debug,
    F: Future<Output = Result<T, sagas::ports::Transient>>,
{
    let started = Instant::now();
    loop {
        let answer = ask().await;
        match answer {
            Ok(answer) if is(&answer) => return Ok(answer),
            other if started.elapsed() > WITHIN => bail!("after {WITHIN:?}: {other:?}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
