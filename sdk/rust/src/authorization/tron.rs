//! Tron: what is signed for Permit2, rebuilt to the byte, or the payer's own transactions. Those hold what only gateway and chain
//! know, a reference to a block and the reserver's signature, so they are the gateway's bytes; each of them is read whole before the
//! key sees it, and what was signed is judged by the gateway's own rules before it is given out.

mod permit;

use ruint::aliases::U256;
use serde_json::Value;

use chains_tron::{
    address::{address, trc20},
    authorization::{self, AuthorizationError, Denied, EscrowSettings, LIFETIME_MS_MAX, SignedMessage, SpendRequest},
    transaction::{self, Decoded},
};
use events::{Account, Amount, Family, event::EscrowPlan};
use signer::Hash;

use super::{Checked, Demand, Signing, is_payers, signed};
use crate::{
    answers::{Prepared, UnsignedMessage},
    error::{Error, Mismatch},
    key::{Key, sign_secp256k1},
};

const SCHEME: &str = "TRON";
/// An approval and a deposit.
const MESSAGES_MAX: usize = 2;

/// What is signed.
#[derive(Debug, Clone)]
pub(super) enum Rebuilt {
    /// For Permit2.
    Permit(permit::Rebuilt),
    /// The payer's own transactions.
    Own(Box<OwnTransactions>),
}

impl Rebuilt {
    pub(super) async fn sign(&self, key: &Key) -> Result<Vec<Value>, Error> {
        match self {
            Self::Permit(permit) => permit.sign(key).await,
            Self::Own(transactions) => transactions.sign(key).await,
        }
    }
}

/// Transactions, as the gateway made them.
#[derive(Debug, Clone)]
pub(super) struct OwnTransactions {
    payer: Account,
    spend: SpendRequest,
    plan: EscrowPlan,
    messages: Vec<(UnsignedMessage, Vec<u8>)>,
}

pub(super) fn check(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    match prepared.message_scheme.as_str() {
        permit::SCHEME => permit::check(demand, prepared),
        _ => by_own_transactions(demand, prepared),
    }
}

fn by_own_transactions(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    demand.scheme(SCHEME, prepared)?;
    let count = prepared.signed_messages.len();
    if !(1..=MESSAGES_MAX).contains(&count) {
        return Err(Mismatch::new("signed_messages", "a deposit, or an approval and a deposit", count).into());
    }
    let spend = spend(demand, None);
    let unusable = |error: chains_tron::address::ConvertError| Error::Invalid(error.to_string());
    let source = &demand.order.source;
    let payer = address(source.account()).map_err(unusable)?;
    let (token, escrow) =
        (trc20(source.asset()).map_err(unusable)?, address(&spend.escrow.contract).map_err(unusable)?);
    let (mut messages, mut fees) = (Vec::new(), U256::ZERO);
    for (index, message) in prepared.signed_messages.iter().enumerate() {
        let named = |member: &str| format!("signed_messages[{index}].message_prehash.{member}");
        let raw_data = hex::decode(message.message_prehash.strip_prefix("0x").unwrap_or(&message.message_prehash))
            .map_err(|_| Mismatch::new(named("raw_data"), "a transaction in hex", "something else"))?;
        let Decoded { id, draft } = transaction::read(&raw_data)
            .map_err(|error| Mismatch::new(named("raw_data"), "the call of a contract", error))?;
        // The approval comes first, and calls the token; the deposit calls the escrow.
        let contract = if index + 1 == count { escrow } else { token };
        let text = chains_tron::address::text;
        for (member, expected, found) in
            [("owner_address", payer, draft.call.owner), ("contract_address", contract, draft.call.contract)]
        {
            if expected != found {
                return Err(Mismatch::new(named(member), text(expected), text(found)).into());
            }
        }
        if draft.call.value_sun != 0 {
            return Err(Mismatch::new(named("call_value"), 0, draft.call.value_sun).into());
        }
        let latest_ms = demand.now.saturating_mul(1_000).saturating_add(LIFETIME_MS_MAX);
        if draft.expiration_ms > latest_ms {
            return Err(Mismatch::new(named("expiration"), format!("at most {latest_ms}"), draft.expiration_ms).into());
        }
        if message.message.strip_prefix("0x").unwrap_or(&message.message) != hex::encode(id) {
            return Err(Mismatch::new(format!("signed_messages[{index}].message"), id, &message.message).into());
        }
        fees = fees.saturating_add(U256::from(draft.fee_limit_sun));
        messages.push((message.clone(), raw_data));
    }
    let fee_max = demand.pins.fee_max(Family::Tron);
    if fees > fee_max {
        return Err(Error::Dear {
            what: "approval and deposit".to_owned(),
            cost: format!("{fees} sun"),
            max: format!("{fee_max} sun"),
        });
    }
    let amount = cap(demand)?;
    let plan = plan(&spend, demand);
    let own = OwnTransactions { payer: source.account().clone(), spend: spend.clone(), plan: plan.clone(), messages };
    let (payment_id, signing) = (spend.payment_id, Signing::Tron(Box::new(Rebuilt::Own(Box::new(own)))));
    Ok(Checked { payment_id, plan, amount, spender: None, scheme: SCHEME, signing })
}

