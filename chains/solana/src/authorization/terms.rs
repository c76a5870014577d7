//! The terms of a deposit as they must have been signed.

use ed25519_dalek::VerifyingKey;
use gateway_program::{
    Key, host,
    message::{self, Deposit, Domain},
};

use chains::windows::{Broken, Window, Windows};
use events::{Account, Amount, Family, Hash32, OwnedAsset, event::EscrowPlan, time::unix_seconds};

use super::{AuthorizationError, Choice, SpendRequest, base58, wallet_key};
use crate::program::{holder, key};

/// The values of the preimage in their order, for an error to name the one that differs.
const FIELDS: [(&str, Form); 16] = [
    ("prefix", Form::Text(message::ESCROW_DOMAIN.len())),
    ("domain_version", Form::Byte),
    ("cluster_id", Form::Key),
    ("program_id", Form::Key),
    ("kind", Form::Byte),
    ("payment_id", Form::Hash),
    ("terms_hash", Form::Hash),
    ("quote_hash", Form::Hash),
    ("payer", Form::Key),
    ("mint", Form::Key),
    ("amount", Form::Number),
    ("reserver", Form::Key),
    ("releaser", Form::Key),
    ("reserve_deadline", Form::Number),
    ("fulfillment_deadline", Form::Number),
    ("refund_after", Form::Number),
];

/// How a value stands in the preimage.
#[derive(Clone, Copy)]
enum Form {
    /// So many characters.
    Text(usize),
    Byte,
    /// 32 bytes, shown in hex.
    Hash,
    /// 32 bytes, shown in Base58.
    Key,
    /// 64 bits, little endian.
    Number,
}

/// What must have been signed, every field checked.
pub(super) struct Rebuilt {
    domain: Domain,
    deposit: Deposit,
    amount: Amount,
    signer: VerifyingKey,
    allowance_delegate: Key,
}

impl Rebuilt {
    /// The terms of `spend` with the payer's choices.
    pub fn of(spend: &SpendRequest, choice: &Choice) -> Result<Self, AuthorizationError> {
        let source = &spend.terms.source;
        let mint = mint(source)?;
        let (amount, units) = amount(spend, choice)?;
        let bytes = |field: &'static str, account: &Account| {
            key(account).map_err(|_| AuthorizationError::malformed(field, "must be the Base58 form of 32 bytes"))
        };
        let program_id = bytes("escrow_contract_address", &spend.escrow.program)?;
        let payer = bytes("source.account", source.account())?;
        let signer = signer(source, choice)?;
        let allowance_delegate = host::delegate_address(&program_id, signer.as_bytes()).key;
        if let Some(stated) = choice.allowance_delegate.filter(|stated| *stated != allowance_delegate) {
            let (expected, found) = (Form::Key.show(&allowance_delegate), Form::Key.show(&stated));
            return Err(AuthorizationError::mismatch("payload.allowance_delegate", expected, found));
        }
        let fulfillment_deadline = unix_seconds(spend.fulfillment_deadline);
        let refund_delayed = fulfillment_deadline.saturating_add(spend.escrow.refund_delay_seconds);
        let deposit = Deposit {
            payment_id: spend.payment_id.on_chain().0,
            terms_hash: spend.terms.hash().0,
            quote_hash: spend.quote_hash.0,
            payer,
            mint,
            amount: units,
            reserver: bytes("reserver", &spend.escrow.reserver)?,
            releaser: bytes("fulfillment_verifier.account", &spend.escrow.releaser)?,
            reserve_deadline: choice.reserve_deadline.unwrap_or(fulfillment_deadline),
            fulfillment_deadline,
            refund_after: choice.refund_after.unwrap_or(refund_delayed),
        };
        check_windows(spend, &deposit)?;
        let domain = Domain { cluster_id: spend.cluster_id.0, program_id };
        Ok(Self { domain, deposit, amount, signer, allowance_delegate })
    }

    /// The ordered bytes.
    pub fn preimage(&self) -> Vec<u8> {
        self.domain.preimage(&self.deposit.to_bytes()).concat()
    }

    /// What the Ed25519 signature is over.
    pub fn digest(&self) -> Hash32 {
        Hash32::sha256(self.preimage())
    }

    /// The key that has to sign.
    pub fn signer(&self) -> &VerifyingKey {
        &self.signer
    }

    /// Its account.
    pub fn signer_account(&self) -> Account {
        holder(self.signer.as_bytes())
    }

    /// The program's address to which the payer gives its allowance when this key signs.
    pub fn allowance_delegate(&self) -> &Key {
        &self.allowance_delegate
    }

    /// The cap.
    pub fn amount(&self) -> Amount {
        self.amount
    }

    /// The escrow and its windows.
    pub fn plan(&self, spend: &SpendRequest) -> EscrowPlan {
        EscrowPlan {
            chain_id: spend.terms.source.asset().chain().clone(),
            contract: spend.escrow.program.clone(),
            reserver: spend.escrow.reserver.clone(),
            releaser: spend.escrow.releaser.clone(),
            reserve_deadline: self.deposit.reserve_deadline,
            fulfillment_deadline: self.deposit.fulfillment_deadline,
            refund_after: self.deposit.refund_after,
        }
    }

    /// Compares a preimage with the rebuilt one, to the byte.
    pub fn check_preimage(&self, text: &str) -> Result<(), AuthorizationError> {
        let rebuilt = self.preimage();
        let stated = text.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let stated = stated.filter(|stated| stated.len() == rebuilt.len()).ok_or_else(|| {
            let reason = format!("must be 0x followed by the {} ordered bytes in hex", rebuilt.len());
            AuthorizationError::malformed("message_prehash", reason)
        })?;
        let mut at = 0;
        for (name, form) in FIELDS {
            let value = at..at + form.size();
            let (expected, found) = (&rebuilt[value.clone()], &stated[value.clone()]);
            if expected != found {
                let field = format!("message_prehash.{name}");
                return Err(AuthorizationError::mismatch(field, form.show(expected), form.show(found)));
            }
            at = value.end;
        }
        Ok(())
    }
}

