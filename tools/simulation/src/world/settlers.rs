//! Settlers of every character. They act on the chains themselves, with transactions of their own.

use std::{sync::Arc, time::Duration};

use alloy::primitives::U256;
use ed25519_dalek::SigningKey;
use tokio::time::sleep;

use chains::escrow::State;
use escrow_abi::contracts::units;
use events::{
    Account, AssetId, Did, mutant,
    quote::{Quote, SignedQuote},
    time::{Timestamp, unix_seconds},
};
use sagas::ports::{
    ANSWER_WAIT_MAX, Award, AwardAnswer, DeliveryOrder, DeliveryState, REPLACEABLE_ANSWER_WAIT, Statement,
};

use super::{ChainHandle, World, verifiers::Question};
use crate::{
    coverage,
    family::{Delivered, EscrowCall},
    plan::{Character, ClockPlan, Plan, SettlerPlan},
};

/// How often a settler looks at the chains.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long after its promise a settler still hopes for a reservation that it has not seen.
const HOPES_FOR: u64 = 60;
/// How often one that is late tries to deliver all the same, at two looks each.
const LATE_TRIES: u64 = 12;

/// A settler.
#[derive(Clone)]
pub struct Settler {
    /// Its identity.
    pub did: Did,
    pub(super) key: SigningKey,
    /// Its name, of which its accounts on all chains are made: it delivers from them and is paid to them.
    pub name: String,
    /// Its behaviour.
    pub plan: SettlerPlan,
    /// How its clock is wrong.
    clock: ClockPlan,
}

impl Settler {
    /// Settler `index` of `whole`.
    pub fn new(index: usize, plan: SettlerPlan, whole: &Plan) -> Self {
        let mut seed = [7; 32];
        seed[0] = u8::try_from(index).unwrap_or(u8::MAX);
        let key = SigningKey::from_bytes(&seed);
        let did = Did::from_ed25519(&key.verifying_key());
        let clock = whole.settler_clocks.get(index).cloned().unwrap_or_default();
        Self { did, key, name: format!("settler {index}"), plan, clock }
    }

    /// What its clock says.
    pub fn now(&self, world: &World) -> Timestamp {
        world.now() + world.ahead(&self.clock)
    }
}

/// Sends the winner to work.
pub fn won(world: &Arc<World>, award: &Award) {
    let Some(settler) = world.settlers().iter().find(|settler| settler.did == award.settler) else { return };
    if award.escrowed.is_some() {
        coverage::party("settler wins what is in escrow");
    }
    let won_before = world.auctions.awards_to(&award.case.payment_id, &settler.did) > 1;
    if won_before {
        coverage::party("settler wins the same payment again");
    }
    // Of the awards of one that vanishes some are refused, some answered late, and some not even that.
    let answer = match (settler.plan.character, award.quote_hash.0[0] % 4) {
        (Character::Reluctant, _) if !won_before => {
            coverage::party("settler refuses its first award");
            AwardAnswer::Refused("NOT_NOW".to_owned())
        }
        (Character::Vanishing, 0) => return coverage::party("settler does not answer its award"),
        (Character::Vanishing, 1) => {
            coverage::party("settler refuses its award");
            AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned())
        }
        (Character::Vanishing, 2) => {
            coverage::party("settler answers its award late");
            tokio::spawn(answer_late(world.clone(), settler.clone(), award.clone()));
            return;
        }
        _ => AwardAnswer::Accepted,
    };
    let stands = world.auctions.answer(award, answer) == AwardAnswer::Accepted;
    if stands && settler.plan.character != Character::Vanishing {
        tokio::spawn(work(world.clone(), settler.clone(), award.clone()));
    }
}

/// Answers about when a gateway stops waiting, and works as well as any where that is heard.
async fn answer_late(world: Arc<World>, settler: Settler, award: Award) {
    let late = [REPLACEABLE_ANSWER_WAIT, ANSWER_WAIT_MAX][usize::from(award.quote_hash.0[1] % 2)];
    tokio::time::sleep(late).await;
    if world.auctions.answer(&award, AwardAnswer::Accepted) == AwardAnswer::Accepted {
        work(world, settler, award).await;
    }
}

/// A job of one settler.
struct Job {
    world: Arc<World>,
    settler: Settler,
    award: Award,
    quote: Quote,
    source: ChainHandle,
    destination: ChainHandle,
    order: DeliveryOrder,
}

