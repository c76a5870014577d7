//! Authorization: verify before sign. What a payer signs is rebuilt from its own order, with the crates that judge it at the
//! gateway, and compared with what the gateway says; nothing that the gateway says is signed in its place.
//!
//! 1. [`Demand::check`] compares contracts and accounts with the payer's pins, the verifiers that are shown with the releaser, and
//!    the messages with what was rebuilt.
//! 2. [`Checked::sign`] signs what was rebuilt. On Tron, where a transaction holds what only gateway and chain know, what was
//!    signed is judged once more in whole, before it is given out.

#[cfg(feature = "evm")]
mod evm;
#[cfg(feature = "solana")]
mod solana;
#[cfg(feature = "tron")]
mod tron;

use serde_json::{Value, json};

#[cfg(feature = "evm")]
pub use self::evm::{
    batch::{BatchDemand, CheckedBatch, draws, reserve_deadline},
    charge::ChargeDemand,
    mandate::{CheckedMandate, MandateDemand},
};
use events::{Account, Amount, Family, Hash32, PaymentId, event::EscrowPlan};

use crate::{
    answers::{Corridor, Prepared, UnsignedMessage},
    error::{Error, Mismatch},
    key::Key,
    order::Order,
    pins::Pins,
};

/// What the account of a source does.
const PAYS: &str = "pays";

/// What a payer demands of a message before it signs.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// What it asked for.
    pub order: &'a Order,
    /// What the gateway named for it.
    pub corridor: &'a Corridor,
    /// What the payer knows by itself.
    pub pins: &'a Pins,
    /// The quote that it takes; zero where it signs before the auction.
    pub quote_hash: Hash32,
    /// What that quote costs, smallest unit; `None` where it signs before the auction.
    pub price: Option<Amount>,
    /// Now, UNIX seconds.
    pub now: u64,
}

/// What was rebuilt and is the same at the gateway: to be signed.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The payment's id.
    pub payment_id: PaymentId,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
    /// The most that is drawn, smallest unit.
    pub amount: Amount,
    /// Who draws by an allowance that the payer has to have given: Permit2, the program's address for the signing key; `None`
    /// where the allowance is among what is signed, or a token moves the money by the payer's signature.
    pub spender: Option<Account>,
    scheme: &'static str,
    signing: Signing,
}

#[derive(Debug, Clone)]
enum Signing {
    #[cfg(feature = "evm")]
    Evm(evm::Rebuilt),
    #[cfg(feature = "solana")]
    Solana(solana::Rebuilt),
    #[cfg(feature = "tron")]
    Tron(Box<tron::Rebuilt>),
}

impl Demand<'_> {
    /// Compares what the gateway prepared with what the payer asked for.
    ///
    /// # Errors
    /// [`Error::Mismatch`] names what differs; [`Error::Invalid`] for an order that cannot be signed for.
    pub fn check(&self, prepared: &Prepared) -> Result<Checked, Error> {
        self.check_answer(prepared)?;
        match self.order.source.family() {
            #[cfg(feature = "evm")]
            Family::Evm => evm::check(self, prepared),
            #[cfg(feature = "solana")]
            Family::Solana => solana::check(self, prepared),
            #[cfg(feature = "tron")]
            Family::Tron => tron::check(self, prepared),
            #[cfg(not(all(feature = "evm", feature = "solana", feature = "tron")))]
            other => Err(Error::Invalid(format!("this build signs nothing on {}", other.namespace()))),
        }
    }

    /// Compares what an answer says besides its messages.
    fn check_answer(&self, prepared: &Prepared) -> Result<(), Error> {
        self.pins.check(self.order, self.corridor, self.now)?;
        let payment_id = self.order.payment_id();
        if prepared.payment_id != payment_id {
            return Err(Mismatch::new("payment_id", payment_id, &prepared.payment_id).into());
        }
        if let Some(shown) = &prepared.fulfillment_verifier {
            shown.check(&self.corridor.source.releaser)?;
        }
        if self.order.max_source_amount.is_none() {
            return Err(Error::Invalid("max_source_amount is needed: a payer says what it pays at most".to_owned()));
        }
        Ok(())
    }

    fn scheme(&self, wanted: &'static str, prepared: &Prepared) -> Result<(), Error> {
        match prepared.message_scheme == wanted {
            true => Ok(()),
            false => Err(Mismatch::new("message_scheme", wanted, &prepared.message_scheme).into()),
        }
    }

    /// The one message that there has to be.
    fn only<'p>(&self, prepared: &'p Prepared) -> Result<&'p UnsignedMessage, Error> {
        match prepared.signed_messages.as_slice() {
            [message] => Ok(message),
            several => {
                Err(Mismatch::new("signed_messages", "one message", format!("{} of them", several.len())).into())
            }
        }
    }
}

