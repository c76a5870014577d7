//! Solana: the deposit's terms, rebuilt to the byte.

use serde_json::Value;

use chains_solana::authorization::{
    self, AuthorizationError, Choice, ClusterId, EscrowSettings, SIGNATURE_DOMAIN_VERSION, SignedMessage, SpendRequest,
    allowance_delegate,
};
use events::Account;

use super::{Checked, Demand, Signing, is_payers, signed};
use crate::{
    answers::{Prepared, UnsignedMessage},
    error::{Error, Mismatch},
    key::Key,
};

const SCHEME: &str = "SOLANA";
/// Characters of the genesis hash in a CAIP-2 id.
const CHAIN_REFERENCE_CHARS: usize = 32;

/// What is signed.
#[derive(Debug, Clone)]
pub(super) struct Rebuilt {
    payer: Account,
    digest: [u8; 32],
    message: UnsignedMessage,
}

pub(super) fn check(demand: &Demand<'_>, prepared: &Prepared) -> Result<Checked, Error> {
    demand.scheme(SCHEME, prepared)?;
    let theirs = demand.only(prepared)?;
    let spend = spend(demand)?;
    let own = authorization::prepare(&spend, &Choice::default()).map_err(refused)?;
    if theirs.message.parse() != Ok(own.digest) {
        return Err(difference(&spend, theirs, &own.digest.to_string()).into());
    }
    let payer = demand.order.source.account().clone();
    let spender =
        allowance_delegate(&spend.escrow.program, &payer).map_err(|error| Error::Invalid(error.to_string()))?;
    let message = UnsignedMessage {
        message: own.digest.to_string(),
        message_prehash: format!("0x{}", hex::encode(&own.preimage)),
        payload: Some(own.payload.clone()),
    };
    Ok(Checked {
        payment_id: spend.payment_id,
        plan: own.plan,
        amount: own.amount,
        spender: Some(spender),
        scheme: SCHEME,
        signing: Signing::Solana(Rebuilt { payer, digest: own.digest.0, message }),
    })
}

impl Rebuilt {
    pub(super) async fn sign(&self, key: &Key) -> Result<Vec<Value>, Error> {
        is_payers(key, &self.payer)?;
        let signature = key.ed25519()?.sign(&self.digest).await.map_err(|error| Error::Key(error.to_string()))?;
        Ok(vec![signed(&self.message, &signature)])
    }
}

fn spend(demand: &Demand<'_>) -> Result<SpendRequest, Error> {
    let (order, named) = (demand.order, &demand.corridor.source);
    let cluster = named.signature_cluster_id.as_deref().unwrap_or_default();
    let reference = order.source.asset().chain().reference();
    // The chain that the payer names is the beginning of its cluster's genesis hash.
    let is_chains = cluster.get(..CHAIN_REFERENCE_CHARS) == Some(reference);
    let cluster_id = ClusterId::parse(cluster).filter(|_| is_chains);
    let cluster_id =
        cluster_id.ok_or_else(|| Mismatch::new("signature_cluster_id", format!("{reference}…"), cluster))?;
    if named.signature_domain_version != Some(SIGNATURE_DOMAIN_VERSION) {
        let found = named.signature_domain_version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        return Err(Mismatch::new("signature_domain_version", SIGNATURE_DOMAIN_VERSION, found).into());
    }
    Ok(SpendRequest {
        payment_id: order.payment_id(),
        terms: order.terms(),
        quote_deadline: order.quote_deadline,
        fulfillment_deadline: order.fulfillment_deadline,
        cluster_id,
        escrow: EscrowSettings {
            program: named.escrow_contract_address.clone(),
            reserver: named.reserver.clone(),
            releaser: named.releaser.clone(),
            refund_delay_seconds: demand.corridor.refund_delay_seconds,
        },
        quote_hash: demand.quote_hash,
    })
}

/// In what the gateway's message differs, as the gateway would read it.
fn difference(spend: &SpendRequest, theirs: &UnsignedMessage, own: &str) -> Mismatch {
    let unsigned = SignedMessage {
        message: theirs.message.clone(),
        message_prehash: Some(theirs.message_prehash.clone()),
        signature: String::new(),
        payload: None,
    };
    match authorization::authorize(spend, &unsigned) {
        Err(AuthorizationError::Mismatch { field, expected, found }) => Mismatch::new(field, expected, found),
        Err(AuthorizationError::Malformed { field, reason }) => Mismatch::new(field, "as it was asked for", reason),
        _ => Mismatch::new("message", own, &theirs.message),
    }
}

