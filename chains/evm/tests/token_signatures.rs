//! Payers whose token takes their signatures: transfers into the escrow (ERC-3009), and allowances (ERC-2612), against a token like
//! Circle's on a real chain.

use std::slice::from_ref;

use alloy::{primitives::U256, signers::local::PrivateKeySigner, sol_types::SolCall};
use anyhow::{Result, bail};
use serde_json::Value;

use chains::auditor::{Audit, Kind};
use chains_evm::{
    auditor::Auditor,
    authorization::{self, AuthorizationError, Choice, Scheme, SignedMessage, SpendRequest, authorize, prepare},
    batching::Views,
    token_domain::{TokenDomain, TokenSignatures, Tokens},
};
use escrow_abi::contracts::{DevStablecoin, parse_address};
use events::{
    Hash32,
    event::{Authorization, EscrowPlan},
};
use sagas::ports::{Chains, DepositState, PrepareError};

use crate::support::{CAP, DEPTH, PRICE, Payment, World, key, sign, text};

const NAME: &str = "Development USD Coin";

/// A world whose source has a token that takes signatures, of which the payer has some, and allowed nobody any.
async fn world() -> Result<World> {
    let mut world = World::start().await?;
    let source = &mut world.source;
    source.token = source.dev.deploy_stablecoin(NAME, "dUSDC", 6).await?;
    source.dev.mint(&source.token, &text(&world.payer), U256::from(10 * CAP)).await?;
    Ok(world)
}

fn tokens(world: &World) -> Tokens {
    Tokens::new(Views::new(world.source.node.clone()))
}

fn domain() -> TokenDomain {
    TokenDomain { name: NAME.to_owned(), version: "1".to_owned() }
}

fn spend(world: &World, request_id: &str, scheme: Scheme) -> Result<SpendRequest> {
    let spend = world.spend(request_id, scheme, &world.destination.asset())?;
    Ok(SpendRequest { token: (scheme == Scheme::EvmEip3009).then(domain), ..spend })
}

