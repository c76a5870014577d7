//! Deployment on an EVM chain: the escrow, the proxy and what makes deposit addresses and those of offers, draws batches and keeps
//! mandates, at addresses that follow from what they are made with alone
//! ([`deployer`]). So whatever was done is found by looking whether there is code, and another chain has the same addresses.

mod sender;

use std::time::Duration;

use alloy::{
    primitives::{Address, Bytes, U64, U256},
    signers::local::PrivateKeySigner,
    sol_types::{SolCall, SolConstructor},
};
use async_trait::async_trait;
use serde_json::json;
use url::Url;

use chains::deployment::{Contracts, DeployError, Deployment, Finding, Guardian, Notes, Plan, Step};
use escrow_abi::{
    artefacts::{
        DEPOSIT_ADDRESSES, EscrowSetup, FULFILLMENT_PROXY, GATEWAY_ESCROW, MANDATES, OFFER_ADDRESSES, PAYMENT_BATCHES,
        deposit_address_findings, escrow_findings, mandate_findings, offer_address_findings, payment_batch_findings,
        proxy_findings, takes_deposits_for,
    },
    contracts::{self, GatewayEscrow, PAYOUT_GAS},
};
use events::{Account, ChainId};
use signer::Secp256k1Key;

use self::sender::{Call, Price, Sender, fault};
use crate::{
    deployer::{self, FACTORY, FACTORY_CODE, FACTORY_COST, FACTORY_SENDER, FACTORY_TRANSACTION},
    deposit_addresses, mandates,
    minimal_proxy::implementation,
    offers, payment_batches,
    rpc::{Fault, Rpc},
    transaction,
};

/// How long a transaction waits for a block before it is offered at a higher price.
const PATIENCE: Duration = Duration::from_secs(45);
/// Gas of a transfer of coins.
const TRANSFER_GAS: u64 = 21_000;

/// What the contracts of a chain are made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The chain; the node is asked whether it is of it.
    pub chain_id: ChainId,
    /// Who signs admissions and reservations.
    pub reserver: Account,
    /// Who can end deposits, and propose another reserver.
    pub guardian: Guardian,
    /// Uniswap's Permit2.
    pub permit2: Account,
}

/// Puts the contracts on an EVM chain.
#[derive(Debug)]
pub struct EvmDeployment {
    rpc: Rpc,
    settings: Settings,
    addresses: Addresses,
    payer: Option<Secp256k1Key>,
    patience: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Addresses {
    evm_id: u64,
    reserver: Address,
    guardian: Option<Address>,
    permit2: Address,
}

/// A contract that is to be there.
struct Wanted {
    name: &'static str,
    creation: Vec<u8>,
    place: Address,
}

impl Wanted {
    fn new(name: &'static str, creation: Vec<u8>) -> Self {
        let place = deployer::place_of(&creation);
        Self { name, creation, place }
    }

    fn title(&self) -> String {
        format!("{} at {}", self.name, contracts::text(self.place))
    }
}

impl EvmDeployment {
    /// A deployment over the node at `rpc_url`, each call to which may take `timeout`. Nothing is sent yet. Who only verifies
    /// needs no `payer`.
    ///
    /// # Errors
    /// [`DeployError::Unfit`], where the settings are not those of an EVM chain.
    pub fn new(
        rpc_url: &str,
        settings: Settings,
        payer: Option<PrivateKeySigner>,
        timeout: Duration,
    ) -> Result<Self, DeployError> {
        let unfit =
            |what: &str| DeployError::Unfit(format!("{what} of {}: is none of an EVM chain", settings.chain_id));
        let url: Url = rpc_url.parse().map_err(|_| DeployError::Unfit("rpc_url is not a URL".to_owned()))?;
        let rpc = Rpc::new(url, timeout).map_err(|error| DeployError::Unfit(error.to_string()))?;
        let evm_id = settings.chain_id.evm_id().ok_or_else(|| unfit("chain id"))?;
        let address = |what: &str, account: &Account| contracts::address(account).map_err(|_| unfit(what));
        let addresses = Addresses {
            evm_id,
            reserver: address("reserver", &settings.reserver)?,
            guardian: match &settings.guardian {
                Guardian::Nobody => Some(Address::ZERO),
                Guardian::Account(account) => Some(address("guardian", account)?),
                Guardian::Any => None,
            },
            permit2: address("permit2", &settings.permit2)?,
        };
        Ok(Self { rpc, settings, addresses, payer: payer.map(Secp256k1Key::from), patience: PATIENCE })
    }

