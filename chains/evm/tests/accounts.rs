//! Contract accounts as payers, deployed (ERC-1271) and not yet deployed (ERC-6492), on a real chain.

use std::slice::from_ref;

use alloy::{
    primitives::{Address, Bytes, Signature, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail};
use chrono::TimeDelta;

use chains_evm::{
    adapter::{EvmChain, Keys},
    authorization::{
        AuthorizationError, Choice, OnchainError, Scheme, SignedMessage, SpendRequest, authorize, authorize_onchain,
        confirm_by_code, prepare,
    },
};
use escrow_abi::{
    contracts::{DevAccountFactory, parse_address},
    signature::Wrapped,
};
use events::{
    OwnedAsset, PaymentId, Terms,
    event::{Authorization, Permit2, TransactionPrepared},
};
use journal::{
    budget::{self, Budget, BudgetKey, Budgets},
    ledger::Purpose,
};
use sagas::ports::{Chains, Clock, DepositState, PrepareError};
use signer::{Hash, Secp256k1, Secp256k1Key, SignError, Signer};

use crate::support::*;

/// A development account of `owner` on the source chain that pays with the chain's token.
struct Account {
    owner: PrivateKeySigner,
    factory: String,
    address: String,
}

impl Account {
    async fn of(owner: PrivateKeySigner, world: &World) -> Result<Self> {
        let source = &world.source;
        let factory = source.dev.deploy_account_factory().await?;
        let address = source.dev.account_of(&factory, &text(&owner), &source.token, &source.contracts.permit2).await?;
        source.dev.mint(&source.token, &address, U256::from(10 * CAP)).await?;
        Ok(Self { owner, factory, address })
    }

    async fn deploy(&self, world: &World) -> Result<()> {
        let source = &world.source;
        let (owner, permit2) = (text(&self.owner), &source.contracts.permit2);
        source.dev.deploy_account(&self.factory, &owner, &source.token, permit2).await?;
        Ok(())
    }

    async fn is_deployed(&self, world: &World) -> Result<bool> {
        let code: Bytes = world.source.dev.rpc("eth_getCode", (&self.address, "latest")).await?;
        Ok(!code.is_empty())
    }

    fn spend(&self, world: &World, request_id: &str, scheme: Scheme) -> Result<SpendRequest> {
        let spend = world.spend(request_id, scheme, &world.destination.asset())?;
        let terms = Terms::new(
            OwnedAsset::new(world.source.asset().parse()?, &self.address)?,
            spend.terms.destination().to_vec(),
            spend.terms.fulfillment_amount,
            spend.terms.max_source_amount,
        );
        let payment_id = PaymentId::derive(&format!("eip155:{}", self.address), request_id);
        Ok(SpendRequest { payment_id, terms, ..spend })
    }

    fn factory_call(&self, world: &World) -> Result<Vec<u8>> {
        let source = &world.source;
        let (token, spender) = (parse_address(&source.token)?, parse_address(&source.contracts.permit2)?);
        Ok(DevAccountFactory::deployCall { owner: self.owner.address(), token, spender }.abi_encode())
    }

    /// Signed by the owner, and wrapped when `factory_call` says how.
    fn signed(&self, spend: &SpendRequest, factory_call: Option<Vec<u8>>) -> Result<SignedMessage> {
        let prepared = prepare(spend, &Choice::default())?;
        let signature = self.owner.sign_hash_sync(&prepared.digest.0.into())?.as_bytes().to_vec();
        let signature = match factory_call {
            None => signature,
            Some(call) => Wrapped {
                factory: parse_address(&self.factory)?,
                factory_call: call.into(),
                signature: signature.into(),
            }
            .encode(),
        };
        Ok(SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(prepared.typed_data.to_string()),
            signature: format!("0x{}", hex::encode(signature)),
            payload: None,
        })
    }
}

async fn is_secured(world: &World, payment: &Payment) -> Result<()> {
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    match world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await? {
        DepositState::Secured(secured) => {
            assert_eq!(secured.amount.to_string(), PRICE.to_string());
            assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
            Ok(())
        }
        other => bail!("not secured: {other:?}"),
    }
}

