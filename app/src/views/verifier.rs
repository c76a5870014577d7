//! Who attests a payment's delivery, as it is shown.

use schemars::JsonSchema;
use serde::Serialize;

use events::{VerifierMember, event::VerifierRef};

/// A fulfillment verifier, or a set of them. An empty object, or two empty texts, mean the default one.
// A request has it, too, with what it wants to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FulfillmentVerifier", extend("required" = []))]
pub struct VerifierBody {
    /// Address or key of the verifier, or the id of the set: the releaser that the payer signs for.
    account: String,
    /// Its origin, `http(s)://host[:port]` with no path; the gateway appends the paths. The first member's of a set.
    endpoint: String,
    /// How many of the members have to attest; said by the gateway, of no meaning in a request.
    #[schemars(with = "i64")]
    threshold: usize,
    /// All who may attest, in the order in which the set's id is hashed; the verifier itself where it is the only one. Said by the
    /// gateway, of no meaning in a request.
    members: Vec<MemberBody>,
}

/// One of the verifiers of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "VerifierMember")]
struct MemberBody {
    /// Address or key that it signs with.
    account: String,
    /// Its origin.
    endpoint: String,
}

impl From<&VerifierRef> for VerifierBody {
    fn from(verifier: &VerifierRef) -> Self {
        let member = |VerifierMember { account, endpoint }| MemberBody { account: account.to_string(), endpoint };
        Self {
            account: verifier.account.to_string(),
            endpoint: verifier.endpoint.clone(),
            threshold: verifier.threshold(),
            members: verifier.members().into_iter().map(member).collect(),
        }
    }
}