    /// With another time than 45 seconds that a transaction waits for a block before it is offered at a higher price.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    fn sender(&self) -> Sender<'_> {
        let unbounded = Price { max: u128::MAX, priority: u128::MAX };
        Sender {
            rpc: &self.rpc,
            evm_id: self.addresses.evm_id,
            patience: self.patience,
            priority: unbounded.priority,
            ceiling: unbounded,
        }
    }

    async fn check_chain(&self) -> Result<(), DeployError> {
        let found: U64 = self.ask("chain id", "eth_chainId", ()).await?;
        let (found, expected) = (found.to::<u64>(), self.addresses.evm_id);
        match found == expected {
            true => Ok(()),
            false => {
                Err(DeployError::Unfit(format!("the node is of chain eip155:{found}, and not of eip155:{expected}")))
            }
        }
    }

    async fn ask<P, R>(&self, step: &str, method: &'static str, params: P) -> Result<R, DeployError>
    where
        P: serde::Serialize + Clone + std::fmt::Debug + Send + Sync + Unpin,
        R: serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + Unpin + 'static,
    {
        self.rpc.call(method, params).await.map_err(|error| fault(step, error))
    }

    async fn code(&self, account: Address) -> Result<Bytes, DeployError> {
        self.ask("code", "eth_getCode", (account, "latest")).await
    }

    async fn balance(&self, account: Address) -> Result<U256, DeployError> {
        self.ask("balance", "eth_getBalance", (account, "latest")).await
    }

    /// The contracts, in the order in which they are made.
    fn wanted(&self) -> Result<[Wanted; 6], DeployError> {
        let guardian = self.addresses.guardian;
        let unfit = || DeployError::Unfit("a guardian is needed, or the word that there is none".to_owned());
        let escrow = self.creation(guardian.ok_or_else(unfit)?);
        Ok([
            Wanted::new("GatewayEscrow", escrow),
            Wanted::new("FulfillmentProxy", FULFILLMENT_PROXY.creation.to_vec()),
            Wanted::new("DepositAddresses", DEPOSIT_ADDRESSES.creation.to_vec()),
            Wanted::new("OfferAddresses", OFFER_ADDRESSES.creation.to_vec()),
            Wanted::new("PaymentBatches", PAYMENT_BATCHES.creation.to_vec()),
            Wanted::new("Mandates", MANDATES.creation.to_vec()),
        ])
    }

    fn payer(&self) -> Result<&Secp256k1Key, DeployError> {
        self.payer.as_ref().ok_or_else(|| DeployError::Unfit("a payer is needed".to_owned()))
    }

    fn contracts(&self, [escrow, proxy, ..]: &[Wanted; 6]) -> Option<Contracts> {
        let (escrow, proxy) = (contracts::account(escrow.place)?, contracts::account(proxy.place)?);
        Some(Contracts { escrow, proxy, deposit_address_factory: None, permit2: None })
    }

    /// What the factory's sender lacks for its transaction.
    async fn factory_lacks(&self) -> Result<U256, DeployError> {
        Ok(FACTORY_COST.saturating_sub(self.balance(FACTORY_SENDER).await?))
    }

    /// Whether the deployer is there; something else in its place is refused.
    async fn has_factory(&self) -> Result<bool, DeployError> {
        let code = self.code(FACTORY).await?;
        match code.as_ref() {
            [] => Ok(false),
            FACTORY_CODE => Ok(true),
            _ => Err(DeployError::Unfit(format!(
                "{} holds other code than the deterministic deployer's",
                contracts::text(FACTORY)
            ))),
        }
    }

    async fn make_factory(
        &self,
        sender: &Sender<'_>,
        notes: &dyn Notes,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), DeployError> {
        let step = "deterministic deployer";
        let lacks = self.factory_lacks().await?;
        if lacks > U256::ZERO {
            let call = Call { to: FACTORY_SENDER, data: Bytes::new(), value: lacks };
            sender.land("coins for the deterministic deployer", self.payer()?, &call, notes, tell).await?;
        }
        tell(&format!("{step}: sent"));
        let refused = |reason: String| DeployError::Refused { step: step.to_owned(), reason };
        sender
            .make(step, Bytes::from_static(FACTORY_TRANSACTION), || async { self.has_factory().await })
            .await
            .map_err(|error| match error {
                DeployError::Refused { reason, .. } => refused(format!(
                    "{reason}. The chain may take no transaction that is signed for no chain in particular, or want more than \
                     100 gwei: then its own documents say how the deployer comes to {}",
                    contracts::text(FACTORY)
                )),
                other => other,
            })
    }
}

#[async_trait]
impl Deployment for EvmDeployment {
    async fn plan(&self, _notes: &dyn Notes) -> Result<Plan, DeployError> {
        self.check_chain().await?;
        let payer = self.payer()?.address();
        if self.code(self.addresses.permit2).await?.is_empty() {
            let place = &self.settings.permit2;
            return Err(DeployError::Unfit(format!("there is no Permit2 at {place} on {}", self.settings.chain_id)));
        }
        let sender = self.sender();
        let price = sender.price().await?;
        let cost = |gas: u64| price.max.saturating_mul(u128::from(gas));
        let mut steps = Vec::new();
        let has_factory = self.has_factory().await?;
        let title = format!("deterministic deployer at {}", contracts::text(FACTORY));
        let lacks = if has_factory { U256::ZERO } else { self.factory_lacks().await? };
        let lacks = u128::try_from(lacks).unwrap_or(u128::MAX);
        steps.push(Step { title, is_done: has_factory, cost: lacks.saturating_add(cost(TRANSFER_GAS)) });
        let wanted = self.wanted()?;
        for contract in &wanted {
            let is_done = !self.code(contract.place).await?.is_empty();
            // As a creation of its own, which costs about the same, where the deployer is not there to be asked.
            let call = match has_factory {
                true => Call { to: FACTORY, data: deployer::call(&contract.creation).into(), value: U256::ZERO },
                false => Call { to: FACTORY, data: contract.creation.clone().into(), value: U256::ZERO },
            };
            let gas = match is_done {
                true => 0,
                false => sender.gas(contract.name, payer, has_factory.then_some(FACTORY), &call).await?,
            };
            steps.push(Step { title: contract.title(), is_done, cost: cost(gas) });
        }
        let balance = u128::try_from(self.balance(payer).await?).unwrap_or(u128::MAX);
        let payer = transaction::account_of(self.payer()?);
        Ok(Plan { payer, balance, steps, contracts: self.contracts(&wanted) })
    }

