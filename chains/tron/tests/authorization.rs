//! Authorization by a payer on Tron: every altered field is refused and named, and what is prepared holds on a chain.

mod bytes;
mod calls;
mod onchain;
mod permit;
mod prepared;

use alloy::{
    primitives::{Address, B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
};

use chains_tron::{
    address::text,
    authorization::{
        self, AuthorizationError, BlockEnvironment, Choice, Denied, EscrowSettings, OnchainError, Prepared,
        SignedMessage, SpendRequest, authorize,
    },
    node::Block,
    transaction::{Draft, assemble, id, read, read_signed},
};
use events::{
    Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, TronSpend},
    time::from_unix_seconds,
};

use crate::support::{REFUND_DELAY, TRX, account, holder, key};

const QUOTE_DEADLINE: u64 = 1_800_000_000;
const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;
const REFUND_AFTER: u64 = FULFILLMENT_DEADLINE + REFUND_DELAY;
const CHAIN: &str = "tron:728126428";
const TOKEN: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
/// Where an approval and a deposit stand among the messages.
const APPROVAL: usize = 0;
const DEPOSIT: usize = 1;
/// The order of the curve's group.
const CURVE_ORDER: &str = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";

/// What is prepared with a key in memory, which answers at once.
fn prepare(
    spend: &SpendRequest,
    choice: &Choice,
    chain: &BlockEnvironment,
    reserver: &PrivateKeySigner,
) -> Result<Prepared, AuthorizationError> {
    let prepared = futures::executor::block_on(authorization::prepare(spend, choice, chain, &reserver.clone().into()));
    prepared.map_err(|error| match error {
        OnchainError::Denied(denied) => denied.error,
        OnchainError::Transient(fault) => panic!("a key in memory signs: {fault}"),
    })
}

fn payer() -> PrivateKeySigner {
    key(6)
}

fn reserver() -> PrivateKeySigner {
    key(2)
}

