//! Deliberately broken variants of the adapter, at its transport: what a careless change would ask of a node, or take for its answer.
//! The adapter stays as it is; `events::mutant!` names the one that is in force.
//!
//! Some that come to mind are not here, since a second line of defence makes them harmless: that a transaction failed is not read
//! (its blockhash expires all the same), that the status of a landed transaction is not found (the escrow's record is read before),
//! that another payment's record is read (it names its payment), that a node that is behind is believed about accounts (its clock is
//! behind with them, and an absence is read twice).

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use data_encoding::BASE64;
use serde_json::{Value, json};

use events::mutant;

use super::{NodeKind, RpcFault, SimCluster};

/// The sysvar that is read with every account.
const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";
/// Where its UNIX second stands.
const CLOCK_TIME: std::ops::Range<usize> = 32..40;
/// By so many blocks a blockhash is taken to expire too early; fewer than it counts for.
const EARLIER: u64 = 20;

/// What one connection keeps that it should not.
#[derive(Clone, Default)]
pub(super) struct Careless {
    /// The first answer about accounts, by their names.
    first_answers: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Careless {
    /// What a node of `cluster` answers, asked and understood without care.
    ///
    /// # Errors
    /// [`RpcFault`], the node's own error answer.
    pub fn ask(
        &self,
        cluster: &mut SimCluster,
        node: NodeKind,
        method: &str,
        params: &Value,
    ) -> Result<Value, RpcFault> {
        let mut answer = cluster.rpc(node, method, &asked(params))?;
        match method {
            "getLatestBlockhash" if mutant!("solana-blockhash-expires-early") => {
                let last = answer["value"]["lastValidBlockHeight"].as_u64().unwrap_or_default();
                answer["value"]["lastValidBlockHeight"] = json!(last.saturating_sub(EARLIER));
            }
            "getMultipleAccounts" => self.taken(cluster, node, params, &mut answer),
            _ => {}
        }
        Ok(answer)
    }

    /// Accounts with the clock behind them.
    fn taken(&self, cluster: &mut SimCluster, node: NodeKind, params: &Value, answer: &mut Value) {
        if mutant!("solana-clock-of-the-newest-block") {
            let newest = cluster.rpc(
                node,
                "getMultipleAccounts",
                &json!([[CLOCK], {"encoding": "base64", "commitment": "processed"}]),
            );
            let time = newest.ok().and_then(|newest| clock(&newest)?.get(CLOCK_TIME)?.try_into().ok());
            if let Some(time) = time {
                set_time(answer, time);
            }
        }
        if mutant!("solana-accounts-are-cached") {
            let mut first_answers = self.first_answers.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = answer["value"].as_array().and_then(|accounts| accounts.last()).cloned();
            let first = first_answers.entry(params[0].to_string()).or_insert_with(|| answer["value"].clone());
            let mut accounts = first.clone();
            if let (Some(clock), Some(fresh)) = (accounts.as_array_mut().and_then(|all| all.last_mut()), fresh) {
                *clock = fresh;
            }
            answer["value"] = accounts;
        }
    }
}

/// What is asked in the place of `params`.
fn asked(params: &Value) -> Cow<'_, Value> {
    if !mutant!("solana-confirmed-is-final") {
        return Cow::Borrowed(params);
    }
    let mut asked = params.clone();
    let how = asked.as_array_mut().and_then(|params| params.last_mut()?.as_object_mut());
    if let Some(how) = how.filter(|how| how.get("commitment").is_some_and(|commitment| commitment == "finalized")) {
        how.insert("commitment".to_owned(), json!("confirmed"));
    }
    Cow::Owned(asked)
}

/// The bytes of the clock that comes last in an answer.
fn clock(answer: &Value) -> Option<Vec<u8>> {
    let account = answer["value"].as_array()?.last()?;
    BASE64.decode(account["data"][0].as_str()?.as_bytes()).ok()
}

fn set_time(answer: &mut Value, time: [u8; 8]) {
    let Some(mut clock) = clock(answer) else { return };
    let account = answer["value"].as_array_mut().and_then(|accounts| accounts.last_mut());
    if let (Some(account), Some(member)) = (account, clock.get_mut(CLOCK_TIME)) {
        member.copy_from_slice(&time);
        account["data"][0] = json!(BASE64.encode(&clock));
    }
}
