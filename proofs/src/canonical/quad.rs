//! RDF statements, and how canonical N-Quads write them.

use std::fmt::Write;

/// One RDF statement in a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quad {
    /// An IRI or a blank node.
    pub subject: Term,
    /// An absolute IRI.
    pub predicate: String,
    /// Anything.
    pub object: Term,
    /// The named graph, an IRI or a blank node; `None` for the default graph.
    pub graph: Option<Term>,
}

/// A node or value in a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Term {
    /// An absolute IRI.
    Iri(String),
    /// A blank node, by a label without `_:` that means nothing outside its dataset.
    Blank(String),
    /// A value.
    Literal {
        /// Its lexical form.
        value: String,
        /// The IRI of its datatype; `rdf:langString` when there is a language.
        datatype: String,
        /// Its language tag.
        language: Option<String>,
    },
}

/// The datatype that canonical N-Quads leave out.
pub(super) const XSD_STRING: &str = "http://www.w3.org/2001/XMLSchema#string";

impl Quad {
    /// The blank nodes in it, with the letter RDFC-1.0 gives to their place.
    pub(super) fn blanks(&self) -> impl Iterator<Item = (&str, char)> {
        let places = [(Some(&self.subject), 's'), (Some(&self.object), 'o'), (self.graph.as_ref(), 'g')];
        places.into_iter().filter_map(|(term, place)| match term {
            Some(Term::Blank(label)) => Some((label.as_str(), place)),
            _ => None,
        })
    }

    /// Writes the statement as a line of canonical N-Quads, blank nodes named by `name`.
    pub(super) fn write(&self, out: &mut String, name: &impl Fn(&str) -> String) {
        self.subject.write(out, name);
        let _ = write!(out, " <{}> ", self.predicate);
        self.object.write(out, name);
        if let Some(graph) = &self.graph {
            out.push(' ');
            graph.write(out, name);
        }
        out.push_str(" .\n");
    }
}

impl Term {
    fn write(&self, out: &mut String, name: &impl Fn(&str) -> String) {
        match self {
            Self::Iri(iri) => {
                let _ = write!(out, "<{iri}>");
            }
            Self::Blank(label) => {
                let _ = write!(out, "_:{}", name(label));
            }
            Self::Literal { value, datatype, language } => {
                out.push('"');
                escape(value, out);
                out.push('"');
                match language {
                    Some(language) => {
                        let _ = write!(out, "@{language}");
                    }
                    None if datatype == XSD_STRING => {}
                    None => {
                        let _ = write!(out, "^^<{datatype}>");
                    }
                }
            }
        }
    }
}

/// Escapes as section 5 of RDFC-1.0 has it.
fn escape(value: &str, out: &mut String) {
    for c in value.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\0'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}
