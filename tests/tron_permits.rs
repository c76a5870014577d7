//! Payers on Tron who sign for Permit2, end to end: one signature, no transaction of their own and no TRX (ADR 156).

use std::time::Duration;

use alloy::{
    primitives::{Address, U256},
    signers::local::PrivateKeySigner,
    sol,
    sol_types::{SolCall, SolValue},
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use chains_tron::{address::text, transaction};
use devnet::payer::{Answer, Payer, PaymentSpec};
use escrow_abi::permit2;
use events::{PaymentEvent, PaymentId, event::Authorization, quote::SignedQuote};

use crate::support::*;

sol! {
    interface IPermit2 {
        function invalidateUnorderedNonces(uint256 word, uint256 mask) external;
    }
}

const PERMIT: &str = "TRON_PERMIT2_ESCROW";
const TOKENS: u64 = 1_000_000_000;
const CAP: u64 = 25_500_000;
/// What the cheapest settler asks for an ordinary payment.
const PRICE: u64 = 25_025_000;

/// Somebody with tokens, who signs.
struct Holder {
    signer: PrivateKeySigner,
    payer: Payer,
}

impl Holder {
    /// One who lets Permit2 draw so much, by a transaction before all that is looked at. It has no TRX then.
    async fn new(world: &World, allowed: u64) -> Result<Self> {
        // All are endowed by one account, whose transactions have to follow each other.
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        let (signer, tron) = (PrivateKeySigner::random(), world.tron()?);
        let payer = Payer::on_tron(signer.clone())?;
        tron.dev.mint(&tron.token, &payer.account(), U256::from(TOKENS)).await?;
        let holder = Self { signer, payer };
        if allowed > 0 {
            holder.allow(world, allowed).await?;
        }
        Ok(holder)
    }

    async fn allow(&self, world: &World, units: u64) -> Result<()> {
        let tron = world.tron()?;
        tron.dev.fund(&self.payer.account(), 100_000_000).await?;
        Ok(tron.dev.approve(&self.signer, &tron.token, &tron.contracts.permit2, U256::from(units)).await?)
    }

    async fn held(&self, world: &World) -> Result<(u64, u64)> {
        let (tron, account) = (world.tron()?, self.payer.account());
        Ok((tron.dev.token_balance(&tron.token, &account).await?.to(), tron.dev.balance(&account).await?))
    }

    async fn prepared(&self, world: &World, spec: &PaymentSpec, scheme: Option<&str>) -> Result<Answer> {
        self.payer.prepare(&world.base(0), &self.payer.quote_request(spec), scheme).await
    }

    /// A payment, signed as the gateway offers it.
    async fn signed(&self, world: &World, spec: &PaymentSpec) -> Result<Value> {
        let body = self.payer.sign(&world.base(0), spec).await?;
        ensure!(body["sender_auth"]["message_scheme"] == PERMIT, "{body}");
        Ok(body)
    }

    async fn submitted(&self, world: &World, body: &Value) -> Result<Answer> {
        self.payer.submit(&world.base(0), body, Duration::ZERO).await
    }

    async fn accepted(&self, world: &World, body: &Value) -> Result<PaymentId> {
        let answer = self.submitted(world, body).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.text("payment_id").parse()?)
    }

    async fn refused(&self, world: &World, body: &Value, code: &str, says: &str) -> Result<()> {
        let answer = self.submitted(world, body).await?;
        let is_so =
            matches!(answer.status, 400 | 401) && answer.text("code") == code && answer.text("message").contains(says);
        ensure!(is_so, "not {code} {says}: {answer:?}");
        Ok(())
    }
}

