//! Deposit addresses, on EVM chains: a payment that nobody signs for. Whoever sends its money to an address that commits to it
//! has made the deposit; from there it goes into the escrow of this payment or back to the refund account, and nowhere else.
//!
//! So it is the address that is rebuilt from the payer's own order, with the code that makes it at the gateway, and compared
//! before money moves: [`open`] does all of it, [`Demand::check`] is the comparison alone. The contract that makes the addresses
//! is this version's; none is taken from the gateway.

use std::time::Duration;

use alloy::{primitives::Address, sol_types::SolCall};
use chrono::Utc;

use chains_evm::{
    deposit_addresses::{address_for, factory},
    minimal_proxy::implementation,
};
use escrow_abi::{
    contracts::{self, ConvertError},
    deposit_addresses::{self, DepositAddresses},
};
use events::{
    Account, Amount, AssetId, Hash32, PaymentId, QuoteRequestId,
    event::EscrowPlan,
    time::{Timestamp, unix_seconds},
};

use crate::{
    answers::{Batch, Corridor, Payment, Status},
    error::{Error, Mismatch},
    gateway::{Gateway, batched},
    order::{Order, Windows},
    pins::Pins,
};

/// Deadlines for who pays from an exchange, which takes its time: ten seconds for quotes, an hour for the whole.
pub const WINDOWS: Windows = Windows { quote: Duration::from_secs(10), fulfillment: Duration::from_secs(3_600) };

/// What has to be left of `pay_by` at least, in seconds: a transfer that is made now is not there sooner.
const LEFT_SECONDS: u64 = 5;

/// What [`open`] asks for besides the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Up to when the money is waited for; the gateway leaves time for the delivery where it is `None`. A retry has to name the
    /// same.
    pub pay_by: Option<Timestamp>,
    /// What tells the payer apart, such as [`caller_secret`](crate::caller_secret()). Without it whoever knows `request_id` and
    /// account, as settlers do the batch, can ask first, for another `pay_by`: then this order's address is refused, and never
    /// one of somebody else. None is made where it is `None`, because it is part of the payment's id: a retry after a crash that
    /// lost it would be another payment, with another address.
    pub caller_secret: Option<String>,
}

/// An address that was held against the payer's own order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The payment's id.
    pub payment_id: PaymentId,
    /// Where to send the money.
    pub address: Account,
    /// What to send, on the chain that it names.
    pub asset: AssetId,
    /// How much at least, smallest unit, in one transfer or in several.
    pub amount: Amount,
    /// What comes later goes back.
    pub pay_by: Timestamp,
    /// The only account that money can go back to.
    pub refund_account: Account,
    /// The transfer as a link for wallets and as the text of a QR code (EIP-681).
    pub uri: String,
    /// Kept, they let anyone have sent back what comes too late: see [`Checked::give_back`].
    pub terms: DepositAddresses::Terms,
}

/// A payment that waits for its money.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The batch that it is of.
    pub quote_request_id: QuoteRequestId,
    /// Where to send what.
    pub address: Checked,
    /// How the request was answered.
    pub accepted: Payment,
}

/// What a payment by deposit address is held against.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// What was asked for. Its source account is the refund account.
    pub order: &'a Order,
    /// The batch that the gateway opened for it.
    pub batch: &'a Batch,
    /// What the gateway named for it.
    pub corridor: &'a Corridor,
    /// What the payer knows by itself.
    pub pins: &'a Pins,
    /// What is going to be sent, where the order has no `max_source_amount`.
    pub amount: Option<Amount>,
    /// Up to when the money should be waited for, where that was asked for.
    pub pay_by: Option<Timestamp>,
    /// What went along as `Caller-Secret`.
    pub caller_secret: Option<&'a str>,
    /// Now, UNIX seconds.
    pub now: u64,
}

