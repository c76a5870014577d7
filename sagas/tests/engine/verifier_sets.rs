//! Payments whose releaser is a set of three verifiers, of which two have to sign.

use events::{
    Family, VerifierSet,
    event::{MemberAttested, Submitted, VerifierRef},
    verifier_set::SetAttestation,
};

use super::*;

/// What becomes of the members' answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Members {
    /// All attest at once.
    Answer,
    /// The first takes every question and keeps it.
    OneHangs,
    /// The first signs something else.
    OneLies,
    /// The first says that it is not so.
    OneDenies,
    /// The first takes every question and keeps it, and the second sees the delivery only at second 40.
    OneHangsOneLags,
    /// The first says that it is not so, and the second needs three seconds for an answer.
    OneDeniesOneSlow,
    /// As `OneDeniesOneSlow`, and the settler never delivers.
    UndeliveredOneDeniesOneSlow,
    /// Only the first answers, up to this second; then the second does, too.
    AloneUntil(i64),
    /// As `Answer`, and the settler never delivers.
    Undelivered,
    /// As `OneHangs`, and the settler never delivers.
    UndeliveredOneHangs,
    /// As `AloneUntil`, and the settler never delivers.
    UndeliveredAlone,
}

impl Members {
    pub fn vanishes(self) -> bool {
        matches!(self, Self::Undelivered | Self::UndeliveredOneHangs | Self::UndeliveredAlone)
            || self == Self::UndeliveredOneDeniesOneSlow
    }
}

pub fn account(n: u8) -> Account {
    format!("0x00000000000000000000000000000000000000a{n}").parse().unwrap()
}

fn verifier() -> VerifierRef {
    let member = |n| VerifierMember { account: account(n), endpoint: format!("http://127.0.0.1:{n}") };
    VerifierRef::of(VerifierSet::new(2, (1..=3).map(member).collect()).unwrap()).unwrap()
}

pub fn submission_to_a_set() -> Submitted {
    let verifier = verifier();
    let escrow = EscrowPlan { releaser: verifier.account.clone(), ..submission().escrow };
    Submitted { verifier, escrow, ..submission() }
}

/// The true signature of a member.
pub fn signature(member: &Account) -> String {
    let bytes = member.to_bytes();
    format!("0x{}", hex::encode([bytes[19]; 65]))
}

/// What a member answers.
pub async fn answer(world: &World, members: Members, member: &VerifierMember) -> Result<Option<String>, Transient> {
    let (first, second) = (member.account == account(1), member.account == account(2));
    let now = world.state.lock().unwrap().now;
    let silent = match members {
        Members::OneHangs | Members::UndeliveredOneHangs if first => return std::future::pending().await,
        Members::OneHangsOneLags if first => return std::future::pending().await,
        Members::OneHangsOneLags if second && now < 40 => return world.call(|_| None).await,
        Members::OneDeniesOneSlow | Members::UndeliveredOneDeniesOneSlow if first => return world.call(|_| None).await,
        Members::OneDeniesOneSlow | Members::UndeliveredOneDeniesOneSlow if second => {
            while world.state.lock().unwrap().now < now + 3 {
                tokio::task::yield_now().await;
            }
            false
        }
        Members::OneDenies if first => return world.call(|_| None).await,
        Members::OneLies if first => return world.call(|_| Some(signature(&account(9)))).await,
        Members::AloneUntil(until) => !first && (!second || now < until),
        Members::UndeliveredAlone => !first,
        _ => false,
    };
    match silent {
        true => Err(Transient::unreachable("verifier is silent")),
        false => world.call(|_| Some(signature(&member.account))).await,
    }
}

fn who(events: &[PaymentEvent]) -> Vec<Account> {
    let by = |event: &PaymentEvent| match event {
        PaymentEvent::DeliveryAttested(MemberAttested { member, .. })
        | PaymentEvent::NonDeliveryAttested(MemberAttested { member, .. }) => Some(member.clone()),
        _ => None,
    };
    events.iter().filter_map(by).collect()
}

/// The signers of the set's word on record, which has to be the set's.
fn signers(events: &[PaymentEvent]) -> Vec<Account> {
    let word = events.iter().find_map(|event| match event {
        PaymentEvent::FulfillmentConfirmed(confirmed) => Some(confirmed.attestation.clone()),
        PaymentEvent::Failed(failed) => match &failed.refund {
            RefundDue::ByNonDelivery { attestation } => Some(attestation.clone()),
            _ => None,
        },
        _ => None,
    });
    let word = SetAttestation::parse(Family::Evm, &word.unwrap()).unwrap();
    assert_eq!(word.id, verifier().account);
    for (member, bytes) in &word.signatures {
        assert_eq!(format!("0x{}", hex::encode(bytes)), signature(member));
    }
    word.signatures.into_iter().map(|(member, _)| member).collect()
}