/// One signature and nothing else: what the quote asks for goes into escrow, and the payer's TRX stay.
async fn by_one_signature(world: &World) -> Result<PaymentId> {
    let (holder, spec) = (Holder::new(world, CAP).await?, world.spec_from_tron("one-signature")?);
    let before = holder.held(world).await?;
    let body = holder.signed(world, &spec).await?;
    let message = &body["sender_auth"]["signed_messages"][0];
    let typed: Value = serde_json::from_str(message["message_prehash"].as_str().context("no typed data")?)?;
    // What wallets show are addresses as people know them.
    let contracts = &world.tron()?.contracts;
    assert_eq!(typed["domain"]["verifyingContract"], contracts.permit2);
    assert_eq!(typed["message"]["spender"], contracts.escrow);
    assert_eq!(typed["message"]["witness"]["payer"], holder.payer.account());
    let payment_id = holder.accepted(world, &body).await?;
    world.completed(&payment_id).await?;
    let Some(PaymentEvent::EscrowSecured(secured)) = world.events(&payment_id, "EscrowSecured").await?.pop() else {
        bail!("{payment_id} was not deposited")
    };
    assert_eq!(secured.deposit, None, "deposited and reserved at once");
    world.until(&payment_id, "EscrowReleased").await?;
    let (tokens, sun) = holder.held(world).await?;
    assert_eq!((before.0 - tokens, before.1 - sun), (PRICE, 0));
    let replay = holder.submitted(world, &body).await?;
    assert_eq!((replay.status, &replay.body["idempotent_replay"]), (200, &json!(true)), "{replay:?}");
    Ok(payment_id)
}