/// Opens a payment by deposit address: quote-request, address, comparison. Nothing is signed and nothing sent; once
/// [`Checked::amount`] is at the address, the payment goes on by itself, as [`Gateway::wait`] tells. The order's source account
/// is the refund account: one of the payer's own that can receive the token, never one of an exchange. [`WINDOWS`] leaves an
/// exchange its time.
///
/// Under one `request_id`, and one [`Options::caller_secret`], it is one payment, with one address: keep both before the call.
///
/// # Errors
/// [`Error::Mismatch`] names the member in which the gateway's address is not the order's; or, as [`Demand::check`] has it,
/// `status` or `pay_by` where the address was given before, and nothing may be sent there any more.
pub async fn open(gateway: &Gateway, order: &Order, pins: &Pins, options: &Options) -> Result<Opened, Error> {
    contracts::erc20(order.source.asset()).map_err(unusable)?;
    let corridor = gateway.corridor(&order.source, &order.destination).await?;
    let now = unix_seconds(Utc::now());
    // What is pinned is compared before anything is asked for.
    pins.check(order, &corridor, now)?;
    let (pay_by, caller_secret) = (options.pay_by, options.caller_secret.as_deref());
    let batch = gateway.open(order, caller_secret).await?;
    let demand = Demand { order, batch: &batch, corridor: &corridor, pins, amount: None, pay_by, caller_secret, now };
    demand.payment()?;
    let accepted = gateway.deposit_address(&batch.quote_request_id, None, pay_by, caller_secret).await?;
    // The answers may have taken their time.
    let address = Demand { now: unix_seconds(Utc::now()), ..demand }.check(&accepted)?;
    Ok(Opened { quote_request_id: batch.quote_request_id, address, accepted })
}

impl Demand<'_> {
    /// The address that the gateway gave for the payment, where it is that of the payer's own order and money can be sent there
    /// now. Every member is compared; of what the gateway says only the windows are taken, which are bounded, and up to when it
    /// waits.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where money that is sent there could end elsewhere than it should, and, in `status` and `pay_by`, where
    /// the address was given before: the payment is not pending, its time is over or ends within 5 seconds, or is another than
    /// was asked for. [`Error::Invalid`] for an order that cannot be paid so.
    pub fn check(&self, accepted: &Payment) -> Result<Checked, Error> {
        let (payment_id, order, amount) = self.payment()?;
        self.pins.check(&order, self.corridor, self.now)?;
        is("payment_id", &payment_id, &accepted.payment_id)?;
        let given = accepted.deposit_address.as_ref();
        let given = given.ok_or_else(|| Mismatch::new("deposit_address", "an address", "none"))?;
        let (source, named) = (&order.source, &self.corridor.source);
        let (asset, deposit) = (source.asset(), &given.terms.deposit);
        is("factory", &contracts::text(factory()), &given.factory)?;
        is("chain_id", asset.chain(), &given.chain_id)?;
        is("asset_identifier", asset, &given.asset_identifier)?;
        is("amount", &amount, &given.amount)?;
        is("refund_account", source.account(), &given.refund_account)?;
        let plan = EscrowPlan {
            chain_id: asset.chain().clone(),
            contract: named.escrow_contract_address.clone(),
            reserver: named.reserver.clone(),
            releaser: named.releaser.clone(),
            reserve_deadline: deposit.reserve_deadline,
            fulfillment_deadline: order.fulfillment_seconds(),
            refund_after: deposit.refund_after,
        };
        self.windows(&plan, given.pay_by)?;
        is("terms.escrow", &plan.contract, &given.terms.escrow)?;
        is("terms.token", asset.reference(), &given.terms.token)?;
        is("terms.amount", &amount, &given.terms.amount)?;
        is("terms.deposit.payment_id", &payment_id.on_chain(), &deposit.payment_id)?;
        is("terms.deposit.terms_hash", &order.terms().hash(), &deposit.terms_hash)?;
        is("terms.deposit.quote_hash", &Hash32::ZERO, &deposit.quote_hash)?;
        is("terms.deposit.payer", source.account(), &deposit.payer)?;
        is("terms.deposit.reserver", &plan.reserver, &deposit.reserver)?;
        is("terms.deposit.releaser", &plan.releaser, &deposit.releaser)?;
        is("terms.deposit.fulfillment_deadline", &plan.fulfillment_deadline, &deposit.fulfillment_deadline)?;
        let terms = deposit_addresses::terms(&payment_id, &order.terms(), &plan, amount).map_err(unusable)?;
        let address = contracts::text(address_for(factory(), implementation(factory()), &terms));
        is("address", &address, &given.address)?;
        let (token, network) = (asset.reference(), asset.chain().reference());
        let uri = format!("ethereum:{token}@{network}/transfer?address={address}&uint256={amount}");
        is("uri", &uri, &given.uri)?;
        self.fresh(accepted.status, given.pay_by)?;
        Ok(Checked {
            payment_id,
            address: given.address.clone(),
            asset: asset.clone(),
            amount,
            pay_by: given.pay_by,
            refund_account: source.account().clone(),
            uri,
            terms,
        })
    }

    /// The payment's id, its order with the deadlines of the batch, and what is sent.
    fn payment(&self) -> Result<(PaymentId, Order, Amount), Error> {
        let order = batched(self.order, self.batch)?;
        let originator = order.source.account().originator();
        let own = match self.caller_secret {
            None => QuoteRequestId::derive(&originator, &order.request_id),
            Some(secret) => QuoteRequestId::derive_with_secret(&originator, &order.request_id, &Hash32::sha256(secret)),
        };
        is("quote_request_id", &own, &self.batch.quote_request_id)?;
        let amount = match (order.max_source_amount, self.amount) {
            (Some(cap), Some(amount)) if cap != amount => {
                return Err(Error::Invalid(format!("the amount is {amount}, and the order's max_source_amount {cap}")));
            }
            (Some(amount), _) | (None, Some(amount)) => amount,
            (None, None) => {
                return Err(Error::Invalid(
                    "max_source_amount is needed: it is what is sent to the address".to_owned(),
                ));
            }
        };
        Ok((PaymentId::derive(&originator, own.as_str()), order, amount))
    }

    /// Whether money is waited for that is sent now, up to the time that was asked for.
    fn fresh(&self, status: Status, pay_by: Timestamp) -> Result<(), Mismatch> {
        if status != Status::Pending {
            return Err(Mismatch::new("status", "pending", format!("{status:?}").to_lowercase()));
        }
        // Requests have whole seconds.
        let (found, earliest) = (unix_seconds(pay_by), self.now.saturating_add(LEFT_SECONDS));
        let asked = self.pay_by.map(unix_seconds);
        if let Some(asked) = asked.filter(|asked| *asked != found) {
            return Err(Mismatch::new("pay_by", format!("{asked}, as asked for"), found));
        }
        if found < earliest {
            return Err(Mismatch::new("pay_by", format!("{earliest} or later"), found));
        }
        Ok(())
    }

    /// Whether the windows that the gateway chose follow each other, and lock no money for longer than was asked for.
    fn windows(&self, plan: &EscrowPlan, pay_by: Timestamp) -> Result<(), Mismatch> {
        let (paid, fulfilled) = (unix_seconds(pay_by), plan.fulfillment_deadline);
        let latest = fulfilled.saturating_add(self.corridor.refund_delay_seconds);
        for (field, least, found, most) in [
            ("terms.deposit.reserve_deadline", paid, plan.reserve_deadline, fulfilled),
            ("terms.deposit.refund_after", fulfilled.saturating_add(1), plan.refund_after, latest),
        ] {
            if !(least..=most).contains(&found) {
                return Err(Mismatch::new(field, format!("from {least} to {most}"), found));
            }
        }
        Ok(())
    }
}

