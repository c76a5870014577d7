//! The payer's authorization on EVM chains: what must have been signed is rebuilt from the request and compared with
//! what was signed, field by field (design: what the payer signs).
//!
//! An opaque hash proves control of a key but not consent to a spend. So [`authorize`] rebuilds the message, to Permit2 or to a
//! token that takes signatures (ERC-3009), from the typed data in `message_prehash`, or from the request alone with the few numbers
//! that `payload` may choose, and believes only what it has rebuilt. [`prepare`] makes the very message that [`authorize`] expects.
//!
//! ```
//! use alloy::signers::{SignerSync, local::PrivateKeySigner};
//! use chains_evm::authorization::{Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest, authorize, prepare};
//! use events::{Hash32, OwnedAsset, PaymentId, Terms, time::from_unix_seconds};
//!
//! let payer = PrivateKeySigner::random();
//! let account = format!("{:#x}", payer.address());
//! let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &account).unwrap();
//! let spend = SpendRequest {
//!     scheme: Scheme::EvmPermit2Escrow,
//!     payment_id: PaymentId::derive(&format!("eip155:{account}"), "order-1"),
//!     terms: Terms::new(
//!         owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
//!         vec![owned("eip155:10/slip44:60")],
//!         "100".parse().unwrap(),
//!         Some("110".parse().unwrap()),
//!     ),
//!     quote_deadline: from_unix_seconds(1_800_000_000).unwrap(),
//!     fulfillment_deadline: from_unix_seconds(1_800_000_600).unwrap(),
//!     escrow: EscrowSettings {
//!         contract: "0x1000000000000000000000000000000000000001".parse().unwrap(),
//!         reserver: "0x2000000000000000000000000000000000000002".parse().unwrap(),
//!         releaser: "0x3000000000000000000000000000000000000003".parse().unwrap(),
//!         permit2: "0x000000000022d473030f116ddee9f6b43ac78ba3".parse().unwrap(),
//!         refund_delay_seconds: 900,
//!     },
//!     quote_hash: Hash32::ZERO,
//!     token: None,
//! };
//! let prepared = prepare(&spend, &Choice::default())?;
//! let signature = payer.sign_hash_sync(&prepared.digest.0.into()).unwrap();
//! let signed = SignedMessage {
//!     message: prepared.digest.to_string(),
//!     message_prehash: Some(prepared.typed_data.to_string()),
//!     signature: format!("0x{}", hex::encode(signature.as_bytes())),
//!     payload: None,
//! };
//! let (_authorization, plan) = authorize(&spend, &signed)?;
//! assert_eq!(plan.refund_after, 1_800_001_500);
//! # Ok::<(), chains_evm::authorization::AuthorizationError>(())
//! ```

mod allowance;
mod batch;
mod choice;
mod exact;
mod expected;
mod mandate;
mod message;
mod transfer;

use alloy::primitives::{Address, B256, Signature};
use serde_json::Value;

use escrow_abi::{
    signature::{self, KeyError, SignatureError},
    typed_data::{self, FieldError},
};
use events::{
    Account, Amount, Hash32, PaymentId, Terms,
    event::{Authorization, Eip3009, EscrowPlan, Permit2},
    time::Timestamp,
};
use sagas::ports::Transient;

pub(crate) use self::allowance::recorded_digest;
pub use self::{
    allowance::{PreparedAllowance, allowance, domain_of_allowance, is_allowance, prepare_allowance},
    batch::{BatchError, Membership, PreparedBatch, PreparedMember, prepare_batch},
    choice::Choice,
    exact::ExactTransfer,
    mandate::{CLOCK_BEHIND, PreparedMandate, charge, check_lock, prepare_mandate},
};
use self::{batch::BatchSpend, exact::OfferSpend, expected::Expected, mandate::MandateSpend, message::Message};
use super::{
    calls::Calls,
    erc6492,
    node::{At, Node},
    payers::Payers,
    query::Query,
    token_domain::TokenDomain,
};

