//! Payers who sign nothing, on an EVM chain, on Solana or on Tron: they have an exchange send the money to an address.

use std::time::Duration;

use alloy::{
    primitives::{Address, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail, ensure};
use chrono::{SecondsFormat, Utc};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

use devnet::{
    keys::solana_account,
    payer::{Answer, Payer, PaymentSpec},
};
use escrow_abi::deposit_addresses::{DepositAddresses, GatewayEscrow};
use events::{Hash32, PaymentEvent, PaymentId};
use gateway_program::{host, ids::TOKEN_PROGRAM, message::Deposit};

use super::{AMOUNT, PRICE, World, eventually, solana::solana_key};

/// The most that a payment may cost, which is what has to be sent.
pub const CAP: u64 = 25_500_000;
/// What an exchange has of the token.
const TOKENS: u64 = 1_000_000_000;

/// Where the money is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// On the first EVM chain.
    Evm,
    /// On Solana.
    Solana,
    /// On Tron.
    Tron,
}

impl Source {
    fn spec(self, world: &World, request_id: &str) -> Result<PaymentSpec> {
        match self {
            Self::Evm => world.spec(request_id),
            Self::Solana => world.spec_from_solana(request_id),
            Self::Tron => world.spec_from_tron(request_id),
        }
    }

    fn address(self, text: &str) -> Result<Address> {
        Ok(match self {
            Self::Evm => text.parse()?,
            Self::Tron => chains_tron::address::parse_address(text)?,
            Self::Solana => bail!("{text} is no account of twenty bytes"),
        })
    }

    fn token(self, world: &World) -> Result<&str> {
        Ok(match self {
            Self::Evm => &world.network.source.token,
            Self::Solana => &world.solana()?.token.mint,
            Self::Tron => &world.tron()?.token,
        })
    }

    async fn balance(self, world: &World, account: &str) -> Result<u64> {
        let token = self.token(world)?;
        Ok(match self {
            Self::Evm => world.network.source.dev.token_balance(token, account).await?.to(),
            Self::Solana => {
                let solana = world.solana()?;
                solana.dev.token_balance(&solana.token, account).await?
            }
            Self::Tron => world.tron()?.dev.token_balance(token, account).await?.to(),
        })
    }
}

/// Somebody whose money lies at an exchange, which sends it where it is told to.
pub struct Customer {
    pub payer: Payer,
    exchange: PrivateKeySigner,
    source: Source,
}

/// A payment that waits for its money.
pub struct Given {
    pub payment_id: PaymentId,
    pub quote_request_id: String,
    pub body: Value,
    source: Source,
}

impl Given {
    /// What an address on Solana commits to.
    pub fn solana_terms(&self) -> Result<Deposit> {
        let seconds = |name: &str| self.body["terms"]["deposit"][name].as_u64().unwrap_or_default();
        let account = |pointer: &str| solana_key(self.text(pointer)?);
        let hash = |pointer: &str| anyhow::Ok(self.text(pointer)?.parse::<Hash32>()?.0);
        Ok(Deposit {
            payment_id: hash("/terms/deposit/payment_id")?,
            terms_hash: hash("/terms/deposit/terms_hash")?,
            quote_hash: hash("/terms/deposit/quote_hash")?,
            payer: account("/terms/deposit/payer")?,
            mint: account("/terms/token")?,
            amount: self.text("/terms/amount")?.parse()?,
            reserver: account("/terms/deposit/reserver")?,
            releaser: account("/terms/deposit/releaser")?,
            reserve_deadline: seconds("reserve_deadline"),
            fulfillment_deadline: seconds("fulfillment_deadline"),
            refund_after: seconds("refund_after"),
        })
    }

    /// The last second in which the money can be deposited.
    pub fn reserve_deadline(&self) -> i64 {
        self.body["terms"]["deposit"]["reserve_deadline"].as_i64().unwrap_or_default()
    }

    pub fn text(&self, pointer: &str) -> Result<&str> {
        self.body.pointer(pointer).and_then(Value::as_str).with_context(|| format!("{pointer} of {}", self.body))
    }