impl Checked {
    /// Receiver and data of the call by which anyone has sent to the refund account what is at the address: all of the ERC-20
    /// `token`, or of the chain's coin where it is `None`. Of the payment's own token that is possible once no deposit can be
    /// made any more: after the terms' `reserveDeadline`, or when the payment has been deposited.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an asset that is not an ERC-20.
    pub fn give_back(&self, token: Option<&AssetId>) -> Result<(Address, Vec<u8>), Error> {
        let token = token.map_or(Ok(Address::ZERO), contracts::erc20).map_err(unusable)?;
        let call = DepositAddresses::giveBackCall { t: self.terms.clone(), token };
        Ok((factory(), call.abi_encode()))
    }
}

/// Addresses, hashes and links have no case.
fn is(field: &str, own: &(impl ToString + ?Sized), found: &(impl ToString + ?Sized)) -> Result<(), Mismatch> {
    let (own, found) = (own.to_string(), found.to_string());
    match own.eq_ignore_ascii_case(&found) {
        true => Ok(()),
        false => Err(Mismatch::new(field, own, found)),
    }
}

fn unusable(error: ConvertError) -> Error {
    Error::Invalid(format!("the order cannot be paid by a deposit address: {error}"))
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;
    use serde_json::{Value, json};

    use super::*;
    use crate::pins::tests::{NOW, account, corridor, order};

    const FULFILLED: u64 = NOW + 240;

    fn batch(order: &Order) -> Batch {
        let id = QuoteRequestId::derive(&order.source.account().originator(), &order.request_id);
        let mut body = order.body().unwrap();
        body.insert("quote_request_id".to_owned(), json!(id));
        body.insert("status".to_owned(), json!("collecting"));
        serde_json::from_value(Value::Object(body)).unwrap()
    }

    /// The answer of a gateway; its address and link follow what `change` does to the terms.
    fn accepted(order: &Order, change: impl Fn(&mut Value)) -> Value {
        let (source, corridor) = (&order.source, corridor());
        let batch_id = QuoteRequestId::derive(&source.account().originator(), &order.request_id);
        let payment_id = PaymentId::derive(&source.account().originator(), batch_id.as_str());
        let token = source.asset().reference();
        let mut body = json!({
            "payment_id": payment_id,
            "status": "pending",
            "deposit_address": {
                "chain_id": source.asset().chain(),
                "asset_identifier": source.asset(),
                "amount": "110",
                "pay_by": from_unix_seconds(FULFILLED - 120).unwrap(),
                "refund_account": source.account(),
                "factory": contracts::text(factory()),
                "terms": {
                    "escrow": corridor.source.escrow_contract_address,
                    "token": token,
                    "amount": "110",
                    "deposit": {
                        "payment_id": payment_id.on_chain(),
                        "terms_hash": order.terms().hash(),
                        "quote_hash": Hash32::ZERO,
                        "payer": source.account(),
                        "reserver": corridor.source.reserver,
                        "releaser": corridor.source.releaser,
                        "reserve_deadline": FULFILLED - 60,
                        "fulfillment_deadline": FULFILLED,
                        "refund_after": FULFILLED + 900,
                    },
                },
            },
        });
        change(&mut body);
        let address = computed(&body["deposit_address"]["terms"], factory(), implementation(factory()));
        let given = body["deposit_address"].as_object_mut().unwrap();
        let address = given.entry("address").or_insert_with(|| json!(address)).clone();
        let uri = format!("ethereum:{token}@1/transfer?address={}&uint256=110", address.as_str().unwrap());
        given.entry("uri").or_insert_with(|| json!(uri));
        body
    }

    /// Where terms lead, as they are shown.
    fn computed(shown: &Value, factory: Address, implementation: Address) -> String {
        let text = |pointer: &str| shown.pointer(pointer).and_then(Value::as_str).unwrap();
        let time = |name: &str| contracts::time(shown["deposit"][name].as_u64().unwrap()).unwrap();
        let terms = DepositAddresses::Terms {
            escrow: text("/escrow").parse().unwrap(),
            token: text("/token").parse().unwrap(),
            amount: text("/amount").parse().unwrap(),
            deposit: deposit_addresses::GatewayEscrow::GatewayDeposit {
                paymentId: text("/deposit/payment_id").parse().unwrap(),
                termsHash: text("/deposit/terms_hash").parse().unwrap(),
                quoteHash: text("/deposit/quote_hash").parse().unwrap(),
                payer: text("/deposit/payer").parse().unwrap(),
                reserver: text("/deposit/reserver").parse().unwrap(),
                releaser: text("/deposit/releaser").parse().unwrap(),
                reserveDeadline: time("reserve_deadline"),
                fulfillmentDeadline: time("fulfillment_deadline"),
                refundAfter: time("refund_after"),
            },
        };
        contracts::text(address_for(factory, implementation, &terms))
    }

    fn demand<'a>(order: &'a Order, batch: &'a Batch, corridor: &'a Corridor, pins: &'a Pins) -> Demand<'a> {
        Demand { order, batch, corridor, pins, amount: None, pay_by: None, caller_secret: None, now: NOW }
    }

    fn check(order: &Order, batch: &Batch, pins: &Pins, body: Value) -> Result<Checked, Error> {
        let corridor = corridor();
        demand(order, batch, &corridor, pins).check(&serde_json::from_value(body).unwrap())
    }

    fn differs(checked: &Result<Checked, Error>) -> Option<&str> {
        match checked {
            Err(Error::Mismatch(mismatch)) => Some(&mismatch.field),
            _ => None,
        }
    }

    #[test]
    fn the_address_of_the_payers_own_order_is_taken() {
        let order = order(account(9).as_str());
        let body = accepted(&order, |_| ());
        let checked = check(&order, &batch(&order), &Pins::default(), body.clone()).unwrap();
        assert_eq!(json!(checked.address), body["deposit_address"]["address"]);
        assert_eq!(json!(checked.uri), body["deposit_address"]["uri"]);
        assert_eq!((checked.amount, &checked.refund_account), ("110".parse().unwrap(), &account(9)));
        assert_eq!(json!(checked.payment_id), body["payment_id"]);
        assert_ne!(checked.payment_id, order.payment_id(), "the payment is that of the batch");
    }

    #[test]
    fn every_member_that_is_changed_is_noticed() {
        let order = order(account(9).as_str());
        let (other, hash) = (json!(account(8)), json!(Hash32([1; 32])));
        for (field, pointer, value) in [
            ("payment_id", "/payment_id", json!(PaymentId::derive("x", "y"))),
            ("factory", "/deposit_address/factory", other.clone()),
            ("chain_id", "/deposit_address/chain_id", json!("eip155:10")),
            ("asset_identifier", "/deposit_address/asset_identifier", json!(format!("eip155:1/erc20:{}", account(8)))),
            ("amount", "/deposit_address/amount", json!("111")),
            ("refund_account", "/deposit_address/refund_account", other.clone()),
            ("terms.deposit.reserve_deadline", "/deposit_address/pay_by", json!(from_unix_seconds(FULFILLED))),
            ("terms.escrow", "/deposit_address/terms/escrow", other.clone()),
            ("terms.token", "/deposit_address/terms/token", other.clone()),
            ("terms.amount", "/deposit_address/terms/amount", json!("109")),
            ("terms.deposit.payment_id", "/deposit_address/terms/deposit/payment_id", hash.clone()),
            ("terms.deposit.terms_hash", "/deposit_address/terms/deposit/terms_hash", hash.clone()),
            ("terms.deposit.quote_hash", "/deposit_address/terms/deposit/quote_hash", hash),
            ("terms.deposit.payer", "/deposit_address/terms/deposit/payer", other.clone()),
            ("terms.deposit.reserver", "/deposit_address/terms/deposit/reserver", other.clone()),
            ("terms.deposit.releaser", "/deposit_address/terms/deposit/releaser", other.clone()),
            (
                "terms.deposit.fulfillment_deadline",
                "/deposit_address/terms/deposit/fulfillment_deadline",
                json!(FULFILLED + 1),
            ),
            ("terms.deposit.reserve_deadline", "/deposit_address/terms/deposit/reserve_deadline", json!(FULFILLED + 1)),
            ("terms.deposit.refund_after", "/deposit_address/terms/deposit/refund_after", json!(FULFILLED)),
            ("terms.deposit.refund_after", "/deposit_address/terms/deposit/refund_after", json!(FULFILLED + 901)),
        ] {
            let body = accepted(&order, |body| *body.pointer_mut(pointer).unwrap() = value.clone());
            let refused = check(&order, &batch(&order), &Pins::default(), body);
            assert_eq!(differs(&refused), Some(field), "{refused:?}");
        }
        for (field, value) in [("address", other), ("uri", json!("ethereum:0x1@1/transfer?address=0x2&uint256=110"))] {
            let body = accepted(&order, |body| body["deposit_address"][field] = value.clone());
            let refused = check(&order, &batch(&order), &Pins::default(), body);
            assert_eq!(differs(&refused), Some(field), "{refused:?}");
        }
        let mut none = accepted(&order, |_| ());
        none.as_object_mut().unwrap().remove("deposit_address");
        let refused = check(&order, &batch(&order), &Pins::default(), none);
        assert_eq!(differs(&refused), Some("deposit_address"), "{refused:?}");
    }

    #[test]
    fn an_address_of_before_is_refused() {
        let order = order(account(9).as_str());
        let (batch, corridor, pins) = (batch(&order), corridor(), Pins::default());
        let demand = demand(&order, &batch, &corridor, &pins);
        let accepted = accepted(&order, |_| ());
        let checked =
            |demand: Demand<'_>, accepted: &Value| demand.check(&serde_json::from_value(accepted.clone()).unwrap());
        for status in ["finalizing", "completed", "failed"] {
            let mut over = accepted.clone();
            over["status"] = json!(status);
            let refused = checked(demand, &over);
            assert!(
                matches!(&refused, Err(Error::Mismatch(wrong)) if wrong.field == "status" && wrong.found == status),
                "{refused:?}"
            );
        }
        let (paid, at) = (FULFILLED - 120, from_unix_seconds);
        for (now, asked, holds) in [
            (paid - 5, None, true),
            (paid - 4, None, false),
            (paid + 1, None, false),
            (NOW, at(paid).map(|at| at + Duration::from_millis(999)), true),
            (NOW, at(paid - 1), false),
            (NOW, at(paid + 1), false),
        ] {
            let found = checked(Demand { now, pay_by: asked, ..demand }, &accepted);
            assert_eq!(
                (found.is_ok(), differs(&found)),
                (holds, (!holds).then_some("pay_by")),
                "{now} {asked:?}: {found:?}"
            );
        }
    }

    #[test]
    fn the_secret_is_part_of_the_batch() {
        let order = order(account(9).as_str());
        let (mut batch, corridor, pins) = (batch(&order), corridor(), Pins::default());
        let secret = "correct-horse-battery";
        let refused = Demand { caller_secret: Some(secret), ..demand(&order, &batch, &corridor, &pins) }.payment();
        assert!(matches!(&refused, Err(Error::Mismatch(wrong)) if wrong.field == "quote_request_id"), "{refused:?}");
        let (plain, ..) = demand(&order, &batch, &corridor, &pins).payment().unwrap();
        let originator = order.source.account().originator();
        batch.quote_request_id =
            QuoteRequestId::derive_with_secret(&originator, &order.request_id, &Hash32::sha256(secret));
        let own = Demand { caller_secret: Some(secret), ..demand(&order, &batch, &corridor, &pins) }.payment();
        assert_ne!(own.unwrap().0, plain);
        assert!(demand(&order, &batch, &corridor, &pins).payment().is_err());
    }

    #[test]
    fn addresses_of_another_factory_are_refused() {
        let order = order(account(9).as_str());
        let stranger = Address::repeat_byte(8);
        for (factory, code) in [(stranger, implementation(stranger)), (factory(), stranger)] {
            let body = accepted(&order, |body| {
                let address = computed(&body["deposit_address"]["terms"], factory, code);
                body["deposit_address"]["address"] = json!(address);
            });
            let refused = check(&order, &batch(&order), &Pins::default(), body);
            assert_eq!(differs(&refused), Some("address"), "{refused:?}");
        }
    }

    #[test]
    fn batch_and_pins_are_the_payers() {
        let order = order(account(9).as_str());
        let (mut other, body) = (batch(&order), accepted(&order, |_| ()));
        other.quote_request_id = QuoteRequestId::derive("x", "y");
        let refused = check(&order, &other, &Pins::default(), body.clone());
        assert_eq!(differs(&refused), Some("quote_request_id"), "{refused:?}");
        let mut other = batch(&order);
        other.fulfillment_amount = "1".parse().unwrap();
        let refused = check(&order, &other, &Pins::default(), body.clone());
        assert_eq!(differs(&refused), Some("the batch"), "{refused:?}");
        let pins = Pins { escrow: Some(account(8)), ..Pins::default() };
        let refused = check(&order, &batch(&order), &pins, body.clone());
        assert_eq!(differs(&refused), Some("escrow"), "{refused:?}");
        let uncapped = Order { max_source_amount: None, ..order };
        let refused = check(&uncapped, &batch(&uncapped), &Pins::default(), body);
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("max_source_amount")), "{refused:?}");
    }

    #[test]
    fn the_call_that_gives_back_names_the_terms() {
        let order = order(account(9).as_str());
        let checked = check(&order, &batch(&order), &Pins::default(), accepted(&order, |_| ())).unwrap();
        let (to, data) = checked.give_back(Some(&checked.asset)).unwrap();
        let call = DepositAddresses::giveBackCall::abi_decode(&data).unwrap();
        assert_eq!((to, call.token, call.t), (factory(), checked.terms.token, checked.terms.clone()));
        let (_, data) = checked.give_back(None).unwrap();
        assert_eq!(DepositAddresses::giveBackCall::abi_decode(&data).unwrap().token, Address::ZERO);
        assert!(matches!(checked.give_back(Some(&"eip155:1/slip44:60".parse().unwrap())), Err(Error::Invalid(_))));
    }
}
