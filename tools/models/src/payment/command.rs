//! The commands of the model, each of which stands for one of [`sagas::payment::Command`]. Times that nothing reads are those of tick 0.

use events::{
    Amount, ChainId,
    event::{
        EscrowOpened, EscrowRefunded, EscrowSecured, Inclusion, MemberAttested, PayerStep, TransactionPrepared,
        Validity,
    },
    failure::BlockchainContext,
    time::from_unix_seconds,
};
use sagas::{
    auction::judge_for,
    payment::{self, Payment},
    ports::{Answer, Bid, DepositState, EscrowState, Gathered},
};

use super::documents::{DEPOSIT_HASH, Documents, PRICES, SETTLERS, second};

/// A transaction of the gateway's that is journaled before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The deposit.
    Deposit,
    /// The reassignment.
    Reassignment,
    /// The release.
    Release,
    /// The refund, or the cancellation.
    Refund,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deposit, Self::Reassignment, Self::Release, Self::Refund];
}

/// What a transaction calls: the quote it is about, and up to which tick it is taken where that is not in the terms. A refund that
/// brings the non-delivery is a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    /// What it does.
    pub kind: Kind,
    /// The quote.
    pub quote: u8,
    /// What it deposits.
    pub amount: u16,
    /// Last tick of its admission.
    pub until: u8,
    /// Whether it brings the non-delivery.
    pub is_cancellation: bool,
}

/// A look at the deposit under way, but that it is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DepositLook {
    /// It is in escrow.
    Secured(u16),
    /// It reverted.
    Reverted,
    /// Its nonce is gone, or it came too late.
    Superseded,
    /// Its window is over.
    Expired,
    /// Its window is over, and the payer's money is in escrow for nobody.
    Stranded(u16),
}

/// A command; see the command of the same name in `sagas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is what the command of its name in sagas says")]
pub enum Command {
    CloseAuction { bidders: u8, at: u8 },
    LoseWinner { refused: bool, at: u8 },
    TellWinner,
    Prepare { attempt: u32, call: Call },
    RecordPayerTransaction,
    RefuseDeposit,
    StrandDeposit(u16),
    MissDepositWindow,
    AdoptDeposit(u16),
    ObserveDeposit(DepositLook),
    ObserveMinedDeposit(u8),
    ObserveDelivery(u8),
    FinalizeDelivery { block: u8, given: u8, at: u8 },
    AwaitAttestation,
    ConfirmDelivery { block: u8, given: u8 },
    FailUndelivered { given: u8, word: bool },
    LapseReservation { given: u8, at: u8 },
    RecordAttestations { given: u8 },
    RecordNonDeliveries { given: u8 },
    ObserveReassignment,
    GiveUpReassignment,
    ForgoReassignment,
    Abandon(Kind),
    MissAttestation,
    ObserveReleased,
    ObserveRefunded(u16),
}

/// What a single verifier signs, or a set gives: the model never reads it.
const WORD: &str = "0x5e";

