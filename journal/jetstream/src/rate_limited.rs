//! Rate-limited subscriptions: what settlers and auditors say unasked is taken at a bounded rate.
//!
//! A client may publish as fast as its connection takes it, and the server hands everything on. The server is therefore told
//! after how many messages a subscription ends: beyond the limit nothing crosses to this process.

use std::{fmt, future::Future, time::Duration};

use async_nats::{Client, Message, SubscribeError, Subscriber};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, sleep, sleep_until};

use super::headerless::{self, HeaderlessClient};

/// Pause before a subscription that failed is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A connection that can be told after how many messages a subscription ends.
pub trait LimitedSubscriber: Send + Sync {
    /// What is heard.
    type Message;
    /// The messages of one subscription.
    type Messages: Stream<Item = Self::Message> + Unpin + Send;
    /// Why nothing can be heard for now.
    type Error: fmt::Display + Send;

    /// A subscription that ends after so many messages; in a queue group, where one is given.
    fn subscribe_up_to(
        &self,
        subject: String,
        group: Option<&'static str>,
        messages_max: u64,
    ) -> impl Future<Output = Result<Self::Messages, Self::Error>> + Send;
}

impl LimitedSubscriber for Client {
    type Message = Message;
    type Messages = Subscriber;
    type Error = SubscribeError;

    async fn subscribe_up_to(
        &self,
        subject: String,
        group: Option<&'static str>,
        messages_max: u64,
    ) -> Result<Subscriber, SubscribeError> {
        let mut messages = match group {
            Some(group) => self.queue_subscribe(subject, group.to_owned()).await?,
            None => self.subscribe(subject).await?,
        };
        // It fails where the connection is closed for good, and then nothing is heard either.
        let _ = messages.unsubscribe_after(messages_max).await;
        Ok(messages)
    }
}

impl LimitedSubscriber for HeaderlessClient {
    type Message = headerless::Message;
    type Messages = headerless::Subscription;
    type Error = headerless::Error;

    async fn subscribe_up_to(
        &self,
        subject: String,
        group: Option<&'static str>,
        messages_max: u64,
    ) -> Result<headerless::Subscription, headerless::Error> {
        HeaderlessClient::subscribe_up_to(self, subject, group, messages_max).await
    }
}

/// A subscription that yields at most `messages_max` messages a period, and misses what comes beyond.
pub struct RateLimitedSubscription<C: LimitedSubscriber> {
    connection: C,
    subject: String,
    /// The queue group whose members share the messages, each with a limit of its own; without one everybody gets them all.
    group: Option<&'static str>,
    messages_max: u64,
    period: Duration,
    live: Option<C::Messages>,
    /// When the next subscription may begin.
    next: Instant,
}

impl<C: LimitedSubscriber> RateLimitedSubscription<C> {
    /// A subscription to `subject` that begins with the first [`RateLimitedSubscription::next`].
    pub fn new(connection: C, subject: impl Into<String>, messages_max: u64, period: Duration) -> Self {
        Self {
            connection,
            subject: subject.into(),
            group: None,
            messages_max,
            period,
            live: None,
            next: Instant::now(),
        }
    }

    /// The same in a queue group: its members share the messages.
    #[must_use]
    pub fn in_queue_group(self, group: &'static str) -> Self {
        Self { group: Some(group), ..self }
    }

    /// The next message. Nothing is lost when this is dropped before it is there.
    pub async fn next(&mut self) -> C::Message {
        loop {
            if let Some(live) = &mut self.live {
                if let Some(message) = live.next().await {
                    return message;
                }
                self.live = None;
            }
            sleep_until(self.next).await;
            let subject = self.subject.clone();
            match self.connection.subscribe_up_to(subject, self.group, self.messages_max).await {
                Ok(live) => {
                    self.next = Instant::now() + self.period;
                    self.live = Some(live);
                }
                Err(error) => {
                    tracing::warn!(%error, self.subject, "cannot listen, trying again");
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use devkit::NatsServer;

    use super::*;

    #[tokio::test]
    async fn a_flood_is_cut_off_at_the_server_and_the_next_period_begins_anew() -> Result<()> {
        let server = NatsServer::open().await?;
        let (reader, writer) = (async_nats::connect(server.url()).await?, async_nats::connect(server.url()).await?);
        let mut limited = RateLimitedSubscription::new(reader.clone(), "flood", 8, Duration::from_secs(2));
        let before = Instant::now();
        let first = async {
            while tokio::time::timeout(Duration::from_millis(10), limited.next()).await.is_err() {
                writer.publish("flood", "x".into()).await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(Duration::from_secs(20), first).await??;
        for _ in 0..50_000 {
            writer.publish("flood", "y".repeat(100).into()).await?;
        }
        writer.flush().await?;
        let read = reader.statistics().in_messages.load(std::sync::atomic::Ordering::Relaxed);
        for _ in 1..8 {
            limited.next().await;
        }
        assert!(read < 1_000, "{read} of 50000 messages crossed");
        // The ninth is of the next period.
        let ninth = async {
            loop {
                writer.publish("flood", "z".into()).await?;
                if tokio::time::timeout(Duration::from_millis(10), limited.next()).await.is_ok() {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ninth).await??;
        assert!(before.elapsed() >= Duration::from_secs(2));
        Ok(())
    }
}
