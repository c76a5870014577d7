//! Admission by chain: nothing new goes through a chain that is not ready (ADR 137).

use chains::readiness::{Cause, ChainsReadiness};
use events::{ChainId, OwnedAsset, Terms};
use http::StatusCode;

use crate::error::{Code, Error};

/// Refuses new terms whose source, or every destination of which, lies on a chain that is not ready. Where one destination of
/// several is on one that is, a settler can still choose it.
///
/// # Errors
/// 503 `CHAIN_UNAVAILABLE`, which names the chain.
pub(crate) fn check_terms(readiness: &ChainsReadiness, terms: &Terms) -> Result<(), Error> {
    check(readiness, &terms.source)?;
    let mut refused = None;
    for destination in terms.destination() {
        match check(readiness, destination) {
            Ok(()) => return Ok(()),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Refuses what goes through the chain of `owned` while it is not ready.
///
/// # Errors
/// As [`check_terms`].
pub(crate) fn check(readiness: &ChainsReadiness, owned: &OwnedAsset) -> Result<(), Error> {
    let chain = owned.asset().chain();
    readiness.cause(chain).map_or(Ok(()), |cause| Err(unavailable(chain, cause)))
}

/// `refusal`, or the better explanation of it: what a chain was asked for and did not answer, because it is not ready.
pub(crate) fn explained(readiness: &ChainsReadiness, source: &OwnedAsset, refusal: Error) -> Error {
    let is_fault = refusal.status() == StatusCode::SERVICE_UNAVAILABLE;
    if is_fault { check(readiness, source).err().unwrap_or(refusal) } else { refusal }
}

fn unavailable(chain: &ChainId, cause: Cause) -> Error {
    let message = format!("{chain} is not available for now: {}. Nothing was accepted; {RETRY}", cause.text());
    Error::new(Code::CHAIN_UNAVAILABLE, message)
}

const RETRY: &str = "the same request is safe to retry, or choose another chain.";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use chains::readiness::{Look, ReadinessProbe};
    use sagas::ports::Transient;

    use super::*;

    /// A node of another chain.
    struct Wrong(ChainId);

    #[async_trait]
    impl ReadinessProbe for Wrong {
        fn chain_id(&self) -> &ChainId {
            &self.0
        }

        async fn look(&self, _: bool) -> Result<Look, Transient> {
            Ok(Look::OtherChain)
        }
    }

    #[tokio::test]
    async fn one_destination_that_is_ready_is_enough_and_the_source_must_be() {
        let asset = |chain: u64| {
            let asset = format!("eip155:{chain}/slip44:60").parse().unwrap();
            OwnedAsset::new(asset, "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap()
        };
        let terms = |source, destinations: &[u64]| {
            let destinations = destinations.iter().copied().map(asset).collect();
            Terms::new(asset(source), destinations, "5".parse().unwrap(), None)
        };
        let chain = |id: u64| format!("eip155:{id}").parse::<ChainId>().unwrap();
        let readiness = ChainsReadiness::new([1, 2, 3].map(chain));
        for _ in 0..3 {
            let (pause, _) = readiness.look(&Wrong(chain(2)), Duration::from_secs(1)).await;
            assert!(pause > Duration::ZERO);
        }
        assert!(check_terms(&readiness, &terms(1, &[2, 3])).is_ok());
        for refused in [terms(1, &[2]), terms(2, &[3]), terms(2, &[1, 3])] {
            let refusal = check_terms(&readiness, &refused).unwrap_err();
            assert_eq!(refusal.code.code, "CHAIN_UNAVAILABLE");
            assert!(refusal.message().contains("eip155:2") && refusal.message().contains("Nothing was accepted"));
        }
        let fault = || Error::from(Code::SERVICE_UNAVAILABLE);
        assert_eq!(explained(&readiness, &asset(2), fault()).code.code, "CHAIN_UNAVAILABLE");
        assert_eq!(explained(&readiness, &asset(1), fault()).code.code, "SERVICE_UNAVAILABLE");
        let forged = Error::from(Code::INVALID_SENDER_AUTH);
        assert_eq!(explained(&readiness, &asset(2), forged).code.code, "INVALID_SENDER_AUTH");
    }
}
