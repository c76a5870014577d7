//! The same questions to a real runtime behind JSON-RPC and to the simulated cluster, about the same deposit: answers of the same
//! form, refusals with the same codes.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use data_encoding::BASE64;
use serde_json::{Value, json};

use chains::config::SolanaConfig;
use chains_solana::{
    adapter::SolanaChain,
    dev::{DevCluster, TokenProgram},
    node::Node,
};
use devkit::Surfnet;
use events::event::TransactionPrepared;
use gateway_program::host;
use sagas::ports::Chains;
use simulation::solana::{NodeKind, RpcFault, SharedCluster, SimTransport, Template, Timing};
use tokio::time::Instant;

use crate::support::*;

/// Slots come fast, so that what takes a minute elsewhere takes seconds here.
const SLOT_MS: u64 = 60;
/// More than the 150 slots for which a blockhash counts.
const LANDS_WITHIN: Duration = Duration::from_secs(20);
const ATTEMPTS: u32 = 4;
const NOBODY: &str = "SysvarC1ock11111111111111111111111111111112";

/// A cluster with a deposit in a finalized block.
struct Side {
    config: SolanaConfig,
    deposit: TransactionPrepared,
    escrow: String,
    /// What is asked is answered by the real runtime, or by the simulated one.
    surfnet: Option<Surfnet>,
    cluster: Option<SharedCluster>,
}

/// What was answered: a result, or the code of an error.
type Answer = Result<Value, i64>;

fn payer_config(mut config: SolanaConfig, surfnet: &Surfnet, program: &str, mint: &str) -> Result<SolanaConfig> {
    config.common.chain_id = surfnet.chain_id().parse()?;
    config.common.rpc_url = surfnet.url();
    config.common.escrow_contract = program.parse()?;
    config.common.fulfillment_proxy = program.parse()?;
    config.common.assets[0].asset_identifier = format!("{}/token:{mint}", surfnet.chain_id()).parse()?;
    config.common.rpc_timeout_ms = 20_000;
    config.signature_cluster_id = surfnet.genesis_hash().to_owned();
    Ok(config)
}

/// Prepares a deposit by the adapter, and sends it.
async fn deposit(node: Node, now: u64) -> Result<(TransactionPrepared, String)> {
    let config = node.config().clone();
    let chain = SolanaChain::new(node, Some(keys()), Arc::new(TestClock(Instant::now())))?;
    let payment = payment_on(&config, &config, now, "order")?;
    let prepared = chain.prepare_deposit(&payment.deposit(), 1).await?;
    chain.broadcast(&prepared).await?;
    let program = chains_solana::program::key(&config.common.escrow_contract)?;
    let escrow = host::escrow_address(&program, &payment.id().on_chain().0).key;
    Ok((prepared, bs58::encode(escrow).into_string()))
}

impl Side {
    async fn real(like: SolanaConfig) -> Result<Self> {
        let surfnet = Surfnet::start(SLOT_MS).await?;
        let (program, deployer) = (chains_solana::keys::account(&key(20)), key(1));
        for (seed, coins) in [(1, 100), (10, 100), (13, 100)] {
            surfnet.airdrop(&chains_solana::keys::account(&key(seed)), coins * SOL).await?;
        }
        let artefact = devkit::tools::root().join("contracts/artifacts/solana/gateway_escrow.so");
        let authority = chains_solana::keys::account(&deployer);
        surfnet.write_program(&program, &std::fs::read(artefact)?, &authority).await?;
        let dev = DevCluster::connect(&surfnet.url(), &deployer);
        dev.initialize(&program, surfnet.genesis_hash(), wallet(2).as_str()).await?;
        let token = dev.create_token(&key(21), TokenProgram::Token, 6).await?;
        dev.mint(&token, wallet(10).as_str(), 10 * CAP).await?;
        dev.approve(&key(10), &token, &program, wallet(10).as_str(), 10 * CAP).await?;
        let config = payer_config(like, &surfnet, &program, &token.mint)?;
        let clock = json!(["SysvarC1ock11111111111111111111111111111111", {"encoding": "jsonParsed"}]);
        let clock = surfnet.rpc("getAccountInfo", clock).await?;
        let now = clock.pointer("/value/data/parsed/info/unixTimestamp").and_then(Value::as_u64).context("no clock")?;
        let mut surfnet = Some(surfnet);
        // On a busy machine a transaction may come too late for its blockhash; then another is made.
        for _ in 0..ATTEMPTS {
            let (deposit, escrow) = deposit(Node::connect(&config)?, now).await?;
            let side = Self { config: config.clone(), deposit, escrow, surfnet: surfnet.take(), cluster: None };
            if side.is_finalized().await? {
                return Ok(side);
            }
            surfnet = side.surfnet;
        }
        bail!("no deposit was finalized")
    }

