//! `examples/tron/pay.cjs`: a payer whose only tools are tronweb, as it comes from npm, and the HTTP API.

use std::{process::Output, time::Duration};

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use chains_tron::{
    address::text,
    transaction::{self, Draft},
};
use devkit::tools;
use devnet::{
    keys::Role,
    payer::{Payer, PaymentSpec},
};
use escrow_abi::contracts::{DevToken, GatewayEscrow};

use crate::support::{
    example_payers::{self, DEFAULTS, FALSE_DEFAULTS, pins, wrap_everything},
    tampering_proxy::{Change, Tampering, TamperingProxy, member, retype},
    *,
};

/// Where a payer asks what to sign.
const PREPARE: &str = "/v1/payments/prepare";

/// The cap of a payment here, and all the tokens that a payer has.
const CAP: u64 = 25_500_000;
/// TRX of a payer, in sun.
const SUN: u64 = 1_000_000_000;

/// A payer that is not among the network's roles, with TRX and just enough tokens.
async fn new_payer(world: &World, name: &str) -> Result<PrivateKeySigner> {
    let (key, tron) = (PrivateKeySigner::from_bytes(&keccak256(name))?, world.tron()?);
    tron.dev.fund(&text(key.address()), SUN).await?;
    tron.dev.mint(&tron.token, &text(key.address()), U256::from(CAP)).await?;
    Ok(key)
}

/// Runs `pay.cjs` with pins for an order of `key`'s, against the gateway at `base`.
async fn pay(world: &World, base: &str, key: &PrivateKeySigner, order: &Value) -> Result<Output> {
    pay_with(world, base, key, order, &[]).await
}

/// The same in an environment that says more.
async fn pay_with(
    world: &World,
    base: &str,
    key: &PrivateKeySigner,
    order: &Value,
    more: &[(&str, &str)],
) -> Result<Output> {
    let modules = tools::root().join(".tools/tronweb/node_modules");
    ensure!(modules.join("tronweb").is_dir(), "npm `tronweb` is missing; run scripts/tools.sh test");
    let (mut command, tron) = (Command::new("node"), world.tron()?);
    command.arg(tools::root().join("examples/tron/pay.cjs")).env("NODE_PATH", modules);
    command.envs(pins(&tron.contracts.escrow, Role::tron_account)).envs(more.iter().copied());
    example_payers::pay(command, base, &tron.node.url(), &hex::encode(key.to_bytes()), order).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_tronweb_signs_pays_and_reads_its_transactions() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (tron, key) = (world.tron()?, new_payer(&world, "a payer with tronweb").await?);
    let account = text(key.address());
    let order = Payer::on_tron(key.clone())?.quote_request(&world.spec_from_tron("tronweb")?);
    let before = world.tron_holdings().await?;

    let output = pay(&world, &world.base(0), &key, &order).await?;
    ensure!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(said["status"], "completed");
    let payment_id = said["payment_id"].as_str().context("payment_id")?.parse()?;
    world.until(&payment_id, "EscrowReleased").await?;
    assert_eq!(said["reservation"]["source_amount"], PRICE.to_string());
    let own = said["transactions"].as_array().context("transactions")?;
    assert_eq!(own.len(), 2, "an approval and a deposit: {said}");
    let block = |transaction: &Value| transaction["block"].as_u64().context("a block");
    assert!(block(&own[0])? <= block(&own[1])? && block(&own[1])? <= block(&said["reservation"])?, "{said}");

    // What its transactions burnt is what tronweb says, and nothing else of its TRX is gone.
    let fees = own.iter().map(|transaction| transaction["fee"].as_u64().context("a fee")).sum::<Result<u64>>()?;
    assert!(fees > 0, "{said}");
    assert_eq!(tron.dev.balance(&account).await?, SUN - fees);
    // The remainder came back with the release.
    assert_eq!(tron.dev.token_balance(&tron.token, &account).await?, U256::from(CAP - PRICE));
    let expected = Moves::from([
        ("settlers", i128::from(PRICE)),
        ("evm settlers' destination", -i128::from(AMOUNT)),
        ("evm recipient", i128::from(AMOUNT)),
    ]);
    assert_eq!(moves(&before, &world.tron_holdings().await?), expected);
    Ok(())
}

