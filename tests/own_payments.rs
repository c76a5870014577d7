//! Own payments with real processes: who proves by a key, by a contract or by a DID that payments are his is shown them, at
//! every gateway, before and after the process was killed.

use alloy::{
    primitives::Address,
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, ensure};
use chrono::Utc;
use ed25519_dalek::{Signer as _, SigningKey as Ed25519};
use reqwest::{Client, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::process::Command;

use devkit::{holder::Holder, tools};
use devnet::{keys::Role, payer::Payer};
use escrow_abi::{contracts::DevAccountFactory, signature::Wrapped};
use proofs::suites::Suite;

use crate::support::*;

/// A caller of one gateway.
struct Owner {
    base: String,
    http: Client,
}

impl Owner {
    fn at(base: String) -> Self {
        Self { base, http: Client::new() }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(StatusCode, Value)> {
        let answer = self.http.post(format!("{}{path}", self.base)).json(body).send().await?;
        Ok((answer.status(), answer.json().await?))
    }

    async fn challenge(&self, who: Value) -> Result<String> {
        let (status, body) = self.post("/v1/sessions/challenges", &who).await?;
        ensure!(status == StatusCode::OK, "{body}");
        Ok(body["message"].as_str().context("a challenge has a message")?.to_owned())
    }

    /// The session that `body` opens.
    async fn session(&self, body: &Value) -> Result<Value> {
        let (status, body) = self.post("/v1/sessions", body).await?;
        ensure!(status == StatusCode::OK, "{body}");
        Ok(body)
    }

    /// The session of an account by its key.
    async fn by_key(&self, chain: &str, signer: &PrivateKeySigner) -> Result<Value> {
        let message = self.challenge(json!({"account": format!("{chain}:{}", signer.address())})).await?;
        let signature = signer.sign_message_sync(message.as_bytes())?.to_string();
        self.session(&json!({"message": message, "signature": signature})).await
    }

    async fn list(&self, session: &Value, query: &str, accept: &str) -> Result<Response> {
        let token = session["token"].as_str().context("a session has a token")?;
        let url = format!("{}/v1/payments{query}", self.base);
        Ok(self.http.get(url).bearer_auth(token).header(header::ACCEPT, accept).send().await?)
    }

    /// The request ids that are listed, in order.
    async fn request_ids(&self, session: &Value, query: &str) -> Result<Vec<String>> {
        let answer = self.list(session, query, "application/json").await?;
        ensure!(answer.status() == StatusCode::OK, "{}", answer.text().await?);
        let body: Value = answer.json().await?;
        let payments = body["payments"].as_array().context("a page has payments")?;
        let id = |payment: &Value| payment["request_id"].as_str().unwrap_or_default().to_owned();
        Ok(payments.iter().map(id).collect())
    }

    /// Waits until `expected` is listed: the read model follows.
    async fn listed(&self, session: &Value, query: &str, expected: &[&str]) -> Result<()> {
        eventually(|| async { self.request_ids(session, query).await.is_ok_and(|listed| listed == expected) }).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_keeps_books_of_what_he_paid() -> Result<()> {
    let mut world = World::start(2).await?;
    let chain = world.network.source.token()?.chain().to_string();
    let payer = Role::Payer.signer();
    let paid = world.submit(&world.spec("order-1")?).await?;
    world.completed(&paid).await?;
    world.until(&paid, "EscrowReleased").await?;
    let failed = world.submit(&world.undeliverable_spec("order-2")?).await?;
    world.outcome(&failed).await?;

    let (here, there) = (Owner::at(world.base(0)), Owner::at(world.base(1)));
    let session = here.by_key(&chain, &payer).await?;
    here.listed(&session, "", &["order-2", "order-1"]).await?;
    here.listed(&session, "?status=completed&stage=ended", &["order-1"]).await?;
    here.listed(&session, "?status=failed", &["order-2"]).await?;
    // The other was awarded, too.
    let destination = world.network.destination.token()?.chain().to_string();
    here.listed(&session, &format!("?chain_id={destination}"), &["order-2", "order-1"]).await?;
    let priced = format!("?status=completed&amount_from={PRICE}&amount_to={PRICE}");
    here.listed(&session, &priced, &["order-1"]).await?;
    here.listed(&session, &format!("?status=completed&amount_from={}", PRICE + 1), &[]).await?;

    // What the books say is what the receipt says, and what was paid and delivered.
    let page: Value = here.list(&session, "?status=completed", "application/json").await?.json().await?;
    let shown = &page["payments"][0];
    let receipt = world.outcome(&paid).await?;
    let confirmed = &receipt.body["fulfillment_confirmation"];
    for (book, receipt) in [
        (&shown["payment_id"], &confirmed["payment_id"]),
        (&shown["transactions"]["deposit"]["transaction_hash"], &confirmed["source_tx_hash"]),
        (&shown["transactions"]["fulfillment"]["transaction_hash"], &confirmed["destination_tx_hash"]),
    ] {
        ensure!(book.is_string() && book == receipt, "{shown} and {receipt}");
    }
    assert_eq!(shown["source"]["paid_amount"], PRICE.to_string());
    assert_eq!(shown["destination"]["amount"], AMOUNT.to_string());
    assert_eq!((&shown["destination"]["delivered"], &shown["source"]["refunded"]), (&json!(true), &json!(false)));
    // Ten basis points: 25,000,000 for 25,025,000.
    assert_eq!(shown["rate"], json!({"numerator": "1000", "denominator": "1001"}));
    assert!(shown["settler"].as_str().is_some_and(|did| did.starts_with("did:")), "{shown}");
    assert!(shown["transactions"]["release"]["block_number"].is_u64(), "{shown}");
    let settler = shown["settler"].as_str().context("a settler")?;
    here.listed(&session, &format!("?settler={settler}"), &["order-1"]).await?;

    // As a table, with the same in it.
    let csv = here.list(&session, "", "text/csv").await?.text().await?;
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    for text in [paid.as_str(), &PRICE.to_string(), &AMOUNT.to_string(), "1000,1001", settler] {
        assert!(lines[2].contains(text), "{text} is not in {}", lines[2]);
    }
    let lines = here.list(&session, "", "application/x-ndjson").await?.text().await?;
    let last: Value = serde_json::from_str(lines.lines().last().context("a line")?)?;
    assert_eq!(&last, shown);

    // The other gateway has another address: what was signed for one counts at none else, though they share all else.
    let refused = there.list(&session, "", "application/json").await?;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let message = here.challenge(json!({"account": format!("{chain}:{}", payer.address())})).await?;
    let signature = payer.sign_message_sync(message.as_bytes())?.to_string();
    let signed = json!({"message": message, "signature": signature});
    let (status, answer) = there.post("/v1/sessions", &signed).await?;
    assert_eq!((status, &answer["code"]), (StatusCode::UNAUTHORIZED, &json!("INVALID_PROOF")), "{answer}");
    let own = there.by_key(&chain, &payer).await?;
    there.listed(&own, "", &["order-2", "order-1"]).await?;
    // Somebody else is shown nothing of it.
    let stranger = there.by_key(&chain, &PrivateKeySigner::random()).await?;
    assert_eq!(there.request_ids(&stranger, "").await?, Vec::<String>::new());

    // Tokens and challenges outlive the process that made them.
    world.network.kill_gateway(0).await?;
    world.network.start_gateway(0).await?;
    here.listed(&session, "", &["order-2", "order-1"]).await?;
    ensure!(here.session(&signed).await?["owner"] == session["owner"], "a challenge is of nobody any more");
    Ok(())
}

/// The program in the manual, as it stands there.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_of_the_manual_lists_what_was_paid() -> Result<()> {
    let world = World::start(1).await?;
    let paid = world.submit(&world.spec("order-1")?).await?;
    world.completed(&paid).await?;
    let owner = Owner::at(world.base(0));
    let session = owner.by_key(&world.network.source.token()?.chain().to_string(), &Role::Payer.signer()).await?;
    owner.listed(&session, "?status=completed", &["order-1"]).await?;
    let page = std::fs::read_to_string(tools::root().join("docs/clients-own-payments.md"))?;
    let program = page.split("```js\n").nth(1).and_then(|rest| rest.split("```").next()).context("a program")?;
    let mut node = Command::new("node");
    node.args(["--input-type=module", "-e", program]).current_dir(tools::root().join("examples/evm"));
    node.env("GATEWAY_URL", world.base(0)).env("PRIVATE_KEY", Role::Payer.signer().to_bytes().to_string());
    let output = node.output().await?;
    ensure!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout)?, format!("order-1 {PRICE} {AMOUNT}\n"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_and_dids_prove_themselves_in_their_own_way() -> Result<()> {
    let world = World::start(1).await?;
    let (owner, source) = (Owner::at(world.base(0)), &world.network.source);
    let (here, elsewhere) =
        (source.token()?.chain().to_string(), world.network.destination.token()?.chain().to_string());

    // A contract account, before and after it is deployed.
    let (token, permit2) = (&source.token, &source.contracts.permit2);
    let factory = source.dev.deploy_account_factory().await?;
    let signer = PrivateKeySigner::random();
    let signer_account = format!("{:#x}", signer.address());
    let account = source.dev.account_of(&factory, &signer_account, token, permit2).await?;
    let message = owner.challenge(json!({"account": format!("{here}:{account}")})).await?;
    let signature = signer.sign_message_sync(message.as_bytes())?.as_bytes().to_vec();
    let call =
        DevAccountFactory::deployCall { owner: signer.address(), token: token.parse()?, spender: permit2.parse()? };
    let wrapped = Wrapped {
        factory: factory.parse::<Address>()?,
        factory_call: call.abi_encode().into(),
        signature: signature.clone().into(),
    };
    let hex = |bytes: &[u8]| format!("0x{}", alloy::hex::encode(bytes));
    let (plain, wrapped) = (hex(&signature), hex(&wrapped.encode()));
    let open = |message: &str, signature: &str| json!({"message": message, "signature": signature});
    let refused = async |body: Value| {
        let (status, answer) = owner.post("/v1/sessions", &body).await?;
        ensure!(status == StatusCode::UNAUTHORIZED && answer["code"] == "INVALID_PROOF", "{status} {answer}");
        anyhow::Ok(())
    };
    refused(open(&message, &plain)).await?;
    let session = owner.session(&open(&message, &wrapped)).await?;
    assert_eq!(session["chain_id"], here);
    source.dev.deploy_account(&factory, &signer_account, token, permit2).await?;
    // Whether there is code is known for a quarter of a minute.
    let deployed = async || owner.post("/v1/sessions", &open(&message, &plain)).await;
    eventually(|| async { deployed().await.is_ok_and(|(status, _)| status == StatusCode::OK) }).await?;
    let session = owner.session(&open(&message, &plain)).await?;
    assert_eq!((&session["chain_id"], &session["owner"]), (&json!(here), &json!(format!("eip155:{account}"))));
    // Somebody else's signature, and the same account on a chain where it is nobody's.
    let by_other = PrivateKeySigner::random().sign_message_sync(message.as_bytes())?.to_string();
    refused(open(&message, &by_other)).await?;
    let there = owner.challenge(json!({"account": format!("{elsewhere}:{account}")})).await?;
    refused(open(&there, &hex(&signer.sign_message_sync(there.as_bytes())?.as_bytes()))).await?;

    // A DID, in whose name somebody pays.
    let shop = Holder::ed25519(9)?;
    let payer: Payer = world.payer.asking_for(shop.did().as_str());
    let signed = payer.sign(&world.base(0), &world.spec("for-the-shop")?).await?;
    let body = shop.envelope(&signed, Suite::EddsaRdfc2022, &[], Utc::now())?;
    let answer = payer.submit(&world.base(0), &body, std::time::Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    world.submit(&world.spec("for-himself")?).await?;
    let message = owner.challenge(json!({"did": shop.did().as_str()})).await?;
    let signature = hex(&Ed25519::from_bytes(&[9; 32]).sign(message.as_bytes()).to_bytes());
    let method = shop.did().key_verification_method().context("a did:key has one")?;
    let session =
        owner.session(&json!({"message": message, "signature": signature, "verification_method": method})).await?;
    owner.listed(&session, "", &["for-the-shop"]).await?;
    let session = owner.by_key(&here, &Role::Payer.signer()).await?;
    owner.listed(&session, "", &["for-himself", "for-the-shop"]).await?;
    assert_eq!(owner.request_ids(&session, "?limit=1").await?, ["for-himself"]);
    Ok(())
}
