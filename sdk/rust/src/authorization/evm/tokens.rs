//! Tokens that take signatures: a transfer into the escrow (ERC-3009), and an allowance for Permit2 (ERC-2612).
//!
//! Of a token's domain its name and version are the gateway's word, since with others than the token's a signature counts nowhere.
//! Its address and its chain are the order's.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolStruct,
};
use serde_json::Value;

use chains_evm::{
    authorization::{self, Prepared as Own, SpendRequest},
    token_domain::TokenDomain,
};
use escrow_abi::{
    contracts,
    eip712::{self, Permit, ReceiveWithAuthorization, token_domain},
};
use events::{Amount, time::unix_seconds};

use super::{Demand, Signable, hashing_to, refused, unusable};
use crate::{
    answers::UnsignedMessage,
    error::{Error, Mismatch},
};

/// What is deposited for a quote that the payer knows: as much from its price to the cap as the gateway asks for. `None` where the
/// payer signs before the auction, for the cap.
pub(super) fn amount(demand: &Demand<'_>, theirs: &UnsignedMessage) -> Result<Option<Amount>, Error> {
    let (Some(price), Some(cap)) = (demand.price, demand.order.max_source_amount) else { return Ok(None) };
    let value = &typed_data(theirs)?["message"]["value"];
    let asked = eip712::uint(value).and_then(Amount::new).filter(|asked| (price..=cap).contains(asked));
    match asked {
        Some(asked) => Ok(Some(asked)),
        None => Err(Mismatch::new("message.value", format!("from {price} to {cap}"), value).into()),
    }
}

/// The deposit that the gateway shows has to be the one whose hash is the nonce: who signs elsewhere goes by what is shown.
pub(super) fn insist_shown(own: &Own, theirs: &UnsignedMessage) -> Result<(), Error> {
    let shown = theirs.payload.as_ref().map_or(&Value::Null, |payload| &payload["deposit"]);
    for (name, expected) in own.payload["deposit"].as_object().into_iter().flatten() {
        insist_same(&format!("deposit.{name}"), expected, &shown[name])?;
    }
    Ok(())
}

/// The bytes that the digest of the transfer is the hash of.
pub(super) fn preimage(spend: &SpendRequest, own: &Own, domain: TokenDomain) -> Result<Vec<u8>, Error> {
    let source = &spend.terms.source;
    let deposit = eip712::deposit(
        &spend.payment_id,
        spend.terms.hash(),
        spend.quote_hash,
        contracts::address(source.account()).map_err(unusable)?,
        &own.plan,
    )
    .map_err(unusable)?;
    let message = ReceiveWithAuthorization {
        from: deposit.payer,
        to: contracts::address(&spend.escrow.contract).map_err(unusable)?,
        value: contracts::units(own.amount),
        validAfter: U256::ZERO,
        validBefore: U256::from(own.plan.reserve_deadline.saturating_add(1)),
        nonce: deposit.eip712_hash_struct(),
    };
    let (evm_id, token) = token(spend)?;
    hashing_to(own.digest, eip712::preimage(&message, &token_domain(domain.name, domain.version, evm_id, token)))
}