/// Puts another transaction into message `index`, with its right id.
fn redraft(prepared: &mut Value, index: usize, change: impl FnOnce(&mut Draft) -> Result<()>) -> Result<()> {
    let bytes = raw_data(prepared, index)?;
    let mut draft = transaction::read(&bytes)?.draft;
    change(&mut draft)?;
    put(prepared, index, &draft.raw_data())
}

fn raw_data(prepared: &Value, index: usize) -> Result<Vec<u8>> {
    let text = prepared["signed_messages"][index]["message_prehash"].as_str().context("a message")?;
    Ok(hex::decode(text.trim_start_matches("0x"))?)
}

fn put(prepared: &mut Value, index: usize, raw_data: &[u8]) -> Result<()> {
    let message = prepared["signed_messages"].get_mut(index).context("a message")?;
    message["message"] = json!(transaction::id(raw_data));
    message["message_prehash"] = format!("0x{}", hex::encode(raw_data)).into();
    Ok(())
}

/// Puts other arguments into the deposit.
fn redeposit(prepared: &mut Value, change: impl FnOnce(&mut GatewayEscrow::depositOwnCall)) -> Result<()> {
    redraft(prepared, 1, |draft| {
        let mut call = GatewayEscrow::depositOwnCall::abi_decode(&draft.call.data)?;
        change(&mut call);
        draft.call.data = call.abi_encode();
        Ok(())
    })
}

/// Puts other arguments into the approval.
fn reapprove(prepared: &mut Value, change: impl FnOnce(&mut DevToken::approveCall)) -> Result<()> {
    redraft(prepared, 0, |draft| {
        let mut call = DevToken::approveCall::abi_decode(&draft.call.data)?;
        change(&mut call);
        draft.call.data = call.abi_encode();
        Ok(())
    })
}

