//! On-chain checks: what is prepared lands on a chain with the contracts, and what could not land is refused before anything
//! is made of it.

use std::time::Duration;

use alloy::sol_types::SolCall;
use anyhow::{Context, Result};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use chains::escrow::State as Escrowed;
use chains_tron::{
    authorization::{LIFETIME_MS_MAX, OnchainError, confirm, prepare_onchain},
    node::{Answer, Node, State},
    transaction::{self, Reference},
};
use escrow_abi::{
    contracts::{
        DevToken::approveCall,
        GatewayEscrow::{Escrow, depositOwnCall, recordOfCall},
    },
    record,
};

use super::*;
use crate::support::{TOKENS, World, liar::Liar};

/// Sun for a unit of energy, and the most sun of a transaction, on the development chain.
const ENERGY_SUN: u64 = 100;
const FEE_LIMIT_MAX: u64 = 15_000 * TRX;

/// A payment of `world`'s payer that begins now.
async fn spend(world: &World) -> Result<SpendRequest> {
    let now = world.time().await?;
    Ok(SpendRequest {
        quote_deadline: from_unix_seconds(now + 60).context("no time")?,
        fulfillment_deadline: from_unix_seconds(now + 600).context("no time")?,
        ..spend_of(&world.chain_id, &world.token, &world.contracts.escrow)
    })
}

async fn signed_onchain(spend: &SpendRequest, node: &Node) -> Result<Vec<SignedMessage>> {
    Ok(signed(&prepare_onchain(spend, &Choice::default(), node, &reserver().into()).await?))
}

fn payer_deposit(spend: &SpendRequest, messages: &[SignedMessage]) -> TronSpend {
    tron(authorize(spend, messages).unwrap())
}

#[track_caller]
fn assert_denied(judged: Result<(), OnchainError>, index: usize, field: &str) {
    match judged.unwrap_err() {
        OnchainError::Denied(denied) => {
            assert_eq!((denied.message, denied.error.field()), (Some(index), field), "{denied}");
        }
        OnchainError::Transient(fault) => panic!("{fault}"),
    }
}

#[track_caller]
fn assert_unknown(judged: Result<(), OnchainError>) {
    let error = judged.unwrap_err();
    assert!(matches!(error, OnchainError::Transient(_)), "{error}");
}

/// Broadcasts what the payer signed, and gives the energy that it took.
async fn land(world: &World, payer_deposit: &events::event::PayerTransaction) -> Result<u64> {
    let node = world.node();
    node.broadcast(&hex::decode(&payer_deposit.raw[2..])?).await?;
    world.mine(1).await?;
    let info = node.info(payer_deposit.transaction_hash.parse()?, State::Newest).await?.context("in no block")?;
    anyhow::ensure!(info.failure.is_none(), "{info:?}");
    Ok(info.energy)
}

fn fee_limit(message: &SignedMessage) -> u64 {
    draft(message).fee_limit_sun
}

