//! The payer's authorization on Solana: the deposit's terms are rebuilt from the request, and the payer, or the delegate
//! signer it named, must have signed exactly their digest (design: what the payer signs).
//!
//! What is signed is 32 bytes, the SHA-256 of the preimage that [`gateway_program::message`] describes. It says nothing that
//! the request and `payload` do not say already, so it is rebuilt from them alone. A `message_prehash` that comes with the
//! signature must be the rebuilt preimage to the byte; where it is not, the error names the first field that differs.
//! [`prepare`] makes the very message that [`authorize`] expects.
//!
//! Nothing here asks a chain. Whether the payer approved a delegate signer, only its token account can say.
//!
//! ```
//! use chains_solana::authorization::{
//!     Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare,
//! };
//! use ed25519_dalek::{Signer, SigningKey};
//! use events::{Hash32, OwnedAsset, PaymentId, Terms, time::from_unix_seconds};
//!
//! let payer = SigningKey::from_bytes(&[7; 32]);
//! let account = bs58::encode(payer.verifying_key()).into_string();
//! let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &account).unwrap();
//! let chain = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
//! let spend = SpendRequest {
//!     payment_id: PaymentId::derive(&format!("solana:{account}"), "order-1"),
//!     terms: Terms::new(
//!         owned(&format!("{chain}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")),
//!         vec![owned(&format!("{chain}/slip44:501"))],
//!         "100".parse().unwrap(),
//!         Some("110".parse().unwrap()),
//!     ),
//!     quote_deadline: from_unix_seconds(1_800_000_000).unwrap(),
//!     fulfillment_deadline: from_unix_seconds(1_800_000_600).unwrap(),
//!     cluster_id: ClusterId::parse("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d").unwrap(),
//!     escrow: EscrowSettings {
//!         program: bs58::encode([1; 32]).into_string().parse().unwrap(),
//!         reserver: bs58::encode([2; 32]).into_string().parse().unwrap(),
//!         releaser: bs58::encode([3; 32]).into_string().parse().unwrap(),
//!         refund_delay_seconds: 900,
//!     },
//!     quote_hash: Hash32::ZERO,
//! };
//! let prepared = prepare(&spend, &Choice::default())?;
//! let signed = SignedMessage {
//!     message: prepared.digest.to_string(),
//!     message_prehash: Some(format!("0x{}", hex::encode(&prepared.preimage))),
//!     signature: format!("0x{}", hex::encode(payer.sign(&prepared.digest.0).to_bytes())),
//!     payload: None,
//! };
//! let (_authorization, plan) = authorize(&spend, &signed)?;
//! assert_eq!(plan.refund_after, 1_800_001_500);
//! # Ok::<(), chains_solana::authorization::AuthorizationError>(())
//! ```

mod choice;
mod purchase;
mod terms;

use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::Value;

use events::{
    Account, Amount, Family, Hash32, PaymentId, Terms,
    event::{Authorization, EscrowPlan, SolanaSpend},
    time::Timestamp,
};
use gateway_program::host;

use self::terms::Rebuilt;
pub use self::{
    choice::Choice,
    purchase::{SentPurchase, authorize_purchase},
};
use super::program::{ConvertError, account, base58, key, text};

/// Version of the domain of what is signed, as `/v1/defaults` shows it.
pub const SIGNATURE_DOMAIN_VERSION: u8 = gateway_program::message::DOMAIN_VERSION;

/// The cluster that a signature is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterId([u8; 32]);

impl ClusterId {
    /// The cluster whose genesis hash is `text`, Base58; `None` when it is not Base58 of 32 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        base58(text).map(Self)
    }
}

impl From<[u8; 32]> for ClusterId {
    /// The cluster with this genesis hash.
    fn from(genesis_hash: [u8; 32]) -> Self {
        Self(genesis_hash)
    }
}

/// What the configuration, or the request where it names its own, says about the escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowSettings {
    /// The program.
    pub program: Account,
    /// Account that signs deposits as the gateway.
    pub reserver: Account,
    /// Account that attests delivery and non-delivery.
    pub releaser: Account,
    /// Least time between `fulfillment_deadline` and the refund window.
    pub refund_delay_seconds: u64,
}

/// The spend that a payer is asked to authorize: everything but what it signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRequest {
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics; the source's account is the payer.
    pub terms: Terms,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The escrow.
    pub escrow: EscrowSettings,
    /// The quote the payer accepts; zero in the one-call flow, where it signs before the auction.
    pub quote_hash: Hash32,
}

/// What the payer signed, as it came (spec 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMessage {
    /// The digest, hex with 0x.
    pub message: String,
    /// Its preimage, hex with 0x, or nothing.
    pub message_prehash: Option<String>,
    /// The signature, 64 bytes as hex with 0x.
    pub signature: String,
    /// What the payer chose; see [`Choice`].
    pub payload: Option<Value>,
}

/// What a payer must sign.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The ordered bytes.
    pub preimage: Vec<u8>,
    /// Their digest: what the Ed25519 signature is over.
    pub digest: Hash32,
    /// What was chosen, for `payload`.
    pub payload: Value,
    /// The key that has to sign.
    pub signer: Account,
    /// The most that may be drawn, smallest unit.
    pub amount: Amount,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

