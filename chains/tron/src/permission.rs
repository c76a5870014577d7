//! Whether an account's own key may sign for it. An owner can hand that right to other keys, and then the network takes
//! nothing that the key alone has signed.

use alloy::primitives::Address;
use serde::Deserialize;
use serde_json::json;

use sagas::ports::Transient;

use super::{
    address,
    node::Node,
    rpc::{Fault, Rpc},
};

/// What an account's own key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
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

impl Rpc {
    /// What the account's own key may sign.
    async fn signing(&self, account: Address) -> Result<Signing, Fault> {
        let asked = json!({"address": address::api(account), "visible": false});
        let found: RawAccount = self.post("wallet/getaccount", &asked).await?;
        let Some(stated) = found.address else { return Ok(Signing::NoAccount) };
        if address::from_api(&stated) != Some(account) {
            return Err(Fault::Unanswered(Transient::contradiction(
                "the node answers with another account than was asked for",
            )));
        }
        // Accounts that were made before there were permissions have none, and their own key is meant.
        let Some(owner) = found.owner_permission else { return Ok(Signing::Alone) };
        let alone =
            |key: &RawKey| address::from_api(&key.address) == Some(account) && key.weight >= owner.threshold.max(1);
        Ok(if owner.keys.iter().any(alone) { Signing::Alone } else { Signing::NotAlone })
    }
}

impl Node {
    /// What the account's own key may sign, in the newest state.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn signing(&self, account: Address) -> Result<Signing, Transient> {
        Ok(self.rpc().await?.signing(account).await?)
    }
}
