//! Submitters whose keys are at services: others take over from one that does not answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use ed25519_dalek::SigningKey;

use chains_solana::adapter::{Keys, SolanaChain};
use sagas::ports::{Chains, PrepareError};
use signer::{Ed25519, Ed25519Key, SignError, Signer};

use crate::{evm_support, support::*};

/// A key at a service. While it is away it signs, and the answer gets lost.
#[derive(Debug, Clone)]
struct Service {
    key: Ed25519Key,
    away: Arc<AtomicBool>,
}

#[async_trait]
impl Signer<Ed25519> for Service {
    fn public(&self) -> [u8; 32] {
        self.key.public()
    }

    async fn sign(&self, (): (), message: &[u8]) -> Result<[u8; 64], SignError> {
        let signature = self.key.sign(message).await?;
        match self.away.load(Ordering::SeqCst) {
            false => Ok(signature),
            true => {
                Err(SignError::Unreachable { key: "the service".to_owned(), reason: "no answer in time".to_owned() })
            }
        }
    }

    async fn check(&self) -> Result<(), SignError> {
        Ok(())
    }
}

impl Service {
    fn is_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn others_take_over_from_a_key_that_does_not_answer_and_it_is_tried_again() -> Result<()> {
    let (world, clock) = (World::start().await?, Arc::new(evm_support::TestClock::default()));
    let at_service = |key: &SigningKey| Service { key: key.clone().into(), away: Arc::default() };
    let services: Vec<_> = world.submitters.iter().map(at_service).collect();
    let reserver = at_service(&world.reserver);
    let keys = Keys {
        reserver: Ed25519Key::new(reserver.clone()),
        draining_reservers: Vec::new(),
        submitters: services.iter().cloned().map(Ed25519Key::new).collect(),
        exit_submitters: Vec::new(),
    };
    let chain = SolanaChain::new(world.node(), Some(keys), clock.clone())?;
    let order = world.order(3_600).await?;
    let preferred = chain.prepare_deposit(&order, 1).await?.sender;
    let of_preferred = world.submitters.iter().position(|key| wallet(key) == preferred).context("a submitter")?;
    let service = &services[of_preferred];
    let unsigned = async || match chain.prepare_deposit(&order, 1).await {
        Err(PrepareError::Transient(fault)) if fault.to_string().contains("no answer in time") => Ok(()),
        other => bail!("not unsigned: {other:?}"),
    };
    // The reserver's service says nothing of the submitter's.
    reserver.is_away(true);
    unsigned().await?;
    reserver.is_away(false);
    assert_eq!(chain.prepare_deposit(&order, 1).await?.sender, preferred);

    service.is_away(true);
    unsigned().await?;
    let other = chain.prepare_deposit(&order, 1).await?.sender;
    assert_ne!(other, preferred);
    clock.advance(61);
    unsigned().await.context("it is tried again")?;
    service.is_away(false);
    let prepared = chain.prepare_deposit(&order, 1).await?;
    assert_eq!(prepared.sender, other, "for a minute");
    clock.advance(61);
    assert_eq!(chain.prepare_deposit(&order, 1).await?.sender, preferred);
    settle(&chain, &order, &[prepared]).await?;
    Ok(())
}
