use std::{
    cell::RefCell,
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use chains::perform::PerformError;
use events::VerifierSet;
use protocol::Version;
use sagas::ports::Transient;
use tokio::{sync::Semaphore, time::Instant};

use super::*;

/// What a verifier does when it is asked.
#[derive(Clone)]
enum Does {
    Signs,
    /// Gives somebody else's signature.
    Lies,
    Waits,
    Refuses,
    Away,
    /// Says nothing at all.
    Silent,
    /// Signs as soon as there is a permit.
    Slow(Arc<Semaphore>),
}

/// The verifiers of a payment, `n` of them; each does what it is told.
struct Verifiers {
    accounts: Vec<Account>,
    does: RefCell<BTreeMap<Account, Does>>,
    asked: Arc<Mutex<Vec<Account>>>,
}

impl Verifiers {
    fn new(does: &[Does]) -> Self {
        let accounts: Vec<Account> = (1..=does.len()).map(|n| format!("0x{n:040x}").parse().unwrap()).collect();
        let does = accounts.iter().cloned().zip(does.iter().cloned()).collect();
        Self { accounts, does: RefCell::new(does), asked: Arc::default() }
    }

    fn member(account: &Account) -> VerifierMember {
        VerifierMember { account: account.clone(), endpoint: format!("https://{account}.example") }
    }

    /// A set of them all, of which `threshold` have to sign.
    fn set(&self, threshold: u8) -> VerifierRef {
        VerifierRef::of(VerifierSet::new(threshold, self.accounts.iter().map(Self::member).collect()).unwrap()).unwrap()
    }

    fn tell(&self, number: usize, does: Does) {
        self.does.borrow_mut().insert(self.accounts[number].clone(), does);
    }

    /// How often each was asked since the last call.
    fn asked(&self) -> Vec<usize> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        self.accounts.iter().map(|account| asked.iter().filter(|one| *one == account).count()).collect()
    }

    async fn gather(&self, attestations: &mut Attestations) -> Result<Option<String>, Missing> {
        let ask = |member: VerifierMember| {
            self.asked.lock().unwrap().push(member.account.clone());
            let does = self.does.borrow()[&member.account].clone();
            async move { does.answer(&member.account).await }
        };
        attestations.gather(ask, |member, given| given == signature(member)).await
    }
}

impl Does {
    async fn answer(self, account: &Account) -> Result<AttestationResponse, verifier::Error> {
        let (status, signature, reason) = match self {
            Self::Signs => (AttestationStatus::Attested, Some(signature(account)), None),
            Self::Lies => (AttestationStatus::Attested, Some(format!("0x{}", "ee".repeat(65))), None),
            Self::Waits => (AttestationStatus::Pending, None, Some("not deep enough".to_owned())),
            Self::Refuses => (AttestationStatus::Refused, None, Some("never".to_owned())),
            Self::Away => return Err(verifier::Error::Status(503)),
            Self::Silent => pending().await,
            Self::Slow(told) => {
                told.acquire().await.unwrap().forget();
                (AttestationStatus::Attested, Some(signature(account)), None)
            }
        };
        Ok(AttestationResponse { version: Version, status, signature, reason, follows_reassignments: true })
    }
}

/// A signature that names its signer.
fn signature(account: &Account) -> String {
    format!("0x{}{}", "00".repeat(45), &account.as_str()[2..])
}

/// The word of the set by those of its members.
fn word(verifiers: &Verifiers, set: &VerifierRef, signers: [usize; 2]) -> Option<String> {
    let signed = signers.map(|number| (&verifiers.accounts[number], signature(&verifiers.accounts[number])));
    set.attestation(signed.iter().map(|(account, signature)| (*account, signature.as_str())))
}