impl Command {
    /// The engine's command.
    pub fn of(self, payment: &Payment, documents: &Documents) -> payment::Command {
        use payment::Command as To;
        let start = documents.time(0);
        let time = |tick| documents.time(tick);
        let evidence = String::new;
        let given = |bits: u8| {
            let member = |place: usize| MemberAttested {
                member: documents.member(place).account,
                signature: WORD.to_owned(),
                attested_at: start,
            };
            (0..3).filter(|place| bits & 1 << place != 0).map(member).collect::<Vec<_>>()
        };
        match self {
            Self::CloseAuction { bidders, at } => {
                let request = payment.request_for_quotes();
                let round = payment.lapsed_reservations.len();
                let bid = |settler: usize| {
                    let quote = documents.quotes.get(round * SETTLERS + settler)?;
                    let answer = Answer::Quote(quote.document().to_owned());
                    let settler = documents.settlers[settler].token();
                    Some(Bid { settler, received_at: request.quote_deadline, answer })
                };
                let bids = (0..SETTLERS).filter(|settler| bidders & 1 << settler != 0).filter_map(bid).collect();
                let addressed = documents.settlers.to_vec();
                let gathered = Gathered { addressed, bids, held: Vec::new(), passed_over: Vec::new() };
                let judgement = Box::new(judge_for(&payment.submitted, &request, gathered, time(at)));
                To::CloseAuction { judgement, at: start }
            }
            Self::LoseWinner { refused, at } => {
                To::LoseWinner { refusal: refused.then(|| "PRICE_MOVED".to_owned()), at: time(at) }
            }
            Self::TellWinner => To::TellWinner { at: start },
            Self::Prepare { attempt, call } => prepare(attempt, call, documents),
            Self::RecordPayerTransaction => {
                let (step, transaction_hash) = (PayerStep::Deposit, DEPOSIT_HASH.to_owned());
                To::RecordPayerTransaction { step, transaction_hash, at: start }
            }
            Self::StrandDeposit(amount) => To::StrandDeposit { opened: opened(amount, documents), at: start },
            Self::RefuseDeposit => To::RefuseDeposit { context: Box::new(context()), at: start },
            Self::MissDepositWindow => To::MissDepositWindow { at: start },
            Self::AdoptDeposit(amount) => To::AdoptDeposit(secured(amount, documents)),
            Self::ObserveDeposit(look) => {
                let state = match look {
                    DepositLook::Secured(amount) => DepositState::Secured(secured(amount, documents)),
                    DepositLook::Reverted => DepositState::Reverted(Box::new(context())),
                    DepositLook::Superseded => DepositState::Superseded { evidence: evidence() },
                    DepositLook::Expired => DepositState::Expired { evidence: evidence() },
                    DepositLook::Stranded(amount) => DepositState::Stranded(opened(amount, documents)),
                };
                To::ObserveDeposit { state, at: start }
            }
            Self::ObserveMinedDeposit(block) => {
                let transaction_hash = payment.deposit.newest().map(|newest| newest.transaction_hash.clone());
                let transaction_hash = transaction_hash.unwrap_or_default();
                To::ObserveMinedDeposit(Inclusion { transaction_hash, ..inclusion(1, block) })
            }
            Self::ObserveDelivery(block) => To::ObserveDelivery(inclusion(10, block)),
            Self::FinalizeDelivery { block, given: by, at } => {
                To::FinalizeDelivery { inclusion: inclusion(10, block), given: given(by), at: time(at) }
            }
            Self::AwaitAttestation => To::AwaitAttestation { at: start },
            Self::ConfirmDelivery { block, given: by } => To::ConfirmDelivery {
                inclusion: inclusion(10, block),
                given: given(by),
                attestation: WORD.to_owned(),
                at: start,
                release_from: start,
            },
            Self::FailUndelivered { given: by, word } => {
                To::FailUndelivered { given: given(by), attestation: word.then(|| WORD.to_owned()), at: start }
            }
            Self::LapseReservation { given: by, at } => To::LapseReservation {
                given: given(by),
                attestation: WORD.to_owned(),
                // Two seconds, as the rule has it by default.
                quote_deadline: from_unix_seconds(second(at) + 2).unwrap_or(start),
                at: time(at),
            },
            Self::RecordAttestations { given: by } => To::RecordAttestations { given: given(by) },
            Self::RecordNonDeliveries { given: by } => To::RecordNonDeliveries { given: given(by) },
            Self::ObserveReassignment => To::ObserveReassignment(inclusion(1, 1)),
            Self::GiveUpReassignment => To::GiveUpReassignment { at: start },
            Self::ForgoReassignment => To::ForgoReassignment { at: start },
            Self::Abandon(Kind::Release) => To::AbandonRelease { evidence: evidence(), at: start },
            Self::Abandon(Kind::Refund) => To::AbandonRefund { evidence: evidence(), at: start },
            Self::Abandon(Kind::Reassignment) => To::AbandonReassignment { evidence: evidence(), at: start },
            Self::Abandon(Kind::Deposit) => {
                To::ObserveDeposit { state: DepositState::Superseded { evidence: evidence() }, at: start }
            }
            Self::MissAttestation => To::MissAttestation { at: start },
            Self::ObserveReleased => {
                To::ObserveEscrow { state: EscrowState::Released(inclusion(1, 2)), claims: Vec::new() }
            }
            Self::ObserveRefunded(amount) => {
                let (inclusion, amount, claims) = (inclusion(1, 2), units(amount, documents), Vec::new());
                let state = EscrowState::Refunded(EscrowRefunded { inclusion, amount, claims });
                To::ObserveEscrow { state, claims: Vec::new() }
            }
        }
    }
}

fn prepare(attempt: u32, call: Call, documents: &Documents) -> payment::Command {
    let transaction = TransactionPrepared {
        attempt,
        chain_id: ChainId::evm(1),
        sender: documents.submitted.escrow.reserver.clone(),
        validity: Validity::Nonce(u64::from(attempt)),
        transaction_hash: format!("0x{attempt:064x}"),
        raw: call.to_text(),
        prepared_at: documents.time(0),
    };
    match call.kind {
        Kind::Deposit => payment::Command::PrepareDeposit(transaction),
        Kind::Reassignment => payment::Command::PrepareReassignment(transaction),
        Kind::Release => payment::Command::PrepareRelease(transaction),
        Kind::Refund => payment::Command::PrepareRefund(transaction),
    }
}

impl Call {
    /// The call as the bytes of a transaction hold it.
    fn to_text(self) -> String {
        format!("0x{:02x}{:04x}{:02x}{:02x}", self.quote, self.amount, self.until, u8::from(self.is_cancellation))
    }
}

/// What is deposited is always what one of the quotes asks for, or the cap.
fn units(amount: u16, documents: &Documents) -> Amount {
    match PRICES.iter().position(|price| *price == amount) {
        Some(quote) => documents.quotes[quote].quote().source_amount,
        None => documents.submitted.authorization.permitted(),
    }
}

fn secured(amount: u16, documents: &Documents) -> EscrowSecured {
    EscrowSecured { inclusion: inclusion(1, 1), amount: units(amount, documents), deposit: None }
}

fn opened(amount: u16, documents: &Documents) -> EscrowOpened {
    EscrowOpened { inclusion: inclusion(1, 1), amount: units(amount, documents), reserved_for: None }
}

/// A block of a chain, by its number.
fn inclusion(chain: u64, block: u8) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: format!("0x{:064x}", 0xde11),
        block_number: u64::from(block),
        block_hash: format!("0x{block:064x}"),
        block_time: second(0),
    }
}

fn context() -> BlockchainContext {
    BlockchainContext {
        chain_id: ChainId::evm(1),
        transaction_hash: None,
        block_number: None,
        contract_address: None,
        revert_reason: None,
        gas_used: None,
        estimated_gas_needed: None,
    }
}