#[tokio::test]
async fn what_was_prepared_deposits_the_cap() -> Result<()> {
    let world = World::start().await?;
    let (node, spend) = (world.node(), spend(&world).await?);
    let messages = signed_onchain(&spend, &node).await?;
    let payer_deposit = payer_deposit(&spend, &messages);
    confirm(&spend, &payer_deposit, &node).await?;

    let approval = land(&world, payer_deposit.approval.as_ref().context("no approval")?).await?;
    let before = world.tokens(&world.payer).await?;
    let deposit = land(&world, &payer_deposit.deposit).await?;
    assert_eq!(before - world.tokens(&world.payer).await?, 110);
    let asked = recordOfCall { paymentId: B256::from(spend.payment_id.on_chain().0) };
    let answer = node.call(None, world.escrow(), &asked, State::Newest).await?;
    let Answer::Returned { value: stored, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(record::state(stored.state), Ok(Some(Escrowed::Deposited)));
    let raw = hex::decode(payer_deposit.deposit.raw.trim_start_matches("0x"))?;
    let made = depositOwnCall::abi_decode(&transaction::read_signed(&raw)?.0.draft.call.data)?;
    assert_eq!((made.d.payer, made.token, made.amount), (payer().address(), world.token_address(), U256::from(110)));
    assert_eq!(made.d.termsHash.0, spend.terms.hash().0);
    let terms = record::EscrowTerms(Escrow {
        quoteHash: made.d.quoteHash,
        deposit: made.d,
        token: made.token,
        deposited: made.amount,
        settler: Default::default(),
        sourceAmount: U256::ZERO,
        fulfillBy: Default::default(),
    });
    assert_eq!(stored.commitment, terms.commitment());
    // What was estimated before the approval was on chain holds, with room to spare; and nobody deposits for less than
    // the least that is accepted.
    for (energy, message) in [(approval, &messages[APPROVAL]), (deposit, &messages[DEPOSIT])] {
        let limit = fee_limit(message) / ENERGY_SUN;
        assert!((energy * 5 / 4..energy * 4).contains(&limit), "took {energy} of {limit}");
    }
    assert!(deposit > 55_000, "{deposit}");
    Ok(())
}

#[tokio::test]
async fn an_allowance_that_stands_needs_no_approval() -> Result<()> {
    let world = World::start().await?;
    let (node, spend) = (world.node(), spend(&world).await?);
    let with_approval = signed_onchain(&spend, &node).await?;
    assert_eq!(with_approval.len(), 2);
    let alone = payer_deposit(&spend, &with_approval[DEPOSIT..]);
    assert_denied(confirm(&spend, &alone, &node).await, 0, "deposit");
    world.dev.approve(&payer(), &world.token, &world.contracts.escrow, U256::from(109)).await?;
    assert_denied(confirm(&spend, &alone, &node).await, 0, "deposit");
    assert_eq!(signed_onchain(&spend, &node).await?.len(), 2);

    world.dev.approve(&payer(), &world.token, &world.contracts.escrow, U256::MAX).await?;
    confirm(&spend, &alone, &node).await?;
    let messages = signed_onchain(&spend, &node).await?;
    assert_eq!(messages.len(), 1);
    let payer_deposit = payer_deposit(&spend, &messages);
    confirm(&spend, &payer_deposit, &node).await?;
    let energy = land(&world, &payer_deposit.deposit).await?;
    // It could be tried out, so the estimate is what it takes.
    let limit = fee_limit(&messages[0]) / ENERGY_SUN;
    assert!((energy * 4 / 3..energy * 2).contains(&limit), "took {energy} of {limit}");
    Ok(())
}

#[tokio::test]
async fn a_deposit_that_has_used_its_allowance_up_needs_none() -> Result<()> {
    let world = World::start().await?;
    let (node, spend) = (world.node(), spend(&world).await?);
    world.dev.approve(&payer(), &world.token, &world.contracts.escrow, U256::from(110)).await?;
    let payer_deposit = payer_deposit(&spend, &signed_onchain(&spend, &node).await?);
    assert_eq!(payer_deposit.approval, None);
    // The payer's wallet sends it first; until it is in a block, nobody knows.
    world.dev.control("pending", json!({"shown": true})).await?;
    node.broadcast(&hex::decode(&payer_deposit.deposit.raw[2..])?).await?;
    assert_unknown(confirm(&spend, &payer_deposit, &node).await);
    world.mine(1).await?;
    confirm(&spend, &payer_deposit, &node).await?;
    let another = SpendRequest { payment_id: PaymentId::derive("tron:another", "order-1"), ..spend };
    let alone = self::payer_deposit(&another, &signed_onchain(&another, &node).await?[DEPOSIT..]);
    assert_denied(confirm(&another, &alone, &node).await, 0, "deposit");
    Ok(())
}

#[tokio::test]
async fn a_payer_without_the_money_is_told_what_to_sign() -> Result<()> {
    let world = World::start().await?;
    let (node, mut spend) = (world.node(), spend(&world).await?);
    let cap = (TOKENS + 1).to_string();
    let Terms { ref source, fulfillment_amount, .. } = spend.terms;
    spend.terms =
        Terms::new(source.clone(), spend.terms.destination().to_vec(), fulfillment_amount, Some(cap.parse()?));
    let messages = signed_onchain(&spend, &node).await?;
    confirm(&spend, &payer_deposit(&spend, &messages), &node).await?;
    assert!(fee_limit(&messages[DEPOSIT]) > 150_000 * ENERGY_SUN);
    Ok(())
}

#[tokio::test]
async fn what_could_not_land_is_not_confirmed() -> Result<()> {
    type Alter = fn(&mut Draft, &Block, &Block);
    let world = World::start().await?;
    let (node, spend) = (world.node(), spend(&world).await?);
    let good = signed_onchain(&spend, &node).await?;
    let (settled, head) = (node.settled().await?, node.head().await?);
    let altered = |index: usize, alter: Alter| {
        let mut messages = good.clone();
        let mut draft = draft(&messages[index]);
        alter(&mut draft, &settled, &head);
        messages[index] = message(&draft.raw_data(), &payer());
        payer_deposit(&spend, &messages)
    };
    let refused: [(&str, Alter); 6] = [
        ("ref_block_hash", |draft, _, _| draft.reference.hash[7] ^= 1),
        ("ref_block_hash", |draft, _, _| draft.reference.number = [0, 0]),
        ("ref_block_hash", |draft, _, _| draft.reference.number = [0xff, 0]),
        ("expiration", |draft, settled, _| {
            draft.expiration_ms = settled.time_ms + LIFETIME_MS_MAX + 1;
            draft.timestamp_ms = settled.time_ms + 2;
        }),
        ("fee_limit", |draft, _, _| draft.fee_limit_sun = 1),
        ("fee_limit", |draft, _, _| draft.fee_limit_sun = FEE_LIMIT_MAX + 1),
    ];
    for index in [APPROVAL, DEPOSIT] {
        for (field, alter) in refused {
            let judged = confirm(&spend, &altered(index, alter), &node).await;
            assert_denied(judged, index, &format!("message_prehash.{field}"));
        }
        let taken: [Alter; 4] = [
            |draft, _, head| draft.reference = Reference::of(head),
            |draft, settled, _| {
                draft.expiration_ms = settled.time_ms + LIFETIME_MS_MAX;
                draft.timestamp_ms = settled.time_ms;
            },
            |draft, _, _| draft.fee_limit_sun = FEE_LIMIT_MAX,
            |draft, _, _| draft.fee_limit_sun = 55_000 * ENERGY_SUN,
        ];
        for alter in taken {
            confirm(&spend, &altered(index, alter), &node).await?;
        }
    }
    let too_low = altered(DEPOSIT, |draft, _, _| draft.fee_limit_sun = 55_000 * ENERGY_SUN - 1);
    assert_denied(confirm(&spend, &too_low, &node).await, DEPOSIT, "message_prehash.fee_limit");

    // An award may come after the quote deadline, and then the transactions are to be broadcast at once.
    let payer_deposit = payer_deposit(&spend, &good);
    world.advance(Duration::from_secs(580)).await?;
    confirm(&spend, &payer_deposit, &node).await?;
    world.advance(Duration::from_secs(10)).await?;
    assert_denied(confirm(&spend, &payer_deposit, &node).await, APPROVAL, "message_prehash.expiration");
    let late = prepare_onchain(&spend, &Choice::default(), &node, &reserver().into()).await?;
    confirm(&spend, &super::tron(authorize(&spend, &signed(&late))?), &node).await?;
    Ok(())
}

/// Where the deposit can be tried out, it is known to the unit what it takes.
#[tokio::test]
async fn a_deposit_that_can_be_tried_out_has_to_pay_for_all_of_it() -> Result<()> {
    let world = World::start().await?;
    let (node, spend) = (world.node(), spend(&world).await?);
    world.dev.approve(&payer(), &world.token, &world.contracts.escrow, U256::from(110)).await?;
    let message = signed_onchain(&spend, &node).await?.remove(0);
    let draft = draft(&message);
    let Answer::Returned { energy, .. } =
        node.trial(payer().address(), world.escrow(), draft.call.data.clone(), 0).await?
    else {
        panic!()
    };
    let limited = |fee_limit_sun| {
        let draft = Draft { fee_limit_sun, ..draft.clone() };
        payer_deposit(&spend, &[super::message(&draft.raw_data(), &payer())])
    };
    confirm(&spend, &limited(energy * ENERGY_SUN), &node).await?;
    let short = confirm(&spend, &limited(energy * ENERGY_SUN - 1), &node).await;
    assert_denied(short, 0, "message_prehash.fee_limit");
    Ok(())
}

#[tokio::test]
async fn the_payers_own_key_must_be_enough() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let (node, spend) = (world.node_at(&liar.url), spend(&world).await?);
    let payer_deposit = payer_deposit(&spend, &signed_onchain(&spend, &node).await?);
    let api = |key: &PrivateKeySigner| format!("41{}", hex::encode(key.address()));
    let keys = |threshold: i64, keys: &[(&str, i64)]| {
        let keys: Vec<_> = keys.iter().map(|(address, weight)| json!({"address": address, "weight": weight})).collect();
        json!({"permission_name": "owner", "threshold": threshold, "keys": keys})
    };
    let (mine, other) = (api(&payer()), api(&key(7)));
    let account = |permission: Value| json!({"address": mine, "owner_permission": permission});
    for enough in [
        keys(1, &[(&mine, 1)]),
        keys(2, &[(&other, 1), (&mine, 2)]),
        // Not written where it is zero.
        json!({"keys": [{"address": mine, "weight": 1}]}),
    ] {
        liar.say("wallet/getaccount", account(enough));
        confirm(&spend, &payer_deposit, &node).await?;
    }
    for less in [keys(1, &[(&other, 1)]), keys(2, &[(&mine, 1), (&other, 1)]), keys(1, &[]), keys(1, &[(&mine, 0)])] {
        liar.say("wallet/getaccount", account(less));
        assert_denied(confirm(&spend, &payer_deposit, &node).await, DEPOSIT, "signature");
    }
    // An account from before there were permissions, and one that was never activated.
    liar.say("wallet/getaccount", json!({"address": mine}));
    confirm(&spend, &payer_deposit, &node).await?;
    liar.say("wallet/getaccount", json!({}));
    assert_denied(confirm(&spend, &payer_deposit, &node).await, DEPOSIT, "signature");
    liar.say("wallet/getaccount", json!({"address": other}));
    assert_unknown(confirm(&spend, &payer_deposit, &node).await);
    Ok(())
}

