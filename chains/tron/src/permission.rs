//! Permission: whether an account's own key may sign for it. An owner can hand that right to other keys, and then the network takes
//! nothing that the key alone has signed.

use alloy::primitives::Address;
use serde::Deserialize;
use serde_json::json;

use sagas::ports::Transient;

use super::{address, node::Node};

/// What an account's own key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signing {
    /// It signs for the account alone.
    Alone,
    /// It does not, or not alone.
    NotAlone,
    /// There is no such account on chain yet, so nothing can be sent from it.
    NoAccount,
}

#[derive(Deserialize)]
struct RawAccount {
    address: Option<String>,
    owner_permission: Option<RawPermission>,
}

#[derive(Deserialize)]
struct RawPermission {
    #[serde(default)]
    threshold: i64,
    #[serde(default)]
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
struct RawKey {
    address: String,
    #[serde(default)]
    weight: i64,
}

impl Signing {
    /// What the account's own key may sign, in the newest state of the chain of `node`.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn of(account: Address, node: &Node) -> Result<Self, Transient> {
        let asked = json!({"address": address::api(account), "visible": false});
        let found: RawAccount = node.nodes().post("wallet/getaccount", &asked).await?;
        let Some(stated) = found.address else { return Ok(Self::NoAccount) };
        if address::from_api(&stated) != Some(account) {
            return Err(Transient::contradiction("the node answers with another account than was asked for"));
        }
        // Accounts that were made before there were permissions have none, and their own key is meant.
        let Some(owner) = found.owner_permission else { return Ok(Self::Alone) };
        let alone =
            |key: &RawKey| address::from_api(&key.address) == Some(account) && key.weight >= owner.threshold.max(1);
        Ok(if owner.keys.iter().any(alone) { Self::Alone } else { Self::NotAlone })
    }
}
