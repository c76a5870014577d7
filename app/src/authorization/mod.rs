//! Authorizers: they check that the payer signed exactly this payment. One for each chain family, found by [`registry`].

mod asked_escrows;
pub mod evm;
pub mod registry;
pub mod solana;
pub mod tron;

use async_trait::async_trait;
use chrono::{SecondsFormat, Utc};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use events::{
    Account, Amount, ChainId, Family, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, DepositAddress, EscrowPlan, Mandate, MandateCharge, TokenDomain},
    time::{Timestamp, unix_seconds},
};
use net::callers::{Caller, Refusal};
use sagas::ports::Transient;

use crate::{
    error::{Code, Error},
    funds::Draw,
};

/// How the payer signed: the schemes of spec 2.3, four more of EVM chains (ADR 150, 154, 158, 159), one of Solana (ADR 160), and one of Tron
/// (ADR 156).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageScheme {
    /// Permit2 transfer without a witness.
    EvmPermit2,
    /// Permit2 transfer with the escrow's witness.
    EvmPermit2Escrow,
    /// Permit2 transfer for a batch of payments.
    EvmPermit2Batch,
    /// What a merchant asks for, by an allowance of Permit2's for the payer's mandate.
    EvmPermit2Mandate,
    /// A transfer by the token itself (ERC-3009).
    EvmEip3009,
    /// A transfer by the token to the address of a merchant's offer, as clients of x402 sign it.
    EvmX402Exact,
    /// Ed25519 over the escrow's terms.
    Solana,
    /// A transfer to the address of a merchant's offer, as clients of x402 sign it on Solana.
    SolanaX402Exact,
    /// The payer's own transaction.
    Tron,
    /// Permit2 transfer with the escrow's witness, on Tron.
    TronPermit2Escrow,
}

impl MessageScheme {
    /// Every scheme that a request may name. What clients of x402 sign comes by `/x402/v1` alone.
    pub const ALL: [Self; 8] = [
        Self::EvmPermit2,
        Self::EvmPermit2Escrow,
        Self::EvmPermit2Batch,
        Self::EvmPermit2Mandate,
        Self::EvmEip3009,
        Self::Solana,
        Self::TronPermit2Escrow,
        Self::Tron,
    ];

    /// What clients of x402 sign.
    pub const OF_X402: [Self; 2] = [Self::EvmX402Exact, Self::SolanaX402Exact];

    /// The name in a body.
    pub fn name(self) -> &'static str {
        match self {
            Self::EvmPermit2 => "EVM_PERMIT2",
            Self::EvmPermit2Escrow => "EVM_PERMIT2_ESCROW",
            Self::EvmPermit2Batch => "EVM_PERMIT2_BATCH",
            Self::EvmPermit2Mandate => "EVM_PERMIT2_MANDATE",
            Self::EvmEip3009 => "EVM_EIP3009",
            Self::EvmX402Exact => "EVM_X402_EXACT",
            Self::Solana => "SOLANA",
            Self::SolanaX402Exact => "SOLANA_X402_EXACT",
            Self::Tron => "TRON",
            Self::TronPermit2Escrow => "TRON_PERMIT2_ESCROW",
        }
    }

    /// The chains it is for.
    pub fn family(self) -> Family {
        match self {
            Self::EvmPermit2
            | Self::EvmPermit2Escrow
            | Self::EvmPermit2Batch
            | Self::EvmPermit2Mandate
            | Self::EvmEip3009
            | Self::EvmX402Exact => Family::Evm,
            Self::Solana | Self::SolanaX402Exact => Family::Solana,
            Self::Tron | Self::TronPermit2Escrow => Family::Tron,
        }
    }

    /// The scheme that a payer of this family has whatever the asset: the one that binds most.
    pub fn of(family: Family) -> Self {
        match family {
            Family::Evm => Self::EvmPermit2Escrow,
            Family::Solana => Self::Solana,
            Family::Tron => Self::Tron,
        }
    }

    /// The JSON Schema of a scheme's name.
    pub fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": Self::ALL.map(Self::name)})
    }

    /// The JSON Schema of a list of names.
    pub fn list_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": Self::schema(generator)})
    }
}

/// One signed message (spec 2.4), of the right shape and otherwise not believed.
#[derive(Debug, Clone, PartialEq)]
pub struct SignedMessage {
    /// What was signed, hex.
    pub message: String,
    /// The preimage of `message`, when it is a hash.
    pub message_prehash: Option<String>,
    /// The signature, hex with 0x.
    pub signature: String,
    /// Context of the chain.
    pub payload: Option<Map<String, Value>>,
}

