//! What an operator does about what is parked: one text for the command line and the console.

use journal::parking::{CauseKind, Entry};

/// What an operator does about it, by the newest entry of its history.
pub fn advice(entry: &Entry) -> &'static str {
    let kind = match entry {
        Entry::Parked(parked) => parked.cause.kind,
        Entry::Replayed(_) => return "Nothing: it is being driven again.",
        Entry::Unknown { .. } => {
            return "A newer gateway may have parked it: use its `gw`.\n\
                    Whoever wrote the entry otherwise had the gateway's credentials.";
        }
    };
    match kind {
        CauseKind::Unreadable => {
            "The gateway that tried does not understand a message of the stream, or nats-server has lost one.\n\
             When a newer gateway wrote it: update all gateways, then replay.\n\
             When the cause says that the server lost it: put a sound replica of the stream in its place, then replay; without\n\
             one, see the manual's backup and restore.\n\
             Otherwise find out who wrote it: only the gateway's credentials can. What is stored is never taken out again,\n\
             so the payment cannot go on. Money in its escrow can be refunded by anyone from `refundAfter` on."
        }
        CauseKind::Illegal => {
            "The stream holds events that cannot follow each other in the gateway that tried.\n\
             When gateways of different versions were running: update all of them, then replay.\n\
             Otherwise keep the whole stream and report it. Money in its escrow can be refunded by anyone from\n\
             `refundAfter` on."
        }
        CauseKind::Unacceptable => {
            "The journal refuses what the engine decided, for the reason above; a limit of nats-server is one that can be\n\
             raised. Mend it, then replay."
        }
        CauseKind::Panicked => {
            "The code that drives the stream panics: a bug. The gateway's log has the place. Update, then replay."
        }
    }
}
