//! EVM chains: what is signed for Permit2 and for tokens that take signatures, rebuilt to the byte.

pub(super) mod batch;
pub(super) mod charge;
pub(super) mod mandate;
mod tokens;

use alloy::primitives::{U256, keccak256};
use serde_json::Value;

use chains_evm::{
    authorization::{
        self, AuthorizationError, Choice, EscrowSettings, Prepared as Own, Scheme, SignedMessage, SpendRequest,
    },
    token_domain::TokenDomain,
};
use escrow_abi::{
    contracts::{self, ConvertError},
    eip712::{self, PermitWitnessTransferFrom, TokenPermissions},
};
use events::{Account, Hash32, OwnedAsset};
use signer::Hash;

use super::{Checked, Demand, PAYS, Signing, is_of, signed};
use crate::{
    answers::{Prepared, UnsignedMessage},
    error::{Error, Mismatch},
    key::{Key, sign_secp256k1},
    pins::Pins,
};

const SCHEME: &str = "EVM_PERMIT2_ESCROW";
const BY_TOKEN: &str = "EVM_EIP3009";
/// What a payer signs for a mandate, and its merchant for each payment.
const BY_MANDATE: &str = "EVM_PERMIT2_MANDATE";
/// Stands where a signature would: what was not signed is compared up to it.
const NO_SIGNATURE: [u8; 65] = [0; 65];