/// An endless allowance for Permit2, and for nothing else: Permit2 draws nothing by it without a signature of the payer's for each
/// transfer. The token's nonce and the deadline are the gateway's word; the latter is bounded.
pub(super) fn allowance(spend: &SpendRequest, theirs: &UnsignedMessage) -> Result<Signable, Error> {
    let shown = typed_data(theirs)?;
    let text = |member: &str| match shown["domain"][member].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Mismatch::new(format!("domain.{member}"), "a text", &shown["domain"][member])),
    };
    let number = |member: &str| {
        let value = &shown["message"][member];
        eip712::uint(value).ok_or_else(|| Mismatch::new(format!("message.{member}"), "a number of 256 bits", value))
    };
    let domain = TokenDomain { name: text("name")?, version: text("version")? };
    let (nonce, asked) = (number("nonce")?, number("deadline")?);
    let latest = unix_seconds(spend.fulfillment_deadline);
    let deadline = u64::try_from(asked).ok().filter(|deadline| *deadline <= latest);
    let deadline = deadline.ok_or_else(|| Mismatch::new("message.deadline", format!("at most {latest}"), asked))?;
    let own = authorization::prepare_allowance(spend, &domain, nonce, deadline).map_err(refused)?;
    insist_same("primaryType", &own.typed_data["primaryType"], &shown["primaryType"])?;
    for part in ["domain", "message"] {
        for (member, expected) in own.typed_data[part].as_object().into_iter().flatten() {
            insist_same(&format!("{part}.{member}"), expected, &shown[part][member])?;
        }
    }
    if theirs.message.parse() != Ok(own.digest) {
        return Err(Mismatch::new("message", own.digest, &theirs.message).into());
    }
    let permit = Permit {
        owner: contracts::address(spend.terms.source.account()).map_err(unusable)?,
        spender: contracts::address(&spend.escrow.permit2).map_err(unusable)?,
        value: U256::MAX,
        nonce,
        deadline: U256::from(deadline),
    };
    let (evm_id, token) = token(spend)?;
    let preimage = eip712::preimage(&permit, &token_domain(domain.name, domain.version, evm_id, token));
    let message = UnsignedMessage {
        message: own.digest.to_string(),
        message_prehash: own.typed_data.to_string(),
        payload: Some(own.payload),
    };
    Ok(Signable { preimage: hashing_to(own.digest, preimage)?, message })
}

/// EIP-155 id of the source's chain, and its token.
fn token(spend: &SpendRequest) -> Result<(u64, Address), Error> {
    let asset = spend.terms.source.asset();
    Ok((asset.chain().evm_id().unwrap_or_default(), contracts::erc20(asset).map_err(unusable)?))
}

/// The typed data that is shown.
pub(super) fn typed_data(theirs: &UnsignedMessage) -> Result<Value, Error> {
    serde_json::from_str(&theirs.message_prehash)
        .map_err(|error| Mismatch::new("message_prehash", "typed data", error).into())
}

/// Addresses and hashes have no case.
pub(super) fn insist_same(field: &str, expected: &Value, found: &Value) -> Result<(), Mismatch> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (own, shown) = (text(expected), text(found));
    let is_hex = own.starts_with("0x");
    match own == shown || (is_hex && own.eq_ignore_ascii_case(&shown)) {
        true => Ok(()),
        false => Err(Mismatch::new(field, own, shown)),
    }
}

#[cfg(test)]
mod tests {
    use alloy::{primitives::Signature, signers::local::PrivateKeySigner};
    use serde_json::json;

    use chains_evm::authorization::{Choice, Scheme, SignedMessage};
    use events::Hash32;

    use super::*;
    use crate::{
        answers::{Corridor, Prepared},
        authorization::evm::spend,
        key::Key,
        order::Order,
        pins::{
            Pins,
            tests::{NOW, account, corridor, order},
        },
    };

    const QUOTE: Hash32 = Hash32([7; 32]);

    fn domain() -> TokenDomain {
        TokenDomain { name: "Dollar".to_owned(), version: "2".to_owned() }
    }