/// The signature for a quote that the payer knows is for that quote alone.
async fn for_a_quote(world: &World) -> Result<PaymentId> {
    let (base, holder) = (world.base(0), Holder::new(world, CAP).await?);
    let request = holder.payer.quote_request(&world.spec_from_tron("cart")?);
    let ready = holder.payer.open(&base, &request, true).await?;
    ensure!(ready.text("status") == "ready", "{ready:?}");
    let award = holder.payer.sign_award(&base, &ready.body, 0, "awarded").await?;
    assert_eq!(award["sender_auth"]["message_scheme"], PERMIT);
    let answer = holder.payer.award(&base, ready.text("quote_request_id"), &award, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    world.completed(&payment_id).await?;
    let Some(PaymentEvent::Submitted(submitted)) = world.events(&payment_id, "Submitted").await?.pop() else {
        bail!("{payment_id} was not submitted")
    };
    let Authorization::TronPermit2Escrow(permit) = &submitted.authorization else { bail!("{submitted:?}") };
    let quote = SignedQuote::parse(&ready.body["quotes"][0]["fulfillment_quote"].to_string())?;
    assert_eq!(permit.quote_hash, quote.hash());
    Ok(payment_id)
}

/// Who has given no allowance is offered transactions; who asks for a signature all the same is told what has to be sent before.
async fn without_an_allowance(world: &World) -> Result<PaymentId> {
    let (holder, tron) = (Holder::new(world, 0).await?, world.tron()?);
    tron.dev.fund(&holder.payer.account(), 1_000_000_000).await?;
    let spec = world.spec_from_tron("no-allowance")?;
    let offered = holder.prepared(world, &spec, None).await?;
    assert_eq!((offered.status, offered.text("message_scheme")), (200, "TRON"), "{offered:?}");
    let named = holder.prepared(world, &spec, Some(PERMIT)).await?;
    let approval = &named.body["approval"];
    assert_eq!(approval["spender"], tron.contracts.permit2, "{named:?}");
    assert_eq!((&approval["amount"], &approval["asset_identifier"]), (&json!(spec.cap), &json!(spec.source)));

    // Signed, and submitted before that was sent.
    let mut body = holder.payer.quote_request(&spec);
    body["message_scheme"] = PERMIT.into();
    let auth = holder.payer.sign_prepared(&world.base(0), body.clone()).await?;
    let members = body.as_object_mut().context("an object")?;
    members.remove("message_scheme");
    members.insert("sender_auth".to_owned(), auth);
    holder.refused(world, &body, "INSUFFICIENT_ALLOWANCE", &tron.contracts.permit2).await?;

    // The call, as a wallet makes a transaction of it.
    let call = &approval["call"];
    assert_eq!(
        (&call["owner_address"], &call["contract_address"]),
        (&json!(holder.payer.account()), &json!(tron.token))
    );
    assert_eq!(call["function_selector"], "approve(address,uint256)");
    let arguments = hex::decode(call["parameter"].as_str().context("no arguments")?)?;
    let (spender, units) = <(Address, U256)>::abi_decode(&arguments)?;
    assert_eq!((text(spender), units), (tron.contracts.permit2.clone(), U256::from(CAP)));
    holder.allow(world, CAP).await?;
    let accepted = || async { holder.accepted(world, &body).await.is_ok() };
    eventually(accepted).await.context("the approval is not seen")?;
    let payment_id = holder.payer.payment_id("no-allowance");
    world.completed(&payment_id).await?;
    Ok(payment_id)
}

/// What somebody else signed, or signed for something else, is no authorization; nor is one whose nonce is used.
async fn refusals(world: &World) -> Result<()> {
    let (holder, other) = (Holder::new(world, CAP).await?, Holder::new(world, CAP).await?);
    let (spec, tron) = (world.spec_from_tron("refused")?, world.tron()?);
    let honest = holder.signed(world, &spec).await?;
    let path = "/sender_auth/signed_messages/0";
    let altered = |member: &str, value: Value| -> Result<Value> {
        let mut body = honest.clone();
        body.pointer_mut(&format!("{path}/{member}")).map(|found| *found = value).context("no such member")?;
        Ok(body)
    };
    let by_other = other.signed(world, &spec).await?;
    let signature = by_other.pointer(&format!("{path}/signature")).context("no signature")?.clone();
    holder.refused(world, &altered("signature", signature)?, "INVALID_SENDER_AUTH", "signature is not that of").await?;
    let typed = honest.pointer(&format!("{path}/message_prehash")).and_then(Value::as_str).context("no typed data")?;
    let proxy = &tron.contracts.proxy;
    for (from, to, says) in [
        (tron.contracts.escrow.as_str(), proxy.as_str(), "message.spender must be"),
        (&tron.contracts.permit2, proxy, "domain.verifyingContract must be"),
        ("\"chainId\":31339", "\"chainId\":31338", "domain.chainId must be"),
        ("\"25500000\"", "\"25500001\"", "message.permitted.amount must be"),
    ] {
        ensure!(typed.contains(from), "{typed} lacks {from}");
        let body = altered("message_prehash", typed.replace(from, to).into())?;
        holder.refused(world, &body, "INVALID_SENDER_AUTH", says).await?;
    }
    // It takes its signature back on chain, as a wallet may.
    let payment_id = holder.payer.payment_id("refused");
    let shown: Value = serde_json::from_str(typed)?;
    let nonce: U256 = shown["message"]["nonce"].as_str().context("no nonce")?.parse()?;
    let mask = U256::ONE << usize::from(nonce.byte(0));
    let revoked = IPermit2::invalidateUnorderedNoncesCall { word: permit2::word_of(nonce), mask };
    tron.dev.execute(&holder.signer, &tron.contracts.permit2, revoked.abi_encode(), 0).await?;
    let used = || async { holder.refused(world, &honest, "NONCE_ALREADY_USED", "").await.is_ok() };
    eventually(used).await.context("the revocation is not seen")?;
    ensure!(world.types(&payment_id).await?.is_empty(), "something is in the journal");
    Ok(())
}

/// An allowance that is taken back once the payment is accepted: nothing is sent, nothing is lost, and the settlers are free.
async fn taken_back(world: &World) -> Result<PaymentId> {
    let (holder, spec) = (Holder::new(world, CAP).await?, world.spec_from_tron("taken-back")?);
    let body = holder.signed(world, &PaymentSpec { quote_window: Duration::from_secs(6), ..spec }).await?;
    let payment_id = holder.accepted(world, &body).await?;
    holder.allow(world, 0).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!((outcome.text("status"), &outcome.body["error"]["code"]), ("failed", &json!("SETTLEMENT_FAILED")));
    assert_eq!(holder.held(world).await?.0, TOKENS);
    Ok(payment_id)
}

/// A payer that uses the payment's id up by a deposit of its own, of a unit: nothing can be deposited by its permit any more, so the payment
/// ends, its settler is free, and an auditor finds nothing amiss.
async fn forestalled(world: &World) -> Result<PaymentId> {
    let (holder, tron) = (Holder::new(world, CAP).await?, world.tron()?);
    tron.dev.fund(&holder.payer.account(), 1_000_000_000).await?;
    let request = holder.payer.quote_request(&world.spec_from_tron("forestalled")?);
    let signed = async |scheme: &str, cap: &str| -> Result<Value> {
        let mut body = request.clone();
        body["message_scheme"] = scheme.into();
        body["max_source_amount"] = cap.into();
        holder.payer.sign_prepared(&world.base(0), body).await
    };
    let own = signed("TRON", "1").await?;
    let mut body = request.clone();
    body["sender_auth"] = signed(PERMIT, &CAP.to_string()).await?;
    for message in own["signed_messages"].as_array().context("no messages")? {
        let bytes = |member: &str| -> Result<Vec<u8>> {
            Ok(hex::decode(message[member].as_str().context("no hex")?.trim_start_matches("0x"))?)
        };
        let signature: [u8; 65] = bytes("signature")?.try_into().map_err(|_| anyhow::anyhow!("no signature"))?;
        let raw = hex::encode(transaction::assemble(&bytes("message_prehash")?, &signature));
        let sent = reqwest::Client::new().post(format!("{}/wallet/broadcasthex", tron.node.url()));
        let sent: Value = sent.json(&json!({"transaction": raw})).send().await?.json().await?;
        ensure!(sent["result"] == true, "{sent}");
        let id = bytes("message")?;
        let landed = || async {
            let asked = reqwest::Client::new().post(format!("{}/wallet/gettransactioninfobyid", tron.node.url()));
            let asked = asked.json(&json!({"value": hex::encode(&id)})).send().await;
            let Ok(answer) = asked else { return false };
            answer.json::<Value>().await.is_ok_and(|info| info["receipt"]["result"] == "SUCCESS")
        };
        eventually(landed).await.with_context(|| format!("{message} is in no block"))?;
    }
    let payment_id = holder.accepted(world, &body).await?;
    let outcome = world.outcome(&payment_id).await?;
    assert_eq!((outcome.text("status"), &outcome.body["error"]["code"]), ("failed", &json!("SETTLEMENT_FAILED")));
    let (tokens, _) = holder.held(world).await?;
    assert_eq!(tokens, TOKENS - 1, "its own unit is in escrow until it takes it back");
    Ok(payment_id)
}

/// Nobody delivers: all of it comes back to the payer, who sends nothing for that either.
async fn undelivered(world: &World) -> Result<PaymentId> {
    let holder = Holder::new(world, CAP).await?;
    let before = holder.held(world).await?;
    let body = holder.signed(world, &world.undeliverable_from_tron("never")?).await?;
    let payment_id = holder.accepted(world, &body).await?;
    world.until(&payment_id, "EscrowRefunded").await?;
    assert_eq!(holder.held(world).await?, before);
    Ok(payment_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn payers_on_tron_who_let_permit2_draw_pay_by_one_signature() -> Result<()> {
    let world = World::with_tron(|options| options).await?;
    let (one, awarded, allowed, back, beside, never, ()) = tokio::try_join!(
        by_one_signature(&world),
        for_a_quote(&world),
        without_an_allowance(&world),
        taken_back(&world),
        forestalled(&world),
        undelivered(&world),
        refusals(&world)
    )?;
    for payment_id in [&one, &awarded, &allowed] {
        world.until(payment_id, "EscrowReleased").await?;
        for event in [DEPOSITED, RELEASED] {
            assert_eq!(world.tron_logs(event, payment_id).await?, 1, "{payment_id}: {event}");
        }
    }
    for payment_id in [one, awarded, allowed, back, beside, never] {
        world.audited(&payment_id).await?;
    }
    Ok(())
}
