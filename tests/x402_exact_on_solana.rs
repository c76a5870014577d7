//! Stock clients of x402 on Solana, end to end (ADR 160): what they sign there pays a merchant on another chain.

use std::time::Duration;

use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};

use chains_solana::transaction::{self, Budget};
use devkit::free_port;
use devnet::{
    keys::solana_account,
    network::Options,
    payer::Answer,
    solana::SolanaOptions,
    stock_shop::{self, Language, PAID, PaidOn, StockShop, TOKENS},
};
use events::{PaymentEvent, PaymentId, event::Authorization};
use gateway_program::{
    Key,
    host::{self, AccountMeta, Instruction},
    ids,
};

use crate::support::{
    solana::{LossyNode, solana_key},
    *,
};

/// A blockhash counts for 150 slots, and has to outlast an auction.
const SLOT_MS: u64 = 200;
const MEMO: &str = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
const TRANSFER_CHECKED: u8 = 12;

/// A merchant with an account on Solana, and its offer.
struct Merchant<'a> {
    world: &'a World,
    account: String,
}

impl<'a> Merchant<'a> {
    async fn new(world: &'a World) -> Result<Self> {
        let account = new_account();
        let solana = world.solana()?;
        solana.dev.mint(&solana.token, &account, 0).await?;
        Ok(Self { world, account })
    }

    fn asks(&self) -> Result<Value> {
        stock_shop::asked(&self.world.network, &self.account)
    }

    /// The requirement of what `change` makes of its offer, whose address it has made the token account of.
    async fn offers(&self, change: impl FnOnce(&mut Value)) -> Result<Value> {
        let mut asked = self.asks()?;
        change(&mut asked);
        let pay_to = stock_shop::make_token_account(&self.world.network, &asked).await?;
        let answer = self.post("offers", &asked).await?;
        ensure!(answer.status == 200 && answer.body["requirement"]["payTo"] == json!(pay_to), "{answer:?}");
        Ok(answer.body["requirement"].clone())
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        let url = format!("{}/x402/v1/{path}", self.world.base(0));
        Answer::of(reqwest::Client::new().post(url).json(body).send().await?).await
    }

    async fn refuses(&self, message: &Value, reason: &str, says: &str) -> Result<()> {
        for (path, named) in
            [("verify", ["invalidReason", "invalidMessage"]), ("settle", ["errorReason", "errorMessage"])]
        {
            let answer = self.post(path, message).await?;
            let [found, text] = named.map(|name| answer.text(name).to_owned());
            ensure!(found == reason && text.contains(says), "{reason}, {says}: {answer:?}");
        }
        Ok(())
    }

    /// What it has on Solana.
    async fn held(&self) -> Result<u64> {
        let solana = self.world.solana()?;
        Ok(solana.dev.token_balance(&solana.token, &self.account).await?)
    }
}

/// Somebody with a key and some tokens on Solana, and no SOL.
struct Buyer<'a> {
    world: &'a World,
    key: SigningKey,
}

/// What a buyer signs.
struct Draft {
    fee_payer: Key,
    instructions: Vec<Instruction>,
    budget: Budget,
}

impl<'a> Buyer<'a> {
    async fn endowed(world: &'a World) -> Result<Self> {
        let (key, solana) = (new_key(), world.solana()?);
        solana.dev.mint(&solana.token, &solana_account(&key), TOKENS).await?;
        Ok(Self { world, key })
    }

    fn account(&self) -> String {
        solana_account(&self.key)
    }

    async fn held(&self) -> Result<u64> {
        let solana = self.world.solana()?;
        ensure!(solana.dev.lamports(&self.account()).await? == 0, "it has lamports");
        Ok(solana.dev.token_balance(&solana.token, &self.account()).await?)
    }

    async fn pays(&self, requirement: &Value) -> Result<Value> {
        self.pays_otherwise(requirement, |_| ()).await
    }

