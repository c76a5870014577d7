//! The payments that `gw-dev` makes and shows.

mod address;
mod batch;
mod corridors;
mod examples;
mod mandate;
mod reassignment;
mod solana;
mod stock;
mod tokens;
mod tron;
mod verifiers;

use std::{
    fs,
    time::{Duration, Instant},
};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};
use audit::entry::Entry;

use events::{Amount, Did, PaymentEvent, PaymentId};

use super::{
    keys::Role,
    network::Network,
    payer::{Answer, Payer, PaymentSpec},
    shop::{self, Purchase, Shop},
    silent_settler::SilentSettler,
    timeline::Auditor,
};

/// More than any settler of the network has: nobody can serve it.
const TOO_MUCH: &str = "900000000000000";
/// Room for every settler's price, so that the amount alone is the obstacle.
const TOO_MUCH_CAP: &str = "990000000000000";
/// What an ordinary payment delivers: 25 tokens.
const ORDINARY: &str = "25000000";
/// What may be spent on it.
const ORDINARY_CAP: &str = "25500000";
const PATIENCE: Duration = Duration::from_secs(60);

/// How the showcase's payments ended.
#[derive(Default)]
struct OutcomeTally {
    completed: u32,
    failed: u32,
    refunded: u32,
}

struct Environment<'a> {
    network: &'a mut Network,
    payer: Payer,
    auditor: Auditor,
    base: String,
    outcome_tally: OutcomeTally,
    /// Number of the newest payment.
    number: u32,
}

/// Makes the payments and checks that each goes as said.
///
/// # Errors
/// When one does not.
pub async fn run(network: &mut Network) -> Result<()> {
    let started = Instant::now();
    let mut environment = Environment {
        payer: Payer::new(Role::Payer.signer())?,
        auditor: Auditor::connect(network).await?,
        base: network.gateways[0].base_url(),
        network,
        outcome_tally: OutcomeTally::default(),
        number: 0,
    };
    println!("\nGateway at {}\n", environment.base);
    let first = environment.completes().await.context("payment 1")?;
    environment.replays(first).await.context("payment 2")?;
    environment.finds_no_quote().await.context("payment 3")?;
    environment.is_refunded().await.context("payment 4")?;
    environment.lapses().await.context("payment 5")?;
    environment.misses_a_verifier().await?;
    environment.is_reassigned().await.context("the payment whose winner fades")?;
    environment.tokens().await?;
    environment.pays_a_batch().await.context("the batch")?;
    environment.pays_by_a_mandate().await.context("the mandate")?;
    environment.pays_to_an_address().await.context("the payment to an address")?;
    environment.solana().await?;
    environment.tron().await?;
    environment.pays_to_an_address_on_tron().await.context("the payment to an address on Tron")?;
    environment.pays_to_an_address_on_solana().await.context("the payment to an address on Solana")?;
    environment.buys_a_page().await.context("the shop")?;
    environment.sells_to_a_stock_client().await.context("the stock shop")?;
    environment.sells_to_a_stock_client_on_solana().await.context("the stock shop on Solana")?;
    println!("Showcase took {:.1} s.", started.elapsed().as_secs_f64());
    let OutcomeTally { completed, failed, refunded } = environment.outcome_tally;
    println!("payments: {completed} completed, {failed} failed, {refunded} refunded");
    Ok(())
}

/// Leaves a signed payment in the network's directory and prints how to submit it.
///
/// # Errors
/// When it cannot be signed or written.
pub async fn invite(network: &Network) -> Result<()> {
    let base = network.gateways[0].base_url();
    let spec = PaymentSpec {
        // Time to read, copy and paste.
        quote_window: Duration::from_secs(590),
        fulfillment_window: Duration::from_secs(900),
        ..ordinary(network, "try-it")?
    };
    let body = Payer::new(Role::Payer.signer())?.sign(&base, &spec).await?;
    let path = network.options().directory.join("payment.json");
    fs::write(&path, serde_json::to_string_pretty(&body)?)?;
    println!("\nThe network stays up until you press Ctrl-C. A signed payment waits in {}; try it:\n", path.display());
    println!("  curl -s -X POST {base}/v1/payments -H 'content-type: application/json' -d @{}\n", path.display());
    let others: Vec<String> = network.gateways[1..].iter().map(|gateway| gateway.base_url()).collect();
    if !others.is_empty() {
        println!("The other gateways answer alike: {}", others.join(", "));
    }
    if let Some(solana) = &network.solana {
        solana::invite(network, solana, spec.clone()).await?;
    }
    if let Some(tron) = &network.tron {
        tron::invite(network, tron, spec).await?;
    }
    println!("A second time it answers with the same payment and \"idempotent_replay\": true.\n");
    examples::invite(network).await?;
    let (console, token) = network.console("gateway-1")?;
    println!("Console for operators: {console}, with the token {token}");
    println!("NATS: {}", network.nats.url());
    println!("Logs and configuration: {}\n", network.options().directory.display());
    Ok(())
}

