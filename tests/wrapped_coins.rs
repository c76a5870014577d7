//! Payers who hold nothing but the coin of their chain (ADR 116): each sends first what `/v1/payments/prepare` shows, pays with the
//! wrapped coin, and has coins again when it unwraps what is left.

use std::{path::PathBuf, time::Duration};

use alloy::{
    primitives::{B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::process::Command;

use chains::config::NATIVE_MINT;
use chains_solana::dev::{DevToken, TokenProgram};
use devkit::tools;
use devnet::{
    keys::{Role, solana_account},
    payer::{Payer, PaymentSpec},
};
use escrow_abi::contracts::DevWrappedCoin;
use events::{Hash32, PaymentId};
use gateway_program::host::{AccountMeta, Instruction};

use crate::support::{
    example_payers::{self, DEFAULTS, FALSE_DEFAULTS, pins},
    tampering_proxy::{Tampering, TamperingProxy},
    *,
};

/// What the recipient of wrapped ETH gets: a hundredth, in wei. The price is ten basis points more.
const WEI: u64 = 10_000_000_000_000_000;
const WEI_PRICE: u64 = 10_010_000_000_000_000;
const WEI_CAP: u64 = 10_200_000_000_000_000;
/// Price of the ordinary payment in lamports, at 150 tokens a SOL and ten basis points more, rounded up.
const LAMPORTS_PRICE: u64 = 166_833_334;
const LAMPORTS_CAP: u64 = 170_000_000;
/// Price of the ordinary payment in sun, at a quarter of a token a TRX and ten basis points more.
const SUN_PRICE: u64 = 100_100_000;
const SUN_CAP: u64 = 102_000_000;

/// A payer's key that no role of the network has.
fn stranger(name: &str) -> [u8; 32] {
    Hash32::sha256(format!("a payer with nothing but {name}")).0
}

/// What the gateway tells the payer of `spec` to send and to sign.
async fn prepared(world: &World, payer: &Payer, spec: &PaymentSpec) -> Result<Value> {
    let request = Client::new().post(format!("{}/v1/payments/prepare", world.base(0)));
    let response = request.json(&payer.quote_request(spec)).send().await?;
    let status = response.status();
    let body: Value = response.json().await?;
    ensure!(status.is_success(), "{status}: {body}");
    Ok(body)
}

/// Before it has wrapped anything the payer's submission is refused, with where to look.
async fn is_refused(world: &World, payer: &Payer, spec: &PaymentSpec) -> Result<()> {
    let body = payer.sign(&world.base(0), spec).await?;
    let answer = payer.submit(&world.base(0), &body, Duration::ZERO).await?;
    ensure!((answer.status, answer.text("code")) == (400, "INSUFFICIENT_FUNDS"), "{answer:?}");
    ensure!(answer.text("message").contains("/v1/payments/prepare shows how to wrap it"), "{answer:?}");
    Ok(())
}

fn text<'a>(value: &'a Value, member: &str) -> Result<&'a str> {
    value[member].as_str().with_context(|| format!("no {member} in {value}"))
}

fn bytes(value: &Value, member: &str) -> Result<Vec<u8>> {
    Ok(hex::decode(text(value, member)?.trim_start_matches("0x"))?)
}