impl Checked {
    /// The authorization, signed: `sender_auth` of the submission.
    ///
    /// # Errors
    /// [`Error::Key`] when the key is another's or gives no signature, [`Error::Mismatch`] when what was signed does not hold.
    pub async fn sign(&self, key: &Key) -> Result<Value, Error> {
        let messages = match &self.signing {
            #[cfg(feature = "evm")]
            Signing::Evm(rebuilt) => rebuilt.sign(key).await?,
            #[cfg(feature = "solana")]
            Signing::Solana(rebuilt) => rebuilt.sign(key).await?,
            #[cfg(feature = "tron")]
            Signing::Tron(rebuilt) => rebuilt.sign(key).await?,
        };
        Ok(json!({"message_scheme": self.scheme, "signed_messages": messages}))
    }
}

/// Who is going to draw by the payer's allowance, before anything is prepared: Permit2, the program's address for the payer's key;
/// `None` where the allowance is among what is signed, and on Tron, where Permit2 is offered to nobody else than who gave it one.
/// On EVM chains what is prepared may need none all the same: [`Prepared::is_allowed_by_signature`].
///
/// # Errors
/// [`Error::Invalid`] when what the gateway names is of another family.
pub fn spender(order: &Order, corridor: &Corridor, pins: &Pins) -> Result<Option<Account>, Error> {
    let escrow = &corridor.source.escrow_contract_address;
    match order.source.family() {
        Family::Evm => Ok(pins.permit2_on(order.source.asset().chain())),
        #[cfg(feature = "solana")]
        Family::Solana => chains_solana::authorization::allowance_delegate(escrow, order.source.account())
            .map(Some)
            .map_err(|error| Error::Invalid(error.to_string())),
        #[cfg(not(feature = "solana"))]
        Family::Solana => Err(Error::Invalid(format!("this build knows nothing of {escrow}"))),
        Family::Tron => Ok(None),
    }
}

/// On Tron, the Permit2 that a gateway names and that is not the payer's: nobody signs for it, so the payer signs transactions of its
/// own, which cost TRX. `None` where it is the payer's, or none is named, and on other chains.
pub fn foreign_permit2<'a>(order: &Order, corridor: &'a Corridor, pins: &Pins) -> Option<&'a Account> {
    let named = corridor.source.permit2.as_ref().filter(|_| order.source.family() == Family::Tron)?;
    (pins.permit2_on(order.source.asset().chain()).as_ref() != Some(named)).then_some(named)
}

/// The message scheme that a gateway is asked for; `None` where the one that it offers will do. On Tron a signature for Permit2 will
/// do only where the gateway names the payer's.
pub(crate) fn scheme(order: &Order, corridor: &Corridor, pins: &Pins) -> Option<&'static str> {
    let is_own = corridor.source.permit2.is_some() && foreign_permit2(order, corridor, pins).is_none();
    (order.source.family() == Family::Tron && !is_own).then_some("TRON")
}

/// A signed message as it is submitted.
fn signed(message: &UnsignedMessage, signature: &[u8]) -> Value {
    let mut signed = json!({
        "message": message.message,
        "message_prehash": message.message_prehash,
        "signature": format!("0x{}", hex::encode(signature)),
    });
    if let Some(payload) = &message.payload {
        signed["payload"] = payload.clone();
    }
    signed
}

/// The key has to be that of the account that pays.
fn is_payers(key: &Key, payer: &Account) -> Result<(), Error> {
    is_of(key, payer, PAYS)
}

/// The key has to be that of `account`, which does what `role` says.
fn is_of(key: &Key, account: &Account, role: &str) -> Result<(), Error> {
    match key.account(account.family()) {
        Some(found) if found == *account => Ok(()),
        other => {
            let found = other.map_or_else(|| "of another family".to_owned(), |found| format!("of {found}"));
            Err(Error::Key(format!("the key is {found}, and {account} {role}")))
        }
    }
}