impl OwnTransactions {
    async fn sign(&self, key: &Key) -> Result<Vec<Value>, Error> {
        is_payers(key, &self.payer)?;
        let (mut all, mut judged) = (Vec::new(), Vec::new());
        for (message, raw_data) in &self.messages {
            let signature = sign_secp256k1(key, Hash::Sha256, raw_data).await?.as_bytes();
            judged.push(SignedMessage {
                message: message.message.clone(),
                message_prehash: Some(message.message_prehash.clone()),
                signature: format!("0x{}", hex::encode(signature)),
                payload: message.payload.clone(),
            });
            all.push(signed(message, &signature));
        }
        // Nothing that was signed leaves before this.
        let (_, plan) = authorization::authorize(&self.spend, &judged).map_err(|denied| denied_as_mismatch(&denied))?;
        if plan != self.plan {
            let windows = |plan: &EscrowPlan| format!("{} and {}", plan.reserve_deadline, plan.refund_after);
            return Err(Mismatch::new("the deposit's windows", windows(&self.plan), windows(&plan)).into());
        }
        Ok(all)
    }
}

fn cap(demand: &Demand<'_>) -> Result<Amount, Error> {
    let missing = || Error::Invalid("max_source_amount is needed: a payer says what it pays at most".to_owned());
    demand.order.max_source_amount.ok_or_else(missing)
}

/// What is to be authorized, by this Permit2 or by none.
fn spend(demand: &Demand<'_>, permit2: Option<Account>) -> SpendRequest {
    let (order, named) = (demand.order, &demand.corridor.source);
    SpendRequest {
        payment_id: order.payment_id(),
        terms: order.terms(),
        quote_deadline: order.quote_deadline,
        fulfillment_deadline: order.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: named.escrow_contract_address.clone(),
            reserver: named.reserver.clone(),
            releaser: named.releaser.clone(),
            permit2,
            refund_delay_seconds: demand.corridor.refund_delay_seconds,
        },
        quote_hash: demand.quote_hash,
    }
}

/// The shortest windows: those that a payer gets who chooses none.
fn plan(spend: &SpendRequest, demand: &Demand<'_>) -> EscrowPlan {
    let fulfillment_deadline = demand.order.fulfillment_seconds();
    EscrowPlan {
        chain_id: spend.terms.source.asset().chain().clone(),
        contract: spend.escrow.contract.clone(),
        reserver: spend.escrow.reserver.clone(),
        releaser: spend.escrow.releaser.clone(),
        reserve_deadline: fulfillment_deadline,
        fulfillment_deadline,
        refund_after: fulfillment_deadline.saturating_add(spend.escrow.refund_delay_seconds),
    }
}

fn denied_as_mismatch(denied: &Denied) -> Mismatch {
    let place = denied.message.map_or_else(String::new, |index| format!("signed_messages[{index}]."));
    match &denied.error {
        AuthorizationError::Mismatch { field, expected, found } => {
            Mismatch::new(format!("{place}{field}"), expected, found)
        }
        other => Mismatch::new(format!("{place}{}", other.field()), "as it was asked for", other),
    }
}

#[cfg(test)]
mod tests {
    use alloy::{primitives::B256, signers::local::PrivateKeySigner};
    use chains_tron::{
        address::text,
        authorization::{BlockEnvironment, Choice},
        node::Block,
    };
    use events::{Hash32, OwnedAsset, time::from_unix_seconds};
    use serde_json::json;

