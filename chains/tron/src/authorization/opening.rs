//! The reserver's signatures over deposits that nobody has signed yet: they are given to whoever asks what to sign.

use std::{num::NonZeroU32, sync::Arc};

use alloy::primitives::{Address, Signature};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

use sagas::ports::Transient;
use signer::{Hash, Secp256k1Key};

use crate::address::text;

/// New signatures a second of a key at a service, and how many may be asked for at once beyond it. They count against a quota that the
/// same key's reservations need, and may be charged for; a caller pays nothing.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("it is above zero");
const BURST: NonZeroU32 = NonZeroU32::new(100).expect("it is above zero");
/// Signatures that are kept, some 200 bytes each.
const KEPT: u64 = 4_096;

/// What a signature is over, before it is hashed.
type Preimage = [u8; 66];

/// The key of an escrow's reserver, as far as it lets deposits in. A deposit is signed once, however many ask for it, as long as the
/// signature is kept. Clones share what is kept and how much is signed.
#[derive(Clone)]
pub struct OpeningSigner(Arc<Shared>);

struct Shared {
    key: Secp256k1Key,
    kept: Cache<Preimage, Signature>,
    limit: DefaultDirectRateLimiter,
}

impl<K: Into<Secp256k1Key>> From<K> for OpeningSigner {
    fn from(key: K) -> Self {
        Self(Arc::new(Shared {
            key: key.into(),
            kept: Cache::new(KEPT),
            limit: RateLimiter::direct(Quota::per_second(PER_SECOND).allow_burst(BURST)),
        }))
    }
}

impl OpeningSigner {
    /// The reserver.
    pub fn address(&self) -> Address {
        self.0.key.address()
    }

    /// The reserver's signature over `opening`.
    ///
    /// # Errors
    /// [`Transient::RateLimited`] when too much is asked of a service; as the key's signature otherwise.
    pub(super) async fn sign(&self, opening: Preimage) -> Result<Signature, Transient> {
        let Shared { key, kept, limit } = &*self.0;
        let signed = kept.try_get_with(opening, async {
            if key.is_elsewhere() && limit.check().is_err() {
                let reason = "is asked for more deposits on Tron than its key at a service signs for strangers";
                return Err(Transient::rate_limited(format!("the reserver {} {reason}", text(key.address()))));
            }
            Ok(key.sign(Hash::Keccak256, &opening).await?)
        });
        signed.await.map_err(|fault| (*fault).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use alloy::signers::{SignerSync, local::PrivateKeySigner};
    use async_trait::async_trait;
    use futures::future::join_all;
    use signer::{Key, Secp256k1, SignError, Signer};

    use super::*;

    /// A key at a service, and how often it signed.
    #[derive(Debug)]
    struct Service(PrivateKeySigner, Arc<AtomicUsize>);

    #[async_trait]
    impl Signer<Secp256k1> for Service {
        fn public(&self) -> Address {
            self.0.address()
        }

        async fn sign(&self, _: Hash, message: &[u8]) -> Result<Signature, SignError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(self.0.sign_message_sync(message).unwrap())
        }

        async fn check(&self) -> Result<(), SignError> {
            Ok(())
        }
    }

    fn preimage(number: u32) -> Preimage {
        let mut bytes = [0; 66];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    #[tokio::test]
    async fn what_a_service_signs_for_strangers_is_bounded_and_signed_once() {
        let signed = Arc::new(AtomicUsize::new(0));
        let signer = OpeningSigner::from(Key::new(Service(PrivateKeySigner::random(), signed.clone())));
        let first = join_all((0..100).map(|_| signer.sign(preimage(0)))).await;
        assert_eq!(signed.load(Ordering::Relaxed), 1, "whoever asks for the same deposit");
        let refused = 'refused: {
            for number in 1..10_000 {
                if let Err(fault) = signer.sign(preimage(number)).await {
                    break 'refused fault;
                }
            }
            panic!("ten thousand signatures are made in a moment")
        };
        assert!(matches!(refused, Transient::RateLimited(_)) && refused.to_string().contains("Tron"), "{refused}");
        assert_eq!(signer.clone().sign(preimage(0)).await.unwrap(), *first[0].as_ref().unwrap(), "it is kept");
    }

    #[tokio::test]
    async fn a_key_in_memory_signs_for_everybody() {
        let signer = OpeningSigner::from(PrivateKeySigner::random());
        for number in 0..1_000 {
            signer.sign(preimage(number)).await.unwrap();
        }
    }
}
