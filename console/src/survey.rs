//! Surveys: what became of the payments of each verifier, counted from the newest payments.
//!
//! A survey reads [`PAYMENTS_MAX`] payments at most, in pages with pauses between them, when somebody asks and every
//! [`FRESH`] at most. Who attests comes from outside, so what is shown of them is bounded.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;

use events::{VerifierSet, event::VerifierRef, time::Timestamp};
use projections::{ListSlice, PageBounds, PaymentStatus, PaymentView, Place, Projections};

use crate::{error::Error, kept::Kept, lane::Lane};

/// Most payments that are read.
const PAYMENTS_MAX: usize = 10_000;
/// Of these at a time; between two others have their turns.
const PAGE: usize = 500;
/// How long a survey is good for.
const FRESH: Duration = Duration::from_secs(30);
/// Verifiers that are shown; of more, those with the most payments.
const ROWS_MAX: usize = 1_000;

/// The surveys, kept for all who look.
pub(crate) struct Surveys {
    kept: Kept<Survey>,
    trusted: Trusted,
}

/// The verifiers that the configuration names, and their sets, by account and endpoint.
type Trusted = HashMap<(String, String), Option<VerifierSet>>;

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Payments that were read.
    payments: usize,
    /// When the oldest of them was submitted.
    since: Option<Timestamp>,
    /// By account and endpoint.
    verifiers: BTreeMap<(String, String), VerifierCount>,
}

#[derive(Debug, Default)]
struct VerifierCount {
    /// Where it is a set.
    set: Option<VerifierSet>,
    delivered: usize,
    attested: usize,
    unattested: usize,
}

/// What the survey is of.
#[derive(Debug, Serialize)]
pub(crate) struct Surveyed {
    payments: usize,
    since: Option<Timestamp>,
}

/// `GET /api/verifiers`.
#[derive(Debug, Serialize)]
pub(crate) struct VerifiersBody {
    surveyed: Surveyed,
    verifiers: Vec<VerifierBody>,
    has_more: bool,
    /// What this gateway observed of each verifier that its configuration names.
    observed: Vec<Value>,
}

#[derive(Debug, Serialize)]
struct VerifierBody {
    endpoint: String,
    account: String,
    /// The set whose id the account is; absent where it is one verifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<VerifierSet>,
    /// Whether the configuration names it.
    trusted: bool,
    record: VerifierRecord,
}

#[derive(Debug, Serialize)]
struct VerifierRecord {
    delivered: usize,
    attested: usize,
    unattested: usize,
}

impl Surveys {
    /// None yet; `trusted` are the verifiers that the configuration names.
    pub(crate) fn new(trusted: Vec<VerifierRef>) -> Self {
        let trusted = trusted.into_iter().map(|verifier| (key(&verifier), verifier.set));
        Self { kept: Kept::new(FRESH), trusted: trusted.collect() }
    }

    /// The verifiers, with what became of what they were to attest, and with what was observed of them.
    pub(crate) async fn verifiers(
        &self,
        projections: &Projections,
        lane: &Lane,
        observed: Vec<Value>,
    ) -> Result<VerifiersBody, Error> {
        Ok(verifiers(&*self.kept.or(take(projections, lane)).await?, &self.trusted, observed))
    }
}

fn key(verifier: &VerifierRef) -> (String, String) {
    (verifier.account.to_string(), verifier.endpoint.clone())
}

/// Reads the newest payments and counts them.
async fn take(projections: &Projections, lane: &Lane) -> Result<Survey, Error> {
    let (mut survey, mut before) = (Survey::default(), None);
    for _ in 0..PAYMENTS_MAX / PAGE {
        let projections = projections.clone();
        (survey, before) = lane.run(move || count_page(&projections, survey, before)).await?;
        if before.is_none() {
            break;
        }
    }
    Ok(survey)
}

fn count_page(
    projections: &Projections,
    mut survey: Survey,
    before: Option<Place>,
) -> Result<(Survey, Option<Place>), Error> {
    let bounds = PageBounds { payments_max: PAGE, looks_max: PAGE };
    let page = projections.listed(&ListSlice { before, from: None, until: None }, bounds, |_, view| {
        survey.count(view);
        // It is counted here, and not kept.
        false
    })?;
    Ok((survey, page.next))
}