/// Sends transaction requests as a wallet does with `eth_sendTransaction`.
async fn send(world: &World, signer: &PrivateKeySigner, calls: &[&Value]) -> Result<()> {
    for call in calls {
        let value: U256 = text(call, "value")?.parse()?;
        world.network.source.dev.call(signer, text(call, "to")?, bytes(call, "data")?, value).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_eth_alone_wraps_pays_is_refunded_and_unwraps() -> Result<()> {
    let world = World::start(1).await?;
    let source = &world.network.source;
    let signer = PrivateKeySigner::from_bytes(&B256::from(stranger("ETH")))?;
    let payer = Payer::new(signer.clone())?;
    let account = payer.account();
    source.dev.fund(&account, U256::from(1_000_000_000_000_000_000_u64)).await?;
    let (asset, coin) = (source.wrapped_coin()?, source.coin()?);
    let spec = |base: PaymentSpec| -> Result<PaymentSpec> {
        let (amount, cap) = (WEI.to_string().parse()?, WEI_CAP.to_string().parse()?);
        let destination = world.network.destination.wrapped_coin()?;
        Ok(PaymentSpec { source: asset.clone(), destination, amount, cap, ..base })
    };
    let held = async || Ok::<_, anyhow::Error>(source.dev.token_balance(&source.wrapped_coin, &account).await?);

    let first = spec(world.spec("eth")?)?;
    let refused = prepared(&world, &payer, &PaymentSpec { source: coin.clone(), ..first.clone() }).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("name {asset}, and /v1/payments/prepare")), "{refused}");
    is_refused(&world, &payer, &first).await?;
    let told = prepared(&world, &payer, &first).await?;
    let (wrap, approval) = (&told["wrap"], &told["approval"]);
    assert_eq!((&wrap["asset_identifier"], &wrap["coin"]), (&json!(asset), &json!(coin)));
    assert_eq!(wrap["amount"], WEI_CAP.to_string());
    send(&world, &signer, &[&wrap["calls"][0], &approval["call"]]).await?;
    assert_eq!(held().await?, U256::from(WEI_CAP));
    let payment_id = world.submit_by(&payer, &first).await?;
    world.completed(&payment_id).await?;
    world.settled_once(std::slice::from_ref(&payment_id)).await?;
    world.audited(&payment_id).await?;
    let destination = &world.network.destination;
    let arrived = destination.dev.token_balance(&destination.wrapped_coin, &Role::Recipient.account()).await?;
    assert_eq!((held().await?, arrived), (U256::from(WEI_CAP - WEI_PRICE), U256::from(WEI)));

    // The next time only what is gone has to be wrapped. What comes back of a payment that fails is the wrapped coin.
    let second = spec(world.undeliverable_spec("eth-refunded")?)?;
    let told = prepared(&world, &payer, &second).await?;
    assert_eq!(told["wrap"]["amount"], WEI_PRICE.to_string());
    send(&world, &signer, &[&told["wrap"]["calls"][0], &told["approval"]["call"]]).await?;
    let refunded = world.submit_by(&payer, &second).await?;
    world.until(&refunded, "EscrowRefunded").await?;
    eventually(|| async { held().await.is_ok_and(|held| held == U256::from(WEI_CAP)) }).await?;

    // Whoever wants coins again unwraps.
    let before = source.dev.balance(&account).await?;
    let withdraw = DevWrappedCoin::withdrawCall { wad: U256::from(WEI_CAP) }.abi_encode();
    source.dev.call(&signer, &source.wrapped_coin, withdraw, U256::ZERO).await?;
    assert!(held().await?.is_zero());
    let gained = source.dev.balance(&account).await?.saturating_sub(before);
    assert!(gained > U256::from(WEI_CAP / 2), "{gained} wei, besides what the transaction cost");
    Ok(())
}

/// What one of the example payers prints of an order that it has paid, wrapping what is missing: JSON.
async fn example(world: &World, command: Command, node: &str, key: &str, order: &Value) -> Result<Value> {
    let output = example_payers::pay(command, &world.base(0), node, key, &wrapping(order)).await?;
    ensure!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(said["status"], "completed", "{said}");
    Ok(said)
}

/// The order of somebody who says that its token is a wrapped coin.
fn wrapping(order: &Value) -> Value {
    let mut order = order.clone();
    order["wrap"] = true.into();
    order
}

fn script(program: &str, path: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(tools::root().join("examples").join(path));
    command
}

/// Where scripts/tools.sh has put the npm packages of `name`.
fn packages(name: &str) -> PathBuf {
    tools::root().join(".tools").join(name).join("node_modules")
}

/// The payers of `examples/evm` wrap by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_payers_pay_with_eth_alone() -> Result<()> {
    let world = World::start(1).await?;
    let (source, destination) = (&world.network.source, &world.network.destination);
    for (n, (program, name)) in [("node", "pay.mjs"), ("python3", "pay.py")].into_iter().enumerate() {
        let signer = PrivateKeySigner::from_bytes(&B256::from(stranger(name)))?;
        let payer = Payer::new(signer.clone())?;
        source.dev.fund(&payer.account(), U256::from(1_000_000_000_000_000_000_u64)).await?;
        let (amount, cap) = (WEI.to_string().parse()?, WEI_CAP.to_string().parse()?);
        let spec = PaymentSpec {
            source: source.wrapped_coin()?,
            destination: destination.wrapped_coin()?,
            amount,
            cap,
            // On a busy machine a program takes its time to start.
            quote_window: Duration::from_secs(60),
            ..world.spec(name)?
        };
        let mut command = script(program, &format!("evm/{name}"));
        command.env("PYTHONPATH", tools::root().join(".tools/settler")).env("PYTHONDONTWRITEBYTECODE", "1");
        let (key, order) = (signer.to_bytes().to_string(), payer.quote_request(&spec));
        let said = example(&world, command, &source.anvil.url(), &key, &order).await?;
        let sent = ["wrapped", "approvals"].map(|step| said[step].as_array().map(Vec::len));
        assert_eq!(sent, [Some(1), Some(1)], "{said}");
        let arrived = destination.dev.token_balance(&destination.wrapped_coin, &Role::Recipient.account()).await?;
        assert_eq!(arrived, U256::from(WEI) * U256::from(n + 1));
    }
    Ok(())
}