    pub fn terms(&self) -> Result<DepositAddresses::Terms> {
        let seconds = |name: &str| self.body["terms"]["deposit"][name].as_u64().unwrap_or_default();
        let account = |pointer: &str| self.source.address(self.text(pointer)?);
        Ok(DepositAddresses::Terms {
            escrow: account("/terms/escrow")?,
            token: account("/terms/token")?,
            amount: self.text("/terms/amount")?.parse()?,
            deposit: GatewayEscrow::GatewayDeposit {
                paymentId: self.text("/terms/deposit/payment_id")?.parse()?,
                termsHash: self.text("/terms/deposit/terms_hash")?.parse()?,
                quoteHash: self.text("/terms/deposit/quote_hash")?.parse()?,
                payer: account("/terms/deposit/payer")?,
                reserver: account("/terms/deposit/reserver")?,
                releaser: account("/terms/deposit/releaser")?,
                reserveDeadline: seconds("reserve_deadline").try_into()?,
                fulfillmentDeadline: seconds("fulfillment_deadline").try_into()?,
                refundAfter: seconds("refund_after").try_into()?,
            },
        })
    }
}

/// The key of the same secret on Solana.
fn solana_key_of(signer: &PrivateKeySigner) -> SigningKey {
    SigningKey::from_bytes(&signer.to_bytes().0)
}

impl Customer {
    pub async fn new(world: &World, source: Source) -> Result<Self> {
        // All are endowed by one account, whose transactions have to follow each other.
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _turn = TURN.lock().await;
        let (exchange, token) = (PrivateKeySigner::random(), source.token(world)?);
        let payer = match source {
            Source::Evm => {
                let (dev, account) = (&world.network.source.dev, exchange.address().to_string());
                dev.mint(token, &account, U256::from(TOKENS)).await?;
                dev.fund(&account, U256::from(10).pow(U256::from(18))).await?;
                Payer::new(PrivateKeySigner::random())?
            }
            Source::Solana => {
                let (solana, key) = (world.solana()?, solana_key_of(&exchange));
                solana.surfnet.airdrop(&solana_account(&key), 1_000_000_000).await?;
                solana.dev.mint(&solana.token, &solana_account(&key), TOKENS).await?;
                let payer = Payer::on_solana(solana_key_of(&PrivateKeySigner::random()))?;
                // Money comes back to a token account that is there, and to no other.
                solana.dev.mint(&solana.token, &payer.account(), 0).await?;
                payer
            }
            Source::Tron => {
                let (dev, account) = (&world.tron()?.dev, chains_tron::address::text(exchange.address()));
                dev.mint(token, &account, U256::from(TOKENS)).await?;
                dev.fund(&account, 10_000_000_000).await?;
                Payer::on_tron(PrivateKeySigner::random())?
            }
        };
        Ok(Self { payer, exchange, source })
    }

    /// What is paid for in every case here, of this customer's chain.
    pub fn spec(&self, world: &World, request_id: &str) -> Result<PaymentSpec> {
        self.source.spec(world, request_id)
    }

    pub async fn given(&self, world: &World, spec: &PaymentSpec, options: Value) -> Result<Given> {
        let opened = self.payer.open(&world.base(0), &self.payer.quote_request(spec), false).await?;
        ensure!(opened.status == 200, "{opened:?}");
        let quote_request_id = opened.text("quote_request_id").to_owned();
        let answer = self.payer.deposit_address(&world.base(0), &quote_request_id, &options).await?;
        ensure!(answer.status == 200, "{answer:?}");
        let payment_id = answer.text("payment_id").parse()?;
        Ok(Given { payment_id, quote_request_id, body: answer.body["deposit_address"].clone(), source: self.source })
    }

    pub async fn send(&self, world: &World, given: &Given, amount: u64) -> Result<()> {
        let (token, to, units) = (self.source.token(world)?, given.text("/address")?, U256::from(amount));
        match self.source {
            Source::Evm => world.network.source.dev.send_token(&self.exchange, token, to, units).await?,
            Source::Solana => {
                let solana = world.solana()?;
                solana.dev.send_token(&solana_key_of(&self.exchange), &solana.token, to, amount).await?;
            }
            Source::Tron => world.tron()?.dev.send_token(&self.exchange, token, to, units).await?,
        }
        Ok(())
    }

