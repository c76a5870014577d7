//! Verifiers: who may attest a payment's delivery, as a gateway shows it, held against the releaser that the payer signs for.

use serde::Deserialize;

use events::{Account, VerifierMember, VerifierSet};

use crate::error::Mismatch;

/// Who attests a delivery: one verifier, or a set of them (`FulfillmentVerifier` of the API).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FulfillmentVerifier {
    /// The verifier's account, or the id of the set.
    pub account: Account,
    /// The origin that it is reached at, the first member's of a set.
    #[serde(default)]
    pub endpoint: String,
    /// How many of the members have to attest. A gateway from before verifier sets leaves out both.
    #[serde(default)]
    pub threshold: Option<u64>,
    /// All who may attest.
    #[serde(default)]
    pub members: Option<Vec<VerifierMember>>,
}

/// The account that stands for these verifiers on chain, which a payer signs for and can pin: the own account of one that is the
/// only one, and of several the id of their set. `None` where they are no set: none of them, too many, one twice, accounts of
/// several families, or a threshold that is not from 1 to their number.
pub fn releaser(threshold: u64, members: &[VerifierMember]) -> Option<Account> {
    let set = VerifierSet::new(u8::try_from(threshold).ok()?, members.to_vec()).ok()?;
    match set.members() {
        [only] => Some(only.account.clone()),
        _ => set.id(),
    }
}

impl FulfillmentVerifier {
    /// Whether they are those whom `signed`, the releaser that the payer signs for, stands for.
    ///
    /// # Errors
    /// [`Mismatch`] where somebody else could release the money.
    pub fn check(&self, signed: &Account) -> Result<(), Mismatch> {
        if self.threshold.is_some() || self.members.is_some() {
            let members = self.members.as_deref().unwrap_or_default();
            let threshold = self.threshold.unwrap_or_default();
            let shown = || format!("{threshold} of {} verifiers", members.len());
            let Some(expected) = releaser(threshold, members) else {
                return Err(Mismatch::new("fulfillment_verifier", format!("the set of {signed}"), shown()));
            };
            if expected != *signed {
                let shown = format!("{signed} for {} that it shows", shown());
                return Err(Mismatch::new("the releaser", expected, shown));
            }
        }
        if self.account != *signed {
            return Err(Mismatch::new("fulfillment_verifier.account", signed, &self.account));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use events::Family;
    use serde_json::{Value, json};

    use super::*;

    fn accounts(family: Family) -> Vec<Account> {
        let bytes = if family == Family::Solana { 32 } else { 20 };
        (1..=3).map(|byte| Account::from_bytes(family, &vec![byte; bytes]).unwrap()).collect()
    }

    fn shown(account: &Account, set: Value) -> FulfillmentVerifier {
        let mut body = json!({"account": account, "endpoint": "https://v1.example"});
        body.as_object_mut().unwrap().extend(set.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    }

    fn set(threshold: u64, accounts: &[Account]) -> Value {
        let members: Vec<_> =
            accounts.iter().map(|account| json!({"account": account, "endpoint": "https://v1.example"})).collect();
        json!({"threshold": threshold, "members": members})
    }

    #[test]
    fn the_releaser_has_to_stand_for_the_verifiers_that_are_shown() {
        for family in [Family::Evm, Family::Solana, Family::Tron] {
            let all = accounts(family);
            let id = releaser(2, &shown(&all[0], set(2, &all)).members.unwrap()).unwrap();
            assert!(!all.contains(&id));
            let reversed: Vec<_> = all.iter().rev().cloned().collect();
            for (account, set) in
                [(&id, set(2, &all)), (&id, set(2, &reversed)), (&all[1], set(1, &all[1..2])), (&all[1], json!({}))]
            {
                assert_eq!(shown(account, set).check(account), Ok(()));
            }
            for (account, set, field) in [
                (&id, set(1, &all), "the releaser"),
                (&id, set(2, &all[1..]), "the releaser"),
                (&id, set(1, &all[..1]), "the releaser"),
                (&all[0], set(2, &all), "the releaser"),
                (&id, set(0, &all), "fulfillment_verifier"),
                (&id, set(4, &all), "fulfillment_verifier"),
                (&id, set(258, &all), "fulfillment_verifier"),
                (&id, set(1, &[]), "fulfillment_verifier"),
                (&id, set(1, &[all[0].clone(), all[0].clone()]), "fulfillment_verifier"),
                (&id, json!({"threshold": 2}), "fulfillment_verifier"),
            ] {
                assert_eq!(shown(account, set).check(account).unwrap_err().field, field);
            }
            let other = shown(&all[0], set(2, &all)).check(&id);
            assert_eq!(other.unwrap_err().field, "fulfillment_verifier.account");
        }
    }

    #[test]
    fn ids_are_those_of_the_escrow() {
        let vectors = include_str!("../../../contracts/vectors/verifier-set.json");
        let vectors: Value = serde_json::from_str(vectors).unwrap();
        let sets = vectors["sets"].as_array().unwrap();
        assert!(sets.len() > 1);
        for known in sets {
            let member = |account: &Value| {
                let account = account.as_str().unwrap().parse().unwrap();
                VerifierMember { account, endpoint: String::new() }
            };
            let members: Vec<_> = known["members"].as_array().unwrap().iter().map(member).collect();
            let id =
                VerifierSet::new(u8::try_from(known["threshold"].as_u64().unwrap()).unwrap(), members).unwrap().id();
            assert_eq!(id.unwrap().as_str(), known["id"]);
        }
    }
}