    /// What a client sends for a requirement, with what `change` makes of what it signs.
    async fn pays_otherwise(&self, requirement: &Value, change: impl FnOnce(&mut Draft)) -> Result<Value> {
        let text = |pointer: &str| requirement.pointer(pointer).and_then(Value::as_str).context("no text");
        let (mint, pay_to) = (solana_key(text("/asset")?)?, solana_key(text("/payTo")?)?);
        let own = self.key.verifying_key().to_bytes();
        let account = |of: &Key| host::associated_token_address(of, &ids::TOKEN_PROGRAM, &mint).key;
        let amount: u64 = text("/amount")?.parse()?;
        let decimals = self.world.solana()?.token.decimals;
        let transfer = Instruction {
            program_id: ids::TOKEN_PROGRAM,
            accounts: vec![named(account(&own), true), named(mint, false), named(account(&pay_to), true), signs(own)],
            data: [&[TRANSFER_CHECKED][..], &amount.to_le_bytes(), &[decimals]].concat(),
        };
        let memo = Instruction {
            program_id: solana_key(MEMO)?,
            accounts: Vec::new(),
            data: hex::encode(&PrivateKeySigner::random().to_bytes()[..16]).into_bytes(),
        };
        let mut draft = Draft {
            fee_payer: solana_key(text("/extra/feePayer")?)?,
            instructions: vec![transfer, memo],
            budget: Budget { units: 20_000, price: 1 },
        };
        change(&mut draft);
        let surfnet = &self.world.solana()?.surfnet;
        let newest = surfnet.rpc("getLatestBlockhash", json!([{"commitment": "confirmed"}])).await?;
        let blockhash = solana_key(newest["value"]["blockhash"].as_str().context("no blockhash")?)?;
        let message = transaction::message(&draft.instructions, draft.budget, &draft.fee_payer, &blockhash);
        let mut wire = transaction::unsigned(&message);
        let signature = self.key.sign(&message.serialize()).to_bytes();
        let place = message.signer_keys().iter().position(|key| key.to_bytes() == own).context("it does not sign")?;
        wire[1 + 64 * place..][..64].copy_from_slice(&signature);
        let payload = json!({"transaction": BASE64.encode(&wire)});
        let paid = json!({"x402Version": 2, "accepted": requirement, "payload": payload});
        Ok(json!({"x402Version": 2, "paymentPayload": paid, "paymentRequirements": requirement}))
    }
}

fn named(key: Key, writable: bool) -> AccountMeta {
    AccountMeta { key, signer: false, writable }
}

fn signs(key: Key) -> AccountMeta {
    AccountMeta { key, signer: true, writable: false }
}

fn new_key() -> SigningKey {
    SigningKey::from_bytes(&PrivateKeySigner::random().to_bytes().0)
}

fn new_account() -> String {
    solana_account(&new_key())
}

fn payment_id(answer: &Answer) -> Result<PaymentId> {
    let id = answer.body.pointer("/extensions/gw/paymentId").and_then(Value::as_str);
    Ok(id.with_context(|| format!("no payment in {answer:?}"))?.parse()?)
}

/// A shop of the stock packages alone, and buyers of them in two languages.
async fn stock_packages(world: &World) -> Result<Vec<PaymentId>> {
    let merchant = Merchant::new(world).await?;
    merchant.offers(|_| ()).await?;
    let paid_on = PaidOn::Solana { merchant: &merchant.account };
    let shop = StockShop::start(&world.network, paid_on).await?;
    let buy = |language| stock_shop::buy(&world.network, paid_on, &shop.url, language);
    let (javascript, python) = tokio::try_join!(buy(Language::JavaScript), buy(Language::Python))?;
    let mut payments = Vec::new();
    for bought in [javascript, python] {
        assert_eq!(bought.title, "Paid across chains");
        let receipt = &bought.receipt;
        let expected = (json!(world.solana()?.surfnet.chain_id()), json!(true), json!(bought.account));
        assert_eq!(
            (&receipt["network"], &receipt["success"], &receipt["payer"]),
            (&expected.0, &expected.1, &expected.2)
        );
        assert_eq!(receipt["transaction"], json!(transfer_of(world, &bought.payment_id).await?), "{receipt}");
        let solana = world.solana()?;
        assert_eq!(solana.dev.token_balance(&solana.token, &bought.account).await?, TOKENS - PAID);
        world.completed(&bought.payment_id).await?;
        payments.push(bought.payment_id);
    }
    // What the settlers left is the merchant's.
    assert_eq!(merchant.held().await?, 2 * (PAID - PRICE));
    Ok(payments)
}