    /// Has what is at the address given back, as anyone can.
    pub async fn give_back(&self, world: &World, given: &Given) -> Result<()> {
        let factory = given.text("/factory")?;
        let call = || -> Result<Vec<u8>> {
            let token = self.source.address(self.source.token(world)?)?;
            Ok(DepositAddresses::giveBackCall { t: given.terms()?, token }.abi_encode())
        };
        match self.source {
            Source::Evm => {
                world.network.source.dev.call(&self.exchange, factory, call()?, U256::ZERO).await?;
            }
            Source::Solana => {
                let (program, key, terms) =
                    (solana_key(factory)?, solana_key_of(&self.exchange), given.solana_terms()?);
                let carrier = key.verifying_key().to_bytes();
                let call = host::give_back(&program, carrier, TOKEN_PROGRAM, &terms);
                world.solana()?.dev.run(&key, vec![call]).await?;
            }
            Source::Tron => {
                world.tron()?.dev.execute(&self.exchange, factory, call()?, 0).await?;
            }
        }
        Ok(())
    }

    /// What has come back to the refund account.
    pub async fn returned(&self, world: &World) -> Result<u64> {
        self.source.balance(world, &self.payer.account()).await
    }

    /// What is at the address.
    pub async fn at(&self, world: &World, given: &Given) -> Result<u64> {
        self.source.balance(world, given.text("/address")?).await
    }
}

/// The time so many seconds from now, as requests have it.
pub fn after(seconds: u64) -> String {
    (Utc::now() + Duration::from_secs(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Exactly what was asked for, in two transfers, from an account that nobody knows; the address is judged by `verify` before.
pub async fn in_two_transfers(
    world: &World,
    source: Source,
    verify: impl AsyncFn(&Customer, &Given, &PaymentSpec) -> Result<()>,
) -> Result<PaymentId> {
    let customer = Customer::new(world, source).await?;
    let spec = customer.spec(world, "two-transfers")?;
    let given = customer.given(world, &spec, json!({})).await?;
    verify(&customer, &given, &spec).await?;
    let waiting = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!((waiting.text("status"), &waiting.body["deposit_address"]), ("pending", &given.body), "{waiting:?}");
    customer.send(world, &given, CAP - 1).await?;
    // The same question has the same answer.
    let again = customer.payer.deposit_address(&world.base(0), &given.quote_request_id, &json!({})).await?;
    assert_eq!((&again.body["idempotent_replay"], &again.body["deposit_address"]), (&json!(true), &given.body));
    customer.send(world, &given, 1).await?;
    world.completed(&given.payment_id).await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, &given).await?), (CAP - PRICE, 0));
    let ended = customer.payer.status(&world.base(0), given.payment_id.as_str()).await?;
    assert_eq!(ended.body["deposit_address"]["received"], CAP.to_string(), "{ended:?}");
    Ok(given.payment_id)
}

/// More than was asked for goes into escrow, and what is over comes back with the release; what comes after that anybody sends back.
pub async fn too_much_and_twice(world: &World, source: Source) -> Result<PaymentId> {
    let customer = Customer::new(world, source).await?;
    let options = json!({"amount": CAP.to_string(), "pay_by": after(60)});
    let given = customer.given(world, &customer.spec(world, "too-much")?, options).await?;
    customer.send(world, &given, 2 * CAP).await?;
    world.completed(&given.payment_id).await?;
    let Some(PaymentEvent::EscrowSecured(secured)) = world.events(&given.payment_id, "EscrowSecured").await?.pop()
    else {
        anyhow::bail!("{} was not deposited", given.payment_id)
    };
    assert_eq!(secured.amount.get(), U256::from(2 * CAP));
    assert_eq!(customer.returned(world).await?, 2 * CAP - PRICE);
    customer.send(world, &given, CAP).await?;
    customer.give_back(world, &given).await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, &given).await?), (3 * CAP - PRICE, 0));
    Ok(given.payment_id)
}

/// Waits until the gateway has brought back what is at the address.
async fn given_back(world: &World, customer: &Customer, given: &Given, amount: u64, code: &str) -> Result<PaymentId> {
    let outcome: Answer = world.outcome(&given.payment_id).await?;
    assert_eq!((outcome.text("status"), &outcome.body["error"]["code"]), ("failed", &json!(code)), "{outcome:?}");
    assert_eq!(customer.at(world, given).await?, amount);
    world.until(&given.payment_id, "EscrowRefunded").await?;
    assert_eq!((customer.returned(world).await?, customer.at(world, given).await?), (amount, 0));
    let types = world.types(&given.payment_id).await?;
    assert_eq!(types.iter().filter(|event| **event == "AddressHeld").count(), 1, "{types:?}");
    Ok(given.payment_id.clone())
}

