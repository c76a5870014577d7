//! The outline of a call: what every answer names, whatever becomes of it.

use serde_json::{Map, Value};

use app::x402::EXACT;
use events::{Account, ChainId, Family};

/// Longest chain id that is repeated: CAIP-2 has 41 characters at most.
const CHAIN_CHARS_MAX: usize = 41;

/// What can be said of a message before it is known to be one: what every answer has to name.
#[derive(Debug, Clone, Default)]
pub(super) struct Outline {
    /// The destination's chain, else the requirement's, else empty; of the scheme `exact` the requirement's.
    pub(super) network: String,
    /// The source account.
    pub(super) payer: Option<String>,
    /// Whether the scheme is `exact`, whose clients know of the chain that they pay on alone.
    pub(super) is_exact: bool,
}

impl Outline {
    /// The outline of a body. What is not a chain or account is left out, so that nothing else is ever repeated.
    pub(super) fn of(body: &Map<String, Value>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let requirements = body.get("paymentRequirements");
        let network = |pointer: &str| {
            let text = text(requirements.and_then(|requirements| requirements.pointer(pointer)))?;
            text.parse::<ChainId>().ok().map(|chain| chain.to_string()).filter(|chain| chain.len() <= CHAIN_CHARS_MAX)
        };
        let payload = body.get("paymentPayload").and_then(|payload| payload.get("payload"));
        let source = payload.and_then(|payload| payload.pointer("/paymentRequest/source"));
        let is_exact = requirements.and_then(|requirements| requirements.get("scheme")) == Some(&Value::from(EXACT));
        let payer = || {
            if is_exact {
                let from = payload?.pointer("/authorization/from")?.as_str()?;
                return Account::parse(Family::Evm, from).ok().map(|account| account.to_string());
            }
            let source = source?;
            let chain: ChainId = text(source.get("asset_identifier"))?.split('/').next()?.parse().ok()?;
            Account::parse(chain.family()?, source.get("account")?.as_str()?).ok().map(|account| account.to_string())
        };
        let destination = network("/extra/gw/destination/network").filter(|_| !is_exact);
        Self { network: destination.or_else(|| network("/network")).unwrap_or_default(), payer: payer(), is_exact }
    }
}
