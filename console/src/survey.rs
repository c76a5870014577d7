//! Surveys: what became of the payments of each settler and each verifier, counted from the newest payments.
//!
//! A survey reads [`PAYMENTS_MAX`] payments at most, in pages with pauses between them, when somebody asks and every
//! [`FRESH`] at most. Who settles and who attests comes from outside, so what is shown of them is bounded.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde::Serialize;

use app::own_payments::body::offer;
use events::{Did, event::VerifierRef, time::Timestamp};
use projections::{ListSlice, PageBounds, PaymentStatus, PaymentView, Place, Projections};

use crate::{error::Error, kept::Kept, lane::Lane, ports::RegisteredSettler};

/// Most payments that are read.
const PAYMENTS_MAX: usize = 10_000;
/// Of these at a time; between two others have their turns.
const PAGE: usize = 500;
/// How long a survey is good for.
const FRESH: Duration = Duration::from_secs(30);
/// Settlers and verifiers that are shown; of more, those with the most payments.
const ROWS_MAX: usize = 1_000;

/// The surveys, kept for all who look.
pub(crate) struct Surveys {
    kept: Kept<Survey>,
    /// The verifiers that the configuration names.
    trusted: HashSet<(String, String)>,
}

/// What was counted.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Payments that were read.
    payments: usize,
    /// When the oldest of them was submitted.
    since: Option<Timestamp>,
    settlers: HashMap<Did, SettlerCount>,
    /// By account and endpoint.
    verifiers: BTreeMap<(String, String), VerifierCount>,
}

#[derive(Debug, Default)]
struct SettlerCount {
    awarded: usize,
    completed: usize,
    failed: usize,
    in_flight: usize,
    refunded: usize,
    delivery_seconds: Vec<f64>,
    last_award_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct VerifierCount {
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

/// `GET /api/settlers`.
#[derive(Debug, Serialize)]
pub(crate) struct SettlersBody {
    surveyed: Surveyed,
    settlers: Vec<SettlerBody>,
    /// Whether there are more than are here.
    has_more: bool,
}

#[derive(Debug, Serialize)]
struct SettlerBody {
    did: Did,
    /// Whether it is in the registry of this gateway now.
    registered: bool,
    /// What it trades, where it is registered.
    corridors: Vec<CorridorBody>,
    record: SettlerRecord,
}

#[derive(Debug, Serialize)]
struct CorridorBody {
    source_asset: String,
    destination_asset: String,
}

#[derive(Debug, Default, Serialize)]
struct SettlerRecord {
    awarded: usize,
    completed: usize,
    failed: usize,
    in_flight: usize,
    refunded: usize,
    /// From a payment's submission to the block that holds its delivery.
    median_delivery_seconds: Option<f64>,
    /// When the newest payment was submitted that it was awarded.
    last_award_at: Option<Timestamp>,
}

/// `GET /api/verifiers`.
#[derive(Debug, Serialize)]
pub(crate) struct VerifiersBody {
    surveyed: Surveyed,
    verifiers: Vec<VerifierBody>,
    has_more: bool,
}

#[derive(Debug, Serialize)]
struct VerifierBody {
    endpoint: String,
    account: String,
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
        let trusted = trusted.into_iter().map(|verifier| (verifier.account.to_string(), verifier.endpoint));
        Self { kept: Kept::new(FRESH), trusted: trusted.collect() }
    }

    /// The settlers, with what became of what they were awarded.
    pub(crate) async fn settlers(
        &self,
        projections: &Projections,
        lane: &Lane,
        registered: Vec<RegisteredSettler>,
    ) -> Result<SettlersBody, Error> {
        Ok(settlers(&*self.kept.or(take(projections, lane)).await?, registered))
    }

    /// The verifiers, with what became of what they were to attest.
    pub(crate) async fn verifiers(&self, projections: &Projections, lane: &Lane) -> Result<VerifiersBody, Error> {
        Ok(verifiers(&*self.kept.or(take(projections, lane)).await?, &self.trusted))
    }
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
        if let Some(offer) = view.quote.as_ref().and_then(offer) {
            self.settlers.entry(offer.settler).or_default().count(view);
        }
        let verifier = (view.verifier.account.to_string(), view.verifier.endpoint.clone());
        self.verifiers.entry(verifier).or_default().count(view);
    }

    fn surveyed(&self) -> Surveyed {
        Surveyed { payments: self.payments, since: self.since }
    }
}

impl SettlerCount {
    fn count(&mut self, view: &PaymentView) {
        self.awarded += 1;
        match view.status {
            PaymentStatus::Completed => self.completed += 1,
            PaymentStatus::Failed => self.failed += 1,
            PaymentStatus::Pending | PaymentStatus::Finalizing => self.in_flight += 1,
        }
        if view.at_rest && view.refund.as_ref().is_some_and(|refund| refund.block_number.is_some()) {
            self.refunded += 1;
        }
        if let Some(delivered) = view.fulfilled_at {
            // Clocks of chains may be behind.
            self.delivery_seconds.push((delivered - view.submitted_at).as_seconds_f64().max(0.0));
        }
        self.last_award_at = self.last_award_at.max(Some(view.submitted_at));
    }