pub async fn too_little(world: &World, source: Source) -> Result<PaymentId> {
    let customer = Customer::new(world, source).await?;
    let given = customer.given(world, &customer.spec(world, "too-little")?, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, CAP - 1).await?;
    given_back(world, &customer, &given, CAP - 1, "DEPOSIT_NOT_RECEIVED").await
}

/// The money is there, and nobody delivers for it.
pub async fn no_quotes(world: &World, source: Source) -> Result<PaymentId> {
    let customer = Customer::new(world, source).await?;
    // Less than any settler takes.
    let spec = PaymentSpec { cap: (AMOUNT / 2).to_string().parse()?, ..customer.spec(world, "no-quotes")? };
    let given = customer.given(world, &spec, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, AMOUNT / 2).await?;
    given_back(world, &customer, &given, AMOUNT / 2, "NO_QUOTES_RECEIVED").await
}

/// The payment page as the server writes it, before any script of it ran, says where to send what.
pub async fn page_says(world: &World, given: &Given, sentences: &[&str]) -> Result<()> {
    let page = reqwest::get(format!("{}/pay/{}", world.base(0), given.payment_id)).await?.text().await?;
    for text in [&[given.text("/address")?], sentences].concat() {
        ensure!(page.contains(text), "{text:?} is not in {page}");
    }
    Ok(())
}

/// What does not fit an address is refused, with a reason that begins so or has this in it.
pub async fn refused(world: &World, request: &Value, says: &str) -> Result<()> {
    let opened = world.payer.open(&world.base(0), request, false).await?;
    ensure!(opened.status == 200, "{opened:?}");
    let id = opened.text("quote_request_id");
    let answer: Answer = world.payer.deposit_address(&world.base(0), id, &json!({})).await?;
    ensure!(answer.status == 400 && answer.text("message").contains(says), "{answer:?}");
    Ok(())
}

/// The gateway dies before the money comes back, which a stranger brings about meanwhile, and hides behind returns of dust; then while
/// the money comes. `between` is waited for before the dust.
pub async fn dies(world: &mut World, source: Source, between: impl AsyncFn(&World) -> Result<()>) -> Result<()> {
    let customer = Customer::new(world, source).await?;
    let given = customer.given(world, &customer.spec(world, "died")?, json!({"pay_by": after(12)})).await?;
    customer.send(world, &given, CAP - 1).await?;
    let outcome = world.outcome(&given.payment_id).await?;
    assert_eq!(outcome.body["error"]["code"], "DEPOSIT_NOT_RECEIVED", "{outcome:?}");
    world.network.kill_gateway(0).await?;
    let ends = given.reserve_deadline();
    eventually(|| async { Utc::now().timestamp() > ends + 1 }).await?;
    customer.give_back(world, &given).await?;
    between(world).await?;
    for _ in 0..2 {
        customer.send(world, &given, 1).await?;
        customer.give_back(world, &given).await?;
    }
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.until(&given.payment_id, "EscrowRefunded").await?;
    let Some(PaymentEvent::EscrowRefunded(refunded)) = world.events(&given.payment_id, "EscrowRefunded").await?.pop()
    else {
        bail!("{} was not given back", given.payment_id)
    };
    assert_eq!(refunded.amount.get(), U256::from(CAP - 1), "not the dust");
    assert_eq!(customer.returned(world).await?, CAP + 1);
    world.audited(&given.payment_id).await?;

    // The money comes while nobody looks.
    let given = customer.given(world, &customer.spec(world, "came-meanwhile")?, json!({})).await?;
    world.network.kill_gateway(0).await?;
    customer.send(world, &given, CAP).await?;
    world.network.start_gateway(0).await?;
    world.network.ready(0).await?;
    world.completed(&given.payment_id).await?;
    world.audited(&given.payment_id).await
}

/// Nobody pays, and so nothing happens.
pub async fn nothing(world: &World, source: Source) -> Result<PaymentId> {
    let customer = Customer::new(world, source).await?;
    let given = customer.given(world, &customer.spec(world, "nothing")?, json!({"pay_by": after(12)})).await?;
    world.until(&given.payment_id, "DepositRuledOut").await?;
    let types = world.types(&given.payment_id).await?;
    assert_eq!(types, ["Submitted", "Failed", "DepositRuledOut"]);
    Ok(given.payment_id)
}