    /// Waits for the deposit as long as it can land, and then until it is finalized.
    async fn is_finalized(&self) -> Result<bool> {
        let started = Instant::now();
        loop {
            let statuses = self.ask("getSignatureStatuses", json!([[self.deposit.transaction_hash]])).await?;
            let statuses = statuses.map_err(|code| anyhow::anyhow!("code {code}"))?;
            match statuses.pointer("/value/0/confirmationStatus").and_then(Value::as_str) {
                Some("finalized") => return Ok(true),
                None if started.elapsed() > LANDS_WITHIN => return Ok(false),
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn simulated() -> Result<Self> {
        let cluster = begin(&Template::new(&genesis(0xc1, Timing::default()))?)?.shared();
        let config = lock(&cluster).config(REFUND_DELAY)?;
        let node = SimTransport::honest(cluster.clone()).connect(&config)?;
        let (deposit, escrow) = deposit(node, BEGIN).await?;
        produce(&cluster, 20)?;
        Ok(Self { config, deposit, escrow, surfnet: None, cluster: Some(cluster) })
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Answer> {
        if let Some(cluster) = &self.cluster {
            let answer = lock(cluster).rpc(NodeKind::Honest, method, &params);
            return Ok(answer.map_err(|RpcFault { code, .. }| code));
        }
        let surfnet = self.surfnet.as_ref().context("a side without a cluster")?;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer: Value = http(&surfnet.url(), &body).await?;
        Ok(match answer["error"]["code"].as_i64() {
            Some(code) => Err(code),
            None => Ok(answer["result"].clone()),
        })
    }

    /// The slot of the deposit.
    async fn slot(&self) -> Result<u64> {
        let statuses = self.ask("getSignatureStatuses", json!([[self.deposit.transaction_hash]])).await?;
        let slot = statuses.ok().and_then(|statuses| statuses.pointer("/value/0/slot")?.as_u64());
        slot.context("the deposit is in no block")
    }

    fn wire(&self) -> Result<Vec<u8>> {
        Ok(hex::decode(self.deposit.raw.trim_start_matches("0x"))?)
    }
}

async fn http(url: &str, body: &Value) -> Result<Value> {
    let client = chains::nodes::http::Http::new(url.parse()?, Duration::from_secs(20))?;
    Ok(serde_json::from_slice(&client.post(body.to_string().into_bytes()).await?.body)?)
}

/// What of an answer is its form: members, and the kinds of what they hold. What is null on either side says nothing of its kind.
fn assert_form(real: &Value, simulated: &Value, place: &str) {
    match (real, simulated) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(real), Value::Object(simulated)) => {
            for (name, value) in real.iter().filter(|(name, _)| !is_own(name)) {
                let other = simulated.get(name).unwrap_or_else(|| panic!("{place} has no {name} ({value})"));
                assert_form(value, other, &format!("{place}.{name}"));
            }
        }
        (Value::Array(real), Value::Array(simulated)) => {
            if let (Some(one), Some(other)) = (real.first(), simulated.first()) {
                assert_form(one, other, &format!("{place}[]"));
            }
        }
        _ => assert_eq!(std::mem::discriminant(real), std::mem::discriminant(simulated), "{place}: {real} {simulated}"),
    }
}

/// What only some versions of nodes tell.
fn is_own(name: &str) -> bool {
    ["costUnits", "loadedAccountsDataSize", "transactionIndex", "returnData", "numRewardPartitions"].contains(&name)
}

#[tokio::test]
async fn a_real_runtime_answers_in_the_same_form() -> Result<()> {
    let simulated = Side::simulated().await?;
    let real = Side::real(simulated.config.clone()).await?;
    let mut told = Vec::new();
    for side in [&real, &simulated] {
        let (hash, escrow, slot) = (&side.deposit.transaction_hash, &side.escrow, side.slot().await?);
        let unknown = bs58::encode([7; 64]).into_string();
        let (mint, program) = (wallet(10), &side.config.common.escrow_contract);
        let wire = BASE64.encode(&side.wire()?);
        let accounts = json!([[escrow, NOBODY, "SysvarC1ock11111111111111111111111111111111", program], {"encoding": "base64",
            "commitment": "confirmed", "minContextSlot": slot}]);
        let in_history = json!({"encoding": "json", "commitment": "finalized", "maxSupportedTransactionVersion": 0});
        let block = |details: &str| {
            json!([slot, {"commitment": "finalized", "transactionDetails": details, "rewards": false,
                "maxSupportedTransactionVersion": 0}])
        };
        let tried = json!({"encoding": "base64", "sigVerify": false, "replaceRecentBlockhash": true,
            "commitment": "confirmed"});
        let questions = [
            ("getGenesisHash", json!([])),
            ("getSlot", json!([{"commitment": "confirmed"}])),
            ("getBlockHeight", json!([{"commitment": "finalized"}])),
            ("getLatestBlockhash", json!([{"commitment": "confirmed", "minContextSlot": slot}])),
            ("getRecentPrioritizationFees", json!([[escrow]])),
            ("getMinimumBalanceForRentExemption", json!([165])),
            ("getBalance", json!([mint, {"commitment": "confirmed"}])),
            ("getMultipleAccounts", accounts),
            ("getSignatureStatuses", json!([[hash, unknown], {"searchTransactionHistory": true}])),
            ("getTransaction", json!([hash, in_history])),
            ("getTransaction", json!([unknown, in_history])),
            ("getSignaturesForAddress", json!([escrow, {"commitment": "finalized", "limit": 1_000}])),
            ("getBlock", block("signatures")),
            ("getBlock", block("none")),
            ("getBlockTime", json!([slot])),
            // The deposit again, which the program refuses.
            ("simulateTransaction", json!([wire, tried])),
        ];
        let refused = [
            ("getNothing", json!([])),
            ("getBalance", json!(["no address"])),
            ("sendTransaction", json!(["no transaction", {"encoding": "base64"}])),
            ("sendTransaction", json!([BASE64.encode(&[1, 2, 3]), {"encoding": "base64"}])),
        ];
        let mut answers = Vec::new();
        for (method, params) in questions {
            let answer = side.ask(method, params.clone()).await?;
            answers.push((method, answer.map_err(|code| anyhow::anyhow!("{method} {params}: code {code}"))?));
        }
        let mut codes = Vec::new();
        for (method, params) in refused {
            codes.push((method, side.ask(method, params).await?.err()));
        }
        told.push((answers, codes));
    }
    let [(real, real_codes), (simulated, simulated_codes)] = told.as_slice() else { bail!("two sides") };
    for ((method, real), (_, simulated)) in real.iter().zip(simulated) {
        assert_form(real, simulated, method);
    }
    assert_eq!(simulated_codes, real_codes);

    let answer = |side: &[(&str, Value)], method: &str| {
        side.iter().find(|(name, _)| *name == method).map(|(_, answer)| answer.clone()).unwrap_or_default()
    };
    // The same program did the same to the same accounts. The runtime leaves the price and the precompile's signature out of the fee,
    // which a cluster counts.
    for pointer in [
        "/meta/err",
        "/meta/innerInstructions/0/index",
        "/transaction/message/header",
        "/version",
        "/meta/postTokenBalances/0/uiTokenAmount/amount",
        "/meta/postTokenBalances/0/uiTokenAmount/decimals",
    ] {
        let [one, other] = [real, simulated].map(|side| answer(side, "getTransaction").pointer(pointer).cloned());
        assert!(one.is_some(), "{pointer}");
        assert_eq!(other, one, "{pointer}");
    }
    let depths = |side: &[(&str, Value)]| {
        let inner = answer(side, "getTransaction")["meta"]["innerInstructions"][0]["instructions"].clone();
        let inner = inner.as_array().cloned().unwrap_or_default();
        inner.iter().map(|call| call["stackHeight"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(depths(simulated), depths(real));
    let rent = "getMinimumBalanceForRentExemption";
    assert_eq!(answer(simulated, rent), answer(real, rent));
    let errors = [real, simulated].map(|side| answer(side, "simulateTransaction")["value"]["err"].clone());
    assert!(errors[0].is_object(), "{errors:?}");
    assert_eq!(errors[1], errors[0]);
    Ok(())
}
