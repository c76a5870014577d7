//! Transactions of parties that are not the gateway, and what the program says to them.

use ed25519_dalek::SigningKey;
use serde_json::Value;

use chains_solana::program::{ConvertError, gateway_error, key, mint_or_sol};
use events::{PaymentId, event::TransactionPrepared};
use gateway_program::{
    GatewayError, Hash, Key, ZERO_KEY,
    account::Escrow,
    host::{self, EscrowAccounts, Instruction, Message},
    ids,
    instruction::Reassign,
    message::{Delivery, Fulfillment, NonDelivery},
};

use super::{SimCluster, begin::SolanaWorld, calls::Call, wire::Signed};
use crate::family::{Delivered, EscrowCall, Refusal, ed25519};

/// Instructions that stand before the others in every transaction: those of the compute budget.
const BUDGET_INSTRUCTIONS: u8 = 2;
/// The system program's instruction that transfers coins.
const TRANSFER: u32 = 2;
/// Bytes of a key's word.
const SIGNATURE_BYTES: usize = 64;
/// Bytes of threshold and number of members in a set's word, of a member, and of a place with its signature.
const HEAD_BYTES: usize = 2;
const MEMBER_BYTES: usize = 32;
const SIGNED_BYTES: usize = 1 + SIGNATURE_BYTES;

/// A releaser's word, read as whoever wants it taken writes it: it need not be one.
enum Word {
    Key([u8; 64]),
    Set { head: Vec<u8>, signed: Vec<(Key, [u8; 64])> },
}

impl Word {
    fn read(text: &str) -> Option<Self> {
        let bytes = hex::decode(text.strip_prefix("0x")?).ok()?;
        if let Ok(signature) = bytes.as_slice().try_into() {
            return Some(Self::Key(signature));
        }
        let count = usize::from(*bytes.get(1)?);
        let head = bytes.get(..HEAD_BYTES + MEMBER_BYTES * count)?;
        let member = |place: u8| {
            let at = HEAD_BYTES + MEMBER_BYTES * usize::from(place);
            head.get(at..at + MEMBER_BYTES)?.try_into().ok()
        };
        let signed = bytes[head.len()..].chunks_exact(SIGNED_BYTES);
        let signed = signed.map(|entry| Some((member(entry[0])?, entry[1..].try_into().ok()?)));
        Some(Self::Set { head: head.to_vec(), signed: signed.collect::<Option<_>>()? })
    }

    /// The proof of the signatures over `digest`, and behind it `call`, which brings the word of `releaser`.
    fn bring(self, releaser: &Key, digest: &Hash, mut call: Instruction) -> [Instruction; 2] {
        match self {
            Self::Key(signature) => [host::ed25519(releaser, &signature, digest), call],
            Self::Set { head, signed } => {
                call.data.extend(head);
                [host::ed25519_of_set(&signed, digest), call]
            }
        }
    }
}

/// A transaction that is not signed yet.
pub(super) struct Order {
    signers: Vec<SigningKey>,
    calls: Vec<Instruction>,
}

fn refused(error: ConvertError) -> String {
    error.to_string()
}

impl SolanaWorld {
    pub(super) fn delivery(&self, sender: &str, delivery: &Delivered) -> Result<Order, String> {
        let (program, signer) = (self.program, ed25519(sender));
        let own = signer.verifying_key().to_bytes();
        let terms = Fulfillment {
            payment_id: delivery.payment.0,
            quote_hash: delivery.quote_hash.0,
            settler: key(&delivery.settler).map_err(refused)?,
            mint: mint_or_sol(&delivery.asset).map_err(refused)?,
            recipient: key(&delivery.recipient).map_err(refused)?,
            amount: u64::try_from(delivery.amount).map_err(|error| error.to_string())?,
            fulfill_by: delivery.fulfill_by,
        };
        let calls = if terms.mint == ZERO_KEY {
            vec![host::fulfill_native(&program, &terms)]
        } else {
            let token = ids::TOKEN_PROGRAM;
            let from = host::associated_token_address(&own, &token, &terms.mint).key;
            let create = host::create_associated_token(own, &terms.recipient, &terms.mint, &token);
            vec![create, host::fulfill_token(&program, &terms, from, token)]
        };
        Ok(Order { signers: vec![signer], calls })
    }

