//! Deposit authorization: what a payer signed so that the deposit can be made, of each scheme.

use serde::{Deserialize, Serialize};

use super::transaction::PayerStep;
use crate::{Account, Amount, Family, Hash32, time::Timestamp};

/// The payer's authorization of the deposit, checked field by field against the request when it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "scheme")]
pub enum Authorization {
    /// Permit2 `permitWitnessTransferFrom` with a `GatewayDeposit` witness.
    #[serde(rename = "EVM_PERMIT2_ESCROW")]
    EvmPermit2Escrow(Permit2),
    /// Permit2 `permitTransferFrom`; the nonce alone binds the terms.
    #[serde(rename = "EVM_PERMIT2")]
    EvmPermit2(Permit2),
    /// ERC-3009 `receiveWithAuthorization`; the nonce is the hash of the `GatewayDeposit`.
    #[serde(rename = "EVM_EIP3009")]
    EvmEip3009(Eip3009),
    /// Permit2's batch transfer, whose witness is the root of many payments, of which this is one (ADR 158).
    #[serde(rename = "EVM_PERMIT2_BATCH")]
    EvmPermit2Batch(BatchPermit),
    /// Permit2's allowance for the address of a mandate, and what the mandate's merchant asks for (ADR 159).
    #[serde(rename = "EVM_PERMIT2_MANDATE")]
    EvmPermit2Mandate(MandateCharge),
    /// ERC-3009 `transferWithAuthorization` to the address of a merchant's offer, as x402's `exact` has it (ADR 154).
    #[serde(rename = "EVM_X402_EXACT")]
    EvmX402Exact(X402Exact),
    /// A token transfer to the address of a merchant's offer on Solana, as x402's `exact` has it (ADR 160).
    #[serde(rename = "SOLANA_X402_EXACT")]
    SolanaX402Exact(SolanaPurchase),
    /// Ed25519 over the deposit's terms; the program draws on the payer's SPL allowance.
    #[serde(rename = "SOLANA")]
    Solana(SolanaSpend),
    /// The payer's own transactions: an approval, and the deposit of the cap.
    #[serde(rename = "TRON")]
    Tron(TronSpend),
    /// As [`Authorization::EvmPermit2Escrow`], on Tron (TIP-712; ADR 156).
    #[serde(rename = "TRON_PERMIT2_ESCROW")]
    TronPermit2Escrow(Permit2),
    /// Nothing is signed: whoever sends the money to the payment's deposit address authorizes the deposit by that (ADR 153, 155, 157). It is
    /// stored under the name that it had when EVM chains alone had such addresses.
    #[serde(rename = "EVM_DEPOSIT_ADDRESS")]
    DepositAddress(DepositAddress),
}