fn ordinary(network: &Network, request_id: &str) -> Result<PaymentSpec> {
    Ok(PaymentSpec {
        request_id: request_id.to_owned(),
        source: network.source.token()?,
        destination: network.destination.token()?,
        recipient: Role::Recipient.account(),
        amount: ORDINARY.parse()?,
        cap: ORDINARY_CAP.parse()?,
        quote_window: Duration::from_secs(4),
        fulfillment_window: Duration::from_secs(60),
        whitelist: Vec::new(),
    })
}

impl Environment<'_> {
    /// Begins the next payment, and returns its number.
    fn title(&mut self, text: &str) -> u32 {
        self.number += 1;
        println!("{}. {text}", self.number);
        self.number
    }

    async fn completes(&mut self) -> Result<(serde_json::Value, Answer)> {
        self.title("A payment that completes inside the synchronous hold");
        let before = self.recipients_balance().await?;
        let spec = ordinary(self.network, "showcase-1")?;
        let body = self.payer.sign(&self.base, &spec).await?;
        let answer = self.submit(&body, Duration::from_secs(30)).await?;
        ensure!(answer.text("status") == "completed", "not completed: {}", answer.body);
        ensure!(answer.body["idempotent_replay"] == false, "a new payment is not a replay");
        ensure!(answer.body["fulfillment_confirmation"].is_object(), "no confirmation: {}", answer.body);
        let received = self.recipients_balance().await? - before;
        ensure!(received == spec.amount.get(), "recipient received {received}, not {}", spec.amount);
        self.outcome_tally.completed += 1;
        // The settler fetches its money after the answer went out.
        let payment_id = self.payment_id(&answer)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        println!("   recipient received exactly {received}\n");
        Ok((body, answer))
    }

    async fn replays(&mut self, (body, first): (serde_json::Value, Answer)) -> Result<()> {
        self.title("The same request again");
        let before = self.payers_balance().await?;
        let answer = self.submit(&body, Duration::ZERO).await?;
        ensure!(answer.body["idempotent_replay"] == true, "not a replay: {}", answer.body);
        ensure!(answer.text("payment_id") == first.text("payment_id"), "another payment");
        ensure!(answer.text("status") == "completed", "status differs");
        ensure!(self.payers_balance().await? == before, "the payer was charged again");
        println!("   nothing charged\n");
        Ok(())
    }

    async fn finds_no_quote(&mut self) -> Result<()> {
        self.title("A payment that no settler can serve");
        let amount: Amount = TOO_MUCH.parse()?;
        let cap: Amount = TOO_MUCH_CAP.parse()?;
        let spec = PaymentSpec { amount, cap, ..ordinary(self.network, "showcase-3")? };
        let body = self.payer.sign(&self.base, &spec).await?;
        let answer = self.submit(&body, Duration::from_secs(30)).await?;
        ensure!(answer.body["error"]["code"] == "NO_QUOTES_RECEIVED", "not NO_QUOTES_RECEIVED: {}", answer.body);
        let payment_id = self.payment_id(&answer)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::Failed(_))).await?;
        let status = self.payer.status(&self.base, payment_id.as_str()).await?;
        let declines = &status.body["decline_summary"];
        ensure!(declines.as_array().is_some_and(|list| !list.is_empty()), "nobody declined: {}", status.body);
        println!("   requested_count {}, decline_summary {declines}\n", status.body["requested_count"]);
        self.outcome_tally.failed += 1;
        Ok(())
    }

    async fn is_refunded(&mut self) -> Result<()> {
        self.title("A payment whose winner never delivers");
        let before = self.payers_balance().await?;
        let vanishing = settler::dev::key(3).context("the network has three settlers")?;
        let spec = PaymentSpec {
            whitelist: vec![Did::from_ed25519(&vanishing.verifying_key())],
            fulfillment_window: Duration::from_secs(14),
            ..ordinary(self.network, "showcase-4")?
        };
        let body = self.payer.sign(&self.base, &spec).await?;
        let answer = self.submit(&body, Duration::from_secs(30)).await?;
        let payment_id = self.payment_id(&answer)?;
        let outcome = self.payer.outcome(&self.base, payment_id.as_str(), PATIENCE).await?;
        ensure!(outcome.text("status") == "failed", "not failed: {}", outcome.body);
        ensure!(outcome.body["error"]["code"] == "SETTLEMENT_FAILED", "another reason: {}", outcome.body);
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowRefunded(_))).await?;
        let after = self.payers_balance().await?;
        ensure!(after == before, "the payer had {before} and has {after}");
        println!("   payer has {after}, as before, to the unit\n");
        self.outcome_tally.failed += 1;
        self.outcome_tally.refunded += 1;
        Ok(())
    }

    async fn lapses(&mut self) -> Result<()> {
        self.title("A payment whose winner does not answer its award");
        let silent = SilentSettler::start(self.network).await?;
        let before = self.recipients_balance().await?;
        let mut spec = ordinary(self.network, "showcase-5")?;
        let payment_id = loop {
            let body = self.payer.sign(&self.base, &spec).await?;
            let answer = self.submit(&body, Duration::from_secs(30)).await?;
            ensure!(answer.text("status") == "completed", "not completed: {}", answer.body);
            let payment_id = self.payment_id(&answer)?;
            self.outcome_tally.completed += 1;
            let timeline = self.auditor.timeline(&payment_id).await?;
            if timeline.iter().any(|entry| matches!(entry.event, PaymentEvent::AwardLapsed(_))) {
                break payment_id;
            }
            // The gateway had not heard of it yet.
            spec.request_id.push('.');
        };
        silent.stop().await?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        ensure!(self.recipients_balance().await? > before, "the recipient received nothing");
        println!("   the next quote was awarded\n");
        Ok(())
    }

    async fn buys_a_page(&mut self) -> Result<()> {
        println!("A shop and a buyer with the official x402 packages, paid and paying on different chains");
        if let Err(missing) = shop::available().await {
            println!("   left out: {missing}\n");
            return Ok(());
        }
        let before = self.recipients_balance().await?;
        let purchase = match &self.network.solana {
            Some(solana) => Purchase::from_solana(self.network, solana)?,
            None => Purchase::new(self.network),
        };
        let shop = Shop::start(self.network, &purchase).await?;
        let unpaid = reqwest::get(&shop.url).await?.status().as_u16();
        ensure!(unpaid == 402, "the page is there without money: {unpaid}");
        println!("   GET {} → {unpaid}: {} DEV on {}", shop.url, shop::PRICE, purchase.receive_network);
        let started = Instant::now();
        let ledger = self.network.options().directory.join("buyer.jsonl");
        let bought = shop::buy(self.network, &purchase, &shop.url, &ledger).await?;
        println!(
            "   paid from {} → {} after {:.1} s: \"{}\"",
            purchase.pay_network,
            bought.status,
            started.elapsed().as_secs_f64(),
            bought.title
        );
        let received = self.recipients_balance().await? - before;
        ensure!(received == U256::from(shop::PRICE_UNITS), "the shop received {received}");
        self.timeline_until(&bought.payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        println!("   shop received exactly {received}\n");
        self.outcome_tally.completed += 1;
        Ok(())
    }

    async fn submit(&self, body: &serde_json::Value, hold: Duration) -> Result<Answer> {
        let started = Instant::now();
        let answer = self.payer.submit(&self.base, body, hold).await?;
        ensure!(answer.status == 200, "HTTP {}: {}", answer.status, answer.body);
        println!(
            "   POST /v1/payments → {} {} (idempotent_replay {}) after {:.1} s",
            answer.text("payment_id"),
            answer.text("status"),
            answer.body["idempotent_replay"],
            started.elapsed().as_secs_f64()
        );
        Ok(answer)
    }

    fn payment_id(&self, answer: &Answer) -> Result<PaymentId> {
        Ok(answer.text("payment_id").parse()?)
    }

    /// Prints the payment's events as they come, until one for which `last` holds.
    async fn timeline_until(&self, payment_id: &PaymentId, last: impl Fn(&PaymentEvent) -> bool) -> Result<()> {
        let mut shown = 0;
        let following = async {
            loop {
                let timeline = self.auditor.timeline(payment_id).await?;
                let begin = timeline.first().map(|entry| entry.stored_at);
                for entry in &timeline[shown..] {
                    let Entry { stored_at, event } = entry;
                    let seconds = begin.map_or(0.0, |begin| (*stored_at - begin).as_seconds_f64());
                    println!("   {seconds:>6.2} s  {:<20} {}", event.type_name(), entry.describe());
                    shown += 1;
                    if last(event) {
                        return Ok(());
                    }
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, following).await.context("the timeline does not go on")?
    }

    async fn recipients_balance(&self) -> Result<U256> {
        self.network.destination.balance(Role::Recipient).await
    }

    async fn payers_balance(&self) -> Result<U256> {
        self.network.source.balance(Role::Payer).await
    }
}