impl Form {
    const fn size(self) -> usize {
        match self {
            Self::Text(size) => size,
            Self::Byte => 1,
            Self::Hash | Self::Key => 32,
            Self::Number => 8,
        }
    }

    fn show(self, bytes: &[u8]) -> String {
        match self {
            Self::Text(_) => format!("`{}`", bytes.escape_ascii()),
            Self::Hash => format!("0x{}", hex::encode(bytes)),
            Self::Key => bs58::encode(bytes).into_string(),
            Self::Byte | Self::Number => {
                bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)).to_string()
            }
        }
    }
}

/// The names above are those of all the bytes: a field more in the program's message would else go uncompared.
const _: () = {
    let (mut named, mut i) = (0, 0);
    while i < FIELDS.len() {
        named += FIELDS[i].1.size();
        i += 1;
    }
    assert!(named == message::ESCROW_DOMAIN.len() + 1 + 32 + 32 + Deposit::SIZE);
};

fn mint(source: &OwnedAsset) -> Result<[u8; 32], AuthorizationError> {
    let asset = source.asset();
    let is_token = source.family() == Family::Solana && asset.namespace() == "token";
    base58(asset.reference())
        .filter(|_| is_token)
        .ok_or_else(|| AuthorizationError::malformed("source.asset_identifier", "must be a token of a Solana chain"))
}

/// The cap: that of the terms, else the payer's.
fn amount(spend: &SpendRequest, choice: &Choice) -> Result<(Amount, u64), AuthorizationError> {
    let (field, amount) = match (spend.terms.max_source_amount, choice.permitted_amount) {
        (Some(cap), _) => ("max_source_amount", cap),
        (None, Some(chosen)) => ("payload.permitted_amount", chosen),
        (None, None) => {
            let reason = "is needed where max_source_amount does not say what is permitted";
            return Err(AuthorizationError::malformed("payload.permitted_amount", reason));
        }
    };
    let units = u64::try_from(amount.get()).map_err(|_| AuthorizationError::malformed(field, "must fit 64 bits"))?;
    Ok((amount, units))
}

/// The key that has to sign: the payer's own, unless it named another.
fn signer(source: &OwnedAsset, choice: &Choice) -> Result<VerifyingKey, AuthorizationError> {
    let signer = choice.delegate_signer.or_else(|| wallet_key(source.account()));
    signer.ok_or_else(|| {
        let reason = "is not an Ed25519 public key, so payload.delegate_signer must name one that it approved";
        AuthorizationError::malformed("source.account", reason)
    })
}

fn check_windows(spend: &SpendRequest, deposit: &Deposit) -> Result<(), AuthorizationError> {
    let windows = Windows {
        quote_deadline: unix_seconds(spend.quote_deadline),
        reserve_deadline: deposit.reserve_deadline,
        fulfillment_deadline: deposit.fulfillment_deadline,
        refund_after: deposit.refund_after,
        refund_delay_seconds: spend.escrow.refund_delay_seconds,
    };
    let field = |window| match window {
        Window::Reserve => "payload.reserve_deadline",
        Window::Refund => "payload.refund_after",
    };
    windows.check().map_err(|broken| match broken {
        Broken::Mismatch { window, expected, found } => AuthorizationError::mismatch(field(window), expected, found),
        Broken::TooFar(window, reason) => AuthorizationError::malformed(field(window), reason),
    })
}
