//! The query of the list: the page's length and the cursor, out of the parameters of a URL.

use data_encoding::BASE64URL_NOPAD;

use events::Did;

use super::{PAGE_DEFAULT, PAGE_MAX};
use crate::{
    error::Error,
    list_query::{invalid, known, limit},
};

/// Every name that a parameter may have.
const PARAMETERS: [&str; 2] = ["limit", "cursor"];

/// A query that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Most settlers on the page.
    pub settlers_max: usize,
    /// Behind whom it begins, where it is not the first.
    pub after: Option<Did>,
}

impl Query {
    /// Reads the parameters, in whatever order. One that is not known is refused.
    ///
    /// # Errors
    /// 400, naming the parameter and its rule.
    pub fn read<'a>(parameters: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let (mut query, mut seen) = (Self { settlers_max: PAGE_DEFAULT, after: None }, Vec::new());
        for (name, value) in parameters {
            let known = known(name, &PARAMETERS, &mut seen)?;
            query.take(known, value).map_err(|rule| invalid(&format!("{known}: {rule}")))?;
        }
        Ok(query)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "limit" => self.settlers_max = limit(value, PAGE_MAX)?,
            _ => self.after = Some(settler(value).ok_or("must be the next_cursor of an earlier page")?),
        }
        Ok(())
    }
}

/// A settler as the cursor behind it.
pub fn cursor(settler: &Did) -> String {
    BASE64URL_NOPAD.encode(settler.as_str().as_bytes())
}

fn settler(cursor: &str) -> Option<Did> {
    let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
    std::str::from_utf8(&bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Query, String> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap());
        Query::read(pairs).map_err(|error| error.message())
    }

    #[test]
    fn a_cursor_is_read_as_it_was_made() {
        let settler: Did = "did:web:settler.example%3A8443".parse().unwrap();
        let query = read(&format!("limit=200&cursor={}", cursor(&settler))).unwrap();
        assert_eq!(query, Query { settlers_max: 200, after: Some(settler) });
        assert_eq!(read(""), Ok(Query { settlers_max: PAGE_DEFAULT, after: None }));
    }

    #[test]
    fn what_is_not_known_or_said_twice_is_refused() {
        let twice = format!("cursor={0}&cursor={0}", cursor(&"did:example:a".parse().unwrap()));
        for bad in [
            "limit=0",
            "limit=201",
            "limit=+5",
            "limit=",
            "limit=5&limit=5",
            "cursor=",
            "cursor=did:example:a",
            "cursor=AAAA",
            "settler=did:example:a",
            &twice,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
