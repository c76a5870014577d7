//! Clients: they sign, submit, and retry under the same id when no answer comes.

use std::{sync::Arc, time::Duration};

use alloy::primitives::U256;
use chrono::TimeDelta;
use tokio::time::{sleep, timeout};

use events::{
    Amount, CommitId, Family, Hash32, OwnedAsset, PaymentEvent, PaymentId, QuoteRequestId, StreamId, Terms,
    event::{Authorization, EscrowPlan, SelectorRef, Submitted, VerifierRef},
    quote_request::QuoteRequestOpened,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::{AppendError, Commit, Journal, Position};

use super::{ChainHandle, REFUND_DELAY, World, batch, gateway::Gateway, invariants::Violation, operator, selector};
use crate::{
    coverage,
    family::SpendOrder,
    plan::{Funding, PaymentPlan, Route},
    random::RandomSource,
};

/// How long a client waits for an answer.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// The name of the payer of payment `number`.
pub fn payer(payments: &[PaymentPlan], number: usize) -> String {
    let first = (0..number).rev().take_while(|before| payments[*before].shares_payer).last().unwrap_or(number);
    format!("payer {first}")
}

/// The name of the recipient of payment `number`.
pub fn recipient(number: usize) -> String {
    format!("recipient {number}")
}

/// The result of a submission.
enum Answer {
    /// The payment exists.
    Accepted,
    /// Nothing is known.
    Unknown,
    /// It is too late for a new one, and there is none.
    TooLate,
}

/// Makes payment `number` of the plan, and sees it accepted, or not.
pub async fn pay(world: Arc<World>, gateways: Arc<Vec<Gateway>>, number: usize) {
    let plan = world.plan.payments[number];
    let random = world.random(&format!("client {number}"));
    sleep(plan.at).await;
    match Order::of(&world, number) {
        Some(order) => {
            world.note(format!("payment {number} is {}, {:?}", order.payment_id, plan.route));
            coverage::party(corridor(order.source.family, order.destination.family));
            tokio::spawn(change_allowance(world.clone(), order.source.clone(), order.payer.clone(), plan));
            if let Some(poison) = plan.poison {
                tokio::spawn(operator::poison(world.clone(), order.poisoned(), poison));
            }
            match plan.route {
                Route::Auction | Route::Selector(_) => submit(&world, &gateways, &random, &order).await,
                Route::Batch { twice, abandons } => {
                    batch::pay(&world, &gateways, &random, &order, twice, abandons).await;
                }
            }
        }
        None => world.judge(Err(Violation::new("every payment can be signed", format!("payment {number}")))),
    }
    world.invariants().client_done();
    world.changed.notify_one();
}

/// The name of a payment between chains of these families.
fn corridor(source: Family, destination: Family) -> &'static str {
    match (source, destination) {
        (Family::Evm, Family::Evm) => "payment from EVM to EVM",
        (Family::Evm, Family::Solana) => "payment from EVM to Solana",
        (Family::Evm, Family::Tron) => "payment from EVM to Tron",
        (Family::Solana, Family::Evm) => "payment from Solana to EVM",
        (Family::Solana, Family::Solana) => "payment from Solana to Solana",
        (Family::Solana, Family::Tron) => "payment from Solana to Tron",
        (Family::Tron, Family::Evm) => "payment from Tron to EVM",
        (Family::Tron, Family::Solana) => "payment from Tron to Solana",
        (Family::Tron, Family::Tron) => "payment from Tron to Tron",
    }
}

/// Submits, and asks again.
async fn submit(world: &World, gateways: &[Gateway], random: &RandomSource, order: &Order) {
    let Some(submission) = order.submission(world).await else {
        world.judge(Err(Violation::new("every payment can be signed", order.payment_id.to_string())));
        return;
    };
    let mut accepted = 0;
    while accepted <= order.plan.replays {
        let gateway = Gateway::any(gateways, random);
        let answer = match gateway.journal() {
            Some(journal) => {
                let asked = append(gateway.now(world), journal.as_ref(), &submission);
                timeout(ANSWERED_WITHIN, asked).await.unwrap_or(Answer::Unknown)
            }
            None => Answer::Unknown,
        };
        match answer {
            Answer::Accepted => {
                match accepted {
                    0 => world.accepted(&submission.payment_id),
                    _ => coverage::party("client asks again"),
                }
                accepted += 1;
                sleep(Duration::from_millis(random.number(100..=30_000))).await;
            }
            Answer::TooLate => {
                coverage::party("client gives up");
                world.note(format!("given up {}", submission.payment_id));
                break;
            }
            Answer::Unknown => sleep(Duration::from_millis(random.number(100..=3_000))).await,
        }
    }
}