impl Survey {
    fn count(&mut self, view: &PaymentView) {
        self.payments += 1;
        self.since = Some(self.since.map_or(view.submitted_at, |since| since.min(view.submitted_at)));
        let first = || VerifierCount { set: view.verifier.set.clone(), ..VerifierCount::default() };
        self.verifiers.entry(key(&view.verifier)).or_insert_with(first).count(view);
    }

    fn surveyed(&self) -> Surveyed {
        Surveyed { payments: self.payments, since: self.since }
    }
}

impl VerifierCount {
    fn count(&mut self, view: &PaymentView) {
        if view.status != PaymentStatus::Completed && !view.unattested {
            return;
        }
        self.delivered += 1;
        // One whose attestation was missed is owed a refund.
        match view.unattested || view.refund_owed.is_some() {
            true => self.unattested += 1,
            false => self.attested += 1,
        }
    }
}

fn verifiers(survey: &Survey, trusted: &Trusted, observed: Vec<Value>) -> VerifiersBody {
    let none = VerifierCount::default();
    let seen = survey.verifiers.keys().chain(trusted.keys()).collect::<HashSet<_>>();
    let count = |verifier: &(String, String)| survey.verifiers.get(verifier).unwrap_or(&none);
    let mut seen: Vec<&(String, String)> = seen.into_iter().collect();
    seen.sort_unstable_by(|one, other| count(other).delivered.cmp(&count(one).delivered).then_with(|| one.cmp(other)));
    let has_more = seen.len() > ROWS_MAX;
    let rows = seen.into_iter().take(ROWS_MAX).map(|verifier| {
        let &VerifierCount { ref set, delivered, attested, unattested } = count(verifier);
        let (account, endpoint) = verifier.clone();
        let set = set.as_ref().or_else(|| trusted.get(verifier)?.as_ref()).cloned();
        let record = VerifierRecord { delivered, attested, unattested };
        VerifierBody { endpoint, account, set, trusted: trusted.contains_key(verifier), record }
    });
    VerifiersBody { surveyed: survey.surveyed(), verifiers: rows.collect(), has_more, observed }
}

#[cfg(test)]
mod tests {
    use events::VerifierMember;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_strangers_name_is_bounded() {
        let mut survey = Survey::default();
        for n in 0..ROWS_MAX + 5 {
            survey
                .verifiers
                .insert((n.to_string(), String::new()), VerifierCount { delivered: n, ..VerifierCount::default() });
        }
        let trusted = Trusted::from([(("9".to_owned(), String::new()), None)]);
        let body = verifiers(&survey, &trusted, Vec::new());
        assert_eq!((body.verifiers.len(), body.has_more), (ROWS_MAX, true));
        assert_eq!(body.verifiers.iter().filter(|verifier| verifier.trusted).count(), 1);
    }

    #[test]
    fn a_set_is_shown_with_its_members_whether_or_not_a_payment_named_it() {
        let member = |digit: &str| VerifierMember {
            account: format!("0x{}", digit.repeat(40)).parse().unwrap(),
            endpoint: format!("https://v{digit}.example"),
        };
        let set = |threshold| VerifierSet::new(threshold, ["1", "2", "3"].map(member).into()).unwrap();
        let (named, paid) = (VerifierRef::of(set(2)).unwrap(), VerifierRef::of(set(1)).unwrap());
        let mut survey = Survey::default();
        survey.verifiers.insert(key(&paid), VerifierCount { set: paid.set, delivered: 1, ..VerifierCount::default() });
        let surveys = Surveys::new(vec![named.clone(), VerifierRef::single(member("4").account, "https://v4.example")]);
        let body = serde_json::to_value(verifiers(&survey, &surveys.trusted, Vec::new())).unwrap();
        let rows = body["verifiers"].as_array().unwrap();
        let row = |account: &str| rows.iter().find(|row| row["account"] == account).unwrap();
        assert_eq!((&rows[0]["set"]["threshold"], &rows[0]["trusted"]), (&json!(1), &json!(false)));
        assert_eq!(row(named.account.as_str())["set"], serde_json::to_value(set(2)).unwrap());
        assert!(row(member("4").account.as_str()).get("set").is_none());
    }
}
