//! The payer's authorization on Tron: the payer's own transactions, an approval and the deposit, decoded and compared with
//! the request field by field (design: what the payer signs).
//!
//! What is signed is a transaction that anybody can broadcast, so nothing in it may be left unread. Its bytes are taken only
//! when they are the one encoding of what was read, down to the arguments of the call. The deposit also carries the
//! reserver's signature over its terms (`Opening`), which the payer gets when it prepares the payment; without it the
//! escrow takes nothing.
//!
//! Where the escrow has a Permit2, a payer with an allowance there signs one message and no transaction (ADR 156):
//! [`prepare_permit`] and [`authorize_permit`].
//!
//! - [`prepare`] makes the very transactions that [`authorize`] expects; neither asks a chain.
//! - [`prepare_onchain`] asks the chain for what a transaction has to be made of, and [`confirm`] for what only the chain can
//!   say of transactions that hold.
//!
//! ```
//! use alloy::{primitives::B256, signers::{SignerSync, local::PrivateKeySigner}};
//! use chains_tron::{
//!     address::text,
//!     authorization::{BlockEnvironment, Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
//!     node::Block,
//! };
//! use events::{Hash32, OwnedAsset, PaymentId, Terms, time::from_unix_seconds};
//!
//! let [payer, reserver] = [(); 2].map(|()| PrivateKeySigner::random());
//! let account = text(payer.address());
//! let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &account).unwrap();
//! let spend = SpendRequest {
//!     payment_id: PaymentId::derive(&format!("tron:{account}"), "order-1"),
//!     terms: Terms::new(
//!         owned("tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
//!         vec![owned("tron:728126428/slip44:195")],
//!         "100".parse().unwrap(),
//!         Some("110".parse().unwrap()),
//!     ),
//!     quote_deadline: from_unix_seconds(1_800_000_000).unwrap(),
//!     fulfillment_deadline: from_unix_seconds(1_800_000_600).unwrap(),
//!     escrow: EscrowSettings {
//!         contract: text([1; 20].into()).parse().unwrap(),
//!         reserver: text(reserver.address()).parse().unwrap(),
//!         releaser: text([3; 20].into()).parse().unwrap(),
//!         permit2: None,
//!         refund_delay_seconds: 900,
//!     },
//!     quote_hash: Hash32::ZERO,
//! };
//! let reference = Block { number: 1, id: B256::ZERO, parent: B256::ZERO, time_ms: 1_799_999_900_000 };
//! let chain = BlockEnvironment {
//!     now_ms: reference.time_ms,
//!     reference,
//!     fee_limit_max_sun: None,
//!     approval_fee_limit_sun: Some(10_000_000),
//!     deposit_fee_limit_sun: 50_000_000,
//! };
//! # futures::executor::block_on(async {
//! let prepared = prepare(&spend, &Choice::default(), &chain, &reserver.into()).await?;
//! let signed: Vec<_> = prepared
//!     .messages
//!     .iter()
//!     .map(|message| SignedMessage {
//!         message: message.id.to_string(),
//!         message_prehash: Some(format!("0x{}", hex::encode(&message.raw_data))),
//!         signature: format!("0x{}", hex::encode(payer.sign_hash_sync(&message.id).unwrap().as_bytes())),
//!         payload: Some(message.payload.clone()),
//!     })
//!     .collect();
//! let (_authorization, plan) = authorize(&spend, &signed)?;
//! assert_eq!(plan.refund_after, 1_800_001_500);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choice;
mod onchain;
mod opening;
mod payload;
mod permit;
mod prepared;
mod signed;
mod terms;

use escrow_abi::{
    signature::{KeyError, SignatureError},
    typed_data::FieldError,
};
use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowPlan, PayerTransaction, TronSpend},
    time::Timestamp,
};
use sagas::ports::Transient;

pub use self::{
    choice::Choice,
    onchain::{confirm, confirm_permit, is_on_chain, prepare_onchain},
    opening::OpeningSigner,
    permit::{PreparedPermit, authorize_permit, prepare_permit},
    prepared::{BlockEnvironment, Prepared, PreparedMessage, prepare},
    signed::SignedMessage,
};
use self::{
    signed::SignedTransaction,
    terms::{Chosen, Expected},
};
use super::{address::text, transaction::DecodeError};

/// Longest time between a block and the expiration of a transaction that the network takes at it: a day.
pub const LIFETIME_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// Least time between the quote deadline and the expiration of what is broadcast after it: an approval and then a deposit
/// have to reach their blocks, which are three seconds apart.
pub const REACH_MS: u64 = 12_000;

/// What the configuration, or the request where it names its own, says about the escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowSettings {
    /// The escrow contract.
    pub contract: Account,
    /// Account that signs openings and reservations.
    pub reserver: Account,
    /// Account that attests delivery and non-delivery.
    pub releaser: Account,
    /// Permit2 on the source chain, where payers may sign for it.
    pub permit2: Option<Account>,
    /// Least time between `fulfillment_deadline` and the refund window.
    pub refund_delay_seconds: u64,
}

/// The spend that a payer is asked to authorize: everything but what it signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRequest {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics; the source's account is the payer, and the source's chain is the one that is signed for.
    pub terms: Terms,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// The escrow.
    pub escrow: EscrowSettings,
    /// The quote the payer accepts; zero in the one-call flow, where it signs before the auction.
    pub quote_hash: Hash32,
}

