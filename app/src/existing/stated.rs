//! Stated identity: the request id, originator and terms of a body, read leniently: without the configuration, however many
//! other members are at fault, and believed in nothing.

use serde_json::{Map, Value};

use events::{Account, Amount, OwnedAsset, PaymentId, Terms};
use proofs::did::Did;

use crate::request::order::is_request_id;

/// Who a body says that it is from, under which key, and about what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stated {
    /// The DID that the proof names, whether it holds or not; else the source account.
    pub(crate) originator: String,
    /// The idempotency key.
    pub(crate) request_id: String,
    /// The source account.
    pub(crate) account: Option<Account>,
    /// The economics; `None` where they cannot be read.
    pub(crate) terms: Option<Terms>,
}

impl Stated {
    /// What the body of a submission or a quote-request says; `None` where it names no key.
    pub(crate) fn of_order(body: &Map<String, Value>) -> Option<Self> {
        let source = body.get("source");
        let owned = source.and_then(owned);
        let text = source.and_then(|source| source.get("account")).and_then(Value::as_str);
        // The family of an account shows in its form where the asset does not say it.
        let account = owned.as_ref().map(|owned| owned.account().clone()).or_else(|| text?.parse().ok());
        let terms = owned.and_then(|source| terms(source, body));
        Self::by(body, account, terms)
    }

    /// What the body of an award says, of a batch with these economics.
    pub(crate) fn of_award(body: &Map<String, Value>, terms: &Terms) -> Option<Self> {
        Self::by(body, Some(terms.source.account().clone()), Some(terms.clone()))
    }

    fn by(body: &Map<String, Value>, account: Option<Account>, terms: Option<Terms>) -> Option<Self> {
        let request_id = body.get("request_id")?.as_str().filter(|text| is_request_id(text))?.to_owned();
        let originator = match named_did(body) {
            Named::Nobody => account.as_ref()?.originator(),
            Named::Did(did) => did,
            Named::Unreadable => return None,
        };
        Some(Self { originator, request_id, account, terms })
    }

    /// The payment under this key.
    pub(crate) fn payment_id(&self) -> PaymentId {
        PaymentId::derive(&self.originator, &self.request_id)
    }
}

/// Whom the proof of a body names.
enum Named {
    /// There is no proof.
    Nobody,
    Did(String),
    /// There is one, and it does not say whose it is.
    Unreadable,
}

/// The originator that a body would have if its proof held: the signer of the envelope, else that of `originator_auth`.
fn named_did(body: &Map<String, Value>) -> Named {
    let presents = match body.get("verifiableCredential") {
        None => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    let methods: Vec<Option<&str>> = match (body.get("proof"), body.get("originator_auth")) {
        (Some(Value::Array(proofs)), _) => proofs.iter().map(|proof| text(proof, "verificationMethod")).collect(),
        (Some(proof), _) => vec![text(proof, "verificationMethod")],
        (None, _) if presents => vec![None],
        (None, Some(auth)) => vec![text(auth, "verification_method_id")],
        (None, None) => return Named::Nobody,
    };
    let mut dids = methods.into_iter().map(|method| Some(Did::of_url(method?).ok()?.0.to_string()));
    match dids.next().flatten() {
        // Of several proofs all are by one holder, or it is not said whose the request is.
        Some(did) if dids.all(|other| other.as_ref() == Some(&did)) => Named::Did(did),
        _ => Named::Unreadable,
    }
}

fn terms(source: OwnedAsset, body: &Map<String, Value>) -> Option<Terms> {
    let items = body.get("destination")?.as_array().filter(|items| !items.is_empty())?;
    let mut destination = Vec::with_capacity(items.len());
    for item in items {
        let owned = owned(item)?;
        if !destination.contains(&owned) {
            destination.push(owned);
        }
    }
    let fulfillment_amount = amount(body.get("fulfillment_amount")?)?;
    let max_source_amount = body.get("max_source_amount").map(amount);
    if max_source_amount == Some(None) {
        return None;
    }
    Some(Terms::new(source, destination, fulfillment_amount, max_source_amount.flatten()))
}

fn owned(value: &Value) -> Option<OwnedAsset> {
    OwnedAsset::new(text(value, "asset_identifier")?.parse().ok()?, text(value, "account")?).ok()
}

fn amount(value: &Value) -> Option<Amount> {
    value.as_str()?.parse().ok()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAYER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
    const ASSET: &str = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
    const KEY: &str = "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp";

    fn stated(change: impl FnOnce(&mut Map<String, Value>)) -> Option<Stated> {
        let Value::Object(mut body) = json!({
            "request_id": "a",
            "source": {"asset_identifier": ASSET, "account": PAYER},
            "destination": [{"asset_identifier": ASSET, "account": PAYER}],
            "fulfillment_amount": "5",
        }) else {
            unreachable!()
        };
        change(&mut body);
        Stated::of_order(&body)
    }

    fn with(name: &str, value: Value) -> Option<Stated> {
        stated(|body| {
            body.insert(name.to_owned(), value);
        })
    }

    #[test]
    fn the_key_is_read_whatever_else_is_at_fault() {
        let own = format!("eip155:{PAYER}");
        let whole = stated(|_| {}).unwrap();
        assert_eq!((&whole.originator, whole.payment_id()), (&own, PaymentId::derive(&own, "a")));
        assert!(whole.terms.is_some());
        for (name, value) in [
            ("destination", json!([])),
            ("destination", json!([{"asset_identifier": ASSET, "account": "somebody"}])),
            ("fulfillment_amount", json!(5)),
            ("max_source_amount", Value::Null),
            ("source", json!({"asset_identifier": "gold", "account": PAYER})),
        ] {
            let stated = with(name, value).unwrap();
            assert_eq!((&stated.originator, stated.terms), (&own, None), "{name}");
        }
        // Written in another way it is the same; a cap that is left out is another one.
        let upper = json!({"asset_identifier": ASSET, "account": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"});
        assert_eq!(with("source", upper), Some(whole.clone()));
        assert_ne!(with("max_source_amount", json!("6")).unwrap().terms, whole.terms);
        for (name, value) in [("request_id", json!("a b")), ("request_id", json!(7)), ("source", json!({}))] {
            assert_eq!(with(name, value), None, "{name}");
        }
    }

    #[test]
    fn the_originator_is_whom_the_proof_names_or_nobody() {
        let method = format!("{KEY}#{}", &KEY["did:key:".len()..]);
        let proof = json!({"verificationMethod": method});
        let own = format!("eip155:{PAYER}");
        let originator = |name: &str, value: &Value| with(name, value.clone()).map(|stated| stated.originator);
        assert_eq!(originator("proof", &proof).as_deref(), Some(KEY));
        assert_eq!(originator("proof", &json!([proof, proof])).as_deref(), Some(KEY));
        assert_eq!(originator("originator_auth", &json!({"verification_method_id": method})).as_deref(), Some(KEY));
        assert_eq!(originator("@context", &json!([])), Some(own.clone()));
        assert_eq!(originator("verifiableCredential", &json!([])), Some(own));
        // Where it cannot be read whose the request is, no key follows, the account's least of all.
        for (name, value) in [
            ("proof", json!("a")),
            ("proof", json!({})),
            ("proof", json!([])),
            ("proof", json!([proof, {"verificationMethod": "did:web:bank.example#key"}])),
            ("originator_auth", json!({})),
            ("originator_auth", Value::Null),
            ("verifiableCredential", json!([{}])),
        ] {
            assert_eq!(originator(name, &value), None, "{name} = {value}");
        }
    }
}
