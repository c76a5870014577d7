//! Intents: what a payer is about to submit, in files that only it can read, written before anything is sent. So the same command,
//! run again after it was killed at any moment, goes on with the same `request_id` and the same signature.
//!
//! An intent is found by what is paid, until its payment is over; then it lies under the payment's id, as a receipt.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use events::{Hash32, PaymentId, event::EscrowPlan};
use gateway_client::{Order, Submission};

const VERSION: u32 = 1;
/// What group and others may do.
const OTHERS: u32 = 0o077;
/// Characters of a digest that name a file.
const NAME_CHARS: usize = 32;

/// What is about to be paid, or was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent {
    v: u32,
    /// Where it is submitted.
    pub gateway: String,
    /// What was asked for. Its `request_id` stays the same until the payment is over.
    pub order: Order,
    /// The longest refund delay of the payment's chains.
    pub refund_delay_seconds: u64,
    /// The escrow and its windows, once something was signed for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<EscrowPlan>,
    /// What was signed; it may have been submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<Submission>,
    /// The payer's own transactions that gave allowances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<String>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Value>,
}

impl Intent {
    /// The intent to pay `order` through a gateway.
    pub fn new(gateway: String, order: Order, refund_delay_seconds: u64) -> Self {
        Self {
            v: VERSION,
            gateway,
            order,
            refund_delay_seconds,
            plan: None,
            submission: None,
            approvals: Vec::new(),
            receipt: None,
        }
    }
}

/// The directory of a payer's intents.
#[derive(Debug)]
pub struct Intents {
    directory: PathBuf,
}

/// The one intent of what is being paid, and the right to change it.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    /// Two that pay the same at once would each begin.
    _lock: File,
}

impl Intents {
    /// Those in `directory`, which is made where it is not there; without one, in the place that the platform has for such things.
    ///
    /// # Errors
    /// When there is no such place, it cannot be made, or it is open to other users: who can write there says what was paid.
    pub fn open(directory: Option<&Path>) -> Result<Self> {
        let directory = match directory {
            Some(directory) => directory.to_owned(),
            None => {
                let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
                let state = named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")));
                state
                    .context("--journal DIRECTORY is needed: there is neither HOME nor XDG_STATE_HOME")?
                    .join("gw/payments")
            }
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.with_context(|| format!("make {}", directory.display()))?;
        let found = fs::metadata(&directory).with_context(|| format!("read {}", directory.display()))?;
        let own = fs::metadata("/proc/self").context("read /proc/self")?;
        ensure!(found.uid() == own.uid(), "{} belongs to another user", directory.display());
        ensure!(found.mode() & OTHERS == 0, "{} is open to other users: chmod 700 closes it", directory.display());
        Ok(Self { directory })
    }

    /// The place of the intent that `what` names: all that decides which payment it is.
    ///
    /// # Errors
    /// While another process has it.
    pub fn hold(&self, what: &Value) -> Result<Held> {
        let digest = Hash32::sha256(what.to_string()).to_string();
        let name = digest.get(2..2 + NAME_CHARS).unwrap_or(&digest);
        let path = self.directory.join(format!("intent-{name}.json"));
        let lock = path.with_extension("lock");
        let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock);
        let opened = opened.with_context(|| format!("open {}", lock.display()))?;
        if opened.try_lock().is_err() {
            bail!("another process is paying exactly this; it has {}", lock.display());
        }
        Ok(Held { path, _lock: opened })
    }

    /// A payment that is over.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn over(&self, payment: &PaymentId) -> Result<Option<Intent>> {
        read(&self.receipt(payment))
    }

    /// Every intent, of payments that are over and of others; files that are not read are left out.
    pub fn all(&self) -> Vec<Intent> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.filter_map(|path| read(&path).ok().flatten()).collect()
    }

    /// Keeps how a payment ended, and lets the next one of its kind begin.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn end(&self, held: &Held, intent: &Intent) -> Result<PathBuf> {
        let path = self.receipt(&intent.order.payment_id());
        write(&path, intent)?;
        match fs::remove_file(&held.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("remove {}", held.path.display()));
            }
            _ => {}
        }
        Ok(path)
    }

    fn receipt(&self, payment: &PaymentId) -> PathBuf {
        self.directory.join(format!("{payment}.json"))
    }
}

