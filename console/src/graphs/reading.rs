//! A reading of the process's own metrics, out of the text that its recorder writes for Prometheus.
//!
//! The text is this process's, so what cannot be read in it is passed over: nobody else can write it.

use std::collections::{BTreeMap, HashMap};

/// Labels with their values.
pub(crate) type Labels = BTreeMap<String, String>;

/// The values of the metrics that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Reading(HashMap<String, Vec<(Labels, f64)>>);

impl Reading {
    /// Reads the series whose names `wants` takes; those of a histogram end with `_bucket`, `_sum` and `_count`.
    pub(crate) fn of(text: &str, wants: impl Fn(&str) -> bool) -> Self {
        let mut read: HashMap<String, Vec<(Labels, f64)>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            if wants(name)
                && let Some((labels, value)) = sample(&line[name.len()..])
            {
                read.entry(name.to_owned()).or_default().push((labels, value));
            }
        }
        Self(read)
    }

    /// The series of a name.
    pub(crate) fn all(&self, name: &str) -> &[(Labels, f64)] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The value of the series of a name that has these labels, and maybe more.
    pub(crate) fn one(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.all(name).iter().find(|(of, _)| has(of, labels)).map(|(_, value)| *value)
    }

    /// The sum of the series of a name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name).iter().filter(|(of, _)| has(of, labels)).map(|(_, value)| *value).sum()
    }
}

fn has(of: &Labels, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(name, value)| of.get(*name).is_some_and(|found| found == value))
}

/// Labels and value behind the name of a series.
fn sample(rest: &str) -> Option<(Labels, f64)> {
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Some((Labels::new(), rest.trim().parse().ok()?));
    };
    let mut labels = Labels::new();
    while !rest.starts_with('}') {
        let (name, behind) = rest.trim_start_matches(',').split_once("=\"")?;
        let (value, behind) = quoted(behind)?;
        labels.insert(name.to_owned(), value);
        rest = behind;
    }
    Some((labels, rest[1..].trim().parse().ok()?))
}

/// A label's value up to its closing quote, and what is behind that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_whatever_is_in_their_labels() {
        let text = concat!(
            "# HELP gw_a What it is\n# TYPE gw_a counter\ngw_a{chain=\"eip155:1\",node=\"https://a.example:443\"} 7\n",
            "gw_a{chain=\"x\",node=\"a,b=\\\"}\\\\\\n\"} 1.5\n\ngw_b 3e2\ngw_c_bucket{le=\"+Inf\"} 9\ngw_d 1\ngw_a{broken\ngw_a{c=\"\n"
        );
        let reading = Reading::of(text, |name| name != "gw_d");
        assert_eq!(reading.all("gw_a").len(), 2);
        assert_eq!(reading.one("gw_a", &[("chain", "eip155:1")]), Some(7.0));
        assert_eq!(reading.one("gw_a", &[("node", "a,b=\"}\\\n"), ("chain", "x")]), Some(1.5));
        assert_eq!((reading.one("gw_b", &[]), reading.one("gw_d", &[])), (Some(300.0), None));
        assert_eq!(reading.one("gw_c_bucket", &[("le", "+Inf")]), Some(9.0));
        assert_eq!((reading.sum("gw_a", &[]), reading.sum("gw_x", &[])), (8.5, 0.0));
    }
}