/// A submission whose signature is to be checked against everything it says.
#[derive(Debug)]
pub struct AuthorizationRequest<'a> {
    /// The payment it would be; its hash is in the nonce and the witness.
    pub payment_id: &'a PaymentId,
    /// Its economics; the source is the account that must have signed.
    pub terms: &'a Terms,
    /// Their hash.
    pub terms_hash: Hash32,
    /// End of quote collection; the reserve deadline must be later.
    pub quote_deadline: Timestamp,
    /// The fulfillment deadline, which the witness must state.
    pub fulfillment_deadline: Timestamp,
    /// Least time between the fulfillment deadline and the refund window, in seconds.
    pub refund_delay_seconds: u64,
    /// The escrow contract, on the source's chain.
    pub escrow_contract: &'a Account,
    /// Permit2 on the source's chain, where it has it.
    pub permit2: Option<&'a Account>,
    /// Account that signs reservations.
    pub reserver: &'a Account,
    /// Account that attests delivery: the payment's verifier.
    pub releaser: &'a Account,
    /// Hash of the quote that the payer accepts; zero in the one-call flow, where it signs before the auction.
    pub quote_hash: Hash32,
    /// How the payer signed; while it is being prepared, how it is going to sign.
    pub message_scheme: MessageScheme,
    /// What the payer signed, at least one; none while it is being prepared. The first that authorizes the payment counts, with the
    /// allowance for Permit2 where one is signed; on Tron the first deposit that does, with the approval in front of it. The others
    /// are kept with the request.
    pub signed_messages: &'a [SignedMessage],
    /// At whose expense a node runs code of the payer's choice; `None` where it runs none.
    pub caller: Option<&'a Caller>,
}

impl AuthorizationRequest<'_> {
    /// Whether a deposit can be made at all: chains count in whole seconds, and one has to lie behind `quote_deadline` that is
    /// not behind `fulfillment_deadline` (design: escrow on chain, the windows).
    ///
    /// # Errors
    /// [`AuthorizeError::NoWindow`].
    pub fn check_window(&self) -> Result<(), AuthorizeError> {
        let is_open = unix_seconds(self.quote_deadline) < unix_seconds(self.fulfillment_deadline);
        if is_open { Ok(()) } else { Err(AuthorizeError::NoWindow) }
    }
}

/// The search for the first message that authorizes a payment. A payer may send others along: of another wallet, or for
/// another version of what is signed.
#[derive(Debug, Default)]
struct FirstThatAuthorizes {
    refusal: Option<String>,
}

impl FirstThatAuthorizes {
    /// What the search ends with, after what was judged of the next message. Only a refusal goes on: what cannot be judged now
    /// may be what counts.
    fn end(&mut self, judged: Result<Authorized, AuthorizeError>) -> Option<Result<Authorized, AuthorizeError>> {
        match judged {
            Err(AuthorizeError::Refused(reason)) => {
                self.refusal.get_or_insert(reason);
                None
            }
            judged => Some(judged),
        }
    }

    /// Why none authorizes it: what is wrong with the first, which is the one that most payers mean.
    fn refused(self) -> AuthorizeError {
        let none = || "sender_auth.signed_messages: must hold at least one message".to_owned();
        AuthorizeError::Refused(self.refusal.unwrap_or_else(none))
    }
}

/// A signature that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    /// What it permits.
    pub authorization: Authorization,
    /// The escrow it permits it for, with its windows.
    pub escrow: EscrowPlan,
}

/// A message that is still to be signed: a [`SignedMessage`] without its signature.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsignedMessage {
    /// What is signed, hex.
    pub message: String,
    /// Its preimage, in the form in which a wallet of the chain takes it.
    pub message_prehash: String,
    /// Context of the chain.
    pub payload: Map<String, Value>,
}

/// A payment that somebody wants to pay by a plain transfer to an address.
#[derive(Debug)]
pub struct AddressRequest<'a> {
    /// The payment it would be.
    pub payment_id: &'a PaymentId,
    /// Its economics; the source's account is where money goes back to.
    pub terms: &'a Terms,
    /// The escrow, with its windows.
    pub escrow: &'a EscrowPlan,
    /// The least that has to come.
    pub amount: Amount,
    /// Up to when it is waited for.
    pub pay_by: Timestamp,
}

