//! A policy set with its deny list, compiled, and the judgement it gives.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid, PolicyId, PolicySet, Request,
    RestrictedExpression, Schema, ValidationMode, Validator,
};
use regex::Regex;
use ruint::aliases::U256;
use sha2::{Digest, Sha256};

use events::{Amount, AssetId, Hash32, OwnedAsset, event::CounterpartyDecision, identity::Carrier, time::Timestamp};

use super::{
    Declined, Proposal,
    deny::{BadLine, DenyList},
    statements,
};

/// What policies are checked against.
const SCHEMA: &str = include_str!("schema.cedarschema");
/// What the hash of a set begins with.
const HASH_DOMAIN: &[u8] = b"gw:policies:v1";

/// Decimal places of the assets served.
pub type Decimals = HashMap<AssetId, u8>;

/// Why a policy set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The policies are not Cedar, or do not keep the schema.
    #[error("{0}")]
    Policies(String),
    /// A line of the deny list names nobody.
    #[error(transparent)]
    DenyList(#[from] BadLine),
}

/// Policies and deny list in force together.
#[derive(Debug)]
pub struct Rules {
    policies: Option<Policies>,
    deny: DenyList,
    hash: Hash32,
}

#[derive(Debug)]
struct Policies {
    schema: Schema,
    set: PolicySet,
    payer: EntityTypeName,
    payment: EntityTypeName,
    pay: EntityUid,
}

impl Rules {
    /// Compiles the texts of a policy file and of a deny list.
    pub fn compile(policies: Option<&str>, deny: Option<&str>) -> Result<Self, RulesError> {
        Ok(Self {
            policies: policies.map(Policies::compile).transpose().map_err(RulesError::Policies)?,
            deny: DenyList::parse(deny.unwrap_or_default())?,
            hash: hash(policies, deny),
        })
    }

    /// SHA-256 over domain, schema, policy file and deny list, each preceded by its length in bytes as a 64-bit
    /// big-endian number; a file that is not configured has the length 2^64 - 1 and no bytes.
    pub fn hash(&self) -> Hash32 {
        self.hash
    }

    /// Number of policies, and of entries in the deny list.
    pub fn counts(&self) -> (usize, usize) {
        let policies = self.policies.as_ref().map_or(0, |policies| policies.set.policies().count());
        (policies, self.deny.len())
    }

    /// Judges a proposal. Whatever cannot be evaluated is declined.
    pub fn judge(
        &self,
        proposal: &Proposal<'_>,
        decimals: &Decimals,
        now: Timestamp,
    ) -> Result<CounterpartyDecision, Declined> {
        let terms = proposal.terms;
        let listed = self.deny.holds_originator(proposal.originator)
            || proposal.proven.holders().iter().any(|holder| self.deny.holds_originator(holder.did.as_str()))
            || self.deny.holds(terms.source.account())
            || self.deny.holds(proposal.payer)
            || terms.destination().iter().any(|owned| self.deny.holds(owned.account()));
        if listed {
            return Err(Declined::listed());
        }
        let permitting = match &self.policies {
            Some(policies) => policies.judge(proposal, decimals, now)?,
            None => Vec::new(),
        };
        Ok(CounterpartyDecision { policies: permitting, policy_set: self.hash })
    }
}