    /// What a payer asked for, before the auction or for a quote at this price.
    fn demand<'a>(order: &'a Order, corridor: &'a Corridor, pins: &'a Pins, price: Option<&str>) -> Demand<'a> {
        let quote_hash = if price.is_some() { QUOTE } else { Hash32::ZERO };
        let price = price.map(|price| price.parse().unwrap());
        Demand { order, corridor, pins, quote_hash, price, now: NOW }
    }

    fn prepared(spend: &SpendRequest, choice: &Choice) -> Prepared {
        let own = authorization::prepare(spend, choice).unwrap();
        let message = json!({
            "message": own.digest,
            "message_prehash": own.typed_data.to_string(),
            "payload": own.payload,
        });
        let scheme = if spend.token.is_some() { "EVM_EIP3009" } else { "EVM_PERMIT2_ESCROW" };
        let body = json!({"payment_id": spend.payment_id, "message_scheme": scheme, "signed_messages": [message]});
        serde_json::from_value(body).unwrap()
    }

    fn permitting(amount: &str) -> Choice {
        Choice { permitted_amount: Some(amount.parse().unwrap()), ..Choice::default() }
    }

    fn field(refused: Result<super::super::Checked, Error>) -> String {
        let Err(Error::Mismatch(mismatch)) = refused else { panic!("{refused:?}") };
        mismatch.field
    }

    /// The typed data of an allowance, and its digest, after `change`.
    fn allowance(spend: &SpendRequest, change: impl FnOnce(&mut Permit, &mut Address)) -> UnsignedMessage {
        let mut permit = Permit {
            owner: contracts::address(spend.terms.source.account()).unwrap(),
            spender: contracts::address(&spend.escrow.permit2).unwrap(),
            value: U256::MAX,
            nonce: U256::from(3),
            deadline: U256::from(unix_seconds(spend.fulfillment_deadline)),
        };
        let mut token = contracts::erc20(spend.terms.source.asset()).unwrap();
        change(&mut permit, &mut token);
        let TokenDomain { name, version } = domain();
        let shown = json!({
            "types": {},
            "primaryType": "Permit",
            "domain": {"name": name, "version": version, "chainId": 1, "verifyingContract": token.to_string()},
            "message": {
                "owner": permit.owner.to_string(),
                "spender": permit.spender.to_string(),
                "value": permit.value.to_string(),
                "nonce": permit.nonce.to_string(),
                "deadline": permit.deadline.to_string(),
            },
        });
        let message = eip712::digest(&permit, &token_domain(name, version, 1, token)).to_string();
        UnsignedMessage { message, message_prehash: shown.to_string(), payload: Some(json!({})) }
    }

    #[tokio::test]
    async fn a_transfer_for_the_token_is_signed_and_counts_at_the_gateway() {
        let local = PrivateKeySigner::random();
        let (order, corridor, pins) = (order(&format!("{:#x}", local.address())), corridor(), Pins::default());
        for (price, choice) in
            [(None, Choice::default()), (Some("105"), permitting("105")), (Some("105"), permitting("110"))]
        {
            let demand = demand(&order, &corridor, &pins, price);
            let spend = spend(&demand, Scheme::EvmEip3009, Some(domain())).unwrap();
            let checked = demand.check(&prepared(&spend, &choice)).unwrap();
            assert_eq!(
                (checked.spender.as_ref(), Some(checked.amount)),
                (None, choice.permitted_amount.or(order.max_source_amount))
            );
            let auth = checked.sign(&Key::Secp256k1(local.clone().into())).await.unwrap();
            assert_eq!(auth["message_scheme"], "EVM_EIP3009");
            let [message] = &auth["signed_messages"].as_array().unwrap()[..] else { panic!("{auth}") };
            let text = |name: &str| message[name].as_str().unwrap().to_owned();
            let signed = SignedMessage {
                message: text("message"),
                message_prehash: Some(text("message_prehash")),
                signature: text("signature"),
                payload: Some(message["payload"].clone()),
            };
            assert!(authorization::authorize(&spend, &signed).is_ok());
        }
    }

    #[test]
    fn another_transfer_is_not_signed_and_what_differs_is_named() {
        let (order, corridor, pins) = (order(account(9).as_str()), corridor(), Pins::default());
        let demand_at = |price| demand(&order, &corridor, &pins, price);
        let honest = spend(&demand_at(None), Scheme::EvmEip3009, Some(domain())).unwrap();
        type Change = fn(&mut SpendRequest);
        let changes: [(&str, Change); 5] = [
            ("deposit.releaser", |spend| spend.escrow.releaser = account(8)),
            ("deposit.reserver", |spend| spend.escrow.reserver = account(8)),
            ("deposit.termsHash", |spend| spend.terms.max_source_amount = Some("111".parse().unwrap())),
            ("deposit.quoteHash", |spend| spend.quote_hash = QUOTE),
            ("message.to", |spend| spend.escrow.contract = account(8)),
        ];
        for (expected, change) in changes {
            let mut spend = honest.clone();
            change(&mut spend);
            assert_eq!(field(demand_at(None).check(&prepared(&spend, &Choice::default()))), expected);
        }
        for (expected, choice) in [
            ("deposit.refundAfter", Choice { refund_after: Some(NOW + 86_400), ..Choice::default() }),
            (
                "message, by its reserve deadline, refund window or deadline",
                Choice { valid_before: Some(NOW + 86_400), ..Choice::default() },
            ),
        ] {
            assert_eq!(field(demand_at(None).check(&prepared(&honest, &choice))), expected);
        }
        let quoted = spend(&demand_at(Some("105")), Scheme::EvmEip3009, Some(domain())).unwrap();
        assert_eq!(field(demand_at(Some("105")).check(&prepared(&quoted, &permitting("104")))), "message.value");
        let mut twice = prepared(&honest, &Choice::default());
        twice.signed_messages.extend(twice.signed_messages.clone());
        assert_eq!(field(demand_at(None).check(&twice)), "signed_messages");
        let mut hidden = prepared(&honest, &Choice::default());
        hidden.signed_messages[0].payload = None;
        assert!(field(demand_at(None).check(&hidden)).starts_with("deposit."));
        let mut none = prepared(&honest, &Choice::default());
        none.signed_messages[0].message_prehash = "{}".to_owned();
        assert_eq!(field(demand_at(None).check(&none)), "message_prehash");
    }

    #[tokio::test]
    async fn an_allowance_is_permit2s_and_is_signed_in_front_of_its_transfer() {
        let local = PrivateKeySigner::random();
        let (order, corridor, pins) = (order(&format!("{:#x}", local.address())), corridor(), Pins::default());
        let demand = demand(&order, &corridor, &pins, None);
        let spend = spend(&demand, Scheme::EvmPermit2Escrow, None).unwrap();
        let with = |message: UnsignedMessage| {
            let mut prepared = prepared(&spend, &Choice::default());
            prepared.signed_messages.insert(0, message);
            prepared
        };
        let asked = with(allowance(&spend, |_, _| ()));
        assert!(asked.is_allowed_by_signature());
        let checked = demand.check(&asked).unwrap();
        assert_eq!(checked.spender, None);
        let auth = checked.sign(&Key::Secp256k1(local.clone().into())).await.unwrap();
        let signed = auth["signed_messages"].as_array().unwrap();
        assert_eq!(signed.len(), 2);
        for (signed, asked) in signed.iter().zip(&asked.signed_messages) {
            assert_eq!(signed["message"], asked.message);
            let signature: Signature = signed["signature"].as_str().unwrap().parse().unwrap();
            let digest = asked.message.parse().unwrap();
            assert_eq!(signature.recover_address_from_prehash(&digest).unwrap(), local.address());
        }

        let stranger = Address::repeat_byte(8);
        type Change = fn(&mut Permit, &mut Address, Address);
        let changes: [(&str, Change); 5] = [
            ("message.owner", |permit, _, stranger| permit.owner = stranger),
            ("message.spender", |permit, _, stranger| permit.spender = stranger),
            ("message.value", |permit, _, _| permit.value = U256::from(110)),
            ("message.deadline", |permit, _, _| permit.deadline += U256::from(1)),
            ("domain.verifyingContract", |_, token, stranger| *token = stranger),
        ];
        for (expected, change) in changes {
            let asked = with(allowance(&spend, |permit, token| change(permit, token, stranger)));
            assert_eq!(field(demand.check(&asked)), expected);
        }
        let mut other = allowance(&spend, |_, _| ());
        other.message = Hash32([1; 32]).to_string();
        assert_eq!(field(demand.check(&with(other.clone()))), "message");
        let mut three = with(other.clone());
        three.signed_messages.insert(0, other);
        assert_eq!(field(demand.check(&three)), "signed_messages");
    }
}
