//! Payers whose token takes their signatures, end to end: they have the token and nothing else, and send no transaction.

use std::time::Duration;

use alloy::{
    primitives::{B256, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use devnet::payer::{Answer, Payer, PaymentSpec};
use escrow_abi::eip712::{self, Permit, ReceiveWithAuthorization, token_domain};
use events::{PaymentEvent, PaymentId, quote::SignedQuote};

use crate::support::{overheard::Overheard, *};

/// What a payer has of the token: enough for a few payments.
const TOKENS: u64 = 100_000_000;
/// What an ordinary payment may cost.
const CAP: u64 = 25_500_000;
const TRANSFER: &str = "EVM_EIP3009";
const PERMIT2: &str = "EVM_PERMIT2_ESCROW";

/// Somebody with a key and some of the token.
struct Holder {
    signer: PrivateKeySigner,
    payer: Payer,
}

impl Holder {
    /// One without coins, who has allowed nobody to draw on its tokens.
    async fn endowed(world: &World) -> Result<Self> {
        // All are endowed by one account, whose transactions have to follow each other.
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        let signer = PrivateKeySigner::random();
        let (payer, source) = (Payer::new(signer.clone())?, &world.network.source);
        source.dev.mint(&source.stablecoin, &payer.account(), U256::from(TOKENS)).await?;
        Ok(Self { signer, payer })
    }

    async fn held(&self, world: &World) -> Result<u64> {
        let source = &world.network.source;
        ensure!(source.dev.balance(&self.payer.account()).await?.is_zero(), "it has coins");
        Ok(source.dev.token_balance(&source.stablecoin, &self.payer.account()).await?.to())
    }

    async fn accepted(&self, world: &World, body: &Value) -> Result<PaymentId> {
        let answer = self.payer.submit(&world.base(0), body, Duration::ZERO).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.text("payment_id").parse()?)
    }
}

/// An ordinary payment with the token.
fn spec(world: &World, request_id: &str) -> Result<PaymentSpec> {
    Ok(PaymentSpec { source: world.network.source.stablecoin()?, ..world.spec(request_id)? })
}

/// The messages that are to be signed, where nothing has to be sent.
fn messages(prepared: &Answer) -> Result<Vec<Value>> {
    ensure!(prepared.status == 200 && prepared.body.get("approval").is_none(), "{prepared:?}");
    Ok(prepared.body["signed_messages"].as_array().context("no messages")?.clone())
}

fn typed(message: &Value) -> Result<Value> {
    Ok(serde_json::from_str(message["message_prehash"].as_str().context("no typed data")?)?)
}

/// How much of the token went from the one to the other, transfer by transfer, in whole smallest units.
async fn transfers(world: &World, from: &str, to: &str) -> Result<Vec<u64>> {
    let source = &world.network.source;
    let topic = |account: &str| format!("0x{:0>64}", account.trim_start_matches("0x"));
    let topics = json!([keccak256("Transfer(address,address,uint256)").to_string(), topic(from), topic(to)]);
    let filter = json!({"fromBlock": "0x0", "toBlock": "latest", "address": source.stablecoin, "topics": topics});
    let logs: Vec<Value> = source.dev.rpc("eth_getLogs", (filter,)).await?;
    logs.iter().map(|log| Ok(log["data"].as_str().context("no data")?.parse::<U256>()?.to())).collect()
}

/// What went into escrow of a payer's, and what came back.
async fn escrowed(world: &World, holder: &Holder) -> Result<(Vec<u64>, Vec<u64>)> {
    let (account, escrow) = (holder.payer.account(), &world.network.source.contracts.escrow);
    Ok((transfers(world, &account, escrow).await?, transfers(world, escrow, &account).await?))
}

/// One signature for the token, and nothing else, whether the scheme is named or not.
async fn by_one_signature(world: &World) -> Result<PaymentId> {
    let (base, holder) = (world.base(0), Holder::endowed(world).await?);
    let spec = spec(world, "one-signature")?;
    let prepared = holder.payer.prepare(&base, &holder.payer.quote_request(&spec), None).await?;
    assert_eq!(prepared.text("message_scheme"), TRANSFER, "{prepared:?}");
    let [message] = &messages(&prepared)?[..] else { bail!("not one message: {prepared:?}") };
    assert_eq!(typed(message)?["primaryType"], "ReceiveWithAuthorization");
    let body = holder.payer.sign_offered(&base, &spec, None).await?;
    let payment_id = holder.accepted(world, &body).await?;
    world.completed(&payment_id).await?;
    // The whole cap, and what the award leaves comes back with the release.
    let Some(PaymentEvent::EscrowSecured(secured)) = world.events(&payment_id, "EscrowSecured").await?.pop() else {
        bail!("{payment_id} was not deposited")
    };
    assert_eq!(secured.amount, spec.cap);
    assert_eq!(escrowed(world, &holder).await?, (vec![CAP], vec![CAP - PRICE]));
    assert_eq!(holder.held(world).await?, TOKENS - PRICE);
    // It is still the answer to its repetition.
    let replay = holder.payer.submit(&base, &body, Duration::ZERO).await?;
    assert_eq!((replay.status, &replay.body["idempotent_replay"]), (200, &json!(true)), "{replay:?}");
    Ok(payment_id)
}

/// Permit2 with its allowance by a signature; the next payment needs it no more.
async fn by_two_signatures(world: &World) -> Result<Vec<PaymentId>> {
    let (base, holder) = (world.base(0), Holder::endowed(world).await?);
    let first = holder.payer.sign_offered(&base, &spec(world, "two-signatures")?, Some(PERMIT2)).await?;
    let signed = first["sender_auth"]["signed_messages"].as_array().context("no messages")?;
    let types = signed.iter().map(|message| Ok(typed(message)?["primaryType"].clone())).collect::<Result<Vec<_>>>()?;
    assert_eq!(types, ["Permit", "PermitWitnessTransferFrom"]);
    let permit = &signed[0]["payload"];
    let (contract, spender) = (&world.network.source.stablecoin, &world.network.source.contracts.permit2);
    for (member, expected) in [("contract", contract), ("spender", spender)] {
        let told = permit[member].as_str().context("not in the payload")?;
        assert!(told.eq_ignore_ascii_case(expected), "{member}: {permit}");
    }
    assert_eq!((&permit["function"], &permit["nonce"]), (&json!("permit"), &json!("0")));
    assert_eq!(permit["amount"], U256::MAX.to_string());

    // Permit2's alone, without the allowance that it needs.
    let mut alone = first.clone();
    alone["sender_auth"]["signed_messages"] = json!([signed[1]]);
    let refused = holder.payer.submit(&base, &alone, Duration::ZERO).await?;
    assert_eq!((refused.status, refused.text("code")), (400, "INSUFFICIENT_ALLOWANCE"), "{refused:?}");
    assert_eq!(refused.body["request_id_reusable"], true);

    let mut payments = vec![holder.accepted(world, &first).await?];
    world.completed(&payments[0]).await?;
    assert_eq!(holder.held(world).await?, TOKENS - PRICE);
    let second = holder.payer.sign_offered(&base, &spec(world, "one-more")?, Some(PERMIT2)).await?;
    assert_eq!(second["sender_auth"]["signed_messages"].as_array().map(Vec::len), Some(1), "{second}");
    payments.push(holder.accepted(world, &second).await?);
    world.completed(&payments[1]).await?;
    assert_eq!(holder.held(world).await?, TOKENS - 2 * PRICE);
    Ok(payments)
}

/// Of a quote that it knows a payer authorizes the price, and nothing is left to come back.
async fn for_a_quote(world: &World) -> Result<PaymentId> {
    let (base, holder) = (world.base(0), Holder::endowed(world).await?);
    let ready = holder.payer.open(&base, &holder.payer.quote_request(&spec(world, "cart")?), true).await?;
    ensure!(ready.text("status") == "ready", "{ready:?}");
    let quote = SignedQuote::parse(&ready.body["quotes"][0]["fulfillment_quote"].to_string())?;
    let price: u64 = quote.quote().source_amount.get().to();
    let award = holder.payer.sign_offered_award(&base, &ready.body, 0, "awarded", None).await?;
    assert_eq!(award["sender_auth"]["message_scheme"], TRANSFER);
    let signed = typed(&award["sender_auth"]["signed_messages"][0])?;
    assert_eq!(signed["message"]["value"], price.to_string());
    let answer = holder.payer.award(&base, ready.text("quote_request_id"), &award, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    let payment_id = answer.text("payment_id").parse()?;
    world.completed(&payment_id).await?;
    assert_eq!(escrowed(world, &holder).await?, (vec![price], vec![]));
    assert_eq!(holder.held(world).await?, TOKENS - price);
    Ok(payment_id)
}

/// A contract is asked by Permit2, whatever its token takes; it gives its allowance by itself.
async fn contracts_go_by_permit2(world: &World) -> Result<()> {
    let (base, owner, source) = (world.base(0), Holder::endowed(world).await?, &world.network.source);
    let (token, permit2) = (&source.stablecoin, &source.contracts.permit2);
    let factory = source.dev.deploy_account_factory().await?;
    let account = source.dev.deploy_account(&factory, &owner.payer.account(), token, permit2).await?;
    source.dev.mint(token, &account, U256::from(TOKENS)).await?;
    let mut body = owner.payer.quote_request(&spec(world, "contract")?);
    body["source"]["account"] = account.into();
    let prepared = owner.payer.prepare(&base, &body, None).await?;
    assert_eq!(prepared.text("message_scheme"), PERMIT2, "{prepared:?}");
    assert_eq!(messages(&prepared)?.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn payers_with_nothing_but_the_token_pay_by_signatures_alone() -> Result<()> {
    let world = World::start(1).await?;
    let (one, two, awarded, ()) = tokio::try_join!(
        by_one_signature(&world),
        by_two_signatures(&world),
        for_a_quote(&world),
        contracts_go_by_permit2(&world)
    )?;
    let payments: Vec<PaymentId> = [one, awarded].into_iter().chain(two).collect();
    world.settled_once(&payments).await?;
    for payment_id in &payments {
        world.audited(payment_id).await?;
    }
    Ok(())
}

/// A world whose gateway asks the source chain through one that listens.
async fn overheard() -> Result<(World, Overheard)> {
    let mut world = World::start(1).await?;
    let chain = Overheard::before(world.network.source.anvil.url()).await?;
    world.network.kill_gateway(0).await?;
    let (path, id) = (world.network.options().directory.join("gateway-1.toml"), world.network.source.id().to_string());
    let mut config: Value = toml::from_str(&std::fs::read_to_string(&path)?)?;
    for chain_members in config["chains"].as_array_mut().into_iter().flatten() {
        if chain_members["chain_id"] == id.as_str() {
            chain_members["rpc_url"] = chain.url.as_str().into();
        }
    }
    std::fs::write(&path, toml::to_string(&config)?)?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    Ok((world, chain))
}

/// The digest of what a wallet was shown.
fn digest(typed: &Value) -> Result<B256> {
    let text = |pointer: &str| typed.pointer(pointer).and_then(Value::as_str).with_context(|| pointer.to_owned());
    let (name, version) = (text("/domain/name")?.to_owned(), text("/domain/version")?.to_owned());
    let chain_id = typed["domain"]["chainId"].as_u64().context("no chain")?;
    let domain = token_domain(name, version, chain_id, text("/domain/verifyingContract")?.parse()?);
    Ok(match text("/primaryType")? {
        "Permit" => {
            let permit = Permit {
                owner: text("/message/owner")?.parse()?,
                spender: text("/message/spender")?.parse()?,
                value: text("/message/value")?.parse()?,
                nonce: text("/message/nonce")?.parse()?,
                deadline: text("/message/deadline")?.parse()?,
            };
            eip712::digest(&permit, &domain)
        }
        _ => {
            let transfer = ReceiveWithAuthorization {
                from: text("/message/from")?.parse()?,
                to: text("/message/to")?.parse()?,
                value: text("/message/value")?.parse()?,
                validAfter: text("/message/validAfter")?.parse()?,
                validBefore: text("/message/validBefore")?.parse()?,
                nonce: text("/message/nonce")?.parse()?,
            };
            eip712::digest(&transfer, &domain)
        }
    })
}

/// The same body, of which one member of the first message's typed data is another, as `signer` signs it.
fn resigned(body: &Value, signer: &PrivateKeySigner, member: &str, value: impl ToString) -> Result<Value> {
    let mut body = body.clone();
    let message = &mut body["sender_auth"]["signed_messages"][0];
    let mut typed = typed(message)?;
    *typed.pointer_mut(member).with_context(|| member.to_owned())? = value.to_string().into();
    let digest = digest(&typed)?;
    message["message"] = digest.to_string().into();
    message["message_prehash"] = typed.to_string().into();
    message["signature"] = signer.sign_hash_sync(&digest)?.to_string().into();
    Ok(body)
}

/// Checks that neither a rehearsal nor a submission takes a body, and that both say what is wrong with it.
async fn refused(world: &World, body: &Value, field: &str) -> Result<()> {
    for path in ["/v1/payments/verify", "/v1/payments"] {
        let request = reqwest::Client::new().post(format!("{}{path}", world.base(0))).header("prefer", "wait=0");
        let answer = Answer::of(request.json(body).send().await?).await?;
        ensure!((answer.status, answer.text("code")) == (401, "INVALID_SENDER_AUTH"), "{field}, {path}: {answer:?}");
        let names = format!("sender_auth.signed_messages[0]: {field}");
        ensure!(answer.text("message").contains(&names), "{field}, {path}: {answer:?}");
    }
    Ok(())
}

/// An allowance whose nonce the token has counted past, as another payment's came first; and one that is too small.
async fn allowances_are_of_their_order(world: &World) -> Result<()> {
    let (base, holder) = (world.base(0), Holder::endowed(world).await?);
    let (spec, patient) = (spec(world, "first")?, Duration::from_secs(60));
    let patient = PaymentSpec { request_id: "later".to_owned(), quote_window: patient, ..spec.clone() };
    let (first, later) = tokio::try_join!(
        holder.payer.sign_offered(&base, &spec, Some(PERMIT2)),
        holder.payer.sign_offered(&base, &patient, Some(PERMIT2))
    )?;
    let signer = &holder.signer;
    refused(world, &resigned(&later, signer, "/message/value", CAP - 1)?, "message.value").await?;
    refused(world, &resigned(&later, signer, "/domain/version", "2")?, "message_prehash.domain").await?;
    let payment_id = holder.accepted(world, &first).await?;
    world.until(&payment_id, "EscrowSecured").await?;
    refused(world, &later, "message_prehash.message.nonce").await?;
    // The allowance is there, so the second message is enough.
    let mut alone = later.clone();
    alone["sender_auth"]["signed_messages"] = json!([later["sender_auth"]["signed_messages"][1]]);
    let http = reqwest::Client::new();
    let verified = Answer::of(http.post(format!("{base}/v1/payments/verify")).json(&alone).send().await?).await?;
    assert_eq!((verified.status, &verified.body["valid"]), (200, &json!(true)), "{verified:?}");
    world.completed(&payment_id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_signed_for_this_payment_and_this_token_is_refused_by_its_field() -> Result<()> {
    let (world, chain) = overheard().await?;
    let (base, holder) = (world.base(0), Holder::endowed(&world).await?);
    let (payer, signer) = (&holder.payer, &holder.signer);

    // A token that takes no signatures.
    let plain = world.payer.quote_request(&world.spec("plain")?);
    let answer = world.payer.prepare(&base, &plain, Some(TRANSFER)).await?;
    assert_eq!((answer.status, answer.text("code")), (400, "INVALID_REQUEST"), "{answer:?}");
    assert!(answer.text("message").starts_with("message_scheme: "), "{answer:?}");

    let body = payer.sign_offered(&base, &spec(&world, "order")?, None).await?;
    refused(&world, &resigned(&body, signer, "/domain/version", "2")?, "message_prehash.domain").await?;
    refused(&world, &resigned(&body, signer, "/message/value", CAP / 2)?, "message.value").await?;
    let mut other = body.clone();
    other["request_id"] = "another-order".into();
    refused(&world, &other, "message.nonce").await?;

    // A stranger's signature costs no question about the payer; the payer's own does.
    let account = payer.account().trim_start_matches("0x").to_owned();
    let about_payer = || chain.take().into_iter().filter(|call| call.contains(&account)).collect::<Vec<_>>();
    let forged = resigned(&body, &PrivateKeySigner::random(), "/message/value", CAP)?;
    about_payer();
    for _ in 0..10 {
        refused(&world, &forged, "signature is not that of").await?;
    }
    assert_eq!(about_payer(), Vec::<String>::new());
    let payment_id = holder.accepted(&world, &body).await?;
    assert!(!about_payer().is_empty(), "nothing was overheard");

    tokio::try_join!(world.completed(&payment_id), allowances_are_of_their_order(&world))?;
    assert_eq!(escrowed(&world, &holder).await?, (vec![CAP], vec![CAP - PRICE]));
    Ok(())
}
