//! Submitters whose keys are at services: others take over from one that does not answer.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use alloy::primitives::{Address, Signature};
use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;

use chains_tron::adapter::{Keys, TronChain};
use sagas::ports::{Chains, DepositState, PrepareError};
use signer::{Hash, Secp256k1, Secp256k1Key, SignError, Signer};

use crate::{evm_support, support::*};

/// A key at a service. While it is away it signs, and the answer gets lost.
#[derive(Debug, Clone)]
struct Service {
    key: Secp256k1Key,
    away: Arc<AtomicBool>,
}

#[async_trait]
impl Signer<Secp256k1> for Service {
    fn public(&self) -> Address {
        self.key.address()
    }

    async fn sign(&self, hash: Hash, message: &[u8]) -> Result<Signature, SignError> {
        let signature = self.key.sign(hash, message).await?;
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

#[tokio::test]
async fn others_take_over_from_a_key_that_does_not_answer_and_it_is_tried_again() -> Result<()> {
    let (world, clock) = (World::start().await?, Arc::new(evm_support::TestClock::default()));
    let services: Vec<_> =
        world.submitters.iter().map(|key| Service { key: key.clone().into(), away: Arc::default() }).collect();
    let keys = Keys {
        reserver: world.reserver.clone().into(),
        draining_reservers: Vec::new(),
        submitters: services.iter().cloned().map(Secp256k1Key::new).collect(),
        exit_submitters: Vec::new(),
    };
    let chains = TronChain::new(world.node(), Some(keys), clock.clone())?;
    let order = world.order(3_600).await?;
    world.deposit(&order).await?;
    let preferred = world.reservation(&chains, &order).await?.sender;
    let of_preferred = world.submitters.iter().position(|key| holder(key) == preferred).context("a submitter")?;
    let is_away = |away| services[of_preferred].away.store(away, Ordering::SeqCst);
    let unsigned = async || match chains.prepare_deposit(&order, 1).await {
        Err(PrepareError::Transient(fault)) if fault.to_string().contains("no answer in time") => Ok(()),
        other => bail!("not unsigned: {other:?}"),
    };
    is_away(true);
    unsigned().await?;
    let other = chains.prepare_deposit(&order, 1).await?.sender;
    assert_ne!(other, preferred);
    clock.advance(61);
    unsigned().await.context("it is tried again")?;
    is_away(false);
    let prepared = chains.prepare_deposit(&order, 1).await?;
    assert_eq!(prepared.sender, other, "for a minute");
    clock.advance(61);
    assert_eq!(chains.prepare_deposit(&order, 1).await?.sender, preferred);
    world.settle(&chains, &prepared).await?;
    let state = chains.deposit_state(&order, from_ref(&prepared)).await?;
    ensure!(matches!(state, DepositState::Secured(_)), "{state:?}");
    Ok(())
}