    fn record(&self) -> SettlerRecord {
        SettlerRecord {
            awarded: self.awarded,
            completed: self.completed,
            failed: self.failed,
            in_flight: self.in_flight,
            refunded: self.refunded,
            median_delivery_seconds: median(self.delivery_seconds.clone()),
            last_award_at: self.last_award_at,
        }
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

/// The middle of the values, between two where there is none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { values.get(middle.checked_sub(1)?)? } else { upper };
    Some((lower + upper) / 2.0)
}

fn settlers(survey: &Survey, registered: Vec<RegisteredSettler>) -> SettlersBody {
    let mut corridors: HashMap<Did, Vec<CorridorBody>> = HashMap::new();
    for settler in registered {
        let traded = settler.corridors.iter().map(|(source, destination)| CorridorBody {
            source_asset: source.to_string(),
            destination_asset: destination.to_string(),
        });
        corridors.insert(settler.did, traded.collect());
    }
    let dids: HashSet<&Did> = survey.settlers.keys().chain(corridors.keys()).collect();
    let awarded = |did: &Did| survey.settlers.get(did).map_or(0, |count| count.awarded);
    let mut dids: Vec<Did> = dids.into_iter().cloned().collect();
    dids.sort_unstable_by(|one, other| awarded(other).cmp(&awarded(one)).then_with(|| one.cmp(other)));
    let has_more = dids.len() > ROWS_MAX;
    dids.truncate(ROWS_MAX);
    let rows = dids.into_iter().map(|did| {
        let traded = corridors.remove(&did);
        SettlerBody {
            registered: traded.is_some(),
            corridors: traded.unwrap_or_default(),
            record: survey.settlers.get(&did).map(SettlerCount::record).unwrap_or_default(),
            did,
        }
    });
    SettlersBody { surveyed: survey.surveyed(), settlers: rows.collect(), has_more }
}

fn verifiers(survey: &Survey, trusted: &HashSet<(String, String)>) -> VerifiersBody {
    let none = VerifierCount::default();
    let seen = survey.verifiers.keys().chain(trusted).collect::<HashSet<_>>();
    let count = |verifier: &(String, String)| survey.verifiers.get(verifier).unwrap_or(&none);
    let mut seen: Vec<&(String, String)> = seen.into_iter().collect();
    seen.sort_unstable_by(|one, other| count(other).delivered.cmp(&count(one).delivered).then_with(|| one.cmp(other)));
    let has_more = seen.len() > ROWS_MAX;
    let rows = seen.into_iter().take(ROWS_MAX).map(|verifier| {
        let VerifierCount { delivered, attested, unattested } = *count(verifier);
        let (account, endpoint) = verifier.clone();
        let record = VerifierRecord { delivered, attested, unattested };
        VerifierBody { endpoint, account, trusted: trusted.contains(verifier), record }
    });
    VerifiersBody { surveyed: survey.surveyed(), verifiers: rows.collect(), has_more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![7.0]), Some(7.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 100.0, 2.0]), Some(3.0));
    }

    fn did(n: usize) -> Did {
        format!("did:example:settler-{n}").parse().unwrap()
    }

    #[test]
    fn settlers_are_those_of_the_registry_and_those_of_payments_with_the_most_first() {
        let mut survey = Survey { payments: 3, ..Survey::default() };
        survey.settlers.insert(did(1), SettlerCount { awarded: 1, ..SettlerCount::default() });
        let busy = SettlerCount { awarded: 2, delivery_seconds: vec![5.0, 7.0], ..SettlerCount::default() };
        survey.settlers.insert(did(2), busy);
        let asset = |n: u64| format!("eip155:{n}/slip44:60").parse().unwrap();
        let registered = vec![
            RegisteredSettler { did: did(3), corridors: vec![(asset(1), asset(2))] },
            RegisteredSettler { did: did(2), corridors: Vec::new() },
        ];
        let body = serde_json::to_value(settlers(&survey, registered)).unwrap();
        let of = |n: usize, member: &str| body["settlers"][n][member].clone();
        assert_eq!((of(0, "did"), of(0, "registered")), (did(2).to_string().into(), true.into()));
        assert_eq!((of(1, "did"), of(1, "registered")), (did(1).to_string().into(), false.into()));
        assert_eq!(of(2, "corridors")[0]["destination_asset"], "eip155:2/slip44:60");
        assert_eq!(of(0, "record")["median_delivery_seconds"], 6.0);
        assert_eq!(of(2, "record")["last_award_at"], serde_json::Value::Null);
        assert_eq!(body["surveyed"]["payments"], 3);
    }

    #[test]
    fn what_strangers_name_is_bounded() {
        let mut survey = Survey::default();
        for n in 0..ROWS_MAX + 5 {
            survey.settlers.insert(did(n), SettlerCount { awarded: n, ..SettlerCount::default() });
            survey
                .verifiers
                .insert((n.to_string(), String::new()), VerifierCount { delivered: n, ..VerifierCount::default() });
        }
        let body = settlers(&survey, Vec::new());
        assert_eq!(
            (body.settlers.len(), body.has_more, body.settlers[0].record.awarded),
            (ROWS_MAX, true, ROWS_MAX + 4)
        );
        let trusted = HashSet::from([("9".to_owned(), String::new())]);
        let body = verifiers(&survey, &trusted);
        assert_eq!((body.verifiers.len(), body.has_more), (ROWS_MAX, true));
        assert_eq!(body.verifiers.iter().filter(|verifier| verifier.trusted).count(), 1);
    }
}
