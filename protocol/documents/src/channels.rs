//! The subjects of the protocol: who may say what where, what is kept of it, and for how long.

use async_nats::jetstream::{
    consumer::pull,
    stream::{Config, StorageType},
};
use serde_json::{Map, Value, json};

use auction::streams;
use events::SettlerToken;
use protocol::{
    BID_SECONDS_MAX, BIDS_PER_REQUEST_MAX, MESSAGE_BYTES_MAX, REGISTRATION_BYTES_MAX, REGISTRATION_RENEWAL,
};
use sagas::ports::{ANSWER_WAIT_MAX, REPLACEABLE_ANSWER_WAIT};
use settler::nats_credentials::Permissions;

/// What there is to know of the header of requests and awards.
const TRACEPARENT: &str = "Where the gateway traces, the header `traceparent` (W3C Trace Context) names the span that it was sent \
    in. It says nothing about the message, and may be passed over.";

/// A subject, or a family of them.
pub(super) struct Channel {
    /// Its name in the document.
    pub(super) name: &'static str,
    /// The subject, with parameters in braces; `None` for a reply's inbox.
    pub(super) address: Option<String>,
    /// One line.
    pub(super) title: &'static str,
    /// What there is to know.
    pub(super) description: String,
    /// Parameters of the address.
    pub(super) parameters: &'static [&'static str],
    /// Messages by name.
    pub(super) messages: &'static [&'static str],
    /// What keeps the messages.
    pub(super) kept: Option<Value>,
}

/// What one role does on a channel.
pub(super) struct Operation {
    /// Its name in the document.
    pub(super) name: &'static str,
    /// Who does it.
    pub(super) role: &'static str,
    /// `send` or `receive`, as that role sees it.
    pub(super) action: &'static str,
    /// Where.
    pub(super) channel: &'static str,
    /// One line.
    pub(super) summary: &'static str,
    /// What there is to know.
    pub(super) description: &'static str,
    /// The channel in which an answer comes.
    pub(super) reply: Option<&'static str>,
}

/// A role with the subjects that nats.conf opens to it.
pub(super) struct Role {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) subscribe: Vec<String>,
    pub(super) publish: Vec<String>,
}

/// A parameter of an address.
pub(super) const PARAMETERS: [(&str, &str); 6] = [
    ("settler", "The settler's token: lower-case unpadded base32 of the first 16 bytes of the SHA-256 of its DID."),
    (
        "selector",
        "The selector's token: lower-case unpadded base32 of the first 16 bytes of the SHA-256 of its key as requests name \
         it.",
    ),
    (
        "auction",
        "The auction's id: that of the payment, or of the quote-request batch, or one of the payment's further auctions.",
    ),
    ("payment", "The payment's id."),
    (
        "award",
        "Which award it is: the payment's id, or the quote's hash where the award has `escrowed`, as a payment may have several \
         of these.",
    ),
    ("delivery", "What the server wrote into the reply subject of the message; taken from there as it is."),
];