/// An instruction as it is shown, in the types of the program's interface.
fn instruction(shown: &Value) -> Result<Instruction> {
    let key = |text: &str| -> Result<[u8; 32]> {
        let bytes = bs58::decode(text).into_vec()?;
        bytes.try_into().map_err(|_| anyhow::anyhow!("{text} is not an account"))
    };
    let accounts = shown["accounts"].as_array().context("no accounts")?;
    let accounts = accounts.iter().map(|account| {
        let flag = |member: &str| account[member].as_bool().with_context(|| format!("no {member}"));
        Ok(AccountMeta {
            key: key(text(account, "pubkey")?)?,
            signer: flag("is_signer")?,
            writable: flag("is_writable")?,
        })
    });
    let accounts = accounts.collect::<Result<_>>()?;
    Ok(Instruction { program_id: key(text(shown, "program_id")?)?, accounts, data: bytes(shown, "data")? })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_sol_alone_wraps_approves_and_pays_and_what_is_left_is_its_own() -> Result<()> {
    let world = World::with_solana(|options| options).await?;
    let solana = world.solana()?;
    let key = SigningKey::from_bytes(&stranger("SOL"));
    let account = solana_account(&key);
    solana.surfnet.airdrop(&account, 1_000_000_000).await?;
    let payer = Payer::on_solana(key.clone())?;
    let cap = LAMPORTS_CAP.to_string().parse()?;
    let spec = PaymentSpec { source: solana.wrapped_coin()?, cap, ..world.spec("sol")? };
    let coin = PaymentSpec { source: solana.coin()?, ..spec.clone() };
    let refused = prepared(&world, &payer, &coin).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("name {}, and /v1/payments/prepare", spec.source)), "{refused}");
    is_refused(&world, &payer, &spec).await?;

    let told = prepared(&world, &payer, &spec).await?;
    assert_eq!(
        (&told["wrap"]["amount"], &told["wrap"]["coin"]),
        (&json!(LAMPORTS_CAP.to_string()), &json!(coin.source))
    );
    // All in one transaction: the account, the lamports, their count, and the allowance.
    let calls = told["wrap"]["calls"].as_array().context("no calls")?;
    let instructions = calls.iter().chain([&told["approval"]["call"]]).map(instruction).collect::<Result<Vec<_>>>()?;
    assert_eq!(instructions.len(), 4);
    solana.dev.run(&key, instructions).await?;
    let wrapped = DevToken { mint: NATIVE_MINT.to_owned(), program: TokenProgram::Token, decimals: 9 };
    let held = async || Ok::<_, anyhow::Error>(solana.dev.token_balance(&wrapped, &account).await?);
    assert_eq!(held().await?, LAMPORTS_CAP);
    eventually(|| async { prepared(&world, &payer, &spec).await.is_ok_and(|told| told.get("wrap").is_none()) }).await?;

    let payment_id = world.submit_by(&payer, &spec).await?;
    world.completed(&payment_id).await?;
    assert_eq!(world.escrow_transactions(&payment_id).await?, 2, "a deposit and a release");
    world.audited(&payment_id).await?;
    assert_eq!(held().await?, LAMPORTS_CAP - LAMPORTS_PRICE);
    let mut earned = 0;
    for n in 1..=3 {
        earned += solana.dev.token_balance(&wrapped, &Role::Settler(n).solana_account()).await?;
    }
    assert_eq!(earned, LAMPORTS_PRICE);

    // The example does all of that by itself, and whoever pays again with it wraps what is missing alone. It sends nothing where
    // the gateway's defaults are not what it knows.
    let key = SigningKey::from_bytes(&stranger("SOL and web3.js"));
    let account = solana_account(&key);
    solana.surfnet.airdrop(&account, 1_000_000_000).await?;
    let payer = Payer::on_solana(key.clone())?;
    let (keypair, node) = (json!(key.to_keypair_bytes().to_vec()).to_string(), solana.surfnet.url());
    let command = || {
        let mut command = script("node", "solana/pay.cjs");
        command.env("NODE_PATH", packages("solana-client"));
        command.envs(pins(&solana.program, Role::solana_account));
        command
    };
    let order = |n: usize| -> Result<Value> {
        let base = world.spec(&format!("web3.js-{n}"))?;
        Ok(payer.quote_request(&PaymentSpec { source: spec.source.clone(), cap: spec.cap, ..base }))
    };
    for (change, answer) in FALSE_DEFAULTS {
        let gateway = TamperingProxy::start(world.base(0), Tampering::Response(DEFAULTS, change)).await?;
        let output = example_payers::pay(command(), &gateway.url, &node, &keypair, &wrapping(&order(0)?)).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(answer), "{answer}: {output:?}");
    }
    assert_eq!(solana.dev.lamports(&account).await?, 1_000_000_000);
    for n in 0..2 {
        example(&world, command(), &node, &keypair, &order(n)?).await?;
        assert_eq!(solana.dev.token_balance(&wrapped, &account).await?, LAMPORTS_CAP - LAMPORTS_PRICE);
    }
    Ok(())
}

