//! Demo files: addresses, keys and orders for the commands of `examples/`.

use std::{fmt::Write, fs, path::Path};

use alloy::{
    primitives::{U256, keccak256},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use events::{Family, Hash32};

use super::{ORDINARY, ORDINARY_CAP};
use crate::{
    keys::{self, Role},
    network::{Network, checkpoint_signer},
    users::NatsUser,
};

/// Where all but the addresses goes, in the network's directory.
const FOLDER: &str = "examples";
/// The addresses, for a shell.
const ENVIRONMENT: &str = "env";
/// Tokens of each example's payer, smallest unit: for many payments.
const TOKENS: u64 = 10_000_000_000;
/// Coins of the payer on the EVM chain, smallest unit: one.
const WEI: u64 = 1_000_000_000_000_000_000;
/// Coins of the payer on Solana, smallest unit: ten.
const LAMPORTS: u64 = 10_000_000_000;
/// TRX of the payer on Tron: ten thousand, in sun.
const SUN: u64 = 10_000_000_000;

/// Leaves the files and prints the commands. The payers have money, and have allowed nobody to draw on it.
///
/// # Errors
/// When a chain does not answer or a file cannot be written.
pub(super) async fn invite(network: &Network) -> Result<()> {
    let directory = &network.options().directory;
    fs::create_dir_all(directory.join(FOLDER)).context("make the folder of the examples")?;
    let seed_file = std::path::absolute(directory)?.join(NatsUser::Auditor.seed_file());
    let mut addresses = vec![
        ("GATEWAY_URL", network.gateways[0].base_url()),
        ("EVM_RPC_URL", network.source.anvil.url()),
        ("NATS_URL", network.nats.url()),
        ("NATS_SEED_FILE", seed_file.display().to_string()),
        ("CHECKPOINT_SIGNER", checkpoint_signer().to_string()),
        // The shop and the buyer of examples/x402.
        ("PAY_TO", Role::Recipient.account()),
        ("RECEIVE_NETWORK", network.destination.id().to_string()),
        ("PAY_NETWORK", network.source.id().to_string()),
        ("PAY_ASSET", network.source.token.clone()),
        ("BUYER_KEY", Role::Payer.secret_hex()),
        // Those of the stock packages alone.
        ("STOCK_PAY_ASSET", network.source.stablecoin.clone()),
        ("STOCK_RECEIVE_ASSET", network.destination.token.clone()),
        ("STOCK_BUYER_KEY", stock_buyer(network).await?),
        // What a payer on each family of chains knows without asking the gateway.
        ("EVM_ESCROW", network.source.contracts.escrow.clone()),
        ("EVM_RESERVER", Role::Reserver.account()),
        ("EVM_RELEASER", network.verifier(Family::Evm)?.account.to_string()),
    ];
    if let Some(ca_file) = network.nats.ca_file() {
        addresses.push(("NATS_CA_FILE", ca_file.display().to_string()));
    }
    let evm = payer_on_evm(network).await?;
    let mut commands = vec![
        ("EVM, JavaScript", "examples/evm/pay.mjs", "node", "EVM_RPC_URL", evm.clone()),
        ("EVM, Python", "examples/evm/pay.py", "python3", "EVM_RPC_URL", evm),
    ];
    if let Some(solana) = &network.solana {
        addresses.extend([
            ("SOLANA_RPC_URL", solana.surfnet.url()),
            ("SOLANA_ESCROW", solana.program.clone()),
            ("SOLANA_RESERVER", Role::Reserver.solana_account()),
            ("SOLANA_RELEASER", network.verifier(Family::Solana)?.account.to_string()),
        ]);
        let files = payer_on_solana(network).await?;
        commands.push(("Solana", "examples/solana/pay.cjs", "node", "SOLANA_RPC_URL", files));
    }
    if let Some(tron) = &network.tron {
        addresses.extend([
            ("TRON_API_URL", tron.node.url()),
            ("TRON_ESCROW", tron.contracts.escrow.clone()),
            ("TRON_PERMIT2", tron.contracts.permit2.clone()),
            ("TRON_DEPOSIT_ADDRESS_FACTORY", tron.contracts.deposit_address_factory.clone()),
            ("TRON_RESERVER", Role::Reserver.tron_account()),
            ("TRON_RELEASER", network.verifier(Family::Tron)?.account.to_string()),
        ]);
        let files = payer_on_tron(network).await?;
        commands.push(("Tron", "examples/tron/pay.cjs", "node", "TRON_API_URL", files));
    }
    let lines = addresses.iter().try_fold(String::new(), |mut lines, (name, value)| {
        writeln!(lines, "export {name}='{}'", value.replace('\'', r"'\''")).map(|()| lines)
    })?;
    let environment = directory.join(ENVIRONMENT);
    fs::write(&environment, lines).with_context(|| format!("write {}", environment.display()))?;

    println!("The examples, from the repository's root; their READMEs say what each needs:\n");
    println!("  . {}", environment.display());
    for (title, script, program, node, [key, order]) in commands {
        println!("  {program} {script} \"$GATEWAY_URL\" \"${node}\" {key} {order}   # {title}");
    }
    println!("  python3 examples/auditor/audit.py pay_… \"$CHECKPOINT_SIGNER\"\n");
    Ok(())
}

/// The files of one payer, as they are named on a command line.
type Files = [String; 2];

/// Writes a payer's key and its order.
fn leave(directory: &Path, family: &str, key: &str, order: &Value) -> Result<Files> {
    let write = |name: String, text: String| -> Result<String> {
        let path = directory.join(FOLDER).join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    };
    Ok([write(format!("{family}.key"), key.to_owned())?, write(format!("{family}.json"), format!("{order:#}\n"))?])
}

/// What is paid for: the body of a payment without what belongs to one attempt, which are its id and its times.
fn order(network: &Network, source: &impl ToString, account: &str) -> Result<Value> {
    Ok(json!({
        "version": "1.0",
        "source": {"asset_identifier": source.to_string(), "account": account},
        "destination": [{"asset_identifier": network.destination.token()?, "account": Role::Recipient.account()}],
        "fulfillment_amount": ORDINARY,
        "max_source_amount": ORDINARY_CAP,
    }))
}

async fn payer_on_evm(network: &Network) -> Result<Files> {
    let (chain, signer) = (&network.source, PrivateKeySigner::from_bytes(&keccak256("gw dev example payer"))?);
    let account = signer.address().to_string();
    chain.dev.fund(&account, U256::from(WEI)).await?;
    for token in [&chain.token, &chain.stablecoin] {
        chain.dev.mint(token, &account, U256::from(TOKENS)).await?;
    }
    let key = signer.to_bytes().to_string();
    leave(&network.options().directory, "evm", &key, &order(network, &chain.token()?, &account)?)
}

async fn payer_on_solana(network: &Network) -> Result<Files> {
    let chain = network.solana.as_ref().context("the network has no Solana chain")?;
    let key = SigningKey::from_bytes(&Hash32::sha256("gw dev solana example payer").0);
    let account = keys::solana_account(&key);
    chain.surfnet.airdrop(&account, LAMPORTS).await?;
    chain.dev.mint(&chain.token, &account, TOKENS).await?;
    let keypair = json!(key.to_keypair_bytes().to_vec()).to_string();
    leave(&network.options().directory, "solana", &keypair, &order(network, &chain.token()?, &account)?)
}

async fn payer_on_tron(network: &Network) -> Result<Files> {
    let chain = network.tron.as_ref().context("the network has no Tron chain")?;
    let signer = PrivateKeySigner::from_bytes(&keccak256("gw dev tron example payer"))?;
    let account = chains_tron::address::text(signer.address());
    chain.dev.fund(&account, SUN).await?;
    chain.dev.mint(&chain.token, &account, U256::from(TOKENS)).await?;
    chain.dev.mint(&chain.permitted_token, &account, U256::from(TOKENS)).await?;
    chain.dev.approve(&signer, &chain.permitted_token, &chain.contracts.permit2, U256::MAX).await?;
    let key = hex::encode(signer.to_bytes());
    leave(&network.options().directory, "tron", &key, &order(network, &chain.token()?, &account)?)
}

/// A key that has some of a token that takes signatures, and no coins.
async fn stock_buyer(network: &Network) -> Result<String> {
    let (buyer, source) = (PrivateKeySigner::random(), &network.source);
    source.dev.mint(&source.stablecoin, &buyer.address().to_string(), U256::from(TOKENS)).await?;
    Ok(format!("{:#x}", buyer.to_bytes()))
}
