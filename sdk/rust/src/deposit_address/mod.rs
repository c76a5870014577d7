//! Deposit addresses: a payment that nobody signs for. Whoever sends its money to an address that commits to it has made the deposit;
//! from there it goes into the escrow of this payment or back to the refund account, and nowhere else.
//!
//! So it is the address that is rebuilt from the payer's own order, with the code that makes it at the gateway, and compared
//! before money moves: [`open`] does all of it, [`Demand::check`] is the comparison alone. On EVM chains the contract that makes the
//! addresses is this version's, and on Solana the escrow's own program makes them, so that none is taken from the gateway; on Tron,
//! where each network has its contract elsewhere, the payer pins it ([`Pins::deposit_address_factory`]) or believes the gateway. What
//! else differs by family is in its `AddressFamily`.

#[cfg(feature = "evm")]
mod evm;
#[cfg(feature = "solana")]
mod solana;
#[cfg(any(feature = "evm", feature = "tron"))]
mod solidity;
// Clippy knows tests by `cfg(test)` alone.
#[cfg(test)]
#[cfg(all(feature = "evm", feature = "solana", feature = "tron"))]
mod tests;
#[cfg(feature = "tron")]
mod tron;

use std::time::Duration;

use chrono::Utc;

#[cfg(any(feature = "evm", feature = "tron"))]
use escrow_abi::deposit_addresses::DepositAddresses;
use events::{
    Account, Amount, AssetId, Family, Hash32, PaymentId, QuoteRequestId, Terms,
    event::EscrowPlan,
    time::{Timestamp, unix_seconds},
};
#[cfg(feature = "solana")]
use gateway_program::message::Deposit;

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

/// What of deposit addresses is a family's own.
struct AddressFamily {
    /// What makes the addresses for an escrow, where a payer knows it without a pin.
    factory: Option<fn(&Account) -> String>,
    /// What a payment's address commits to, of those that its factory makes, and where it is.
    commit: fn(&Payable<'_>, &Account) -> Result<Commitment, Error>,
    /// Whether the asset is a token, of which alone there are addresses.
    token: fn(&AssetId) -> Result<(), Error>,
    /// The transfer as a link: of what, to where, how much.
    uri: fn(&AssetId, &str, Amount) -> String,
    /// Whether accounts that differ in case alone are the same.
    ignores_case: bool,
}

/// The payment whose address is rebuilt.
struct Payable<'a> {
    payment_id: &'a PaymentId,
    terms: &'a Terms,
    plan: &'a EscrowPlan,
    amount: Amount,
}

/// An address that was rebuilt.
#[derive(Debug)]
struct Commitment {
    terms: AddressTerms,
    address: String,
}