/// A message scheme of EVM chains: those of spec 2.3, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `EVM_PERMIT2_ESCROW`: `permitWitnessTransferFrom` with the escrow's terms as witness.
    EvmPermit2Escrow,
    /// `EVM_PERMIT2`: `permitTransferFrom`; the nonce alone binds the terms.
    EvmPermit2,
    /// `EVM_PERMIT2_BATCH`: `permitWitnessTransferFrom` of a batch, with the root of many payments as witness.
    EvmPermit2Batch,
    /// `EVM_PERMIT2_MANDATE`: a merchant's word, drawn by an allowance of Permit2's for the address of a mandate.
    EvmPermit2Mandate,
    /// `EVM_EIP3009`: the token's `receiveWithAuthorization`, whose nonce is the hash of the escrow's terms.
    EvmEip3009,
    /// `EVM_X402_EXACT`: the token's `transferWithAuthorization` to an address that commits to a merchant's offer.
    EvmX402Exact,
}

/// What the configuration, or the request where it names its own, says about the escrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowSettings {
    /// The escrow contract: Permit2's spender, or whom the transfer is to.
    pub contract: Account,
    /// Account that signs reservations.
    pub reserver: Account,
    /// Account that attests delivery and non-delivery.
    pub releaser: Account,
    /// Uniswap's Permit2 on the source chain.
    pub permit2: Account,
    /// Least time between `fulfillment_deadline` and the refund window.
    pub refund_delay_seconds: u64,
}

/// The spend that a payer is asked to authorize: everything but what it signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendRequest {
    /// How it signs.
    pub scheme: Scheme,
    /// The payment.
    pub payment_id: PaymentId,
    /// Its economics; the source's account is the payer.
    pub terms: Terms,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// The escrow.
    pub escrow: EscrowSettings,
    /// The quote the payer accepts; zero in the one-call flow, where it signs before the auction.
    pub quote_hash: Hash32,
    /// The domain of the source's token, where it takes such signatures as the payer has to give; see [`crate::token_domain`].
    pub token: Option<TokenDomain>,
}

/// What the payer signed, as it came (spec 2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedMessage {
    /// The EIP-712 digest, hex with 0x.
    pub message: String,
    /// Typed-data JSON, the 66-byte `0x1901…` preimage in hex, or nothing.
    pub message_prehash: Option<String>,
    /// The signature, hex with 0x.
    pub signature: String,
    /// The numbers the payer chose, where they are not in `message_prehash`; see [`Choice`].
    pub payload: Option<Value>,
}

/// What a payer must sign.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// For `eth_signTypedData_v4`, and as JSON text for `message_prehash`.
    pub typed_data: Value,
    /// Its digest, for `message`.
    pub digest: Hash32,
    /// The numbers that were chosen, for `payload`.
    pub payload: Value,
    /// The most that may be drawn, smallest unit.
    pub amount: Amount,
    /// The nonce of the permit or authorization.
    pub nonce: Hash32,
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
    /// The signature cannot be used.
    #[error("signature: {0}")]
    Signature(#[from] SignatureError),
    /// Somebody else signed.
    #[error("signature is not that of {expected} but of {recovered}")]
    Signer {
        /// The payer.
        expected: String,
        /// Who signed, if it was a key at all.
        recovered: String,
    },
    /// The payer is a contract, or becomes one, and refuses the signature (ERC-1271, ERC-6492).
    #[error("signature is refused by the contract account {account}")]
    RefusedByContract {
        /// The payer.
        account: String,
    },
    /// The payer's key signed, but the payer has code, by which Permit2 and newer tokens go instead (EIP-7702), and that refuses it.
    #[error(
        "signature is by the key of {account}, but the account has code (EIP-7702), which Permit2 and newer tokens ask \
         instead of the key, and which refuses it"
    )]
    RefusedByCode {
        /// The payer.
        account: String,
    },
}

impl AuthorizationError {
    /// The field at fault, by its path.
    pub fn field(&self) -> &str {
        match self {
            Self::Malformed { field, .. } | Self::Mismatch { field, .. } => field,
            Self::Signature(_) | Self::Signer { .. } | Self::RefusedByContract { .. } | Self::RefusedByCode { .. } => {
                "signature"
            }
        }
    }