/// The transfer that the gateway has sent for a purchase.
async fn transfer_of(world: &World, payment_id: &PaymentId) -> Result<String> {
    match world.events(payment_id, "PayerTransactionSent").await?.as_slice() {
        [PaymentEvent::PayerTransactionSent(sent)] => Ok(sent.transaction_hash.clone()),
        other => bail!("{other:?}"),
    }
}

/// Two buyers of one offer at once; and the same message twice is one payment, of which one merchant is told.
async fn two_buyers(world: &World) -> Result<Vec<PaymentId>> {
    let merchant = Merchant::new(world).await?;
    let requirement = merchant.offers(|_| ()).await?;
    let (one, other) = (Buyer::endowed(world).await?, Buyer::endowed(world).await?);
    let (first, second) = (one.pays(&requirement).await?, other.pays(&requirement).await?);
    let verified = merchant.post("verify", &first).await?;
    assert_eq!(
        (&verified.body["isValid"], &verified.body["payer"]),
        (&json!(true), &json!(one.account())),
        "{verified:?}"
    );
    let (settled, again, beside) = tokio::try_join!(
        merchant.post("settle", &first),
        merchant.post("settle", &first),
        merchant.post("settle", &second)
    )?;
    let ids = [payment_id(&settled)?, payment_id(&again)?, payment_id(&beside)?];
    assert_eq!((beside.status, &beside.body["success"]), (200, &json!(true)), "{beside:?}");
    let (told, not): (Vec<_>, Vec<_>) = [settled, again].into_iter().partition(|answer| answer.body["success"] == true);
    assert_eq!((told.len(), not.len()), (1, 1), "{told:?} {not:?}");
    assert_eq!(not[0].body["errorReason"], "duplicate_settlement", "{not:?}");
    assert_eq!((&ids[0], &ids[0]), (&ids[1], &payment_id(&verified)?));
    assert_ne!(ids[0], ids[2]);
    for id in [&ids[0], &ids[2]] {
        world.completed(id).await?;
    }
    assert_eq!((one.held().await?, other.held().await?), (TOKENS - PAID, TOKENS - PAID));
    // What a server writes anew into each requirement may differ from what the client was told.
    let mut renewed = first.clone();
    renewed["paymentRequirements"]["extra"]["recentBlockhash"] = "11111111111111111111111111111112".into();
    merchant.refuses(&renewed, "duplicate_settlement", "told before").await?;
    // Nor does it go by the payments API, where nobody would have signed whom to ask and for how long.
    let Some(PaymentEvent::Submitted(submitted)) = world.events(&ids[0], "Submitted").await?.pop() else {
        bail!("{} was not submitted", ids[0])
    };
    ensure!(
        matches!(&submitted.authorization, Authorization::SolanaX402Exact(bought) if bought.buyer.as_str() == one.account())
    );
    assert_eq!(submitted.terms.source.account().as_str(), merchant.account);
    let request: Value = serde_json::from_str(&submitted.request)?;
    let direct = reqwest::Client::new().post(format!("{}/v1/payments", world.base(0))).json(&request).send().await?;
    let direct = Answer::of(direct).await?;
    assert_eq!(direct.text("code"), "MESSAGE_SCHEME_NOT_SERVED", "{direct:?}");
    Ok(vec![ids[0].clone(), ids[2].clone()])
}

/// Nobody delivers for so little, and so nothing is taken.
async fn no_quotes(world: &World) -> Result<PaymentId> {
    let (merchant, buyer) = (Merchant::new(world).await?, Buyer::endowed(world).await?);
    let requirement = merchant.offers(|asked| asked["amount"] = (AMOUNT / 2).to_string().into()).await?;
    let settled = merchant.post("settle", &buyer.pays(&requirement).await?).await?;
    assert_eq!(settled.body["errorReason"], "no_quotes_received", "{settled:?}");
    assert_eq!((&settled.body["success"], &settled.body["transaction"]), (&json!(false), &json!("")));
    assert_eq!((buyer.held().await?, merchant.held().await?), (TOKENS, 0));
    payment_id(&settled)
}

