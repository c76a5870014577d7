//! **For development only**: sets the program up on a local cluster, makes worthless tokens, hands them out.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use solana_client::{
    client_error::ClientError, nonblocking::rpc_client::RpcClient, rpc_client::SerializableTransaction,
    rpc_config::RpcSendTransactionConfig,
};
use solana_commitment_config::{CommitmentConfig, CommitmentLevel};
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_pubkey::Pubkey;
use solana_signer::Signer;
use solana_transaction::Transaction;

use gateway_program::{
    Key,
    host::{self, Instruction as Built},
    ids,
    instruction::Initialize,
};

use super::{program::base58, transaction::instruction};

const RPC_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a transaction may take to be executed.
const LANDS_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
/// Size of a mint without extensions.
const MINT_BYTES: usize = 82;
/// Instructions of the token programs.
const INITIALIZE_MINT_2: u8 = 20;
const MINT_TO_CHECKED: u8 = 14;

/// What went wrong with a development cluster.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The node does not answer, or refuses.
    #[error("development cluster: {0}")]
    Node(#[from] Box<ClientError>),
    /// Something given is not an address.
    #[error("{0} is not Base58 of 32 bytes")]
    Address(String),
    /// A transaction failed, or was never executed.
    #[error("development transaction failed: {0}")]
    Failed(String),
}

impl From<ClientError> for DevError {
    fn from(error: ClientError) -> Self {
        Self::Node(Box::new(error))
    }
}

/// The program of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenProgram {
    /// SPL Token.
    Token,
    /// SPL Token-2022.
    Token2022,
}

impl TokenProgram {
    fn id(self) -> Key {
        match self {
            Self::Token => ids::TOKEN_PROGRAM,
            Self::Token2022 => ids::TOKEN_2022_PROGRAM,
        }
    }
}

/// A worthless token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevToken {
    /// The mint, Base58.
    pub mint: String,
    /// Whose it is.
    pub program: TokenProgram,
    /// Decimal places.
    pub decimals: u8,
}

/// A local cluster.
pub struct DevCluster {
    rpc: RpcClient,
    deployer: Keypair,
}

impl DevCluster {
    /// The cluster behind `rpc_url`. `deployer` needs lamports: it pays for all that is done here, mints, and is the
    /// program's upgrade authority.
    pub fn connect(rpc_url: &str, deployer: &SigningKey) -> Self {
        let commitment = CommitmentConfig::processed();
        let rpc = RpcClient::new_with_timeout_and_commitment(rpc_url.to_owned(), RPC_TIMEOUT, commitment);
        Self { rpc, deployer: keypair(deployer) }
    }

    /// Sets the program at `program` up for the cluster with this genesis hash and this reserver.
    ///
    /// # Errors
    /// [`DevError`], also when it was set up before or the deployer is not its upgrade authority.
    pub async fn initialize(&self, program: &str, cluster_id: &str, reserver: &str) -> Result<(), DevError> {
        let deployer = self.deployer.pubkey().to_bytes();
        let data = Initialize { cluster_id: key(cluster_id)?, reserver: key(reserver)? };
        self.execute(&[instruction(&host::initialize(&key(program)?, deployer, deployer, &data))], &[]).await
    }

