//! SenderAuth (spec 2.3, 2.4): the member by which a payment is authorized, checked for its shape.

use serde_json::{Map, Value};

use events::{Family, Payload, payload::PAYLOADS_BYTES_MAX};

use super::{
    credential,
    fields::{self, Faults, Object},
};
use crate::{
    authorization::{MessageScheme, SignedMessage},
    error::{Code, Error},
};

/// Most signed messages. One is needed, and two on Tron; what else is there is kept.
pub const SIGNED_MESSAGES_MAX: usize = 16;

/// How and what the payer signed, of the right shape and otherwise not believed.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderAuth {
    pub message_scheme: MessageScheme,
    /// At least one.
    pub signed_messages: Vec<SignedMessage>,
}

impl SenderAuth {
    /// Reads the member `sender_auth` of `body`. `None` only after a fault was noted.
    pub fn read(body: &Object<'_>, faults: &mut Faults) -> Option<Self> {
        let auth = body.required_object("sender_auth", faults)?;
        let message_scheme = message_scheme(&auth, faults);
        if let Some(credential) = auth.optional_object("verifiable_credential", faults) {
            credential::check(&credential, faults);
        }
        let signed_messages = signed_messages(&auth, message_scheme, faults);
        Some(Self { message_scheme: message_scheme?, signed_messages: signed_messages? })
    }

    /// Notes a scheme that is not one of the source's chain.
    pub fn check_family(&self, source: Family, faults: &mut Faults) {
        if self.message_scheme.family() != source {
            let rule = format!("is not a scheme of the source's chain ({})", source.namespace());
            faults.invalid("sender_auth.message_scheme", rule);
        }
    }
}

/// Checks that the payloads in a body fit the messages of everybody who is going to read them.
///
/// # Errors
/// 413 `REQUEST_TOO_LARGE`.
pub(crate) fn check_payloads(body: &str) -> Result<(), Error> {
    let bytes: usize = Payload::of_request(body).iter().map(|payload| payload.as_str().len()).sum();
    if bytes <= PAYLOADS_BYTES_MAX {
        return Ok(());
    }
    let rule = format!("payloads must have at most {PAYLOADS_BYTES_MAX} bytes together, and have {bytes}");
    Err(Error::new(Code::REQUEST_TOO_LARGE, format!("sender_auth.signed_messages: {rule}")))
}

fn message_scheme(auth: &Object<'_>, faults: &mut Faults) -> Option<MessageScheme> {
    let name: &str = auth.required("message_scheme", faults)?;
    scheme(name, &auth.path("message_scheme"), faults)
}

/// The scheme called `name`, which stands at `path`.
pub fn scheme(name: &str, path: &str, faults: &mut Faults) -> Option<MessageScheme> {
    let known = MessageScheme::ALL.into_iter().chain(MessageScheme::OF_X402);
    let scheme = known.into_iter().find(|scheme| scheme.name() == name);
    if scheme.is_none() {
        let names = MessageScheme::ALL.map(MessageScheme::name).join(", ");
        faults.invalid(path, format!("must be one of {names}"));
    }
    scheme
}

fn signed_messages(
    auth: &Object<'_>,
    scheme: Option<MessageScheme>,
    faults: &mut Faults,
) -> Option<Vec<SignedMessage>> {
    let items: &Vec<Value> = auth.required("signed_messages", faults)?;
    let path = auth.path("signed_messages");
    if !(1..=SIGNED_MESSAGES_MAX).contains(&items.len()) {
        faults.invalid(&path, "must have 1 to 16 items");
        return None;
    }
    let read = |(i, item)| signed_message(&format!("{path}[{i}]"), item, scheme, faults);
    let messages: Vec<_> = items.iter().enumerate().filter_map(read).collect();
    (messages.len() == items.len()).then_some(messages)
}

fn signed_message(
    path: &str,
    item: &Value,
    scheme: Option<MessageScheme>,
    faults: &mut Faults,
) -> Option<SignedMessage> {
    let signed = fields::item_object(path, item, faults)?;
    let message: Option<&str> = signed.required("message", faults);
    let message = message.filter(|text| {
        let bare_allowed = scheme == Some(MessageScheme::Tron);
        let digits = text.strip_prefix("0x").or(bare_allowed.then_some(*text)).unwrap_or_default();
        let good = is_hex(digits);
        if !good {
            let rule = if bare_allowed { "must be hex" } else { "must be hex with a 0x prefix" };
            faults.invalid(&signed.path("message"), rule);
        }
        good
    });
    let signature: Option<&str> = signed.required("signature", faults);
    let signature = signature.filter(|text| {
        let good = is_hex(text.strip_prefix("0x").unwrap_or_default());
        if !good {
            faults.invalid(&signed.path("signature"), "must be hex with a 0x prefix");
        }
        good
    });
    let message_prehash: Option<&str> = signed.optional("message_prehash", faults);
    let payload: Option<&Map<String, Value>> = signed.optional("payload", faults);
    Some(SignedMessage {
        message: message?.to_owned(),
        signature: signature?.to_owned(),
        message_prehash: message_prehash.map(str::to_owned),
        payload: payload.cloned(),
    })
}

fn is_hex(digits: &str) -> bool {
    !digits.is_empty() && digits.len().is_multiple_of(2) && digits.bytes().all(|c| c.is_ascii_hexdigit())
}
