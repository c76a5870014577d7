//! The runtime, its clock, its accounts.

use gateway_program::{
    GatewayError, Hash, Key,
    account::{Config, Escrow, FulfillmentRecord},
    host,
    instruction::Initialize,
    message::Domain,
    token::TokenAccount,
};
use litesvm::{
    LiteSVM,
    types::{FailedTransactionMetadata, TransactionMetadata},
};
use solana_account::Account;
use solana_address::Address;
use solana_clock::Clock;
use solana_instruction::{AccountMeta, Instruction, error::InstructionError};
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_signer::Signer;
use solana_transaction::{TransactionError, versioned::VersionedTransaction};

/// What became of a transaction.
pub type Outcome = Result<TransactionMetadata, Box<FailedTransactionMetadata>>;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../artifacts/solana/gateway_escrow.so");
const SOL: u64 = 1_000_000_000;

/// A cluster with the program set up, and the people of a payment, each with native SOL.
pub struct World {
    /// The runtime.
    pub svm: LiteSVM,
    /// The program's address.
    pub program: Key,
    /// The cluster that the program was set up for.
    pub cluster_id: Hash,
    /// May upgrade the program, and set it up.
    pub authority: Keypair,
    /// Pays fees and rent.
    pub submitter: Keypair,
    /// Admits deposits.
    pub reserver: Keypair,
    /// Attests deliveries.
    pub releaser: Keypair,
    /// Whose money it is.
    pub payer: Keypair,
    /// Delivers.
    pub settler: Keypair,
    /// Has no part in the payment.
    pub third_party: Keypair,
    /// The cluster's time in UNIX seconds.
    pub now: u64,
}

impl World {
    /// A program that nobody has set up.
    pub fn bare() -> Self {
        let mut world = Self {
            svm: LiteSVM::new(),
            program: keypair(1).pubkey().to_bytes(),
            cluster_id: [0xc1; 32],
            authority: keypair(2),
            submitter: keypair(3),
            reserver: keypair(4),
            releaser: keypair(5),
            payer: keypair(6),
            settler: keypair(7),
            third_party: keypair(8),
            now: 1_800_000_000,
        };
        world.svm.add_program_from_file(world.program, PROGRAM).unwrap();
        let authority = world.authority.pubkey().to_bytes();
        world.set_upgrade_authority(Some(authority));
        for key in [2, 3, 4, 6, 7, 8].map(|seed| keypair(seed).pubkey()) {
            world.svm.airdrop(&key, 100 * SOL).unwrap();
        }
        world.set_time(world.now);
        world
    }

    /// A program that is ready.
    pub fn new() -> Self {
        let mut world = Self::bare();
        let instruction = world.initialization();
        let (submitter, authority) = (world.submitter.insecure_clone(), world.authority.insecure_clone());
        world.send(&[instruction], &[&submitter, &authority]).unwrap();
        world
    }

    /// The instruction that sets the program up.
    pub fn initialization(&self) -> host::Instruction {
        let data = Initialize { cluster_id: self.cluster_id, reserver: key(&self.reserver) };
        host::initialize(&self.program, key(&self.submitter), key(&self.authority), &data)
    }

    /// Who may upgrade the program, as the loader keeps it.
    pub fn set_upgrade_authority(&mut self, authority: Option<Key>) {
        let address = host::program_data_address(&self.program).key;
        let mut account = self.account(&address).unwrap();
        account.data[12] = u8::from(authority.is_some());
        account.data[13..45].copy_from_slice(&authority.unwrap_or_default());
        self.svm.set_account(address.into(), account).unwrap();
    }

    /// Where signatures count.
    pub fn domain(&self) -> Domain {
        Domain { cluster_id: self.cluster_id, program_id: self.program }
    }

