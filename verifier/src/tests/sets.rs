//! Verifiers that sign as members of a set.

use chains::{
    config::{ChainConfig, CommonConfig},
    escrow::{EscrowRecord, QuotedEscrow, QuotedRecord, State},
    verifier::{AttestingChain, Outcome, VerifiedChain},
};
use events::{Hash32, VerifierSet, event::Inclusion};
use protocol::{AttestationRequest, Version};

use super::*;
use crate::service::{Asked, Question};

const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";

/// Two members, of which both have to sign: the verifier at `endpoint` and another.
fn set(endpoint: String) -> VerifierSet {
    let member = |account: &str, endpoint| VerifierMember { account: account.parse().unwrap(), endpoint };
    VerifierSet::new(2, vec![member(ACCOUNT, endpoint), member(OTHER, "https://other.example".to_owned())]).unwrap()
}

/// A case whose escrow goes by the word of the set.
pub(super) fn case_of_set(endpoint: String) -> VerificationCase {
    let (set, case) = (set(endpoint), case());
    let escrow = EscrowPlan { releaser: set.id().unwrap(), ..case.escrow };
    VerificationCase { escrow, verifier_set: Some(set), ..case }
}

#[tokio::test]
async fn a_member_is_shown_the_set_and_taken_at_its_own_signature() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let escrow = Arc::new(Escrow::default());
    let (client, case) = (listening.client(&escrow), case_of_set(listening.origin()));
    let good = Ok(Some(GOOD_SIGNATURE.to_owned()));
    assert_eq!(client.attest_delivery(&listening.reference(), &case).await, good);
    assert_eq!(client.attest_non_delivery(&listening.reference(), &case).await, good);
    assert_eq!(*judge.shown.lock().unwrap(), [case.clone(), case.clone()]);
    assert_eq!(*escrow.members.lock().unwrap(), [ACCOUNT, ACCOUNT].map(|member| member.parse().unwrap()));
    assert!(escrow.asked.lock().unwrap().is_empty(), "no escrow takes one member's word");

    let listening = Listening::judge(FixedJudge::attesting("0xbad0")).await;
    let outcome = listening.client(&escrow).attest_delivery(&listening.reference(), &case).await;
    assert_fault(&outcome, &format!("not the statement of {ACCOUNT}"));
}

#[tokio::test]
async fn a_set_that_is_not_the_escrows_releaser_is_refused_unread() {
    let judge = FixedJudge::attesting(GOOD_SIGNATURE);
    let listening = Listening::judge(judge.clone()).await;
    let mut body = request_body();
    body["verifier_set"] = serde_json::to_value(set(listening.origin())).unwrap();
    let (status, problem) = listening.post(DELIVERY_ATTESTATION_PATH, "application/json", body.to_string()).await;
    assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("INVALID_REQUEST")));
    assert!(judge.shown.lock().unwrap().is_empty());
}

#[test]
fn what_is_judged_once_is_of_one_set_wherever_its_members_are() {
    let key = |verifier_set: Option<VerifierSet>| {
        let case = case_of_set("https://v1.example".to_owned());
        let request = AttestationRequest {
            version: Version,
            payment_id: case.payment_id,
            terms: case.terms,
            escrow: (&case.escrow).into(),
            quote: case.quote_document,
            verifier_set,
            payloads: case.payloads,
        };
        Asked::new(Question::Delivery, request).key
    };
    let here = set("https://v1.example".to_owned());
    assert_eq!(key(Some(here.clone())), key(Some(set("https://moved.example".to_owned()))));
    assert_ne!(key(Some(here.clone())), key(None));
    let lower = VerifierSet::new(1, here.members().to_vec()).unwrap();
    assert_ne!(key(Some(here)), key(Some(lower)));
}

/// A chain on which everything is as it was quoted, delivered too; keys are accounts, and sign with their names.
#[derive(Clone)]
struct Delivered(CommonConfig);