impl Policies {
    fn compile(text: &str) -> Result<Self, String> {
        let (schema, _) = Schema::from_cedarschema_str(SCHEMA).map_err(|error| error.to_string())?;
        mixed_case(text)?;
        let parsed: PolicySet = text.parse().map_err(|error| all_of(&error))?;
        if parsed.templates().next().is_some() {
            return Err("templates have no effect here; write each policy out".to_owned());
        }
        // The order in which policies are given has no meaning to Cedar, so their default names say little.
        let mut seen = BTreeSet::new();
        let named = parsed.policies().map(|policy| {
            let name = policy.annotation("id").map_or_else(|| policy.id().to_string(), str::to_owned);
            if seen.insert(name.clone()) {
                Ok(policy.new_id(PolicyId::new(name)))
            } else {
                Err(format!("two policies have the id {name}"))
            }
        });
        let named = named.collect::<Result<Vec<_>, _>>()?;
        let set = PolicySet::from_policies(named).map_err(|error| error.to_string())?;
        let result = Validator::new(schema.clone()).validate(&set, ValidationMode::Strict);
        if !result.validation_passed() {
            let errors: Vec<String> = result.validation_errors().map(ToString::to_string).collect();
            return Err(errors.join("; "));
        }
        let name = |text: &str| text.parse::<EntityTypeName>().map_err(|error| error.to_string());
        let pay = EntityUid::from_type_name_and_id(name("Action")?, EntityId::new("Pay"));
        Ok(Self { schema, set, payer: name("Payer")?, payment: name("Payment")?, pay })
    }

    /// Ids of the policies that permit the proposal.
    fn judge(&self, proposal: &Proposal<'_>, decimals: &Decimals, now: Timestamp) -> Result<Vec<String>, Declined> {
        let (request, entities) = self.question(proposal, decimals, now).map_err(Declined::not_evaluated)?;
        let response = Authorizer::new().is_authorized(&request, &self.set, &entities);
        let diagnostics = response.diagnostics();
        // Cedar skips a policy that fails; were it a forbid, skipping it would permit.
        let errors: Vec<String> = diagnostics.errors().map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(Declined::not_evaluated(errors.join("; ")));
        }
        let mut determining: Vec<String> = diagnostics.reason().map(ToString::to_string).collect();
        determining.sort();
        match response.decision() {
            Decision::Allow => Ok(determining),
            Decision::Deny => Err(Declined::by(determining)),
        }
    }

    fn question(
        &self,
        proposal: &Proposal<'_>,
        decimals: &Decimals,
        now: Timestamp,
    ) -> Result<(Request, Entities), String> {
        let uid = |kind: &EntityTypeName, id: &str| EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id));
        let (payer, payment) = (uid(&self.payer, proposal.originator), uid(&self.payment, proposal.id));
        let entity = |uid: &EntityUid, attributes: Vec<(&str, RestrictedExpression)>| {
            let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            Entity::new(uid.clone(), attributes, HashSet::new()).map_err(|error| error.to_string())
        };
        let source = &proposal.terms.source;
        let payer_attributes = vec![
            ("originator", text(proposal.originator)),
            ("account", text(proposal.payer.as_str())),
            ("chain", text(source.asset().chain().as_str())),
            ("proven_by", text(proven_by(proposal.proven.proven_by()))),
            ("credentials", set_of(statements::credentials(proposal.proven))?),
            ("claims", set_of(statements::claims(proposal.proven))?),
        ];
        let entities = [entity(&payer, payer_attributes)?, entity(&payment, attributes(proposal, decimals)?)?];
        let entities = Entities::from_entities(entities, Some(&self.schema)).map_err(|error| error.to_string())?;
        let context = [
            ("stage".to_owned(), text(proposal.kind.name())),
            ("unix_time".to_owned(), RestrictedExpression::new_long(now.timestamp())),
        ];
        let context = Context::from_pairs(context).map_err(|error| error.to_string())?;
        let request = Request::new(payer, self.pay.clone(), payment, context, Some(&self.schema));
        Ok((request.map_err(|error| error.to_string())?, entities))
    }
}

/// What proves the originator, as policies see it.
fn proven_by(carrier: Option<Carrier>) -> &'static str {
    match carrier {
        None => "account",
        Some(Carrier::Envelope) => "envelope",
        Some(Carrier::OriginatorAuth) => "originator_auth",
        Some(Carrier::SenderAuth) => "sender_auth",
    }
}

/// A set of records of texts.
fn set_of(records: Vec<statements::Record>) -> Result<RestrictedExpression, String> {
    let record = |members: statements::Record| {
        let members = members.into_iter().map(|(name, value)| (name.to_owned(), text(&value)));
        RestrictedExpression::new_record(members).map_err(|error| error.to_string())
    };
    Ok(RestrictedExpression::new_set(records.into_iter().map(record).collect::<Result<Vec<_>, _>>()?))
}

