//! The same transactions to anvil and to the simulated chain: the same receipts, logs, balances and refusals.

use std::sync::Arc;

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    primitives::{Address, B256, Bytes, TxKind, U64, U256, keccak256},
    rpc::client::RpcClient,
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolConstructor, SolEvent, SolValue},
    transports::RpcError,
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::time::Instant;

use chains::config::Depth;
use chains_evm::{
    adapter::{EvmChain, Keys},
    attest,
};
use devkit::anvil::{Anvil, Mining};
use escrow_abi::{
    contracts::{
        DevToken, FulfillmentProxy, GatewayEscrow, PAYOUT_GAS, parse_address, text as lower, time, units, word,
    },
    record::EscrowTerms,
};
use journal::{budget::memory::MemoryBudgets, ledger::memory::MemoryLedger};
use sagas::ports::{Chains, Statement};
use simulation::chain::{BaseFee, SharedChain, SimTransport};

use crate::support::*;

const EVM_ID: u64 = 31_337;
const GWEI: u128 = 1_000_000_000;

/// What a node answered: a result, or the code and the data of an error.
type Answer = Result<Value, (i64, Option<Value>)>;

/// Both chains.
struct Pair {
    anvil: RpcClient,
    simulated: RpcClient,
    chain: SharedChain,
    time: u64,
    _anvil: Anvil,
}

async fn ask(node: &RpcClient, method: &'static str, params: &Value) -> Result<Answer> {
    match node.request::<_, Value>(method, params.clone()).await {
        Ok(result) => Ok(Ok(result)),
        Err(RpcError::ErrorResp(error)) => {
            let data = error.data.map(|data| serde_json::from_str(data.get())).transpose()?;
            Ok(Err((error.code, data)))
        }
        Err(RpcError::NullResp) => Ok(Ok(Value::Null)),
        Err(error) => Err(error.into()),
    }
}

impl Pair {
    async fn start() -> Result<Self> {
        let anvil = Anvil::start(EVM_ID, Mining::Instant).await?;
        let node = RpcClient::new_http(anvil.url().parse()?);
        let genesis = node.request::<_, Value>("eth_getBlockByNumber", json!(["0x0", false])).await?;
        let time: U64 = serde_json::from_value(genesis["timestamp"].clone())?;
        let _: Value = node.request("evm_setAutomine", json!([false])).await?;
        let mut chain = template(EVM_ID)?.start(time.to());
        let code: Value = serde_json::from_slice(&permit2()?)?;
        let _: Value =
            node.request("anvil_setCode", json!([chain.contracts().permit2, code["deployedBytecode"]])).await?;
        let wealth = U256::from(10).pow(U256::from(20));
        for account in [key(1), key(10), key(12), key(13)] {
            let _: Value = node.request("anvil_setBalance", json!([account.address(), wealth])).await?;
            chain.fund(account.address(), wealth)?;
        }
        let chain = chain.shared();
        let simulated = RpcClient::new(SimTransport::honest(chain.clone()), true);
        let mut pair = Self { anvil: node, simulated, chain, time: time.to(), _anvil: anvil };
        // anvil's first block has the base fee of its block 0, whatever EIP-1559 says.
        lock(&pair.chain).set_base_fee(BaseFee::Pinned(1_000_000_000));
        pair.mine().await?;
        lock(&pair.chain).set_base_fee(BaseFee::Market);
        Ok(pair)
    }

    async fn both(&self, method: &'static str, params: Value) -> Result<(Answer, Answer)> {
        Ok((ask(&self.anvil, method, &params).await?, ask(&self.simulated, method, &params).await?))
    }

    /// Asks both and wants the same answer.
    async fn same(&self, method: &'static str, params: Value) -> Result<Value> {
        let (anvil, simulated) = self.both(method, params.clone()).await?;
        assert_eq!(simulated, anvil, "{method} {params}");
        Ok(simulated.unwrap_or_default())
    }

    /// Asks both and wants both to refuse.
    async fn refused(&self, method: &'static str, params: Value) -> Result<()> {
        let (anvil, simulated) = self.both(method, params.clone()).await?;
        assert!(anvil.is_err() && simulated.is_err(), "{method} {params}: {anvil:?} {simulated:?}");
        Ok(())
    }