    /// Whether only the signature is at fault, in a way in which a contract account's signature would be.
    pub fn may_be_contract(&self) -> bool {
        matches!(self, Self::Signer { .. } | Self::Signature(_))
            && !matches!(self, Self::Signature(SignatureError::NotHex | SignatureError::BadWrapper))
    }

    /// Whether it is the form of an account that is still to be deployed.
    pub fn may_deploy(&self) -> bool {
        matches!(self, Self::Signature(SignatureError::Erc6492))
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
                Self::Signer { expected: expected.to_string(), recovered: recovered.to_string() }
            }
        }
    }
}

/// Why the chain did not confirm an authorization.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnchainError {
    /// The spend is not authorized.
    #[error(transparent)]
    Denied(#[from] AuthorizationError),
    /// The chain could not be asked; nothing may be concluded.
    #[error(transparent)]
    Transient(#[from] Transient),
}

/// The message that [`authorize`] expects for `spend`, with the numbers that are the payer's to choose.
///
/// # Errors
/// [`AuthorizationError`] when the request can't be authorized under this scheme at all (a source that is not an ERC-20, or
/// `EVM_EIP3009` without [`SpendRequest::token`]), or a choice breaks the windows.
pub fn prepare(spend: &SpendRequest, choice: &Choice) -> Result<Prepared, AuthorizationError> {
    let expected = Expected::of(spend)?;
    let message = expected.rebuild(spend, choice)?;
    let plan = expected.check(spend, &message, choice)?;
    Ok(Prepared {
        typed_data: message.render(),
        digest: Hash32(message.digest()?.0),
        payload: choice.made(spend, &message, &expected.deposit(spend, choice)?),
        amount: message.permitted()?,
        nonce: Hash32(message.nonce().to_be_bytes()),
        plan,
    })
}

/// The domain of the token in the typed data that was signed, as far as it is some of an ERC-3009 transfer: what the wallet was shown,
/// which only the token can say is its own.
pub fn claimed_domain(signed: &SignedMessage) -> Option<TokenDomain> {
    let text = signed.message_prehash.as_deref().map(str::trim).filter(|text| text.starts_with('{'))?;
    [Scheme::EvmEip3009, Scheme::EvmX402Exact].into_iter().find_map(|scheme| match Message::read(scheme, text) {
        Ok(Message::Transfer(transfer)) => Some(transfer.domain),
        _ => None,
    })
}

/// Checks that `signed` is the payer's authorization of `spend`, by a key. No chain is asked.
///
/// # Errors
/// [`AuthorizationError`], naming the field. When [`AuthorizationError::may_be_contract`], the payer may be a contract
/// account: ask [`authorize_onchain`].
pub fn authorize(
    spend: &SpendRequest,
    signed: &SignedMessage,
) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
    let rebuilt = Rebuilt::of(spend, signed)?;
    let bytes = rebuilt.by_key(signed)?;
    rebuilt.authorization(spend, &bytes)
}

/// As [`authorize_onchain`], of a signature that the payer's code has taken a moment ago for the same digest, whose account is there. What
/// was signed is compared all the same.
///
/// # Errors
/// [`AuthorizationError`], naming the field.
pub fn authorize_as_judged(
    spend: &SpendRequest,
    signed: &SignedMessage,
) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
    let rebuilt = Rebuilt::of(spend, signed)?;
    let bytes = signature::bytes(&signed.signature)?;
    rebuilt.authorization(spend, &bytes)
}