/// What a gateway that cannot be trusted might ask for, and what the payer answers.
const CHANGES: [(Change, &str); 19] = [
    (|prepared| reapprove(prepared, |call| call.spender = Role::Settler(1).address()), "something else than approve"),
    (|prepared| reapprove(prepared, |call| call.value = U256::MAX), "something else than approve"),
    (
        |prepared| {
            redraft(prepared, 0, |draft| {
                let (to, value) = (Role::Settler(1).address(), U256::from(CAP));
                draft.call.data = DevToken::transferCall { to, value }.abi_encode();
                Ok(())
            })
        },
        "something else than approve",
    ),
    (
        |prepared| {
            redraft(prepared, 0, |draft| {
                draft.call.value_sun = SUN;
                Ok(())
            })
        },
        "something else than approve",
    ),
    (
        |prepared| redeposit(prepared, |call| call.d.releaser = Role::Settler(1).address()),
        "something else than depositOwn",
    ),
    (
        |prepared| redeposit(prepared, |call| call.d.reserver = Role::Settler(1).address()),
        "something else than depositOwn",
    ),
    (
        |prepared| redeposit(prepared, |call| call.d.payer = Role::Settler(1).address()),
        "something else than depositOwn",
    ),
    (
        |prepared| redeposit(prepared, |call| call.d.termsHash = keccak256("other terms")),
        "something else than depositOwn",
    ),
    (
        |prepared| redeposit(prepared, |call| call.d.paymentId = keccak256("another payment")),
        "something else than depositOwn",
    ),
    (|prepared| redeposit(prepared, |call| call.d.quoteHash = keccak256("a quote")), "something else than depositOwn"),
    (|prepared| redeposit(prepared, |call| call.amount += U256::ONE), "something else than depositOwn"),
    (
        |prepared| {
            redeposit(prepared, |call| {
                call.d.refundAfter = alloy::primitives::aliases::U48::from(u32::MAX);
            })
        },
        "the refund would come too late",
    ),
    (
        |prepared| {
            redeposit(prepared, |call| {
                let mut signature = call.reserverSignature.to_vec();
                signature[40] ^= 1;
                call.reserverSignature = signature.into();
            })
        },
        "the reserver did not sign it",
    ),
    (
        |prepared| {
            redraft(prepared, 1, |draft| {
                draft.call.contract = Role::Settler(1).address();
                Ok(())
            })
        },
        "something else than depositOwn",
    ),
    (
        |prepared| {
            redraft(prepared, 1, |draft| {
                draft.fee_limit_sun = 14_000_000_000;
                Ok(())
            })
        },
        "may burn too much",
    ),
    (
        |prepared| {
            redraft(prepared, 1, |draft| {
                draft.expiration_ms += 60_000;
                Ok(())
            })
        },
        "when nobody takes it",
    ),
    (
        // A field that no reader shows: number 100, a varint.
        |prepared| {
            let mut bytes = raw_data(prepared, 1)?;
            bytes.extend([0xa0, 0x06, 0x01]);
            put(prepared, 1, &bytes)
        },
        "something else than depositOwn",
    ),
    (
        |prepared| {
            prepared["signed_messages"][1]["message"] = json!(keccak256("another transaction"));
            Ok(())
        },
        "not the id of the transaction",
    ),
    (
        |prepared| {
            let messages = prepared["signed_messages"].as_array_mut().context("messages")?;
            messages.push(messages[1].clone());
            Ok(())
        },
        "a number of signatures",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_tronweb_signs_nothing_that_it_did_not_ask_for() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (tron, key) = (world.tron()?, new_payer(&world, "a payer who reads first").await?);
    let account = text(key.address());
    let payer = Payer::on_tron(key.clone())?;
    let prepared = CHANGES.map(|(change, answer)| (Tampering::Response(PREPARE, change), answer));
    let defaults = FALSE_DEFAULTS.map(|(change, answer)| (Tampering::Response(DEFAULTS, change), answer));
    for (number, (tampering, answer)) in prepared.into_iter().chain(defaults).enumerate() {
        let proxy = TamperingProxy::start(world.base(0), tampering).await?;
        let order = payer.quote_request(&world.spec_from_tron(&format!("change-{number}"))?);
        let output = pay(&world, &proxy.url, &key, &order).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(answer), "change {number}, {answer}: {output:?}");
        assert_eq!(proxy.submissions(), 0, "change {number}: {said}");
    }
    assert_eq!(tron.dev.token_balance(&tron.token, &account).await?, U256::from(CAP));
    assert_eq!(tron.dev.balance(&account).await?, SUN);
    // The same way through somebody who says nothing else that is false: no TRX goes to a token that the order does not wrap.
    let wrapping = TamperingProxy::start(world.base(0), Tampering::Response(DEFAULTS, wrap_everything)).await?;
    // Open for longer than the payment takes, so that it can be prepared once more.
    let spec = PaymentSpec { quote_window: Duration::from_secs(60), ..world.spec_from_tron("truth")? };
    let order = payer.quote_request(&spec);
    let output = pay(&world, &wrapping.url, &key, &order).await?;
    ensure!(output.status.success(), "{output:?}");
    assert_eq!(wrapping.submissions(), 1);
    let said: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&said["wrapped"], &said["request_id"]), (&json!([]), &order["request_id"]));
    // The payment is known by its id: tried again, it costs nothing more.
    let again = pay(&world, &world.base(0), &key, &order).await?;
    ensure!(again.status.success(), "{again:?}");
    Ok(())
}

/// Changes the typed data that a gateway wants signed, and has its digest say something else, too.
fn repermit(prepared: &mut Value, pointer: &str, value: &str) -> Result<()> {
    retype(prepared, pointer, value)?;
    *member(prepared, "/signed_messages/0/message")? = json!(keccak256(value));
    Ok(())
}

/// The same of what is signed for Permit2.
const PERMIT_CHANGES: [(Change, &str); 5] = [
    (|prepared| repermit(prepared, "/message/spender", &Role::Settler(1).tron_account()), "spender is"),
    (
        |prepared| repermit(prepared, "/domain/verifyingContract", &Role::Settler(1).tron_account()),
        "verifyingContract is",
    ),
    (|prepared| repermit(prepared, "/message/permitted/amount", "25500001"), "amount is 25500001"),
    (
        |prepared| repermit(prepared, "/message/witness/refundAfter", &u32::MAX.to_string()),
        "the refund would come too late",
    ),
    (
        |prepared| {
            let messages = prepared["signed_messages"].as_array_mut().context("messages")?;
            messages.push(messages[0].clone());
            Ok(())
        },
        "asks for 2 signatures",
    ),
];

