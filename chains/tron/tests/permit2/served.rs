//! Where payers may sign for Permit2: by the escrow's word, the configuration's and the contract's own, of which no node decides alone.

use alloy::primitives::{Address, B256, U256};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use chains::config::NodeConfig;
use chains_tron::{
    address::{address, api, parse_address, text},
    authorization::{OnchainError, confirm_permit},
    deploy::Permit2,
    node::Node,
    permit2::{is_used, served_from},
};
use escrow_abi::eip712::permit2_domain;
use events::{Account, Hash32};

use crate::{
    belief::calls,
    support::{
        World, account, holder, key,
        liar::Liar,
        payment::{CAP, next_id},
    },
};

/// The Permit2 of `escrow`, where this one is configured.
async fn served(world: &World, configured: Option<&str>, escrow: &Account) -> Result<Option<Address>> {
    let mut config = world.config();
    config.permit2 = configured.map(str::parse).transpose()?;
    Ok(served_from(&Node::connect(&config)?, escrow).await?)
}

/// What runs at an address, hex.
async fn runtime(world: &World, contract: &str) -> Result<String> {
    let asked = json!({"value": contract, "visible": true});
    let info: Value = world.dev.control("../wallet/getcontractinfo", asked).await?;
    Ok(info["runtimecode"].as_str().context("no code")?.to_owned())
}

/// Puts code where `key` has its account.
async fn planted(world: &World, seed: u8, code: &str) -> Result<Account> {
    let place = holder(&key(seed));
    world.dev.control("code", json!({"address": place.to_string(), "code": code})).await?;
    Ok(place)
}

/// An escrow that draws by `permit2`.
async fn drawing_by(world: &World, seed: u8, permit2: Address) -> Result<Account> {
    let own = hex::encode(parse_address(&world.contracts.permit2)?);
    let code = runtime(world, &world.contracts.escrow).await?;
    assert!(code.contains(&own));
    planted(world, seed, &code.replace(&own, &hex::encode(permit2))).await
}

#[tokio::test]
async fn payers_sign_for_the_permit2_that_is_configured_and_that_their_escrow_draws_by() -> Result<()> {
    let world = World::start().await?;
    let (escrow, permit2) = (world.contracts.escrow.parse()?, world.contracts.permit2.clone());
    let own = parse_address(&permit2)?;
    assert_eq!(served(&world, Some(&permit2), &escrow).await?, Some(own));
    assert_eq!(served(&world, None, &escrow).await?, None);
    for other in [world.contracts.proxy.as_str(), world.token.as_str(), account(&key(99)).as_str()] {
        assert_eq!(served(&world, Some(other), &escrow).await?, None, "{other}");
    }
    // An escrow that was deployed without, and what is none.
    let without = world.another_escrow(&key(50), Permit2::None).await?;
    assert_eq!(without.permit2, None);
    for escrow in [&without.escrow, &without.proxy] {
        assert_eq!(served(&world, Some(&permit2), escrow).await?, None, "{escrow}");
    }
    let same = world.another_escrow(&key(50), world.permit2()).await?;
    assert_eq!(same.permit2.as_ref().map(Account::as_str), Some(permit2.as_str()));
    assert_eq!(served(&world, Some(&permit2), &same.escrow).await?, Some(own));
    Ok(())
}

/// What payers sign would count for nothing, or on another chain.
#[tokio::test]
async fn one_that_verifies_in_another_domain_is_not_served() -> Result<()> {
    let world = World::start().await?;
    let chain = u64::from(world.node().reference());
    let own = parse_address(&world.contracts.permit2)?;
    let code = runtime(&world, &world.contracts.permit2).await?;
    let domain = |chain: u64, permit2: Address| hex::encode(permit2_domain(chain, permit2).separator());
    assert!(code.contains(&domain(chain, own)));
    let place = address(&holder(&key(60)))?;
    for (separator, is_served) in [
        (domain(chain, place), true),
        // The code as it is elsewhere: bound to that address.
        (domain(chain, own), false),
        (domain(1, place), false),
        (hex::encode(B256::ZERO), false),
    ] {
        planted(&world, 60, &code.replace(&domain(chain, own), &separator)).await?;
        let escrow = drawing_by(&world, 61, place).await?;
        let found = served(&world, Some(&text(place)), &escrow).await?;
        assert_eq!(found, is_served.then_some(place), "{separator}");
    }
    // A contract without a domain, and none at all.
    let escrow = drawing_by(&world, 61, address(&holder(&key(62)))?).await?;
    assert_eq!(served(&world, Some(&account(&key(62))), &escrow).await?, None);
    assert_eq!(served(&world, Some(&account(&key(62))), &holder(&key(63))).await?, None);
    planted(&world, 60, &runtime(&world, &world.contracts.proxy).await?).await?;
    let escrow = drawing_by(&world, 61, place).await?;
    assert_eq!(served(&world, Some(&text(place)), &escrow).await?, None);
    Ok(())
}