/// When a settler dies that has agreed to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    BeforeDelivery,
    AfterDelivery,
    AfterReport,
}

async fn work(world: Arc<World>, settler: Settler, award: Award) {
    let Ok(signed) = SignedQuote::parse(&award.case.quote_document) else { return };
    let quote = signed.quote().clone();
    let source = world.chain(&award.case.escrow.chain_id).cloned();
    let destination = world.chain(quote.destination.asset().chain()).cloned();
    let (Some(source), Some(destination)) = (source, destination) else { return };
    let order = DeliveryOrder {
        payment_id: award.case.payment_id.clone(),
        quote_hash: award.quote_hash,
        destination: quote.destination.clone(),
        amount: quote.fulfillment_amount,
        delivery_account: quote.delivery_account.clone(),
        proxy: quote.fulfillment_proxy.clone(),
        fulfill_by: unix_seconds(quote.fulfill_by),
    };
    Job { world, settler, award, quote, source, destination, order }.run().await;
}

impl Job {
    /// What the settler's clock says, in UNIX seconds.
    fn seconds(&self) -> u64 {
        unix_seconds(self.settler.now(&self.world))
    }

    async fn run(self) {
        let refund_after = self.award.case.escrow.refund_after;
        // A third party that saw the award spends the key that it takes for the delivery's.
        let mut extra = true;
        let mut reported = false;
        let mut forged = self.settler.plan.character == Character::Liar;
        let dies = self.death();
        while self.seconds() <= refund_after + 600 {
            sleep(LOOK_EVERY).await;
            let Some(escrow) = self.escrow().await else {
                match self.seconds() <= self.order.fulfill_by + HOPES_FOR {
                    true => continue,
                    false => return,
                }
            };
            if matches!(escrow, State::Released | State::Refunded) {
                return;
            }
            if forged {
                self.forge().await;
                forged = false;
            }
            if self.settler.plan.character == Character::Liar {
                self.world.reports.report_delivery(&self.order.payment_id);
                self.fetch(refund_after).await;
                continue;
            }
            if self.settler.plan.character == Character::Fading || dies == Some(Death::BeforeDelivery) {
                return;
            }
            if self.settler.plan.character == Character::Overdue {
                return self.deliver_late().await;
            }
            if self.settler.plan.character == Character::Tardy && self.seconds() + 8 < self.order.fulfill_by {
                continue;
            }
            let state = self.destination.reader().delivery_state(&self.order).await;
            if matches!(state, Ok(DeliveryState::Seen(_) | DeliveryState::Final(_))) && !reported {
                self.world.reports.report_delivery(&self.order.payment_id);
                reported = true;
                if dies == Some(Death::AfterReport) {
                    return;
                }
            }
            match state {
                Ok(DeliveryState::NotSeen) => {
                    self.deliver(extra);
                    if dies == Some(Death::AfterDelivery) {
                        return;
                    }
                    extra = false;
                    // A transaction has a few blocks to be mined before it is sent again.
                    sleep(Duration::from_secs(25)).await;
                    if self.asks_too_much() {
                        self.fetch(refund_after).await;
                    }
                }
                Ok(DeliveryState::Seen(_)) if self.asks_too_much() => self.fetch(refund_after).await,
                Ok(DeliveryState::Final(_)) if self.settler.plan.character == Character::Gone => return,
                Ok(DeliveryState::Final(_)) => self.fetch(refund_after).await,
                Ok(DeliveryState::Impossible) => return,
                Ok(DeliveryState::Seen(_)) | Err(_) => {}
            }
        }
    }

    /// When the settler dies of this award, if it does.
    fn death(&self) -> Option<Death> {
        (self.settler.plan.character == Character::Dying).then(|| match self.award.quote_hash.0[2] % 3 {
            0 => Death::BeforeDelivery,
            1 => Death::AfterDelivery,
            _ => Death::AfterReport,
        })
    }

    /// Delivers as soon as the promise is over, again and again, whoever the escrow is reserved for by then: as promised, and once
    /// with a promise that nobody was given.
    async fn deliver_late(&self) {
        while self.seconds() <= self.order.fulfill_by {
            sleep(Duration::from_secs(1)).await;
        }
        for tried in 0..LATE_TRIES {
            let record = self.source.escrow_record(&self.order.payment_id).ok().flatten();
            let is_taken = record.is_some_and(|record| record.quote_hash != self.order.quote_hash);
            coverage::fault(match is_taken {
                true => "delivery after another settler took the place",
                false => "delivery after the promise",
            });
            self.fulfill(self.promised());
            if tried == LATE_TRIES / 2 {
                self.fulfill(Delivered { fulfill_by: self.seconds() + 600, ..self.promised() });
            }
            sleep(LOOK_EVERY * 2).await;
        }
    }

