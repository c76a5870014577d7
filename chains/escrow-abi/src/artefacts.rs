//! Artefacts: the contracts' code that this version was built with, and whether code found on a chain is it.
//!
//! Code on a chain differs from its artefact in the *immutables*: words that the constructor writes into the code. [`matches()`]
//! compares all else byte for byte and reads them; [`escrow_findings`] compares each of them with what it has to be, also
//! those without a getter, as code that is right with a type hash that is not would take other signatures than it should.
//! What the constructor left in storage the code does not tell.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::LazyLock};

use alloy::{
    primitives::{Address, B256, Bytes, U256, keccak256},
    sol_types::{SolCall, SolStruct},
};
use serde::Deserialize;

use chains::deployment::Finding;

use super::{
    contracts::{GatewayEscrow, PAYOUT_GAS},
    eip712::{Admission, GatewayDeposit, LargerAdmission, Opening, Reassignment, Reservation, escrow_domain},
    permit2::Deployed,
};

/// `GatewayEscrow`. Its constructor's arguments are `GatewayEscrow::constructorCall`.
pub static GATEWAY_ESCROW: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/GatewayEscrow.json")));

/// `FulfillmentProxy`. Its constructor has no arguments.
pub static FULFILLMENT_PROXY: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/FulfillmentProxy.json")));

/// `DepositAddresses`. Its constructor has no arguments.
pub static DEPOSIT_ADDRESSES: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/DepositAddresses.json")));

/// `TronDepositAddresses`. Its constructor has no arguments.
pub static TRON_DEPOSIT_ADDRESSES: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/TronDepositAddresses.json")));

/// `DepositAddress`, which `TronDepositAddresses` makes where it can be computed. Its constructor has no arguments.
pub static DEPOSIT_ADDRESS: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/DepositAddress.json")));

/// `OfferAddresses`. Its constructor has no arguments.
pub static OFFER_ADDRESSES: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/OfferAddresses.json")));

/// `PaymentBatches`. Its constructor has no arguments.
pub static PAYMENT_BATCHES: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/PaymentBatches.json")));

/// `Mandates`. Its constructor has no arguments.
pub static MANDATES: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/Mandates.json")));

/// Uniswap's `Permit2`, of its published sources and settings. Its constructor has no arguments.
pub static PERMIT2: LazyLock<Artefact> =
    LazyLock::new(|| Artefact::embedded(include_str!("../../../contracts/artifacts/Permit2.json")));

/// Bytes of an immutable in the code.
const WORD_BYTES: usize = 32;
/// Gas that the escrow keeps to close its books after a payout, its `CLOSING_GAS`.
const CLOSING_GAS: u64 = 80_000;

/// The words that a constructor wrote into the code, by their names in the source.
pub type Immutables = BTreeMap<String, B256>;

/// A contract as the compiler made it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Artefact {
    /// Its name in the source.
    #[serde(rename = "contractName")]
    pub name: String,
    /// Creation code, without the constructor's arguments.
    #[serde(rename = "bytecode")]
    pub creation: Bytes,
    /// Deployed code, with zeros in place of immutables.
    #[serde(rename = "deployedBytecode")]
    pub deployed: Bytes,
    /// The first bytes of the words of each immutable in the deployed code.
    immutables: BTreeMap<String, Vec<usize>>,
}

impl Artefact {
    #[expect(clippy::expect_used, reason = "the artefacts are built with the contracts, and a test reads them")]
    fn embedded(text: &str) -> Self {
        serde_json::from_str(text).expect("the artefacts are built with the contracts, and a test reads them")
    }

    /// What a transaction that deploys the contract runs: creation code and the ABI-encoded `arguments` of the constructor.
    pub fn creation_with(&self, arguments: &[u8]) -> Vec<u8> {
        [self.creation.as_ref(), arguments].concat()
    }
}

/// Why code that was found is not an artefact's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeMismatch {
    /// There is no contract.
    #[error("has no code")]
    Missing,
    /// It has another length, so it is another contract's or version's.
    #[error("has {found} bytes of code, and should have {expected}")]
    Length {
        /// Bytes that were found.
        found: usize,
        /// Bytes that there should be.
        expected: usize,
    },
    /// It has the length, and is another contract's or version's all the same.
    #[error("differs at byte {0} of its code")]
    Differs(usize),
    /// An immutable has different values in different places, which no constructor leaves.
    #[error("has several values of {0} in its code")]
    Ambiguous(String),
}

/// Compares the code that is at an address with that of `artefact`; the immutables that it was made with, if it is the same.
///
/// # Errors
/// [`CodeMismatch`].
pub fn matches(found: &[u8], artefact: &Artefact) -> Result<Immutables, CodeMismatch> {
    let expected = artefact.deployed.as_ref();
    if found.is_empty() {
        return Err(CodeMismatch::Missing);
    }
    if found.len() != expected.len() {
        return Err(CodeMismatch::Length { found: found.len(), expected: expected.len() });
    }
    let (mut masked, mut immutables) = (found.to_vec(), Immutables::new());
    for (name, places) in &artefact.immutables {
        for place in places {
            let Some(word) = masked.get_mut(*place..place.saturating_add(WORD_BYTES)) else { continue };
            let value = B256::from_slice(word);
            word.fill(0);
            if immutables.insert(name.clone(), value).is_some_and(|before| before != value) {
                return Err(CodeMismatch::Ambiguous(name.clone()));
            }
        }
    }
    match masked.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(at) => Err(CodeMismatch::Differs(at)),
        None => Ok(immutables),
    }
}