/// Why a submission does not authorize the spend. Each names the field at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
    /// No message at all.
    #[error("must hold the deposit, or the approval and then the deposit")]
    Nothing,
    /// The field cannot be read.
    #[error("{field} {reason}")]
    Malformed {
        /// The field, by its path.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The field is not what the request demands.
    #[error("{field} must be {expected}, not {found}")]
    Mismatch {
        /// The field, by its path.
        field: String,
        /// What the request demands.
        expected: String,
        /// What was signed.
        found: String,
    },
    /// The bytes are not a transaction of the form that is taken.
    #[error("message_prehash: {0}")]
    Transaction(#[from] DecodeError),
    /// The signature cannot be used.
    #[error("signature: {0}")]
    Signature(#[from] SignatureError),
    /// Somebody else signed.
    #[error("signature is not that of {expected} but of {recovered}")]
    Signer {
        /// The payer.
        expected: String,
        /// Who signed.
        recovered: String,
    },
}

impl AuthorizationError {
    /// The field at fault, by its path.
    pub fn field(&self) -> &str {
        match self {
            Self::Nothing => "signed_messages",
            Self::Malformed { field, .. } | Self::Mismatch { field, .. } => field,
            Self::Transaction(_) => "message_prehash",
            Self::Signature(_) | Self::Signer { .. } => "signature",
        }
    }

    fn malformed(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed { field: field.into(), reason: reason.into() }
    }

    fn mismatch(field: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        Self::Mismatch { field: field.into(), expected: expected.to_string(), found: found.to_string() }
    }
}

impl From<FieldError> for AuthorizationError {
    fn from(error: FieldError) -> Self {
        match error {
            FieldError::Malformed { field, reason } => Self::Malformed { field, reason },
            FieldError::Mismatch { field, expected, found } => Self::Mismatch { field, expected, found },
        }
    }
}

impl From<KeyError> for AuthorizationError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Unusable(error) => Self::Signature(error),
            KeyError::Signer { expected, recovered } => {
                Self::Signer { expected: text(expected), recovered: text(recovered) }
            }
        }
    }
}

/// An [`AuthorizationError`], with the message that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Which of the signed messages; `None` when it is none of them alone.
    pub message: Option<usize>,
    /// What is wrong.
    pub error: AuthorizationError,
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message {
            Some(index) => write!(f, "signed_messages[{index}]: {}", self.error),
            None => write!(f, "signed_messages: {}", self.error),
        }
    }
}

impl std::error::Error for Denied {}

impl From<AuthorizationError> for Denied {
    fn from(error: AuthorizationError) -> Self {
        Self { message: None, error }
    }
}

/// Why the chain did not confirm an authorization, or gave nothing to prepare one with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnchainError {
    /// The spend is not authorized, or cannot be.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The chain could not be asked; nothing may be concluded.
    #[error(transparent)]
    Transient(#[from] Transient),
}

impl From<AuthorizationError> for OnchainError {
    fn from(error: AuthorizationError) -> Self {
        Self::Denied(error.into())
    }
}

/// Checks that `signed` holds the payer's transactions that deposit for `spend`: the deposit, or an approval and then the
/// deposit. The first deposit that holds counts, with the approval in front of it; what else is there is not looked at. No
/// chain is asked, and no clock: what was signed once is judged alike for ever.
///
/// # Errors
/// [`Denied`], naming message and field.
pub fn authorize(spend: &SpendRequest, signed: &[SignedMessage]) -> Result<(Authorization, EscrowPlan), Denied> {
    let expected = Expected::of(spend)?;
    // The deposit comes last where nothing else is there, so it is the last that is refused.
    let mut refused = AuthorizationError::Nothing.into();
    for (index, message) in signed.iter().enumerate() {
        let (deposit, amount, windows) = match deposit(&expected, message) {
            Ok(deposit) => deposit,
            Err(error) => {
                refused = Denied { message: Some(index), error };
                continue;
            }
        };
        let approval = approval(&expected, &signed[..index], amount)?;
        let spent = TronSpend { amount, quote_hash: spend.quote_hash, approval, deposit };
        return Ok((Authorization::Tron(spent), expected.plan(spend, windows)));
    }
    Err(refused)
}

/// The deposit that a message is, what it deposits, and its windows.
fn deposit(
    expected: &Expected,
    message: &SignedMessage,
) -> Result<(PayerTransaction, Amount, Chosen), AuthorizationError> {
    let own = SignedTransaction::read(expected, message)?;
    let (amount, windows) = expected.check_deposit(&own.draft)?;
    payload::check(message.payload.as_ref(), &payload::of_deposit(expected, &own.draft, amount, windows))?;
    Ok((own.transaction, amount, windows))
}

/// The approval among the messages in front of a deposit: the last that is meant as one. It has to hold, as the payer believes
/// that it is sent.
fn approval(expected: &Expected, before: &[SignedMessage], amount: Amount) -> Result<Option<PayerTransaction>, Denied> {
    let meant = before.iter().enumerate().rev().find(|(_, message)| signed::is_meant_as_approval(expected, message));
    let Some((index, message)) = meant else { return Ok(None) };
    let checked = SignedTransaction::read(expected, message).and_then(|own| {
        expected.check_approval(&own.draft, amount)?;
        payload::check(message.payload.as_ref(), &payload::of_approval(expected, &own.draft, amount))?;
        Ok(own.transaction)
    });
    checked.map(Some).map_err(|error| Denied { message: Some(index), error })
}
