//! Configuration of `gw selector`.

use std::path::{Path, PathBuf};

use k256::ecdsa::SigningKey as EcdsaKey;
use serde::Deserialize;

use events::selection::SelectorSigner;
use journal_jetstream::connection::Identity;

use super::{Error, Secret, rules, source::Source};

/// Configuration of `gw selector`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorConfig {
    /// Private key that signs the choices, 0x and 64 hex digits.
    pub key: Secret,
    /// What kind of key it is.
    #[serde(default)]
    pub scheme: Scheme,
    /// Longest time after the quote deadline within which delivery must be promised, in seconds; without it any promise
    /// will do. Where all take longer, no quote is chosen.
    #[serde(default)]
    pub delivery_seconds_max: Option<u32>,
    /// The NATS server.
    pub nats: SelectorNatsConfig,
    /// How quotes are compared.
    pub rule: SelectorRule,
}

/// The kind of a selector's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Ed25519; requests name the selector by its did:key.
    #[default]
    Ed25519,
    /// secp256k1; requests name the selector by its EVM address.
    Evm,
}

/// `[nats]` of a selector.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectorNatsConfig {
    /// Address, `nats://host:port` or `tls://host:port`; several servers of a cluster are separated by commas.
    #[serde(default = "super::nats_url")]
    pub url: String,
    /// As for a gateway.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the seed of the selector's NKEY, `SU…`. Without it an Ed25519 selector proves the key it signs with; one
    /// with another kind of key needs the file.
    #[serde(default)]
    pub seed_file: Option<PathBuf>,
}

impl SelectorConfig {
    /// Reads the file at `path` with the environment's overrides and checks every value.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::read(path, Source::environment())
    }

    fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        let is_ours = |key: &str| key != "config";
        let config: Self = Source { prefix: "GW_SELECTOR_", is_ours }.extract(path, variables)?;
        config.signer()?;
        rules::nats_url(&config.nats.url, config.nats.ca_file.as_deref())?;
        if config.scheme != Scheme::Ed25519 && config.nats.seed_file.is_none() {
            return Err(invalid("nats.seed_file", "is needed where the key is none of Ed25519"));
        }
        Ok(config)
    }

    /// Who the selector is to NATS.
    ///
    /// # Errors
    /// [`Error::Invalid`] when its key or the file with it cannot be used.
    pub fn identity(&self) -> Result<Identity, Error> {
        match (&self.nats.seed_file, self.signer()?) {
            (Some(path), _) => Identity::in_file(path).map_err(|error| invalid("nats.seed_file", &error.to_string())),
            (None, SelectorSigner::Ed25519(key)) => Ok(Identity::of(&key)),
            (None, SelectorSigner::Evm(_)) => {
                Err(invalid("nats.seed_file", "is needed where the key is none of Ed25519"))
            }
        }
    }

    /// The key, ready to sign.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none; the text says nothing of it.
    pub fn signer(&self) -> Result<SelectorSigner, Error> {
        let rule = "must be a private key, 0x and 64 hex digits";
        let ed25519 = rules::signing_key(&self.key).ok_or_else(|| invalid("key", rule))?;
        match self.scheme {
            Scheme::Ed25519 => Ok(SelectorSigner::Ed25519(ed25519)),
            Scheme::Evm => {
                let key = EcdsaKey::from_slice(ed25519.as_bytes()).map_err(|_| invalid("key", rule))?;
                Ok(SelectorSigner::Evm(key))
            }
        }
    }
}

fn invalid(key: &str, rule: &str) -> Error {
    Error::Invalid { key: key.to_owned(), rule: rule.to_owned() }
}

/// The rule by which quotes are compared. Of two that it finds equal the cheaper wins, then the earlier promise, then the
/// lower hash, so that there is always exactly one best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Section")]
pub enum SelectorRule {
    /// The lowest source amount, as the gateway itself chooses.
    Cheapest,
    /// The earliest promised delivery.
    Fastest,
    /// Each second of a later promise counts like so many basis points of the lowest source amount.
    Weighed {
        /// Basis points a second.
        second_costs_bps: u32,
    },
}