    /// A transaction of `signer` with the next nonce.
    async fn signed(&self, signer: &PrivateKeySigner, to: TxKind, data: Vec<u8>, tip: u128) -> Result<Bytes> {
        let nonce = self.same("eth_getTransactionCount", json!([signer.address(), "pending"])).await?;
        let nonce: U64 = serde_json::from_value(nonce)?;
        sign(signer, nonce.to(), to, data, tip)
    }

    async fn send(&self, raw: &Bytes) -> Result<B256> {
        Ok(serde_json::from_value(self.same("eth_sendRawTransaction", json!([raw])).await?)?)
    }

    /// Puts what waits into a block on both.
    async fn mine(&mut self) -> Result<()> {
        self.time += BLOCK_SECONDS;
        let _: Value = self.anvil.request("evm_setNextBlockTimestamp", json!([self.time])).await?;
        let _: Value = self.anvil.request("evm_mine", ()).await?;
        lock(&self.chain).mine(self.time)?;
        Ok(())
    }

    /// Sends, mines and compares all that is to know of the transaction.
    async fn execute(&mut self, signer: &PrivateKeySigner, to: TxKind, data: Vec<u8>) -> Result<Value> {
        let raw = self.signed(signer, to, data, GWEI).await?;
        let hash = self.send(&raw).await?;
        assert_eq!(keccak256(&raw), hash);
        self.mine().await?;
        self.receipt(hash).await
    }

    async fn receipt(&self, hash: B256) -> Result<Value> {
        let (anvil, simulated) = self.both("eth_getTransactionReceipt", json!([hash])).await?;
        let (anvil, simulated) = (anvil.unwrap_or_default(), simulated.unwrap_or_default());
        assert_alike(&anvil, &simulated, "receipt");
        let (transaction, other) = self.both("eth_getTransactionByHash", json!([hash])).await?;
        assert_alike(&transaction.unwrap_or_default(), &other.unwrap_or_default(), "transaction");
        Ok(simulated)
    }
}

/// Wants all that anvil says of a thing to be said by the other too. Not what two chains can't have in common, hashes that
/// depend on a state root; nor what geth and others leave out or anvil makes up.
fn assert_alike(anvil: &Value, simulated: &Value, what: &str) {
    const OWN: [&str; 5] = ["blockHash", "parentHash", "stateRoot", "mixHash", "size"];
    const ANVIL: [&str; 3] = ["blobGasPrice", "blobGasUsed", "totalDifficulty"];
    match (anvil, simulated) {
        (Value::Object(anvil), Value::Object(simulated)) => {
            for (name, value) in anvil {
                let own = OWN.contains(&name.as_str()) || (name == "hash" && what == "block");
                let anvils = ANVIL.contains(&name.as_str()) || (name == "blockTimestamp" && !what.contains("logs"));
                if !own && !anvils {
                    let other = simulated.get(name).unwrap_or_else(|| panic!("{what} has no {name} ({value})"));
                    assert_alike(value, other, &format!("{what}.{name}"));
                }
            }
        }
        (Value::Array(anvil), Value::Array(simulated)) => {
            assert_eq!(anvil.len(), simulated.len(), "{what}");
            anvil.iter().zip(simulated).for_each(|(anvil, simulated)| assert_alike(anvil, simulated, what));
        }
        _ => assert_eq!(simulated, anvil, "{what}"),
    }
}

fn sign(signer: &PrivateKeySigner, nonce: u64, to: TxKind, data: Vec<u8>, tip: u128) -> Result<Bytes> {
    let transaction = TxEip1559 {
        chain_id: EVM_ID,
        nonce,
        gas_limit: 6_000_000,
        max_fee_per_gas: 4 * GWEI + tip,
        max_priority_fee_per_gas: tip,
        to,
        input: data.into(),
        ..TxEip1559::default()
    };
    let signature = signer.sign_hash_sync(&transaction.signature_hash())?;
    Ok(TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into())
}

fn creation(artefact: &str, arguments: Vec<u8>) -> Result<Vec<u8>> {
    let path = devkit::tools::root().join(format!("contracts/artifacts/{artefact}.json"));
    let artefact: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let code: Bytes = serde_json::from_value(artefact["bytecode"].clone())?;
    Ok([code.as_ref(), &arguments].concat())
}

fn created(receipt: &Value) -> Result<Address> {
    assert_eq!(receipt["status"], "0x1");
    serde_json::from_value(receipt["contractAddress"].clone()).context("nothing was created")
}

