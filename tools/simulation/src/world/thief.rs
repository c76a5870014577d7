//! A thief with the keys of members of the verifier set, fewer than its threshold. It signs what it likes with them, and tries to
//! have escrows paid out or returned.

pub mod reserver;

use std::{sync::Arc, time::Duration};

use alloy::{
    primitives::U256,
    signers::local::PrivateKeySigner,
    sol_types::{SolCall, SolError},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use chains_evm::attest;
use escrow_abi::{contracts::GatewayEscrow, record::EscrowTerms};
use events::{Account, Hash32, PaymentId, VerifierMember, VerifierSet, quote::SignedQuote};
use sagas::ports::Statement;

use super::{ChainHandle, World, invariants::require, signer};
use crate::{
    chain::NodeKind,
    coverage,
    plan::{Conduct, MemberPlan},
    random::RandomSource,
};

/// Bytes of a member in a set's attestation, behind threshold and number.
const MEMBER_BYTES: usize = 20;

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
    let Ok(EscrowTerms(terms)) = prey.source.lock().escrow_terms(&prey.payment_id) else { return };
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
    let data = match is_release {
        true => GatewayEscrow::releaseCall { e: terms, attestation: attestation.into() }.abi_encode(),
        false => GatewayEscrow::cancelCall { e: terms, nonDelivery: attestation.into() }.abi_encode(),
    };
    let (sender, escrow) = (world.third_party(), prey.source.contracts.escrow);
    let answer = prey.try_out(world, &data);
    let refusal = GatewayEscrow::ReleaserSignatureInvalid::SELECTOR;
    if answer.as_ref().is_err_and(|returned| returned.starts_with(&refusal)) {
        coverage::fault("stolen keys of a verifier set are tried");
    }
    world.judge(require(answer.is_err(), "too few keys move nothing", || {
        format!("{statement:?} is taken of 0x{}", hex::encode(&data))
    }));
    world.note(format!(
        "a thief tries {} of {}",
        if is_release { "a release" } else { "a cancellation" },
        prey.payment_id
    ));
    // A refusal concerns the thief alone.
    drop(prey.source.send(sender, escrow, U256::ZERO, data.into()));
}

impl Prey {
    /// What the escrow answers to a call of a stranger in the newest block; what it returns when it refuses.
    pub fn try_out(&self, world: &World, data: &[u8]) -> Result<(), Vec<u8>> {
        let (sender, escrow) = (world.third_party().address(), self.source.contracts.escrow);
        let data = format!("0x{}", hex::encode(data));
        let call = json!([{ "from": sender, "to": escrow, "data": data }, "latest"]);
        let answer = self.source.lock().rpc(&NodeKind::Honest, "eth_call", &call);
        answer.map(|_| ()).map_err(|fault| returned(fault.data.as_ref()))
    }
}

fn returned(data: Option<&Value>) -> Vec<u8> {
    let digits = data.and_then(Value::as_str).unwrap_or_default().trim_start_matches("0x");
    hex::decode(digits).unwrap_or_default()
}

/// What looks like the word of the set, made with fewer keys than it needs.
async fn attestation(
    world: &World,
    random: &RandomSource,
    source: &ChainHandle,
    statement: &Statement,
) -> Option<Vec<u8>> {
    let verifiers = world.verifiers();
    let set = world.verifier.set.as_ref()?;
    let (n, k) = (set.members().len(), usize::from(world.plan.verifiers.threshold));
    let place = |account: &Account| set.members().iter().position(|member| member.account == *account);
    let lost = |plan: &MemberPlan| plan.stolen || plan.conduct == Conduct::Perjured;
    let mut held: Vec<(usize, PrivateKeySigner)> = Vec::new();
    for member in verifiers.members().iter().filter(|member| lost(&member.plan)) {
        held.push((place(&member.account)?, member.key.clone()));
    }
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
            let again = signed.first().cloned().unwrap_or((0, vec![0; 65]));
            signed.resize(k, again);
        }
        // The same signature in the places of others.
        2 => {
            let bytes = signed.first().map_or_else(|| vec![0; 65], |(_, bytes)| bytes.clone());
            signed.extend(free.into_iter().map(|place| (place, bytes.clone())));
        }
        // The thief's own key in the places of others.
        3 => {
            let bytes = signature(source, &signer("impostor"), statement).await?;
            signed.extend(free.into_iter().map(|place| (place, bytes.clone())));
        }
        // What honest members signed of another quote.
        4 => {
            let mut other = statement.clone();
            let (Statement::Delivery { quote_hash, .. } | Statement::NonDelivery { quote_hash, .. }) = &mut other;
            quote_hash.0 = random.bytes();
            for place in free {
                let key = &verifiers.member(&set.members()[place].account)?.key;
                signed.push((place, signature(source, key, &other).await?));
            }
        }
        // A threshold that the keys reach.
        5 => {
            let key = signer("impostor");
            if signed.is_empty() {
                signed.push((0, signature(source, &key, statement).await?));
                head[2..2 + MEMBER_BYTES].copy_from_slice(key.address().as_slice());
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
    let keys: Vec<_> = (0..k).map(|number| signer(&format!("thief {number}"))).collect();
    let named = |key: &PrivateKeySigner| {
        let account = escrow_abi::contracts::account(key.address())?;
        Some(VerifierMember { account, endpoint: "http://thief".to_owned() })
    };
    let members: Vec<_> = keys.iter().map(named).collect::<Option<_>>()?;
    let mut signed = Vec::new();
    for (key, member) in keys.iter().zip(&members) {
        let bytes = signature(source, key, statement).await?;
        signed.push((member.account.clone(), format!("0x{}", hex::encode(bytes))));
    }
    let set = VerifierSet::new(u8::try_from(k).ok()?, members).ok()?;
    let word = set.attestation(signed.iter().map(|(account, signature)| (account, signature.as_str())))?;
    hex::decode(word.trim_start_matches("0x")).ok()
}

async fn signature(source: &ChainHandle, key: &PrivateKeySigner, statement: &Statement) -> Option<Vec<u8>> {
    let escrow = source.contracts.escrow;
    let signed = attest::sign_statement(&key.clone().into(), statement, source.evm_id, escrow).await.ok()?;
    hex::decode(signed.trim_start_matches("0x")).ok()
}