/// Messages that are JetStream's and not this protocol's.
pub(super) fn foreign_messages() -> [(&'static str, Value); 3] {
    [
        (
            "Stored",
            json!({
                "summary": "JetStream has stored a message, or says why not",
                "contentType": "application/json",
                "payload": {
                    "type": "object",
                    "properties": {
                        "stream": {"type": "string"},
                        "seq": {"type": "integer"},
                        "duplicate": {"type": "boolean"},
                        "error": {"type": "object", "properties": {
                            "code": {"type": "integer"},
                            "err_code": {"type": "integer"},
                            "description": {"type": "string"},
                        }},
                    },
                },
            }),
        ),
        (
            "NextAwards",
            json!({
                "summary": "Asks a pull consumer for messages",
                "contentType": "application/json",
                "payload": {
                    "type": "object",
                    "properties": {
                        "batch": {"type": "integer", "description": "Most messages to send."},
                        "expires": {"type": "integer", "description": "Nanoseconds after which the request lapses."},
                        "no_wait": {"type": "boolean", "description": "Answer at once when there is nothing."},
                    },
                },
            }),
        ),
        (
            "Acknowledgement",
            json!({
                "summary": "Says what became of a delivered award",
                "contentType": "text/plain",
                "payload": {
                    "type": "string",
                    "enum": ["+ACK", "+WPI", "-NAK", "+TERM"],
                    "description": "Settled; still worked on; deliver again; never to be settled.",
                },
            }),
        ),
    ]
}

/// Every channel there is.
pub(super) fn channels() -> Vec<Channel> {
    let own = Permissions::of(&SettlerToken::from_subject("{settler}"));
    [auctions(&own), awards(&own), deliveries(&own), selections()].into_iter().flatten().collect()
}

/// A subject of `subject` with a parameter in the place of its wildcard.
fn named(subject: &str, parameter: &str) -> Option<String> {
    Some(subject.replace(['*', '>'], parameter))
}

/// Who is there, who is asked, and what is bid.
fn auctions(own: &Permissions) -> Vec<Channel> {
    vec![
        Channel {
            name: "registrations",
            address: Some(own.registration.clone()),
            title: "Registry of settlers",
            description: format!(
                "Write the whole registration every {} seconds, at most {REGISTRATION_BYTES_MAX} bytes; it lapses by itself. \
                 A message without a body takes it back at once; headers are not read. The gateway makes a stream for it, \
                 and one for the settler's bids, when it first hears of the settler. A few changes a minute count; those \
                 beyond wait.",
                REGISTRATION_RENEWAL.as_secs()
            ),
            parameters: &["settler"],
            messages: &["Registration"],
            kept: Some(kept(&streams::registration(&SettlerToken::from_subject("{settler}")))),
        },
        Channel {
            name: "requestsForQuotes",
            address: named(&own.requests, "{auction}"),
            title: "Requests for quotes",
            description: format!(
                "Not stored. A request that is not answered is sent again after 2 seconds, 4, 8 and so on until the \
                 quote deadline. Its reply subject is that of the bid, and it is what permits the settler to bid: on the \
                 connection that was asked, at most {BIDS_PER_REQUEST_MAX} times and within {BID_SECONDS_MAX} seconds. \
                 {TRACEPARENT}"
            ),
            parameters: &["settler", "auction"],
            messages: &["RequestForQuotes"],
            kept: None,
        },
        Channel {
            name: "bids",
            address: named(&own.bids, "{auction}"),
            title: "Bids",
            description:
                "The answer to a request, published to its reply subject, which is this one. Counts when it is stored before \
                 the quote deadline. A bid that nobody asked for is refused by the server; one that is late or \
                          malformed is dropped."
                    .to_owned(),
            parameters: &["settler", "auction"],
            messages: &["Bid"],
            kept: Some(kept(&streams::bids(&SettlerToken::from_subject("{settler}")))),
        },
    ]
}

/// What a winner is told and answers, and that an auction is over.
fn awards(own: &Permissions) -> Vec<Channel> {
    vec![
        Channel {
            name: "awards",
            address: Some("auction.award.{settler}.{award}".to_owned()),
            title: "Awards",
            description: format!(
                "Durable: an award is there until its settler acknowledges it, after any absence that `x-kept` allows. When it \
                 ends without a deposit or a reassignment its end takes its place, told apart by the member `ended`. The gateway \
                 creates the settler's consumer when it first sees its registration. {TRACEPARENT}"
            ),
            parameters: &["settler", "award"],
            messages: &["Award", "AwardEnd"],
            kept: Some(kept(&streams::awards())),
        },
        Channel {
            name: "answers",
            address: named(&own.answers, "{award}"),
            title: "Answers to awards",
            description: format!(
                "A request to the gateway, under the last token of the award's own subject. The gateway keeps one answer of each \
                 award: the first that comes in time. That is {} s from the \
                 award where another quote can be awarded in its place, unless the gateway's operator has chosen otherwise \
                 (`award_ack_ms`), and {} s where none can. The settler is not told which it is: answer at once. What stands is \
                 in the gateway's answer; whoever is late reads `withdrawn`, and another settler may have the award. Which awards \
                 count as missed in the settler's record, docs/settlers.md says.",
                REPLACEABLE_ANSWER_WAIT.as_secs(),
                ANSWER_WAIT_MAX.as_secs()
            ),
            parameters: &["settler", "award"],
            messages: &["AwardAnswer"],
            kept: None,
        },
        Channel {
            name: "receipts",
            address: None,
            title: "The client's inbox, for what stands",
            description: "Whatever reply subject the answer names, below the settler's own inbox prefix \
                          `_INBOX_{settler}`."
                .to_owned(),
            parameters: &[],
            messages: &["AwardReceipt"],
            kept: None,
        },
        Channel {
            name: "ends",
            address: named(&own.over, "{auction}"),
            title: "Ends of auctions",
            description: "Not stored, and sent once. A hint that lets losers go at once; quotes lapse by themselves."
                .to_owned(),
            parameters: &["settler", "auction"],
            messages: &["AuctionOver"],
            kept: None,
        },
    ]
}

/// How awards are fetched and acknowledged, and deliveries reported.
fn deliveries(own: &Permissions) -> Vec<Channel> {
    vec![
        Channel {
            name: "awardRequests",
            address: Some(own.pull.clone()),
            title: "Asking for awards",
            description: format!(
                "Pulls from the settler's durable consumer. {}",
                consumer(&streams::consumer(&SettlerToken::from_subject("{settler}")))
            ),
            parameters: &["settler"],
            messages: &["NextAwards"],
            kept: None,
        },
        Channel {
            name: "awardAcknowledgements",
            address: named(&own.acks, "{delivery}"),
            title: "Acknowledging awards",
            description: "The reply subject of a delivered award.".to_owned(),
            parameters: &["settler", "delivery"],
            messages: &["Acknowledgement"],
            kept: None,
        },
        Channel {
            name: "reports",
            address: named(&own.reports, "{payment}"),
            title: "Reports of deliveries",
            description: "Not stored. A hint that saves the gateway a search: the chain alone is believed.".to_owned(),
            parameters: &["settler", "payment"],
            messages: &["Report"],
            kept: None,
        },
    ]
}

/// What selectors are asked, and the inboxes.
fn selections() -> Vec<Channel> {
    vec![
        Channel {
            name: "selections",
            address: Some("selector.{selector}".to_owned()),
            title: "Choosing among quotes",
            description:
                "Not stored. Asked again when no answer comes, until `answer_by`; the answer follows from the \
                          request alone."
                    .to_owned(),
            parameters: &["selector"],
            messages: &["SelectionRequest"],
            kept: None,
        },
        Channel {
            name: "choices",
            address: None,
            title: "The gateway's inbox",
            description: "The reply subject of the request.".to_owned(),
            parameters: &[],
            messages: &["SelectionAnswer"],
            kept: None,
        },
        Channel {
            name: "replies",
            address: None,
            title: "The client's inbox",
            description: "Whatever reply subject the request names, below the settler's own inbox prefix \
                          `_INBOX_{settler}`."
                .to_owned(),
            parameters: &[],
            messages: &["Stored"],
            kept: None,
        },
    ]
}

/// What is done on them.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "register",
        role: "settler",
        action: "send",
        channel: "registrations",
        summary: "Say that you are there",
        description: "Sent as a request: without the answer that it is stored, send it again.",
        reply: Some("replies"),
    },
    Operation {
        name: "receiveRequestForQuotes",
        role: "settler",
        action: "receive",
        channel: "requestsForQuotes",
        summary: "Be asked for a quote",
        description: "The same request may come more than once, and is answered each time with the same quote. Answer \
                      with a decline rather than not at all: the auction waits for you otherwise.",
        reply: None,
    },
    Operation {
        name: "bid",
        role: "settler",
        action: "send",
        channel: "bids",
        summary: "Quote or decline",
        description: "Sent as a request: without the answer that it is stored, send it again. Among quotes within the \
                      cap the lowest source amount wins, then the earliest promise, then the lowest hash.",
        reply: Some("replies"),
    },
    Operation {
        name: "fetchAwards",
        role: "settler",
        action: "send",
        channel: "awardRequests",
        summary: "Fetch the auctions you won",
        description: "An award binds you to nothing that your quote does not say. Check it against your own quote, and \
                      deliver only when the escrow on chain, at the depth you require, holds the reservation for your \
                      payout account under your quote's hash. With `escrowed` it holds another's until it is reassigned to you.",
        reply: Some("awards"),
    },
    Operation {
        name: "answerAward",
        role: "settler",
        action: "send",
        channel: "answers",
        summary: "Say whether you stand by your quote",
        description: "At once, before any money moves: accept and hold the tokens, or refuse with a reason when they are not \
                      there any more or the quote has lapsed. Without an answer the award is over. Sent as a request; without \
                      the word of what stands, send it again. `accepted`: hold the tokens until the deposit's window ends, or, \
                      with `escrowed`, the time that you promised, or the award does. Anything else: it is over, let go and acknowledge.",
        reply: Some("receipts"),
    },
    Operation {
        name: "hearOfEnd",
        role: "settler",
        action: "receive",
        channel: "ends",
        summary: "Hear that you did not win",
        description: "Nothing depends on it but what you hold for your quote.",
        reply: None,
    },
    Operation {
        name: "acknowledgeAward",
        role: "settler",
        action: "send",
        channel: "awardAcknowledgements",
        summary: "Say what became of an award",
        description: "Acknowledge when the escrow has paid or can never pay, or the award is over, not before: until then a \
                      restarted settler is given the award again. While you work on it, send `+WPI` before the consumer's wait is over.",
        reply: None,
    },
    Operation {
        name: "report",
        role: "settler",
        action: "send",
        channel: "reports",
        summary: "Say where you delivered",
        description: "Nothing depends on it.",
        reply: None,
    },
    Operation {
        name: "select",
        role: "selector",
        action: "receive",
        channel: "selections",
        summary: "Choose the quote to be awarded",
        description: "The gateway holds the choice against the rules it would itself apply, and the signature against the \
                      key it asked.",
        reply: Some("choices"),
    },
];

