//! Sessions: what an owner of payments sends to prove who it is.

use serde_json::{Value, json};

use app::sessions::{DID_CHARS_MAX, SIGNATURE_CHARS_MAX};

use super::{DID_PATTERN, object, text};

/// A CAIP-10 account id.
const ACCOUNT_PATTERN: &str = "^[a-z0-9]+:[a-zA-Z0-9_-]+:[-.%a-zA-Z0-9]{1,128}$";

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("SessionChallengeRequest", challenge_request()), ("SessionRequest", session_request())]
}

fn challenge_request() -> Value {
    let mut schema = object(
        "Who is going to sign: exactly one of the two.",
        &[],
        json!({
            "account": {
                "type": "string",
                "pattern": ACCOUNT_PATTERN,
                "description": "An account with a chain that this gateway serves (CAIP-10). A contract is asked on this chain; \
                                for a key any chain of its family will do.",
            },
            "did": {
                "type": "string",
                "pattern": DID_PATTERN,
                "maxLength": DID_CHARS_MAX,
                "description": "A DID that payments are asked for in the name of.",
            },
        }),
    );
    schema["minProperties"] = json!(1);
    schema
}

fn session_request() -> Value {
    let mut signature = text(
        "Over the message as it is. Of an account: hex with 0x, or on Solana Base58. Of a DID: hex with 0x, or base58btc as \
         multibase.",
    );
    signature["maxLength"] = json!(SIGNATURE_CHARS_MAX);
    object(
        "A challenge, signed.",
        &["message", "signature"],
        json!({
            "message": text("The `message` of the challenge, not a byte changed."),
            "signature": signature,
            "verification_method": text("Of a DID: the DID URL of the key that signed. Not given for an account."),
        }),
    )
}