/// What is signed, in its order.
#[derive(Debug, Clone)]
pub(super) struct Rebuilt {
    /// Who signs, and what it does.
    signer: (Account, &'static str),
    messages: Vec<Signable>,
}

/// One message that was rebuilt.
#[derive(Debug, Clone)]
struct Signable {
    /// `0x1901`, the domain's separator and the message's hash.
    preimage: Vec<u8>,
    message: UnsignedMessage,
}

pub(super) fn check(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    match prepared.message_scheme.as_str() {
        BY_TOKEN => by_token(demand, prepared),
        _ => by_permit2(demand, prepared),
    }
}

/// Permit2's transfer, in front of which the token's allowance for Permit2 may stand.
fn by_permit2(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    demand.scheme(SCHEME, prepared)?;
    let (allowance, theirs) = match prepared.signed_messages.as_slice() {
        [theirs] => (None, theirs),
        [allowance, theirs] => (Some(allowance), theirs),
        several => {
            let found = format!("{} of them", several.len());
            return Err(Mismatch::new("signed_messages", "one message or two", found).into());
        }
    };
    let spend = spend(demand, Scheme::EvmPermit2Escrow, None)?;
    let own = authorization::prepare(&spend, &Choice::default()).map_err(refused)?;
    if theirs.message.parse() != Ok(own.digest) {
        return Err(difference(&spend, theirs, &own).into());
    }
    let mut messages = Vec::new();
    if let Some(asked) = allowance {
        messages.push(tokens::allowance(&spend, asked)?);
    }
    messages.push(Signable { preimage: preimage(&spend, &own)?, message: unsigned(&own) });
    let spender = allowance.is_none().then(|| spend.escrow.permit2.clone());
    Ok(checked(demand, spend, own, messages, (SCHEME, spender)))
}

/// The token's own transfer into the escrow.
fn by_token(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    let theirs = demand.only(prepared)?;
    let expected = "the typed data of the token's ReceiveWithAuthorization";
    let domain = authorization::claimed_domain(&without_signature(theirs))
        .ok_or_else(|| Mismatch::new("message_prehash", expected, &theirs.message_prehash))?;
    let spend = spend(demand, Scheme::EvmEip3009, Some(domain.clone()))?;
    let choice = Choice { permitted_amount: tokens::amount(demand, theirs)?, ..Choice::default() };
    let own = authorization::prepare(&spend, &choice).map_err(refused)?;
    tokens::insist_shown(&own, theirs)?;
    if theirs.message.parse() != Ok(own.digest) {
        return Err(difference(&spend, theirs, &own).into());
    }
    let messages = vec![Signable { preimage: tokens::preimage(&spend, &own, domain)?, message: unsigned(&own) }];
    Ok(checked(demand, spend, own, messages, (BY_TOKEN, None)))
}

fn checked(
    demand: &Demand<'_>,
    spend: SpendRequest,
    own: Own,
    messages: Vec<Signable>,
    (scheme, spender): (&'static str, Option<Account>),
) -> Checked {
    let signer = (demand.order.source.account().clone(), PAYS);
    Checked {
        payment_id: spend.payment_id,
        plan: own.plan,
        amount: own.amount,
        spender,
        scheme,
        signing: Signing::Evm(Rebuilt { signer, messages }),
    }
}

fn unsigned(own: &Own) -> UnsignedMessage {
    UnsignedMessage {
        message: own.digest.to_string(),
        message_prehash: own.typed_data.to_string(),
        payload: Some(own.payload.clone()),
    }
}

impl Rebuilt {
    pub(super) async fn sign(&self, key: &Key) -> Result<Vec<Value>, Error> {
        let (signer, role) = &self.signer;
        is_of(key, signer, role)?;
        let mut messages = Vec::new();
        for Signable { preimage, message } in &self.messages {
            let signature = sign_secp256k1(key, Hash::Keccak256, preimage).await?;
            messages.push(signed(message, &signature.as_bytes()));
        }
        Ok(messages)
    }
}

fn spend(demand: &Demand<'_>, scheme: Scheme, token: Option<TokenDomain>) -> Result<SpendRequest, Error> {
    let (order, named) = (demand.order, &demand.corridor.source);
    let permit2 = permit2(demand.pins, &order.source)?;
    Ok(SpendRequest {
        scheme,
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
        token,
    })
}

/// Permit2 on the chain that `source` is on, as its payer knows it.
fn permit2(pins: &Pins, source: &OwnedAsset) -> Result<Account, Error> {
    pins.permit2_on(source.asset().chain()).ok_or_else(|| Error::Invalid("no Permit2 is pinned".to_owned()))
}

/// What the gateway asks to be signed, as the gateway reads submissions.
fn without_signature(theirs: &UnsignedMessage) -> SignedMessage {
    SignedMessage {
        message: theirs.message.clone(),
        message_prehash: Some(theirs.message_prehash.clone()),
        signature: format!("0x{}", hex::encode(NO_SIGNATURE)),
        payload: theirs.payload.clone(),
    }
}

/// In what the gateway's message differs. What it says is read as the gateway reads submissions, up to the signature.
fn difference(spend: &SpendRequest, theirs: &UnsignedMessage, own: &Own) -> Mismatch {
    match authorization::authorize(spend, &without_signature(theirs)) {
        Err(AuthorizationError::Mismatch { field, expected, found }) if field != "message" => {
            Mismatch::new(field, expected, found)
        }
        Err(AuthorizationError::Mismatch { field, found, .. }) => Mismatch::new(field, own.digest, found),
        Err(AuthorizationError::Malformed { field, reason }) => Mismatch::new(field, "as it was asked for", reason),
        // All is the payer's but the windows, which are its own to choose: it chose the shortest.
        _ => Mismatch::new("message, by its reserve deadline, refund window or deadline", own.digest, &theirs.message),
    }
}

/// The bytes that `own.digest` is the hash of, since a key is told what it signs and not a digest.
fn preimage(spend: &SpendRequest, own: &Own) -> Result<Vec<u8>, Error> {
    let source = &spend.terms.source;
    let payer = contracts::address(source.account()).map_err(unusable)?;
    let evm_id = source.asset().chain().evm_id().unwrap_or_default();
    let message = PermitWitnessTransferFrom {
        permitted: TokenPermissions {
            token: contracts::erc20(source.asset()).map_err(unusable)?,
            amount: contracts::units(own.amount),
        },
        spender: contracts::address(&spend.escrow.contract).map_err(unusable)?,
        nonce: U256::from_be_bytes(own.nonce.0),
        deadline: U256::from(own.plan.reserve_deadline),
        witness: eip712::deposit(&spend.payment_id, spend.terms.hash(), spend.quote_hash, payer, &own.plan)
            .map_err(unusable)?,
    };
    let permit2 = contracts::address(&spend.escrow.permit2).map_err(unusable)?;
    hashing_to(own.digest, eip712::preimage(&message, &eip712::permit2_domain(evm_id, permit2)))
}

/// The bytes, where they are what `digest` is the hash of.
fn hashing_to(digest: Hash32, preimage: [u8; 66]) -> Result<Vec<u8>, Error> {
    match keccak256(preimage).0 == digest.0 {
        true => Ok(preimage.to_vec()),
        false => Err(Error::Invalid(format!("the message that was rebuilt does not hash to {digest}"))),
    }
}

fn unusable(error: ConvertError) -> Error {
    Error::Invalid(format!("the order cannot be signed for: {error}"))
}

fn refused(error: AuthorizationError) -> Error {
    Error::Invalid(format!("the order cannot be signed for: {error}"))
}

#[cfg(test)]
mod tests {
    use alloy::signers::local::PrivateKeySigner;
    use serde_json::json;

    use super::*;
    use crate::pins::tests::{NOW, account, corridor, order};

    fn prepared(spend: &SpendRequest, choice: &Choice) -> Prepared {
        let own = authorization::prepare(spend, choice).unwrap();
        let message = json!({
            "message": own.digest,
            "message_prehash": own.typed_data.to_string(),
            "payload": own.payload,
        });
        let body = json!({"payment_id": spend.payment_id, "message_scheme": SCHEME, "signed_messages": [message]});
        serde_json::from_value(body).unwrap()
    }

    #[tokio::test]
    async fn what_was_asked_for_is_signed_and_counts_at_the_gateway() {
        let local = PrivateKeySigner::random();
        let (order, corridor) = (order(&format!("{:#x}", local.address())), corridor());
        let demand = Demand {
            order: &order,
            corridor: &corridor,
            pins: &Pins::default(),
            quote_hash: Hash32::ZERO,
            price: None,
            now: NOW,
        };
        let spend = spend(&demand, Scheme::EvmPermit2Escrow, None).unwrap();
        let checked = demand.check(&prepared(&spend, &Choice::default())).unwrap();
        let auth = checked.sign(&Key::Secp256k1(local.into())).await.unwrap();
        let message = &auth["signed_messages"][0];
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        let signed = SignedMessage {
            message: text("message"),
            message_prehash: Some(text("message_prehash")),
            signature: text("signature"),
            payload: Some(message["payload"].clone()),
        };
        assert!(authorization::authorize(&spend, &signed).is_ok());
        let strangers = Key::Secp256k1(PrivateKeySigner::random().into());
        assert!(matches!(checked.sign(&strangers).await, Err(Error::Key(text)) if text.contains("pays")));
    }

    #[test]
    fn nothing_else_is_signed_and_what_differs_is_named() {
        let (order, corridor) = (order(account(9).as_str()), corridor());
        let demand = Demand {
            order: &order,
            corridor: &corridor,
            pins: &Pins::default(),
            quote_hash: Hash32::ZERO,
            price: None,
            now: NOW,
        };
        let honest = spend(&demand, Scheme::EvmPermit2Escrow, None).unwrap();
        type Change = fn(&mut SpendRequest);
        let changes: [(&str, Change); 6] = [
            ("message.witness.releaser", |spend| spend.escrow.releaser = account(8)),
            ("message.witness.reserver", |spend| spend.escrow.reserver = account(8)),
            ("message.spender", |spend| spend.escrow.contract = account(8)),
            ("domain.verifyingContract", |spend| spend.escrow.permit2 = account(8)),
            ("message.permitted.amount", |spend| spend.terms.max_source_amount = Some("111".parse().unwrap())),
            ("message.nonce", |spend| spend.terms.fulfillment_amount = "1".parse().unwrap()),
        ];
        for (field, change) in changes {
            let mut spend = honest.clone();
            change(&mut spend);
            let refused = demand.check(&prepared(&spend, &Choice::default()));
            let Err(Error::Mismatch(mismatch)) = refused else { panic!("{field}: {refused:?}") };
            assert_eq!(mismatch.field, field);
        }
        for choice in [
            Choice { refund_after: Some(NOW + 86_400), ..Choice::default() },
            Choice { permit_deadline: Some(NOW + 86_400), ..Choice::default() },
        ] {
            let refused = demand.check(&prepared(&honest, &choice));
            assert!(matches!(refused, Err(Error::Mismatch(mismatch)) if mismatch.field.contains("refund window")));
        }
        let other_id = SpendRequest { payment_id: events::PaymentId::derive("x", "y"), ..honest.clone() };
        let refused = demand.check(&prepared(&other_id, &Choice::default()));
        assert!(matches!(refused, Err(Error::Mismatch(mismatch)) if mismatch.field == "payment_id"));
        let mut shown = prepared(&honest, &Choice::default());
        let member = json!({"account": account(8), "endpoint": "https://v1.example"});
        let verifier = json!({"account": account(3), "endpoint": "", "threshold": 1, "members": [member]});
        shown.fulfillment_verifier = serde_json::from_value(verifier).unwrap();
        let refused = demand.check(&shown);
        assert!(matches!(refused, Err(Error::Mismatch(mismatch)) if mismatch.field == "the releaser"));
        let mut none = prepared(&honest, &Choice::default());
        none.signed_messages.clear();
        assert!(matches!(demand.check(&none), Err(Error::Mismatch(_))));
        none.message_scheme = "EVM_PERMIT2".to_owned();
        assert!(matches!(demand.check(&none), Err(Error::Mismatch(mismatch)) if mismatch.field == "message_scheme"));
    }
}
