//! Connections to NATS: every client proves an Ed25519 key of its own (NKEY), over TLS where it is told whom to trust.
//!
//! No password exists and nothing secret crosses the network: the server sends a nonce, the client signs it.

use std::{
    fmt, fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_nats::{Auth, AuthError, ConnectOptions};
use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{SigningKey, VerifyingKey};
use nkeys::{KeyPair, KeyPairType};
use url::Url;

/// The prefix of a user's public key: 20 in the five bits above the lowest three, which is `U` in base32.
const USER_PREFIX: u8 = 20 << 3;
/// Most bytes of a file with a seed.
const SEED_FILE_BYTES_MAX: u64 = 4096;

/// Longest time for a connection and its handshake with one server; one that hangs accepts connections and says nothing.
pub const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How often a server is asked whether it is still there. A connection that answers two in a row with silence is dead, and another
/// server is taken, in less time than an append waits for its outcome.
pub const PING_EVERY: Duration = Duration::from_millis(1500);

/// Why a client's key or addresses cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file holds something else. What it holds is not said: it may be another secret.
    #[error("{0}: must hold the seed of a NATS user, SU…")]
    NoSeed(PathBuf),
    /// The key has no seed, as one that was made of a public key.
    #[error("the key cannot sign")]
    CannotSign,
    /// An address is not a NATS address.
    #[error("must be nats:// or tls:// addresses, separated by commas")]
    Address,
    /// The address is plain and leads over a network.
    #[error("must be tls:// beyond loopback, or come with ca_file")]
    Plain,
}

/// The NATS identity of a client: its NKEY.
#[derive(Clone)]
pub struct Identity(Source);

#[derive(Clone)]
enum Source {
    Key(Arc<KeyPair>),
    File(PathBuf),
}

impl Identity {
    /// The client proves this key: a settler its DID's, a selector its own.
    pub fn of(key: &SigningKey) -> Self {
        Self(Source::Key(Arc::new(pair_of(key))))
    }

    /// The client proves the key whose seed stands in the file, as `gw nats init` writes it. The file is read again for each
    /// connection, so a key is changed by changing the file and the server's list: no process is started anew.
    ///
    /// # Errors
    /// [`Error`] when there is no such file, or something else in it.
    pub fn in_file(path: &Path) -> Result<Self, Error> {
        read(path)?;
        Ok(Self(Source::File(path.to_owned())))
    }

    /// The public key as nats.conf has it, `U…`.
    ///
    /// # Errors
    /// [`Error`] when the file is gone.
    pub fn nkey(&self) -> Result<String, Error> {
        Ok(self.pair()?.public_key())
    }

    /// Options of a connection in this name. With `ca_file` nothing but TLS will do, with a server whose certificate comes
    /// from one of the authorities in that file and from no other. Without it a `tls://` address is held against the system's
    /// authorities, and a `nats://` one is for loopback.
    pub fn options(&self, ca_file: Option<&Path>) -> ConnectOptions {
        // Two providers of cryptography are linked, and rustls takes neither by itself: it would panic at the first handshake.
        // Where a process has chosen one already, that stands.
        let _ = async_nats::rustls::crypto::aws_lc_rs::default_provider().install_default();
        let identity = self.clone();
        let options = ConnectOptions::with_auth_callback(move |nonce| {
            let identity = identity.clone();
            async move { identity.answer(&nonce) }
        });
        match ca_file {
            Some(file) => options.add_root_certificates(file.to_owned()).require_tls(true),
            None => options,
        }
    }

    fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let (nkey, signature) = self.prove(nonce).map_err(AuthError::new)?;
        let mut auth = Auth::new();
        (auth.nkey, auth.signature) = (Some(nkey), Some(signature));
        Ok(auth)
    }

    /// The public key, and its signature over what a server sent.
    ///
    /// # Errors
    /// [`Error`] when the file is gone, or the key has no seed.
    pub(crate) fn prove(&self, nonce: &[u8]) -> Result<(String, Vec<u8>), Error> {
        let pair = self.pair()?;
        let signature = pair.sign(nonce).map_err(|_| Error::CannotSign)?;
        Ok((pair.public_key(), signature))
    }

    fn pair(&self) -> Result<Arc<KeyPair>, Error> {
        match &self.0 {
            Source::Key(pair) => Ok(pair.clone()),
            Source::File(path) => read(path).map(Arc::new),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Key(pair) => write!(f, "Identity({})", pair.public_key()),
            Source::File(path) => write!(f, "Identity({})", path.display()),
        }
    }
}

