//! A thief with the keys of members of the verifier set, fewer than its threshold. It signs what it likes with them, and tries to
//! have escrows paid out or returned.

pub mod reserver;
pub mod submitter;

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use events::{Account, Hash32, PaymentId, VerifierMember, VerifierSet, quote::SignedQuote};
use sagas::ports::Statement;

use super::{ChainHandle, THIRD_PARTY, World, invariants::require};
use crate::{
    coverage,
    family::{EscrowCall, Refusal, account_of},
    plan::{Conduct, MemberPlan},
    random::RandomSource,
};

/// An escrow that may be worth a try.
pub struct Prey {
    /// The payment.
    pub payment_id: PaymentId,
    /// The chain of its escrow.
    pub source: ChainHandle,
    /// The quote that it is reserved for.
    pub quote: SignedQuote,
    /// The non-deliveries of its reservations that are recorded, and the quotes that they are of. Anybody can have them.
    pub nondeliveries: Vec<(Hash32, String)>,
}

/// Tries for as long as it runs; in worlds whose payers trust a single verifier there is nothing to steal.
pub async fn steal(world: Arc<World>) {
    if !world.plan.verifiers.is_set() {
        return;
    }
    let random = world.random("thief");
    loop {
        sleep(Duration::from_millis(random.number(10_000..=60_000))).await;
        let prey = world.invariants().prey(&world);
        if prey.is_empty() {
            continue;
        }
        let prey = &prey[random.number(0..=prey.len() as u64 - 1) as usize];
        rob(&world, &random, prey).await;
    }
}

async fn rob(world: &World, random: &RandomSource, prey: &Prey) {
    let is_release = random.chance(500);
    let (payment_id, quote_hash) = (prey.payment_id.clone(), prey.quote.hash());
    let statement = match is_release {
        true => {
            let payout_account = prey.quote.quote().payout_account.clone();
            Statement::Delivery { payment_id, quote_hash, payout_account }
        }
        false => Statement::NonDelivery { payment_id, quote_hash },
    };
    let Some(attestation) = attestation(world, random, &prey.source, &statement).await else { return };
    let attestation = format!("0x{}", hex::encode(attestation));
    let call = match is_release {
        true => EscrowCall::Release { attestation },
        false => EscrowCall::Cancel { non_delivery: attestation },
    };
    let answer = prey.source.attempt(THIRD_PARTY, &prey.payment_id, &call);
    if answer == Err(Refusal::Releaser) {
        coverage::fault("stolen keys of a verifier set are tried");
    }
    world
        .judge(require(answer.is_err(), "too few keys move nothing", || format!("{statement:?} is taken of {call:?}")));
    world.note(format!(
        "a thief tries {} of {}",
        if is_release { "a release" } else { "a cancellation" },
        prey.payment_id
    ));
    // A refusal concerns the thief alone.
    drop(prey.source.send(THIRD_PARTY, &prey.payment_id, &call));
}

/// What looks like the word of the set, made with fewer keys than it needs.
async fn attestation(
    world: &World,
    random: &RandomSource,
    source: &ChainHandle,
    statement: &Statement,
) -> Option<Vec<u8>> {
    let verifiers = world.verifiers();
    let family = source.family;
    let set = world.verifier(family)?.set.as_ref()?;
    let (n, k) = (set.members().len(), usize::from(world.plan.verifiers.threshold));
    let place = |account: &Account| set.members().iter().position(|member| member.account == *account);
    let lost = |plan: &MemberPlan| plan.stolen || plan.conduct == Conduct::Perjured;
    let mut held: Vec<(usize, &str)> = Vec::new();
    for member in verifiers.members().iter().filter(|member| lost(&member.plan)) {
        held.push((place(&member.account(family))?, &member.name));
    }
    let signature_bytes = signature(source, "impostor", statement).await?.len();
    held.sort_by_key(|(place, _)| *place);
    let mut signed: Vec<(usize, Vec<u8>)> = Vec::new();
    for (place, key) in &held {
        signed.push((*place, signature(source, key, statement).await?));
    }
    let mut head = vec![world.plan.verifiers.threshold, u8::try_from(n).ok()?];
    head.extend(set.members().iter().flat_map(|member| member.account.to_bytes()));
    let free = (0..n).filter(|place| held.iter().all(|(held, _)| held != place)).take(k - signed.len());
    let free: Vec<_> = free.collect();
    match random.number(0..=6) {
        // Fewer than the threshold.
        0 => {}
        // One of them as often as it takes.
        1 => {
            let again = signed.first().cloned().unwrap_or((0, vec![0; signature_bytes]));
            signed.resize(k, again);
        }
        // The same signature in the places of others.
        2 => {
            let bytes = signed.first().map_or_else(|| vec![0; signature_bytes], |(_, bytes)| bytes.clone());
            signed.extend(free.into_iter().map(|place| (place, bytes.clone())));
        }
        // The thief's own key in the places of others.
        3 => {
            let bytes = signature(source, "impostor", statement).await?;
            signed.extend(free.into_iter().map(|place| (place, bytes.clone())));
        }
        // What honest members signed of another quote.
        4 => {
            let mut other = statement.clone();
            let (Statement::Delivery { quote_hash, .. } | Statement::NonDelivery { quote_hash, .. }) = &mut other;
            quote_hash.0 = random.bytes();
            for place in free {
                let member = verifiers.member(&set.members()[place].account)?;
                signed.push((place, signature(source, &member.name, &other).await?));
            }
        }
        // A threshold that the keys reach.
        5 => {
            if signed.is_empty() {
                signed.push((0, signature(source, "impostor", statement).await?));
                let account = account_of("impostor", family).to_bytes();
                head[2..2 + account.len()].copy_from_slice(&account);
            }
            head[0] = u8::try_from(signed.len()).ok()?;
        }
        // A set of the thief's own.
        _ => return own_word(source, statement, k).await,
    }
    signed.sort_by_key(|(place, _)| *place);
    let signed = signed.into_iter().flat_map(|(place, bytes)| [vec![place as u8], bytes].concat());
    Some([head, signed.collect()].concat())
}

/// The word of a set that the thief made up, which is right in itself.
async fn own_word(source: &ChainHandle, statement: &Statement, k: usize) -> Option<Vec<u8>> {
    let names: Vec<_> = (0..k).map(|number| format!("thief {number}")).collect();
    let account = |name: &String| account_of(name, source.family);
    let member = |name| VerifierMember { account: account(name), endpoint: "http://thief".to_owned() };
    let mut signed = Vec::new();
    for name in &names {
        signed.push((account(name), source.sign(name, statement).await?));
    }
    let members = names.iter().map(member).collect();
    let set = VerifierSet::new(u8::try_from(k).ok()?, members).ok()?;
    let word = set.attestation(signed.iter().map(|(account, signature)| (account, signature.as_str())))?;
    hex::decode(word.trim_start_matches("0x")).ok()
}

async fn signature(source: &ChainHandle, name: &str, statement: &Statement) -> Option<Vec<u8>> {
    hex::decode(source.sign(name, statement).await?.trim_start_matches("0x")).ok()
}
