//! Payments whose payer names a quote selector, on the whole network: followed, away, lying, and over a crash.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{process::Command, task::JoinHandle};

use devkit::Process;
use devnet::{keys, users::NatsUser};
use events::{
    Did, Hash32, PaymentEvent, PaymentId,
    quote::SignedQuote,
    selection::{Choice, SelectorKey, SelectorSigner, Shown},
};
use protocol::{
    self,
    selection::{SelectionAnswer, SelectionRequest, selector_subject},
};

use crate::support::*;

/// What the second settler asks for an ordinary payment: twenty basis points.
const FAST_PRICE: &str = "25050000";

fn selector() -> SelectorKey {
    keys::selector_signer().key()
}

/// Changes a process's configuration file.
fn configure(world: &World, name: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
    let path = world.network.options().directory.join(format!("{name}.toml"));
    let mut config: Value = toml::from_str(&std::fs::read_to_string(&path)?)?;
    change(&mut config);
    Ok(std::fs::write(&path, toml::to_string(&config)?)?)
}

/// The second settler, which is dearer than the first, promising to deliver before the others.
async fn fast_settler(world: &mut World) -> Result<Process> {
    world.network.kill_settler(2).await?;
    configure(world, "settler-2", |config| config["quoting"] = json!({"delivery_seconds_promised": 100}))?;
    let directory = &world.network.options().directory;
    let mut command = Command::new(&world.network.options().gw);
    command.arg("settler").arg("--config").arg(directory.join("settler-2.toml"));
    Process::spawn("settler-2", &mut command, &directory.join("settler-2-fast.log"))
}

async fn submit(world: &World, request_id: &str, selector: &str) -> Result<PaymentId> {
    let mut body = world.payer.sign(&world.base(0), &world.spec(request_id)?).await?;
    body["quote_selector"] = selector.into();
    let answer = world.payer.submit(&world.base(0), &body, Duration::ZERO).await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(answer.text("payment_id").parse()?)
}