    async fn run(&self, notes: &dyn Notes, tell: &(dyn for<'a> Fn(&'a str) + Sync)) -> Result<Contracts, DeployError> {
        let plan = self.plan(notes).await?;
        let needed = plan.cost();
        if plan.balance < needed {
            return Err(DeployError::Funds { payer: plan.payer, balance: plan.balance, needed });
        }
        let mut sender = self.sender();
        let price = sender.price().await?;
        (sender.priority, sender.ceiling) = (price.priority, price.ceiling());
        if !self.has_factory().await? {
            self.make_factory(&sender, notes, tell).await?;
        }
        let wanted = self.wanted()?;
        for contract in &wanted {
            if self.code(contract.place).await?.is_empty() {
                let call = Call { to: FACTORY, data: deployer::call(&contract.creation).into(), value: U256::ZERO };
                sender.land(contract.name, self.payer()?, &call, notes, tell).await?;
            }
            tell(&contract.title());
        }
        let contracts = self.contracts(&wanted);
        contracts.ok_or_else(|| DeployError::Unfit("a contract at the zero address".to_owned()))
    }

    async fn verify(&self, at: &Contracts) -> Result<Vec<Finding>, DeployError> {
        self.check_chain().await?;
        let address = |account: &Account| {
            contracts::address(account).map_err(|_| DeployError::Unfit(format!("{account} is no EVM account")))
        };
        let (escrow, proxy) = (address(&at.escrow)?, address(&at.proxy)?);
        let mut findings = Vec::new();
        let permit2 = "Permit2";
        findings.push(match self.code(self.addresses.permit2).await?.is_empty() {
            true => Finding::bad(permit2, format!("there is no contract at {}", self.settings.permit2)),
            false => Finding::good(permit2),
        });
        let code = self.code(escrow).await?;
        let guardian = match self.addresses.guardian {
            Some(guardian) => guardian,
            None => self.read(escrow, &GatewayEscrow::guardianCall {}).await?.unwrap_or_default(),
        };
        let setup = EscrowSetup {
            chain_id: self.addresses.evm_id,
            escrow,
            permit2: self.addresses.permit2,
            guardian,
            text: contracts::text,
        };
        let of_code = escrow_findings(&code, &setup);
        let is_ours = of_code.first().is_some_and(|finding| finding.fault.is_none());
        findings.extend(of_code);
        if is_ours {
            findings.push(self.constructed(escrow, guardian));
            let next = self.read(escrow, &GatewayEscrow::nextReserverCall {}).await?.filter(|next| !next.is_zero());
            findings.push(match next {
                None => Finding::good("next reserver of GatewayEscrow"),
                Some(next) => Finding::bad(
                    "next reserver of GatewayEscrow",
                    format!("{} is proposed, and nobody should be", contracts::text(next)),
                ),
            });
            let subject = "reserver of GatewayEscrow";
            let found = self.read(escrow, &GatewayEscrow::reserverCall {}).await?;
            findings.push(match found {
                Some(found) => {
                    Finding::compare(subject, &contracts::text(found), &contracts::text(self.addresses.reserver))
                }
                None => Finding::bad(subject, "cannot be read"),
            });
            let retired = self.read(escrow, &GatewayEscrow::retiredCall {}).await?;
            findings.push(match retired {
                Some(false) => Finding::good("deposits into GatewayEscrow"),
                _ => Finding::bad("deposits into GatewayEscrow", "are ended for ever: the guardian retired it"),
            });
        }
        findings.extend(proxy_findings(&self.code(proxy).await?));
        // An escrow of an earlier version needs none.
        if !takes_deposits_for(&code) {
            return Ok(findings);
        }
        let factory = deposit_addresses::factory();
        findings.extend(deposit_address_findings(&self.code(factory).await?, implementation(factory)));
        let factory = offers::factory();
        findings.extend(offer_address_findings(&self.code(factory).await?, implementation(factory)));
        let contract = payment_batches::contract();
        findings.extend(payment_batch_findings(&self.code(contract).await?, implementation(contract)));
        let contract = mandates::contract();
        findings.extend(mandate_findings(&self.code(contract).await?, implementation(contract)));
        Ok(findings)
    }
}

