//! Corridors: what the configuration lets a request name. They are served assets, default contracts and what is trusted
//! besides them.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use chrono::TimeDelta;

use chains::config::{AssetConfig, ChainConfig, Depth};
use config::{self, GatewayConfig};
use escrow_abi::contracts;
use events::{
    Account, AssetId, ChainId, Family, OwnedAsset,
    event::{Authorization, BatchToken, SelectorRef, VerifierRef},
    selection::SelectorKey,
    time::{Timestamp, from_unix_seconds},
};

use crate::{
    authorization::MessageScheme,
    error::{Code, Error},
};

/// The programs that own every token on Solana: SPL Token, Token-2022 and Associated Token Account.
const SOLANA_PROGRAMS: [&str; 3] = [
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
    "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
];

/// One chain, with its accounts parsed.
#[derive(Debug, Clone)]
pub struct Corridor {
    pub family: Family,
    pub escrow: Account,
    pub proxy: Account,
    /// Permit2, where payers may sign for it: on EVM chains, and on Tron where one is configured.
    pub permit2: Option<Account>,
    /// Whether a Permit2 transfer without a witness is taken for a payment.
    permit2_without_witness: bool,
    /// The cluster id and domain version of what is signed, on Solana.
    pub signature_domain: Option<(String, u8)>,
    pub reserver: Account,
    pub releaser: Account,
    pub refund_delay_seconds: u64,
    pub required_depth: Depth,
    pub assets: Vec<AssetConfig>,
    trusted_escrows: BTreeSet<Account>,
    trusted_proxies: BTreeSet<Account>,
    /// Who attests for payments whose source lies here and that name nobody.
    default_verifier: Verifier,
    /// Who may do so besides.
    trusted_verifiers: Vec<Verifier>,
    /// The contracts and programs of the chain that payments go through: nobody receives anything there.
    contracts: BTreeMap<Account, &'static str>,
}

/// A verifier, or a set of them, with the origins by which requests name it: of a set those of all its members.
#[derive(Debug, Clone)]
struct Verifier {
    verifier: VerifierRef,
    origins: Vec<String>,
}

impl Verifier {
    fn new(verifier: VerifierRef) -> Self {
        let members = verifier.members().into_iter();
        // That each has one, loading a configuration sees to.
        Self { origins: members.filter_map(|member| net::origin::origin(&member.endpoint)).collect(), verifier }
    }

    fn is_at(&self, origin: &str) -> bool {
        self.origins.iter().any(|own| own == origin)
    }
}

/// Whether `endpoint` is of the verifier's origin, or of that of one of a set's members.
pub(crate) fn is_at(verifier: &VerifierRef, endpoint: &str) -> bool {
    let origin = net::origin::origin(endpoint);
    verifier.members().iter().any(|member| net::origin::origin(&member.endpoint) == origin)
}

/// All chains served, and the verifiers and selectors that are trusted.
#[derive(Debug, Clone)]
pub struct Corridors {
    chains: BTreeMap<ChainId, Corridor>,
    trusted_selectors: BTreeSet<SelectorKey>,
    selector_time: TimeDelta,
    settler_policies: BTreeSet<String>,
}

/// A quote selector that is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedSelector {
    key: SelectorKey,
    /// The most it is given after the quote deadline.
    time: TimeDelta,
}

impl TrustedSelector {
    /// Its key.
    pub fn key(&self) -> SelectorKey {
        self.key
    }

    /// The selector with the time by which it has to answer. Half of what lies between the quote deadline and the end of
    /// the deposit's window is left for the deposit at least.
    pub fn of_payment(&self, quote_deadline: Timestamp, reserve_deadline: u64) -> SelectorRef {
        let window = from_unix_seconds(reserve_deadline).map_or(TimeDelta::zero(), |end| end - quote_deadline);
        let time = self.time.min(window / 2).max(TimeDelta::zero());
        SelectorRef { key: self.key, answer_by: quote_deadline + time }
    }
}

impl Corridors {
    /// Refuses a new payment that is signed, or to be signed, in a way that is not taken on its chain.
    pub fn check_scheme(&self, source: &ChainId, scheme: MessageScheme) -> Result<(), Error> {
        let taken = self.get(source).is_none_or(|corridor| corridor.takes(scheme));
        if taken { Ok(()) } else { Err(Code::MESSAGE_SCHEME_NOT_SERVED.into()) }
    }

    /// Checks that a batch draws tokens only that payments may come from here: any other may run code of its own in the deposit that draws
    /// it (ADR 158).
    ///
    /// # Errors
    /// 401 with the token that is not served.
    pub fn check_drawn(&self, authorization: &Authorization, source: &OwnedAsset) -> Result<(), Error> {
        let Authorization::EvmPermit2Batch(permit) = authorization else { return Ok(()) };
        for BatchToken { token, .. } in &permit.permitted {
            let token_contract = contracts::address(token).ok();
            let asset = token_contract.and_then(|token| contracts::erc20_asset(source.asset().chain(), token));
            if !asset.is_some_and(|asset| self.serves(&asset)) {
                let rule = format!("payload.batch.permitted: {token} is not a token that this gateway serves");
                return Err(Error::new(Code::INVALID_SENDER_AUTH, format!("sender_auth.signed_messages[0]: {rule}")));
            }
        }
        Ok(())
    }

