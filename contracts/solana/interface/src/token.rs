//! Mints and token accounts of SPL Token and Token-2022, as far as the program judges them.

use crate::{GatewayError, Key, ids};

/// Length of a token account without extensions; the vault has it.
pub const ACCOUNT_SIZE: usize = 165;
/// Length of a mint without extensions.
pub const MINT_SIZE: usize = 82;

/// With extensions both kinds are padded to this length; then comes the kind, then the extensions.
const KIND_AT: usize = 165;
const KIND_MINT: u8 = 1;
const KIND_ACCOUNT: u8 = 2;

/// Where a token account's state stands, and what it is of one that can be used.
const STATE_AT: usize = 108;
const USABLE: u8 = 1;
#[cfg(feature = "host")]
const FROZEN: u8 = 2;

/// A mint that the program takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mint {
    /// Decimals of an amount.
    pub decimals: u8,
}

impl Mint {
    /// Reads the mint's account without judging its extensions: for money that came in when they were judged. Whatever
    /// became of the mint since, what lies in a vault goes to whom it is owed.
    ///
    /// # Errors
    /// [`GatewayError::MintInvalid`] when it is no mint of one of the two programs.
    pub fn known(owner: &Key, data: &[u8]) -> Result<Self, GatewayError> {
        if !ids::is_token_program(owner) || data.len() < MINT_SIZE || data[45] != 1 {
            return Err(GatewayError::MintInvalid);
        }
        Ok(Self { decimals: data[44] })
    }

    /// Judges the mint's account: `owner` is the program that owns it, `data` its bytes.
    ///
    /// With Token-2022 only extensions are taken that can neither change amounts on their way, nor take or freeze what
    /// lies in the vault: close authority, the pointers and their data, interest and scale for display. An ordinary
    /// freeze authority is taken, because the common stable coins have one.
    ///
    /// # Errors
    /// Which extension is in the way, or that it is no mint of one of the two programs.
    pub fn parse(owner: &Key, data: &[u8]) -> Result<Self, GatewayError> {
        let mint = Self::known(owner, data)?;
        if data.len() == MINT_SIZE {
            return Ok(mint);
        }
        if *owner != ids::TOKEN_2022_PROGRAM || data.len() <= KIND_AT || data[KIND_AT] != KIND_MINT {
            return Err(GatewayError::MintInvalid);
        }
        let mut rest = &data[KIND_AT + 1..];
        // What is left at the end may be too short for an extension; the token program ignores it, too.
        while rest.len() >= 4 {
            let kind = u16::from_le_bytes([rest[0], rest[1]]);
            if kind == 0 {
                break;
            }
            judge_extension(kind)?;
            let length = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
            rest = rest.get(4 + length..).ok_or(GatewayError::MintInvalid)?;
        }
        Ok(mint)
    }
}

/// Numbers of `ExtensionType` in spl-token-2022.
fn judge_extension(kind: u16) -> Result<(), GatewayError> {
    match kind {
        // Close authority (a mint with tokens in a vault cannot be closed), interest for display, metadata pointer,
        // metadata, group pointer, group, member pointer, member, scale for display.
        3 | 10 | 18..=23 | 25 => Ok(()),
        1 => Err(GatewayError::MintTransferFee),
        4 | 16 | 24 => Err(GatewayError::MintConfidential),
        6 => Err(GatewayError::MintDefaultFrozen),
        9 => Err(GatewayError::MintNonTransferable),
        12 => Err(GatewayError::MintPermanentDelegate),
        14 => Err(GatewayError::MintTransferHook),
        26 => Err(GatewayError::MintPausable),
        _ => Err(GatewayError::MintExtensionUnknown),
    }
}

/// A token account that can be used: set up and not frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAccount {
    /// Its mint.
    pub mint: Key,
    /// Who may transfer from it.
    pub owner: Key,
    /// What is in it.
    pub amount: u64,
    /// Who else may transfer from it, if anyone.
    pub delegate: Option<Key>,
    /// How much the delegate may still transfer; 0 without one.
    pub delegated_amount: u64,
}

impl TokenAccount {
    /// Reads a token account: `owner` is the program that owns the account, `data` its bytes.
    ///
    /// # Errors
    /// [`GatewayError::TokenAccountInvalid`] when it is none, or frozen.
    pub fn parse(owner: &Key, data: &[u8]) -> Result<Self, GatewayError> {
        Self::in_state(owner, data, USABLE)
    }

    /// Reads a token account that may be frozen, and whether it is.
    ///
    /// # Errors
    /// [`GatewayError::TokenAccountInvalid`] when it is none.
    #[cfg(feature = "host")]
    pub fn parse_even_frozen(owner: &Key, data: &[u8]) -> Result<(Self, bool), GatewayError> {
        match Self::parse(owner, data) {
            Ok(account) => Ok((account, false)),
            Err(_) => Ok((Self::in_state(owner, data, FROZEN)?, true)),
        }
    }

    fn in_state(owner: &Key, data: &[u8], state: u8) -> Result<Self, GatewayError> {
        let plain = data.len() == ACCOUNT_SIZE;
        let extended = data.len() > KIND_AT && data[KIND_AT] == KIND_ACCOUNT && *owner == ids::TOKEN_2022_PROGRAM;
        if !ids::is_token_program(owner) || !(plain || extended) || data[STATE_AT] != state {
            return Err(GatewayError::TokenAccountInvalid);
        }
        let delegate = (data[72] == 1).then(|| key(data, 76));
        let delegated_amount = if delegate.is_some() { number(data, 121) } else { 0 };
        Ok(Self { mint: key(data, 0), owner: key(data, 32), amount: number(data, 64), delegate, delegated_amount })
    }

    /// Whether the account of Token-2022 with these bytes demands a memo with every transfer to it (`MemoTransfer`): none can come with what
    /// a program sends by itself.
    #[cfg(feature = "host")]
    pub fn demands_memo(data: &[u8]) -> bool {
        const MEMO_TRANSFER: u16 = 8;
        let mut rest = data.get(KIND_AT + 1..).unwrap_or_default();
        while let Some(([kind @ .., _, _], _)) = rest.split_first_chunk::<4>() {
            let length = usize::from(u16::from_le_bytes([rest[2], rest[3]]));
            match u16::from_le_bytes(*kind) {
                MEMO_TRANSFER => return rest.get(4) == Some(&1),
                0 => return false,
                _ => rest = rest.get(4 + length..).unwrap_or_default(),
            }
        }
        false
    }
}

fn key(data: &[u8], at: usize) -> Key {
    let mut key = [0; 32];
    key.copy_from_slice(&data[at..at + 32]);
    key
}

fn number(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[at..at + 8]);
    u64::from_le_bytes(bytes)
}