/// The rule as a section of a file. A tagged enum would take unknown keys beside a kind that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    kind: Kind,
    second_costs_bps: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Cheapest,
    Fastest,
    Weighed,
}

impl TryFrom<Section> for SelectorRule {
    type Error = &'static str;

    fn try_from(section: Section) -> Result<Self, &'static str> {
        match (section.kind, section.second_costs_bps) {
            (Kind::Cheapest, None) => Ok(Self::Cheapest),
            (Kind::Fastest, None) => Ok(Self::Fastest),
            (Kind::Weighed, Some(second_costs_bps)) => Ok(Self::Weighed { second_costs_bps }),
            (Kind::Weighed, None) => Err("second_costs_bps is missing"),
            (_, Some(_)) => Err("second_costs_bps belongs to the kind \"weighed\" alone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../selector.example.toml");

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<SelectorConfig, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("selector.toml");
        std::fs::write(&path, text).unwrap();
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        SelectorConfig::read(&path, variables).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_names_every_key_and_shows_the_defaults() {
        let plain = read(EXAMPLE, &[]).unwrap();
        assert_eq!((plain.scheme, plain.rule), (Scheme::Ed25519, SelectorRule::Fastest));
        assert_eq!(
            plain.signer().unwrap().key().to_string(),
            "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
        );
        let switched = EXAMPLE.replace("# scheme = ", "scheme = ").replace("# url = ", "url = ");
        assert_ne!(switched, EXAMPLE);
        assert_eq!(format!("{:?}", read(&switched, &[]).unwrap()), format!("{plain:?}"));
        let bounded = EXAMPLE.replace("# delivery_seconds_max = ", "delivery_seconds_max = ");
        assert_eq!(read(&bounded, &[]).unwrap().delivery_seconds_max, Some(60));
        let weighed =
            EXAMPLE.replace("kind = \"fastest\"", "kind = \"weighed\"").replace("# second_costs", "second_costs");
        assert_eq!(read(&weighed, &[]).unwrap().rule, SelectorRule::Weighed { second_costs_bps: 1 });
    }

    #[test]
    fn what_is_wrong_is_named_and_the_key_is_never_shown() {
        for (from, to, name) in [
            ("key = \"0x", "key = \"", "key"),
            ("kind = \"fastest\"", "kind = \"dearest\"", "dearest"),
            ("[rule]", "[rule]\nsped = 1", "sped"),
            ("[rule]", "[rule]\nsecond_costs_bps = 1", "weighed"),
            ("[nats]", "[nats]\npasword = 1", "pasword"),
            ("[nats]", "[nats]\nurl = \"nats://nats.example\"", "nats.url"),
        ] {
            let changed = EXAMPLE.replace(from, to);
            assert_ne!(changed, EXAMPLE, "{from} is not in the example");
            let error = read(&changed, &[]).unwrap_err();
            assert!(error.contains(name), "{error} does not name {name}");
            assert!(!error.contains("00000000"), "{error}");
        }
        let error = read(EXAMPLE, &[("GW_SELECTOR_NATS__URL", "http://nats.example")]).unwrap_err();
        assert!(error.contains("nats.url"), "{error}");
        assert!(!format!("{:?}", read(EXAMPLE, &[]).unwrap()).contains("00000000"));
        // Zero is an Ed25519 seed, and no secp256k1 key.
        let evm = ("GW_SELECTOR_SCHEME", "evm");
        let error = read(EXAMPLE, &[evm]).unwrap_err();
        assert!(error.contains("key"), "{error}");
        // What signs on another curve proves nothing to NATS.
        let key = ("GW_SELECTOR_KEY", "\"0x0000000000000000000000000000000000000000000000000000000000000001\"");
        let error = read(EXAMPLE, &[evm, key]).unwrap_err();
        assert!(error.contains("nats.seed_file"), "{error}");
        assert!(read(EXAMPLE, &[evm, key, ("GW_SELECTOR_NATS__SEED_FILE", "selector.seed")]).is_ok());
    }
}