fn signature_of(authorization: &Authorization) -> &str {
    match authorization {
        Authorization::EvmPermit2Escrow(Permit2 { signature, .. })
        | Authorization::EvmPermit2(Permit2 { signature, .. }) => signature,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_contract_account_pays_under_both_schemes() -> Result<()> {
    let world = World::start().await?;
    let account = Account::of(key(20), &world).await?;
    account.deploy(&world).await?;
    for (id, scheme) in [("witness", Scheme::EvmPermit2Escrow), ("plain", Scheme::EvmPermit2)] {
        let spend = account.spend(&world, id, scheme)?;
        let signed = account.signed(&spend, None)?;
        let (authorization, escrow) = authorize_onchain(&spend, &signed, &world.source.payers()).await?;
        assert_eq!(signature_of(&authorization), signed.signature);
        is_secured(&world, &world.awarded(spend, authorization, escrow)?).await?;
    }
    let stranger = Account { owner: key(21), factory: account.factory.clone(), address: account.address.clone() };
    let spend = account.spend(&world, "forged", Scheme::EvmPermit2Escrow)?;
    let forged = authorize_onchain(&spend, &stranger.signed(&spend, None)?, &world.source.payers()).await;
    let refused = OnchainError::Denied(AuthorizationError::RefusedByContract {
        account: account.address.parse::<Address>()?.to_string(),
    });
    assert_eq!(forged, Err(refused));
    Ok(())
}

/// Lets the payer's own account run the code of `delegate` (EIP-7702).
async fn delegate(world: &World, delegate: &str) -> Result<()> {
    let code = format!("0xef0100{}", delegate.trim_start_matches("0x"));
    let _: serde_json::Value = world.source.dev.rpc("anvil_setCode", (text(&world.payer), code)).await?;
    Ok(())
}

/// Permit2 goes by the code of an account wherever there is some, so the signature of its key counts as much as that says.
#[tokio::test]
async fn a_key_whose_account_has_code_pays_as_far_as_the_code_takes_its_signature() -> Result<()> {
    let world = World::start().await?;
    let spend = world.spend("order", Scheme::EvmPermit2Escrow, &world.destination.asset())?;
    let prepared = prepare(&spend, &Choice::default())?;
    let signed = sign(&world.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    let (authorization, escrow) = authorize(&spend, &signed)?;
    confirm_by_code(&spend, &signed, &world.source.payers()).await?;

    let own = Account::of(world.payer.clone(), &world).await?;
    let theirs = Account::of(key(31), &world).await?;
    own.deploy(&world).await?;
    theirs.deploy(&world).await?;
    let nothing = "0x00000000000000000000000000000000000000fe";
    for refusing in [theirs.address.as_str(), nothing] {
        delegate(&world, refusing).await?;
        let payers = world.source.payers();
        let account = world.payer.address().to_string();
        let refused = OnchainError::Denied(AuthorizationError::RefusedByCode { account });
        assert_eq!(confirm_by_code(&spend, &signed, &payers).await, Err(refused));
        let payment = world.awarded(spend.clone(), authorization.clone(), escrow.clone())?;
        let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await;
        assert!(matches!(prepared, Err(PrepareError::Refused(_))), "Permit2 says the same: {prepared:?}");
    }
    // Code that was there a moment ago and is gone leaves the key as it was.
    let payers = world.source.payers();
    assert!(confirm_by_code(&spend, &signed, &payers).await.is_err());
    let _: serde_json::Value = world.source.dev.rpc("anvil_setCode", (text(&world.payer), "0x")).await?;
    confirm_by_code(&spend, &signed, &payers).await?;

    delegate(&world, &own.address).await?;
    confirm_by_code(&spend, &signed, &world.source.payers()).await?;
    is_secured(&world, &world.awarded(spend, authorization, escrow)?).await
}

#[tokio::test]
async fn an_account_is_deployed_with_its_first_deposit() -> Result<()> {
    let world = World::start().await?;
    for (seed, scheme) in [(22, Scheme::EvmPermit2Escrow), (23, Scheme::EvmPermit2)] {
        let account = Account::of(key(seed), &world).await?;
        let payers = world.source.payers();
        let spend = account.spend(&world, "first", scheme)?;
        let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
        let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &payers).await?;
        assert_eq!(signature_of(&authorization), wrapped.signature, "the deposit needs the wrapper");
        assert!(!account.is_deployed(&world).await?, "judging changes nothing");

        let payment = world.awarded(spend, authorization, escrow)?;
        is_secured(&world, &payment).await?;
        assert!(account.is_deployed(&world).await?);

        // Wrapped all the same, as wallets do that do not know yet; nothing needs deploying.
        let spend = account.spend(&world, "second", scheme)?;
        let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
        let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &payers).await?;
        assert_eq!(signature_of(&authorization).len(), 2 + 2 * 65, "only what the account takes is kept");
        is_secured(&world, &world.awarded(spend, authorization, escrow)?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_somebody_deploys_first_pays_all_the_same() -> Result<()> {
    let world = World::start().await?;
    let account = Account::of(key(24), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &world.source.payers()).await?;
    let payment = world.awarded(spend, authorization, escrow)?;
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    account.deploy(&world).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?;
    assert!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn an_accounts_first_deposit_that_came_too_late_is_tried_again() -> Result<()> {
    let world = World::start().await?;
    let account = Account::of(key(28), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &world.source.payers()).await?;
    let payment = world.awarded(spend, authorization, escrow)?;
    let late = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    world.end_admissions().await?;
    world.chains.broadcast(&late).await?;
    world.source.mine(1 + DEPTH).await?;
    let state = world.chains.deposit_state(&payment.deposit(), from_ref(&late)).await?;
    assert!(matches!(state, DepositState::Superseded { .. }), "{state:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_factory_does_not_prove_is_refused() -> Result<()> {
    let world = World::start().await?;
    let payers = world.source.payers();
    let account = Account::of(key(25), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let call = account.factory_call(&world)?;

    let other = Account::of(key(26), &world).await?;
    let of_stranger = Account { owner: key(26), factory: account.factory.clone(), address: account.address.clone() };
    for (why, signed) in [
        ("signed by another", of_stranger.signed(&spend, Some(call.clone()))?),
        ("another account is deployed", account.signed(&spend, Some(other.factory_call(&world)?))?),
        ("nothing is deployed", account.signed(&spend, Some(Vec::new()))?),
    ] {
        let refused = authorize_onchain(&spend, &signed, &payers).await;
        let denied = matches!(&refused, Err(OnchainError::Denied(AuthorizationError::RefusedByContract { .. })));
        assert!(denied, "{why}: {refused:?}");
    }
    for garbage in ["00", "ffff", &"00".repeat(96)] {
        let mut signed = account.signed(&spend, None)?;
        signed.signature = format!("0x{garbage}{}", "6492".repeat(16));
        let refused = authorize_onchain(&spend, &signed, &payers).await;
        assert!(matches!(refused, Err(OnchainError::Denied(_))), "{garbage}: {refused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deposit_whose_account_cannot_be_deployed_is_refused_with_the_reason() -> Result<()> {
    let world = World::start().await?;
    let account = Account::of(key(27), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &world.source.payers()).await?;
    let payment = world.awarded(spend, authorization, escrow)?;
    let _: serde_json::Value = world.source.dev.rpc("anvil_setCode", (&account.factory, "0x00")).await?;
    match world.chains.prepare_deposit(&payment.deposit(), 1).await {
        Err(PrepareError::Refused(refusal)) => {
            let context = refusal.context;
            assert!(context.revert_reason.unwrap().starts_with("AccountNotDeployed"));
            assert_eq!(context.contract_address.as_deref(), Some(world.source.contracts.escrow.as_str()));
        }
        other => bail!("not refused: {other:?}"),
    }
    Ok(())
}

/// What turns between the trial and the block is charged to the account, to what was to deploy it, and to all like it.
#[tokio::test]
async fn what_a_deposit_of_a_contract_costs_in_vain_is_counted_once() -> Result<()> {
    let world = World::start().await?;
    let (node, dev, now) = (&world.source.node, &world.source.dev, world.clock.now());
    let payers = world.source.payers();
    // A key's account is charged nothing.
    let by_key = world.payment("by-key")?;
    let prepared = world.chains.prepare_deposit(&by_key.deposit(), 1).await?;
    let key_account = BudgetKey::account(node.chain_id(), &text(&world.payer));
    assert_eq!(world.budgets.charged(&key_account, &Purpose::deposit(by_key.id(), 1)).await?, None);
    world.chains.broadcast(&prepared).await?;
    // A deposit that lands costs nothing in vain.
    let lands = Account::of(key(30), &world).await?;
    let spend = lands.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let signed = lands.signed(&spend, Some(lands.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &signed, &payers).await?;
    let own =
        payers.contract_payer(&lands.address.parse()?, &authorization).await?.context("a contract")?.budgets(node)[0]
            .clone();
    let payment = world.awarded(spend, authorization, escrow)?;
    is_secured(&world, &payment).await?;
    assert_eq!(world.budgets.charged(&own.key, &Purpose::deposit(payment.id(), 1)).await?, None);
    assert_eq!(budget::room(&*world.budgets, from_ref(&own), own.gas_max, now).await?, None);

    let account = Account::of(key(29), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &payers).await?;
    let payer =
        payers.contract_payer(&account.address.parse()?, &authorization).await?.context("it becomes a contract")?;
    let budgets = payer.budgets(node);
    let payment = world.awarded(spend, authorization, escrow)?;
    let purpose = Purpose::deposit(payment.id(), 1);
    let prepared = world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    let others = world.budgets.charged(&budgets[0].key, &purpose).await?.context("it is charged before it is sent")?;
    assert_eq!(others, [BudgetKey::factory(node.chain_id(), &account.factory), BudgetKey::chain(node.chain_id())]);

    let _: serde_json::Value = dev.rpc("anvil_setCode", (&account.factory, "0x00")).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    world.end_admissions().await?;
    for _ in 0..2 {
        let state = world.chains.deposit_state(&payment.deposit(), from_ref(&prepared)).await?;
        assert!(matches!(state, DepositState::Reverted(_)), "{state:?}");
    }
    let receipt =
        world.source.query().receipt(prepared.transaction_hash.parse()?).await?.context("it is in a block")?;
    assert!(!receipt.success);
    for budget in &budgets {
        let left = budget.gas_max - receipt.gas_used;
        let of = from_ref(budget);
        assert_eq!(budget::room(&*world.budgets, of, left, now).await?, None);
        assert!(budget::room(&*world.budgets, of, left + 1, now).await?.is_some(), "{budget:?}");
    }
    Ok(())
}

/// A key at a service that is away.
#[derive(Debug)]
struct Away(PrivateKeySigner);

#[async_trait::async_trait]
impl Signer<Secp256k1> for Away {
    fn public(&self) -> Address {
        self.0.address()
    }

    async fn sign(&self, _: Hash, _: &[u8]) -> Result<Signature, SignError> {
        Err(SignError::Unreachable { key: "the service".to_owned(), reason: "no answer in time".to_owned() })
    }

    async fn check(&self) -> Result<(), SignError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_contract_is_not_charged_for_a_deposit_that_nobody_signed() -> Result<()> {
    let world = World::start().await?;
    let (source, payers) = (&world.source, world.source.payers());
    let account = Account::of(key(29), &world).await?;
    let spend = account.spend(&world, "order", Scheme::EvmPermit2Escrow)?;
    let wrapped = account.signed(&spend, Some(account.factory_call(&world)?))?;
    let (authorization, escrow) = authorize_onchain(&spend, &wrapped, &payers).await?;
    let payer = payers.contract_payer(&account.address.parse()?, &authorization).await?.context("a contract")?;
    let payment = world.awarded(spend, authorization, escrow)?;
    let purpose = Purpose::deposit(payment.id(), 1);
    let charged = async || -> Result<usize> {
        let mut charged = 0;
        for budget in payer.budgets(&source.node) {
            charged += usize::from(world.budgets.charged(&budget.key, &purpose).await?.is_some());
        }
        Ok(charged)
    };
    let keys = Keys {
        reserver: key(2).into(),
        draining_reservers: Vec::new(),
        submitters: vec![Secp256k1Key::new(Away(world.submitter.clone()))],
        exit_submitters: Vec::new(),
        draining_submitters: Vec::new(),
    };
    let (ledger, budgets, clock) = (world.ledger.clone(), world.budgets.clone(), world.clock.clone());
    let away = EvmChain::new(source.node.clone(), Some(keys), ledger, budgets, clock)?;
    for _ in 0..2 {
        let unsigned = away.prepare_deposit(&payment.deposit(), 1).await;
        assert!(matches!(unsigned, Err(PrepareError::Transient(_))), "{unsigned:?}");
        assert_eq!(charged().await?, 0);
    }
    // What another gateway signed stays charged.
    world.chains.prepare_deposit(&payment.deposit(), 1).await?;
    assert_eq!(charged().await?, 3);
    assert!(away.prepare_deposit(&payment.deposit(), 1).await.is_err());
    assert_eq!(charged().await?, 3);
    Ok(())
}

/// A key's account runs nothing, but takes back what its deposits draw from. What they cost then counts against it alone, once,
/// whoever sees their end, and shuts it out in the end. One that lands, or comes too late, does not.
#[tokio::test]
async fn what_deposits_of_a_key_cost_in_vain_is_counted_once_and_bounded() -> Result<()> {
    let world = World::start().await?;
    let (node, source, now) = (&world.source.node, &world.source, world.clock.now());
    let gas = &node.config().gas;
    let key = BudgetKey::account(node.chain_id(), &text(&world.payer));
    let window = TimeDelta::seconds(gas.loss_window_seconds.cast_signed());
    let own = Budget { key, gas_max: gas.account_loss_max, window };
    let lost = async |units: u64| -> Result<bool> {
        let has_left = budget::room(&*world.budgets, from_ref(&own), own.gas_max - units, now).await?.is_none();
        let has_more = budget::room(&*world.budgets, from_ref(&own), own.gas_max - units + 1, now).await?.is_none();
        Ok(has_left && !(units > 0 && has_more))
    };
    let ended = async |payment: &Payment, prepared: &TransactionPrepared| -> Result<DepositState> {
        world.chains.broadcast(prepared).await?;
        source.mine(1 + DEPTH).await?;
        world.end_admissions().await?;
        source.mine(DEPTH).await?;
        Ok(world.chains.deposit_state(&payment.deposit(), from_ref(prepared)).await?)
    };
    is_secured(&world, &world.payment("lands")?).await?;
    let late = world.payment("late")?;
    let prepared = world.chains.prepare_deposit(&late.deposit(), 1).await?;
    world.end_admissions().await?;
    let state = ended(&late, &prepared).await?;
    assert!(matches!(state, DepositState::Superseded { .. }), "{state:?}");
    assert!(lost(0).await?);

    let (first, second) = (world.payment("first")?, world.payment("second")?);
    let prepared = [&first, &second].map(|payment| payment.deposit());
    let prepared =
        [world.chains.prepare_deposit(&prepared[0], 1).await?, world.chains.prepare_deposit(&prepared[1], 1).await?];
    source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::ZERO).await?;
    world.chains.broadcast(&prepared[0]).await?;
    ended(&second, &prepared[1]).await?;
    let mut used = 0;
    for (payment, prepared) in [&second, &first].into_iter().zip(prepared.iter().rev()) {
        let state = world.chains.deposit_state(&payment.deposit(), from_ref(prepared)).await?;
        assert!(matches!(state, DepositState::Reverted(_)), "{state:?}");
        // The end is looked at again, as after an append of unknown outcome.
        world.chains.deposit_state(&payment.deposit(), from_ref(prepared)).await?;
        let receipt = source.query().receipt(prepared.transaction_hash.parse()?).await?.context("it is in a block")?;
        used += receipt.gas_used;
        assert!(lost(used).await?, "{used}");
    }

    // Others have lost all that there is of it; the same key is told when it may come again.
    source.dev.approve(&world.payer, &source.token, &source.contracts.permit2, U256::MAX).await?;
    let purpose = Purpose("pay_another/deposit/1".to_owned());
    let rest = Budget { gas_max: u64::MAX, ..own.clone() };
    world.budgets.charge_one(&rest, &purpose, own.gas_max - used, &[], now).await?;
    world.budgets.close_one(&own.key, &purpose, own.gas_max - used, now).await?;
    match world.chains.prepare_deposit(&world.payment("shut-out")?.deposit(), 1).await {
        Err(PrepareError::Refused(refusal)) => {
            let reason = refusal.context.revert_reason.context("a reason")?;
            assert!(reason.contains("deposits of this account came to nothing too often"), "{reason}");
        }
        other => bail!("not refused: {other:?}"),
    }
    Ok(())
}
