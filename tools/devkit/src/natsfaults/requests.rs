//! Requests as a proxy tells them apart by their subjects, and the answers that it gives in the server's place.

use super::frames::{Frame, message};

/// Subjects that streams take. What is published there with a reply waits for an acknowledgement.
const STREAM_SUBJECTS: [&str; 11] = [
    "gw.evt.",
    "gw.log.",
    "gw.sig.",
    "gw.bud.",
    "gw.park.",
    "gw.acts.",
    "gw.chk.",
    "$KV.",
    "auction.award.",
    "auction.answered.",
    "auction.asked.",
];
/// Codes of a publish that is refused before anything is stored: an append to the subject is in process, its last sequence is not
/// known yet, too many requests, no resources.
pub(super) const CERTAIN: [(u16, u32, &str); 4] = [
    (400, 10164, "wrong last sequence"),
    (503, 10163, "expected last sequence per subject cannot be checked yet"),
    (429, 10167, "too many requests"),
    (503, 10023, "insufficient resources"),
];
/// Codes of a publish that say nothing of what became of it: one of the same id is in process, the store failed, no leader.
pub(super) const UNCLEAR: [(u16, u32, &str); 4] = [
    (409, 10158, "duplicate message id is in process"),
    (503, 10077, "store failed"),
    (503, 10008, "JetStream system temporarily unavailable"),
    (500, 10009, "JetStream cluster can not handle request"),
];
/// What JetStream's API answers while leaders change.
pub(super) const CHANGING: [(u16, u32, &str); 3] = [
    (503, 10008, "JetStream system temporarily unavailable"),
    (500, 10009, "JetStream cluster can not handle request"),
    (503, 10023, "insufficient resources"),
];

/// What a client publishes, by what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A publish into a stream, to be acknowledged.
    Store,
    /// A message by way of a stream's leader.
    LeaderGet,
    /// A Direct Get of a batch, whose answer ends with a status.
    DirectBatch,
    /// A Direct Get of a subject's last message.
    DirectLast,
    /// Another request to JetStream's API.
    Api,
    /// A consumer's next messages are asked for.
    Pull,
    /// Anything else; nobody acknowledges it.
    Message,
}

impl Kind {
    pub fn of(subject: &str, reply: Option<&str>) -> Self {
        let stored = reply.is_some_and(|reply| reply.starts_with("_INBOX"));
        if subject.starts_with("$JS.API.STREAM.MSG.GET.") {
            Self::LeaderGet
        } else if let Some(rest) = subject.strip_prefix("$JS.API.DIRECT.GET.") {
            if rest.contains('.') { Self::DirectLast } else { Self::DirectBatch }
        } else if subject.starts_with("$JS.API.CONSUMER.MSG.NEXT.") {
            Self::Pull
        } else if subject.starts_with("$JS.API.") {
            Self::Api
        } else if stored && STREAM_SUBJECTS.iter().any(|prefix| subject.starts_with(prefix)) {
            Self::Store
        } else {
            Self::Message
        }
    }

    /// What its draws are made for.
    pub fn label(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::LeaderGet => "leader",
            Self::DirectBatch => "batch",
            Self::DirectLast => "last",
            Self::Api => "api",
            Self::Pull => "pull",
            Self::Message => "message",
        }
    }
}

/// In which order a server takes what is published under `subject`: a stream's messages one after the other, requests as they come.
pub(super) fn lane(subject: &str, kind: Kind) -> String {
    match kind {
        Kind::Store => subject.rsplit_once('.').map_or(subject, |(stream, _)| stream).to_owned(),
        Kind::Message => subject.to_owned(),
        _ => String::new(),
    }
}

/// A refusal by JetStream.
pub(super) fn refusal(subject: &str, sid: &str, (status, code, text): (u16, u32, &str)) -> Frame {
    let body = format!(r#"{{"error":{{"code":{status},"err_code":{code},"description":"{text}"}}}}"#);
    message(subject, sid, None, 0, body.as_bytes())
}

/// A status and nothing else.
pub(super) fn status(subject: &str, sid: &str, status: &str) -> Frame {
    let headers = format!("NATS/1.0 {status}\r\n\r\n");
    message(subject, sid, None, headers.len(), headers.as_bytes())
}

/// Whether a message is a status, as which an answer ends or is refused.
pub(super) fn is_status(headers: usize, content: &[u8]) -> bool {
    headers > 0 && content.starts_with(b"NATS/1.0 ")
}

/// Whether a subscription's `pattern` takes `subject`.
pub(super) fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(token), Some(found)) if token == "*" || token == found => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_takes_what_its_wildcards_say() {
        for (pattern, subject, taken) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            ("a.b", "a.c", false),
            ("*.b", "a.b", true),
        ] {
            assert_eq!(matches(pattern, subject), taken, "{pattern} {subject}");
        }
    }

    #[test]
    fn a_request_is_known_by_its_subject() {
        let inbox = Some("_INBOX.a.b");
        for (subject, reply, kind) in [
            ("gw.evt.00.pay_x", inbox, Kind::Store),
            ("gw.evt.00.pay_x", None, Kind::Message),
            ("$KV.settlers.x", inbox, Kind::Store),
            ("auction.rfq.x.y", Some("auction.bid.x.y"), Kind::Message),
            ("auction.answer.x.y", inbox, Kind::Message),
            ("$JS.API.STREAM.MSG.GET.EVT_00", inbox, Kind::LeaderGet),
            ("$JS.API.DIRECT.GET.EVT_00", inbox, Kind::DirectBatch),
            ("$JS.API.DIRECT.GET.ASKED.auction.asked.x", inbox, Kind::DirectLast),
            ("$JS.API.STREAM.INFO.EVT_00", inbox, Kind::Api),
            ("$JS.API.CONSUMER.MSG.NEXT.AWARDS.x", inbox, Kind::Pull),
            ("$JS.ACK.AWARDS.x.1.2.3.4.5", None, Kind::Message),
        ] {
            assert_eq!(Kind::of(subject, reply), kind, "{subject}");
        }
        assert!(is_status(16, b"NATS/1.0 503\r\n\r\n") && !is_status(12, b"NATS/1.0\r\n\r\n"));
    }
}
