//! Checks: a model's states are visited to the last, and what was found is told.

use std::{
    fmt,
    hash::Hash,
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// How a check is run.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Threads.
    pub threads: usize,
    /// States after which it is given up.
    pub states_max: usize,
    /// Time after which it is given up.
    pub time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { threads: 1, states_max: 50_000_000, time_max: Duration::from_secs(3_600) }
    }
}

/// What a check came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The check.
    pub name: String,
    /// Different states.
    pub states: usize,
    /// Steps that were looked at.
    pub steps: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Whether every reachable state was visited.
    pub is_complete: bool,
    /// Properties that do not hold, each with the way there.
    pub violated: Vec<(&'static str, String)>,
    /// What should happen somewhere, and does nowhere.
    pub missing: Vec<&'static str>,
}

impl Report {
    /// Whether everything was visited and everything holds.
    pub fn holds(&self) -> bool {
        self.is_complete && self.violated.is_empty() && self.missing.is_empty()
    }

    /// Whether this property was found not to hold.
    pub fn violates(&self, name: &str) -> bool {
        self.violated.iter().any(|(violated, _)| *violated == name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, steps, depth, took, is_complete, violated, missing } = self;
        let scope = if *is_complete { "all" } else { "not all" };
        write!(f, "{name}: {scope} {states} states, {steps} steps, depth {depth}, {:.1} s", took.as_secs_f64())?;
        for (property, way) in violated {
            write!(f, "\n  does not hold: {property}\n{way}")?;
        }
        missing.iter().try_for_each(|property| write!(f, "\n  never happens: {property}"))
    }
}

/// Visits every state of `model`, or those up to the first that breaks the property `until`.
pub fn check<M>(name: &str, model: M, limits: Limits, until: Option<&'static str>) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + PartialEq + Hash + Send + Sync + 'static,
    M::Action: Clone + fmt::Debug + PartialEq,
{
    let began = Instant::now();
    let finish_when = match until {
        Some(property) => HasDiscoveries::AllOf([property].into()),
        None => HasDiscoveries::All,
    };
    let checker = model
        .checker()
        .threads(limits.threads)
        .target_state_count(limits.states_max)
        .timeout(limits.time_max)
        .finish_when(finish_when)
        .spawn_bfs()
        .join();
    let took = began.elapsed();
    let properties = checker.model().properties();
    let discoveries = checker.discoveries();
    let mut violated = Vec::new();
    for property in properties.iter().filter(|property| property.expectation != Expectation::Sometimes) {
        let Some(path) = discoveries.get(property.name) else { continue };
        let steps = path.clone().into_vec();
        let actions: Vec<_> = steps.iter().filter_map(|(_, action)| action.as_ref()).collect();
        let mut way: Vec<_> = actions.iter().map(|action| format!("    {action:?}")).collect();
        if let Some((last, _)) = steps.last() {
            way.push(format!("    in {last:?}"));
        }
        violated.push((property.name, way.join("\n")));
    }
    let sometimes = properties.iter().filter(|property| property.expectation == Expectation::Sometimes);
    let missing = sometimes.map(|property| property.name).filter(|name| !discoveries.contains_key(name)).collect();
    let is_over = took < limits.time_max && checker.unique_state_count() < limits.states_max;
    Report {
        name: name.to_owned(),
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        took,
        is_complete: is_over && until.is_none_or(|until| !discoveries.contains_key(until)),
        violated,
        missing,
    }
}