/// A mandate that somebody wants to sign.
#[derive(Debug, Clone, Copy)]
pub struct MandateRequest<'a> {
    /// What it says.
    pub mandate: &'a Mandate,
    /// The terms of a payment under it; the amounts are any.
    pub terms: &'a Terms,
    /// Where payments are deposited.
    pub escrow_contract: &'a Account,
    /// Account that attests deliveries.
    pub releaser: &'a Account,
    /// Permit2 on the source's chain, where it has it.
    pub permit2: Option<&'a Account>,
}

/// A payment that somebody wants to sign for, before it is said how.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The asset and the account that pays with it.
    pub source: &'a OwnedAsset,
    /// The escrow that it is deposited in.
    pub escrow: &'a Account,
    /// The most that is going to be drawn, smallest unit, where that is known.
    pub drawn: Option<Amount>,
}

/// What a payer has to sign, and what it would permit.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The messages.
    pub messages: Vec<UnsignedMessage>,
    /// The most that may be drawn, smallest unit.
    pub amount: Amount,
    /// How it is drawn.
    pub draw: PreparedDraw,
    /// The escrow, with its windows.
    pub escrow: EscrowPlan,
}

/// What the payer of a batch has to sign, and what each payment of it says besides.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedBatch {
    /// The message, without a payload.
    pub message: UnsignedMessage,
    /// The nonce that is signed.
    pub nonce: Hash32,
    /// The tokens and how much is drawn of each, smallest unit.
    pub drawn: Vec<(OwnedAsset, Amount)>,
    /// The payload of each payment's signed message and its escrow, in their order.
    pub members: Vec<(Map<String, Value>, EscrowPlan)>,
}

/// What a payer has to sign for a mandate, and what it can do with it besides.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedMandate {
    /// The message for Permit2, without a payload.
    pub message: UnsignedMessage,
    /// The mandate's address.
    pub address: Account,
    /// The contract that keeps mandates.
    pub contract: Account,
    /// The allowance of all periods together, smallest unit.
    pub all: Amount,
    /// Who verifies the message, and the call there by which a payer that is a contract gives the allowance instead, hex.
    pub allowance: (Account, String),
    /// The call that ends the mandate, hex, and the message that serves whoever calls in the payer's place.
    pub cancel: (String, UnsignedMessage),
}

/// How what is prepared is going to be drawn: a [`Draw`] of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedDraw {
    /// By Permit2, with this nonce.
    Permit2(Hash32),
    /// By the token, with this nonce.
    Transfer(Hash32),
    /// By a mandate, out of its allowance at Permit2; what is asked for is not signed yet.
    Mandate(Box<MandateCharge>),
    /// Out of the allowance for deposits that this key signs.
    Delegate(Account),
    /// By the payer's own transactions.
    PayerDeposit,
}

impl Prepared {
    /// How it is drawn.
    pub fn draw(&self) -> Draw<'_> {
        match &self.draw {
            PreparedDraw::Permit2(nonce) => Draw::Permit2 { nonce: *nonce, prepares: false },
            PreparedDraw::Transfer(nonce) => Draw::Transfer { nonce: *nonce },
            PreparedDraw::Mandate(charge) => Draw::Mandate { charge },
            PreparedDraw::Delegate(signer) => Draw::Delegate { signer },
            PreparedDraw::PayerDeposit => Draw::PayerDeposit { deposit: None, approves: self.messages.len() > 1 },
        }
    }
}

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorizeError {
    /// It does not prove the spend that the request asks for. The text is shown to the caller.
    #[error("{0}")]
    Refused(String),
    /// No whole second lies between the deadlines, so that no deposit can be made and nothing be signed for it.
    #[error(
        "fulfillment_deadline: must lie in a later second than quote_deadline, because chains count in whole seconds"
    )]
    NoWindow,
    /// The payer is a contract, and code like its own has cost too much lately.
    #[error("code like the payer's has cost too much lately")]
    Exhausted {
        /// When there is room again.
        until: Timestamp,
    },
    /// The caller has as much code run as one caller may.
    #[error(transparent)]
    Limited(#[from] Refusal),
    /// It could not be judged for now, for example because the account's code cannot be read. It is logged by its kind.
    #[error(transparent)]
    Unavailable(#[from] Transient),
}

impl From<AuthorizeError> for Error {
    fn from(error: AuthorizeError) -> Self {
        match error {
            AuthorizeError::Refused(reason) => Self::new(Code::INVALID_SENDER_AUTH, reason),
            AuthorizeError::NoWindow => Self::new(Code::INVALID_DEADLINE, error.to_string()),
            AuthorizeError::Exhausted { until } => {
                let seconds = (until - Utc::now()).num_seconds().max(1).unsigned_abs();
                let until = until.to_rfc3339_opts(SecondsFormat::Secs, true);
                let message = format!("{} Come again at {until}.", Code::CONTRACT_PAYER_EXHAUSTED.message);
                Self::new(Code::CONTRACT_PAYER_EXHAUSTED, message).after(seconds)
            }
            AuthorizeError::Limited(refusal) => refusal.into(),
            AuthorizeError::Unavailable(fault) => Self::unavailable(&fault, "a signature could not be judged"),
        }
    }
}

/// What clients of x402 have to know to sign for an offer, besides the offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferSigning {
    /// On EVM chains the token's domain.
    Domain(TokenDomain),
    /// On Solana who pays the fee of what they sign.
    FeePayer(Account),
}

