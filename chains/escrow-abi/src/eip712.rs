//! The EIP-712 messages of the escrow, of Permit2 and of tokens that take signatures (ERC-2612, ERC-3009), and their domains.
//!
//! Type strings must equal those in `contracts/src/GatewayEscrow.sol`; deposits on a real chain in the tests prove it.

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol,
    sol_types::{Eip712Domain, SolStruct, eip712_domain},
};
use serde_json::Value;

use events::{Hash32, PaymentId, event::EscrowPlan};
use sagas::ports;

use super::contracts::{ConvertError, GatewayEscrow, address, time, units, word};

sol! {
    /// Permit2's token and most amount.
    #[derive(Debug, PartialEq, Eq)]
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    /// The escrow's witness.
    #[derive(Debug, PartialEq, Eq)]
    struct GatewayDeposit {
        bytes32 paymentId;
        bytes32 termsHash;
        bytes32 quoteHash;
        address payer;
        address reserver;
        address releaser;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
    }

    /// What a payer signs under `EVM_PERMIT2`.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitTransferFrom {
        TokenPermissions permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
    }

    /// What a payer signs under `EVM_PERMIT2_ESCROW`.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitWitnessTransferFrom {
        TokenPermissions permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
        GatewayDeposit witness;
    }

    /// The witness of a batch: its escrow, and the Merkle root of its payments.
    #[derive(Debug, PartialEq, Eq)]
    struct PaymentBatch {
        address escrow;
        bytes32 payments;
    }

    /// What a payer signs under `EVM_PERMIT2_BATCH`.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitBatchWitnessTransferFrom {
        TokenPermissions[] permitted;
        address spender;
        uint256 nonce;
        uint256 deadline;
        PaymentBatch witness;
    }

    /// Permit2's token, and how much of it a spender may draw up to when.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitDetails {
        address token;
        uint160 amount;
        uint48 expiration;
        uint48 nonce;
    }

    /// What a payer signs for a mandate: an allowance for its address.
    #[derive(Debug, PartialEq, Eq)]
    struct PermitSingle {
        PermitDetails details;
        address spender;
        uint256 sigDeadline;
    }

    /// What a merchant signs under `EVM_PERMIT2_MANDATE`.
    #[derive(Debug, PartialEq, Eq)]
    struct Charge {
        address mandate;
        bytes32 paymentId;
        uint256 fulfillmentAmount;
        uint160 amount;
        address reserver;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
    }

    /// What a payer signs who has somebody else end a mandate.
    #[derive(Debug, PartialEq, Eq)]
    struct Cancellation {
        address mandate;
    }

    /// What a payer signs under `EVM_EIP3009`: only `to` may carry it out.
    #[derive(Debug, PartialEq, Eq)]
    struct ReceiveWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// What a buyer signs under x402's `exact`: anyone may carry it out.
    #[derive(Debug, PartialEq, Eq)]
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// An allowance by signature (ERC-2612).
    #[derive(Debug, PartialEq, Eq)]
    struct Permit {
        address owner;
        address spender;
        uint256 value;
        uint256 nonce;
        uint256 deadline;
    }

    /// The award alone, signed by the reserver for a deposit that is in the escrow already.
    #[derive(Debug, PartialEq, Eq)]
    struct Reservation {
        bytes32 paymentId;
        bytes32 quoteHash;
        address settler;
        uint256 sourceAmount;
        uint48 fulfillBy;
    }

    /// The award that takes the place of the one for the quote with the hash `previousQuoteHash`, signed by the reserver of a deposit
    /// whose settler did not deliver in time.
    #[derive(Debug, PartialEq, Eq)]
    struct Reassignment {
        bytes32 previousQuoteHash;
        Reservation reservation;
    }

    /// The award with the deposit and the token it belongs to, signed by the escrow's reserver for both ways of
    /// depositing with a permit and for deposits from deposit addresses, and the last second in which the deposit may be made.
    #[derive(Debug, PartialEq, Eq)]
    struct Admission {
        GatewayDeposit deposit;
        Reservation reservation;
        address token;
        uint48 admittedUntil;
    }

    /// As [`Admission`], of a deposit of more than the award asks for.
    #[derive(Debug, PartialEq, Eq)]
    struct LargerAdmission {
        GatewayDeposit deposit;
        Reservation reservation;
        address token;
        uint256 amount;
        uint48 admittedUntil;
    }

    /// The deposit of the payer's cap by the payer's own transaction (Tron), signed by the escrow's reserver.
    #[derive(Debug, PartialEq, Eq)]
    struct Opening {
        GatewayDeposit deposit;
        address token;
        uint256 amount;
    }

    /// The delivery was made.
    #[derive(Debug, PartialEq, Eq)]
    struct Delivery {
        bytes32 paymentId;
        bytes32 quoteHash;
        address settler;
    }

    /// No delivery was made and none can be made any more.
    #[derive(Debug, PartialEq, Eq)]
    struct NonDelivery {
        bytes32 paymentId;
        bytes32 quoteHash;
    }
}

