//! The fulfillment verifiers of a run: the real service for each, with a key and nodes of its own, and the ways in which those of
//! a set fail or lie.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use alloy::{primitives::U256, signers::Signature};
use tokio::time::sleep;

use chains::{
    escrow::State,
    verifier::{Outcome, Verifier},
};
use events::{Account, Family, VerifierMember, VerifierSet, event::VerifierRef, quote::SignedQuote};
use sagas::ports::{Statement, Transient, VerificationCase};

use super::{SetupError, World, rpc_faults::rpc_faults};
use crate::{
    chain::{NodeKind, RpcOutcome},
    coverage,
    family::account_of,
    plan::{Conduct, MemberPlan, Span, VerifiersPlan},
    random::RandomSource,
};

/// After so long nobody waits for an answer any more.
const SILENCE: Duration = Duration::from_secs(5);
/// The order of the curve of signatures.
const CURVE_ORDER: U256 =
    U256::from_limbs([0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff]);

/// A verifier, with a key on each family of chains.
pub struct Member {
    /// Its name, of which its keys are made.
    pub name: String,
    /// Its behaviour.
    pub plan: MemberPlan,
    service: Verifier,
    random: RandomSource,
}

/// All verifiers of a run.
#[derive(Default)]
pub struct Verifiers {
    members: Vec<Member>,
}

/// What is asked of a verifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Whether it was delivered.
    Delivery,
    /// Whether nothing was delivered, and nothing can be any more.
    NonDelivery,
}

impl Question {
    /// What is signed when it is so.
    pub fn statement(self, case: &VerificationCase) -> Option<Statement> {
        let quote = SignedQuote::parse(&case.quote_document).ok()?;
        let (payment_id, quote_hash) = (case.payment_id.clone(), quote.hash());
        Some(match self {
            Self::Delivery => {
                Statement::Delivery { payment_id, quote_hash, payout_account: quote.quote().payout_account.clone() }
            }
            Self::NonDelivery => Statement::NonDelivery { payment_id, quote_hash },
        })
    }
}

/// The name of verifier `index`.
fn name(plan: &VerifiersPlan, index: usize) -> String {
    match plan.is_set() {
        true => format!("verifier {index}"),
        false => "releaser".to_owned(),
    }
}

/// What payers whose source is on a chain of `family` name as the verifiers of `plan`.
///
/// # Errors
/// [`SetupError::Connect`] when they are no set.
pub fn named(plan: &VerifiersPlan, family: Family) -> Result<VerifierRef, SetupError> {
    let refused = |what: &str| SetupError::Connect(format!("{plan:?}: {what}"));
    let members = (0..plan.members.len()).map(|index| VerifierMember {
        account: account_of(&name(plan, index), family),
        endpoint: format!("http://verifier-{index}"),
    });
    let set = VerifierSet::new(plan.threshold, members.collect()).map_err(|error| refused(&error.to_string()))?;
    VerifierRef::of(set).ok_or_else(|| refused("an id of zero"))
}

impl Verifiers {
    /// The verifiers of `world`, which it holds itself.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(world: &Arc<World>) -> Result<Self, SetupError> {
        let plan = &world.plan.verifiers;
        let mut members = Vec::new();
        for (index, member) in plan.members.iter().enumerate() {
            let random = match plan.is_set() {
                true => world.random(&format!("verifier {index}")),
                false => world.random("verifier"),
            };
            let (name, mut service) = (name(plan, index), Verifier::default());
            for handle in &world.chains {
                let weak = Arc::downgrade(world);
                let faults = rpc_faults(weak.clone(), None, random.clone());
                service = handle.verifier(service, &name, Box::new(apart(weak, member.apart, faults)))?;
            }
            members.push(Member { name, plan: *member, service, random });
        }
        Ok(Self { members })
    }

    /// All of them.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The verifier with this account.
    pub fn member(&self, account: &Account) -> Option<&Member> {
        self.members.iter().find(|member| member.account(account.family()) == *account)
    }

    /// How many sign at once what is so, now.
    pub fn willing(&self, world: &World) -> usize {
        let is_willing = |member: &&Member| matches!(member.conduct(world), Conduct::Honest | Conduct::Perjured);
        self.members.iter().filter(is_willing).count()
    }

    /// What the verifier with this account answers.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn answer(
        &self,
        world: &World,
        account: &Account,
        case: &VerificationCase,
        question: Question,
    ) -> Result<Option<String>, Transient> {
        let Some(member) = self.member(account) else {
            return Err(Transient::unreachable(format!("{account} is no verifier")));
        };
        if question == Question::Delivery && !member.plan.follows && is_unknown_to_older(world, case) {
            coverage::fault("older verifier takes a larger deposit for another");
            return Ok(None);
        }
        let conduct = member.conduct(world);
        if let Some(name) = fault_of(conduct) {
            coverage::fault(name);
        }
        match conduct {
            Conduct::Honest => member.examine(case, question).await,
            Conduct::Late => {
                sleep(Duration::from_millis(member.random.number(1_500..=12_000))).await;
                member.examine(case, question).await
            }
            Conduct::Silent => {
                sleep(SILENCE).await;
                Err(Transient::unreachable("the verifier is silent"))
            }
            Conduct::Denying => Ok(None),
            Conduct::Perjured => Ok(sign(world, &member.name, case, question).await),
            Conduct::Garbling => {
                let right = sign(world, &member.name, case, question).await;
                Ok(right.and_then(|right| garbled(&right, account.family(), &member.random)))
            }
            Conduct::Forging => Ok(sign(world, "impostor", case, question).await),
            Conduct::Copying => match self.members.iter().find(|other| other.name != member.name) {
                Some(other) => other.examine(case, question).await,
                None => Ok(None),
            },
        }
    }

    /// What the escrow takes for the word of all about `case`, as a settler or a stranger gathers it: it asks one after the other,
    /// another one first for each payment, and believes nobody.
    pub async fn word(&self, world: &World, case: &VerificationCase, question: Question) -> Option<String> {
        let statement = question.statement(case)?;
        let handle = world.chain(&case.escrow.chain_id)?;
        let first = usize::from(case.payment_id.on_chain().0[0]) % self.members.len().max(1);
        let mut signed: Vec<(Account, String)> = Vec::new();
        for member in self.members.iter().cycle().skip(first).take(self.members.len()) {
            let account = member.account(handle.family);
            let answer = self.answer(world, &account, case, question).await;
            let Ok(Some(signature)) = answer else { continue };
            if handle.is_signed_by(&account, &statement, &signature) {
                signed.push((account, signature));
            }
            if signed.len() == usize::from(world.plan.verifiers.threshold) {
                break;
            }
        }
        let signed = signed.iter().map(|(account, signature)| (account, signature.as_str()));
        world.verifier(handle.family)?.attestation(signed)
    }
}