/// Checks the payer's signature against the request, field by field (design: what the payer signs).
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// What the payer authorized.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError>;

    /// The scheme that is offered to a payer who names none: the one that binds all of the payment's terms and asks least of the payer.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn offered(&self, wish: &Wish<'_>) -> Result<MessageScheme, AuthorizeError> {
        Ok(MessageScheme::of(wish.source.family()))
    }

    /// The address to which the payer sends its money instead of signing (ADR 153).
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn deposit_address(&self, request: &AddressRequest<'_>) -> Result<DepositAddress, AuthorizeError> {
        let chain = request.terms.source.asset().chain();
        Err(AuthorizeError::Refused(format!("source: no deposit addresses are given on {chain}")))
    }

    /// What clients of x402 have to know to sign for the source's token, where what they pay to `pay_to` comes into this escrow (ADR 154,
    /// 160). The source's account is the merchant's.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn offer_signing(
        &self,
        source: &OwnedAsset,
        escrow: &Account,
        pay_to: &Account,
    ) -> Result<OfferSigning, AuthorizeError> {
        let _ = (escrow, pay_to);
        let chain = source.asset().chain();
        Err(AuthorizeError::Refused(format!("network: exact is not served on {chain}; see gw-escrow")))
    }

    /// The account of the gateway's that pays the fee of what clients of x402 sign on this chain; `None` where none does.
    fn fee_payer(&self, chain: &ChainId) -> Option<&Account> {
        let _ = chain;
        None
    }

    /// What the payer of a batch signs for all of these payments, so that [`Authorizer::authorize`] accepts each of them (ADR 158). They are
    /// deposited up to the UNIX second `deadline`, or as long as all of them can be.
    ///
    /// # Errors
    /// See [`AuthorizeError`]; what is one payment's fault names it as `payments[n]`.
    async fn prepare_batch(
        &self,
        requests: &[AuthorizationRequest<'_>],
        deadline: Option<u64>,
    ) -> Result<PreparedBatch, AuthorizeError> {
        let _ = (requests, deadline);
        Err(AuthorizeError::Refused("payments: no batches are taken on the chain of their source".to_owned()))
    }

    /// What a payer signs for a mandate, so that [`Authorizer::authorize`] accepts what its merchant asks for (ADR 159).
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn prepare_mandate(&self, request: &MandateRequest<'_>) -> Result<PreparedMandate, AuthorizeError> {
        let chain = request.terms.source.asset().chain();
        Err(AuthorizeError::Refused(format!("source: no mandates are taken on {chain}")))
    }

    /// One more message, by which the payer gives the allowance that what was prepared needs, in front of the others; `None` where only a
    /// transaction of its own gives it.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn allowance(
        &self,
        request: &AuthorizationRequest<'_>,
        prepared: &Prepared,
    ) -> Result<Option<UnsignedMessage>, AuthorizeError> {
        let _ = (request, prepared);
        Ok(None)
    }

    /// Whether the payer's account is a contract, or becomes one by the deposit: then that runs code of the payer's choice.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn payer_is_contract(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<bool, AuthorizeError> {
        let _ = (request, authorized);
        Ok(false)
    }

    /// Whether it has bulkheads of its own, so that checks which wait for a node do not take the permits of others.
    fn has_bulkheads(&self) -> bool {
        false
    }

    /// Checks what only the source's chain can say of a signature that holds, before something new is made of it. A replay
    /// is not asked again: what the chain said once need not be so any more when the payment has been made.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError>;

    /// What the payer has to sign so that [`Authorizer::authorize`] accepts it. The request holds no signed messages yet;
    /// `payload` holds what is the payer's to choose, in the form of a signed message's payload.
    ///
    /// # Errors
    /// See [`AuthorizeError`].
    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError>;
}
