//! Revert reasons: why a contract refused, in words.

use std::{collections::HashMap, sync::LazyLock};

use alloy::{
    dyn_abi::{DynSolValue, ErrorExt},
    json_abi::Error,
    primitives::{Bytes, Selector},
};

use super::{
    contracts::{AccountDeposit, DevStablecoin, DevToken, FulfillmentProxy, GatewayEscrow, PermittedDeposit},
    deposit_addresses::DepositAddresses,
    mandates::Mandates,
    offers::OfferAddresses,
    payment_batches::PaymentBatches,
};

/// Errors of contracts that are not ours: Permit2's (ISignatureTransfer, IAllowanceTransfer, SignatureVerification, PermitErrors).
const PERMIT2_ERRORS: [&str; 10] = [
    "AllowanceExpired(uint256 deadline)",
    "InsufficientAllowance(uint256 amount)",
    "InvalidAmount(uint256 maxAmount)",
    "LengthMismatch()",
    "SignatureExpired(uint256 signatureDeadline)",
    "InvalidNonce()",
    "InvalidSignatureLength()",
    "InvalidSignature()",
    "InvalidSigner()",
    "InvalidContractSignature()",
];
const BUILT_IN: [&str; 2] = ["Error(string reason)", "Panic(uint256 code)"];
/// Longest reason kept, in characters: it ends up in events and HTTP bodies.
const REASON_CHARS_MAX: usize = 400;

/// A call that a contract refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Revert {
    /// The reason in words.
    pub reason: String,
    /// What the contract returned.
    pub data: Bytes,
}

impl Revert {
    /// A refusal from what the contract returned; `message` is the node's own word, used when there is nothing better.
    pub fn new(data: Bytes, message: &str) -> Self {
        let reason = describe(&data).unwrap_or_else(|| match data.len() {
            0 => message.to_owned(),
            _ => format!("{message} ({data})"),
        });
        Self { reason: reason.chars().take(REASON_CHARS_MAX).collect(), data }
    }
}

static ERRORS: LazyLock<HashMap<Selector, Error>> = LazyLock::new(|| {
    // A text that did not parse would only be missing here; a test asks for every one of them.
    let foreign = PERMIT2_ERRORS.into_iter().chain(BUILT_IN).filter_map(|text| Error::parse(text).ok());
    let own = [
        GatewayEscrow::abi::errors(),
        FulfillmentProxy::abi::errors(),
        AccountDeposit::abi::errors(),
        DevToken::abi::errors(),
        DevStablecoin::abi::errors(),
        PermittedDeposit::abi::errors(),
        DepositAddresses::abi::errors(),
        OfferAddresses::abi::errors(),
        PaymentBatches::abi::errors(),
        Mandates::abi::errors(),
    ];
    let own = own.into_iter().flat_map(|errors| errors.into_values().flatten());
    own.chain(foreign).map(|error| (error.selector(), error)).collect()
});

/// `Name(parameter: value, …)` for an error that is known, the text itself for `Error(string)`.
pub fn describe(data: &[u8]) -> Option<String> {
    let selector = Selector::try_from(data.get(..4)?).ok()?;
    let error = ERRORS.get(&selector)?;
    let decoded = error.decode_error(data).ok()?;
    if let ("Error", [DynSolValue::String(text)]) = (error.name.as_str(), decoded.body.as_slice()) {
        return Some(text.clone());
    }
    let values = error.inputs.iter().zip(&decoded.body).map(|(input, value)| match input.name.as_str() {
        "" => show(value),
        name => format!("{name}: {}", show(value)),
    });
    Some(format!("{}({})", error.name, values.collect::<Vec<_>>().join(", ")))
}

fn show(value: &DynSolValue) -> String {
    match value {
        DynSolValue::Address(address) => format!("{address:#x}"),
        DynSolValue::Uint(number, _) => number.to_string(),
        DynSolValue::Int(number, _) => number.to_string(),
        DynSolValue::Bool(value) => value.to_string(),
        DynSolValue::String(text) => text.clone(),
        DynSolValue::FixedBytes(word, size) => format!("0x{}", hex::encode(&word[..(*size).min(32)])),
        DynSolValue::Bytes(bytes) => format!("0x{}", hex::encode(bytes)),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use alloy::{
        primitives::{B256, U256, aliases::U48, b256, bytes},
        sol_types::SolError,
    };

    use super::*;

    #[test]
    fn every_kind_of_refusal_is_told_in_words() {
        let window = GatewayEscrow::ReserveWindowClosed { reserveDeadline: U48::from(1_700_000_000u64) };
        assert_eq!(describe(&window.abi_encode()).unwrap(), "ReserveWindowClosed(reserveDeadline: 1700000000)");
        let used = GatewayEscrow::PaymentIdUsed { paymentId: B256::repeat_byte(0xab) };
        let text = b256!("abababababababababababababababababababababababababababababababab").to_string();
        assert_eq!(describe(&used.abi_encode()).unwrap(), format!("PaymentIdUsed(paymentId: {text})"));
        let early = GatewayEscrow::ReservationNotOver { fulfillBy: U48::from(1_700_000_001u64) };
        assert_eq!(describe(&early.abi_encode()).unwrap(), "ReservationNotOver(fulfillBy: 1700000001)");
        let same = GatewayEscrow::QuoteNotAnother { quoteHash: B256::repeat_byte(0xab) };
        assert_eq!(describe(&same.abi_encode()).unwrap(), format!("QuoteNotAnother(quoteHash: {text})"));
        let short = DevToken::ERC20InsufficientBalance {
            sender: Default::default(),
            balance: U256::from(1),
            needed: U256::from(2),
        };
        assert!(describe(&short.abi_encode()).unwrap().starts_with("ERC20InsufficientBalance(sender: 0x0000"));
        let text = alloy::sol_types::Revert::from("TRANSFER_FROM_FAILED").abi_encode();
        assert_eq!(describe(&text).unwrap(), "TRANSFER_FROM_FAILED");
        let panic = alloy::sol_types::Panic::from(alloy::sol_types::PanicKind::UnderOverflow).abi_encode();
        assert_eq!(describe(&panic).unwrap(), "Panic(code: 17)");
    }

    #[test]
    fn all_foreign_errors_are_known() {
        for text in PERMIT2_ERRORS.into_iter().chain(BUILT_IN) {
            let selector = Error::parse(text).unwrap().selector();
            assert!(ERRORS.contains_key(&selector), "{text}");
        }
    }

    #[test]
    fn the_unknown_is_shown_as_it_came() {
        assert_eq!(Revert::new(bytes!("deadbeef"), "execution reverted").reason, "execution reverted (0xdeadbeef)");
        assert_eq!(Revert::new(Bytes::new(), "execution reverted").reason, "execution reverted");
        assert_eq!(describe(&[1, 2, 3]), None);
        // A known selector with a body cut short must not panic or be believed.
        assert_eq!(describe(&GatewayEscrow::PaymentIdUsed::SELECTOR), None);
    }
}
