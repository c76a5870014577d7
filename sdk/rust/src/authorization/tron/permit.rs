//! What is signed for Permit2 on Tron (ADR 156), rebuilt to the byte, for the Permit2 that the payer has pinned.

use serde_json::Value;

use chains_tron::authorization::{
    AuthorizationError, Choice, PreparedPermit, SignedMessage, SpendRequest, authorize_permit, prepare_permit,
};
use events::Account;
use signer::Hash;

use super::{
    super::{Checked, Demand, Signing, is_payers, signed},
    spend,
};
use crate::{
    answers::{Prepared, UnsignedMessage},
    error::{Error, Mismatch},
    key::{Key, sign_secp256k1},
};

pub(super) const SCHEME: &str = "TRON_PERMIT2_ESCROW";
/// Stands where a signature would: what was not signed is compared up to it.
const NO_SIGNATURE: [u8; 65] = [0; 65];

/// The message that was rebuilt.
#[derive(Debug, Clone)]
pub(in crate::authorization) struct Rebuilt {
    payer: Account,
    preimage: Vec<u8>,
    message: UnsignedMessage,
}

pub(super) fn check(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    let theirs = demand.only(prepared)?;
    let chain = demand.order.source.asset().chain();
    let unpinned = || Error::Invalid(format!("no Permit2 is pinned for {chain}"));
    let permit2 = demand.pins.permit2_on(chain).ok_or_else(unpinned)?;
    demand.pins.check_permit2(chain, demand.corridor.source.permit2.as_ref())?;
    let spend = spend(demand, Some(permit2.clone()));
    let own = prepare_permit(&spend, &Choice::default()).map_err(|error| Error::Invalid(error.to_string()))?;
    if theirs.message.parse() != Ok(own.digest) {
        return Err(difference(&spend, theirs, &own).into());
    }
    let message = UnsignedMessage {
        message: own.digest.to_string(),
        message_prehash: own.typed_data.to_string(),
        payload: Some(own.payload),
    };
    let rebuilt = Rebuilt { payer: demand.order.source.account().clone(), preimage: own.preimage.to_vec(), message };
    Ok(Checked {
        payment_id: spend.payment_id,
        plan: own.plan,
        amount: own.amount,
        spender: Some(permit2),
        scheme: SCHEME,
        signing: Signing::Tron(Box::new(super::Rebuilt::Permit(rebuilt))),
    })
}

impl Rebuilt {
    pub(super) async fn sign(&self, key: &Key) -> Result<Vec<Value>, Error> {
        is_payers(key, &self.payer)?;
        let signature = sign_secp256k1(key, Hash::Keccak256, &self.preimage).await?;
        Ok(vec![signed(&self.message, &signature.as_bytes())])
    }
}