    /// What the configuration names.
    pub fn new(config: &GatewayConfig) -> Self {
        let trusted = |contracts: &[config::ContractRef], chain: &ChainId| {
            let here = contracts.iter().filter(|contract| contract.chain_id == *chain);
            here.map(|contract| contract.account.clone()).collect()
        };
        // Each has its verifier, which loading a configuration sees to.
        let chains = config.chains.iter().filter_map(|served| {
            let (family, chain) = (served.chain.family(), served.chain.common());
            let account = |text: &str| Account::parse(family, text);
            let (escrow, proxy) = (chain.escrow_contract.clone(), chain.fulfillment_proxy.clone());
            let (permit2, signature_domain) = match &served.chain {
                ChainConfig::Evm(evm) => (Some(evm.permit2.clone()), None),
                ChainConfig::Solana(solana) => {
                    (None, Some((solana.signature_cluster_id.clone(), solana.signature_domain_version)))
                }
                ChainConfig::Tron(tron) => (tron.permit2.clone(), None),
            };
            let trusted_verifiers = config.trust.verifiers.iter().filter(|trusted| trusted.account.family() == family);
            let trusted_verifiers =
                trusted_verifiers.map(|trusted| VerifierRef::single(trusted.account.clone(), trusted.endpoint.clone()));
            let trusted_escrows: BTreeSet<_> = trusted(&config.trust.escrow_contracts, &chain.chain_id);
            let trusted_proxies: BTreeSet<_> = trusted(&config.trust.fulfillment_proxies, &chain.chain_id);
            let tokens = chain.assets.iter().map(|served| &served.asset_identifier);
            // A coin of the chain's own has no contract.
            let tokens = tokens.filter_map(|asset| Some((account(asset.reference()).ok()?, "a token contract")));
            let programs: &[&str] = match family {
                Family::Solana => &SOLANA_PROGRAMS,
                Family::Evm | Family::Tron => &[],
            };
            let programs = programs.iter().filter_map(|text| Some((account(text).ok()?, "a program of Solana's")));
            let escrows =
                trusted_escrows.iter().chain([&escrow]).map(|account| (account.clone(), "an escrow contract"));
            let proxies =
                trusted_proxies.iter().chain([&proxy]).map(|account| (account.clone(), "a fulfillment proxy"));
            let factory = match &served.chain {
                ChainConfig::Tron(tron) => tron.deposit_address_factory.clone(),
                ChainConfig::Evm(_) | ChainConfig::Solana(_) => None,
            };
            let factories = factory.into_iter().map(|account| (account, "a factory of deposit addresses"));
            let permit2s = permit2.iter().map(|account| (account.clone(), "Permit2"));
            let corridor = Corridor {
                family,
                contracts: tokens
                    .chain(programs)
                    .chain(permit2s)
                    .chain(factories)
                    .chain(proxies)
                    .chain(escrows)
                    .collect(),
                escrow,
                proxy,
                permit2,
                permit2_without_witness: served.permit2_without_witness,
                signature_domain,
                reserver: chain.reserver.clone(),
                releaser: chain.releaser.clone(),
                refund_delay_seconds: chain.refund_delay_seconds,
                required_depth: chain.required_depth,
                assets: chain.assets.clone(),
                trusted_escrows,
                trusted_proxies,
                default_verifier: Verifier::new(config.verifier.of_chain(&served.chain)?),
                trusted_verifiers: trusted_verifiers.map(Verifier::new).collect(),
            };
            Some((chain.chain_id.clone(), corridor))
        });
        Self {
            chains: chains.collect(),
            trusted_selectors: config.trust.selectors.iter().copied().collect(),
            // The configuration bounds it far below what cannot be represented.
            selector_time: TimeDelta::milliseconds(config.trust.selector_ms_max.cast_signed()),
            settler_policies: config.settlers.policies.keys().cloned().collect(),
        }
    }

    /// The chain, when it is served.
    pub fn get(&self, chain: &ChainId) -> Option<&Corridor> {
        self.chains.get(chain)
    }