/// Appends the first commit of the payment, or finds the one that is there.
async fn append(now: Timestamp, journal: &dyn Journal, submission: &Submitted) -> Answer {
    let stream_id = submission.payment_id.clone().into();
    let Ok(before) = journal.load(&stream_id).await else { return Answer::Unknown };
    if !before.is_empty() {
        return Answer::Accepted;
    }
    if now >= submission.quote_deadline {
        return Answer::TooLate;
    }
    let commit = Commit {
        stream_id: stream_id.clone(),
        expected: Position::START,
        commit_id: CommitId::random(),
        events: vec![PaymentEvent::Submitted(Box::new(submission.clone())).into()],
        correlation: "client".to_owned(),
        causation: "client".to_owned(),
    };
    match journal.append(&commit).await {
        Ok(_) => Answer::Accepted,
        Err(AppendError::Conflict) => match journal.load(&stream_id).await {
            Ok(commits) if !commits.is_empty() => Answer::Accepted,
            _ => Answer::Unknown,
        },
        Err(_) => Answer::Unknown,
    }
}

/// The order of a client, built and checked by the code that the gateway itself uses.
pub struct Order {
    /// As planned.
    pub plan: PaymentPlan,
    /// Who asks.
    pub originator: String,
    /// Under which id.
    pub request_id: String,
    /// The payment of that id.
    pub payment_id: PaymentId,
    /// The terms.
    pub terms: Terms,
    /// End of quotes.
    pub quote_deadline: Timestamp,
    /// End of the delivery.
    pub fulfillment_deadline: Timestamp,
    number: usize,
    payer: String,
    verifier: VerifierRef,
    source: ChainHandle,
    destination: ChainHandle,
}

impl Order {
    /// The order of payment `number`, given now.
    fn of(world: &World, number: usize) -> Option<Self> {
        let plan = world.plan.payments[number];
        let payer = payer(&world.plan.payments, number);
        let (source, destination) = (&world.chains[plan.corridor.0], &world.chains[plan.corridor.1]);
        let recipient = destination.account(&recipient(number));
        let asset = if plan.coin { destination.coin() } else { destination.token() };
        let amount = Amount::new(U256::from(plan.amount))?;
        let cap = Amount::new(U256::from(plan.amount + plan.amount * plan.headroom / 1000 + 2))?;
        let terms = Terms::new(
            OwnedAsset::new(source.token().clone(), source.account(&payer).as_str()).ok()?,
            vec![OwnedAsset::new(asset.clone(), recipient.as_str()).ok()?],
            amount,
            Some(cap),
        );
        let originator = terms.source.account().originator();
        let request_id = format!("order-{number}");
        let quote_deadline = from_unix_seconds(unix_seconds(world.now()))? + seconds(plan.quote);
        Some(Self {
            plan,
            payment_id: PaymentId::derive(&originator, &request_id),
            originator,
            request_id,
            terms,
            quote_deadline,
            fulfillment_deadline: quote_deadline + seconds(plan.reserve + plan.fulfill),
            number,
            payer,
            verifier: world.verifier(source.family)?.clone(),
            source: source.clone(),
            destination: destination.clone(),
        })
    }

    /// The batch, when quotes are collected first.
    pub fn batch_id(&self) -> QuoteRequestId {
        QuoteRequestId::derive(&self.originator, &self.request_id)
    }

    /// The stream that is unreadable for a time, when one is.
    fn poisoned(&self) -> StreamId {
        match self.plan.route {
            Route::Batch { .. } if self.plan.replays == 0 => self.batch_id().into(),
            _ => (&self.payment_id).into(),
        }
    }

    /// What the payer signs for this payment and quote, as the gateway takes it.
    pub async fn sign(
        &self,
        world: &World,
        payment_id: &PaymentId,
        quote_hash: Hash32,
    ) -> Option<(Authorization, EscrowPlan)> {
        if self.plan.bare_permit && self.source.family == Family::Evm {
            coverage::party("payer signs without a witness");
        }
        let signed = self.authorize(payment_id, quote_hash, false).await?;
        world.invariants().signed(payment_id, &self.source.chain_id);
        Some(signed)
    }