impl Authorization {
    /// The message scheme's name in a request (spec 2.3).
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::EvmPermit2Escrow(_) => "EVM_PERMIT2_ESCROW",
            Self::EvmPermit2(_) => "EVM_PERMIT2",
            Self::EvmPermit2Batch(_) => "EVM_PERMIT2_BATCH",
            Self::EvmPermit2Mandate(_) => "EVM_PERMIT2_MANDATE",
            Self::EvmEip3009(_) => "EVM_EIP3009",
            Self::EvmX402Exact(_) => "EVM_X402_EXACT",
            Self::SolanaX402Exact(_) => "SOLANA_X402_EXACT",
            Self::Solana(_) => "SOLANA",
            Self::Tron(_) => "TRON",
            Self::TronPermit2Escrow(_) => "TRON_PERMIT2_ESCROW",
            Self::DepositAddress(given) => match given.address.family() {
                Family::Evm => "EVM_DEPOSIT_ADDRESS",
                Family::Solana => "SOLANA_DEPOSIT_ADDRESS",
                Family::Tron => "TRON_DEPOSIT_ADDRESS",
            },
        }
    }

    /// Whether the payer's own transaction makes the deposit, so that it is complete before a settler is known: the cap is
    /// deposited and reserved later, and whoever holds the transaction can send it.
    pub fn is_payer_deposit(&self) -> bool {
        matches!(self, Self::Tron(_))
    }

    /// Whether all that is permitted is deposited, whatever the award asks for: what signs it knows no less. What is over goes back
    /// to the payer on release.
    pub fn is_drawn_whole(&self) -> bool {
        matches!(
            self,
            Self::Tron(_)
                | Self::EvmEip3009(_)
                | Self::EvmX402Exact(_)
                | Self::SolanaX402Exact(_)
                | Self::EvmPermit2Batch(_)
                | Self::EvmPermit2Mandate(_)
        )
    }

    /// All that is permitted, smallest unit, where that is what is deposited; see [`Authorization::is_drawn_whole`].
    pub fn drawn_whole(&self) -> Option<Amount> {
        self.is_drawn_whole().then(|| self.permitted())
    }

    /// The payer's own transaction that is for `step`, where there is one that has its hash before it is sent.
    pub fn payer_transaction(&self, step: PayerStep) -> Option<&PayerTransaction> {
        match (self, step) {
            (Self::Tron(spend), PayerStep::Deposit) => Some(&spend.deposit),
            (Self::Tron(spend), PayerStep::Approval) => spend.approval.as_ref(),
            (Self::Tron(_), PayerStep::Transfer) => None,
            (
                Self::EvmPermit2Escrow(_)
                | Self::EvmPermit2(_)
                | Self::EvmPermit2Batch(_)
                | Self::EvmPermit2Mandate(_)
                | Self::EvmEip3009(_)
                | Self::EvmX402Exact(_)
                | Self::SolanaX402Exact(_)
                | Self::Solana(_)
                | Self::TronPermit2Escrow(_)
                | Self::DepositAddress(_),
                _,
            ) => None,
        }
    }

    /// The address that the money is sent to, where that authorizes the deposit.
    pub fn deposit_address(&self) -> Option<&DepositAddress> {
        match self {
            Self::DepositAddress(address) => Some(address),
            _ => None,
        }
    }

    /// What a stock client signed on Solana, where that is what authorizes the deposit.
    pub fn purchase(&self) -> Option<&SolanaPurchase> {
        match self {
            Self::SolanaX402Exact(purchase) => Some(purchase),
            _ => None,
        }
    }

    /// Whose tokens are drawn: the account of the payment's source, which is `source`, or the buyer where that account is its merchant's.
    pub fn drawn_from<'a>(&'a self, source: &'a Account) -> &'a Account {
        self.purchase().map_or(source, |purchase| &purchase.buyer)
    }

    /// Whether money of the payment may lie at an address outside of the escrow when it fails before its deposit: then it is looked for, and
    /// given back. Of a purchase on Solana some does once its transfer is sent.
    pub fn leaves_money_outside(&self) -> bool {
        matches!(self, Self::DepositAddress(_) | Self::EvmPermit2Batch(_))
    }

    /// The most that may be drawn, smallest unit of the source asset: with a deposit address the least that has to come there, which is
    /// the most that a settler may be paid.
    pub fn permitted(&self) -> Amount {
        match self {
            Self::EvmPermit2Escrow(permit) | Self::EvmPermit2(permit) | Self::TronPermit2Escrow(permit) => {
                permit.amount
            }
            Self::EvmPermit2Batch(permit) => permit.amount,
            Self::EvmPermit2Mandate(charge) => charge.amount,
            Self::EvmEip3009(transfer) => transfer.amount,
            Self::EvmX402Exact(purchase) => purchase.amount,
            Self::SolanaX402Exact(purchase) => purchase.amount,
            Self::Solana(spend) => spend.amount,
            Self::Tron(spend) => spend.amount,
            Self::DepositAddress(address) => address.amount,
        }
    }

    /// The quote that the payer signed for; zero where it signed before the auction, `None` where it signs no quote.
    pub fn quote_hash(&self) -> Option<Hash32> {
        match self {
            Self::EvmPermit2Escrow(permit) | Self::TronPermit2Escrow(permit) => Some(permit.quote_hash),
            Self::EvmPermit2(_) => None,
            Self::EvmEip3009(transfer) => Some(transfer.quote_hash),
            Self::Solana(spend) => Some(spend.quote_hash),
            Self::Tron(spend) => Some(spend.quote_hash),
            Self::EvmPermit2Batch(_)
            | Self::EvmPermit2Mandate(_)
            | Self::EvmX402Exact(_)
            | Self::SolanaX402Exact(_)
            | Self::DepositAddress(_) => Some(Hash32::ZERO),
        }
    }
}

