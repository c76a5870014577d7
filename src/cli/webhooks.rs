//! `gw webhooks`.

use std::{fmt::Write, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use chrono::SecondsFormat;
use clap::{ArgGroup, Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use config::GatewayConfig;
use events::{PaymentId, time::Timestamp};
use webhooks::{
    desk::{Desk, Selection, State},
    message::MessageId,
    queue::DeadLetter,
    webhook::{Scope, Webhook, WebhookId},
};

use crate::{nats::client::connect, serve::OpenedWebhooks};

/// Messages that one command has delivered again at most.
const REDELIVERED_MAX: usize = 10_000;

/// Arguments of `gw webhooks`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The gateway's configuration file, whose NATS server and credentials are used.
    #[arg(long, env = "GW_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the webhooks of all owners.
    List {
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Show one webhook: what waits for its endpoint, what that answered last, its dead letters.
    Show {
        /// The webhook.
        id: WebhookId,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List the messages that were given up, of one webhook or of all.
    Dead {
        /// The webhook.
        id: Option<WebhookId>,
        /// As a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Deliver messages of a webhook again, and enable it where it is disabled.
    #[command(group = ArgGroup::new("which").required(true).args(["payment", "message", "from", "dead"]))]
    Redeliver {
        /// The webhook.
        id: WebhookId,
        /// All about this payment.
        #[arg(long)]
        payment: Option<PaymentId>,
        /// Those with these `webhook-id`s.
        #[arg(long)]
        message: Vec<MessageId>,
        /// Those about what happened then or later, RFC 3339.
        #[arg(long, requires = "to")]
        from: Option<Timestamp>,
        /// Those about what happened earlier.
        #[arg(long, requires = "from")]
        to: Option<Timestamp>,
        /// Its dead letters.
        #[arg(long)]
        dead: bool,
    },
    /// Delete a webhook, whoever's it is. What waits for it is not delivered any more.
    Delete {
        /// The webhook.
        id: WebhookId,
    },
    /// Show the public keys that receivers verify messages with, the current one first.
    Keys,
}

/// Carries out one order.
///
/// # Errors
/// When the configuration cannot be used, NATS does not answer, or there is nothing of the kind.
pub(super) async fn run(args: Args) -> Result<()> {
    let path = args.config.context("--config FILE is needed: the gateway's own; see config/gateway.example.toml")?;
    let config = GatewayConfig::load(&path)?;
    let client = connect(&config.nats, "gw webhooks").await?;
    let opened = OpenedWebhooks::open(&config, &client).await?;
    let desk =
        opened.context("webhooks are off: [webhooks] enabled, and a key, in the gateway's file")?.desk(&config)?;
    let answer = match args.command {
        Command::List { json } => {
            let webhooks = desk.all().await?;
            if json { pretty(&webhooks.iter().map(|webhook| summary(webhook)).collect())? } else { list(&webhooks) }
        }
        Command::Show { id, json } => {
            let state = desk.state(desk.find(&id, None).await?).await?;
            if json { pretty(&shown(&state))? } else { show(&state) }
        }
        Command::Dead { id, json } => dead(&desk, id, json).await?,
        Command::Redeliver { id, payment, message, from, to, dead: _ } => {
            let selection = match (payment, from.zip(to)) {
                (Some(payment_id), _) => Selection::Payment(payment_id),
                (None, Some((from, to))) => Selection::Between(from, to),
                (None, None) if !message.is_empty() => Selection::Messages(message),
                (None, None) => Selection::Dead,
            };
            let webhook = desk.find(&id, None).await?;
            let messages = desk.select(&webhook, &selection, REDELIVERED_MAX).await?;
            if messages.is_empty() {
                bail!("{id} has no such message");
            }
            let again = desk.redeliver(&webhook, messages).await?;
            if again.is_empty() {
                bail!("{id} is enabled; what waits for it comes first, ask again then");
            }
            let ids = again.iter().map(|message| format!("delivered again: {}", message.due.id));
            ids.collect::<Vec<_>>().join("\n")
        }
        Command::Delete { id } => {
            let webhook = desk.find(&id, None).await?;
            desk.delete(&webhook.id).await?;
            format!("deleted: {id}")
        }
        Command::Keys => {
            let keys = desk.public_keys();
            keys.iter().map(|key| format!("{} {}", key.public_key, key.did)).collect::<Vec<_>>().join("\n")
        }
    };
    super::answer(answer.trim_end())
}

async fn dead(desk: &Desk, id: Option<WebhookId>, json: bool) -> Result<String> {
    let webhooks = match id {
        Some(id) => vec![desk.find(&id, None).await?],
        None => desk.all().await?,
    };
    let mut letters = Vec::new();
    for webhook in webhooks {
        let id = webhook.id.clone();
        letters.extend(desk.state(webhook).await?.dead.into_iter().map(|letter| (id.clone(), letter)));
    }
    if json {
        let body = |(id, letter): &(WebhookId, DeadLetter)| {
            let mut body = dead_letter(letter);
            body["webhook"] = json!(id);
            body
        };
        return pretty(&letters.iter().map(body).collect());
    }
    if letters.is_empty() {
        return Ok("there are no dead letters".to_owned());
    }
    Ok(letters.iter().map(|(id, letter)| format!("{id} {}\n", dead_line(letter))).collect())
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// What a stranger had a part in, without what a terminal acts on.
fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn scope(webhook: &Webhook) -> String {
    match &webhook.registration.scope {
        Scope::Owner => "all payments".to_owned(),
        Scope::Payment(payment_id) => payment_id.to_string(),
    }
}

fn list(webhooks: &[Arc<Webhook>]) -> String {
    if webhooks.is_empty() {
        return "there are no webhooks".to_owned();
    }
    let line = |webhook: &Arc<Webhook>| {
        let disabled = webhook.disabled.as_ref().map(|disabled| format!(" DISABLED since {}", time(disabled.at)));
        let (owner, url) = (&webhook.registration.owner.originator, printable(&webhook.registration.url));
        format!("{} {owner} {} {url}{}\n", webhook.id, scope(webhook), disabled.unwrap_or_default())
    };
    webhooks.iter().map(line).collect()
}

fn summary(webhook: &Webhook) -> Value {
    let registration = &webhook.registration;
    let payment_id = match &registration.scope {
        Scope::Owner => None,
        Scope::Payment(payment_id) => Some(payment_id),
    };
    json!({
        "id": webhook.id,
        "owner": registration.owner.originator,
        "url": registration.url,
        "payment_id": payment_id,
        "events": registration.events,
        "registered_at": webhook.registered_at,
        "disabled": webhook.disabled,
    })
}

fn dead_letter(letter: &DeadLetter) -> Value {
    json!({
        "message_id": letter.id,
        "payment_id": letter.payment_id,
        "type": letter.kind,
        "occurred_at": letter.occurred_at,
        "given_up_at": letter.at,
        "attempts": letter.attempts,
        "error": letter.error,
    })
}

fn dead_line(letter: &DeadLetter) -> String {
    let DeadLetter { id, kind, at, attempts, error, .. } = letter;
    format!("{id} {} given up {} after {attempts} attempts: {}", kind.as_str(), time(*at), printable(error))
}

fn shown(state: &State) -> Value {
    let mut body = summary(&state.webhook);
    body["waiting"] = json!(state.waiting);
    body["more_waiting"] = json!(state.waiting_more);
    body["health"] = json!(state.health);
    body["dead_letters"] = state.dead.iter().map(dead_letter).collect();
    body["more_dead_letters"] = json!(state.dead_more);
    body
}

fn show(state: &State) -> String {
    let State { webhook, health, waiting, waiting_more, dead, dead_more } = state;
    let mut text = list(std::slice::from_ref(webhook));
    let more = if *waiting_more { " or more" } else { "" };
    // Writing into a text fails never.
    let _ = writeln!(
        text,
        "delivered {}, waiting {waiting}{more}, dead {}",
        health.delivered,
        dead.len() as u64 + dead_more
    );
    if let Some(disabled) = &webhook.disabled {
        let _ = writeln!(text, "disabled: {}", printable(&disabled.reason));
    }
    if let Some(since) = health.failing_since {
        let _ = writeln!(text, "fails since {}", time(since));
    }
    if let Some(last) = &health.last_error {
        let _ = writeln!(text, "last error {}: {}", time(last.at), printable(&last.error));
    }
    dead.iter().for_each(|letter| text.push_str(&format!("dead: {}\n", dead_line(letter))));
    text
}