/// What is not just what the merchant offered, or is good for anything besides the transfer.
async fn what_does_not_fit_is_refused(world: &World) -> Result<()> {
    let (merchant, buyer) = (Merchant::new(world).await?, Buyer::endowed(world).await?);
    let requirement = merchant.offers(|_| ()).await?;
    let stranger = new_account();
    for (pointer, value) in [
        ("/amount", json!("25250001")),
        ("/extra/gw/fulfillmentAmount", json!("1")),
        ("/extra/gw/destination/address", json!(format!("{:#x}", PrivateKeySigner::random().address()))),
        ("/extra/gw/merchant", json!(stranger)),
        ("/extra/gw/deliverySeconds", json!(61)),
        ("/extra/gw/refundSeconds", json!(1_000_000)),
        ("/payTo", json!(stranger)),
    ] {
        let mut other = requirement.clone();
        *other.pointer_mut(pointer).context("no such member")? = value;
        merchant.refuses(&buyer.pays(&other).await?, "invalid_payment_requirements", "payTo: must be").await?;
    }
    let mut message = buyer.pays(&requirement).await?;
    for pointer in ["/paymentPayload/accepted/maxTimeoutSeconds", "/paymentRequirements/maxTimeoutSeconds"] {
        *message.pointer_mut(pointer).context("no such member")? = 541.into();
    }
    merchant.refuses(&message, "invalid_payment_requirements", "maxTimeoutSeconds: must be at most 540").await?;

    let fee_payer = solana_key(requirement["extra"]["feePayer"].as_str().context("no fee payer")?)?;
    let own = buyer.key.verifying_key().to_bytes();
    let with = async |change: &dyn Fn(&mut Draft), says: &str| {
        let message = buyer.pays_otherwise(&requirement, change).await?;
        merchant.refuses(&message, "invalid_sender_auth", says).await
    };
    let amount = |draft: &mut Draft| draft.instructions[0].data[1] ^= 1;
    with(&amount, "the amount must be 25250000").await?;
    let target = |draft: &mut Draft| draft.instructions[0].accounts[2].key = [7; 32];
    with(&target, "must send to the associated token account of").await?;
    let twice = |draft: &mut Draft| draft.instructions.push(draft.instructions[0].clone());
    with(&twice, "each once and nothing else").await?;
    let approves = |draft: &mut Draft| {
        // `Approve` of the token's program: this byte, and the amount.
        draft.instructions[0].data = [&[4][..], &u64::MAX.to_le_bytes()].concat();
    };
    with(&approves, "each once and nothing else").await?;
    // The gateway's signature must be good for nothing but the fee.
    let drains = |draft: &mut Draft| {
        let data = [&2_u32.to_le_bytes()[..], &1_000_000_u64.to_le_bytes()].concat();
        let accounts = vec![AccountMeta { key: fee_payer, signer: true, writable: true }, named(own, true)];
        draft.instructions.push(Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data });
    };
    with(&drains, "no instruction may name the payer of its fee").await?;
    let remembers = |draft: &mut Draft| draft.instructions[1].accounts.push(signs(fee_payer));
    with(&remembers, "no instruction may name the payer of its fee").await?;
    let third = |draft: &mut Draft| draft.instructions[1].accounts.push(signs([9; 32]));
    with(&third, "and by nobody else").await?;
    let dear = |draft: &mut Draft| draft.budget.price = 5_000_000;
    with(&dear, "may offer at most").await?;
    let large = |draft: &mut Draft| draft.budget.units = 200_001;
    with(&large, "must set a limit of at most 200000 compute units").await?;
    let elsewhere = |draft: &mut Draft| draft.fee_payer = solana_key(&new_account()).unwrap();
    with(&elsewhere, "the payer of its fee is no account of the gateway's").await?;

    let mut forged = buyer.pays(&requirement).await?;
    let transaction = forged["paymentPayload"]["payload"]["transaction"].as_str().context("none")?.to_owned();
    let mut wire = BASE64.decode(transaction.as_bytes())?;
    let mut tampered = |at: usize, bit: u8| {
        wire[at] ^= bit;
        forged["paymentPayload"]["payload"]["transaction"] = BASE64.encode(&wire).into();
        wire[at] ^= bit;
        forged.clone()
    };
    merchant.refuses(&tampered(70, 1), "invalid_sender_auth", "must be signed by the buyer").await?;
    let last = transaction.len() * 3 / 4 - 8;
    merchant.refuses(&tampered(last, 1), "invalid_sender_auth", "must be signed by the buyer").await?;
    forged["paymentPayload"]["payload"]["transaction"] = "AA".repeat(1_000).into();
    merchant.refuses(&forged, "invalid_sender_auth", "must be a transaction in Base64").await?;
    forged["paymentPayload"]["payload"] = json!({});
    merchant.refuses(&forged, "invalid_payload", "transaction").await?;
    let poor = Buyer { world, key: new_key() };
    merchant.refuses(&poor.pays(&requirement).await?, "insufficient_funds", "source").await?;
    assert_eq!((buyer.held().await?, merchant.held().await?), (TOKENS, 0));
    Ok(())
}