/// The public key of a NATS user as nats.conf has it, `U…`, of an Ed25519 key: NATS's own form of the same key.
pub fn nkey(key: &VerifyingKey) -> String {
    let mut bytes = vec![USER_PREFIX];
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

/// The seed of a NATS user, `SU…`, as a file for [`Identity::in_file`] holds it.
pub fn nkey_seed(key: &SigningKey) -> String {
    // Only a key that was made of a public key has none.
    pair_of(key).seed().unwrap_or_default()
}

/// The addresses in a configuration's `url`, one or several separated by commas; `ca_file` as in [`Identity::options`].
///
/// # Errors
/// [`Error::Address`] when one is not a `nats://` or `tls://` address, [`Error::Plain`] when one that is not the machine's own
/// would be spoken to without TLS: a machine in the middle could change the messages.
pub fn servers(url: &str, ca_file: Option<&Path>) -> Result<Vec<String>, Error> {
    let address = |text: &str| {
        let url = Url::parse(text).map_err(|_| Error::Address)?;
        let own = match url.host_str() {
            Some("localhost") => true,
            Some(host) => host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
            None => return Err(Error::Address),
        };
        match url.scheme() {
            "tls" => Ok(text.to_owned()),
            "nats" if own || ca_file.is_some() => Ok(text.to_owned()),
            "nats" => Err(Error::Plain),
            _ => Err(Error::Address),
        }
    };
    url.split(',').map(str::trim).map(address).collect()
}

fn pair_of(key: &SigningKey) -> KeyPair {
    // Any 32 bytes are a seed; were one refused, a key that nobody admits is the safe answer.
    KeyPair::new_from_raw(KeyPairType::User, key.to_bytes()).unwrap_or_else(|_| KeyPair::new_user())
}

fn read(path: &Path) -> Result<KeyPair, Error> {
    let unreadable = |reason: String| Error::Unreadable { path: path.to_owned(), reason };
    let length = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if length > SEED_FILE_BYTES_MAX {
        return Err(Error::NoSeed(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let seed = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    match KeyPair::from_seed(seed) {
        Ok(pair) if seed.starts_with("SU") => Ok(pair),
        _ => Err(Error::NoSeed(path.to_owned())),
    }
}

/// CRC-16 as XMODEM has it (polynomial 0x1021, from zero), which NATS puts behind its keys.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ (u16::from(*byte) << 8),
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_in_nats_own_form() {
        for seed in [[0; 32], [7; 32], [255; 32]] {
            let key = SigningKey::from_bytes(&seed);
            let pair = KeyPair::new_from_raw(KeyPairType::User, seed).unwrap();
            assert_eq!(nkey(&key.verifying_key()), pair.public_key());
            let again = KeyPair::from_seed(&nkey_seed(&key)).unwrap();
            assert_eq!(again.public_key(), pair.public_key());
            // What it signs, the DID's key verifies.
            let signature = Identity::of(&key).answer(b"nonce").unwrap().signature.unwrap();
            let signature = ed25519_dalek::Signature::from_slice(&signature).unwrap();
            key.verifying_key().verify_strict(b"nonce", &signature).unwrap();
        }
    }

    #[test]
    fn a_file_is_read_again_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gateway.seed");
        assert!(matches!(Identity::in_file(&path), Err(Error::Unreadable { .. })));
        let (one, other) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        fs::write(&path, format!("# the gateway's\n{}\n", nkey_seed(&one))).unwrap();
        let identity = Identity::in_file(&path).unwrap();
        assert_eq!(identity.nkey().unwrap(), nkey(&one.verifying_key()));
        fs::write(&path, nkey_seed(&other)).unwrap();
        assert_eq!(identity.nkey().unwrap(), nkey(&other.verifying_key()));
        for wrong in ["", "SUSECRET", "SAAMFGJKX3CRXIVT6FNS6RG64XVRVWRDGQIZGWNGYEWGZFSRVNW4NBHTM4", &"x".repeat(5000)] {
            fs::write(&path, wrong).unwrap();
            let error = identity.nkey().unwrap_err().to_string();
            assert!(error.contains("gateway.seed") && !error.contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn addresses_are_of_nats() {
        assert_eq!(servers("nats://127.0.0.1:1, tls://b:2", None).unwrap(), ["nats://127.0.0.1:1", "tls://b:2"]);
        for wrong in ["", "http://a", "nats://localhost,", "ws://127.0.0.1"] {
            assert_eq!(servers(wrong, None), Err(Error::Address), "{wrong}");
        }
        assert!(servers("nats://localhost,nats://[::1]:4222", None).is_ok());
        for plain in ["nats://10.0.0.1", "nats://127.0.0.1,nats://nats.example:4222", "nats://localhost.example"] {
            assert_eq!(servers(plain, None), Err(Error::Plain), "{plain}");
            assert!(servers(plain, Some("ca.pem".as_ref())).is_ok(), "{plain}");
        }
    }
}
