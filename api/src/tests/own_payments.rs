//! Sessions, and what they open: the payments of their owner.

mod attacks;
mod lists;

use std::sync::atomic::AtomicUsize;

use alloy::signers::{SignerSync, local::PrivateKeySigner};
use ed25519_dalek::{Signer as _, SigningKey as Ed25519};
use k256::ecdsa::SigningKey as Secp256k1;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use app::{
    error::{Code, Error},
    own_payments::{Asked, OwnedPayments, OwnedReads, parked::ParkedPayments},
    sessions::{ContractAccounts, SessionKey},
    settlers::{RecordReads, SettlerReads},
};
use devkit::holder::Holder;
use events::{Account, ChainId, Did};
use journal::{ShardLog, parking::memory::MemoryParking};
use net::callers::Caller;
use projections::{OwnedPage, Projections, SettlerPage};
use sagas::settler_record::SettlerRecord;

use super::{identities::enveloped, *};

const CHALLENGES: &str = "/v1/sessions/challenges";
const SESSIONS: &str = "/v1/sessions";
const PAYMENTS: &str = "/v1/payments";
/// The signature that [`SetContracts`] take.
const BY_CONTRACT: &str = "0xc0de";

/// The read model as it follows the journal; each page is as new as that.
pub struct FollowedPayments {
    journal: MemoryJournal,
    followed: OnceCell<Followed>,
    away: AtomicBool,
}

struct Followed {
    owned: OwnedReads,
    settlers: RecordReads,
    projections: Projections,
    _directory: TempDir,
}

impl FollowedPayments {
    pub fn of(journal: &MemoryJournal) -> Arc<Self> {
        Arc::new(Self { journal: journal.clone(), followed: OnceCell::new(), away: AtomicBool::new(false) })
    }

    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// The read model with all that the journal has.
    async fn followed(&self) -> Result<&Followed, Error> {
        if self.away.load(Ordering::SeqCst) {
            return Err(Code::SERVICE_UNAVAILABLE.into());
        }
        let begin = || async {
            let directory = TempDir::new().unwrap();
            let projections = Projections::open(directory.path(), self.journal.shards()).unwrap();
            let (following, journal) = (projections.clone(), Arc::new(self.journal.clone()));
            tokio::spawn(async move { following.run(journal, CancellationToken::new()).await });
            let parked = ParkedPayments::new(Arc::new(MemoryParking::default()));
            Followed {
                owned: OwnedReads::new(projections.clone(), parked),
                settlers: RecordReads::new(projections.clone()),
                projections,
                _directory: directory,
            }
        };
        let followed = self.followed.get_or_init(begin).await;
        for shard in 0..self.journal.shards() {
            let head = self.journal.head(shard).await.unwrap();
            assert!(followed.projections.wait_for(shard, head, Duration::from_secs(60)).await);
            while followed.projections.ready().is_err() {
                tokio::task::yield_now().await;
            }
        }
        Ok(followed)
    }
}

#[async_trait]
impl OwnedPayments for FollowedPayments {
    async fn page(&self, asked: Asked) -> Result<OwnedPage, Error> {
        self.followed().await?.owned.page(asked).await
    }
}

#[async_trait]
impl SettlerReads for FollowedPayments {
    async fn page(&self, after: Option<Did>, settlers_max: usize) -> Result<SettlerPage, Error> {
        self.followed().await?.settlers.page(after, settlers_max).await
    }

    async fn record(&self, settler: Did) -> Result<Option<SettlerRecord>, Error> {
        self.followed().await?.settlers.record(settler).await
    }
}

/// Contracts on one chain that take one signature, and count what they are asked.
#[derive(Default)]
pub struct SetContracts {
    pub theirs: Mutex<Vec<(ChainId, Account)>>,
    pub asked: AtomicUsize,
}

#[async_trait]
impl ContractAccounts for SetContracts {
    async fn accept(
        &self,
        _: &Caller,
        chain: &ChainId,
        account: &Account,
        _: &Hash32,
        signature: &[u8],
    ) -> Result<bool, Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let is_theirs = self.theirs.lock().unwrap().contains(&(chain.clone(), account.clone()));
        Ok(is_theirs && signature == [0xc0, 0xde])
    }
}

/// The key of all gateways of these tests.
pub fn session_key() -> SessionKey {
    SessionKey::new([7; 32])
}

fn wallet(seed: u8) -> PrivateKeySigner {
    PrivateKeySigner::from(Secp256k1::from_slice(&[seed; 32]).unwrap())
}

fn account(wallet: &PrivateKeySigner) -> String {
    wallet.address().to_string()
}

fn personal_sign(wallet: &PrivateKeySigner, text: &str) -> String {
    wallet.sign_message_sync(text.as_bytes()).unwrap().to_string()
}

impl Gateway {
    async fn challenge(&self, body: Value) -> String {
        let answer = self.post_to(CHALLENGES, &body).await.expect(200);
        assert_eq!(answer.headers["cache-control"], "no-store");
        answer.body["message"].as_str().unwrap().to_owned()
    }

    async fn open(&self, message: &str, signature: &str) -> Answer {
        self.post_to(SESSIONS, &json!({"message": message, "signature": signature})).await
    }

    async fn open_by_did(&self, message: &str, signature: &str, method: &str) -> Answer {
        let body = json!({"message": message, "signature": signature, "verification_method": method});
        self.post_to(SESSIONS, &body).await
    }

    /// The token of a wallet's session.
    async fn session(&self, wallet: &PrivateKeySigner) -> String {
        let message = self.challenge(json!({"account": format!("eip155:31337:{}", account(wallet))})).await;
        self.open(&message, &personal_sign(wallet, &message)).await.expect(200).token()
    }

    /// The token of a holder's session, whose key has this seed.
    async fn session_of_did(&self, holder: &Holder, seed: u8) -> String {
        let did = holder.did();
        let message = self.challenge(json!({"did": did.as_str()})).await;
        let signature = ed25519_sign(seed, &message);
        let method = did.key_verification_method().unwrap();
        self.open_by_did(&message, &signature, &method).await.expect(200).token()
    }

    async fn list(&self, token: &str, query: &str) -> Answer {
        self.list_as(token, query, "application/json").await
    }

    async fn list_as(&self, token: &str, query: &str, accept: &str) -> Answer {
        let request = Request::get(format!("{PAYMENTS}{query}"));
        let request = request.header("authorization", format!("Bearer {token}")).header("accept", accept);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Has a wallet pay under a request id, at a time.
    async fn pay(&self, wallet: &PrivateKeySigner, request_id: &str) -> PaymentId {
        let mut body = with("/source/account", json!(account(wallet)));
        body["request_id"] = json!(request_id);
        self.post(&body).await.expect(200).payment_id()
    }
}

fn ed25519_sign(seed: u8, text: &str) -> String {
    format!("0x{}", hex::encode(Ed25519::from_bytes(&[seed; 32]).sign(text.as_bytes()).to_bytes()))
}

impl Answer {
    fn token(&self) -> String {
        assert_eq!(self.headers["cache-control"], "no-store", "{self:?}");
        assert_eq!(self.body["token_type"], "Bearer", "{self:?}");
        self.body["token"].as_str().unwrap().to_owned()
    }

    /// The request ids on a page, in order.
    fn request_ids(&self) -> Vec<String> {
        let payments = self.body["payments"].as_array().unwrap_or_else(|| panic!("{self:?}"));
        payments.iter().map(|payment| payment["request_id"].as_str().unwrap().to_owned()).collect()
    }

    fn next_cursor(&self) -> Option<String> {
        self.body["next_cursor"].as_str().map(str::to_owned)
    }
}
