//! Mandates: what a payer lets a merchant ask for, and what the two of them keep of it. Amounts are in the smallest unit, times in UNIX
//! seconds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use events::{Account, Amount, ChainId, Hash32, OwnedAsset, Terms, event::Mandate};

use crate::order::VERSION;

/// What a payer lets a merchant ask for: up to `amount` in each of `periods` periods, delivered to one of `destination`. What is not drawn
/// in a period is lost, and what comes back of it does not refill it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MandateOrder {
    /// An ERC-20 on an EVM chain, and the account that pays.
    pub source: OwnedAsset,
    /// Where payments may be delivered. A mandate commits to all of these, so that each payment under it has the same.
    pub destination: Vec<OwnedAsset>,
    /// Who signs for each payment: an account with a key on the source's chain.
    pub merchant: Account,
    /// The most that is drawn in a period, with what settlers ask.
    pub amount: Amount,
    /// What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the destination's asset.
    /// Without it the merchant alone says how much is delivered: one who is a settler, too, keeps the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Amount>,
    /// First second of the first period.
    pub begins: u64,
    /// How long a period is.
    pub period_seconds: u32,
    /// How many there are.
    pub periods: u32,
    /// The most time from a payment's deposit to the first second of its refund: more than the refund delay of its chains and a minute, by
    /// as much as a payment takes from the end of its quote collection to its end, and at most [`Pins::lock_max`](crate::Pins::lock_max).
    pub lock_seconds: u32,
}

impl MandateOrder {
    /// The mandate with this salt.
    pub fn mandate(&self, salt: Hash32) -> Mandate {
        Mandate {
            merchant: self.merchant.clone(),
            amount: self.amount,
            least: self.least,
            begins: self.begins,
            period_seconds: self.period_seconds,
            periods: self.periods,
            lock_seconds: self.lock_seconds,
            salt,
        }
    }

    /// The economics of a payment under it, of whose amounts a mandate knows nothing: they are any.
    pub fn terms(&self) -> Terms {
        Terms::new(self.source.clone(), self.destination.clone(), self.amount, None)
    }

    /// The body by which a gateway is asked what is to be signed for the mandate with this salt.
    pub fn body(&self, salt: Hash32) -> Map<String, Value> {
        Map::from_iter([
            ("version".to_owned(), json!(VERSION)),
            ("source".to_owned(), json!(self.source)),
            ("destination".to_owned(), json!(self.destination)),
            ("mandate".to_owned(), json!(self.mandate(salt))),
        ])
    }
}

/// What a payer hands over to its merchant, who shows it with each payment. No gateway keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MandatePayload {
    /// The mandate.
    pub mandate: Mandate,
    /// The payer's signature for Permit2 that gives the mandate's allowance, hex with 0x. Absent where the payer gives it by a call of its
    /// own: [`SignedMandate::allowance`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
}

/// A mandate that was compared, as its payer keeps it. The calls were made here, and none is the gateway's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedMandate {
    /// For the merchant.
    pub payload: MandatePayload,
    /// The chain that all of it is on.
    pub chain_id: ChainId,
    /// The address that commits to the mandate, to which Permit2's allowance is given.
    pub address: Account,
    /// That allowance: all periods together. So much has to be allowed to Permit2 by the token.
    pub total: Amount,
    /// The payer's own call that has to be on chain before the first payment, where the gateway says that the token allows Permit2 less
    /// than `total`: it allows just that. [`Chain::approve`](crate::onchain::Chain::approve) does the same, and takes back first what
    /// stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<WalletCall>,
    /// The call by which a payer that signs nothing, such as a contract, gives the allowance at Permit2 itself.
    pub allowance: WalletCall,
    /// The payer's call, or the merchant's, that ends the mandate for ever. What is in escrow by then stays there for its payment.
    /// [`Chain::end_mandate`](crate::onchain::Chain::end_mandate) sends it.
    pub cancel: WalletCall,
}

/// A call of one's own on an EVM chain, as `eth_sendTransaction` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletCall {
    /// The contract that is called.
    pub to: Account,
    /// With what, hex with 0x.
    pub data: String,
    /// How much of the chain's coin goes along, hex with 0x.
    pub value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

    fn order() -> MandateOrder {
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), ACCOUNT).unwrap();
        MandateOrder {
            source: owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
            destination: vec![owned("eip155:10/slip44:60")],
            merchant: ACCOUNT.parse().unwrap(),
            amount: "6".parse().unwrap(),
            least: None,
            begins: 1_800_000_000,
            period_seconds: 86_400,
            periods: 3,
            lock_seconds: 3_600,
        }
    }

    #[test]
    fn a_mandate_is_asked_for_with_nothing_left_out_but_the_bound_that_it_lacks() {
        let salt = Hash32([7; 32]);
        let mandate = json!({
            "merchant": ACCOUNT, "amount": "6", "begins": 1_800_000_000_u64, "period_seconds": 86_400, "periods": 3,
            "lock_seconds": 3_600, "salt": salt,
        });
        let body = order().body(salt);
        assert_eq!((&body["version"], &body["mandate"]), (&json!("1.0"), &mandate));
        assert_eq!(body["destination"], json!([{"account": ACCOUNT, "asset_identifier": "eip155:10/slip44:60"}]));
        let bound = MandateOrder { least: Some("5".parse().unwrap()), ..order() };
        assert_eq!(bound.body(salt)["mandate"]["least"], "5");
    }

    #[test]
    fn what_was_kept_is_the_same_again() {
        let order = order();
        assert_eq!(serde_json::from_value::<MandateOrder>(json!(order)).unwrap(), order);
        let bare = MandatePayload { mandate: order.mandate(Hash32::ZERO), permit: None };
        assert_eq!(json!(bare), json!({"mandate": bare.mandate}));
        let payload = MandatePayload { permit: Some("0x01".to_owned()), ..bare };
        assert_eq!(serde_json::from_value::<MandatePayload>(json!(payload)).unwrap(), payload);
    }
}
