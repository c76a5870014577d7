//! Payments under a mandate (ADR 159): what a merchant asks for and what is deposited of it, on a real chain.

use alloy::primitives::{Bytes, U256};
use anyhow::{Result, ensure};
use serde_json::json;

use chains::auditor::{Audit, Discrepancy, Kind};
use chains_evm::{
    auditor::Auditor,
    authorization::{
        Choice, PreparedMandate, Scheme, SignedMessage, SpendRequest, authorize, prepare, prepare_mandate,
    },
};
use events::{
    Account, Hash32,
    event::{Authorization, Mandate, MandateCharge},
};
use sagas::ports::{Chains, DepositOrder, PrepareError};

use crate::support::{CAP, DELIVERED, DEPTH, Payment, World, key, sign, text};

/// An hour.
const PERIOD: u32 = 3_600;
/// Whose merchant asks.
const MERCHANT: u8 = 30;

/// Two payments like those of [`World::spend`] in each of two hours.
async fn mandate(world: &World) -> Result<Mandate> {
    Ok(Mandate {
        merchant: text(&key(MERCHANT)).parse()?,
        amount: (2 * CAP).to_string().parse()?,
        least: Some((2 * DELIVERED).to_string().parse()?),
        begins: world.now().await?,
        period_seconds: PERIOD,
        periods: 2,
        lock_seconds: PERIOD,
        salt: Hash32([3; 32]),
    })
}

fn prepared(mandate: &Mandate, spend: &SpendRequest) -> Result<PreparedMandate> {
    let escrow = &spend.escrow;
    Ok(prepare_mandate(mandate, &spend.terms, (&escrow.contract, &escrow.releaser, &escrow.permit2))?)
}

/// A payment that the merchant asks for, awarded. The payer's signature for the mandate is beside it.
fn asked(world: &World, mandate: &Mandate, id: &str) -> Result<Payment> {
    let spend = world.spend(id, Scheme::EvmPermit2Mandate, &world.destination.asset())?;
    let permit = sign(&world.payer, prepared(mandate, &spend)?.digest, None)?.signature;
    let payload = json!({"mandate": mandate, "permit": permit});
    let asked = prepare(&spend, &Choice::from_payload(Some(&payload))?)?;
    let signed = sign(&key(MERCHANT), asked.digest, Some(asked.typed_data.to_string()))?;
    let (authorization, escrow) = authorize(&spend, &SignedMessage { payload: Some(payload), ..signed })?;
    world.awarded(spend, authorization, escrow)
}

fn charge(payment: &Payment) -> &MandateCharge {
    match &payment.authorization {
        Authorization::EvmPermit2Mandate(charge) => charge,
        other => panic!("{other:?}"),
    }
}

/// Whether another attempt is: the first is answered as it was, where there was one.
async fn is_refused(world: &World, order: &DepositOrder, what: &str) -> Result<()> {
    let prepared = world.chains.prepare_deposit(order, 2).await;
    ensure!(matches!(prepared, Err(PrepareError::Refused(_))), "{what}: {prepared:?}");
    Ok(())
}

#[tokio::test]
async fn a_period_is_drawn_up_to_its_amount_and_nothing_once_the_payer_ends_it() -> Result<()> {
    let world = World::start().await?;
    let (mandate, before) = (mandate(&world).await?, world.source.balance(&world.payer).await?);
    let other = Mandate { salt: Hash32([4; 32]), ..mandate.clone() };
    let [one, two, three] = ["one", "two", "three"].map(|id| asked(&world, &mandate, id));
    let (one, two, three) = (one?, two?, three?);
    assert_eq!(world.secure(&one).await?, CAP);
    assert_eq!(world.secure(&two).await?, CAP);
    assert_eq!(world.source.balance(&world.payer).await?, before - 2 * CAP);
    is_refused(&world, &three.deposit(), "a third payment of the hour").await?;

    let unended = asked(&world, &other, "four")?;
    world.chains.prepare_deposit(&unended.deposit(), 1).await?;
    let ends: Bytes = prepared(&other, &unended.spend)?.cancel.0.parse()?;
    world.source.dev.call(&world.payer, charge(&unended).contract.as_str(), ends.to_vec(), U256::ZERO).await?;
    world.source.mine(1 + DEPTH).await?;
    is_refused(&world, &unended.deposit(), "a mandate that its payer has ended").await?;
    assert_eq!(world.source.balance(&world.payer).await?, before - 2 * CAP);
    Ok(())
}