/// What a client of x402 signed on Solana: a transaction whose fee payer is the gateway, and that does nothing but send what an offer asks for
/// to the offer's address (ADR 160). The payment's source is the merchant's account there, which has whatever is not delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolanaPurchase {
    /// What is sent, all of it deposited, smallest unit.
    pub amount: Amount,
    /// Whose tokens are sent, and who signed.
    pub buyer: Account,
    /// The address of the offer, whose associated token account gets them.
    pub pay_to: Account,
    /// The gateway's account that pays the fee, and without whose signature nobody can send the transaction.
    pub fee_payer: Account,
    /// From the last second of the deposit to the last of the delivery.
    pub delivery_seconds: u32,
    /// From there to the first second of the refund.
    pub refund_seconds: u32,
    /// The transaction, hex with 0x, with the buyer's signature and zeros in the place of the fee payer's.
    pub transaction: String,
}

/// What an Ed25519 signature over a deposit's terms permits on Solana. The terms are rebuilt from the payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SolanaSpend {
    /// The cap of the spend, smallest unit.
    pub amount: Amount,
    /// The quote signed for: zero in the one-call flow.
    pub quote_hash: Hash32,
    /// The key that signed, Base58: the payer, or the delegate signer to whose address the payer gave its SPL allowance.
    pub signer: Account,
    /// The 64 bytes of the signature, hex with 0x.
    pub signature: String,
}

/// The transactions with which a payer on Tron deposits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TronSpend {
    /// What is deposited: the cap of the spend, smallest unit.
    pub amount: Amount,
    /// The quote signed for: zero in the one-call flow.
    pub quote_hash: Hash32,
    /// Gives the escrow its allowance; absent where the payer has given it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PayerTransaction>,
    /// Calls the escrow's `depositOwn`.
    pub deposit: PayerTransaction,
}

/// A transaction that the payer signed, to be broadcast as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayerTransaction {
    /// Its hash, hex with 0x.
    pub transaction_hash: String,
    /// Its bytes with the signature, hex with 0x.
    pub raw: String,
    /// Its expiration, UNIX milliseconds.
    pub expires_at: u64,
}

/// An address that commits to a payment, so that what comes there can go nowhere but into the payment's escrow or back to its payer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAddress {
    /// The least that has to come there for the deposit, smallest unit: the cap of the spend. All that is there is deposited.
    pub amount: Amount,
    /// The address.
    pub address: Account,
    /// The contract that it is made by (`DepositAddresses`), and that alone moves what is there. On Solana the escrow's program.
    pub factory: Account,
    /// The contract whose code it runs. On Solana an address runs none, and this is the escrow's program, too.
    pub implementation: Account,
    /// Up to when the money is waited for.
    pub pay_by: Timestamp,
    /// A block of the chain from shortly before anybody knew the address.
    pub from_block: u64,
}

/// What a Permit2 signature permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit2 {
    /// Permitted amount: the cap of the spend, smallest unit.
    pub amount: Amount,
    /// Permit2's unordered nonce, keccak256(paymentId ‖ termsHash) as a number.
    pub nonce: Hash32,
    /// Permit2's own deadline, UNIX seconds.
    pub deadline: u64,
    /// `quoteHash` of the witness: zero in the one-call flow.
    pub quote_hash: Hash32,
    /// The signature, hex with 0x; 65 bytes, 64 bytes of EIP-2098, or what an ERC-1271 account takes, wrapped by ERC-6492
    /// where the deposit has to deploy that account.
    pub signature: String,
    /// The payer's ERC-2612 permit by which Permit2 gets its allowance in the deposit's transaction; absent where the payer has given it
    /// already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<TokenPermit>,
}

/// What a Permit2 signature for a batch of payments permits, and where in the batch this payment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPermit {
    /// What is drawn for this payment, all of it deposited, smallest unit: the cap of the spend.
    pub amount: Amount,
    /// What is drawn for all payments of the batch, by token, in ascending order of the tokens.
    pub permitted: Vec<BatchToken>,
    /// Permit2's unordered nonce, as a number: the root.
    pub nonce: Hash32,
    /// Permit2's own deadline, UNIX seconds, which is the reserve deadline of every payment of the batch.
    pub deadline: u64,
    /// The Merkle root of the payments: the witness.
    pub payments: Hash32,
    /// The way from this payment to the root: what it is hashed with, from the leaf on. Pairs are sorted.
    pub proof: Vec<Hash32>,
    /// The batch's address, where its money is from the first deposit on.
    pub address: Account,
    /// The contract that draws it (`PaymentBatches`), and that alone moves what is at the address.
    pub contract: Account,
    /// The contract whose code the address runs.
    pub implementation: Account,
    /// A block of the chain from shortly before the batch could be drawn.
    pub from_block: u64,
    /// The signature, hex with 0x, in the forms of [`Permit2::signature`], but of an account that is there.
    pub signature: String,
}