#[tokio::test]
async fn what_one_of_two_nodes_says_of_a_permit2_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    let (liar, own) = (Liar::before(&world.tron.url()).await?, world.tron.url());
    let escrow: Account = world.contracts.escrow.parse()?;
    let forged = |word: B256| move |answer: &mut Value| answer["constant_result"][0] = json!(hex::encode(word));
    for urls in [[liar.url.as_str(), &own], [&own, &liar.url]] {
        let mut config = world.config();
        config.common.rpc_urls = urls.into_iter().map(NodeConfig::new).collect();
        let node = Node::connect(&config)?;
        for (called, word) in [
            ("permit2()", address(&holder(&key(99)))?.into_word()),
            ("permit2()", B256::ZERO),
            ("DOMAIN_SEPARATOR()", B256::repeat_byte(7)),
        ] {
            let lie = forged(word);
            liar.tell(move |path, request, mut answer| {
                if calls(path, request, called) {
                    lie(&mut answer);
                }
                answer
            });
            let said = served_from(&node, &escrow).await;
            assert!(said.as_ref().is_err_and(|fault| fault.to_string().contains("do not say the same")), "{said:?}");
        }
        liar.be_honest();
        assert_eq!(served_from(&node, &escrow).await?, Some(parse_address(&world.contracts.permit2)?));
    }
    Ok(())
}

/// Permit2 goes by the key alone, and an account may have given its rights to others.
#[tokio::test]
async fn a_payer_whose_key_does_not_sign_for_its_account_is_refused() -> Result<()> {
    let world = World::start().await?;
    let liar = Liar::before(&world.tron.url()).await?;
    let node = world.node_at(&liar.url);
    let until = world.time().await? + 600;
    let spend = world.request(&world.payer, next_id(&world.payer), CAP, until - 300, until)?;
    confirm_permit(&spend, &node).await?;
    let (mine, other) = (api(world.payer.address()), api(key(7).address()));
    let permission = |threshold: i64, keys: &[(&str, i64)]| {
        let keys: Vec<_> = keys.iter().map(|(address, weight)| json!({"address": address, "weight": weight})).collect();
        json!({"address": mine, "owner_permission": {"threshold": threshold, "keys": keys}})
    };
    for enough in [permission(1, &[(&mine, 1)]), permission(2, &[(&other, 1), (&mine, 2)]), json!({"address": mine})] {
        liar.say("wallet/getaccount", enough);
        confirm_permit(&spend, &node).await?;
    }
    for less in [
        permission(1, &[(&other, 1)]),
        permission(2, &[(&mine, 1), (&other, 1)]),
        permission(1, &[(&mine, 0)]),
        permission(1, &[]),
        // An account that is not activated has approved nothing.
        json!({}),
    ] {
        liar.say("wallet/getaccount", less.clone());
        match confirm_permit(&spend, &node).await {
            Err(OnchainError::Denied(denied)) => {
                assert_eq!((denied.message, denied.error.field()), (Some(0), "signature"))
            }
            other => bail!("{less}: {other:?}"),
        }
    }
    liar.say("wallet/getaccount", json!({"address": other}));
    let unknown = confirm_permit(&spend, &node).await;
    assert!(matches!(unknown, Err(OnchainError::Transient(_))), "{unknown:?}");
    Ok(())
}

#[tokio::test]
async fn a_nonce_is_used_where_its_own_bit_says_so() -> Result<()> {
    let world = World::start().await?;
    let permit2: Account = world.contracts.permit2.parse()?;
    let payer = holder(&world.payer);
    let nonce = |number: u64| Hash32(U256::from(number).to_be_bytes());
    let call = super::ends::invalidateUnorderedNoncesCall { wordPos: U256::from(2), mask: U256::from(0b101) << 7 };
    let call = alloy::sol_types::SolCall::abi_encode(&call);
    world.dev.execute(&world.payer, &world.contracts.permit2, call, 0).await?;
    for number in [2 * 256 + 7, 2 * 256 + 9] {
        assert!(is_used(&world.node(), &permit2, &payer, nonce(number)).await?, "{number}");
        assert!(!is_used(&world.node(), &permit2, &holder(&key(7)), nonce(number)).await?, "another's");
    }
    for number in [7, 9, 2 * 256 + 6, 2 * 256 + 8, 3 * 256 + 7, 2 * 256 + 255] {
        assert!(!is_used(&world.node(), &permit2, &payer, nonce(number)).await?, "{number}");
    }
    // What is no Permit2 tells nothing.
    let other = is_used(&world.node(), &world.contracts.proxy.parse()?, &payer, nonce(1)).await;
    assert!(other.is_err(), "{other:?}");
    Ok(())
}
