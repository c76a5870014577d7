//! The genesis state of a cluster: the committed program, set up, and worthless tokens.

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use litesvm::LiteSVM;
use sha2::{Digest, Sha256};
use solana_account::Account;
use solana_address::Address;
use solana_transaction::versioned::VersionedTransaction;

use chains_solana::transaction::{Budget, message, sign};
use events::Account as AccountId;
use gateway_program::{Key, host, instruction::Initialize};

use super::{SimCluster, SimError, Timing, block::Block, runtime::Base, state::State, tokens, wire::Signed};

/// The committed program.
const PROGRAM: &[u8] = include_bytes!("../../../../contracts/artifacts/solana/gateway_escrow.so");
/// The slot of the genesis block of every run: a cluster that has been there for a while.
const FIRST_SLOT: u64 = 5_000;
/// Slots that were skipped before it.
const SKIPPED: u64 = 300;
/// Lamports of whoever deploys.
const WEALTH: u64 = 1_000_000_000_000;
/// Bytes of a mint.
const MINT_BYTES: usize = gateway_program::token::MINT_SIZE;

/// A worthless token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its symbol.
    pub symbol: String,
    /// Its decimal places.
    pub decimals: u8,
}

/// The configuration of a genesis state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genesis {
    /// The genesis hash. Clusters with different ones are different chains.
    pub cluster_id: [u8; 32],
    /// The program's reserver.
    pub reserver: Key,
    /// The account of the default verifier; the program does not know it, [`SimCluster::config`] does.
    pub releaser: AccountId,
    /// The tokens.
    pub tokens: Vec<Token>,
    /// How far behind the newest block things are.
    pub timing: Timing,
}

/// A cluster with its program, made once and cloned for each run.
#[derive(Debug, Clone)]
pub struct Template(Arc<Deployed>);

#[derive(Debug)]
pub(super) struct Deployed {
    pub genesis: Genesis,
    pub program: Key,
    /// The mints, in the order of [`Genesis::tokens`].
    pub mints: Vec<Key>,
    pub base: Arc<Base>,
}

impl Template {
    /// Deploys what `genesis` asks for.
    ///
    /// # Errors
    /// [`SimError`] when the program cannot be used, or refuses to be set up.
    pub fn new(genesis: &Genesis) -> Result<Self, SimError> {
        let unusable = |error: &dyn std::fmt::Display| SimError::Artefact(error.to_string());
        let mut svm = LiteSVM::new();
        let program = public(&named("program"));
        svm.add_program(Address::from(program), PROGRAM).map_err(|error| unusable(&error))?;
        let deployer = named("deployer");
        own(&mut svm, &program, &public(&deployer))?;
        fund(&mut svm, public(&deployer), WEALTH)?;

        let data = Initialize { cluster_id: genesis.cluster_id, reserver: genesis.reserver };
        let call = host::initialize(&program, public(&deployer), public(&deployer), &data);
        let blockhash = svm.latest_blockhash().to_bytes();
        let message = message(&[call], Budget::TRIAL, &public(&deployer), &blockhash);
        let signed = sign(&message, &[&deployer]).map_err(|error| unusable(&error))?;
        let signed = Signed::parse(&signed.wire).map_err(SimError::Artefact)?;
        let transaction: VersionedTransaction = signed.transaction.clone();
        svm.send_transaction(transaction).map_err(|failed| unusable(&failed.err))?;

        let mut mints = Vec::new();
        for (index, token) in genesis.tokens.iter().enumerate() {
            let mint = public(&named(&format!("mint {index}")));
            let lamports = svm.minimum_balance_for_rent_exemption(MINT_BYTES);
            let account = tokens::mint(lamports, &public(&deployer), token.decimals);
            svm.set_account(mint.into(), account.into()).map_err(|error| unusable(&error))?;
            mints.push(mint);
        }
        let base = Arc::new(Base::new(svm));
        Ok(Self(Arc::new(Deployed { genesis: genesis.clone(), program, mints, base })))
    }

    /// A new cluster whose genesis block has the UNIX second `time`.
    pub fn start(&self, time: u64) -> SimCluster {
        let mut hasher = Sha256::new();
        hasher.update(self.0.genesis.cluster_id);
        hasher.update(time.to_be_bytes());
        let block = Block {
            slot: FIRST_SLOT,
            parent_slot: FIRST_SLOT - 1,
            height: FIRST_SLOT - SKIPPED,
            blockhash: hasher.finalize().into(),
            previous_blockhash: self.0.genesis.cluster_id,
            time,
            landed: Vec::new(),
            state: State::default(),
        };
        SimCluster::new(Arc::clone(&self.0), self.0.genesis.timing, block)
    }
}

/// The key of a party of the genesis.
fn named(name: &str) -> SigningKey {
    SigningKey::from_bytes(&Sha256::digest(format!("simulated cluster: {name}")).into())
}

fn public(key: &SigningKey) -> Key {
    key.verifying_key().to_bytes()
}

fn fund(svm: &mut LiteSVM, key: Key, lamports: u64) -> Result<(), SimError> {
    let account = Account { lamports, rent_epoch: u64::MAX, ..Account::default() };
    svm.set_account(key.into(), account).map_err(|error| SimError::Artefact(error.to_string()))
}

/// Makes `authority` the program's upgrade authority, as the loader keeps it.
fn own(svm: &mut LiteSVM, program: &Key, authority: &Key) -> Result<(), SimError> {
    /// Where the loader keeps whether there is an authority, and which.
    const AUTHORITY: std::ops::Range<usize> = 12..45;
    let unusable = |what: String| SimError::Artefact(what);
    let address = Address::from(host::program_data_address(program).key);
    let mut account = svm.get_account(&address).ok_or_else(|| unusable("it has no bytes".to_owned()))?;
    let bytes = account.data.get_mut(AUTHORITY).ok_or_else(|| unusable("its bytes are cut off".to_owned()))?;
    bytes.copy_from_slice(&[&[1], authority.as_slice()].concat());
    svm.set_account(address, account).map_err(|error| unusable(error.to_string()))
}