impl Held {
    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The intent, where one was begun and is not over.
    ///
    /// # Errors
    /// When the file cannot be read: then nobody knows whether something was submitted.
    pub fn begun(&self) -> Result<Option<Intent>> {
        read(&self.path)
    }

    /// Keeps the intent. It is on disk when this returns.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn keep(&self, intent: &Intent) -> Result<()> {
        write(&self.path, intent)
    }
}

fn read(path: &Path) -> Result<Option<Intent>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    let intent: Intent = serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
    if intent.v != VERSION {
        bail!("{} is of version {}, and this program reads {VERSION}", path.display(), intent.v);
    }
    Ok(Some(intent))
}

/// Puts a file in the place of the other in one step, and both the file and its name on disk.
fn write(path: &Path, intent: &Intent) -> Result<()> {
    let new = path.with_extension("json.new");
    let written = || -> std::io::Result<()> {
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(serde_json::to_string_pretty(intent)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    written().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use events::OwnedAsset;
    use gateway_client::Windows;
    use serde_json::json;

    use super::*;

    fn intent() -> Intent {
        let owned = |asset: &str| {
            OwnedAsset::new(asset.parse().unwrap(), "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").unwrap()
        };
        let order = Order::new(
            owned("eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"),
            vec![owned("eip155:10/slip44:60")],
            "5".parse().unwrap(),
            Some("6".parse().unwrap()),
            chrono::Utc::now(),
            Windows::default(),
        );
        Intent::new("https://pay.example/".to_owned(), order, 900)
    }

    #[test]
    fn an_intent_is_there_after_the_process_for_its_payer_alone_and_until_it_is_over() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state/payments");
        let intents = Intents::open(Some(&directory)).unwrap();
        let what = json!({"what": 1});
        let held = intents.hold(&what).unwrap();
        assert!(intents.hold(&what).unwrap_err().to_string().contains("another process"));
        assert!(intents.hold(&json!({"what": 2})).is_ok());
        assert!(held.begun().unwrap().is_none());
        let intent = intent();
        held.keep(&intent).unwrap();
        assert_eq!(fs::metadata(&held.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        drop(held);

        let held = Intents::open(Some(&directory)).unwrap().hold(&what).unwrap();
        assert_eq!(held.begun().unwrap().unwrap().order, intent.order);
        let payment = intent.order.payment_id();
        assert!(intents.over(&payment).unwrap().is_none());
        intents.end(&held, &intent).unwrap();
        assert!(held.begun().unwrap().is_none());
        assert_eq!(intents.over(&payment).unwrap().unwrap().order, intent.order);
        assert_eq!(intents.all().len(), 1);
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_a_journal() {
        let place = tempfile::tempdir().unwrap();
        for (mode, is_taken) in [(0o700, true), (0o720, false), (0o755, false), (0o702, false)] {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Intents::open(Some(place.path())).is_ok(), is_taken, "{mode:o}");
        }
    }

    #[test]
    fn a_damaged_intent_is_not_taken_for_none() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("payments");
        let held = Intents::open(Some(&directory)).unwrap().hold(&json!(1)).unwrap();
        fs::write(&held.path, "{").unwrap();
        assert!(held.begun().unwrap_err().to_string().contains("damaged"));
        let mut other = serde_json::to_value(intent()).unwrap();
        other["v"] = json!(2);
        fs::write(&held.path, other.to_string()).unwrap();
        assert!(held.begun().unwrap_err().to_string().contains("version 2"));
    }
}