/// Why a submission does not authorize the spend. Each names the field at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizationError {
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
    /// Somebody else signed, or something else was signed.
    #[error("signature is not that of {signer} over {digest}")]
    Signature {
        /// The key that has to sign, Base58.
        signer: String,
        /// What has to be signed.
        digest: Hash32,
    },
}

impl AuthorizationError {
    /// The field at fault, by its path.
    pub fn field(&self) -> &str {
        match self {
            Self::Malformed { field, .. } | Self::Mismatch { field, .. } => field,
            Self::Signature { .. } => "signature",
        }
    }

    fn malformed(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Malformed { field: field.into(), reason: reason.into() }
    }

    fn mismatch(field: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        Self::Mismatch { field: field.into(), expected: expected.to_string(), found: found.to_string() }
    }
}

/// The message that [`authorize`] expects for `spend`, with what is the payer's to choose.
///
/// # Errors
/// [`AuthorizationError`] when the request can't be authorized on Solana at all (a source that is not a token), or a choice
/// breaks the windows.
pub fn prepare(spend: &SpendRequest, choice: &Choice) -> Result<Prepared, AuthorizationError> {
    let rebuilt = Rebuilt::of(spend, choice)?;
    Ok(Prepared {
        payload: choice.made(spend, &rebuilt),
        digest: rebuilt.digest(),
        preimage: rebuilt.preimage(),
        signer: rebuilt.signer_account(),
        amount: rebuilt.amount(),
        plan: rebuilt.plan(spend),
    })
}

/// Checks that `signed` is the authorization of `spend` by the payer, or by the delegate signer that `payload` names.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn authorize(
    spend: &SpendRequest,
    signed: &SignedMessage,
) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
    let choice = Choice::from_payload(signed.payload.as_ref())?;
    let rebuilt = Rebuilt::of(spend, &choice)?;
    if let Some(text) = &signed.message_prehash {
        rebuilt.check_preimage(text)?;
    }
    let digest = rebuilt.digest();
    let message: Hash32 = signed
        .message
        .parse()
        .map_err(|_| AuthorizationError::malformed("message", "must be 0x followed by 64 hex digits"))?;
    if message != digest {
        return Err(AuthorizationError::mismatch("message", digest, message));
    }
    let mut signature = [0; Signature::BYTE_SIZE];
    let digits = signed.signature.strip_prefix("0x").unwrap_or_default();
    hex::decode_to_slice(digits, &mut signature)
        .map_err(|_| AuthorizationError::malformed("signature", "must be 0x followed by 128 hex digits"))?;
    let signer = rebuilt.signer_account();
    if rebuilt.signer().verify_strict(&digest.0, &Signature::from_bytes(&signature)).is_err() {
        return Err(AuthorizationError::Signature { signer: signer.to_string(), digest });
    }
    let spent = SolanaSpend {
        amount: rebuilt.amount(),
        quote_hash: spend.quote_hash,
        signer,
        signature: format!("0x{}", hex::encode(signature)),
    };
    Ok((Authorization::Solana(spent), rebuilt.plan(spend)))
}

/// A key that signed in the payer's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The key.
    pub signer: Account,
    /// The program's address to which the payer gives its SPL allowance when it approves the key.
    pub address: Account,
}

impl Delegation {
    /// The delegation that `spend` rests on, under the escrow program `program`; `None` when the payer signed itself.
    ///
    /// # Errors
    /// [`ConvertError`] when program or signer is not a Solana account: then nobody approved it.
    pub fn of(payer: &Account, program: &Account, spend: &SolanaSpend) -> Result<Option<Self>, ConvertError> {
        if spend.signer == *payer {
            return Ok(None);
        }
        let address = allowance_delegate(program, &spend.signer)?;
        Ok(Some(Self { signer: spend.signer.clone(), address }))
    }
}

/// The address to which a payer gives its SPL allowance for deposits that `signer` signs, under the escrow program
/// `program`.
///
/// # Errors
/// [`ConvertError`] when one of them is not a Solana account.
pub fn allowance_delegate(program: &Account, signer: &Account) -> Result<Account, ConvertError> {
    let address = host::delegate_address(&key(program)?, &key(signer)?).key;
    account(&address).ok_or_else(|| ConvertError::Account(text(&address)))
}

/// The Ed25519 key that `account` is, when it is one that somebody can hold.
///
/// Addresses of programs are not on the curve, and neither are the addresses of token accounts that wallets derive. A key of
/// small order, for which anybody can sign, is none either, nor is a key in another form than the one it has.
pub fn wallet_key(account: &Account) -> Option<VerifyingKey> {
    if account.family() != Family::Solana {
        return None;
    }
    ed25519_key(&base58(account.as_str())?)
}

fn ed25519_key(bytes: &[u8; 32]) -> Option<VerifyingKey> {
    let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak())?;
    (key.to_edwards().compress().as_bytes() == bytes).then_some(key)
}