impl EvmDeployment {
    /// Whether the address is the one that the constructor with these settings leads to. Another constructor could have left the
    /// same code, and in its storage what it liked: payments that nobody made, or claims.
    fn constructed(&self, escrow: Address, guardian: Address) -> Finding {
        let subject = "constructor of GatewayEscrow";
        if deployer::place_of(&self.creation(guardian)) == escrow {
            return Finding::good(subject);
        }
        let settings = format!("{} and {}", self.settings.reserver, contracts::text(guardian));
        Finding::bad(
            subject,
            format!(
                "this reserver and guardian, {settings}, lead to another address: unless the reserver was changed since, what the \
                     contract's storage began with is not known"
            ),
        )
    }

    /// A contract's code before it is there, with its arguments.
    fn creation(&self, guardian: Address) -> Vec<u8> {
        let arguments = GatewayEscrow::constructorCall {
            permit2_: self.addresses.permit2,
            reserver_: self.addresses.reserver,
            guardian_: guardian,
            payoutGas_: U256::from(PAYOUT_GAS),
        };
        GATEWAY_ESCROW.creation_with(&arguments.abi_encode())
    }

    /// What a contract answers; `None` where it does not answer as asked.
    async fn read<C: SolCall>(&self, contract: Address, call: &C) -> Result<Option<C::Return>, DeployError> {
        let request = json!({"to": contract, "data": Bytes::from(call.abi_encode())});
        match self.rpc.call::<_, Bytes>("eth_call", (request, "latest")).await {
            Ok(answer) => Ok(C::abi_decode_returns(&answer).ok()),
            Err(Fault::Reverted(_)) => Ok(None),
            Err(error) => Err(fault("eth_call", error)),
        }
    }
}