/// A node that knows less than the wallet's, or is away, proves nothing against the payer.
#[tokio::test]
async fn what_the_node_does_not_know_is_unknown() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let (node, spend) = (world.node_at(&liar.url), spend(&world).await?);
    let behind = node.head().await?;
    let block = json!({
        "blockID": hex::encode(behind.id),
        "block_header": {"raw_data": {
            "number": behind.number, "timestamp": behind.time_ms, "parentHash": hex::encode(behind.parent),
        }},
    });
    world.mine(2).await?;
    // The wallet names the newest block, which this node has not heard of.
    let mut messages = signed_onchain(&spend, &world.node()).await?;
    let head = world.node().head().await?;
    for signed in &mut messages {
        let draft = Draft { reference: Reference::of(&head), ..draft(signed) };
        *signed = message(&draft.raw_data(), &payer());
    }
    let payer_deposit = payer_deposit(&spend, &messages);
    confirm(&spend, &payer_deposit, &node).await?;
    let newest = block.clone();
    liar.answer(move |path, body| {
        let number = body["id_or_num"].as_str().map(|number| number.parse::<u64>().unwrap());
        match (path, number) {
            ("wallet/getblock", None) => Some(axum::Json(newest.clone()).into_response()),
            ("wallet/getblock", Some(number)) if number > behind.number => Some(axum::Json(json!({})).into_response()),
            _ => None,
        }
    });
    assert_unknown(confirm(&spend, &payer_deposit, &node).await);
    // It has another block of that number, and none of the two is solidified.
    let mut other = block;
    other["blockID"] = json!(format!("{:016x}{}", head.number, "ab".repeat(24)));
    other["block_header"]["raw_data"]["number"] = json!(head.number);
    liar.answer(move |path, body| {
        let asked = body["id_or_num"].as_str() == Some(&head.number.to_string());
        (path == "wallet/getblock" && asked).then(|| axum::Json(other.clone()).into_response())
    });
    assert_unknown(confirm(&spend, &payer_deposit, &node).await);
    liar.be_honest();
    confirm(&spend, &payer_deposit, &node).await?;
    world.tron.stop();
    assert_unknown(confirm(&spend, &payer_deposit, &node).await);
    let prepared = prepare_onchain(&spend, &Choice::default(), &node, &reserver().into()).await.unwrap_err();
    assert!(matches!(prepared, OnchainError::Transient(_)), "{prepared}");
    Ok(())
}

