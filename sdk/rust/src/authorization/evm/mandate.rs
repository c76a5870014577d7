//! Mandates, for payers: the allowance of Permit2's that is signed once for all that a merchant may ask for, rebuilt to the byte.
//!
//! A wallet shows a spender and the total of all periods, and neither merchant nor recipient. Who the spender is says all that may be done
//! with the money, so its address is made of the payer's own order, and of the gateway's answer nothing is signed.

use alloy::sol_types::SolCall;
use rand::{RngCore, rngs::OsRng};
use serde_json::{Value, json};

use chains_evm::authorization::{CLOCK_BEHIND, PreparedMandate as Own, prepare_mandate};
use escrow_abi::{
    contracts::{self, DevToken as Erc20},
    mandates,
};
use events::{Account, Amount, Family, Hash32, event::Mandate};
use signer::Hash;

use super::{
    BY_MANDATE, permit2, refused,
    tokens::{insist_same, typed_data},
    unusable,
};
use crate::{
    answers::{Corridor, PreparedMandate, UnsignedMessage},
    authorization::is_payers,
    error::{Error, Mismatch},
    key::{Key, sign_secp256k1},
    mandate_order::{MandateOrder, MandatePayload, SignedMandate, WalletCall},
    pins::Pins,
};

/// What a payer demands of the message for a mandate before it signs.
#[derive(Debug, Clone, Copy)]
pub struct MandateDemand<'a> {
    /// What it lets its merchant ask for.
    pub order: &'a MandateOrder,
    /// What the gateway named for its source and destinations. Escrow and releaser are the mandate's for ever.
    pub corridor: &'a Corridor,
    /// What the payer knows by itself.
    pub pins: &'a Pins,
    /// Now, UNIX seconds.
    pub now: u64,
}

/// What was rebuilt for a mandate and is the same at the gateway: to be signed.
#[derive(Debug, Clone)]
pub struct CheckedMandate {
    /// The mandate as its payer keeps it, but for the signature, which is not among its payload.
    unsigned: SignedMandate,
    payer: Account,
    /// `0x1901`, the domain's separator and the message's hash.
    preimage: Vec<u8>,
}

impl MandateDemand<'_> {
    /// Compares what the gateway names with the pins, before anything is asked to be signed.
    ///
    /// # Errors
    /// [`Error::Mismatch`] names the first that differs; [`Error::Invalid`] for an order that makes no mandate, or one under which no
    /// payment could be made.
    pub fn check_named(&self) -> Result<(), Error> {
        let Self { order, corridor, pins, now } = *self;
        let invalid = |rule: String| Err(Error::Invalid(rule));
        if order.source.family() != Family::Evm {
            return invalid("mandates are for sources on EVM chains alone".to_owned());
        }
        pins.check_named(&order.source, corridor)?;
        let (lock, most) = (u64::from(order.lock_seconds), pins.lock_max.as_secs());
        if lock > most {
            return invalid(format!("a payment could be locked for {lock} s, and at most {most} s are allowed"));
        }
        let least = corridor.refund_delay_seconds.saturating_add(CLOCK_BEHIND);
        if lock <= least {
            return invalid(format!("no payment is refunded within {lock} s: lock_seconds must be more than {least}"));
        }
        // All but the salt can be judged already.
        let (mandate, _) = self.rebuild(Hash32::ZERO)?;
        let ends = mandates::ends(&mandate);
        if ends <= now {
            return invalid(format!("the mandate ends at {ends}, and it is {now}"));
        }
        Ok(())
    }

    /// Draws the mandate's salt at random, once all else is settled: who knew it before could look for two mandates of one address, of
    /// which the payer signs one.
    ///
    /// # Errors
    /// As [`MandateDemand::check_named`].
    pub fn draw_salt(&self) -> Result<Hash32, Error> {
        self.check_named()?;
        let mut salt = [0; 32];
        OsRng.fill_bytes(&mut salt);
        Ok(Hash32(salt))
    }

    /// Compares what the gateway prepared with the mandate of the payer's own that has this salt.
    ///
    /// # Errors
    /// As [`MandateDemand::check_named`].
    pub fn check(&self, salt: Hash32, prepared: &PreparedMandate) -> Result<CheckedMandate, Error> {
        self.check_named()?;
        if prepared.message_scheme != BY_MANDATE {
            return Err(Mismatch::new("message_scheme", BY_MANDATE, &prepared.message_scheme).into());
        }
        let (mandate, own) = self.rebuild(salt)?;
        check_shown(&mandate, &prepared.mandate)?;
        if let Some(shown) = &prepared.fulfillment_verifier {
            shown.check(&self.corridor.source.releaser)?;
        }
        for (name, expected, found) in
            [("contract", &own.at.contract, &prepared.contract), ("address", &own.at.address, &prepared.address)]
        {
            if expected != found {
                return Err(Mismatch::new(name, expected, found).into());
            }
        }
        if prepared.permit.message.parse() != Ok(own.digest) {
            return Err(difference(&own, &prepared.permit));
        }
        let preimage = own.preimage.to_vec();
        let approval = prepared.approval.as_ref().map(|_| self.approval(&own)).transpose()?;
        let Own { at, all, allowance: (permit2, allow), cancel: (cancel, _), .. } = own;
        let unsigned = SignedMandate {
            payload: MandatePayload { mandate, permit: None },
            chain_id: self.order.source.asset().chain().clone(),
            address: at.address,
            total: all,
            approval,
            allowance: sent(permit2, allow),
            cancel: sent(at.contract, cancel),
        };
        Ok(CheckedMandate { unsigned, payer: self.order.source.account().clone(), preimage })
    }

    /// The mandate with this salt, and what is signed for it.
    fn rebuild(&self, salt: Hash32) -> Result<(Mandate, Own), Error> {
        let (order, named) = (self.order, &self.corridor.source);
        let (mandate, permit2) = (order.mandate(salt), permit2(self.pins, &order.source)?);
        let parties = (&named.escrow_contract_address, &named.releaser, &permit2);
        let own = prepare_mandate(&mandate, &order.terms(), parties).map_err(refused)?;
        Ok((mandate, own))
    }

    /// The token's allowance for Permit2, of all periods together.
    fn approval(&self, own: &Own) -> Result<WalletCall, Error> {
        let token = contracts::erc20(self.order.source.asset()).map_err(unusable)?;
        let spender = contracts::address(&own.allowance.0).map_err(unusable)?;
        let to = contracts::account(token).ok_or_else(|| Error::Invalid("the token has no address".to_owned()))?;
        let data = Erc20::approveCall { spender, value: own.all.get() }.abi_encode();
        Ok(sent(to, format!("0x{}", hex::encode(data))))
    }
}