    use super::*;
    use crate::{
        answers::Corridor,
        order::{Order, Windows},
        pins::{Pins, tests::NOW},
    };

    const RESERVER: B256 = B256::repeat_byte(5);

    fn account(byte: u8) -> Account {
        text([byte; 20].into()).parse().unwrap()
    }

    fn corridor() -> Corridor {
        let reserver = text(PrivateKeySigner::from_bytes(&RESERVER).unwrap().address());
        let source = json!({
            "escrow_contract_address": account(1),
            "reserver": reserver,
            "releaser": account(3),
            "refund_delay_seconds": 900,
            "assets": [],
        });
        Corridor {
            source: serde_json::from_value(source).unwrap(),
            refund_delay_seconds: 900,
            destinations: Vec::new(),
        }
    }

    fn order(payer: &PrivateKeySigner) -> Order {
        let account = text(payer.address());
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &account).unwrap();
        Order::new(
            owned("tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
            vec![owned("tron:728126428/slip44:195")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
            from_unix_seconds(NOW).unwrap(),
            Windows::default(),
        )
    }

    async fn prepared(spend: &SpendRequest, choice: &Choice) -> Prepared {
        let reference = Block { number: 1, id: B256::ZERO, parent: B256::ZERO, time_ms: NOW * 1_000 };
        let chain = BlockEnvironment {
            now_ms: reference.time_ms,
            reference,
            fee_limit_max_sun: None,
            approval_fee_limit_sun: Some(10_000_000),
            deposit_fee_limit_sun: 50_000_000,
        };
        let reserver = PrivateKeySigner::from_bytes(&RESERVER).unwrap();
        let own = authorization::prepare(spend, choice, &chain, &reserver.into()).await.unwrap();
        let messages = own.messages.iter().map(|message| {
            let prehash = format!("0x{}", hex::encode(&message.raw_data));
            json!({"message": message.id, "message_prehash": prehash, "payload": message.payload})
        });
        let messages: Vec<_> = messages.collect();
        let body = json!({"payment_id": spend.payment_id, "message_scheme": SCHEME, "signed_messages": messages});
        serde_json::from_value(body).unwrap()
    }

    #[tokio::test]
    async fn only_the_payers_own_approval_and_deposit_are_signed() {
        let payer = PrivateKeySigner::random();
        let (order, corridor, pins) = (order(&payer), corridor(), Pins::default());
        let demand =
            Demand { order: &order, corridor: &corridor, pins: &pins, quote_hash: Hash32::ZERO, price: None, now: NOW };
        let honest = spend(&demand, None);
        let key = Key::Secp256k1(payer.into());
        let checked = demand.check(&prepared(&honest, &Choice::default()).await).unwrap();
        assert_eq!(checked.sign(&key).await.unwrap()["signed_messages"].as_array().map(Vec::len), Some(2));

        // What a look at the transaction shows.
        let mut elsewhere = honest.clone();
        elsewhere.escrow.contract = account(9);
        let refused = demand.check(&prepared(&elsewhere, &Choice::default()).await);
        let Err(Error::Mismatch(mismatch)) = refused else { panic!("{refused:?}") };
        assert_eq!(mismatch.field, "signed_messages[1].message_prehash.contract_address");
        let tight = Pins { fee_max: Some(U256::from(59_999_999)), ..Pins::default() };
        let refused = Demand { pins: &tight, ..demand }.check(&prepared(&honest, &Choice::default()).await);
        assert!(matches!(refused, Err(Error::Dear { .. })), "{refused:?}");

        // What its arguments show.
        let mut greedy = honest.clone();
        greedy.terms.max_source_amount = Some("111".parse().unwrap());
        let mut released = honest.clone();
        released.escrow.releaser = account(9);
        let longer = Choice { refund_after: Some(NOW + 80_000), ..Choice::default() };
        for (what, spend, choice) in [
            ("depositOwn", greedy, Choice::default()),
            ("releaser", released, Choice::default()),
            ("windows", honest.clone(), longer),
        ] {
            let checked = demand.check(&prepared(&spend, &choice).await).unwrap();
            let refused = checked.sign(&key).await;
            let Err(Error::Mismatch(mismatch)) = refused else { panic!("{what}: {refused:?}") };
            assert!(mismatch.field.contains(what), "{mismatch}");
        }
    }
}