/// A whole number of typed data: as a decimal string, a hex string with 0x, or a JSON integer.
pub fn uint(value: &Value) -> Option<U256> {
    match value {
        Value::Number(number) => number.as_u64().map(U256::from),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit()) => {
                U256::from_str_radix(digits, 16).ok()
            }
            Some(_) => None,
            None if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) => U256::from_str_radix(text, 10).ok(),
            None => None,
        },
        _ => None,
    }
}

/// Permit2's domain: a name, no version.
pub fn permit2_domain(evm_id: u64, permit2: Address) -> Eip712Domain {
    eip712_domain! { name: "Permit2", chain_id: evm_id, verifying_contract: permit2, }
}

/// The domain of a token that takes signatures.
pub fn token_domain(name: String, version: String, evm_id: u64, token: Address) -> Eip712Domain {
    eip712_domain! { name: name, version: version, chain_id: evm_id, verifying_contract: token, }
}

/// The domain of one escrow contract.
pub fn escrow_domain(evm_id: u64, escrow: Address) -> Eip712Domain {
    eip712_domain! { name: "GatewayEscrow", version: "1", chain_id: evm_id, verifying_contract: escrow, }
}

/// What is hashed and signed for `message` in `domain`: 0x19 0x01, the domain's hash, the message's hash (EIP-712). Services that
/// hash by themselves are given this.
pub fn preimage(message: &impl SolStruct, domain: &Eip712Domain) -> [u8; 66] {
    let mut bytes = [0x19; 66];
    bytes[1] = 0x01;
    bytes[2..34].copy_from_slice(domain.separator().as_slice());
    bytes[34..].copy_from_slice(message.eip712_hash_struct().as_slice());
    bytes
}

/// The digest that is signed for `message` in `domain`.
pub fn digest(message: &impl SolStruct, domain: &Eip712Domain) -> B256 {
    keccak256(preimage(message, domain))
}

/// The witness of a payment: what the payer signs, or what the reserver admits where there is no witness.
///
/// # Errors
/// [`ConvertError`] when `plan` holds no addresses or times that fit.
pub fn deposit(
    payment_id: &PaymentId,
    terms_hash: Hash32,
    quote_hash: Hash32,
    payer: Address,
    plan: &EscrowPlan,
) -> Result<GatewayDeposit, ConvertError> {
    Ok(GatewayDeposit {
        paymentId: word(payment_id.on_chain()),
        termsHash: word(terms_hash),
        quoteHash: word(quote_hash),
        payer,
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        reserveDeadline: time(plan.reserve_deadline)?,
        fulfillmentDeadline: time(plan.fulfillment_deadline)?,
        refundAfter: time(plan.refund_after)?,
    })
}

/// The award as it is signed.
///
/// # Errors
/// [`ConvertError`] when the payout account is not an address or the time does not fit.
pub fn reservation(payment_id: &PaymentId, reservation: &ports::Reservation) -> Result<Reservation, ConvertError> {
    Ok(Reservation {
        paymentId: word(payment_id.on_chain()),
        quoteHash: word(reservation.quote_hash),
        settler: address(&reservation.payout_account)?,
        sourceAmount: units(reservation.source_amount),
        fulfillBy: time(reservation.fulfill_by)?,
    })
}

/// The award as it is signed where it takes the place of the one for the quote with the hash `previous`.
///
/// # Errors
/// As [`reservation`].
pub fn reassignment(
    payment_id: &PaymentId,
    previous: Hash32,
    reservation: &ports::Reservation,
) -> Result<Reassignment, ConvertError> {
    let reservation = self::reservation(payment_id, reservation)?;
    Ok(Reassignment { previousQuoteHash: word(previous), reservation })
}

/// The structs of an artefact that names them, of which each has types of its own.
macro_rules! structs_of {
    ($artefact:ident) => {
        impl From<&$crate::eip712::GatewayDeposit> for $artefact::GatewayDeposit {
            fn from(deposit: &$crate::eip712::GatewayDeposit) -> Self {
                Self {
                    paymentId: deposit.paymentId,
                    termsHash: deposit.termsHash,
                    quoteHash: deposit.quoteHash,
                    payer: deposit.payer,
                    reserver: deposit.reserver,
                    releaser: deposit.releaser,
                    reserveDeadline: deposit.reserveDeadline,
                    fulfillmentDeadline: deposit.fulfillmentDeadline,
                    refundAfter: deposit.refundAfter,
                }
            }
        }

        impl From<&$crate::eip712::Reservation> for $artefact::Reservation {
            fn from(reservation: &$crate::eip712::Reservation) -> Self {
                Self {
                    paymentId: reservation.paymentId,
                    quoteHash: reservation.quoteHash,
                    settler: reservation.settler,
                    sourceAmount: reservation.sourceAmount,
                    fulfillBy: reservation.fulfillBy,
                }
            }
        }
    };
}

pub(crate) use structs_of;

structs_of!(GatewayEscrow);