/// How much of a token is drawn for a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchToken {
    /// The token.
    pub token: Account,
    /// Smallest unit.
    pub amount: Amount,
}

/// What a payer allows a merchant to ask for, again and again. The rest of it is the payment's: payer, token, escrow, verifier, and to whom
/// it is delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mandate {
    /// Who signs for each payment, a key.
    pub merchant: Account,
    /// The most that is drawn in a period, smallest unit.
    pub amount: Amount,
    /// What is delivered at least where all of that is drawn for it, and so in proportion, smallest unit of what is delivered. Absent for no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Amount>,
    /// First second of the first period, UNIX.
    pub begins: u64,
    /// How long a period is, in seconds.
    pub period_seconds: u32,
    /// How many there are.
    pub periods: u32,
    /// Most seconds from a payment's deposit to the first of its refund.
    pub lock_seconds: u32,
    /// Drawn at random by the payer when all else was settled: who knew it before could look for two mandates of one address.
    pub salt: Hash32,
}

/// What a merchant's signature asks for under a mandate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MandateCharge {
    /// What is drawn, all of it deposited, smallest unit: the cap of the spend.
    pub amount: Amount,
    /// Under which mandate.
    pub mandate: Mandate,
    /// The mandate's address, which the payer gives its allowance.
    pub address: Account,
    /// The contract that it is made by (`Mandates`), and that alone moves what comes there.
    pub contract: Account,
    /// The contract whose code the address runs.
    pub implementation: Account,
    /// The payer's signature for Permit2, hex with 0x: 65 bytes, or 64 bytes of EIP-2098. Absent where it has given the allowance itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// The merchant's signature, 65 bytes in hex with 0x, with `v` 27 or 28.
    pub signature: String,
}

/// What names a token in what is signed for it (EIP-712). Its chain and address are the payment's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenDomain {
    /// Its name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// What an ERC-2612 signature permits: that Permit2 draws on the payer's tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPermit {
    /// In which domain of the token it was signed.
    pub domain: TokenDomain,
    /// How much, smallest unit.
    pub value: Amount,
    /// The token's nonce of the payer, as a number.
    pub nonce: Hash32,
    /// Last second in which the token takes it, UNIX.
    pub deadline: u64,
    /// The signature of the payer's key, 65 bytes in hex with 0x, with `v` 27 or 28.
    pub signature: String,
}

/// What an ERC-3009 signature authorizes: one transfer to the escrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eip3009 {
    /// In which domain of the token it was signed.
    pub domain: TokenDomain,
    /// What is taken, all of it, smallest unit: the cap of the spend; of a quote that the payer knew the price or more, up to the cap.
    pub amount: Amount,
    /// The authorization's nonce, the EIP-712 struct hash of the `GatewayDeposit`.
    pub nonce: Hash32,
    /// First second in which the token does not take the signature any more, UNIX.
    pub valid_before: u64,
    /// `quoteHash` of the `GatewayDeposit`: zero in the one-call flow.
    pub quote_hash: Hash32,
    /// The signature, in the forms of [`Permit2::signature`].
    pub signature: String,
}

/// What a buyer's signature under x402's `exact` authorizes: one transfer to the address of a merchant's offer, from which it can go into
/// the escrow of this payment or, where somebody brings it there past that, to the merchant. When it ends, so ends the time for the
/// deposit; the escrow's other windows are the offer's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct X402Exact {
    /// In which domain of the token it was signed.
    pub domain: TokenDomain,
    /// What is taken, smallest unit: the cap of the spend.
    pub amount: Amount,
    /// The authorization's nonce, of the buyer's choice; the payment's `request_id` is its text.
    pub nonce: Hash32,
    /// Last second in which the token does not take the signature yet, UNIX.
    pub valid_after: u64,
    /// First second in which the token does not take the signature any more, UNIX.
    pub valid_before: u64,
    /// The offer's address.
    pub pay_to: Account,
    /// The contract that it is made by (`OfferAddresses`), and that alone moves what is there.
    pub factory: Account,
    /// The contract whose code it runs.
    pub implementation: Account,
    /// The merchant's account on the source chain, where anything goes that comes to the address without a deposit.
    pub merchant: Account,
    /// The signature, in the forms of [`Permit2::signature`].
    pub signature: String,
}