#[tokio::test]
async fn a_payment_leaves_the_same_traces_on_both() -> Result<()> {
    let mut pair = Pair::start().await?;
    let (deployer, payer, settler, submitter) = (key(1), key(10), key(12), key(13));
    let permit2 = lock(&pair.chain).contracts().permit2;

    let arguments = GatewayEscrow::constructorCall {
        permit2_: permit2,
        reserver_: key(2).address(),
        guardian_: key(20).address(),
        payoutGas_: U256::from(PAYOUT_GAS),
    };
    let escrow = creation("GatewayEscrow", arguments.abi_encode())?;
    let escrow = pair.execute(&deployer, TxKind::Create, escrow).await?;
    let escrow = created(&escrow)?;
    let proxy = pair.execute(&deployer, TxKind::Create, creation("FulfillmentProxy", Vec::new())?).await?;
    let proxy = created(&proxy)?;
    let arguments =
        DevToken::constructorCall { name_: "USD".to_owned(), symbol_: "USD".to_owned(), decimals_: 6 }.abi_encode();
    let token = created(&pair.execute(&deployer, TxKind::Create, creation("DevToken", arguments)?).await?)?;
    for account in [&payer, &settler] {
        let mint = DevToken::mintCall { to: account.address(), amount: U256::from(10 * CAP) };
        pair.execute(&deployer, token.into(), mint.abi_encode()).await?;
    }
    for (owner, spender) in [(&payer, permit2), (&settler, proxy)] {
        let approve = DevToken::approveCall { spender, value: U256::MAX };
        pair.execute(owner, token.into(), approve.abi_encode()).await?;
    }

    // The deposit is the adapter's own, prepared on the simulated chain and sent to both.
    let mut config = lock(&pair.chain).config(Depth::Confirmations(0), REFUND_DELAY);
    (config.common.escrow_contract, config.common.fulfillment_proxy) = (lower(escrow).parse()?, lower(proxy).parse()?);
    config.common.assets.truncate(1);
    config.common.assets[0].asset_identifier = format!("{}/erc20:{}", config.common.chain_id, lower(token)).parse()?;
    let node = SimTransport::honest(pair.chain.clone()).connect(&config)?;
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![submitter.clone().into()],
        exit_submitters: Vec::new(),
        draining_submitters: Vec::new(),
    };
    let clock = Arc::new(TestClock(Instant::now()));
    let (ledger, budgets) = (Arc::new(MemoryLedger::default()), Arc::new(MemoryBudgets::default()));
    let chain = EvmChain::new(node, Some(keys), ledger, budgets, clock)?;
    let payment = payment_on(&config, &config, pair.time, "order")?;
    let deposit = chain.prepare_deposit(&payment.deposit(), 1).await?;
    let raw: Bytes = deposit.raw.parse()?;
    let hash = pair.send(&raw).await?;
    pair.refused("eth_sendRawTransaction", json!([raw])).await?;
    pair.mine().await?;
    let receipt = pair.receipt(hash).await?;
    assert_eq!((&receipt["status"], receipt["logs"].as_array().map(Vec::len)), (&json!("0x1"), Some(3)));

    let order = payment.delivery();
    let fulfill = FulfillmentProxy::fulfillCall {
        paymentId: word(order.payment_id.on_chain()),
        quoteHash: word(order.quote_hash),
        token,
        recipient: key(11).address(),
        amount: units(order.amount),
        fulfillBy: time(order.fulfill_by)?,
    };
    assert_eq!(pair.execute(&settler, proxy.into(), fulfill.abi_encode()).await?["status"], "0x1");
    assert_eq!(pair.execute(&settler, proxy.into(), fulfill.abi_encode()).await?["status"], "0x0", "once only");
    let statement = Statement::Delivery {
        payment_id: order.payment_id.clone(),
        quote_hash: order.quote_hash,
        payout_account: text(&settler).parse()?,
    };
    let attestation: Bytes = attest::sign_statement(&key(3).into(), &statement, EVM_ID, escrow).await?.parse()?;
    let deposited = receipt["logs"].as_array().context("logs")?.iter().find_map(|log| {
        let log: alloy::rpc::types::Log = serde_json::from_value(log.clone()).ok()?;
        GatewayEscrow::Deposited::decode_log(&log.inner).ok()
    });
    let award = payment.deposit().reservation;
    let deposited = deposited.context("no deposit")?;
    let terms = EscrowTerms::told_by(&deposited);
    let EscrowTerms(terms) =
        terms.reserved(word(award.quote_hash), settler.address(), units(award.source_amount), time(award.fulfill_by)?);
    let release = GatewayEscrow::releaseCall { e: terms.clone(), attestation };
    let refund = GatewayEscrow::refundCall { e: terms };

    // Questions: what succeeds, what reverts with a named error, with a text, and out of nowhere.
    let request =
        |from: Address, to: Address, data: Vec<u8>| json!({"from": from, "to": to, "data": Bytes::from(data)});
    let before = request(settler.address(), escrow, release.abi_encode());
    assert_eq!(pair.same("eth_call", json!([before, "latest"])).await?, "0x");
    for data in [refund.abi_encode(), vec![1, 2, 3, 4], Vec::new()] {
        let (anvil, simulated) =
            pair.both("eth_call", json!([request(settler.address(), escrow, data), "latest"])).await?;
        assert_eq!((&simulated, simulated.is_err()), (&anvil, true));
    }
    // geth's estimate, and so the simulation's, is above the least by some thousandths; anvil's may be too.
    let (anvil, simulated) = pair.both("eth_estimateGas", json!([before])).await?;
    let gas = |answer: Answer| -> Result<u64> { Ok(serde_json::from_value::<U64>(answer.unwrap_or_default())?.to()) };
    let (anvil, simulated) = (gas(anvil)?, gas(simulated)?);
    assert!(simulated.abs_diff(anvil) <= anvil / 50, "{simulated} and {anvil}");
    assert_eq!(pair.execute(&settler, escrow.into(), release.abi_encode()).await?["status"], "0x1");

    for account in [deployer.address(), payer.address(), settler.address(), submitter.address(), Address::ZERO, escrow]
    {
        for tag in ["latest", "earliest", "0x5"] {
            pair.same("eth_getTransactionCount", json!([account, tag])).await?;
        }
        pair.same("eth_getBalance", json!([account, "latest"])).await?;
        pair.same("eth_getCode", json!([account, "latest"])).await?;
        let balance = DevToken::balanceOfCall { account }.abi_encode();
        for tag in ["latest", "0x6"] {
            pair.same("eth_call", json!([request(Address::ZERO, token, balance.clone()), tag])).await?;
        }
        let slot = keccak256((account, U256::ZERO).abi_encode());
        pair.same("eth_getStorageAt", json!([token, slot, "latest"])).await?;
    }
    let record = GatewayEscrow::recordOfCall { paymentId: word(order.payment_id.on_chain()) }.abi_encode();
    pair.same("eth_call", json!([request(Address::ZERO, escrow, record), "latest"])).await?;
    // Creation code that is run and not kept.
    let probe = json!({"data": "0x60005460005260206000f3"});
    pair.same("eth_call", json!([probe, "latest"])).await?;
    pair.same("eth_chainId", json!([])).await?;
    pair.same("eth_blockNumber", json!([])).await?;
    pair.same("eth_maxPriorityFeePerGas", json!([])).await?;

    for filter in [
        json!({"fromBlock": "0x0", "toBlock": "latest", "address": escrow}),
        json!({"fromBlock": "0x0", "toBlock": "latest", "address": [escrow, proxy], "topics": [null, word(order.payment_id.on_chain())]}),
        json!({"fromBlock": "0x3", "toBlock": "0x9", "topics": [[DevToken::Transfer::SIGNATURE_HASH, DevToken::Approval::SIGNATURE_HASH]]}),
        json!({"address": escrow, "topics": [GatewayEscrow::Released::SIGNATURE_HASH]}),
    ] {
        let (anvil, simulated) = pair.both("eth_getLogs", json!([filter])).await?;
        let (anvil, simulated) = (anvil.unwrap_or_default(), simulated.unwrap_or_default());
        assert!(simulated.as_array().is_some_and(|logs| !logs.is_empty()), "{filter}: {anvil}");
        assert_alike(&anvil, &simulated, "logs");
    }
    let newest: U64 = serde_json::from_value(pair.same("eth_blockNumber", json!([])).await?)?;
    for number in 0..=newest.to::<u64>() {
        let (anvil, simulated) = pair.both("eth_getBlockByNumber", json!([U64::from(number), number % 2 == 0])).await?;
        assert_alike(&anvil.unwrap_or_default(), &simulated.unwrap_or_default(), "block");
    }
    for absent in [json!("0x999"), json!("0xffffffff")] {
        assert_eq!(pair.same("eth_getBlockByNumber", json!([absent, false])).await?, Value::Null);
    }
    assert_eq!(pair.same("eth_getTransactionReceipt", json!([B256::repeat_byte(9)])).await?, Value::Null);
    assert_eq!(pair.same("eth_getTransactionByHash", json!([B256::repeat_byte(9)])).await?, Value::Null);
    let nowhere = json!({"blockHash": B256::repeat_byte(9), "requireCanonical": true});
    for (method, params) in [
        ("eth_call", json!([request(Address::ZERO, token, Vec::new()), nowhere])),
        ("eth_getBalance", json!([escrow, nowhere])),
        ("eth_getTransactionCount", json!([escrow, "0x999"])),
        ("eth_getLogs", json!([{"blockHash": B256::repeat_byte(9)}])),
        ("eth_nothing", json!([])),
    ] {
        pair.refused(method, params).await?;
    }
    assert_eq!(parse_address(&lower(escrow))?, escrow);
    Ok(())
}