/// What no buyer could be served with is not offered.
async fn not_offered(world: &World) -> Result<()> {
    let merchant = Merchant::new(world).await?;
    let (solana, stranger) = (world.solana()?, new_account());
    let refuses = async |change: &dyn Fn(&mut Value), says: &str| {
        let mut asked = merchant.asks()?;
        change(&mut asked);
        let answer = merchant.post("offers", &asked).await?;
        ensure!(answer.status == 400 && answer.text("message").contains(says), "{says}: {answer:?}");
        anyhow::Ok(())
    };
    refuses(&|asked| drop(asked.as_object_mut().unwrap().remove("merchant")), "merchant: is required").await?;
    refuses(&|asked| asked["merchant"] = stranger.as_str().into(), "merchant: it has no token account").await?;
    refuses(&|asked| asked["merchant"] = solana.program.as_str().into(), "merchant: is an escrow contract").await?;
    refuses(&|asked| asked["asset"] = "slip44:501".into(), "asset: ").await?;
    refuses(&|asked| asked["maxTimeoutSeconds"] = 541.into(), "maxTimeoutSeconds: must be at most 540").await
}

/// No settler delivers, so the escrow goes back: to the merchant, who is paid so, and is told once it is.
async fn undelivered(world: &mut World) -> Result<PaymentId> {
    let (id, message, account) = {
        let world = &*world;
        let (merchant, buyer) = (Merchant::new(world).await?, Buyer::endowed(world).await?);
        let requirement = merchant.offers(|asked| asked["deliverySeconds"] = 10.into()).await?;
        let message = buyer.pays(&requirement).await?;
        let url = format!("{}/x402/v1/settle", world.base(0));
        let request = reqwest::Client::new().post(url).header("prefer", "wait=0").json(&message);
        let pending = Answer::of(request.send().await?).await?;
        assert_eq!(pending.body["errorReason"], "settlement_pending", "{pending:?}");
        (payment_id(&pending)?, message, merchant.account)
    };
    world.until(&id, "DepositPrepared").await?;
    for n in 1..=3 {
        world.network.kill_settler(n).await?;
    }
    let merchant = Merchant { world, account };
    merchant.world.until(&id, "EscrowRefunded").await?;
    assert_eq!(merchant.held().await?, PAID);
    let settled = merchant.post("settle", &message).await?;
    assert_eq!((&settled.body["success"], &settled.body["errorReason"]), (&json!(true), &json!(null)), "{settled:?}");
    assert_eq!(settled.body["transaction"], json!(transfer_of(merchant.world, &id).await?));
    merchant.refuses(&message, "duplicate_settlement", "told before").await?;
    Ok(id)
}