#[tokio::test(start_paused = true)]
async fn two_of_three_are_enough_beside_one_that_is_silent_or_lies_or_is_away() {
    for third in [Does::Silent, Does::Lies, Does::Away, Does::Refuses, Does::Waits] {
        for number in 0..3 {
            let verifiers = Verifiers::new(&[Does::Signs, Does::Signs, Does::Signs]);
            verifiers.tell(number, third.clone());
            let set = verifiers.set(2);
            let mut attestations = Attestations::new(set.clone());
            let begun = Instant::now();
            let mut gathered = None;
            // Those that answer are not waited for: who has not signed is asked again.
            for _ in 0..3 {
                gathered = gathered.or(verifiers.gather(&mut attestations).await.unwrap());
            }
            let signers = [[1, 2], [0, 2], [0, 1]][number];
            assert_eq!(gathered, word(&verifiers, &set, signers));
            assert!(gathered.is_some() && begun.elapsed() == Duration::ZERO);
            assert_eq!(attestations.word(), gathered);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_and_a_lying_member_leave_the_word_to_the_other_two() {
    let verifiers = Verifiers::new(&[Does::Silent, Does::Lies, Does::Signs, Does::Waits]);
    let set = verifiers.set(2);
    let mut attestations = Attestations::new(set.clone());
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), None);
    assert_eq!(verifiers.asked(), [1, 1, 1, 1]);
    verifiers.tell(3, Does::Signs);
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), word(&verifiers, &set, [2, 3]));
    // What was signed is kept, and who has not answered is not asked again meanwhile.
    assert_eq!(verifiers.asked(), [0, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_taken_up_when_it_is_there() {
    let told = Arc::new(Semaphore::new(0));
    let verifiers = Verifiers::new(&[Does::Slow(told.clone()), Does::Signs, Does::Waits]);
    let set = verifiers.set(2);
    let mut attestations = Attestations::new(set.clone());
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), None, "two others have answered");
    told.add_permits(1);
    // The third is not heard: it is silent from now on.
    verifiers.tell(2, Does::Silent);
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), word(&verifiers, &set, [0, 1]));
    assert_eq!(verifiers.asked(), [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn it_is_refused_only_when_too_few_are_left() {
    let verifiers = Verifiers::new(&[Does::Refuses, Does::Waits, Does::Silent]);
    let mut attestations = Attestations::new(verifiers.set(2));
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), None);
    verifiers.tell(1, Does::Refuses);
    let outcome = verifiers.gather(&mut attestations).await;
    assert!(matches!(&outcome, Err(Missing::Refused(reason)) if reason == "never"), "{outcome:?}");
    // Nothing is final: they may see later what they do not see now.
    for number in [0, 1] {
        verifiers.tell(number, Does::Signs);
    }
    assert!(verifiers.gather(&mut attestations).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn faults_are_told_when_the_rest_is_not_enough() {
    let verifiers = Verifiers::new(&[Does::Away, Does::Lies, Does::Signs]);
    let mut attestations = Attestations::new(verifiers.set(2));
    let outcome = verifiers.gather(&mut attestations).await;
    assert!(matches!(outcome, Err(Missing::Verifier(_) | Missing::Forged(_))), "{outcome:?}");
    verifiers.tell(0, Does::Signs);
    assert!(verifiers.gather(&mut attestations).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_the_escrow_refuses_is_asked_for_anew() {
    let away = PerformError::Transient(Transient::unreachable("the node is away"));
    let late = PerformError::TooLate("past it".to_owned());
    let verifiers = Verifiers::new(&[Does::Signs, Does::Signs]);
    let mut attestations = Attestations::new(verifiers.set(2));
    assert!(verifiers.gather(&mut attestations).await.unwrap().is_some());
    attestations.release_failed(&away);
    assert!(attestations.word().is_some());
    attestations.release_failed(&late);
    assert_eq!(attestations.word(), None);
    assert_eq!(verifiers.asked(), [1, 1]);
    assert!(verifiers.gather(&mut attestations).await.unwrap().is_some());
    assert_eq!(verifiers.asked(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_single_verifier_is_taken_at_its_word() {
    let verifiers = Verifiers::new(&[Does::Waits]);
    let VerifierMember { account, endpoint } = Verifiers::member(&verifiers.accounts[0]);
    let mut attestations = Attestations::new(VerifierRef::single(account, endpoint));
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), None);
    verifiers.tell(0, Does::Refuses);
    assert!(matches!(verifiers.gather(&mut attestations).await, Err(Missing::Refused(_))));
    verifiers.tell(0, Does::Away);
    assert!(matches!(verifiers.gather(&mut attestations).await, Err(Missing::Verifier(_))));
    // It may be a contract's, which no key explains; whether it holds is the escrow's to say.
    verifiers.tell(0, Does::Lies);
    assert_eq!(verifiers.gather(&mut attestations).await.unwrap(), Some(format!("0x{}", "ee".repeat(65))));
    attestations.release_failed(&PerformError::Transient(Transient::unreachable("the node is away")));
    assert_eq!(attestations.word(), None);
}
