//! The settler's entry in the registry of settlers: it is renewed while the settler runs, and withdrawn when it shuts down.

use std::time::Duration;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;

use super::RETRY_PAUSE;
use protocol::{ChainAccounts, Corridor, REGISTRATION_RENEWAL, Registration, Version, registration_subject};

use crate::{chain_registry::Chains, config::Options, nats::Nats};

/// How long a settler that shuts down waits until its registration is withdrawn.
const WITHDRAWAL_MAX: Duration = Duration::from_secs(2);

/// Keeps the settler registered.
pub(super) struct Registrar {
    nats: Nats,
    registration: Registration,
}

impl Registrar {
    pub(super) fn new(nats: Nats, options: &Options, chains: &Chains) -> Self {
        Self { nats, registration: registration(options, chains) }
    }

    /// Registers, and renews the registration until it is dropped.
    pub(super) async fn run(&self) {
        let registration: Bytes = protocol::write(&self.registration).into();
        loop {
            let subject = registration_subject(&self.nats.token);
            if let Err(error) = self.nats.publish(subject, registration.clone()).await {
                tracing::warn!(%error, "registration was not stored, trying again");
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
            tokio::time::sleep(REGISTRATION_RENEWAL).await;
        }
    }

    /// Withdraws the registration, so that gateways ask this settler no more.
    pub(super) async fn withdraw(&self) {
        let client = &self.nats.client;
        // Gateways of 0.1.0 read the header; later ones the empty body.
        let operation = (HeaderName::from_static("KV-Operation"), HeaderValue::from("DEL"));
        let subject = registration_subject(&self.nats.token);
        let withdrawn = async {
            let headers = HeaderMap::from_iter([operation]);
            let sent = client.publish_with_headers(subject, headers, Bytes::new()).await.is_ok();
            sent && client.flush().await.is_ok()
        };
        if tokio::time::timeout(WITHDRAWAL_MAX, withdrawn).await != Ok(true) {
            tracing::debug!("registration was not withdrawn; it lapses by itself");
        }
    }
}

/// What the settler says of itself, in an order that does not change from one run to the next.
fn registration(options: &Options, chains: &Chains) -> Registration {
    let accounts = chains.iter().map(|(chain_id, chain)| {
        let account = chain.account().to_string();
        ChainAccounts { chain_id: chain_id.clone(), payout_account: account.clone(), delivery_account: account }
    });
    let mut accounts: Vec<ChainAccounts> = accounts.collect();
    accounts.sort_by(|one, other| one.chain_id.cmp(&other.chain_id));
    let corridors = options.book.corridors.keys().cloned();
    let mut corridors: Vec<Corridor> =
        corridors.map(|(source_asset, destination_asset)| Corridor { source_asset, destination_asset }).collect();
    corridors.sort();
    let mut policies: Vec<String> = options.policies.iter().cloned().collect();
    policies.sort();
    Registration {
        version: Version,
        settler: options.settler.clone(),
        accounts,
        corridors,
        policies,
        credentials: options.credentials.clone(),
        follows_reassignments: true,
    }
}
