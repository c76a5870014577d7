//! The history of a test: every call that a client made and every answer that it had, with their times, in a file.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Instant,
};

use anyhow::{Context, Result, bail};
use linearizability::{
    Call, Checked,
    gateway::{Answer, Awards, Idempotency, Op, Status, Statuses},
};
use serde_json::Value;

use devnet::payer;

/// Configurations that the search may look at for one payment or batch, which has some twenty calls.
const CONFIGURATIONS_MAX: usize = 1_000_000;

/// Writes down what clients ask and are told.
pub struct Recorder {
    began: Instant,
    path: PathBuf,
    file: Mutex<BufWriter<File>>,
}

/// What was checked of a history.
#[derive(Debug)]
#[allow(dead_code)] // Printed.
pub struct Judged {
    pub calls: usize,
    pub idempotency: Checked,
    pub awards: Checked,
    pub statuses: Checked,
    pub took: std::time::Duration,
}

impl Recorder {
    /// An empty history at `path`.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self { began: Instant::now(), path: path.to_owned(), file: Mutex::new(BufWriter::new(file)) })
    }

    /// Microseconds since the history began.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).expect("a test does not last for half a million years")
    }

    /// Writes down a call that was made at `invoked` and is over now; of an answer that says nothing, no more than that.
    ///
    /// # Errors
    /// When the answer is none that a gateway may give.
    pub fn add(&self, client: &str, op: Op, invoked: u64, answer: Option<&payer::Answer>) -> Result<()> {
        let returned = self.now();
        let answer = answer.map(|answer| said(&op, answer)).transpose()?.flatten();
        let call = Call { client: client.to_owned(), op, invoked, returned: answer.map(|answer| (returned, answer)) };
        linearizability::write(&mut *self.file.lock().unwrap(), &call)?;
        Ok(())
    }

    /// Checks the history, as it stands in the file, against what a gateway promises.
    ///
    /// # Errors
    /// With the calls that contradict each other.
    pub fn judge(&self) -> Result<Judged> {
        self.file.lock().unwrap().flush()?;
        let started = Instant::now();
        let history: Vec<Call<Op, Answer>> = linearizability::read(BufReader::new(File::open(&self.path)?))?;
        let kept = || format!("the history is kept in {}", self.path.display());
        let failed = |failure: String| anyhow::anyhow!("{failure}").context(kept());
        let check = linearizability::check::<Idempotency>;
        let idempotency = check(&history, CONFIGURATIONS_MAX).map_err(|failure| failed(failure.to_string()))?;
        let check = linearizability::check::<Awards>;
        let awards = check(&history, CONFIGURATIONS_MAX).map_err(|failure| failed(failure.to_string()))?;
        let check = linearizability::check::<Statuses>;
        let statuses = check(&history, CONFIGURATIONS_MAX).map_err(|failure| failed(failure.to_string()))?;
        Ok(Judged { calls: history.len(), idempotency, awards, statuses, took: started.elapsed() })
    }
}

/// What an answer says, for the models; nothing where its outcome is not known.
fn said(op: &Op, answer: &payer::Answer) -> Result<Option<Answer>> {
    let is_read = matches!(op, Op::Read { .. });
    let code = || answer.text("code").to_owned();
    Ok(match answer.status {
        200 => {
            let status: Status = serde_json::from_value(answer.body["status"].clone())
                .with_context(|| format!("an unknown status: {answer:?}"))?;
            if is_read {
                return Ok(Some(Answer::Shown(status)));
            }
            let replay = answer.body["idempotent_replay"].as_bool();
            let replay = replay.with_context(|| format!("created or found? {answer:?}"))?;
            Some(Answer::Accepted { payment: answer.text("payment_id").to_owned(), replay, status })
        }
        404 if is_read && code() == "PAYMENT_NOT_FOUND" => Some(Answer::Absent),
        // A gateway that cannot say.
        500 => None,
        429 | 503 if is_read => None,
        400..=499 | 503 if !is_read => {
            let exists = answer.body.get("request_id_reusable").and_then(Value::as_bool).map(|reusable| !reusable);
            Some(Answer::Refused { code: code(), exists })
        }
        _ => bail!("no answer to {op:?}: {answer:?}"),
    })
}