/// Has the node build the transaction that is shown, signs its id and broadcasts it, as a wallet on Tron does.
async fn trigger(world: &World, signer: &PrivateKeySigner, call: &Value) -> Result<()> {
    let node = world.tron()?.node.url();
    let post = async |path: &str, body: &Value| -> Result<Value> {
        let request = Client::new().post(format!("{node}/wallet/{path}")).json(body);
        Ok(request.send().await?.error_for_status()?.json().await?)
    };
    let built = post("triggersmartcontract", call).await?;
    let mut transaction = built["transaction"].clone();
    let id = text(&transaction, "txID")?.to_owned();
    let signature = signer.sign_hash_sync(&id.parse()?)?;
    transaction["signature"] = json!([hex::encode(signature.as_bytes())]);
    let taken = post("broadcasttransaction", &transaction).await?;
    ensure!(taken["result"] == true, "{taken}");
    let mined = || async {
        let info = post("gettransactioninfobyid", &json!({"value": id})).await;
        info.is_ok_and(|info| info["receipt"]["result"] == "SUCCESS")
    };
    eventually(mined).await.with_context(|| format!("{id} had no effect"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_trx_alone_wraps_signs_and_pays() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let tron = world.tron()?;
    let signer = PrivateKeySigner::from_bytes(&B256::from(stranger("TRX")))?;
    let payer = Payer::on_tron(signer.clone())?;
    let account = payer.account();
    tron.dev.fund(&account, 1_000_000_000).await?;
    let cap = SUN_CAP.to_string().parse()?;
    let spec = PaymentSpec { source: tron.wrapped_coin()?, cap, ..world.spec("trx")? };
    let coin = PaymentSpec { source: tron.coin()?, ..spec.clone() };
    let refused = prepared(&world, &payer, &coin).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("name {}, and /v1/payments/prepare", spec.source)), "{refused}");
    is_refused(&world, &payer, &spec).await?;

    let told = prepared(&world, &payer, &spec).await?;
    assert_eq!((&told["wrap"]["amount"], &told["wrap"]["coin"]), (&json!(SUN_CAP.to_string()), &json!(coin.source)));
    // The approval is one of the messages, as always on Tron.
    assert_eq!((told["signed_messages"].as_array().map(Vec::len), told.get("approval")), (Some(2), None));
    trigger(&world, &signer, &told["wrap"]["calls"][0]).await?;
    let held = async || Ok::<_, anyhow::Error>(tron.dev.token_balance(&tron.wrapped_coin, &account).await?);
    assert_eq!(held().await?, U256::from(SUN_CAP));

    let payment_id: PaymentId = world.submit_by(&payer, &spec).await?;
    world.completed(&payment_id).await?;
    for event in [DEPOSITED, RELEASED] {
        assert_eq!(world.tron_logs(event, &payment_id).await?, 1);
    }
    world.audited(&payment_id).await?;
    // The whole cap was deposited, and what the price leaves of it is back, wrapped.
    eventually(|| async { held().await.is_ok_and(|held| held == U256::from(SUN_CAP - SUN_PRICE)) }).await?;

    // The example wraps by itself.
    let signer = PrivateKeySigner::from_bytes(&B256::from(stranger("TRX and tronweb")))?;
    let payer = Payer::on_tron(signer.clone())?;
    tron.dev.fund(&payer.account(), 1_000_000_000).await?;
    let order = payer.quote_request(&PaymentSpec { source: spec.source, cap, ..world.spec("tronweb")? });
    let mut command = script("node", "tron/pay.cjs");
    command.env("NODE_PATH", packages("tronweb"));
    let said = example(&world, command, &tron.node.url(), &hex::encode(signer.to_bytes()), &order).await?;
    let sent = ["wrapped", "transactions"].map(|step| said[step].as_array().map(Vec::len));
    assert_eq!(sent, [Some(1), Some(2)], "{said}");
    Ok(())
}