/// A token that does not take the approval would only burn the payer's money.
#[tokio::test]
async fn a_token_that_refuses_the_approval_is_named() -> Result<()> {
    let world = World::start().await?;
    let spend = SpendRequest { ..spend_of(&world.chain_id, &world.contracts.proxy, &world.contracts.escrow) };
    let error = prepare_onchain(&spend, &Choice::default(), &world.node(), &reserver().into()).await.unwrap_err();
    // A contract that is not a token tells no allowance at all.
    assert!(matches!(&error, OnchainError::Transient(fault) if fault.to_string().contains("allowance")), "{error}");
    let liar = Liar::before(&world.tron.url()).await?;
    let spend = self::spend(&world).await?;
    let approve = hex::encode(approveCall::SELECTOR);
    liar.tell(move |path, body, truth| {
        let approves = body["data"].as_str().is_some_and(|data| data.starts_with(&approve));
        if path != "wallet/triggerconstantcontract" || !approves {
            return truth;
        }
        json!({
            "result": {"result": true, "message": hex::encode("REVERT opcode executed")},
            "constant_result": [""],
            "transaction": {"ret": [{"ret": "FAILED"}]},
        })
    });
    let node = world.node_at(&liar.url);
    let error = prepare_onchain(&spend, &Choice::default(), &node, &reserver().into()).await.unwrap_err();
    let OnchainError::Denied(denied) = error else { panic!("{error}") };
    assert_eq!(denied.error.field(), "source.asset_identifier", "{denied}");
    Ok(())
}