impl CheckedMandate {
    /// The mandate as its payer keeps it, without a signature: for who sends [`SignedMandate::allowance`] instead, as a contract does, and
    /// for people to read.
    pub fn unsigned(&self) -> &SignedMandate {
        &self.unsigned
    }

    /// The mandate with its payer's signature in the payload, for Permit2 to give the allowance.
    ///
    /// # Errors
    /// [`Error::Key`] when the key is another's or gives no signature.
    pub async fn sign(&self, key: &Key) -> Result<SignedMandate, Error> {
        is_payers(key, &self.payer)?;
        let signature = sign_secp256k1(key, Hash::Keccak256, &self.preimage).await?;
        let mut signed = self.unsigned.clone();
        signed.payload.permit = Some(format!("0x{}", hex::encode(signature.as_bytes())));
        Ok(signed)
    }
}

fn sent(to: Account, data: String) -> WalletCall {
    WalletCall { to, data, value: "0x0".to_owned() }
}

/// Compares the mandate that is shown, which says what the address is going to be of.
fn check_shown(own: &Mandate, shown: &Mandate) -> Result<(), Mismatch> {
    let bound = |least: Option<Amount>| least.map_or_else(|| "none".to_owned(), |least| least.to_string());
    if own.least != shown.least {
        return Err(Mismatch::new("mandate.least", bound(own.least), bound(shown.least)));
    }
    insist_members("mandate", &json!(own), &json!(shown))
}

/// In what the gateway's message differs, by the typed data that it shows.
fn difference(own: &Own, theirs: &UnsignedMessage) -> Error {
    let compared = typed_data(theirs).and_then(|shown| {
        for part in ["primaryType", "domain", "message"] {
            insist_members(part, &own.typed_data[part], &shown[part])?;
        }
        Ok(())
    });
    match compared {
        Err(error) => error,
        // It shows the payer's mandate, and wants something else signed.
        Ok(()) => Mismatch::new("permit.message", own.digest, &theirs.message).into(),
    }
}

/// Compares each member of `own`, down to the innermost.
fn insist_members(path: &str, own: &Value, shown: &Value) -> Result<(), Mismatch> {
    let Some(members) = own.as_object() else { return insist_same(path, own, shown) };
    members.iter().try_for_each(|(name, own)| insist_members(&format!("{path}.{name}"), own, &shown[name]))
}

#[cfg(test)]
mod tests;