#[tokio::test]
async fn two_of_three_release_whatever_the_third_does() {
    let ends = ["FulfillmentSeen", "DeliveryAttested", "DeliveryAttested", "FulfillmentConfirmed", "EscrowReleased"];
    for (members, signed) in [
        (Members::Answer, [1, 2]),
        (Members::OneHangs, [2, 3]),
        (Members::OneLies, [2, 3]),
        (Members::OneDenies, [2, 3]),
    ] {
        let (_, events) = live(World::new(Plot::Set(members))).await;
        assert_eq!(types(&events)[5..], ends, "{members:?}");
        assert_eq!(who(&events), signed.map(account), "{members:?}");
        assert_eq!(signers(&events), signed.map(account), "{members:?}");
    }
}

#[tokio::test]
async fn one_member_alone_completes_nothing_and_what_it_signed_is_kept_until_another_signs() {
    let plot = Plot::Set(Members::AloneUntil(70));
    let (undisturbed, events) = live(World::new(plot)).await;
    let ends = [
        "FulfillmentSeen",
        "FulfillmentFinalized",
        "DeliveryAttested",
        "AttestationAwaited",
        "DeliveryAttested",
        "FulfillmentConfirmed",
        "EscrowReleased",
    ];
    assert_eq!(types(&events)[5..], ends);
    assert_eq!(who(&events), [1, 2].map(account));
    assert_eq!(signers(&events), [1, 2].map(account));
    let calls = undisturbed.calls.load(Ordering::SeqCst);
    for stop_at in (1..=calls).flat_map(|number| [(number, false), (number, true)]) {
        let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
        assert_eq!(who(&events), [1, 2].map(account), "died at {stop_at:?}");
        assert_eq!(signers(&events), [1, 2].map(account), "died at {stop_at:?}");
        assert_eq!(types(&events).last(), Some(&"EscrowReleased"), "died at {stop_at:?}");
        assert_eq!(world.state.lock().unwrap().deposits.len(), 1, "died at {stop_at:?}");
    }
}

#[tokio::test]
async fn a_member_that_lags_is_asked_again_whether_another_answers_or_not() {
    let (world, events) = live(World::new(Plot::Set(Members::OneHangsOneLags))).await;
    assert_eq!(who(&events), [3, 2].map(account));
    assert_eq!(signers(&events), [2, 3].map(account));
    assert_eq!(types(&events).last(), Some(&"EscrowReleased"));
    let Some(PaymentEvent::FulfillmentConfirmed(confirmed)) =
        events.iter().find(|event| event.type_name() == "FulfillmentConfirmed")
    else {
        panic!("{events:?}")
    };
    assert!(confirmed.confirmed_at <= at(50), "{}", confirmed.confirmed_at);
    assert!(world.state.lock().unwrap().now < 100);
}

#[tokio::test]
async fn a_slow_member_is_heard_though_another_denies_at_once() {
    for members in [Members::OneDeniesOneSlow, Members::UndeliveredOneDeniesOneSlow] {
        let (world, events) = live(World::new(Plot::Set(members))).await;
        assert_eq!(who(&events), [3, 2].map(account), "{members:?}");
        assert_eq!(signers(&events), [2, 3].map(account), "{members:?}");
        assert!(world.state.lock().unwrap().now < 100, "{members:?}");
    }
}

#[tokio::test]
async fn a_set_that_stays_below_its_threshold_leaves_the_payment_completed_and_the_escrow_to_the_window() {
    let (_, events) = live(World::new(Plot::Set(Members::AloneUntil(i64::MAX)))).await;
    assert_eq!(types(&events).last(), Some(&"EscrowRefunded"));
    assert!(types(&events).contains(&"AttestationMissed"));
    assert_eq!(who(&events), [account(1)]);
}

#[tokio::test]
async fn two_of_three_return_the_money_of_what_was_not_delivered() {
    for (members, signed) in [(Members::Undelivered, [1, 2]), (Members::UndeliveredOneHangs, [2, 3])] {
        let (world, events) = live(World::new(Plot::Set(members))).await;
        let ends = ["NonDeliveryAttested", "NonDeliveryAttested", "Failed", "RefundPrepared", "EscrowRefunded"];
        assert_eq!(types(&events)[5..], ends, "{members:?}");
        assert_eq!(who(&events), signed.map(account), "{members:?}");
        assert_eq!(signers(&events), signed.map(account), "{members:?}");
        assert!(world.state.lock().unwrap().now < 100, "{members:?}");
    }
}

#[tokio::test]
async fn one_member_alone_cancels_nothing() {
    let (world, events) = live(World::new(Plot::Set(Members::UndeliveredAlone))).await;
    assert_eq!(types(&events)[5..], ["NonDeliveryAttested", "Failed", "RefundPrepared", "EscrowRefunded"]);
    let Some(PaymentEvent::Failed(failed)) = events.get(6) else { panic!("{events:?}") };
    assert_eq!(failed.refund, RefundDue::AfterWindow);
    assert!(world.state.lock().unwrap().now >= 100);
}