/// The transfer lands, and no deposit does any more: what was paid is collected for the merchant.
async fn undeposited(world: &World, node: &LossyNode) -> Result<PaymentId> {
    let (merchant, buyer) = (Merchant::new(world).await?, Buyer::endowed(world).await?);
    let requirement = merchant.offers(|asked| asked["maxTimeoutSeconds"] = 25.into()).await?;
    let message = buyer.pays(&requirement).await?;
    node.lose(true);
    let waiting = merchant.post("settle", &message);
    let meanwhile = async {
        eventually(|| async { !node.lost().is_empty() }).await.context("the transfer is not sent")?;
        let transfer = node.find_first().await?;
        eventually(|| async { buyer.held().await.is_ok_and(|held| held == TOKENS - PAID) }).await?;
        anyhow::Ok(transfer)
    };
    let (pending, transfer) = tokio::try_join!(waiting, meanwhile)?;
    assert_eq!(pending.body["errorReason"], "settlement_pending", "{pending:?}");
    assert_eq!(pending.body["transaction"], json!(transfer), "{pending:?}");
    let id = payment_id(&pending)?;
    world.until(&id, "AddressHeld").await?;
    node.lose(false);
    world.until(&id, "EscrowRefunded").await?;
    assert_eq!(merchant.held().await?, PAID);
    let settled = merchant.post("settle", &message).await?;
    assert_eq!(
        (&settled.body["success"], &settled.body["transaction"]),
        (&json!(true), &json!(transfer)),
        "{settled:?}"
    );
    assert_eq!(world.escrow_transactions(&id).await?, 0);
    Ok(id)
}

/// The gateway dies when the transfer has landed and no deposit has: it goes on from the transfer, and sends no second one.
async fn killed_between_transfer_and_deposit(world: &mut World, node: &LossyNode) -> Result<PaymentId> {
    let earlier = node.lost().len();
    let (id, transfer, account) = {
        let world = &*world;
        let (merchant, buyer) = (Merchant::new(world).await?, Buyer::endowed(world).await?);
        let message = buyer.pays(&merchant.offers(|_| ()).await?).await?;
        node.lose(true);
        let url = format!("{}/x402/v1/settle", world.base(0));
        let request = reqwest::Client::new().post(url).header("prefer", "wait=0").json(&message);
        let id = payment_id(&Answer::of(request.send().await?).await?)?;
        eventually(|| async { node.lost().len() > earlier }).await.context("the transfer is not sent")?;
        let transfer = node.find(earlier).await?;
        // The gateway goes on to the deposit, which is lost as well.
        let deposit_is_sent = || async { node.lost()[earlier..].iter().any(|signature| *signature != transfer) };
        eventually(deposit_is_sent).await.context("the deposit is not sent")?;
        assert_eq!(buyer.held().await?, TOKENS - PAID);
        (id, transfer, merchant.account)
    };
    world.network.kill_gateway(0).await?;
    node.lose(false);
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.completed(&id).await?;
    assert_eq!(transfer_of(world, &id).await?, transfer);
    let merchant = Merchant { world, account };
    assert_eq!(world.events(&id, "DepositMined").await?.len(), 1);
    // What the price leaves comes by a transaction of its own.
    eventually(|| async { merchant.held().await.is_ok_and(|held| held == PAID - PRICE) }).await?;
    Ok(id)
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_clients_on_solana_pay_merchants_on_another_chain() -> Result<()> {
    let port = free_port()?;
    let node = LossyNode::start(port).await?;
    let solana = SolanaOptions {
        slot_ms: SLOT_MS,
        port: Some(port),
        gateway_rpc_url: Some(node.url()),
        ..SolanaOptions::for_stock_clients()
    };
    let mut world = World::with(|options| Options { solana: Some(solana), ..options }).await?;
    let before = world.balances().await?;
    let (bought, both, unsold, (), ()) = tokio::try_join!(
        stock_packages(&world),
        two_buyers(&world),
        no_quotes(&world),
        what_does_not_fit_is_refused(&world),
        not_offered(&world),
    )?;
    let received = world.balances().await?["recipient"] - before["recipient"];
    assert_eq!(received, alloy::primitives::U256::from(AMOUNT * 4));
    let undeposited = undeposited(&world, &node).await?;
    let killed = killed_between_transfer_and_deposit(&mut world, &node).await?;
    let undelivered = tokio::time::timeout(Duration::from_secs(180), undelivered(&mut world)).await??;
    for payment_id in bought.iter().chain(&both).chain([&unsold, &undeposited, &killed, &undelivered]) {
        world.audited(payment_id).await?;
    }
    Ok(())
}