/// Whose quote a batch that names the selector offers first, and what its quotes are ordered by.
async fn first_of_batch(world: &World, request_id: &str) -> Result<(Did, String)> {
    let mut body = world.payer.quote_request(&world.spec(request_id)?);
    body["quote_selector"] = json!(selector());
    let opened = world.payer.open(&world.base(0), &body, true).await?;
    let id = opened.text("quote_request_id").to_owned();
    let collected = async {
        loop {
            let batch = world.payer.batch(&world.base(0), &id).await?;
            if batch.text("status") == "ready" {
                return anyhow::Ok(batch);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let batch = tokio::time::timeout(PATIENCE, collected).await.context("the batch is held up")??;
    let first = SignedQuote::parse(&batch.body["quotes"][0]["fulfillment_quote"].to_string())?;
    Ok((first.quote().settler.clone(), batch.text("quotes_ordered_by").to_owned()))
}

/// The settler that won, and for how much.
async fn winner(world: &World, payment_id: &PaymentId) -> Result<(Did, String)> {
    let events = world.events(payment_id, "QuoteAwarded").await?;
    let [PaymentEvent::QuoteAwarded(awarded)] = events.as_slice() else { anyhow::bail!("{events:?}") };
    let signed = awarded.signed_quote()?;
    Ok((signed.quote().settler.clone(), signed.quote().source_amount.to_string()))
}

fn settler(n: usize) -> Result<Did> {
    Ok(Did::from_ed25519(&settler::dev::key(n).context("a demo settler")?.verifying_key()))
}

/// The payment failed for the want of a choice, before anything was asked of a chain.
async fn fails_untouched(world: &World, payment_id: &PaymentId) -> Result<()> {
    let outcome = world.outcome(payment_id).await?;
    assert_eq!(outcome.text("status"), "failed", "{outcome:?}");
    let error = &outcome.body["error"];
    assert_eq!(error["code"], "SELECTOR_UNAVAILABLE", "{outcome:?}");
    assert_eq!(error["retry_classification"], "RETRY_WITH_NEW_REQUEST_ID", "{outcome:?}");
    assert_eq!(error["domain"], "EXTERNAL_SERVICE", "{outcome:?}");
    let types = world.types(payment_id).await?;
    assert_eq!(types, ["Submitted", "AuctionClosed", "SelectorAsked", "Failed"]);
    Ok(())
}

/// Exit code and output of `gw audit verify`.
async fn audit(config: &Path, what: &str) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gw"));
    let output = command.args(["audit", "verify", what, "--json", "--config"]).arg(config).output().await?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Answers in the selector's place, with the selector's own access to NATS, what `lie` makes of a request.
async fn liar(
    world: &World,
    lie: impl Fn(&SelectionRequest, &[Hash32]) -> SelectionAnswer + Send + 'static,
) -> Result<JoinHandle<()>> {
    let client = world.network.nats.connect(NatsUser::Selector).await?;
    let mut requests = client.subscribe(selector_subject(&selector())).await?;
    client.flush().await?;
    Ok(tokio::spawn(async move {
        while let Some(message) = requests.next().await {
            let request = SelectionRequest::read(&message.payload).expect("a request");
            let quotes = request.quotes.iter().map(|quote| SignedQuote::parse(quote).expect("a quote").hash());
            let answer = lie(&request, &quotes.collect::<Vec<_>>());
            let reply = message.reply.expect("a subject for the answer");
            client.publish(reply, protocol::write(&answer).into()).await.expect("connected");
        }
    }))
}

fn shown<'a>(request: &'a SelectionRequest, quotes: &'a [Hash32]) -> Shown<'a> {
    Shown { auction_id: &request.auction_id, terms_hash: request.terms_hash, quotes }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_named_selector_chose_is_paid_and_nothing_is_when_it_did_not_choose() -> Result<()> {
    let mut world = World::start(1).await?;
    let _fast = fast_settler(&mut world).await?;
    let cap = world.spec("x")?.cap;
    assert!(FAST_PRICE.parse::<events::Amount>()? <= cap);

    // Whoever asks for the first promise gets it, by whatever form of the selector's key; who does not, the lowest price.
    let SelectorKey::Ed25519(key) = selector() else { anyhow::bail!("the demo's key is Ed25519") };
    let chosen = submit(&world, "by-promise", &selector().to_string()).await?;
    let in_hex = submit(&world, "by-promise-in-hex", &hex::encode(key)).await?;
    let default = submit(&world, "by-price", "").await?;
    for (payment_id, n, price) in [(&chosen, 2, FAST_PRICE), (&in_hex, 2, FAST_PRICE), (&default, 1, "25025000")] {
        let outcome = world.outcome(payment_id).await?;
        assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
        assert_eq!(winner(&world, payment_id).await?, (settler(n)?, price.to_owned()));
        world.until(payment_id, "EscrowReleased").await?;
    }
    let types = world.types(&chosen).await?;
    assert_eq!(types[1..5], ["AuctionClosed", "SelectorAsked", "SelectorAnswered", "QuoteAwarded"]);
    let timeline: Value =
        reqwest::get(format!("{}/v1/payments/{chosen}/timeline", world.base(0))).await?.json().await?;
    assert_eq!(timeline["entries"][0]["data"]["quote_selector"], json!(selector()), "{timeline}");
    let awarded = &timeline["entries"][4]["data"]["quote_hash"];
    assert_eq!(&timeline["entries"][3]["data"]["quote_hash"], awarded, "{timeline}");

    // Quotes that nobody has signed for yet come in its order, too.
    assert_eq!(first_of_batch(&world, "ordered").await?, (settler(2)?, "selector".to_owned()));

    // Somebody else's signature, and a choice of what was not shown, are not choices, and the gateway makes none.
    world.network.kill_selector().await?;
    // Without it quotes come all the same, by their price.
    assert_eq!(first_of_batch(&world, "unordered").await?, (settler(1)?, "price".to_owned()));
    let stranger = SelectorSigner::Ed25519(SigningKey::from_bytes(&[9; 32]));
    let foreign_key =
        liar(&world, move |request, quotes| Choice::of(shown(request, quotes), quotes[0]).sign(&stranger).into())
            .await?;
    let payment_id = submit(&world, "foreign-key", &selector().to_string()).await?;
    fails_untouched(&world, &payment_id).await?;
    foreign_key.abort();
    let invented = liar(&world, |request, quotes| {
        Choice::of(shown(request, quotes), Hash32([7; 32])).sign(&keys::selector_signer()).into()
    })
    .await?;
    let payment_id = submit(&world, "invented", &selector().to_string()).await?;
    fails_untouched(&world, &payment_id).await?;
    invented.abort();
    assert!(world.network.log("gateway-1")?.contains("the quote selector is not followed"));

    // A selector that takes none says why.
    let refuses = liar(&world, |request, quotes| {
        let none = Choice::none(shown(request, quotes), Some("ALL_TOO_DEAR".to_owned()));
        none.sign(&keys::selector_signer()).into()
    })
    .await?;
    let none = submit(&world, "takes-none", &selector().to_string()).await?;
    let outcome = world.outcome(&none).await?;
    assert_eq!(outcome.body["error"]["code"], "NO_QUOTE_SELECTED", "{outcome:?}");
    let message = outcome.body["error"]["message"].as_str().context("a message")?;
    assert!(message.ends_with("ALL_TOO_DEAR"), "{message}");
    refuses.abort();

    // Nobody answers, the gateway dies, and both come back while there is time.
    world.network.kill_gateway(0).await?;
    configure(&world, "gateway-1", |config| config["trust"]["selector_ms_max"] = 20_000.into())?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let late = submit(&world, "late", &selector().to_string()).await?;
    world.until(&late, "SelectorAsked").await?;
    world.network.kill_gateway(0).await?;
    world.network.start_selector()?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    let outcome = world.outcome(&late).await?;
    assert_eq!(outcome.text("status"), "completed", "{outcome:?}");
    assert_eq!(winner(&world, &late).await?.0, settler(2)?);
    world.until(&late, "EscrowReleased").await?;
    let asked = world.events(&late, "SelectorAsked").await?.len();
    assert_eq!((asked, world.events(&late, "SelectorAnswered").await?.len()), (1, 1));

    world.settled_once(&[chosen.clone(), in_hex, default, late.clone()]).await?;
    for payment_id in [&chosen, &none, &late] {
        let (code, report) = audit(world.network.auditor_config(), payment_id.as_str()).await?;
        assert_eq!(code, Some(0), "{report}");
    }
    Ok(())
}
