//! Conversions between the engine's types and the program's: accounts, assets, amounts, statements, and the texts of errors.

use serde_json::Value;
use spl_token_interface::error::TokenError;

use chains::perform::PerformError;
use events::{Account, Amount, AssetId, Family, Hash32};
use gateway_program::{
    GatewayError, Hash, Key, ZERO_KEY,
    host::{self, Message},
    ids,
    message::{Delivery, Domain, Fulfillment, NonDelivery},
};
use sagas::ports::{DeliveryOrder, PrepareError, Statement, Transient};

/// SLIP-44 coin type of SOL.
const SOL: &str = "501";

/// What cannot be said on Solana.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Not a Solana account.
    #[error("{0:?} is not a Solana account")]
    Account(String),
    /// Not a token that can be escrowed or delivered.
    #[error("{0} is neither an SPL token nor SOL")]
    Asset(AssetId),
    /// An amount of more than 64 bits.
    #[error("{0} does not fit 64 bits")]
    Amount(Amount),
}

impl From<ConvertError> for Transient {
    fn from(error: ConvertError) -> Self {
        Self::misconfigured(format!("unusable order: {error}"))
    }
}

impl From<ConvertError> for PrepareError {
    fn from(error: ConvertError) -> Self {
        Self::Transient(error.into())
    }
}

impl From<ConvertError> for PerformError {
    fn from(error: ConvertError) -> Self {
        Self::Transient(error.into())
    }
}

/// Whether everybody can bring the word of a set in one transaction, with so many signatures of so many members; a set that is too
/// large for it must not be a releaser.
pub fn fits(threshold: usize, members: usize) -> bool {
    let counts = (u8::try_from(threshold), u8::try_from(members));
    matches!(counts, (Ok(threshold), Ok(members)) if host::fits(threshold, members))
}

/// The 32 bytes of a Solana account.
///
/// # Errors
/// [`ConvertError::Account`] for an account of another family.
pub fn key(account: &Account) -> Result<Key, ConvertError> {
    let key = match account.family() {
        Family::Solana => account.to_bytes().try_into().ok(),
        Family::Evm | Family::Tron => None,
    };
    key.ok_or_else(|| ConvertError::Account(account.to_string()))
}

/// The 32 bytes of the account written as `text`.
///
/// # Errors
/// [`ConvertError::Account`], also for the zero account.
pub fn parse_key(text: &str) -> Result<Key, ConvertError> {
    let account = Account::parse(Family::Solana, text).map_err(|_| ConvertError::Account(text.to_owned()))?;
    key(&account)
}

/// The Solana account of `key`; `None` for the zero key.
pub fn account(key: &Key) -> Option<Account> {
    Account::from_bytes(Family::Solana, key)
}

/// The account of a key pair by its public half, which must be a key that somebody can hold.
#[expect(clippy::expect_used, reason = "zero is a weak key: no secret has it, and it is refused where keys are read")]
pub(super) fn holder(key: &Key) -> Account {
    account(key).expect("no key that somebody can hold is zero")
}

/// The bytes of which `text` is the Base58 form, where it has so many. Decoding takes time with the square of the length, and
/// anybody may have written the text: one of more digits than so many bytes take is not decoded.
pub(super) fn base58<const N: usize>(text: &str) -> Option<[u8; N]> {
    // A byte is log 256 / log 58 digits, a little less than 11/8.
    let text = Some(text).filter(|text| text.len() <= N * 11 / 8)?;
    bs58::decode(text).into_vec().ok()?.try_into().ok()
}

/// An account as Base58.
pub fn text(key: &Key) -> String {
    bs58::encode(key).into_string()
}

/// The mint of an SPL token.
///
/// # Errors
/// [`ConvertError::Asset`] for anything else; native SOL is never escrowed.
pub fn mint(asset: &AssetId) -> Result<Key, ConvertError> {
    match asset.namespace() {
        "token" => parse_key(asset.reference()).map_err(|_| ConvertError::Asset(asset.clone())),
        _ => Err(ConvertError::Asset(asset.clone())),
    }
}

/// The mint of an SPL token, or the zero key for native SOL.
///
/// # Errors
/// [`ConvertError::Asset`] for anything else.
pub fn mint_or_sol(asset: &AssetId) -> Result<Key, ConvertError> {
    if asset.namespace() == "slip44" && asset.reference() == SOL {
        return Ok(ZERO_KEY);
    }
    mint(asset)
}

/// The least that an account without data must hold on Solana, in lamports: what a delivery of SOL makes an account with.
pub const NEW_ACCOUNT_LAMPORTS: u64 = 890_880;

/// Whether so little is not a delivery that every recipient can be given: whether its account is there already a request does
/// not say, and it may be gone by then.
pub fn is_too_small(asset: &AssetId, amount: Amount) -> bool {
    mint_or_sol(asset) == Ok(ZERO_KEY) && units(amount).is_ok_and(|lamports| lamports < NEW_ACCOUNT_LAMPORTS)
}

/// An amount in the smallest unit.
///
/// # Errors
/// [`ConvertError::Amount`].
pub fn units(amount: Amount) -> Result<u64, ConvertError> {
    u64::try_from(amount.get()).map_err(|_| ConvertError::Amount(amount))
}

/// An amount of the program; `None` for zero.
pub fn amount(units: u64) -> Option<Amount> {
    units.to_string().parse().ok()
}