    pub(super) fn allowance(&self, payer: &str, amount: u64) -> Order {
        let signer = ed25519(payer);
        let own = signer.verifying_key().to_bytes();
        let (mint, token) = (self.mint, ids::TOKEN_PROGRAM);
        let account = host::associated_token_address(&own, &token, &mint).key;
        let delegate = host::delegate_address(&self.program, &own).key;
        let approve = host::approve_checked(&token, account, mint, delegate, own, amount, self.decimals);
        Order { signers: vec![signer], calls: vec![approve] }
    }

    pub(super) fn escrow_call(&self, sender: &str, payment_id: &PaymentId, call: &EscrowCall) -> Result<Order, String> {
        let record = self.lock().escrow(payment_id).ok_or_else(|| format!("nothing is in escrow for {payment_id}"))?;
        let signer = ed25519(sender);
        let own = signer.verifying_key().to_bytes();
        let (program, accounts) = (self.program, EscrowAccounts::from(&record));
        let unreadable = || "a word that is none".to_owned();
        let payment_id = record.payment_id;
        let non_delivery = |quote_hash: Hash| NonDelivery { payment_id, quote_hash }.digest(&self.domain());
        match call {
            EscrowCall::Release { attestation } => {
                let Escrow { quote_hash, settler, .. } = record;
                let digest = Delivery { payment_id, quote_hash, settler }.digest(&self.domain());
                let create = host::create_associated_token(own, &settler, &record.mint, &record.token_program);
                let release = host::release(&program, &accounts, BUDGET_INSTRUCTIONS + 1);
                let word = Word::read(attestation).ok_or_else(unreadable)?;
                let [proof, release] = word.bring(&record.releaser, &digest, release);
                Ok(Order { signers: vec![signer], calls: vec![create, proof, release] })
            }
            EscrowCall::Cancel { non_delivery: word } => {
                let cancel = host::cancel(&program, &accounts, BUDGET_INSTRUCTIONS);
                let word = Word::read(word).ok_or_else(unreadable)?;
                let calls = word.bring(&record.releaser, &non_delivery(record.quote_hash), cancel);
                Ok(Order { signers: vec![signer], calls: calls.to_vec() })
            }
            EscrowCall::Refund => Ok(Order { signers: vec![signer], calls: vec![host::refund(&program, &accounts)] }),
            EscrowCall::Remainder => {
                Ok(Order { signers: vec![signer], calls: vec![host::return_remainder(&program, &accounts)] })
            }
            EscrowCall::Reassign { previous, reservation, reserver, non_delivery: word } => {
                let reserver = ed25519(reserver);
                let data = Reassign {
                    previous_quote_hash: previous.0,
                    quote_hash: reservation.quote_hash.0,
                    settler: key(&reservation.settler).map_err(refused)?,
                    source_amount: u64::try_from(reservation.source_amount).map_err(|error| error.to_string())?,
                    fulfill_by: reservation.fulfill_by,
                };
                let own = reserver.verifying_key().to_bytes();
                let reassign = host::reassign(&program, &payment_id, own, &data, BUDGET_INSTRUCTIONS);
                let word = Word::read(word).ok_or_else(unreadable)?;
                let calls = word.bring(&record.releaser, &non_delivery(previous.0), reassign);
                Ok(Order { signers: vec![signer, reserver], calls: calls.to_vec() })
            }
        }
    }