#[tokio::test]
async fn the_pool_takes_and_refuses_the_same() -> Result<()> {
    let mut pair = Pair::start().await?;
    let (rich, poor) = (key(10), key(99));
    let to = TxKind::Call(key(11).address());
    let first = sign(&rich, 0, to, vec![1], GWEI)?;
    let second = sign(&rich, 1, to, vec![2], GWEI)?;
    let fourth = sign(&rich, 3, to, vec![4], GWEI)?;
    for raw in [&second, &fourth, &first] {
        pair.send(raw).await?;
    }
    pair.same("eth_getTransactionCount", json!([rich.address(), "pending"])).await?;
    pair.same("eth_getTransactionCount", json!([rich.address(), "latest"])).await?;
    let refused = [
        ("known", first.clone()),
        ("a replacement that offers no more", sign(&rich, 1, to, vec![5], GWEI)?),
        ("no coins", sign(&poor, 0, to, vec![6], GWEI)?),
        ("no transaction", Bytes::from_static(&[2, 1, 2, 3])),
    ];
    for (what, raw) in refused {
        let (anvil, simulated) = pair.both("eth_sendRawTransaction", json!([raw])).await?;
        assert!(anvil.is_err() && simulated.is_err(), "{what}: {anvil:?} {simulated:?}");
    }
    // anvil takes a replacement for a wei more; geth, and so the simulation, wants a tenth more of both fees.
    let little = sign(&rich, 1, to, vec![5], GWEI + GWEI / 20)?;
    assert!(ask(&pair.simulated, "eth_sendRawTransaction", &json!([little])).await?.is_err());
    pair.mine().await?;
    for raw in [&first, &second] {
        assert_eq!(pair.receipt(keccak256(raw)).await?["status"], "0x1");
    }
    pair.refused("eth_sendRawTransaction", json!([sign(&rich, 0, to, vec![7], 9 * GWEI)?])).await?;
    assert_eq!(pair.same("eth_getTransactionReceipt", json!([keccak256(&fourth)])).await?, Value::Null);
    // The gap is filled, and what waited behind it comes along; the better tip of another sender goes first.
    let third = pair.send(&sign(&rich, 2, to, vec![3], GWEI)?).await?;
    let other = pair.send(&sign(&key(12), 0, to, vec![8], 2 * GWEI)?).await?;
    pair.mine().await?;
    for (hash, index) in [(other, "0x0"), (third, "0x1"), (keccak256(&fourth), "0x2")] {
        assert_eq!(pair.receipt(hash).await?["transactionIndex"], index);
    }
    // A replacement that offers a tenth more takes the place.
    let cheap = pair.send(&sign(&rich, 4, to, vec![9], GWEI)?).await?;
    let dear = pair.send(&sign(&rich, 4, to, vec![10], 3 * GWEI)?).await?;
    pair.mine().await?;
    assert_eq!(pair.receipt(dear).await?["status"], "0x1");
    for method in ["eth_getTransactionReceipt", "eth_getTransactionByHash"] {
        assert_eq!(pair.same(method, json!([cheap])).await?, Value::Null);
    }
    if lock(&pair.chain).pending() != Vec::<B256>::new() {
        bail!("something still waits");
    }
    Ok(())
}
