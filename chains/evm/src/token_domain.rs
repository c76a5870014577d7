//! Tokens that take signatures: in which EIP-712 domain, and which kinds of them. Asked of the token, never configured.
//!
//! What a token says about itself is believed only where it fits: the separator that it checks signatures by must be the one that
//! its name and version give on this chain. A token that lies harms those alone who pay with it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use alloy::{
    primitives::{Address, B256, U256, keccak256},
    sol,
    sol_types::SolStruct,
};

use escrow_abi::eip712::{Permit, ReceiveWithAuthorization, TransferWithAuthorization, token_domain};
pub use events::event::TokenDomain;
use sagas::ports::Transient;

use super::batching::Views;

/// How long what a token said counts. A token may be changed by its owner, and then what was signed fails when it is tried out.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// How long it counts that a token takes none: a node that fails may have said so.
const UNSIGNED_FOR: Duration = Duration::from_secs(30);
/// So many tokens are known at a time.
const KNOWN_MAX: usize = 1_024;
/// Longest name or version that is taken, bytes.
const TEXT_MAX: usize = 64;

sol! {
    interface ISigned {
        function name() external view returns (string);
        function version() external view returns (string);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
        function RECEIVE_WITH_AUTHORIZATION_TYPEHASH() external view returns (bytes32);
        function TRANSFER_WITH_AUTHORIZATION_TYPEHASH() external view returns (bytes32);
        function PERMIT_TYPEHASH() external view returns (bytes32);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function nonces(address owner) external view returns (uint256);
    }
}

/// Which signatures a token takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSignatures {
    /// Its domain.
    pub domain: TokenDomain,
    /// Transfers that whom they are to carries out (ERC-3009, `receiveWithAuthorization`).
    pub receives: bool,
    /// Transfers that anyone carries out (ERC-3009, `transferWithAuthorization`).
    pub transfers: bool,
    /// Allowances (ERC-2612).
    pub permits: bool,
}

/// What is known of the tokens of one chain. Clones share it.
#[derive(Debug, Clone)]
pub struct Tokens {
    views: Views,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    tokens: HashMap<Address, (Option<TokenSignatures>, Instant)>,
    /// In the order in which they came.
    order: VecDeque<Address>,
}

impl Tokens {
    /// The tokens of the chain that `views` sees.
    pub fn new(views: Views) -> Self {
        Self { views, known: Arc::default() }
    }

    /// What `token` said lately; `None` where it is to be asked. Nothing is asked.
    pub fn lately(&self, token: Address) -> Option<Option<TokenSignatures>> {
        let known = self.known();
        let (signatures, at) = known.tokens.get(&token)?;
        let holds = at.elapsed() < if signatures.is_some() { KNOWN_FOR } else { UNSIGNED_FOR };
        holds.then(|| signatures.clone())
    }

    /// Which signatures `token` takes; `None` for none. Asked of it where that is not known lately.
    ///
    /// # Errors
    /// [`Transient`] when the chain gives no answer.
    pub async fn signatures(&self, token: Address) -> Result<Option<TokenSignatures>, Transient> {
        if let Some(known) = self.lately(token) {
            return Ok(known);
        }
        let now = Instant::now();
        let signatures = match self.ask(token).await {
            Ok(signatures) => signatures,
            // What it said before is likelier than nothing, and what does not hold any more fails when it is tried out.
            Err(fault) => {
                let before = self.known().tokens.get(&token).and_then(|(before, _)| before.clone());
                return before.map(Some).ok_or(fault);
            }
        };
        let mut known = self.known();
        if known.tokens.insert(token, (signatures.clone(), now)).is_none() {
            known.order.push_back(token);
        }
        while known.order.len() > KNOWN_MAX {
            let Some(oldest) = known.order.pop_front() else { break };
            known.tokens.remove(&oldest);
        }
        Ok(signatures)
    }

    /// Whether an ERC-3009 nonce of `payer` was used, or given up.
    ///
    /// # Errors
    /// [`Transient`] when the chain gives no answer, and [`Transient::Contradiction`] of a token that has no such nonces.
    pub async fn is_used(&self, token: Address, payer: Address, nonce: B256) -> Result<bool, Transient> {
        self.views.read(token, &ISigned::authorizationStateCall { authorizer: payer, nonce }).await
    }

    /// The nonce that the next ERC-2612 permit of `owner` must have.
    ///
    /// # Errors
    /// As [`Tokens::is_used`].
    pub async fn permit_nonce(&self, token: Address, owner: Address) -> Result<U256, Transient> {
        self.views.read(token, &ISigned::noncesCall { owner }).await
    }

    async fn ask(&self, token: Address) -> Result<Option<TokenSignatures>, Transient> {
        let (separator, name, version, receives, transfers, permits, nonce) = (
            ISigned::DOMAIN_SEPARATORCall {},
            ISigned::nameCall {},
            ISigned::versionCall {},
            ISigned::RECEIVE_WITH_AUTHORIZATION_TYPEHASHCall {},
            ISigned::TRANSFER_WITH_AUTHORIZATION_TYPEHASHCall {},
            ISigned::PERMIT_TYPEHASHCall {},
            ISigned::noncesCall { owner: Address::ZERO },
        );
        let views = &self.views;
        let (separator, name, version, receives, transfers, permits, nonce) = futures::join!(
            views.read_if_there(token, &separator),
            views.read_if_there(token, &name),
            views.read_if_there(token, &version),
            views.read_if_there(token, &receives),
            views.read_if_there(token, &transfers),
            views.read_if_there(token, &permits),
            views.read_if_there(token, &nonce),
        );
        let (Some(separator), Some(name)) = (separator?, name?) else { return Ok(None) };
        // OpenZeppelin's tokens do not tell the version, which is "1" unless they say otherwise.
        let version = version?.unwrap_or_else(|| "1".to_owned());
        let (receives, transfers, permits, nonce) = (receives?, transfers?, permits?, nonce?);
        if name.len() > TEXT_MAX || version.len() > TEXT_MAX {
            return Ok(None);
        }
        let domain = token_domain(name.clone(), version.clone(), views.node().evm_id(), token);
        let [receive_type, transfer_type, permit_type] = [
            ReceiveWithAuthorization::eip712_encode_type(),
            TransferWithAuthorization::eip712_encode_type(),
            Permit::eip712_encode_type(),
        ]
        .map(|text| keccak256(text.as_bytes()));
        Ok((domain.separator() == separator).then(|| TokenSignatures {
            domain: TokenDomain { name, version },
            receives: receives == Some(receive_type),
            transfers: transfers == Some(transfer_type),
            // Some tell the type of their permits, of whom some have another (DAI); OpenZeppelin's do not.
            permits: nonce.is_some() && permits.is_none_or(|told| told == permit_type),
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