impl Delivered {
    fn new(chain: u64) -> Self {
        let config = json!({
            "chain_id": format!("eip155:{chain}"), "rpc_url": "http://127.0.0.1:1", "escrow_contract": ACCOUNT,
            "fulfillment_proxy": ACCOUNT, "reserver": ACCOUNT, "releaser": ACCOUNT, "required_depth": 1,
            "refund_delay_seconds": 60,
        });
        Self(serde_json::from_value::<ChainConfig>(config).unwrap().common().clone())
    }
}

#[async_trait]
impl VerifiedChain for Delivered {
    fn config(&self) -> &CommonConfig {
        &self.0
    }

    async fn escrow_record(&self, _: &PaymentId, _: &Account) -> Result<Option<EscrowRecord>, Transient> {
        unreachable!("it is asked with what was quoted")
    }

    async fn quoted_record(&self, quoted: &QuotedEscrow<'_>) -> Result<QuotedRecord, Transient> {
        let plan = quoted.plan.clone();
        Ok(QuotedRecord::Reserved(Box::new(EscrowRecord {
            chain_id: plan.chain_id,
            state: State::Reserved,
            payer: Some(quoted.payer.clone()),
            reserver: Some(plan.reserver),
            releaser: Some(plan.releaser),
            asset: quoted.asset.clone(),
            settler: Some(quoted.payout_account.clone()),
            deposited: Some(quoted.source_amount),
            source_amount: Some(quoted.source_amount),
            terms_hash: quoted.terms_hash,
            quote_hash: quoted.quote_hash,
            reserve_deadline: plan.reserve_deadline,
            fulfillment_deadline: plan.fulfillment_deadline,
            fulfill_by: quoted.fulfill_by,
            refund_after: plan.refund_after,
        })))
    }

    async fn delivery_state(&self, _: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        let hash = Hash32::ZERO.to_string();
        Ok(DeliveryState::Final(Inclusion {
            chain_id: self.0.chain_id.clone(),
            transaction_hash: hash.clone(),
            block_number: 1,
            block_hash: hash,
            block_time: 1,
        }))
    }
}

#[async_trait]
impl AttestingChain for Delivered {
    type Key = Account;

    fn account(key: &Account) -> Account {
        key.clone()
    }

    async fn sign(&self, key: &Account, _: &Statement, _: &EscrowPlan) -> Result<String, Transient> {
        Ok(key.to_string())
    }
}

#[tokio::test]
async fn a_verifier_signs_for_itself_and_for_sets_that_it_is_in() {
    let verifier = |account: &str| {
        let key = account.parse().unwrap();
        chains::verifier::Verifier::default().with_chains([1, 10].map(Delivered::new), Some(key))
    };
    let of_set = case_of_set("https://v1.example".to_owned());
    for (account, case) in [(ACCOUNT, &of_set), (OTHER, &of_set), (ACCOUNT, &case())] {
        let attested = Ok(Outcome::Attested(account.to_owned()));
        assert_eq!(verifier(account).attest_delivery(case).await, attested);
        assert_eq!(verifier(account).screen(case), Ok(()));
    }

    let stranger = "0x1111111111111111111111111111111111111111";
    // Members of another set, which nobody's escrow goes by; and the right one, which nobody showed.
    let lower = VerifierSet::new(1, of_set.verifier_set.as_ref().unwrap().members().to_vec()).unwrap();
    let another = VerificationCase { verifier_set: Some(lower), ..of_set.clone() };
    let unshown = VerificationCase { verifier_set: None, ..of_set.clone() };
    for (account, case) in [(stranger, &of_set), (ACCOUNT, &another), (ACCOUNT, &unshown), (OTHER, &case())] {
        let refused = verifier(account).attest_delivery(case).await.unwrap();
        assert_eq!(refused, Outcome::Refused("the releaser is another account".to_owned()));
        assert_eq!(verifier(account).attest_non_delivery(case).await, Ok(refused));
        assert!(verifier(account).screen(case).is_err());
    }
}