fn refused(error: AuthorizationError) -> Error {
    Error::Invalid(format!("the order cannot be signed for: {error}"))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;
    use events::{Amount, Hash32, OwnedAsset, time::from_unix_seconds};
    use serde_json::json;

    use super::*;
    use crate::{
        answers::Corridor,
        order::{Order, Windows},
        pins::{Pins, tests::NOW},
    };

    const CLUSTER: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";

    fn account(byte: u8) -> Account {
        Account::from_bytes(events::Family::Solana, &[byte; 32]).unwrap()
    }

    fn corridor(cluster: &str) -> Corridor {
        let source = json!({
            "escrow_contract_address": account(1),
            "reserver": account(2),
            "releaser": account(3),
            "signature_cluster_id": cluster,
            "signature_domain_version": 1,
            "refund_delay_seconds": 900,
            "assets": [],
        });
        Corridor {
            source: serde_json::from_value(source).unwrap(),
            refund_delay_seconds: 900,
            destinations: Vec::new(),
        }
    }

    fn order(payer: &SigningKey) -> Order {
        let account = Account::from_bytes(events::Family::Solana, &payer.verifying_key().to_bytes()).unwrap();
        let chain = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
        let owned =
            |asset: &str| OwnedAsset::new(format!("{chain}/{asset}").parse().unwrap(), account.as_str()).unwrap();
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        Order::new(
            owned("token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
            vec![owned("slip44:501")],
            amount("100"),
            Some(amount("110")),
            from_unix_seconds(NOW).unwrap(),
            Windows::default(),
        )
    }

    fn prepared(spend: &SpendRequest) -> Prepared {
        let own = authorization::prepare(spend, &Choice::default()).unwrap();
        let prehash = format!("0x{}", hex::encode(&own.preimage));
        let message = json!({"message": own.digest, "message_prehash": prehash, "payload": own.payload});
        let body = json!({"payment_id": spend.payment_id, "message_scheme": SCHEME, "signed_messages": [message]});
        serde_json::from_value(body).unwrap()
    }

    #[tokio::test]
    async fn the_payers_terms_are_signed_and_no_others() {
        let payer = SigningKey::from_bytes(&[7; 32]);
        let (order, corridor) = (order(&payer), corridor(CLUSTER));
        let demand = Demand {
            order: &order,
            corridor: &corridor,
            pins: &Pins::default(),
            quote_hash: Hash32::ZERO,
            price: None,
            now: NOW,
        };
        let spend = spend(&demand).unwrap();
        let checked = demand.check(&prepared(&spend)).unwrap();
        let auth = checked.sign(&Key::Ed25519(payer.into())).await.unwrap();
        let message = &auth["signed_messages"][0];
        let text = |name: &str| message[name].as_str().unwrap().to_owned();
        let signed = SignedMessage {
            message: text("message"),
            message_prehash: Some(text("message_prehash")),
            signature: text("signature"),
            payload: Some(message["payload"].clone()),
        };
        assert!(authorization::authorize(&spend, &signed).is_ok());

        let mut other = spend.clone();
        other.escrow.releaser = account(9);
        let Err(Error::Mismatch(mismatch)) = demand.check(&prepared(&other)) else {
            panic!("signed for another releaser")
        };
        assert!(mismatch.field.contains("releaser"), "{mismatch}");
    }

    #[test]
    fn the_cluster_is_that_of_the_payers_chain() {
        let payer = SigningKey::from_bytes(&[7; 32]);
        let order = order(&payer);
        for cluster in ["4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "", "ü"] {
            let corridor = corridor(cluster);
            let demand = Demand {
                order: &order,
                corridor: &corridor,
                pins: &Pins::default(),
                quote_hash: Hash32::ZERO,
                price: None,
                now: NOW,
            };
            let refused = spend(&demand);
            assert!(matches!(refused, Err(Error::Mismatch(mismatch)) if mismatch.field == "signature_cluster_id"));
        }
    }
}