/// What the payer signs, as `prepare` answers it.
fn signed(spend: &SpendRequest, payer: &PrivateKeySigner) -> Result<SignedMessage> {
    let prepared = prepare(spend, &Choice::default())?;
    let signed = sign(payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    Ok(SignedMessage { payload: Some(prepared.payload), ..signed })
}

fn transfer(world: &World, request_id: &str) -> Result<Payment> {
    let spend = spend(world, request_id, Scheme::EvmEip3009)?;
    let (authorization, escrow) = authorize(&spend, &signed(&spend, &world.payer)?)?;
    world.awarded(spend, authorization, escrow)
}

/// A payment by Permit2, whose allowance is signed with the nonce that the token has for the payer next.
async fn permitted(world: &World, request_id: &str, scheme: Scheme) -> Result<Payment> {
    let spend = spend(world, request_id, scheme)?;
    let (authorization, escrow) = authorize(&spend, &signed(&spend, &world.payer)?)?;
    let token = parse_address(&world.source.token)?;
    let nonce = tokens(world).permit_nonce(token, world.payer.address()).await?;
    let prepared = authorization::prepare_allowance(&spend, &domain(), nonce, escrow.reserve_deadline)?;
    let message = sign(&world.payer, prepared.digest, Some(prepared.typed_data.to_string()))?;
    assert!(authorization::is_allowance(&message));
    let allowance = authorization::allowance(&spend, &message, escrow.reserve_deadline)?;
    let authorization = match authorization {
        Authorization::EvmPermit2Escrow(mut permit) => {
            permit.allowance = Some(allowance);
            Authorization::EvmPermit2Escrow(permit)
        }
        Authorization::EvmPermit2(mut permit) => {
            permit.allowance = Some(allowance);
            Authorization::EvmPermit2(permit)
        }
        other => bail!("not for Permit2: {other:?}"),
    };
    world.awarded(spend, authorization, escrow)
}

async fn discrepancies(world: &World, payment: &Payment) -> Result<Vec<Kind>> {
    let auditor = Auditor::new(world.source.node.clone());
    let (terms, plan) = (&payment.spend.terms, &payment.escrow);
    let found = auditor.audit_authorization(payment.id(), terms, plan, &payment.authorization).await?;
    Ok(found.into_iter().map(|discrepancy| discrepancy.kind).collect())
}

#[tokio::test]
async fn a_token_says_which_signatures_it_takes() -> Result<()> {
    let world = world().await?;
    let source = &world.source;
    let signatures = |token: &str| {
        let (tokens, token) = (tokens(&world), parse_address(token));
        async move { anyhow::Ok(tokens.signatures(token?).await?) }
    };
    let all = TokenSignatures { domain: domain(), receives: true, transfers: true, permits: true };
    assert_eq!(signatures(&source.token).await?, Some(all));
    let plain = source.dev.deploy_token("Development USD", "dUSD", 6).await?;
    assert_eq!(signatures(&plain).await?, None);
    // Neither a contract that is no token, nor nobody.
    assert_eq!(signatures(&source.contracts.permit2).await?, None);
    assert_eq!(signatures(&text(&world.payer)).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_signed_transfer_is_deposited_whole_without_an_allowance_or_a_coin_of_the_payer_s() -> Result<()> {
    let world = world().await?;
    let payer = key(40);
    world.source.dev.mint(&world.source.token, &text(&payer), U256::from(2 * CAP)).await?;
    assert_eq!(world.source.dev.balance(&text(&payer)).await?, U256::ZERO);
    let world = World { payer, ..world };
    let payment = transfer(&world, "order")?;
    let order = payment.deposit();
    assert!(payment.authorization.is_drawn_whole());
    assert_eq!(discrepancies(&world, &payment).await?, []);

    let prepared = world.chains.prepare_deposit(&order, 1).await?;
    world.chains.broadcast(&prepared).await?;
    world.source.mine(1 + DEPTH).await?;
    let DepositState::Secured(secured) = world.chains.deposit_state(&order, from_ref(&prepared)).await? else {
        bail!("not secured");
    };
    assert_eq!(secured.amount.to_string(), CAP.to_string(), "the award asks for {PRICE}");
    assert_eq!(world.source.balance(&world.payer).await?, CAP);
    let Authorization::EvmEip3009(transfer) = &payment.authorization else { bail!("{:?}", payment.authorization) };
    let token = parse_address(&world.source.token)?;
    assert!(tokens(&world).is_used(token, world.payer.address(), transfer.nonce.0.into()).await?);

    // The same signature serves for nothing more.
    match world.chains.prepare_deposit(&order, 2).await {
        Err(PrepareError::Refused(_)) => Ok(()),
        other => bail!("not refused: {other:?}"),
    }
}

/// The nonce is the hash of the deposit, so nothing of it can be another than the payer signed.
#[tokio::test]
async fn no_deposit_but_the_one_that_was_signed_can_be_made_of_a_transfer() -> Result<()> {
    let world = world().await?;
    let payment = transfer(&world, "order")?;
    let other = transfer(&world, "another order")?;
    type Alter = fn(&mut EscrowPlan);
    let altered: [(&str, Alter); 3] = [
        ("refund later", |plan| plan.refund_after += 1_000_000),
        ("another releaser", |plan| plan.releaser = text(&key(66)).parse().unwrap()),
        ("reserve earlier", |plan| plan.reserve_deadline -= 1),
    ];
    for (what, alter) in altered {
        let mut order = payment.deposit();
        alter(&mut order.escrow);
        match world.chains.prepare_deposit(&order, 1).await {
            Err(PrepareError::Refused(_)) => {}
            prepared => bail!("{what}: {prepared:?}"),
        }
    }
    let mut of_another = other.deposit();
    of_another.authorization = payment.authorization.clone();
    assert!(matches!(world.chains.prepare_deposit(&of_another, 1).await, Err(PrepareError::Refused(_))));
    let mut half = payment.deposit();
    if let Authorization::EvmEip3009(transfer) = &mut half.authorization {
        transfer.amount = PRICE.to_string().parse()?;
    }
    assert!(matches!(world.chains.prepare_deposit(&half, 1).await, Err(PrepareError::Refused(_))));
    assert_eq!(world.source.balance(&world.payer).await?, 10 * CAP);
    Ok(())
}

/// A payer may give a nonce up, and a stranger may try to carry out what he saw.
#[tokio::test]
async fn only_the_escrow_carries_a_transfer_out_and_its_payer_gives_it_up() -> Result<()> {
    let world = world().await?;
    let payment = transfer(&world, "order")?;
    let Authorization::EvmEip3009(transfer) = &payment.authorization else { bail!("{:?}", payment.authorization) };
    let (token, signature) = (&world.source.token, hex::decode(&transfer.signature[2..])?);
    let call = DevStablecoin::receiveWithAuthorization_0Call {
        from: world.payer.address(),
        to: parse_address(&world.source.contracts.escrow)?,
        value: transfer.amount.get(),
        validAfter: U256::ZERO,
        validBefore: U256::from(transfer.valid_before),
        nonce: transfer.nonce.0.into(),
        signature: signature.clone().into(),
    };
    let stranger = &world.settler;
    assert!(world.source.dev.call(stranger, token, call.abi_encode(), U256::ZERO).await.is_err());

    let digest = cancellation(&world, transfer.nonce)?;
    let signed = sign(&world.payer, digest, None)?;
    let cancel = DevStablecoin::cancelAuthorization_1Call {
        authorizer: world.payer.address(),
        nonce: transfer.nonce.0.into(),
        signature: hex::decode(&signed.signature[2..])?.into(),
    };
    world.source.dev.call(stranger, token, cancel.abi_encode(), U256::ZERO).await?;
    let (tokens, token) = (tokens(&world), parse_address(token)?);
    assert!(tokens.is_used(token, world.payer.address(), transfer.nonce.0.into()).await?);
    match world.chains.prepare_deposit(&payment.deposit(), 1).await {
        Err(PrepareError::Refused(_)) => Ok(()),
        other => bail!("not refused: {other:?}"),
    }
}

fn cancellation(world: &World, nonce: Hash32) -> Result<Hash32> {
    alloy::sol! {
        struct CancelAuthorization {
            address authorizer;
            bytes32 nonce;
        }
    }
    let message = CancelAuthorization { authorizer: world.payer.address(), nonce: nonce.0.into() };
    let (token, chain) = (parse_address(&world.source.token)?, world.source.node.evm_id());
    let TokenDomain { name, version } = domain();
    let domain = escrow_abi::eip712::token_domain(name, version, chain, token);
    Ok(Hash32(escrow_abi::eip712::digest(&message, &domain).0))
}

#[tokio::test]
async fn a_signed_allowance_comes_with_the_deposit() -> Result<()> {
    let world = world().await?;
    for (id, scheme) in [("witness", Scheme::EvmPermit2Escrow), ("plain", Scheme::EvmPermit2)] {
        let before = world.source.balance(&world.payer).await?;
        let payment = permitted(&world, id, scheme).await?;
        let order = payment.deposit();
        assert_eq!(discrepancies(&world, &payment).await?, []);
        let prepared = world.chains.prepare_deposit(&order, 1).await?;
        world.chains.broadcast(&prepared).await?;
        world.source.mine(1 + DEPTH).await?;
        let DepositState::Secured(secured) = world.chains.deposit_state(&order, from_ref(&prepared)).await? else {
            bail!("{id}: not secured");
        };
        assert_eq!(secured.amount.to_string(), PRICE.to_string());
        assert_eq!(world.source.balance(&world.payer).await?, before - PRICE);
    }
    // Once for all: what follows needs no signature but Permit2's.
    let spend = spend(&world, "third", Scheme::EvmPermit2Escrow)?;
    let (authorization, escrow) = authorize(&spend, &signed(&spend, &world.payer)?)?;
    let payment = world.awarded(spend, authorization, escrow)?;
    world.secure(&payment).await.map(drop)
}

/// Whoever sees it may bring it first; the allowance is there then all the same.
#[tokio::test]
async fn an_allowance_that_a_stranger_brought_first_is_passed_over() -> Result<()> {
    let world = world().await?;
    let payment = permitted(&world, "order", Scheme::EvmPermit2Escrow).await?;
    let Authorization::EvmPermit2Escrow(permit) = &payment.authorization else { bail!("{:?}", payment.authorization) };
    let allowance = permit.allowance.as_ref().unwrap();
    let bytes = hex::decode(&allowance.signature[2..])?;
    let call = DevStablecoin::permit_0Call {
        owner: world.payer.address(),
        spender: parse_address(&world.source.contracts.permit2)?,
        value: allowance.value.get(),
        deadline: U256::from(allowance.deadline),
        signature: bytes.into(),
    };
    world.source.dev.call(&world.settler, &world.source.token, call.abi_encode(), U256::ZERO).await?;
    world.secure(&payment).await?;
    assert_eq!(world.source.balance(&world.payer).await?, 10 * CAP - PRICE);
    Ok(())
}

#[tokio::test]
async fn an_escrow_of_an_earlier_version_takes_no_transfers() -> Result<()> {
    let world = world().await?;
    let escrows = chains_evm::escrows::Escrows::of(&world.source.node);
    let (escrow, proxy) = (&world.source.config.common.escrow_contract, &world.source.config.common.fulfillment_proxy);
    assert!(escrows.takes_transfers(escrow).await?);
    assert!(!escrows.takes_transfers(proxy).await? && !escrows.takes_transfers(&text(&world.payer).parse()?).await?);
    Ok(())
}

/// What a transfer has to say, field by field. Nothing of it needs a chain.
mod offline {
    use super::*;
    use events::{OwnedAsset, PaymentId, Terms, time::from_unix_seconds};

    const QUOTE_DEADLINE: u64 = 1_800_000_000;
    const FULFILLMENT_DEADLINE: u64 = 1_800_000_600;

    fn request() -> SpendRequest {
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), &text(&key(10))).unwrap();
        SpendRequest {
            scheme: Scheme::EvmEip3009,
            payment_id: PaymentId::derive("eip155:0xabc", "order-1"),
            terms: Terms::new(
                owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
                vec![owned("eip155:10/slip44:60")],
                "100".parse().unwrap(),
                Some("110".parse().unwrap()),
            ),
            quote_deadline: from_unix_seconds(QUOTE_DEADLINE).unwrap(),
            fulfillment_deadline: from_unix_seconds(FULFILLMENT_DEADLINE).unwrap(),
            escrow: authorization::EscrowSettings {
                contract: "0x1000000000000000000000000000000000000001".parse().unwrap(),
                reserver: "0x2000000000000000000000000000000000000002".parse().unwrap(),
                releaser: "0x3000000000000000000000000000000000000003".parse().unwrap(),
                permit2: "0x000000000022D473030F116dDEE9F6B43aC78BA3".parse().unwrap(),
                refund_delay_seconds: 900,
            },
            quote_hash: Hash32::ZERO,
            token: Some(domain()),
        }
    }

    /// What is said of typed data that `alter` has altered and the payer has signed as it is then.
    fn altered(request: &SpendRequest, alter: impl Fn(&mut Value)) -> Result<AuthorizationError> {
        let prepared = prepare(request, &Choice::default())?;
        let mut data = prepared.typed_data.clone();
        alter(&mut data);
        let message = SignedMessage {
            payload: Some(prepared.payload),
            ..sign(&key(10), prepared.digest, Some(data.to_string()))?
        };
        match authorize(request, &message) {
            Err(error) => Ok(error),
            Ok(authorized) => bail!("authorized: {authorized:?}"),
        }
    }

    #[test]
    fn what_is_prepared_and_signed_is_authorized() -> Result<()> {
        let request = request();
        let prepared = prepare(&request, &Choice::default())?;
        assert_eq!(prepared.typed_data["primaryType"], "ReceiveWithAuthorization");
        assert_eq!(prepared.typed_data["message"]["value"], "110");
        assert_eq!(prepared.typed_data["message"]["validBefore"], (FULFILLMENT_DEADLINE + 1).to_string());
        assert_eq!(prepared.payload["deposit"]["refundAfter"], (FULFILLMENT_DEADLINE + 900).to_string());
        let message = signed(&request, &key(10))?;
        assert_eq!(authorization::claimed_domain(&message), Some(domain()));
        let (authorization, plan) = authorize(&request, &message)?;
        let Authorization::EvmEip3009(transfer) = authorization else { bail!("{authorization:?}") };
        assert_eq!((transfer.amount.to_string().as_str(), transfer.quote_hash), ("110", Hash32::ZERO));
        assert_eq!(transfer.nonce, prepared.nonce);
        assert_eq!(plan.refund_after, FULFILLMENT_DEADLINE + 900);
        // The digest alone does, too, in the token's domain.
        let bare = SignedMessage { message_prehash: None, ..message };
        assert!(authorize(&request, &bare).is_ok());
        assert!(authorize(&SpendRequest { token: None, ..request }, &bare).is_err());
        Ok(())
    }

    #[test]
    fn every_field_of_a_transfer_is_checked() -> Result<()> {
        const OTHER: &str = "0x00000000000000000000000000000000000000ff";
        let request = request();
        let fields: [(&str, &str, Value); 11] = [
            ("message", "from", OTHER.into()),
            ("message", "to", OTHER.into()),
            ("message", "value", "109".into()),
            ("message", "value", "111".into()),
            ("message", "validAfter", "1".into()),
            ("message", "validBefore", FULFILLMENT_DEADLINE.to_string().into()),
            ("message", "nonce", Hash32::ZERO.to_string().into()),
            ("domain", "name", "Tether USD".into()),
            ("domain", "version", "2".into()),
            ("domain", "chainId", 10.into()),
            ("domain", "verifyingContract", OTHER.into()),
        ];
        for (object, name, value) in fields {
            let error = altered(&request, |data| data[object][name] = value.clone())?;
            assert_eq!(error.field(), format!("{object}.{name}"), "{error}");
        }
        let error = altered(&request, |data| data["primaryType"] = "TransferWithAuthorization".into())?;
        assert_eq!(error.field(), "primaryType");
        let error = altered(&request, |data| data["message"]["extra"] = 1.into())?;
        assert_eq!(error.field(), "message.extra");
        Ok(())
    }

    #[test]
    fn the_windows_are_those_of_the_nonce() -> Result<()> {
        let request = request();
        let choice = Choice { refund_after: Some(FULFILLMENT_DEADLINE + 1_000), ..Choice::default() };
        let prepared = prepare(&request, &choice)?;
        let prehash = Some(prepared.typed_data.to_string());
        let message = SignedMessage { payload: Some(prepared.payload), ..sign(&key(10), prepared.digest, prehash)? };
        assert_eq!(authorize(&request, &message)?.1.refund_after, FULFILLMENT_DEADLINE + 1_000);
        // Whoever hands the message on cannot say that the payer agreed to other windows.
        for (member, value) in [("refund_after", FULFILLMENT_DEADLINE + 900), ("reserve_deadline", QUOTE_DEADLINE + 1)]
        {
            let mut told = message.clone();
            told.payload.as_mut().unwrap()[member] = value.into();
            assert_eq!(authorize(&request, &told).unwrap_err().field(), "message.nonce");
        }
        let sooner = Choice { refund_after: Some(FULFILLMENT_DEADLINE + 899), ..Choice::default() };
        assert_eq!(prepare(&request, &sooner).unwrap_err().field(), "payload.refund_after");
        Ok(())
    }

    #[test]
    fn of_a_quote_that_is_known_no_more_than_the_price_need_be_locked() -> Result<()> {
        let request = SpendRequest { quote_hash: Hash32([7; 32]), ..request() };
        for (amount, is_taken) in [("105", true), ("110", true), ("111", false)] {
            let choice = Choice { permitted_amount: Some(amount.parse()?), ..Choice::default() };
            let prepared = prepare(&request, &choice);
            assert_eq!(prepared.is_ok(), is_taken, "{amount}");
            let Ok(prepared) = prepared else { continue };
            assert_eq!(prepared.payload["permitted_amount"], amount);
            let message = sign(&key(10), prepared.digest, Some(prepared.typed_data.to_string()))?;
            assert_eq!(authorize(&request, &message)?.0.permitted().to_string(), amount);
        }
        Ok(())
    }

    #[test]
    fn every_field_of_an_allowance_is_checked() -> Result<()> {
        const OTHER: &str = "0x00000000000000000000000000000000000000ff";
        let request = SpendRequest { scheme: Scheme::EvmPermit2Escrow, token: None, ..request() };
        let ends = FULFILLMENT_DEADLINE;
        let prepared = authorization::prepare_allowance(&request, &domain(), U256::from(3), ends)?;
        let check = |data: &Value| {
            let message = sign(&key(10), prepared.digest, Some(data.to_string())).unwrap();
            authorization::allowance(&request, &message, ends)
        };
        let permit = check(&prepared.typed_data)?;
        assert_eq!((permit.value.get(), permit.deadline), (U256::MAX, ends));
        assert_eq!(U256::from_be_bytes(permit.nonce.0), U256::from(3));
        let fields: [(&str, Value); 6] = [
            ("message.owner", OTHER.into()),
            ("message.spender", OTHER.into()),
            ("message.value", (U256::MAX - U256::ONE).to_string().into()),
            ("message.deadline", (ends - 1).to_string().into()),
            ("domain.chainId", 10.into()),
            ("domain.verifyingContract", OTHER.into()),
        ];
        for (field, value) in fields {
            let mut data = prepared.typed_data.clone();
            let (object, name) = field.split_once('.').unwrap();
            data[object][name] = value;
            assert_eq!(check(&data).unwrap_err().field(), field);
        }
        // What is not in the request is in the digest.
        let mut data = prepared.typed_data.clone();
        data["message"]["nonce"] = "4".into();
        assert_eq!(check(&data).unwrap_err().field(), "message");
        let stranger = sign(&key(11), prepared.digest, Some(prepared.typed_data.to_string()))?;
        assert_eq!(authorization::allowance(&request, &stranger, ends).unwrap_err().field(), "signature");
        Ok(())
    }
}
