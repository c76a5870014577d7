//! The query of the list: the filters of owners' lists, and those that are operators' alone.

use app::own_payments::query::{Filter, PARAMETERS, Query, owner};
use projections::Place;

use crate::error::Error;

/// Parameters that owners' lists do not have.
const OF_OPERATORS: [&str; 2] = ["in_flight", "originator"];

/// Which payments are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListQuery {
    /// Those of which this holds,
    pub(crate) filter: Filter,
    /// that are not at rest, or are,
    pub(crate) in_flight: Option<bool>,
    /// and are of this owner, as the index of owners has him.
    pub(crate) originator: Option<String>,
    /// Behind which the page begins.
    pub(crate) before: Option<Place>,
    /// Most payments on it.
    pub(crate) payments_max: usize,
}

impl ListQuery {
    /// Reads the parameters, in whatever order.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the parameter and its rule.
    pub(crate) fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let (mut ours, mut theirs) = ([None; OF_OPERATORS.len()], Vec::new());
        for (name, value) in parameters {
            if let Some(at) = OF_OPERATORS.iter().position(|known| *known == name) {
                if ours[at].replace(value).is_some() {
                    return Err(Error::Invalid(format!("{name}: must be given at most once")));
                }
            } else if PARAMETERS.contains(&name) {
                theirs.push((name, value));
            } else {
                let known: Vec<_> = PARAMETERS.into_iter().chain(OF_OPERATORS).collect();
                return Err(Error::Invalid(format!("a parameter is none of {}", known.join(", "))));
            }
        }
        let query = Query::read(theirs).map_err(|error| Error::Invalid(error.message()))?;
        let [in_flight, originator] = ours;
        let in_flight = in_flight.map(|text| text.parse().map_err(|_| "in_flight: must be true or false"));
        let originator = originator.map(|text| owner(text).map_err(|rule| format!("originator: {rule}")));
        Ok(Self {
            in_flight: in_flight.transpose().map_err(|rule| Error::Invalid(rule.to_owned()))?,
            originator: originator.transpose().map_err(Error::Invalid)?,
            payments_max: query.payments_max(),
            filter: query.filter,
            before: query.before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ListQuery, String> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap());
        ListQuery::read(pairs).map_err(|error| error.to_string())
    }

    #[test]
    fn operators_have_the_filters_of_owners_and_their_own() {
        let query = read("status=failed&in_flight=false&originator=did:web:bank.example&limit=7").unwrap();
        assert_eq!((query.in_flight, query.payments_max), (Some(false), 7));
        assert_eq!(query.originator.as_deref(), Some("did:web:bank.example"));
        assert!(query.filter.is_choosy());
        let query = read("overdue=true&parked=true&in_flight=true").unwrap();
        assert!(query.filter.wants_overdue() && query.filter.wants_parked());
        for (bad, name) in [
            ("in_flight=1", "in_flight: "),
            ("originator=ana", "originator: "),
            ("in_flight=true&in_flight=true", "in_flight: "),
            ("status=failed&status=failed", "status: "),
            ("limit=201", "limit: "),
            ("parked=yes", "parked: "),
            ("token=x", "a parameter is none of status, "),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.starts_with(name), "{bad}: {error}");
        }
        let known = read("inflight=true").unwrap_err();
        assert!(known.contains("in_flight") && known.contains("chain_id"), "{known}");
    }
}