/// In what the gateway's message differs. What it says is read as the gateway reads submissions, up to the signature.
fn difference(spend: &SpendRequest, theirs: &UnsignedMessage, own: &PreparedPermit) -> Mismatch {
    let unsigned = SignedMessage {
        message: theirs.message.clone(),
        message_prehash: Some(theirs.message_prehash.clone()),
        signature: format!("0x{}", hex::encode(NO_SIGNATURE)),
        payload: theirs.payload.clone(),
    };
    match authorize_permit(spend, &unsigned) {
        Err(AuthorizationError::Mismatch { field, expected, found }) if field != "message" => {
            Mismatch::new(field, expected, found)
        }
        Err(AuthorizationError::Mismatch { field, found, .. }) => Mismatch::new(field, own.digest, found),
        Err(AuthorizationError::Malformed { field, reason }) => Mismatch::new(field, "as it was asked for", reason),
        // All is the payer's but the windows, which are its own to choose: it chose the shortest.
        _ => Mismatch::new("message, by its reserve deadline, refund window or deadline", own.digest, &theirs.message),
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use alloy::signers::local::PrivateKeySigner;
    use chains_tron::{
        address::text,
        authorization::{SignedMessage, SpendRequest},
    };
    use events::{Hash32, OwnedAsset, event::Authorization, time::from_unix_seconds};
    use serde_json::json;

    use super::*;
    use crate::{
        answers::Corridor,
        authorization::{foreign_permit2, scheme},
        order::{Order, Windows},
        pins::{PERMIT2, Pins, TRON_PERMIT2, tests::NOW},
    };

    fn account(byte: u8) -> Account {
        text([byte; 20].into()).parse().unwrap()
    }

    fn corridor(permit2: &str) -> Corridor {
        let source = json!({
            "escrow_contract_address": account(1),
            "reserver": account(2),
            "releaser": account(3),
            "permit2": permit2,
            "refund_delay_seconds": 900,
            "assets": [],
        });
        Corridor {
            source: serde_json::from_value(source).unwrap(),
            refund_delay_seconds: 900,
            destinations: Vec::new(),
        }
    }

    fn order(chain: &str, payer: &PrivateKeySigner) -> Order {
        let account = text(payer.address());
        let owned = |asset: &str| OwnedAsset::new(format!("{chain}/{asset}").parse().unwrap(), &account).unwrap();
        Order::new(
            owned("trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
            vec![owned("slip44:195")],
            "100".parse().unwrap(),
            Some("110".parse().unwrap()),
            from_unix_seconds(NOW).unwrap(),
            Windows::default(),
        )
    }

    fn prepared(spend: &SpendRequest, choice: &Choice) -> Prepared {
        let own = prepare_permit(spend, choice).unwrap();
        let message = json!({
            "message": own.digest,
            "message_prehash": own.typed_data.to_string(),
            "payload": own.payload,
        });
        let body = json!({"payment_id": spend.payment_id, "message_scheme": SCHEME, "signed_messages": [message]});
        serde_json::from_value(body).unwrap()
    }

    #[tokio::test]
    async fn only_the_payers_own_permit_is_signed() {
        let payer = PrivateKeySigner::random();
        let (chain, permit2) = TRON_PERMIT2;
        let (order, corridor, pins) = (order(chain, &payer), corridor(permit2), Pins::default());
        let demand =
            Demand { order: &order, corridor: &corridor, pins: &pins, quote_hash: Hash32::ZERO, price: None, now: NOW };
        let honest = spend(&demand, Account::from_str(permit2).ok());
        let key = Key::Secp256k1(payer.into());
        let checked = demand.check(&prepared(&honest, &Choice::default())).unwrap();
        assert_eq!(checked.spender.as_ref().map(Account::as_str), Some(permit2));
        let auth = checked.sign(&key).await.unwrap();
        assert_eq!(auth["message_scheme"], SCHEME);
        let text = |member: &str| auth["signed_messages"][0][member].as_str().map(str::to_owned);
        let signed = SignedMessage {
            message: text("message").unwrap(),
            message_prehash: text("message_prehash"),
            signature: text("signature").unwrap(),
            payload: None,
        };
        let (authorization, plan) = authorize_permit(&honest, &signed).unwrap();
        assert!(matches!(authorization, Authorization::TronPermit2Escrow(_)), "{authorization:?}");
        assert_eq!(plan, checked.plan);

        type Change = fn(&mut SpendRequest);
        let changes: [(&str, Change); 7] = [
            ("message.spender", |spend| spend.escrow.contract = account(9)),
            ("message.witness.reserver", |spend| spend.escrow.reserver = account(9)),
            ("message.witness.releaser", |spend| spend.escrow.releaser = account(9)),
            ("domain.verifyingContract", |spend| spend.escrow.permit2 = Some(account(9))),
            ("message.permitted.amount", |spend| spend.terms.max_source_amount = "111".parse().ok()),
            ("message.witness.quoteHash", |spend| spend.quote_hash = Hash32([7; 32])),
            ("message.witness.refundAfter", |spend| spend.escrow.refund_delay_seconds = 899),
        ];
        for (field, change) in changes {
            let mut altered = honest.clone();
            change(&mut altered);
            let refused = demand.check(&prepared(&altered, &Choice::default()));
            let Err(Error::Mismatch(mismatch)) = refused else { panic!("{field}: {refused:?}") };
            assert!(mismatch.field.contains(field), "{field}: {mismatch}");
        }
        let longer = Choice { refund_after: Some(NOW + 80_000), ..Choice::default() };
        let refused = demand.check(&prepared(&honest, &longer));
        let Err(Error::Mismatch(mismatch)) = refused else { panic!("{refused:?}") };
        assert!(mismatch.field.contains("refund window"), "{mismatch}");
    }

    #[test]
    fn nobody_signs_for_a_permit2_that_is_not_the_payers() {
        let payer = PrivateKeySigner::random();
        let (chain, permit2) = TRON_PERMIT2;
        let other = account(8);
        let check = |chain: &str, named: &str, pins: &Pins| {
            let (order, corridor) = (order(chain, &payer), corridor(named));
            let demand =
                Demand { order: &order, corridor: &corridor, pins, quote_hash: Hash32::ZERO, price: None, now: NOW };
            let spend = spend(&demand, Account::from_str(named).ok());
            (demand.check(&prepared(&spend, &Choice::default())).map(drop), scheme(&order, &corridor, pins))
        };
        let pinned = Pins { permit2: Some(other.clone()), ..Pins::default() };
        // One for EVM chains says nothing here.
        let of_evm = Pins { permit2: PERMIT2.parse().ok(), ..Pins::default() };
        for (chain, named, pins, is_signed) in [
            (chain, permit2, &Pins::default(), true),
            (chain, other.as_str(), &Pins::default(), false),
            (chain, other.as_str(), &pinned, true),
            (chain, permit2, &pinned, false),
            (chain, permit2, &of_evm, true),
            (chain, other.as_str(), &of_evm, false),
            ("tron:3448148188", permit2, &Pins::default(), false),
            ("tron:3448148188", other.as_str(), &pinned, true),
        ] {
            let (checked, asked) = check(chain, named, pins);
            assert_eq!(checked.is_ok(), is_signed, "{chain} {named}: {checked:?}");
            // Whose Permit2 it is not asks for transactions.
            assert_eq!(asked, (!is_signed).then_some("TRON"));
        }
    }

    #[test]
    fn whoever_asks_for_transactions_can_say_which_permit2_is_not_the_payers() {
        let (order, pins) = (order(TRON_PERMIT2.0, &PrivateKeySigner::random()), Pins::default());
        let asked = |corridor: &Corridor| {
            let foreign = foreign_permit2(&order, corridor, &pins).map(Account::to_string);
            (foreign, scheme(&order, corridor, &pins))
        };
        let other = account(8).to_string();
        assert_eq!(asked(&corridor(TRON_PERMIT2.1)), (None, None));
        assert_eq!(asked(&corridor(&other)), (Some(other.clone()), Some("TRON")));
        let mut without = corridor(&other);
        without.source.permit2 = None;
        assert_eq!(asked(&without), (None, Some("TRON")), "what is not named is not signed for");
    }
}