/// The 64 bytes of an Ed25519 signature, hex with 0x.
pub fn signature_bytes(text: &str) -> Option<[u8; 64]> {
    hex::decode(text.strip_prefix("0x")?).ok()?.try_into().ok()
}

/// The terms of a delivery, whose hash is its key at the program.
///
/// # Errors
/// [`ConvertError`] when the order holds no accounts, asset or amount that fit Solana.
pub fn fulfillment(order: &DeliveryOrder) -> Result<Fulfillment, ConvertError> {
    Ok(Fulfillment {
        payment_id: order.payment_id.on_chain().0,
        quote_hash: order.quote_hash.0,
        settler: key(&order.delivery_account)?,
        mint: mint_or_sol(order.destination.asset())?,
        recipient: key(order.destination.account())?,
        amount: units(order.amount)?,
        fulfill_by: order.fulfill_by,
    })
}

/// The digest of a releaser's statement in the domain of one escrow program.
///
/// # Errors
/// [`ConvertError`] when the payout account is not a Solana account.
pub fn statement_digest(statement: &Statement, domain: &Domain) -> Result<Hash32, ConvertError> {
    let digest: Hash = match statement {
        Statement::Delivery { payment_id, quote_hash, payout_account } => {
            Delivery { payment_id: payment_id.on_chain().0, quote_hash: quote_hash.0, settler: key(payout_account)? }
                .digest(domain)
        }
        Statement::NonDelivery { payment_id, quote_hash } => {
            NonDelivery { payment_id: payment_id.on_chain().0, quote_hash: quote_hash.0 }.digest(domain)
        }
    };
    Ok(Hash32(digest))
}

/// What a transaction's error means. `error` is as nodes write it, `programs` the programs of the transaction's
/// instructions in order.
pub fn reason(error: &Value, programs: &[Key]) -> String {
    let Some((index, inner)) = instruction_error(error) else { return plain(error) };
    let place = |what: String| format!("instruction {index}: {what}");
    let called = usize::try_from(index).ok().and_then(|index| programs.get(index));
    if called == Some(&ids::ED25519_PROGRAM) {
        return place("the Ed25519 signature does not hold".to_owned());
    }
    let Some(code) = inner.get("Custom").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok()) else {
        return place(plain(inner));
    };
    if let Some(error) = GatewayError::from_code(code) {
        return error.to_string();
    }
    if called.is_some_and(|called| [ids::SYSTEM_PROGRAM, ids::UPGRADEABLE_LOADER].contains(called)) {
        return place(format!("error {code}"));
    }
    // What a token program says of a call that ours made comes through with its own number.
    match TokenError::try_from(code) {
        Ok(error) => place(format!("token program: {error}")),
        Err(_) => place(format!("error {code}")),
    }
}

/// The program's own error in a transaction's error, if it is one.
pub fn gateway_error(error: &Value) -> Option<GatewayError> {
    let (_, inner) = instruction_error(error)?;
    let code = inner.get("Custom").and_then(Value::as_u64)?;
    GatewayError::from_code(u32::try_from(code).ok()?)
}

/// `{"InstructionError": [index, error]}`.
fn instruction_error(error: &Value) -> Option<(u64, &Value)> {
    let pair = error.get("InstructionError")?.as_array()?;
    Some((pair.first()?.as_u64()?, pair.get(1)?))
}

fn plain(error: &Value) -> String {
    error.as_str().map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_have_texts() {
        let programs = [[1; 32], ids::ED25519_PROGRAM, [2; 32], ids::SYSTEM_PROGRAM];
        let text_of = |error: Value| reason(&error, &programs);
        assert_eq!(text_of(json!("BlockhashNotFound")), "BlockhashNotFound");
        let custom = |index: u64, code: u32| json!({"InstructionError": [index, {"Custom": code}]});
        assert_eq!(
            text_of(custom(2, GatewayError::ReserveWindowClosed.code())),
            "ReserveWindowClosed: It is later than `reserve_deadline`."
        );
        assert_eq!(text_of(custom(1, 0)), "instruction 1: the Ed25519 signature does not hold");
        assert_eq!(text_of(custom(2, 1)), "instruction 2: token program: Insufficient funds");
        assert_eq!(text_of(custom(2, 4_000)), "instruction 2: error 4000");
        assert_eq!(text_of(custom(3, 1)), "instruction 3: error 1");
        assert_eq!(text_of(json!({"InstructionError": [0, "MissingAccount"]})), "instruction 0: MissingAccount");
        assert_eq!(gateway_error(&custom(0, 6_000)), Some(GatewayError::InstructionInvalid));
        assert_eq!(gateway_error(&json!("AccountInUse")), None);
    }

    #[test]
    fn assets_are_tokens_or_sol() {
        let chain = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
        let asset = |text: &str| format!("{chain}/{text}").parse::<AssetId>().unwrap();
        let usdc = asset("token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v");
        assert_eq!(mint(&usdc).map(|mint| text(&mint)).unwrap(), usdc.reference());
        assert_eq!(mint_or_sol(&asset("slip44:501")), Ok(ZERO_KEY));
        assert!(mint(&asset("slip44:501")).is_err());
        assert!(mint_or_sol(&asset("slip44:60")).is_err());
        assert!(mint(&asset("token:11111111111111111111111111111111")).is_err());
    }
}