fn spend_of(chain: &str, token: &str, escrow: &str) -> SpendRequest {
    let owned = |asset: &str| OwnedAsset::new(format!("{chain}/{asset}").parse().unwrap(), &account(&payer())).unwrap();
    SpendRequest {
        payment_id: PaymentId::derive(&format!("tron:{}", account(&payer())), "order-1"),
        terms: Terms::new(
            owned(&format!("trc20:{token}")),
            vec![owned("slip44:195")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
        ),
        quote_deadline: from_unix_seconds(QUOTE_DEADLINE).unwrap(),
        fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
        escrow: EscrowSettings {
            contract: escrow.parse().unwrap(),
            reserver: holder(&reserver()),
            releaser: holder(&key(3)),
            permit2: None,
            refund_delay_seconds: REFUND_DELAY,
        },
        quote_hash: Hash32::ZERO,
    }
}

fn spend() -> SpendRequest {
    spend_of(CHAIN, TOKEN, &text(Address::repeat_byte(0xe5)))
}

fn uncapped(spend: SpendRequest) -> SpendRequest {
    let Terms { ref source, fulfillment_amount, .. } = spend.terms;
    let terms = Terms::new(source.clone(), spend.terms.destination().to_vec(), fulfillment_amount, None);
    SpendRequest { terms, ..spend }
}

fn environment() -> BlockEnvironment {
    let time_ms = (QUOTE_DEADLINE - 60) * 1_000;
    let reference = Block { number: 0x12345, id: B256::repeat_byte(0x77), parent: B256::ZERO, time_ms };
    BlockEnvironment {
        reference,
        now_ms: time_ms + 57_000,
        fee_limit_max_sun: Some(15_000 * TRX),
        approval_fee_limit_sun: Some(5 * TRX),
        deposit_fee_limit_sun: 60 * TRX,
    }
}

fn signature(id: B256, signer: &PrivateKeySigner) -> String {
    format!("0x{}", hex::encode(signer.sign_hash_sync(&id).unwrap().as_bytes()))
}

fn message(raw_data: &[u8], signer: &PrivateKeySigner) -> SignedMessage {
    let id = id(raw_data);
    SignedMessage {
        message: id.to_string(),
        message_prehash: Some(format!("0x{}", hex::encode(raw_data))),
        signature: signature(id, signer),
        payload: None,
    }
}

fn signed(prepared: &Prepared) -> Vec<SignedMessage> {
    prepared.messages.iter().map(|prepared| message(&prepared.raw_data, &payer())).collect()
}

fn prepared(spend: &SpendRequest) -> Prepared {
    prepare(spend, &Choice::default(), &environment(), &reserver()).unwrap()
}

/// An approval and a deposit that hold.
fn good() -> Vec<SignedMessage> {
    signed(&prepared(&spend()))
}

fn raw_data(message: &SignedMessage) -> Vec<u8> {
    hex::decode(&message.message_prehash.as_deref().unwrap()[2..]).unwrap()
}

fn draft(message: &SignedMessage) -> Draft {
    read(&raw_data(message)).unwrap().draft
}

/// [`good`] with one transaction changed and signed again by the payer.
fn altered(index: usize, alter: impl FnOnce(&mut Draft)) -> Vec<SignedMessage> {
    let mut messages = good();
    let mut draft = draft(&messages[index]);
    alter(&mut draft);
    messages[index] = message(&draft.raw_data(), &payer());
    messages
}

fn tron(authorized: (Authorization, EscrowPlan)) -> TronSpend {
    match authorized.0 {
        Authorization::Tron(spend) => spend,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(spend: &SpendRequest, messages: &[SignedMessage]) -> Denied {
    authorize(spend, messages).expect_err("nothing may be accepted")
}

#[track_caller]
fn refused_at(messages: &[SignedMessage], index: usize, field: &str) {
    let denied = refused(&spend(), messages);
    assert_eq!((denied.message, denied.error.field()), (Some(index), field), "{denied}");
}

#[test]
fn what_was_prepared_and_signed_is_authorized() {
    let spend = spend();
    let messages = good();
    let (authorization, plan) = authorize(&spend, &messages).unwrap();
    assert_eq!(plan, prepared(&spend).plan);
    assert_eq!((plan.reserve_deadline, plan.fulfillment_deadline), (FULFILLMENT_DEADLINE, FULFILLMENT_DEADLINE));
    assert_eq!((plan.refund_after, plan.chain_id.as_str()), (REFUND_AFTER, CHAIN));
    let expected = [&spend.escrow.contract, &spend.escrow.reserver, &spend.escrow.releaser];
    assert_eq!([&plan.contract, &plan.reserver, &plan.releaser], expected);
    let own = tron((authorization.clone(), plan.clone()));
    assert_eq!((own.amount.to_string().as_str(), own.quote_hash), ("110", Hash32::ZERO));
    let approval = own.approval.as_ref().unwrap();
    for (own, message) in [approval, &own.deposit].into_iter().zip(&messages) {
        assert_eq!((&own.transaction_hash, own.expires_at), (&message.message, FULFILLMENT_DEADLINE * 1_000));
        // What is kept is the whole transaction.
        let raw = hex::decode(&own.raw[2..]).unwrap();
        let signature: [u8; 65] = hex::decode(&message.signature[2..]).unwrap().try_into().unwrap();
        assert_eq!(raw, assemble(&raw_data(message), &signature));
        assert_eq!(read_signed(&raw).unwrap().0.id.to_string(), own.transaction_hash);
    }

    // Where the allowance stands already, the deposit is enough.
    let (alone, same) = authorize(&spend, &messages[DEPOSIT..]).unwrap();
    assert_eq!(same, plan);
    assert_eq!(tron((alone, same)), TronSpend { approval: None, ..own.clone() });
    // All forms in which Tron's tools write things.
    let mut bare = messages.clone();
    for message in &mut bare {
        message.message = message.message[2..].to_uppercase();
        message.message_prehash = message.message_prehash.as_ref().map(|text| text[2..].to_owned());
        let v = u8::from_str_radix(&message.signature[130..], 16).unwrap() - 27;
        message.signature = format!("{}{v:02x}", &message.signature[..130]);
    }
    assert_eq!(authorize(&spend, &bare).unwrap(), (authorization, plan));
}

#[test]
fn messages_come_in_their_order_and_number() {
    let messages = good();
    let [approval, _] = messages.as_slice() else { panic!() };
    let owned = |messages: &[&SignedMessage]| messages.iter().map(|message| (*message).clone()).collect::<Vec<_>>();
    let denied = refused(&spend(), &[]);
    assert_eq!((denied.message, denied.error.field()), (None, "signed_messages"), "{denied}");
    let field = "message_prehash.contract_address";
    refused_at(&owned(&[approval, approval]), DEPOSIT, field);
    refused_at(&owned(&[approval]), 0, field);
}

/// The first deposit that holds counts, with its approval; the rest is not looked at.
#[test]
fn of_several_messages_the_first_deposit_counts() {
    let messages = good();
    let [approval, deposit] = messages.as_slice() else { panic!() };
    let owned = |messages: &[&SignedMessage]| messages.iter().map(|message| (*message).clone()).collect::<Vec<_>>();
    let other = SpendRequest { payment_id: PaymentId::derive("tron:x", "order-2"), ..spend() };
    let others = signed(&prepared(&other));
    let strangers = message(&raw_data(deposit), &key(7));
    let noise = SignedMessage {
        message: "0x11".to_owned(),
        message_prehash: Some("{\"domain\": {}}".to_owned()),
        signature: "0x22".to_owned(),
        payload: None,
    };
    let both = tron(authorize(&spend(), &messages).unwrap());
    for several in [
        vec![approval, deposit, deposit],
        vec![approval, approval, deposit],
        vec![&noise, approval, deposit, &noise],
        vec![&strangers, approval, deposit],
        // Another payment's deposit is not this one's, and neither is what comes with it.
        vec![&others[APPROVAL], &others[DEPOSIT], approval, deposit],
    ] {
        assert_eq!(tron(authorize(&spend(), &owned(&several)).unwrap()), both);
    }
    let alone = TronSpend { approval: None, ..both };
    for several in [vec![deposit, approval], vec![deposit, deposit], vec![&noise, deposit], vec![&strangers, deposit]] {
        assert_eq!(tron(authorize(&spend(), &owned(&several)).unwrap()), alone);
    }
    // What the payer means to approve by has to hold, wherever it stands.
    let mut spoilt = approval.clone();
    spoilt.signature = signature(id(&raw_data(approval)), &key(7));
    refused_at(&owned(&[&noise, &spoilt, deposit]), 1, "signature");
}

#[test]
fn another_payments_transactions_are_not_this_ones() {
    let other = |change: fn(&mut SpendRequest)| {
        let mut spend = spend();
        change(&mut spend);
        spend
    };
    let with_terms = |spend: &mut SpendRequest, amount: &str, cap: &str| {
        let (source, destination) = (spend.terms.source.clone(), spend.terms.destination().to_vec());
        spend.terms = Terms::new(source, destination, amount.parse().unwrap(), Some(cap.parse().unwrap()));
    };
    let mut repriced = spend();
    with_terms(&mut repriced, "101", "110");
    let mut recapped = spend();
    with_terms(&mut recapped, "100", "109");
    for (spend, field) in [
        (other(|spend| spend.payment_id = PaymentId::derive("tron:x", "order-2")), "depositOwn.d.paymentId"),
        (repriced, "depositOwn.d.termsHash"),
        (recapped, "depositOwn.d.termsHash"),
        (other(|spend| spend.quote_hash = Hash32([7; 32])), "depositOwn.d.quoteHash"),
        (other(|spend| spend.escrow.reserver = holder(&key(7))), "depositOwn.d.reserver"),
        (other(|spend| spend.escrow.releaser = holder(&key(7))), "depositOwn.d.releaser"),
        (other(|spend| spend.escrow.contract = holder(&key(7))), "contract_address"),
        (other(|spend| spend.escrow.refund_delay_seconds += 1), "depositOwn.d.refundAfter"),
        (
            other(|spend| spend.fulfillment_deadline = from_unix_seconds(FULFILLMENT_DEADLINE + 1).unwrap()),
            "depositOwn.d.fulfillmentDeadline",
        ),
        (
            other(|spend| spend.quote_deadline = from_unix_seconds(FULFILLMENT_DEADLINE - 13).unwrap()),
            // The windows would do, but not the time that is left to reach a block.
            "",
        ),
        (other(|spend| spend.quote_deadline = from_unix_seconds(FULFILLMENT_DEADLINE - 12).unwrap()), "expiration"),
    ] {
        if field.is_empty() {
            authorize(&spend, &good()).unwrap();
            continue;
        }
        let denied = refused(&spend, &good());
        assert_eq!(denied.message, Some(DEPOSIT), "{denied}");
        assert_eq!(denied.error.field(), format!("message_prehash.{field}"), "{denied}");
    }
}

/// The other signature over the same that a signature can be turned into without the key.
fn high_s(signature: &[u8]) -> Vec<u8> {
    let order = U256::from_str_radix(CURVE_ORDER, 16).unwrap();
    let s = order - U256::from_be_slice(&signature[32..64]);
    let v = if signature[64] == 27 { 28 } else { 27 };
    [&signature[..32], &s.to_be_bytes::<32>(), &[v]].concat()
}