/// Who does something, and what nats.conf lets each do.
pub(super) fn roles() -> Vec<Role> {
    let own = Permissions::of(&SettlerToken::from_subject("{settler}"));
    let texts = |subjects: &[&str]| subjects.iter().map(|&subject| subject.to_owned()).collect();
    let selector = Role {
        name: "selector",
        description: "Chooses among the quotes of payments that name it. It is admitted by an account of its own in \
                      nats/accounts.conf, which `gw selector id` prints, and may answer what it is asked and nothing else.",
        subscribe: vec!["selector.{selector}".to_owned()],
        publish: Vec::new(),
    };
    let settler = Role {
        name: "settler",
        description: "Quotes, delivers and is paid. It is admitted by an account of its own in nats/accounts.conf, which \
                      `gw settler id` prints, and sees and says nothing under another settler's token. Besides what \
                      stands here it may answer the requests it gets, to the reply subject that each names. Its \
                      client's inbox prefix must be `_INBOX_{settler}`.",
        subscribe: texts(&own.subscribe()),
        publish: texts(&own.publish()),
    };
    vec![settler, selector]
}

/// What a stream keeps.
fn kept(stream: &Config) -> Value {
    let mut kept = Map::from_iter([
        ("stream".to_owned(), stream.name.clone().into()),
        ("storage".to_owned(), if stream.storage == StorageType::File { "file" } else { "memory" }.into()),
        ("age_seconds_max".to_owned(), stream.max_age.as_secs().into()),
    ]);
    if stream.max_messages_per_subject > 0 {
        kept.insert("messages_per_subject_max".to_owned(), stream.max_messages_per_subject.into());
    }
    let largest = usize::try_from(stream.max_message_size).ok().filter(|size| *size > 0);
    kept.insert("message_bytes_max".to_owned(), largest.unwrap_or(MESSAGE_BYTES_MAX).into());
    Value::Object(kept)
}

fn consumer(consumer: &pull::Config) -> String {
    format!(
        "An award that is neither acknowledged nor reported to be worked on for {} seconds is delivered again, for as \
         long as it takes; at most {} are out at a time.",
        consumer.ack_wait.as_secs(),
        consumer.max_ack_pending
    )
}