impl Member {
    /// Its account on chains of `family`.
    pub fn account(&self, family: Family) -> Account {
        account_of(&self.name, family)
    }

    fn conduct(&self, world: &World) -> Conduct {
        match self.plan.span.holds(world.elapsed()) {
            true => self.plan.conduct,
            false => Conduct::Honest,
        }
    }

    async fn examine(&self, case: &VerificationCase, question: Question) -> Result<Option<String>, Transient> {
        let outcome = match question {
            Question::Delivery => self.service.attest_delivery(case).await?,
            Question::NonDelivery => self.service.attest_non_delivery(case).await?,
        };
        Ok(match outcome {
            Outcome::Attested(signature) => Some(signature),
            Outcome::NotYet(_) | Outcome::Refused(_) => None,
        })
    }
}

/// Whether the escrow holds more than its settler asks for, which older versions take for the price where nothing else is deposited.
fn is_unknown_to_older(world: &World, case: &VerificationCase) -> bool {
    let handle = world.chain(&case.escrow.chain_id).filter(|handle| handle.deposits_the_price());
    let record = handle.and_then(|handle| handle.escrow_record(&case.payment_id).ok().flatten());
    record.is_some_and(|record| record.state == State::Reserved && record.deposited != record.source_amount)
}

/// The statement that is asked for, signed with the key of `name`, whatever the chains say.
pub async fn sign(world: &World, name: &str, case: &VerificationCase, question: Question) -> Option<String> {
    let handle = world.chain(&case.escrow.chain_id)?;
    handle.sign(name, &question.statement(case)?).await
}

/// A right signature in a form that no escrow takes, or none at all.
fn garbled(right: &str, family: Family, random: &RandomSource) -> Option<String> {
    let mut bytes = hex::decode(right.trim_start_matches("0x")).ok()?;
    let way = random.number(0..=4);
    match (way, family) {
        (3, Family::Solana) => bytes = [random.bytes(), random.bytes()].concat(),
        (3, _) => bytes = [random.bytes().to_vec(), random.bytes().to_vec(), vec![27]].concat(),
        (4, _) => bytes.clear(),
        (0, Family::Solana) => bytes.truncate(63),
        // The half of it that is a number, out of its range.
        (1, Family::Solana) => bytes.last_mut().into_iter().for_each(|byte| *byte |= 0xf0),
        (2, Family::Solana) => bytes.rotate_left(32),
        (way, _) => {
            let signature = Signature::from_raw(&bytes).ok()?;
            match way {
                0 => bytes = signature.as_erc2098().to_vec(),
                // The recovery id itself instead of 27 and 28.
                1 => *bytes.last_mut()? -= 27,
                // The other signature of the same, with `s` in the upper half.
                _ => {
                    let other = Signature::new(signature.r(), CURVE_ORDER - signature.s(), !signature.v());
                    bytes = other.as_bytes().to_vec();
                }
            }
        }
    }
    Some(format!("0x{}", hex::encode(bytes)))
}

fn fault_of(conduct: Conduct) -> Option<&'static str> {
    match conduct {
        Conduct::Honest => None,
        Conduct::Late => Some("member of a verifier set answers late"),
        Conduct::Silent => Some("member of a verifier set is silent"),
        Conduct::Denying => Some("member of a verifier set denies all"),
        Conduct::Perjured => Some("member of a verifier set signs anything"),
        Conduct::Garbling => Some("member of a verifier set garbles its signature"),
        Conduct::Forging => Some("member of a verifier set signs with a wrong key"),
        Conduct::Copying => Some("member of a verifier set copies another"),
    }
}

/// The outcome of each call of a verifier whose nodes are apart from the others' for a time.
fn apart(
    world: Weak<World>,
    plan: Option<(NodeKind, Span)>,
    mut faults: impl FnMut(&str) -> RpcOutcome + Send + 'static,
) -> impl FnMut(&str) -> RpcOutcome + Send + 'static {
    move |method| {
        let outcome = faults(method);
        let is_apart = |world: Arc<World>, span: Span| !world.faults_ended() && span.holds(world.elapsed());
        match (&outcome, plan) {
            (RpcOutcome::Deliver(NodeKind::Honest), Some((view, span)))
                if world.upgrade().is_some_and(|world| is_apart(world, span)) =>
            {
                coverage::fault(match view {
                    NodeKind::OnFork => "member of a verifier set is on a dropped branch",
                    _ => "member of a verifier set is behind",
                });
                RpcOutcome::Deliver(view)
            }
            _ => outcome,
        }
    }
}