    /// Every chain, in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&ChainId, &Corridor)> {
        self.chains.iter()
    }

    /// Names of the policies that a payer may require of settlers, in order.
    pub fn settler_policies(&self) -> impl Iterator<Item = &str> {
        self.settler_policies.iter().map(String::as_str)
    }

    /// Whether a payer may require this policy of settlers.
    pub fn has_policy(&self, name: &str) -> bool {
        self.settler_policies.contains(name)
    }

    /// Whether the asset is served.
    pub fn serves(&self, asset: &AssetId) -> bool {
        let corridor = self.get(asset.chain());
        corridor.is_some_and(|corridor| corridor.assets.iter().any(|served| served.asset_identifier == *asset))
    }

    /// What the account of `recipient` is on its chain, when it is one of the contracts or programs that payments go through.
    pub fn contract_at(&self, recipient: &OwnedAsset) -> Option<&'static str> {
        self.get(recipient.asset().chain())?.contracts.get(recipient.account()).copied()
    }

    /// The selector that `text` names, by any form of its key, when it is trusted.
    pub fn selector(&self, text: &str) -> Option<TrustedSelector> {
        let key = text.parse().ok().filter(|key| self.trusted_selectors.contains(key))?;
        Some(TrustedSelector { key, time: self.selector_time })
    }

    /// Least time between `fulfillment_deadline` and the refund window of a payment between these chains, in seconds: the
    /// longest of theirs, since each knows only its own finality and margin.
    pub fn refund_delay_seconds<'a>(&self, chains: impl Iterator<Item = &'a ChainId>) -> u64 {
        let delays = chains.filter_map(|chain| self.get(chain)).map(|corridor| corridor.refund_delay_seconds);
        delays.max().unwrap_or_default()
    }
}

impl Corridor {
    /// The ways in which a payer on this chain may sign.
    pub fn message_schemes(&self) -> impl Iterator<Item = MessageScheme> {
        MessageScheme::ALL.into_iter().filter(|scheme| self.takes(*scheme))
    }

    /// Whether a payer on this chain may sign so.
    pub fn takes(&self, scheme: MessageScheme) -> bool {
        let is_taken = match scheme {
            MessageScheme::EvmPermit2 => self.permit2_without_witness,
            MessageScheme::TronPermit2Escrow => self.permit2.is_some(),
            MessageScheme::EvmPermit2Escrow
            | MessageScheme::EvmPermit2Batch
            | MessageScheme::EvmPermit2Mandate
            | MessageScheme::EvmEip3009
            | MessageScheme::EvmX402Exact
            | MessageScheme::Solana
            | MessageScheme::SolanaX402Exact
            | MessageScheme::Tron => true,
        };
        scheme.family() == self.family && is_taken
    }

    /// The asset that is the wrapped form of the chain's own coin, where one is served.
    pub fn wrapped_coin(&self) -> Option<&AssetId> {
        self.assets.iter().find(|served| served.wraps.is_some()).map(|served| &served.asset_identifier)
    }

    /// The escrow contracts that a request whose source lies here may name: the default one first.
    pub fn escrows(&self) -> impl Iterator<Item = &Account> {
        [&self.escrow].into_iter().chain(self.trusted_escrows.iter().filter(|trusted| **trusted != self.escrow))
    }

    /// The fulfillment proxies that a request with a destination here may name: the default one first.
    pub fn proxies(&self) -> impl Iterator<Item = &Account> {
        [&self.proxy].into_iter().chain(self.trusted_proxies.iter().filter(|trusted| **trusted != self.proxy))
    }

    /// The verifier, or the set, of payments whose source lies here and that name nobody.
    pub fn default_verifier(&self) -> &VerifierRef {
        &self.default_verifier.verifier
    }

    /// Who has this account, a verifier's or a set's, and this origin, a set by any of its members, when a payment whose source lies
    /// here may have it.
    pub fn verifier(&self, account: &Account, origin: &str) -> Option<&VerifierRef> {
        self.verifier_by(Some(account), Some(origin))
    }

    /// The first with this account and this origin, as far as they are said: the default one where nothing is.
    pub fn verifier_by(&self, account: Option<&Account>, origin: Option<&str>) -> Option<&VerifierRef> {
        let is_named = |known: &&Verifier| {
            account.is_none_or(|account| known.verifier.account == *account)
                && origin.is_none_or(|origin| known.is_at(origin))
        };
        self.verifiers().find(is_named).map(|known| &known.verifier)
    }

    /// Who may attest for payments whose source lies here: the default one first.
    pub fn known_verifiers(&self) -> impl Iterator<Item = &VerifierRef> {
        self.verifiers().map(|known| &known.verifier)
    }

    fn verifiers(&self) -> impl Iterator<Item = &Verifier> {
        iter::once(&self.default_verifier).chain(&self.trusted_verifiers)
    }

    /// Whether the escrow contract is the default or trusted.
    pub fn trusts_escrow(&self, contract: &Account) -> bool {
        self.escrow == *contract || self.trusted_escrows.contains(contract)
    }

    /// Whether an escrow at this contract goes by the word of `verifier`. Of a set that is sure of the default one alone: those
    /// that are trusted besides may be of a version that takes a single verifier's word only.
    pub fn escrow_heeds(&self, contract: &Account, verifier: &VerifierRef) -> bool {
        verifier.set.is_none() || self.escrow == *contract
    }

    /// Whether the fulfillment proxy is the default or trusted.
    pub fn trusts_proxy(&self, contract: &Account) -> bool {
        self.proxy == *contract || self.trusted_proxies.contains(contract)
    }
}