    /// Sets the cluster's clock.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
        let mut clock: Clock = self.svm.get_sysvar();
        clock.unix_timestamp = i64::try_from(now).unwrap();
        self.svm.set_sysvar(&clock);
    }

    /// Sends the instructions in one transaction; the first signer pays the fee.
    pub fn send(&mut self, instructions: &[host::Instruction], signers: &[&Keypair]) -> Outcome {
        let transaction = self.transaction(instructions, signers);
        self.svm.send_transaction(transaction).map_err(Box::new)
    }

    /// As [`World::send`], and only the transaction.
    pub fn transaction(&mut self, instructions: &[host::Instruction], signers: &[&Keypair]) -> VersionedTransaction {
        // The same instructions again are another transaction.
        self.svm.expire_blockhash();
        let instructions: Vec<Instruction> = instructions.iter().map(native).collect();
        let message =
            Message::new_with_blockhash(&instructions, Some(&signers[0].pubkey()), &self.svm.latest_blockhash());
        VersionedTransaction::try_new(VersionedMessage::Legacy(message), signers).unwrap()
    }

    /// An account, if there is one.
    pub fn account(&self, address: &Key) -> Option<Account> {
        self.svm.get_account(&Address::from(*address)).filter(|account| account.lamports > 0)
    }

    /// Puts an account there, whatever the runtime would say.
    pub fn put(&mut self, address: Key, account: Account) {
        self.svm.set_account(address.into(), account).unwrap();
    }

    /// Lamports at an address.
    pub fn lamports(&self, address: &Key) -> u64 {
        self.account(address).map_or(0, |account| account.lamports)
    }

    /// What is in a token account; 0 when there is none.
    pub fn tokens(&self, address: &Key) -> u64 {
        let Some(account) = self.account(address) else { return 0 };
        TokenAccount::parse(&account.owner.to_bytes(), &account.data).map_or(0, |account| account.amount)
    }

    /// The program's configuration.
    pub fn config(&self) -> Config {
        let account = self.account(&host::config_address(&self.program).key).unwrap();
        Config::from_bytes(&account.data).unwrap()
    }

    /// A payment's escrow, if there is one.
    pub fn escrow(&self, payment_id: &Hash) -> Option<Escrow> {
        let account = self.account(&host::escrow_address(&self.program, payment_id).key)?;
        (account.owner.to_bytes() == self.program).then(|| Escrow::from_bytes(&account.data).unwrap())
    }

    /// A delivery's record, if there is one.
    pub fn record(&self, delivery: &gateway_program::message::Fulfillment) -> Option<FulfillmentRecord> {
        let address = host::fulfillment_address(&self.program, &delivery.key(&self.program)).key;
        let account = self.account(&address)?;
        (account.owner.to_bytes() == self.program).then(|| FulfillmentRecord::from_bytes(&account.data).unwrap())
    }

    /// Sends native SOL to any address.
    pub fn fund(&mut self, address: &Key, lamports: u64) {
        self.svm.airdrop(&Address::from(*address), lamports).unwrap();
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// A key of this world; the same number, the same key.
pub fn keypair(seed: u8) -> Keypair {
    Keypair::new_from_array([seed; 32])
}

/// The public key.
pub fn key(keypair: &Keypair) -> Key {
    keypair.pubkey().to_bytes()
}

fn native(instruction: &host::Instruction) -> Instruction {
    Instruction {
        program_id: instruction.program_id.into(),
        accounts: instruction
            .accounts
            .iter()
            .map(|account| AccountMeta {
                pubkey: account.key.into(),
                is_signer: account.signer,
                is_writable: account.writable,
            })
            .collect(),
        data: instruction.data.clone(),
    }
}

/// The custom error number that a transaction failed with, if it was one.
pub fn custom_code(outcome: &Outcome) -> Option<u32> {
    match outcome.as_ref().err()?.err {
        TransactionError::InstructionError(_, InstructionError::Custom(code)) => Some(code),
        _ => None,
    }
}

/// Requires that a transaction was refused with this error of the program.
#[track_caller]
pub fn refused(outcome: Outcome, error: GatewayError) {
    match custom_code(&outcome) {
        Some(code) if code == error.code() => {}
        other => panic!(
            "expected {error:?} ({}), got {:?}: {}",
            error.code(),
            other.map(|code| GatewayError::from_code(code).map_or(code.to_string(), |error| error.name().to_owned())),
            describe(&outcome)
        ),
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Ok(done) => format!("succeeded\n{}", done.logs.join("\n")),
        Err(failed) => format!("{:?}\n{}", failed.err, failed.meta.logs.join("\n")),
    }
}