    /// The escrow's state at the depth that a settler trusts; `None` unless the escrow is the one the quote is for.
    async fn escrow(&self) -> Option<State> {
        let contract = &self.award.case.escrow.contract;
        let (_, record) = self.source.reader().reservation(&self.order.payment_id, contract).await.ok()?;
        let record = record?;
        let is_mine = record.quote_hash == self.award.quote_hash
            && record.settler == Some(self.source.account(&self.settler.name))
            && record.source_amount == Some(self.quote.source_amount);
        // One of an older version takes a larger deposit for that of another quote, where the price alone is deposited else.
        if !self.settler.plan.follows && self.source.deposits_the_price() && record.deposited != record.source_amount {
            return None;
        }
        let right = record.is_of(&self.award.case.escrow) && (is_mine || mutant!("any-reservation-is-mine"));
        right.then_some(record.state)
    }

    fn deliver(&self, first: bool) {
        let promised = self.promised();
        let amount = promised.amount;
        let (token, coin) = (self.destination.token(), self.destination.coin());
        match self.settler.plan.character {
            Character::WrongAmount if amount > U256::from(1) => {
                self.fulfill(Delivered { amount: amount - U256::from(1), ..promised });
            }
            Character::WrongRecipient => self.fulfill(Delivered { recipient: promised.settler.clone(), ..promised }),
            Character::WrongToken => {
                let other: &AssetId = if promised.asset == *coin { token } else { coin };
                self.fulfill(Delivered { asset: other.clone(), ..promised });
            }
            Character::Twice => {
                self.fulfill(promised.clone());
                self.fulfill(promised.clone());
                if first {
                    self.fulfill(Delivered { amount: amount + U256::from(1), ..promised });
                }
            }
            _ => self.fulfill(promised),
        }
    }

    /// What was quoted.
    fn promised(&self) -> Delivered {
        Delivered {
            payment: self.order.payment_id.on_chain(),
            quote_hash: self.order.quote_hash,
            settler: self.account(),
            asset: self.order.destination.asset().clone(),
            recipient: self.order.destination.account().clone(),
            amount: units(self.order.amount),
            fulfill_by: self.order.fulfill_by,
        }
    }

    /// Whether it asks to be paid for what it delivered at once, though that is not settled, or not what it promised.
    fn asks_too_much(&self) -> bool {
        use Character::{Twice, WrongAmount, WrongRecipient, WrongToken};
        matches!(self.settler.plan.character, Twice | WrongAmount | WrongRecipient | WrongToken)
    }

    /// Its account on the destination.
    fn account(&self) -> Account {
        self.destination.account(&self.settler.name)
    }

    fn fulfill(&self, delivery: Delivered) {
        let amount = delivery.amount;
        self.world.note(format!("{:?} delivers {amount} for {}", self.settler.plan.character, self.order.payment_id));
        self.sent(self.destination.deliver(&self.settler.name, &delivery));
    }

    fn sent(&self, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            self.world.note(format!("a settler's transaction is refused: {error}"));
        }
    }

    /// Has the delivery attested, if the verifiers do, and brings the attestation to the escrow.
    async fn fetch(&self, refund_after: u64) {
        if self.settler.plan.character == Character::Idle && self.seconds() + 60 < refund_after {
            return;
        }
        if self.world.verifiers_are_away() {
            return;
        }
        let Some(attestation) = self.world.verifiers().word(&self.world, &self.award.case, Question::Delivery).await
        else {
            return;
        };
        self.release(&attestation);
        sleep(Duration::from_secs(20)).await;
    }

    fn release(&self, attestation: &str) {
        let call = EscrowCall::Release { attestation: attestation.to_owned() };
        self.sent(self.source.send(&self.settler.name, &self.order.payment_id, &call));
    }

    /// Reports a delivery that was not made, with an attestation by a key that may not attest.
    async fn forge(&self) {
        let statement = Statement::Delivery {
            payment_id: self.order.payment_id.clone(),
            quote_hash: self.order.quote_hash,
            payout_account: self.quote.payout_account.clone(),
        };
        if let Some(forged) = self.source.sign(&self.settler.name, &statement).await {
            self.release(&forged);
        }
    }
}
