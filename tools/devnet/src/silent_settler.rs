//! A settler that offers the best price for everything, and answers no award.

use anyhow::{Context, Result};
use async_nats::{Client, jetstream};
use chrono::{TimeDelta, Utc};
use futures::StreamExt;
use tokio_util::task::AbortOnDropHandle;

use events::{
    Account, Amount, Did,
    quote::{Quote, SignedQuote},
};
use protocol::{
    Bid, ChainAccounts, Corridor, Registration, Rfq, Version, bid_subject, registration_subject, rfq_subjects,
};

use super::{keys::Role, network::Network, users::NatsUser};

/// How long its quotes are valid, which nothing comes of.
const VALID: TimeDelta = TimeDelta::seconds(60);

/// The settler while it bids: from its start until it is dropped it is asked wherever tokens of the network's EVM chains are paid for.
pub struct SilentSettler {
    client: Client,
    _bids: AbortOnDropHandle<()>,
}

impl SilentSettler {
    /// Who it is.
    pub fn did() -> Did {
        NatsUser::Silent.did()
    }

    /// Registers it, and bids from then on.
    ///
    /// # Errors
    /// When NATS does not take it in.
    pub async fn start(network: &Network) -> Result<Self> {
        let user = NatsUser::Silent;
        let (did, token) = (user.did(), user.did().token());
        let client = user.options_with(network.nats.ca_file()).connect(network.nats.url()).await?;
        let mut requests = client.subscribe(rfq_subjects(&token)).await?;
        let account: Account = Role::Settler(1).account().parse()?;
        let corridor =
            Corridor { source_asset: network.source.token()?, destination_asset: network.destination.token()? };
        let accounts = network.chains().map(|chain| ChainAccounts {
            chain_id: chain.id(),
            payout_account: account.to_string(),
            delivery_account: account.to_string(),
        });
        let registration = Registration {
            version: Version,
            settler: did,
            accounts: accounts.collect(),
            corridors: vec![corridor],
            policies: Vec::new(),
            credentials: Vec::new(),
            follows_reassignments: true,
        };
        let stored = jetstream::new(client.clone())
            .publish(registration_subject(&token), protocol::write(&registration).into())
            .await?;
        stored.await.context("the registration is not stored")?;
        let bids = tokio::spawn({
            let client = client.clone();
            async move {
                while let Some(message) = requests.next().await {
                    let Ok(rfq) = protocol::read::<Rfq>(&message.payload) else { continue };
                    let Some(quote) = bid(&rfq, &account) else { continue };
                    let bid = protocol::write(&Bid::quote(quote.document()));
                    if client.publish(bid_subject(&token, &rfq.auction_id), bid.into()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Self { client, _bids: AbortOnDropHandle::new(bids) })
    }

    /// Withdraws it, so that it is asked no more.
    ///
    /// # Errors
    /// When NATS is away.
    pub async fn stop(self) -> Result<()> {
        let subject = registration_subject(&NatsUser::Silent.did().token());
        self.client.publish(subject, Default::default()).await?;
        self.client.flush().await.context("the registration is not withdrawn")
    }
}

/// As many units as are delivered, which no honest settler does it for.
fn bid(rfq: &Rfq, account: &Account) -> Option<SignedQuote> {
    let now = Utc::now();
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: rfq.auction_id.clone(),
        terms_hash: rfq.terms_hash,
        settler: NatsUser::Silent.did(),
        source_chain: rfq.terms.source.asset().chain().clone(),
        source_amount: Amount::new(rfq.terms.fulfillment_amount.get())?,
        payout_account: account.clone(),
        escrow_contract: rfq.escrow.contract.clone(),
        destination: rfq.terms.destination().first()?.clone(),
        fulfillment_amount: rfq.terms.fulfillment_amount,
        delivery_account: account.clone(),
        fulfillment_proxy: rfq.fulfillment_proxies.first()?.clone(),
        fulfill_by: rfq.fulfillment_deadline,
        valid_until: rfq.quote_deadline + VALID,
    };
    quote.sign(&NatsUser::Silent.key(), now).ok()
}
