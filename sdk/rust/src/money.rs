//! Money: where that of a payment is, as its timeline and its status tell it.

use serde::Serialize;

use crate::answers::{Payment, Status, Timeline};

/// Where the payer's money is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "where", rename_all = "snake_case")]
pub enum Whereabouts {
    /// Nothing was drawn from the payer.
    WithPayer,
    /// What was sent to the payment's deposit address is there, where any was.
    AtAddress,
    /// A deposit was sent, and what became of it is not settled.
    OnItsWay {
        /// The deposit.
        transaction: Option<String>,
    },
    /// In the escrow. Of a payment that failed it comes back by itself; where no gateway does it, anyone can.
    InEscrow {
        /// The deposit.
        transaction: Option<String>,
    },
    /// The recipient was paid.
    Delivered {
        /// The delivery.
        transaction: Option<String>,
    },
    /// Back with the payer.
    Returned {
        /// The refund.
        transaction: Option<String>,
    },
    /// In the escrow as a claim of its owner, which the token would not hand over.
    Claimable,
}

impl Whereabouts {
    /// Where the money is by what a gateway tells. It is the gateway's word; the escrow's record proves it.
    pub fn of(payment: &Payment, timeline: &Timeline) -> Self {
        let transaction = |event: &str, stage: &str| {
            timeline.last(event).and_then(|entry| entry.transaction(stage)).map(str::to_owned)
        };
        if timeline.last("EscrowRefunded").is_some() {
            return match payment.claims() {
                [] => Self::Returned { transaction: transaction("EscrowRefunded", "refund") },
                [..] => Self::Claimable,
            };
        }
        if payment.status == Status::Completed {
            return Self::Delivered { transaction: payment.transaction("fulfillment").map(str::to_owned) };
        }
        let deposit = payment.transaction("deposit").map(str::to_owned);
        if timeline.last("EscrowSecured").or_else(|| timeline.last("EscrowOpened")).is_some() {
            return Self::InEscrow { transaction: deposit };
        }
        let ruled_out = timeline.at_rest || timeline.last("DepositRuledOut").is_some();
        match deposit {
            Some(deposit) if !ruled_out => Self::OnItsWay { transaction: Some(deposit) },
            _ if payment.deposit_address.is_some() => Self::AtAddress,
            _ => Self::WithPayer,
        }
    }

    /// The same as a sentence.
    pub fn describe(&self) -> String {
        let named = |transaction: &Option<String>| {
            transaction.as_ref().map_or_else(String::new, |transaction| format!(" by {transaction}"))
        };
        match self {
            Self::WithPayer => "nothing was taken: the money is with you".to_owned(),
            Self::AtAddress => {
                "what was sent is at the deposit address, and goes back to the refund account; anyone can have it \
                 given back"
                    .to_owned()
            }
            Self::OnItsWay { transaction } => {
                format!(
                    "a deposit was sent{}, and is not settled; the timeline tells what becomes of it",
                    named(transaction)
                )
            }
            Self::InEscrow { transaction } => {
                format!("the money is in the escrow{}, and is being returned; see `gw refund`", named(transaction))
            }
            Self::Delivered { transaction } => format!("the recipient was paid{}", named(transaction)),
            Self::Returned { transaction } => format!("the money is back with you{}", named(transaction)),
            Self::Claimable => {
                "the token would not hand the money back; it waits as a claim: see `gw refund`".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(
        status: &str,
        deposit: Option<&str>,
        events: &[(&str, Value)],
        at_rest: bool,
        claims: Value,
    ) -> Whereabouts {
        let id = events::PaymentId::derive("eip155:0x1", "order");
        let mut payment = json!({"payment_id": id, "status": status, "claims": claims});
        if let Some(deposit) = deposit {
            payment["transactions"] = json!({
                "deposit": {"transaction_hash": deposit, "chain_id": "eip155:1"},
                "fulfillment": {"transaction_hash": "0xf", "chain_id": "eip155:10"},
            });
        }
        let entries: Vec<Value> = events
            .iter()
            .map(|(event, transactions)| {
                json!({
                    "id": "1.0", "version": 1, "event": event, "at": "2027-01-15T08:00:10Z", "status": status,
                    "summary": "", "transactions": transactions,
                })
            })
            .collect();
        let timeline = json!({"payment_id": id, "status": status, "at_rest": at_rest, "entries": entries});
        Whereabouts::of(&serde_json::from_value(payment).unwrap(), &serde_json::from_value(timeline).unwrap())
    }

    #[test]
    fn money_is_where_the_last_thing_that_moved_it_left_it() {
        let refund = ("EscrowRefunded", json!({"refund": {"transaction_hash": "0xr"}}));
        let secured = ("EscrowSecured", json!({}));
        let failed = ("Failed", json!({}));
        let none = || json!([]);
        let with = |text: &str| Some(text.to_owned());
        let (returned, escrow) =
            (Whereabouts::Returned { transaction: with("0xr") }, Whereabouts::InEscrow { transaction: with("0xd") });
        assert_eq!(found("failed", None, std::slice::from_ref(&failed), true, none()), Whereabouts::WithPayer);
        assert_eq!(found("failed", Some("0xd"), std::slice::from_ref(&failed), true, none()), Whereabouts::WithPayer);
        let on_its_way = Whereabouts::OnItsWay { transaction: with("0xd") };
        assert_eq!(found("failed", Some("0xd"), std::slice::from_ref(&failed), false, none()), on_its_way);
        assert_eq!(found("failed", Some("0xd"), &[secured.clone(), failed.clone()], false, none()), escrow);
        assert_eq!(
            found("failed", Some("0xd"), &[secured.clone(), failed.clone(), refund.clone()], true, none()),
            returned
        );
        let claims = json!([{"owner": "0x1"}]);
        assert_eq!(found("failed", Some("0xd"), &[secured.clone(), refund], true, claims), Whereabouts::Claimable);
        let delivered = Whereabouts::Delivered { transaction: with("0xf") };
        assert_eq!(found("completed", Some("0xd"), &[secured], false, none()), delivered);
        assert!(delivered.describe().contains("0xf"));
    }
}