    /// A new token with a mint that anyone may know: its address is that of `mint`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn create_token(
        &self,
        mint: &SigningKey,
        program: TokenProgram,
        decimals: u8,
    ) -> Result<DevToken, DevError> {
        let mint = keypair(mint);
        let rent = self.rpc.get_minimum_balance_for_rent_exemption(MINT_BYTES).await?;
        let owner = Pubkey::new_from_array(program.id());
        let create = solana_system_interface::instruction::create_account(
            &self.deployer.pubkey(),
            &mint.pubkey(),
            rent,
            MINT_BYTES as u64,
            &owner,
        );
        let mut data = vec![INITIALIZE_MINT_2, decimals];
        data.extend_from_slice(self.deployer.pubkey().as_ref());
        // Nobody may freeze.
        data.push(0);
        let accounts = vec![AccountMeta::new(mint.pubkey(), false)];
        let initialize = Instruction { program_id: owner, accounts, data };
        self.execute(&[create, initialize], &[&mint]).await?;
        Ok(DevToken { mint: mint.pubkey().to_string(), program, decimals })
    }

    /// Mints `amount` of a token into `owner`'s associated token account, which is made when it is not there.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn mint(&self, token: &DevToken, owner: &str, amount: u64) -> Result<(), DevError> {
        let (mint, owner, program) = (key(&token.mint)?, key(owner)?, token.program.id());
        let deployer = self.deployer.pubkey();
        let create = instruction(&host::create_associated_token(deployer.to_bytes(), &owner, &mint, &program));
        self.execute(&[create], &[]).await?;
        self.mint_into(token, &host::associated_token_address(&owner, &program, &mint).key, amount).await
    }

    /// Burns all that `owner` has of a token, and closes its associated token account.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn close(&self, token: &DevToken, owner: &SigningKey) -> Result<(), DevError> {
        const BURN: u8 = 8;
        const CLOSE_ACCOUNT: u8 = 9;
        let owner = keypair(owner);
        let held = self.token_balance(token, &owner.pubkey().to_string()).await?;
        let (mint, program) = (key(&token.mint)?, token.program.id());
        let account = host::associated_token_address(&owner.pubkey().to_bytes(), &program, &mint).key;
        let account = Pubkey::new_from_array(account);
        let mint = AccountMeta::new(Pubkey::new_from_array(mint), false);
        let signer = AccountMeta::new_readonly(owner.pubkey(), true);
        let instruction = |data: Vec<u8>, second: AccountMeta| Instruction {
            program_id: Pubkey::new_from_array(program),
            accounts: vec![AccountMeta::new(account, false), second, signer.clone()],
            data,
        };
        let burn = instruction([&[BURN][..], &held.to_le_bytes()].concat(), mint);
        let close = instruction(vec![CLOSE_ACCOUNT], AccountMeta::new(owner.pubkey(), false));
        self.execute(&[burn, close], &[&owner]).await
    }

    /// Mints `amount` of a token into any of its accounts that is there.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn mint_into(&self, token: &DevToken, account: &[u8; 32], amount: u64) -> Result<(), DevError> {
        let (mint, program) = (key(&token.mint)?, token.program.id());
        let deployer = self.deployer.pubkey();
        let mut data = vec![MINT_TO_CHECKED];
        data.extend_from_slice(&amount.to_le_bytes());
        data.push(token.decimals);
        let mint_to = Instruction {
            program_id: Pubkey::new_from_array(program),
            accounts: vec![
                AccountMeta::new(Pubkey::new_from_array(mint), false),
                AccountMeta::new(Pubkey::new_from_array(*account), false),
                AccountMeta::new_readonly(deployer, true),
            ],
            data,
        };
        self.execute(&[mint_to], &[]).await
    }

    /// Lets the program take up to `amount` of `owner`'s `token` by deposits that the key `signer`, Base58, signs: the owner's
    /// own, or that of a delegate signer. It replaces the allowance that was there.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn approve(
        &self,
        owner: &SigningKey,
        token: &DevToken,
        program: &str,
        signer: &str,
        amount: u64,
    ) -> Result<(), DevError> {
        let (owner, mint, token_program) = (keypair(owner), key(&token.mint)?, token.program.id());
        let wallet = owner.pubkey().to_bytes();
        let account = host::associated_token_address(&wallet, &token_program, &mint).key;
        let delegate = host::delegate_address(&key(program)?, &key(signer)?).key;
        let approve = host::approve_checked(&token_program, account, mint, delegate, wallet, amount, token.decimals);
        self.execute(&[instruction(&approve)], &[&owner]).await
    }

    /// What `owner`'s associated token account holds, smallest unit; nothing when it is not there.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn token_balance(&self, token: &DevToken, owner: &str) -> Result<u64, DevError> {
        let account = host::associated_token_address(&key(owner)?, &token.program.id(), &key(&token.mint)?).key;
        let commitment = CommitmentConfig::processed();
        let found = self.rpc.get_account_with_commitment(&Pubkey::new_from_array(account), commitment).await?.value;
        let Some(found) = found else { return Ok(0) };
        // Mint and owner come first, 32 bytes each.
        let amount = found.data.get(64..72).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        amount.ok_or_else(|| DevError::Failed("a token account in an unknown layout".to_owned()))
    }

    /// Sends `amount` of a token from `owner` into the associated token account of `to`, which is made at `owner`'s cost when it is not
    /// there: what a wallet or an exchange does.
    ///
    /// # Errors
    /// [`DevError`], also when `owner` has less.
    pub async fn send_token(
        &self,
        owner: &SigningKey,
        token: &DevToken,
        to: &str,
        amount: u64,
    ) -> Result<(), DevError> {
        const TRANSFER_CHECKED: u8 = 12;
        let owner = keypair(owner);
        let (wallet, mint, program, to) = (owner.pubkey().to_bytes(), key(&token.mint)?, token.program.id(), key(to)?);
        let account = |of: &Key| Pubkey::new_from_array(host::associated_token_address(of, &program, &mint).key);
        let create = instruction(&host::create_associated_token(wallet, &to, &mint, &program));
        let transfer = Instruction {
            program_id: Pubkey::new_from_array(program),
            accounts: vec![
                AccountMeta::new(account(&wallet), false),
                AccountMeta::new_readonly(Pubkey::new_from_array(mint), false),
                AccountMeta::new(account(&to), false),
                AccountMeta::new_readonly(owner.pubkey(), true),
            ],
            data: [&[TRANSFER_CHECKED][..], &amount.to_le_bytes(), &[token.decimals]].concat(),
        };
        self.send(&[create, transfer], &[&owner]).await
    }

    /// Lamports of an account.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn lamports(&self, account: &str) -> Result<u64, DevError> {
        Ok(self.rpc.get_balance(&Pubkey::new_from_array(key(account)?)).await?)
    }

    /// Sends one transaction with these instructions, which `wallet` alone signs and pays for, and sees to it that it is executed.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn run(&self, wallet: &SigningKey, instructions: Vec<Built>) -> Result<(), DevError> {
        let instructions: Vec<_> = instructions.iter().map(instruction).collect();
        self.send(&instructions, &[&keypair(wallet)]).await
    }

    /// Sends a transaction of the deployer's and sees to it that it is executed.
    async fn execute(&self, instructions: &[Instruction], others: &[&Keypair]) -> Result<(), DevError> {
        let mut signers = vec![&self.deployer];
        signers.extend(others);
        self.send(instructions, &signers).await
    }

    /// Sends a transaction of all that sign it, the first of whom pays, and sees to it that it is executed.
    async fn send(&self, instructions: &[Instruction], signers: &[&Keypair]) -> Result<(), DevError> {
        let blockhash = self.rpc.get_latest_blockhash().await?;
        let payer = signers.first().map(|payer| payer.pubkey());
        let transaction = Transaction::new_signed_with_payer(instructions, payer.as_ref(), signers, blockhash);
        let config = RpcSendTransactionConfig {
            preflight_commitment: Some(CommitmentLevel::Processed),
            ..RpcSendTransactionConfig::default()
        };
        self.rpc.send_transaction_with_config(&transaction, config).await?;
        let signature = *transaction.get_signature();
        let executed = async {
            loop {
                match self.rpc.get_signature_status(&signature).await? {
                    Some(Ok(())) => return Ok(()),
                    Some(Err(error)) => return Err(DevError::Failed(error.to_string())),
                    None => tokio::time::sleep(POLL).await,
                }
            }
        };
        let waited = tokio::time::timeout(LANDS_WITHIN, executed).await;
        waited.unwrap_or_else(|_| Err(DevError::Failed(format!("{signature} was not executed"))))
    }
}

fn keypair(key: &SigningKey) -> Keypair {
    Keypair::new_from_array(key.to_bytes())
}

fn key(text: &str) -> Result<Key, DevError> {
    base58(text).ok_or_else(|| DevError::Address(text.to_owned()))
}