    /// A transfer of coins between parties.
    pub(super) fn transfer(from: &str, to: &str, lamports: u64) -> Order {
        let (signer, to) = (ed25519(from), ed25519(to).verifying_key().to_bytes());
        let accounts = vec![
            host::AccountMeta { key: signer.verifying_key().to_bytes(), signer: true, writable: true },
            host::AccountMeta { key: to, signer: false, writable: true },
        ];
        let data = [TRANSFER.to_le_bytes().as_slice(), lamports.to_le_bytes().as_slice()].concat();
        let transfer = Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data };
        Order { signers: vec![signer], calls: vec![transfer] }
    }

    fn signed(&self, cluster: &SimCluster, order: &Order) -> Result<Vec<u8>, String> {
        cluster.signed(&order.signers.iter().collect::<Vec<_>>(), &order.calls).map_err(|error| error.to_string())
    }

    /// Sends what it says.
    pub(super) fn place(&self, order: &Order) -> Result<(), String> {
        let mut cluster = self.lock();
        let sent = cluster.submit(&order.signers.iter().collect::<Vec<_>>(), &order.calls);
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// What the program answers to it in the newest block.
    pub(super) fn try_out(&self, order: &Order) -> Result<(), Refusal> {
        let mut cluster = self.lock();
        let wire = self.signed(&cluster, order).map_err(Refusal::Other)?;
        let signed = Signed::parse(&wire).map_err(Refusal::Other)?;
        cluster.try_out(&signed).map_err(|error| refusal(&error, &signed))
    }

    /// A copy of a transaction that waits, sent by a stranger; whether it can be copied. What somebody else has to sign cannot.
    pub(super) fn copied(&self, signed: &Signed, stranger: &str) -> Option<Order> {
        let signer = ed25519(stranger);
        let own = signer.verifying_key().to_bytes();
        let message = &signed.transaction.message;
        let signs = |place: usize| place < usize::from(message.header().num_required_signatures);
        let mut calls = Vec::new();
        for call in message.instructions().iter().skip(usize::from(BUDGET_INSTRUCTIONS)) {
            let program_id = signed.keys().get(usize::from(call.program_id_index))?.to_bytes();
            let makes_account = program_id == ids::ASSOCIATED_TOKEN_PROGRAM;
            let mut accounts = Vec::new();
            for place in call.accounts.iter().map(|place| usize::from(*place)) {
                let named = signed.keys().get(place)?.to_bytes();
                let is_payer = place == 0;
                if signs(place) && !is_payer {
                    return None;
                }
                let key = if is_payer && makes_account { own } else { named };
                let writable = signed.writes_to(&named);
                accounts.push(host::AccountMeta { key, signer: is_payer && makes_account, writable });
            }
            calls.push(Instruction { program_id, accounts, data: call.data.clone() });
        }
        (!calls.is_empty()).then_some(Order { signers: vec![signer], calls })
    }

    /// The calls of the program in a transaction that was prepared.
    pub(super) fn calls_of(&self, prepared: &TransactionPrepared) -> Vec<Call> {
        let wire = hex::decode(prepared.raw.trim_start_matches("0x")).ok();
        let signed = wire.and_then(|wire| Signed::parse(&wire).ok());
        signed.map(|signed| self.lock().calls_in(&signed)).unwrap_or_default()
    }
}

/// Why the program refuses, by the error as nodes write it.
fn refusal(error: &Value, signed: &Signed) -> Refusal {
    let index = error.pointer("/InstructionError/0").and_then(Value::as_u64).and_then(|at| usize::try_from(at).ok());
    let failed = index.and_then(|index| signed.transaction.message.instructions().get(index));
    let program = failed.and_then(|call| signed.keys().get(usize::from(call.program_id_index)));
    if program.is_some_and(|program| program.to_bytes() == ids::ED25519_PROGRAM) {
        return Refusal::Releaser;
    }
    match gateway_error(error) {
        Some(
            GatewayError::SignatureFormInvalid
            | GatewayError::SignerMismatch
            | GatewayError::SignedMessageMismatch
            | GatewayError::VerifierSetInvalid,
        ) => Refusal::Releaser,
        Some(GatewayError::ReserverNotAdmitted) => Refusal::Reserver,
        Some(GatewayError::ReservationNotOver) => Refusal::ReservationNotOver,
        _ => Refusal::Other(error.to_string()),
    }
}