/// What an escrow has to be made with.
#[derive(Debug, Clone, Copy)]
pub struct EscrowSetup {
    /// What the chain's contracts see as `CHAINID`.
    pub chain_id: u64,
    /// Where the escrow is.
    pub escrow: Address,
    /// Permit2; zero where there is none.
    pub permit2: Address,
    /// The guardian; zero for nobody.
    pub guardian: Address,
    /// How addresses of the chain are written.
    pub text: fn(Address) -> String,
}

impl EscrowSetup {
    /// The words that the constructor writes into the code.
    pub fn immutables(&self) -> Immutables {
        let domain = escrow_domain(self.chain_id, self.escrow);
        let payout_gas_needed = PAYOUT_GAS + PAYOUT_GAS / 63 + CLOSING_GAS;
        let (name, version) =
            (domain.name.as_deref().unwrap_or_default(), domain.version.as_deref().unwrap_or_default());
        [
            ("ADMISSION_TYPEHASH", type_hash::<Admission>()),
            ("GATEWAY_DEPOSIT_TYPEHASH", type_hash::<GatewayDeposit>()),
            ("LARGER_ADMISSION_TYPEHASH", type_hash::<LargerAdmission>()),
            ("OPENING_TYPEHASH", type_hash::<Opening>()),
            ("REASSIGNMENT_TYPEHASH", type_hash::<Reassignment>()),
            ("RESERVATION_TYPEHASH", type_hash::<Reservation>()),
            ("_cachedChainId", number(self.chain_id)),
            ("_cachedDomainSeparator", domain.separator()),
            ("_cachedThis", self.escrow.into_word()),
            ("_hashedName", keccak256(name)),
            ("_hashedVersion", keccak256(version)),
            ("_name", short_string(name)),
            ("_payoutGasNeeded", number(payout_gas_needed)),
            ("_version", short_string(version)),
            ("guardian", self.guardian.into_word()),
            ("payoutGas", number(PAYOUT_GAS)),
            ("permit2", self.permit2.into_word()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn account(&self, word: &B256) -> String {
        let address = Address::from_word(*word);
        if address.is_zero() { "nobody".to_owned() } else { (self.text)(address) }
    }
}

/// Whether the code of an escrow has the call that reassigns, which escrows of earlier versions do not have.
pub fn takes_reassignments(code: &[u8]) -> bool {
    code.windows(4).any(|bytes| bytes == GatewayEscrow::reassignCall::SELECTOR)
}

/// Whether the code of an escrow has the call that deposits by a token's signed transfer (ERC-3009), which escrows of earlier versions
/// do not have.
pub fn takes_transfers(code: &[u8]) -> bool {
    code.windows(4).any(|bytes| bytes == GatewayEscrow::depositWithAuthorizationCall::SELECTOR)
}

/// Whether the code of an escrow has the call that deposits for another, which deposit addresses and those of offers need and escrows of
/// earlier versions do not have.
pub fn takes_deposits_for(code: &[u8]) -> bool {
    code.windows(4).any(|bytes| bytes == GatewayEscrow::depositForCall::SELECTOR)
}

/// What the code found at the address of an escrow is, compared with this version's and with what it has to be made with.
/// Only the code tells nothing more where it is another's.
pub fn escrow_findings(found: &[u8], setup: &EscrowSetup) -> Vec<Finding> {
    let artefact = &*GATEWAY_ESCROW;
    let subject = |what: &str| format!("{what} of {}", artefact.name);
    let immutables = match matches(found, artefact) {
        Ok(immutables) => immutables,
        Err(mismatch) => return vec![Finding::bad(subject("code"), mismatch.to_string())],
    };
    let expected = setup.immutables();
    let compare = |name: &str, text: &dyn Fn(&B256) -> String| {
        let words =
            (immutables.get(name).copied().unwrap_or_default(), expected.get(name).copied().unwrap_or_default());
        Finding::compare(subject(name), &text(&words.0), &text(&words.1))
    };
    let account = |word: &B256| setup.account(word);
    let amount = |word: &B256| U256::from_be_bytes(word.0).to_string();
    let named = ["permit2", "guardian", "payoutGas"];
    let wrong: Vec<&str> = expected
        .iter()
        .filter(|(name, _)| !named.contains(&name.as_str()))
        .filter(|(name, value)| immutables.get(*name).is_none_or(|found| !is_same(name, found, value)))
        .map(|(name, _)| name.as_str())
        .collect();
    let constants = subject("constants in the code");
    vec![
        Finding::good(subject("code")),
        if wrong.is_empty() {
            Finding::good(constants)
        } else {
            Finding::bad(
                constants,
                format!("other values than this chain, address and version give: {}", wrong.join(", ")),
            )
        },
        compare("permit2", &account),
        compare("guardian", &account),
        compare("payoutGas", &amount),
    ]
}

/// What the code found at the address of a proxy is, compared with this version's.
pub fn proxy_findings(found: &[u8]) -> Vec<Finding> {
    let artefact = &*FULFILLMENT_PROXY;
    let subject = format!("code of {}", artefact.name);
    vec![match matches(found, artefact) {
        Ok(_) => Finding::good(subject),
        Err(mismatch) => Finding::bad(subject, mismatch.to_string()),
    }]
}

/// What the code found at the address of a Permit2 is, compared with Uniswap's, made there on its chain. One that was compiled otherwise is
/// known by the hash of its code, where somebody compared it: `known`.
pub fn permit2_findings(found: &[u8], permit2: Deployed, known: Option<B256>) -> Vec<Finding> {
    let subject = format!("code of {}", PERMIT2.name);
    let made_with =
        [("_CACHED_CHAIN_ID", number(permit2.chain_id)), ("_CACHED_DOMAIN_SEPARATOR", permit2.domain().separator())];
    let hash = keccak256(found);
    let mismatch = match matches(found, &PERMIT2) {
        Ok(immutables) => {
            let other = made_with.into_iter().find(|(name, value)| immutables.get(*name) != Some(value));
            other.map(|(name, _)| format!("has another {name} than this chain and address give"))
        }
        Err(mismatch @ CodeMismatch::Missing) => Some(mismatch.to_string()),
        Err(_) if known == Some(hash) => None,
        Err(mismatch) => {
            let is_not = match known {
                Some(known) => format!("its hash is {hash}, and not {known}"),
                None => format!(
                    "it may be another compilation of the same: compare it with what is published, and name its hash {hash}"
                ),
            };
            Some(format!("{mismatch}, where it is Uniswap's; {is_not}"))
        }
    };
    vec![match mismatch {
        None => Finding::good(subject),
        Some(mismatch) => Finding::bad(subject, mismatch),
    }]
}

/// What the code found where the factory of deposit addresses is, compared with this version's, whose addresses run the code at
/// `implementation`.
pub fn deposit_address_findings(found: &[u8], implementation: Address) -> Vec<Finding> {
    factory_findings(found, &DEPOSIT_ADDRESSES, implementation)
}

/// As [`deposit_address_findings`], on Tron.
pub fn tron_deposit_address_findings(found: &[u8], implementation: Address) -> Vec<Finding> {
    factory_findings(found, &TRON_DEPOSIT_ADDRESSES, implementation)
}

/// What the code found where the factory of offers' addresses is, compared with this version's, whose addresses run the code at
/// `implementation`.
pub fn offer_address_findings(found: &[u8], implementation: Address) -> Vec<Finding> {
    factory_findings(found, &OFFER_ADDRESSES, implementation)
}

/// What the code found where batches are drawn, compared with this version's, whose addresses run the code at `implementation`.
pub fn payment_batch_findings(found: &[u8], implementation: Address) -> Vec<Finding> {
    factory_findings(found, &PAYMENT_BATCHES, implementation)
}

/// What the code found where mandates are kept, compared with this version's, whose addresses run the code at `implementation`. What else the
/// constructor wrote into it follows from chain and place.
pub fn mandate_findings(found: &[u8], implementation: Address) -> Vec<Finding> {
    factory_findings(found, &MANDATES, implementation)
}

fn factory_findings(found: &[u8], artefact: &Artefact, implementation: Address) -> Vec<Finding> {
    let subject = format!("code of {}", artefact.name);
    let is_ours = |made_with: &Immutables| {
        made_with.get("implementation").is_some_and(|found| Address::from_word(*found) == implementation)
    };
    vec![match matches(found, artefact) {
        Ok(made_with) if is_ours(&made_with) => Finding::good(subject),
        Ok(_) => Finding::bad(subject, "was made with another implementation"),
        Err(mismatch) => Finding::bad(subject, mismatch.to_string()),
    }]
}

/// Whether an immutable is as it has to be. Tron has virtual machines whose own address has 21 bytes, of which the code uses
/// the last twenty.
fn is_same(name: &str, found: &B256, expected: &B256) -> bool {
    match name {
        "_cachedThis" => Address::from_word(*found) == Address::from_word(*expected),
        _ => found == expected,
    }
}

fn type_hash<T: SolStruct>() -> B256 {
    keccak256(T::eip712_encode_type().as_bytes())
}

fn number(value: u64) -> B256 {
    U256::from(value).into()
}

/// A text of up to 31 bytes as OpenZeppelin keeps it in one word (`ShortStrings`): from the left, and its length in the last byte.
fn short_string(text: &str) -> B256 {
    let mut word = B256::right_padding_from(text.as_bytes());
    word[WORD_BYTES - 1] = u8::try_from(text.len()).unwrap_or(u8::MAX);
    word
}
