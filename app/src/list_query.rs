//! What the queries of lists have in common.

use crate::error::{Code, Error};

/// Most entries on the page, from the parameter `limit`.
///
/// # Errors
/// The rule.
pub(crate) fn limit(value: &str, most: usize) -> Result<usize, String> {
    let digits = value.bytes().all(|c| c.is_ascii_digit());
    let limit = value.parse().ok().filter(|limit| digits && (1..=most).contains(limit));
    limit.ok_or_else(|| format!("must be a whole number from 1 to {most}"))
}

/// The one of `known` that is called `name` and is not among those `seen` so far, to which it is added.
///
/// # Errors
/// 400, naming the parameter and its rule: a parameter that was misspelled would show what nobody asked for.
pub(crate) fn known<'a>(name: &str, known: &[&'a str], seen: &mut Vec<&'a str>) -> Result<&'a str, Error> {
    let found = known.iter().find(|known| **known == name);
    let found = *found.ok_or_else(|| invalid(&format!("a parameter is none of {}", known.join(", "))))?;
    if seen.contains(&found) {
        return Err(invalid(&format!("{found}: must be given at most once")));
    }
    seen.push(found);
    Ok(found)
}

pub(crate) fn invalid(message: &str) -> Error {
    Error::new(Code::INVALID_REQUEST, message)
}