/// As [`authorize`]; where a contract may be the payer, asks it whether the signature is its own (ERC-1271), deployed or
/// not (ERC-6492). The signature of an account that is still to be deployed stays wrapped in what is authorized, so that
/// the deposit can deploy it.
///
/// # Errors
/// [`OnchainError::Denied`] as [`authorize`], or when the contract refuses; [`OnchainError::Transient`] when the chain
/// gives no answer.
pub async fn authorize_onchain(
    spend: &SpendRequest,
    signed: &SignedMessage,
    payers: &Payers,
) -> Result<(Authorization, EscrowPlan), OnchainError> {
    let error = match authorize(spend, signed) {
        Ok(authorized) => return Ok(authorized),
        Err(error) if error.may_be_contract() => error,
        Err(error) => return Err(error.into()),
    };
    let rebuilt = Rebuilt::of(spend, signed)?;
    let bytes = signature::bytes(&signed.signature).map_err(AuthorizationError::from)?;
    let is_wrapped = signature::is_erc6492(&bytes);
    if !is_wrapped && payers.code_lately(rebuilt.payer).await?.is_none() {
        return Err(error.into());
    }
    let node = payers.node();
    let head = At::Block(node.head().await?);
    if is_wrapped {
        return wrapped_onchain(spend, rebuilt, &bytes, node, head).await;
    }
    if !Calls::of(node).contract_accepts(rebuilt.payer, rebuilt.digest, &bytes, head).await? {
        return Err(AuthorizationError::RefusedByContract { account: rebuilt.payer.to_string() }.into());
    }
    Ok(rebuilt.authorization(spend, &bytes)?)
}

/// What [`authorize`] takes from a key, confirmed by the payer's code where it has some: Permit2 goes by an account's code, as do
/// tokens that ask contracts at all,
/// wherever there is any, and the key alone counts for nothing (EIP-7702). Accounts without code need no confirmation.
///
/// # Errors
/// [`OnchainError::Denied`] as [`authorize`], or when the code refuses; [`OnchainError::Transient`] when the chain gives no
/// answer.
pub async fn confirm_by_code(
    spend: &SpendRequest,
    signed: &SignedMessage,
    payers: &Payers,
) -> Result<(), OnchainError> {
    let rebuilt = Rebuilt::of(spend, signed)?;
    let bytes = rebuilt.by_key(signed)?;
    // A merchant's signature is by its key, whatever code there is.
    let is_merchants = matches!(rebuilt.message, Message::Charge(_));
    if is_merchants || payers.code_lately(rebuilt.payer).await?.is_none() {
        return Ok(());
    }
    let node = payers.node();
    let head = At::Block(node.head().await?);
    // The very bytes that the deposit is going to hand to Permit2.
    if Calls::of(node).contract_accepts(rebuilt.payer, rebuilt.digest, &bytes, head).await? {
        return Ok(());
    }
    // What was known of the account may be older than the key's right to sign for it.
    if Query::of(node).code(rebuilt.payer, head).await?.is_empty() {
        return Ok(());
    }
    Err(AuthorizationError::RefusedByCode { account: rebuilt.payer.to_string() }.into())
}

async fn wrapped_onchain(
    spend: &SpendRequest,
    rebuilt: Rebuilt,
    bytes: &[u8],
    node: &Node,
    head: At,
) -> Result<(Authorization, EscrowPlan), OnchainError> {
    let wrapped = signature::unwrap_erc6492(bytes).map_err(AuthorizationError::from)?;
    if spend.scheme == Scheme::EvmPermit2Batch {
        let rule = "must be of an account that is there: no payment of a batch deploys one";
        return Err(AuthorizationError::malformed("signature", rule).into());
    }
    if !Query::of(node).code(rebuilt.payer, head).await?.is_empty()
        && Calls::of(node).contract_accepts(rebuilt.payer, rebuilt.digest, &wrapped.signature, head).await?
    {
        return Ok(rebuilt.authorization(spend, &wrapped.signature)?);
    }
    if !erc6492::accepts(node, rebuilt.payer, rebuilt.digest, &wrapped, head).await? {
        return Err(AuthorizationError::RefusedByContract { account: rebuilt.payer.to_string() }.into());
    }
    Ok(rebuilt.authorization(spend, bytes)?)
}

/// The signature of the payer's own key over `digest`.
fn key_signature(signed: &SignedMessage, digest: B256, payer: Address) -> Result<Signature, AuthorizationError> {
    let bytes = signature::bytes(&signed.signature)?;
    if signature::is_erc6492(&bytes) {
        return Err(SignatureError::Erc6492.into());
    }
    Ok(signature::by_key(&bytes, digest, payer)?)
}

