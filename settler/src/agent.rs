//! The settler's agent: it is registered, answers requests for quotes and settles awards until it is shut down.

mod awards;
mod bidding;
mod registration;

use std::{sync::Arc, time::Duration};

use async_nats::jetstream;
use ed25519_dalek::SigningKey;
use tokio_util::sync::CancellationToken;

use events::Did;
use journal_jetstream::connection::{self, Identity};
use protocol::message_signature::Signer;

use self::{awards::Awards, bidding::Bidding, registration::Registrar};
use crate::{
    chain_registry::{self, Chains},
    claims,
    config::{Config, Options},
    inventory::Inventory,
    nats::Nats,
    nats_credentials::inbox_prefix,
    pricing::Prices,
    quoting::Quoter,
    settlement::SettlementContext,
    trials::Trials,
    verifier,
};

/// Most ended auctions and awards that are remembered, for messages about them that arrive late.
const ENDS_MAX: usize = 4096;
/// Pause before a failed subscription, pull or registration is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Interval of the pings to NATS. A server that hangs leaves its connections open, and a settler that waits for it hears of
/// no auction.
const PING_EVERY: Duration = Duration::from_millis(1500);
/// How long a server may take to complete the connection before another is tried.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Why a settler cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration breaks a rule.
    #[error("configuration: {0}")]
    Config(#[from] crate::config::Error),
    /// NATS cannot be reached.
    #[error("NATS: {0}")]
    Nats(#[from] async_nats::ConnectError),
    /// A chain cannot be used.
    #[error("{0}")]
    Chain(#[from] chain_registry::Error),
    /// The signing key is not the key of the DID in the options.
    #[error("the signing key is not the settler's")]
    Key,
    /// The HTTP client cannot be made.
    #[error("{0}")]
    Http(#[from] verifier::Error),
}

/// A settler.
pub struct Settler {
    options: Arc<Options>,
    registrar: Registrar,
    bidding: Arc<Bidding>,
    awards: Arc<Awards>,
    claims: claims::Service,
    prices: Arc<Prices>,
}

impl Settler {
    /// Connects to NATS and the chains as the configuration says.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(config: &Config) -> Result<Self, Error> {
        let options = config.options()?;
        let key = config.signing_key()?;
        let chains = chain_registry::connect(config)?;
        let client = connect_nats(config, &key).await?;
        Self::new(options, client, key, chains)
    }

    /// A settler on a NATS client whose inbox prefix is [`inbox_prefix`] of its token, and on chains of the caller's.
    ///
    /// # Errors
    /// [`Error::Key`] and [`Error::Http`].
    pub fn new(options: Options, client: async_nats::Client, key: SigningKey, chains: Chains) -> Result<Self, Error> {
        if Did::from_ed25519(&key.verifying_key()) != options.settler {
            return Err(Error::Key);
        }
        let options = Arc::new(options);
        let token = options.settler.token();
        let inventory = Arc::new(Inventory::new(options.inventory_max.clone()));
        let trials = Arc::new(Trials::default());
        let nats = Nats { token, jetstream: jetstream::new(client.clone()), client };
        let context = Arc::new(SettlementContext {
            options: options.clone(),
            inventory: inventory.clone(),
            trials: trials.clone(),
            verifiers: verifier::Client::new(Signer::new(key.clone()))?,
            nats: nats.clone(),
        });
        let (service, claims) = claims::open(&options, chains.clone());
        let prices = Arc::new(Prices::new(options.book.clone()));
        let quoter = Quoter::new(options.clone(), key, chains.clone(), inventory.clone(), trials, prices.clone());
        Ok(Self {
            registrar: Registrar::new(nats.clone(), &options, &chains),
            bidding: Arc::new(Bidding::new(nats, quoter, inventory)),
            awards: Arc::new(Awards::new(chains, context, claims)),
            claims: service,
            prices,
            options,
        })
    }

    /// The settler's DID.
    pub fn did(&self) -> &Did {
        &self.options.settler
    }

    /// The prices that it asks for, which can be replaced while it works.
    pub fn prices(&self) -> Arc<Prices> {
        self.prices.clone()
    }

    /// Works until `shutdown`. Awards that are not settled by then are taken up again by the next run.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { options, registrar, bidding, awards, claims, prices } = self;
        if !options.deliver {
            tracing::warn!("development option: this settler will never deliver");
        }
        tracing::info!(settler = %options.settler, token = %options.settler.token(), "settler is at work");
        shutdown
            .run_until_cancelled(async {
                tokio::join!(
                    registrar.run(),
                    bidding.clone().answer_requests(),
                    bidding.follow_auction_ends(),
                    awards.run(),
                    claims.run(),
                    prices.follow()
                )
            })
            .await;
        registrar.withdraw().await;
    }
}

async fn connect_nats(config: &Config, key: &SigningKey) -> Result<async_nats::Client, Error> {
    let settler = Did::from_ed25519(&key.verifying_key());
    let ca_file = config.nats.ca_file.as_deref();
    let servers = connection::servers(&config.nats.url, ca_file)
        .map_err(|error| crate::config::Error { key: "nats.url", rule: error.to_string() })?;
    let options = Identity::of(key)
        .options(ca_file)
        .name(format!("settler {settler}"))
        .custom_inbox_prefix(inbox_prefix(&settler.token()))
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_MAX)
        .retry_on_initial_connect()
        .event_callback(|event| async move { tracing::info!(%event, "NATS") });
    Ok(options.connect(servers).await?)
}