/// What an address commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressTerms {
    /// On EVM chains and Tron, what their contract hashes.
    #[cfg(any(feature = "evm", feature = "tron"))]
    Solidity(DepositAddresses::Terms),
    /// On Solana, what payers sign there. The escrow is its program, [`Checked::factory`].
    #[cfg(feature = "solana")]
    Solana(Deposit),
}

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
    /// Where to send the money. On Solana it is an owner of token accounts, off the curve, as a multi-signature vault is: the money lies in
    /// its associated token account, which the sender makes, and wallets that refuse such owners cannot pay.
    pub address: Account,
    /// What to send, on the chain that it names.
    pub asset: AssetId,
    /// How much at least, smallest unit, in one transfer or in several.
    pub amount: Amount,
    /// What comes later goes back.
    pub pay_by: Timestamp,
    /// The only account that money can go back to.
    pub refund_account: Account,
    /// The transfer as a link for wallets and as the text of a QR code (EIP-681). On Solana (Solana Pay) it has no amount, which counts in
    /// whole tokens there: who knows the token's decimals adds it, as `&amount=1.5`. On Tron there is no settled form for amounts: the
    /// link has the address alone, and the QR code's text is `address`.
    pub uri: String,
    /// The contract that makes the address and alone moves what is there; on Solana the escrow's program.
    pub factory: Account,
    /// Kept, they let anyone have sent back what comes too late: see `give_back`, and on Solana `give_back_token`.
    pub terms: AddressTerms,
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
    /// What nothing but the gateway's word is behind; see [`Demand::believed`].
    pub believed: Vec<(&'static str, Account)>,
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
/// is the refund account: one of the payer's own that can receive the token, never one of an exchange. On Solana its associated token
/// account has to be there: see [`Chain::open_token_account`](crate::onchain::Chain::open_token_account). [`WINDOWS`] leaves an exchange
/// its time.
///
/// Under one `request_id`, and one [`Options::caller_secret`], it is one payment, with one address: keep both before the call.
///
/// # Errors
/// [`Error::Mismatch`] names the member in which the gateway's address is not the order's; or, as [`Demand::check`] has it,
/// `status` or `pay_by` where the address was given before, and nothing may be sent there any more.
pub async fn open(gateway: &Gateway, order: &Order, pins: &Pins, options: &Options) -> Result<Opened, Error> {
    (AddressFamily::of(order.source.family())?.token)(order.source.asset())?;
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
    let believed = demand.believed(&address);
    Ok(Opened { quote_request_id: batch.quote_request_id, address, accepted, believed })
}

impl AddressFamily {
    fn of(family: Family) -> Result<&'static Self, Error> {
        match family {
            #[cfg(feature = "evm")]
            Family::Evm => Ok(&evm::FAMILY),
            #[cfg(feature = "solana")]
            Family::Solana => Ok(&solana::FAMILY),
            #[cfg(feature = "tron")]
            Family::Tron => Ok(&tron::FAMILY),
            #[cfg(not(all(feature = "evm", feature = "solana", feature = "tron")))]
            other => Err(unusable(format!("this build has no {}", other.namespace()))),
        }
    }

    /// Compares what makes the address: with the one that is known, with the pin, and where there is neither, it is the gateway's word.
    fn check_factory(&self, escrow: &Account, pinned: Option<&Account>, named: &Account) -> Result<(), Mismatch> {
        let known = self.factory.map(|factory| factory(escrow));
        for own in known.into_iter().chain(pinned.map(Account::to_string)) {
            is("factory", &own, named)?;
        }
        match named.family() == escrow.family() {
            true => Ok(()),
            false => Err(Mismatch::new("factory", "an account of the chain", named)),
        }
    }

    /// Compares a text that is not of a type which has one form alone.
    fn is(&self, field: &str, own: &str, found: &str) -> Result<(), Mismatch> {
        match self.ignores_case && own.eq_ignore_ascii_case(found) {
            true => Ok(()),
            false => is(field, own, found),
        }
    }
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
        let family = AddressFamily::of(source.family())?;
        let pinned = self.pins.deposit_address_factory.as_ref();
        family.check_factory(&named.escrow_contract_address, pinned, &given.factory)?;
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
        family.is("terms.token", asset.reference(), &given.terms.token)?;
        is("terms.amount", &amount, &given.terms.amount)?;
        is("terms.deposit.payment_id", &payment_id.on_chain(), &deposit.payment_id)?;
        is("terms.deposit.terms_hash", &order.terms().hash(), &deposit.terms_hash)?;
        is("terms.deposit.quote_hash", &Hash32::ZERO, &deposit.quote_hash)?;
        is("terms.deposit.payer", source.account(), &deposit.payer)?;
        is("terms.deposit.reserver", &plan.reserver, &deposit.reserver)?;
        is("terms.deposit.releaser", &plan.releaser, &deposit.releaser)?;
        is("terms.deposit.fulfillment_deadline", &plan.fulfillment_deadline, &deposit.fulfillment_deadline)?;
        let payable = Payable { payment_id: &payment_id, terms: &order.terms(), plan: &plan, amount };
        let Commitment { terms, address } = (family.commit)(&payable, &given.factory)?;
        is("address", &address, &given.address)?;
        let uri = (family.uri)(asset, &address, amount);
        family.is("uri", &uri, &given.uri)?;
        self.fresh(accepted.status, given.pay_by)?;
        Ok(Checked {
            payment_id,
            address: given.address.clone(),
            asset: asset.clone(),
            amount,
            pay_by: given.pay_by,
            refund_account: source.account().clone(),
            uri,
            factory: given.factory.clone(),
            terms,
        })
    }

    /// What nothing but the gateway's word is behind, name and account: what [`Pins::believed`] says of the corridor, and on Tron the
    /// contract that makes the address, where it is not pinned.
    pub fn believed(&self, address: &Checked) -> Vec<(&'static str, Account)> {
        let named = self.pins.believed(self.corridor).into_iter().map(|(name, account)| (name, account.clone()));
        let is_known = AddressFamily::of(address.factory.family()).is_ok_and(|family| family.factory.is_some());
        let factory = (!is_known && self.pins.deposit_address_factory.is_none()).then(|| address.factory.clone());
        named.chain(factory.map(|factory| ("deposit_address_factory", factory))).collect()
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

/// Compares what has one form alone, as what `events` parses.
fn is(field: &str, own: &(impl ToString + ?Sized), found: &(impl ToString + ?Sized)) -> Result<(), Mismatch> {
    let (own, found) = (own.to_string(), found.to_string());
    match own == found {
        true => Ok(()),
        false => Err(Mismatch::new(field, own, found)),
    }
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("the order cannot be paid by a deposit address: {error}"))
}
