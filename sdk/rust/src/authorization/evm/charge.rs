//! Payments under a mandate, for merchants: what a merchant signs for one of them, rebuilt to the byte.
//!
//! Its signature draws from its payer, in its name: so of the gateway's answer nothing is signed.

use serde_json::{Value, json};

use chains_evm::{
    authorization::{self, Choice, Prepared as Own, Scheme, SpendRequest},
    mandates::charge_message,
};
use escrow_abi::{contracts, permit2::Deployed};
use events::{Account, Hash32, event::MandateCharge};

use super::{BY_MANDATE, Rebuilt, Signable, difference, hashing_to, refused, spend, unsigned, unusable};
use crate::{
    answers::{Corridor, Prepared, UnsignedMessage},
    authorization::{Checked, Demand, Signing},
    error::Error,
    mandate_order::MandatePayload,
    order::Order,
    pins::Pins,
};

/// What the account does that signs.
const ASKS: &str = "is the mandate's merchant";

/// What a merchant demands of the message for a payment under a mandate before it signs.
#[derive(Debug, Clone, Copy)]
pub struct ChargeDemand<'a> {
    /// What it asks for: its source is the payer's, and all of `max_source_amount` is drawn.
    pub order: &'a Order,
    /// What the payer handed over.
    pub payload: &'a MandatePayload,
    /// What the gateway named for the order. Escrow and releaser have to be the mandate's.
    pub corridor: &'a Corridor,
    /// What the merchant knows by itself.
    pub pins: &'a Pins,
    /// Now, UNIX seconds.
    pub now: u64,
}

impl<'a> ChargeDemand<'a> {
    /// Compares what the gateway names with the pins, and the order with its mandate, before anything is asked to be signed.
    ///
    /// # Errors
    /// [`Error::Mismatch`] names what differs; [`Error::Invalid`] for an order that the mandate does not allow, and for a payer's signature
    /// that is for another mandate: with other destinations, another escrow or another verifier than the order's and the gateway's.
    pub fn check_own(&self) -> Result<(), Error> {
        self.pins.check(self.order, self.corridor, self.now)?;
        self.rebuild().map(drop)
    }

    /// Compares what the gateway prepared with what the merchant asks for. What comes of it is signed by the merchant's key.
    ///
    /// # Errors
    /// As [`ChargeDemand::check_own`].
    pub fn check(&self, prepared: &Prepared) -> Result<Checked, Error> {
        let demand = self.demand();
        demand.check_answer(prepared)?;
        demand.scheme(BY_MANDATE, prepared)?;
        let theirs = demand.only(prepared)?;
        let (spend, own, charge) = self.rebuild()?;
        if theirs.message.parse() != Ok(own.digest) {
            // By its own payload the message is compared with this mandate, whatever the gateway's is of.
            let shown = UnsignedMessage { payload: Some(own.payload.clone()), ..theirs.clone() };
            return Err(difference(&spend, &shown, &own).into());
        }
        let messages = vec![Signable { preimage: preimage(&spend, &own, &charge)?, message: unsigned(&own) }];
        Ok(Checked {
            payment_id: spend.payment_id,
            plan: own.plan,
            amount: own.amount,
            spender: Some(spend.escrow.permit2),
            scheme: BY_MANDATE,
            signing: Signing::Evm(Rebuilt { signer: (charge.mandate.merchant, ASKS), messages }),
        })
    }

    /// The order as any other, which is signed before there are quotes.
    fn demand(&self) -> Demand<'a> {
        let Self { order, corridor, pins, now, .. } = *self;
        Demand { order, corridor, pins, quote_hash: Hash32::ZERO, price: None, now }
    }

    fn rebuild(&self) -> Result<(SpendRequest, Own, MandateCharge), Error> {
        let spend = spend(&self.demand(), Scheme::EvmPermit2Mandate, None)?;
        let MandatePayload { mandate, permit } = self.payload.clone();
        let choice = Choice { mandate: Some(json!(mandate)), permit: permit.map(Value::from), ..Choice::default() };
        let own = authorization::prepare(&spend, &choice).map_err(refused)?;
        let charge = authorization::charge(&spend, &choice).map_err(refused)?;
        authorization::check_lock(&charge, &own.plan, self.now).map_err(refused)?;
        Ok((spend, own, charge))
    }
}

/// The bytes that `own.digest` is the hash of, since a key is told what it signs and not a digest.
fn preimage(spend: &SpendRequest, own: &Own, charge: &MandateCharge) -> Result<Vec<u8>, Error> {
    let address = |account: &Account| contracts::address(account).map_err(unusable);
    let chain_id = spend.terms.source.asset().chain().evm_id().unwrap_or_default();
    let place = (Deployed { chain_id, address: address(&charge.contract)? }, address(&charge.address)?);
    let amount = contracts::units(own.amount);
    let message = charge_message(&spend.payment_id, (&spend.terms, &own.plan), amount, place).map_err(unusable)?;
    hashing_to(own.digest, message.preimage().map_err(unusable)?)
}

#[cfg(test)]
mod tests;