    async fn authorize(
        &self,
        payment_id: &PaymentId,
        quote_hash: Hash32,
        is_draft: bool,
    ) -> Option<(Authorization, EscrowPlan)> {
        let plan = &self.plan;
        let order = SpendOrder {
            payer: &self.payer,
            payment_id,
            terms: &self.terms,
            quote_deadline: self.quote_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            releaser: &self.verifier.account,
            quote_hash,
            reserve_deadline: unix_seconds(self.quote_deadline) + plan.reserve,
            refund_after: unix_seconds(self.fulfillment_deadline) + REFUND_DELAY + plan.refund,
            other_scheme: plan.bare_permit,
            with_approval: plan.funding != Funding::NoAllowance,
            is_draft,
        };
        self.source.authorize(&order).await
    }

    /// The batch as the gateway opens it.
    pub async fn opened(&self, world: &World) -> Option<QuoteRequestOpened> {
        let (_, prepared) = self.authorize(&self.payment_id, Hash32::ZERO, true).await?;
        Some(QuoteRequestOpened {
            quote_request_id: self.batch_id(),
            request_id: self.request_id.clone(),
            originator: self.originator.clone(),
            terms_hash: self.terms.hash(),
            terms: self.terms.clone(),
            quote_deadline: self.quote_deadline,
            quote_deadline_text: self.quote_deadline.to_rfc3339(),
            fulfillment_deadline: self.fulfillment_deadline,
            fulfillment_deadline_text: self.fulfillment_deadline.to_rfc3339(),
            escrow: prepared.of_batch(unix_seconds(self.fulfillment_deadline), REFUND_DELAY),
            fulfillment_proxies: vec![self.destination.common().fulfillment_proxy.clone()],
            verifier: self.verifier.clone(),
            whitelist: Vec::new(),
            blacklist: Vec::new(),
            required_policies: Vec::new(),
            counterparty: None,
            identities: Vec::new(),
            selector: None,
            selector_answer_by: None,
            caller_secret_hash: None,
            opened_at: world.now(),
            request: "{}".to_owned(),
        })
    }

    async fn submission(&self, world: &World) -> Option<Submitted> {
        let (authorization, escrow) = self.sign(world, &self.payment_id, Hash32::ZERO).await?;
        let selector = match self.plan.route {
            Route::Selector(_) => {
                coverage::party("payment by a selector");
                let key = selector::signer(self.number).key();
                // Half of what is left for the deposit is the selector's.
                let answer_by = self.quote_deadline + seconds(self.plan.reserve / 2);
                Some(SelectorRef { key, answer_by })
            }
            Route::Auction | Route::Batch { .. } => None,
        };
        Some(Submitted {
            payment_id: self.payment_id.clone(),
            request_id: self.request_id.clone(),
            originator: self.originator.clone(),
            terms_hash: self.terms.hash(),
            terms: self.terms.clone(),
            quote_deadline: self.quote_deadline,
            fulfillment_deadline: self.fulfillment_deadline,
            authorization,
            escrow,
            fulfillment_proxies: vec![self.destination.common().fulfillment_proxy.clone()],
            verifier: self.verifier.clone(),
            whitelist: Vec::new(),
            blacklist: Vec::new(),
            required_policies: Vec::new(),
            collected_quote: None,
            selector,
            counterparty: None,
            identities: Vec::new(),
            submitted_at: world.now(),
            request: "{}".to_owned(),
        })
    }
}

fn seconds(seconds: u64) -> TimeDelta {
    TimeDelta::seconds(i64::try_from(seconds).unwrap_or_default())
}

/// Changes the allowance of a payer as planned: revokes it, and may grant it again.
async fn change_allowance(world: Arc<World>, source: ChainHandle, payer: String, plan: PaymentPlan) {
    let allow = |is_allowed: bool| {
        world.note(format!("{payer} {} deposits", if is_allowed { "allows" } else { "no longer allows" }));
        if let Err(error) = source.allow(&payer, is_allowed) {
            world.note(format!("a payer's transaction is refused: {error}"));
        }
    };
    if plan.funding == Funding::NoAllowance {
        coverage::party("payer never allowed");
    }
    if matches!(plan.funding, Funding::Withdraws | Funding::Wavers) {
        coverage::party("payer takes its allowance away");
        sleep(Duration::from_secs(plan.quote + plan.fulfill % 20)).await;
        allow(false);
    }
    if plan.funding == Funding::Wavers {
        coverage::party("payer gives its allowance again");
        sleep(Duration::from_secs(plan.reserve)).await;
        allow(true);
    }
}