fn attributes(
    proposal: &Proposal<'_>,
    decimals: &Decimals,
) -> Result<Vec<(&'static str, RestrictedExpression)>, String> {
    let terms = proposal.terms;
    let destination = terms.destination();
    let set = |member: fn(&OwnedAsset) -> String| {
        RestrictedExpression::new_set(destination.iter().map(|owned| text(&member(owned))))
    };
    let record = |owned: &OwnedAsset| {
        let members = [
            ("asset".to_owned(), text(&owned.asset().to_string())),
            ("chain".to_owned(), text(owned.asset().chain().as_str())),
            ("account".to_owned(), text(owned.account().as_str())),
        ];
        RestrictedExpression::new_record(members).map_err(|error| error.to_string())
    };
    let records = destination.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    let largest = destination.iter().map(|owned| tokens(terms.fulfillment_amount, owned.asset(), decimals)).max();
    let source = &terms.source;
    let mut attributes = vec![
        ("source_asset", text(&source.asset().to_string())),
        ("source_chain", text(source.asset().chain().as_str())),
        ("source_account", text(source.account().as_str())),
        ("destinations", RestrictedExpression::new_set(records)),
        ("destination_assets", set(|owned| owned.asset().to_string())),
        ("destination_chains", set(|owned| owned.asset().chain().to_string())),
        ("destination_accounts", set(|owned| owned.account().to_string())),
        ("amount", text(&terms.fulfillment_amount.to_string())),
        ("amount_tokens", RestrictedExpression::new_long(largest.unwrap_or(i64::MAX))),
        ("required_policies", RestrictedExpression::new_set(proposal.required_policies.iter().map(|name| text(name)))),
    ];
    if let Some(is_contract) = proposal.payer_is_contract {
        attributes.push(("payer_is_contract", RestrictedExpression::new_bool(is_contract)));
    }
    if let Some(cap) = terms.max_source_amount {
        attributes.push(("max_source_amount", text(&cap.to_string())));
        let tokens = tokens(cap, source.asset(), decimals);
        attributes.push(("max_source_tokens", RestrictedExpression::new_long(tokens)));
    }
    Ok(attributes)
}

fn text(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

/// The amount in whole tokens, rounded up, so that it is above a limit exactly when the amount is; the largest number
/// there is where it does not fit. Of an asset whose decimals are not known the smallest unit counts as a token.
fn tokens(amount: Amount, asset: &AssetId, decimals: &Decimals) -> i64 {
    let places = decimals.get(asset).copied().unwrap_or_default();
    // A unit beyond 256 bits is more than any amount.
    let unit = U256::from(10).checked_pow(U256::from(places)).unwrap_or(U256::MAX);
    let tokens = amount.get().div_ceil(unit);
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Accounts are compared in their normalised form: a policy with an EVM address in another would be about nobody.
fn mixed_case(policies: &str) -> Result<(), String> {
    // The pattern is a constant and compiles.
    let Ok(address) = Regex::new("0x[0-9a-fA-F]{40}") else { return Ok(()) };
    for (index, line) in policies.lines().enumerate() {
        if let Some(found) = address.find_iter(line).find(|found| found.as_str().contains(|c: char| c.is_uppercase())) {
            return Err(format!("line {}: write {} in lower case, as it is compared", index + 1, found.as_str()));
        }
    }
    Ok(())
}

fn all_of(error: &cedar_policy::ParseErrors) -> String {
    let all: Vec<String> = error.iter().map(ToString::to_string).collect();
    all.join("; ")
}

fn hash(policies: Option<&str>, deny: Option<&str>) -> Hash32 {
    let mut hasher = Sha256::new();
    for part in [Some(HASH_DOMAIN), Some(SCHEMA.as_bytes()), policies.map(str::as_bytes), deny.map(str::as_bytes)] {
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        hasher.update(length.to_be_bytes());
        hasher.update(part.unwrap_or_default());
    }
    Hash32(hasher.finalize().into())
}
