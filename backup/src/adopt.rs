//! Taking a journal whose last messages may be lost as one that came out of a copy: what a majority that is gone had stored,
//! the server that is left may lack.

use std::collections::BTreeMap;

use async_nats::Client;
use chrono::{TimeDelta, Utc};

use app::admission::{
    pause::ControlBucket,
    restore_mark::{RestoreMark, RestoreState},
};
use audit::layout::Layout;
use config::GatewayConfig;
use journal::envelope;
use journal_jetstream::raw::RawReader;

use super::{
    Error,
    restore::{READ_MAX, other, require_nobody},
};

/// Marks all that the servers behind `client` hold as restored, and pauses the gateways; the last sequence of each shard. `wait` is as
/// for [`restore`](super::restore::restore). No gateway
/// may run, and `running` names those that answer.
///
/// # Errors
/// [`Error`]; the same call goes on.
pub async fn adopt(
    client: Client,
    config: &GatewayConfig,
    wait: TimeDelta,
    running: impl AsyncFn() -> Result<Vec<String>, String>,
) -> Result<BTreeMap<u16, u64>, Error> {
    require_nobody(&running).await?;
    let before = RestoreMark::read(&client).await.map_err(other("the mark of the restore"))?;
    if let Some(under_way) = before.as_ref().filter(|before| before.mark.state == RestoreState::UnderWay) {
        return Err(Error::OtherCopy { copied_at: under_way.mark.copied_at });
    }
    let reader = RawReader::new(client.clone(), READ_MAX);
    let layout = Layout::read(&reader).await?;
    let mut heads = BTreeMap::new();
    for shard in 0..layout.shards() {
        heads.insert(shard, reader.head(&envelope::stream(shard)).await?);
    }
    let replicas = usize::from(config.journal.replicas);
    let bucket = ControlBucket::open(client, replicas).await.map_err(other("the bucket of operators"))?;
    let reason = "the end of the journal may be lost".to_owned();
    bucket.pause(Some(reason)).await.map_err(other("the pause"))?;
    let now = Utc::now();
    let mark = RestoreMark {
        state: RestoreState::Done,
        copied_at: now,
        since: now,
        accepts_from: now + wait,
        heads: heads.clone(),
    };
    let before = before.map(|before| before.revision);
    mark.set(&bucket, before).await.map_err(other("the mark of the restore"))?;
    require_nobody(&running).await?;
    Ok(heads)
}