/// What must have been signed, every field checked.
struct Rebuilt {
    message: Message,
    choice: Choice,
    plan: EscrowPlan,
    digest: B256,
    payer: Address,
    /// The payer, or the merchant of its mandate.
    signer: Address,
}

impl Rebuilt {
    fn of(spend: &SpendRequest, signed: &SignedMessage) -> Result<Self, AuthorizationError> {
        let expected = Expected::of(spend)?;
        let choice = Choice::from_payload(signed.payload.as_ref())?;
        let prehash = signed.message_prehash.as_deref().map(str::trim);
        let message = match prehash {
            Some(text) if text.starts_with('{') => Message::read(spend.scheme, text)?,
            Some(_) | None => expected.rebuild(spend, &choice)?,
        };
        let plan = expected.check(spend, &message, &choice)?;
        if let Some(text) = prehash.filter(|text| !text.starts_with('{')) {
            message.check_preimage(text)?;
        }
        let digest = message.digest()?;
        typed_data::check_digest(&signed.message, digest)?;
        let signer = match &message {
            Message::Charge(_) => mandate::merchant(&choice)?,
            Message::Permit(_) | Message::Batch(_) | Message::Transfer(_) => expected.payer,
        };
        Ok(Self { payer: expected.payer, signer, message, choice, plan, digest })
    }

    /// The signature of the payer's own key, or of the merchant's, in the form in which its contract takes it.
    fn by_key(&self, signed: &SignedMessage) -> Result<Vec<u8>, AuthorizationError> {
        let bytes = signature::bytes(&signed.signature)?;
        let parsed = key_signature(signed, self.digest, self.signer)?;
        // Permit2 and tokens know v 27 and 28 only; EIP-2098 Permit2 and the escrow take as it is, and the contract of mandates not at all.
        Ok(if bytes.len() == 65 || matches!(self.message, Message::Charge(_)) {
            signature::canonical(&parsed).to_vec()
        } else {
            bytes
        })
    }

    fn authorization(
        self,
        spend: &SpendRequest,
        signature: &[u8],
    ) -> Result<(Authorization, EscrowPlan), AuthorizationError> {
        let (amount, nonce) = (self.message.permitted()?, Hash32(self.message.nonce().to_be_bytes()));
        let text = format!("0x{}", hex::encode(signature));
        let authorization = match self.message {
            Message::Charge(_) => {
                let charge = MandateSpend::of(spend, &Expected::of(spend)?, &self.choice)?;
                Authorization::EvmPermit2Mandate(charge.authorization(signature)?)
            }
            Message::Batch(_) => {
                let batch = BatchSpend::of(spend, &Expected::of(spend)?, &self.choice)?;
                Authorization::EvmPermit2Batch(batch.authorization(spend.terms.source.account(), signature)?)
            }
            Message::Permit(permit) => {
                let with_witness = permit.witness.is_some();
                let quote_hash = permit.witness.map_or(Hash32::ZERO, |witness| Hash32(witness.quoteHash.0));
                let permit =
                    Permit2 { amount, nonce, deadline: permit.deadline, quote_hash, signature: text, allowance: None };
                match with_witness {
                    true => Authorization::EvmPermit2Escrow(permit),
                    false => Authorization::EvmPermit2(permit),
                }
            }
            Message::Transfer(transfer) if spend.scheme == Scheme::EvmX402Exact => {
                let purchase = OfferSpend::of(spend, &self.choice)?;
                Authorization::EvmX402Exact(purchase.authorization(transfer.domain, signature))
            }
            Message::Transfer(transfer) => {
                let (domain, valid_before, quote_hash) = (transfer.domain, transfer.valid_before, spend.quote_hash);
                Authorization::EvmEip3009(Eip3009 { domain, amount, nonce, valid_before, quote_hash, signature: text })
            }
        };
        Ok((authorization, self.plan))
    }
}
