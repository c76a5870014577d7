//! Operators: who may use the console, by their tokens.

use subtle::ConstantTimeEq;

use crate::token::{Digest, digest, is_shaped};

/// Somebody who may use the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// By which name its acts are recorded.
    pub name: String,
    /// Whether it may act; it may look in any case.
    pub may_act: bool,
}

/// The operators, each with the digest of its token.
#[derive(Debug, Clone, Default)]
pub struct Operators(Vec<(Digest, Operator)>);

impl Operators {
    /// These.
    pub fn new(operators: impl IntoIterator<Item = (Digest, Operator)>) -> Self {
        Self(operators.into_iter().collect())
    }

    /// Whose token it is, where it is one that was made as such, whatever the configuration has the digest of. It is
    /// compared with all of them, in a time that depends on their number alone.
    pub fn of(&self, token: &str) -> Option<&Operator> {
        if !is_shaped(token) {
            return None;
        }
        let shown = digest(token);
        let mut found = None;
        for (known, operator) in &self.0 {
            if bool::from(known.ct_eq(&shown)) {
                found = Some(operator);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token;

    #[test]
    fn an_operator_is_known_by_the_whole_of_its_token() {
        let named = |name: &str, may_act| Operator { name: name.to_owned(), may_act };
        let (ana, bob) = (token::random(), token::random());
        let operators = Operators::new([(digest(&ana), named("ana", true)), (digest(&bob), named("bob", false))]);
        assert_eq!(operators.of(&ana), Some(&named("ana", true)));
        assert_eq!(operators.of(&bob), Some(&named("bob", false)));
        let digest_as_token = digest(&ana).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for wrong in
            ["", token::PREFIX, &ana[..46], &ana[1..], &format!("{ana} "), &format!("{ana}A"), &digest_as_token]
        {
            assert_eq!(operators.of(wrong), None, "{wrong}");
        }
        assert_eq!(operators.of(&token::random()), None);
        assert_eq!(operators.of(&"A".repeat(100_000)), None);
        assert_eq!(Operators::default().of(""), None);
    }

    #[test]
    fn a_password_is_no_token_though_its_digest_is_configured() {
        for word in ["hunter2", "gwc_hunter2", ""] {
            let operators = Operators::new([(digest(word), Operator { name: "ana".to_owned(), may_act: true })]);
            assert_eq!(operators.of(word), None, "{word}");
        }
    }
}