/// Permit2 gets its allowance by one transaction of the payer's; from then on a signature is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_payer_with_tronweb_lets_permit2_draw_once_and_then_pays_by_signatures_alone() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (tron, key) = (world.tron()?, new_payer(&world, "a payer with tronweb who signs once").await?);
    let (account, payer) = (text(key.address()), Payer::on_tron(key.clone())?);
    let order = |name: &str| anyhow::Ok(payer.quote_request(&world.spec_from_tron(name)?));
    let held = || async {
        anyhow::Ok((tron.dev.token_balance(&tron.token, &account).await?, tron.dev.balance(&account).await?))
    };
    let paid = async |name: &str, more: &[(&str, &str)]| -> Result<Value> {
        let output = pay_with(&world, &world.base(0), &key, &order(name)?, more).await?;
        ensure!(output.status.success(), "{name}: {output:?}");
        let said: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(
            (&said["status"], &said["reservation"]["source_amount"]),
            (&json!("completed"), &json!(PRICE.to_string()))
        );
        // What was deposited beyond the price comes back with the release.
        world.until(&said["payment_id"].as_str().context("payment_id")?.parse()?, "EscrowReleased").await?;
        Ok(said)
    };
    let (own, other) = (("PERMIT2", tron.contracts.permit2.as_str()), ("PERMIT2", tron.contracts.proxy.as_str()));
    let by_signature = ("BY_SIGNATURE", "1");
    let before = held().await?;

    // A signature that is asked for is given for the payer's own Permit2, and an allowance, too.
    for (more, answer) in [
        (&[by_signature][..], "nothing but the gateway's word says where Permit2 is"),
        (&[by_signature, other], "the gateway names another Permit2"),
    ] {
        let watched = TamperingProxy::start(world.base(0), Tampering::NONE).await?;
        let output = pay_with(&world, &watched.url, &key, &order("foreign")?, more).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(answer), "{answer}: {output:?}");
        assert_eq!((watched.submissions(), held().await?), (0, before), "{said}");
    }

    let allowance = (2 * CAP).to_string();
    let said = paid("first", &[by_signature, own, ("ALLOWANCE", &allowance)]).await?;
    assert_eq!(said["message_scheme"], "TRON_PERMIT2_ESCROW");
    assert_eq!((said["approved"].as_array().map(Vec::len), &said["transactions"]), (Some(1), &json!([])), "{said}");
    let (tokens, sun) = held().await?;
    assert_eq!(tokens, U256::from(CAP - PRICE));
    assert!(sun < SUN, "an approval burns TRX");

    // The allowance is there, so the gateway offers the signature by itself.
    tron.dev.mint(&tron.token, &account, U256::from(PRICE)).await?;
    let before = held().await?;
    for (number, (change, answer)) in PERMIT_CHANGES.into_iter().enumerate() {
        let proxy = TamperingProxy::start(world.base(0), Tampering::Response(PREPARE, change)).await?;
        let output = pay_with(&world, &proxy.url, &key, &order(&format!("permit-{number}"))?, &[own]).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(answer), "change {number}, {answer}: {output:?}");
        assert_eq!((proxy.submissions(), held().await?), (0, before), "change {number}: {said}");
    }
    let said = paid("second", &[own]).await?;
    assert_eq!(said["message_scheme"], "TRON_PERMIT2_ESCROW");
    assert_eq!((&said["approved"], &said["transactions"]), (&json!([]), &json!([])), "{said}");
    assert_eq!(held().await?, (before.0 - U256::from(PRICE), sun));

    // Whose Permit2 is another signs transactions.
    tron.dev.mint(&tron.token, &account, U256::from(PRICE)).await?;
    let said = paid("third", &[other]).await?;
    assert_eq!(
        (&said["message_scheme"], said["transactions"].as_array().map(Vec::len)),
        (&json!("TRON"), Some(2)),
        "{said}"
    );
    let (tokens, left) = held().await?;
    assert!(tokens == U256::from(CAP - PRICE) && left < sun, "{tokens} and {left} sun are left");
    Ok(())
}