/// Nothing of a payment can be another than its merchant asked for, nor can the mandate be another than its payer signed.
#[tokio::test]
async fn no_payment_is_deposited_or_proven_but_as_it_was_asked_for() -> Result<()> {
    let world = World::start().await?;
    let payment = asked(&world, &mandate(&world).await?, "one")?;
    let auditor = Auditor::new(world.source.node.clone());
    let audited = async |order: &DepositOrder| -> Result<Vec<Discrepancy>> {
        let id = &order.payment_id;
        Ok(auditor.audit_authorization(id, &order.terms, &order.escrow, &order.authorization).await?)
    };
    let order = payment.deposit();
    assert_eq!(audited(&order).await?, []);

    type Alter = fn(&mut MandateCharge);
    let altered: [(&str, Alter); 10] = [
        ("amount", |charge| charge.amount = "999999".parse().unwrap()),
        ("merchant", |charge| charge.mandate.merchant = text(&key(66)).parse().unwrap()),
        ("amount of a period", |charge| charge.mandate.amount = "3000000".parse().unwrap()),
        ("least", |charge| charge.mandate.least = None),
        ("begins", |charge| charge.mandate.begins -= 1),
        ("period_seconds", |charge| charge.mandate.period_seconds += 1),
        ("periods", |charge| charge.mandate.periods += 1),
        ("lock_seconds", |charge| charge.mandate.lock_seconds += 1),
        ("salt", |charge| charge.mandate.salt = Hash32([7; 32])),
        ("the merchant's signature", |charge| charge.signature = format!("0x{}1b", "07".repeat(64))),
    ];
    for (what, alter) in altered {
        let mut forged = charge(&payment).clone();
        alter(&mut forged);
        let forged = DepositOrder { authorization: Authorization::EvmPermit2Mandate(forged), ..order.clone() };
        let found = audited(&forged).await?;
        assert!(found.iter().any(|found| found.kind == Kind::Contradiction), "{what}: {found:?}");
        is_refused(&world, &forged, what).await?;
    }
    // What the deposit does not bring to the contract is the auditor's alone to see.
    let stranger = || -> Account { text(&key(66)).parse().unwrap() };
    let only_audited: [(&str, Alter); 4] = [
        ("address", |charge| charge.address = text(&key(66)).parse().unwrap()),
        ("contract", |charge| charge.contract = text(&key(66)).parse().unwrap()),
        ("implementation", |charge| charge.implementation = text(&key(66)).parse().unwrap()),
        ("the payer's signature", |charge| charge.permit = Some(charge.signature.clone())),
    ];
    for (what, alter) in only_audited {
        let mut forged = charge(&payment).clone();
        alter(&mut forged);
        let authorization = Authorization::EvmPermit2Mandate(forged);
        let found = audited(&DepositOrder { authorization, ..order.clone() }).await?;
        assert!(found.iter().any(|found| found.kind == Kind::Contradiction), "{what}: {found:?}");
    }
    // A payer that signed nothing gave the allowance itself, or nothing would be drawn.
    let unsigned = MandateCharge { permit: None, ..charge(&payment).clone() };
    let unsigned = DepositOrder { authorization: Authorization::EvmPermit2Mandate(unsigned), ..order.clone() };
    assert_eq!(audited(&unsigned).await?, []);
    is_refused(&world, &unsigned, "no signature of the payer's and no allowance").await?;

    // Another payment, or the same with other windows, another reserver or another escrow.
    let plan = |change: fn(&mut events::event::EscrowPlan)| {
        let mut changed = order.clone();
        change(&mut changed.escrow);
        changed
    };
    let longer = plan(|plan| plan.refund_after += 1);
    let later = plan(|plan| plan.reserve_deadline -= 1);
    let mut elsewhere = order.clone();
    elsewhere.escrow.contract = stranger();
    let another = DepositOrder { payment_id: asked(&world, &mandate(&world).await?, "two")?.id().clone(), ..order };
    for (what, forged) in
        [("refund_after", &longer), ("reserve_deadline", &later), ("escrow", &elsewhere), ("another payment", &another)]
    {
        assert!(!audited(forged).await?.is_empty(), "{what}");
    }
    for (what, forged) in [("refund_after", &longer), ("reserve_deadline", &later), ("another payment", &another)] {
        is_refused(&world, forged, what).await?;
    }
    // As it was asked for, it is deposited.
    assert_eq!(world.secure(&payment).await?, CAP);
    is_refused(&world, &payment.deposit(), "an id is deposited once").await
}
