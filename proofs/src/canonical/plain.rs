//! Fast path for plain documents: RDF statements without the full JSON-LD algorithms.
//!
//! `json-ld` copies all definitions of the contexts for every document, and again for every context that a term brings
//! along, which costs more than all the rest of reading a quote. So the contexts of quotes are laid out once, as
//! `json-ld` itself has processed them, and a document of nothing but texts, identifiers and objects of these is read by
//! that. Whatever else it holds, and whatever is wrong with it, is not judged here: there is no answer then, and the
//! document goes the long way, which has the last word. Tests hold the two ways against each other.

use std::collections::HashMap;

use futures::FutureExt;
use json_ld::{
    Iri, Process, Type,
    context::{BindingRef, NormalTermDefinition},
    context_processing, rdf_types,
    syntax::{self, Keyword},
};
use serde_json::{Map, Value};

use super::{QUADS_MAX, Quad, Term, quad::XSD_STRING};
use crate::contexts::{Active, Contexts};

const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// What every key of some contexts means.
pub(super) struct Terms(HashMap<String, Meaning>);

enum Meaning {
    /// `@id`.
    Id,
    /// `@type`.
    Type,
    /// An IRI.
    Iri {
        iri: String,
        /// What its value is as a property; `None` where that is not plain.
        property: Option<Property>,
        /// The terms inside an object of this type.
        inside: Inside,
    },
    /// Anything else.
    Other,
}

enum Property {
    /// A text of this datatype.
    Text(String),
    /// An identifier.
    Id,
    /// A term of these contexts.
    Term,
    /// As these say, which the property brings along for its value.
    By(Terms),
}

enum Inside {
    /// The same as outside.
    Same,
    /// These, which the type brings along.
    Own(Terms),
    /// Others, which are not laid out.
    NotPlain,
}

/// Which of the contexts that terms bring along are laid out, too. A context that a type brings along holds the type
/// itself, so without an end to it this would go on for ever.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Document,
    Type,
    Property,
}

impl Terms {
    /// Lays processed contexts out; `None` where they have settings that a plain document is not read under.
    pub(super) fn of(active: &Active, contexts: &Contexts) -> Option<Self> {
        Self::within(active, contexts, Scope::Document)
    }

    fn within(active: &Active, contexts: &Contexts, scope: Scope) -> Option<Self> {
        let languages = active.default_language().is_some() || active.default_base_direction().is_some();
        if languages || active.vocabulary().is_some() || active.base_iri().is_some() {
            return None;
        }
        let mut terms = HashMap::with_capacity(active.len());
        for binding in active.definitions() {
            match binding {
                BindingRef::Normal(key, definition) => {
                    terms.insert(key.as_str().to_owned(), Meaning::of(definition, active, contexts, scope));
                }
                BindingRef::Type(_) => return None,
            }
        }
        Some(Self(terms))
    }

    fn get(&self, key: &str) -> Option<&Meaning> {
        self.0.get(key)
    }

    /// An identifier that stands as it is: nothing in it is a term, and nothing is relative.
    fn absolute(&self, text: &str) -> Option<String> {
        let (scheme, _) = text.split_once(':')?;
        let is_term = self.0.contains_key(text) || self.0.contains_key(scheme);
        let plain = !is_term && !text.starts_with(['@', '_', ':']);
        (plain && Iri::new(text).is_ok()).then(|| text.to_owned())
    }

    fn iri(&self, term: &str) -> Option<&str> {
        match self.get(term)? {
            Meaning::Iri { iri, .. } => Some(iri),
            Meaning::Id | Meaning::Type | Meaning::Other => None,
        }
    }
}

impl Meaning {
    fn of(definition: &NormalTermDefinition, active: &Active, contexts: &Contexts, scope: Scope) -> Self {
        let iri = match &definition.value {
            Some(json_ld::Term::Keyword(Keyword::Id)) => return Self::Id,
            Some(json_ld::Term::Keyword(Keyword::Type)) => return Self::Type,
            Some(json_ld::Term::Id(json_ld::Id::Valid(rdf_types::Id::Iri(iri)))) => iri.as_str().to_owned(),
            _ => return Self::Other,
        };
        let terms = |local: &syntax::context::Context, options, scope| {
            let (vocabulary, base_url) = (rdf_types::vocabulary::no_vocabulary_mut(), definition.base_url.clone());
            // Contexts are in memory, so this never waits.
            let inner = local.process_full(vocabulary, active, contexts, base_url, options, ()).now_or_never()?.ok()?;
            Terms::within(&inner.into_processed(), contexts, scope)
        };
        let options = context_processing::Options::default();
        let property = match &definition.context {
            // What the context makes of the property holds, and it is not brought along once more.
            Some(local) if scope != Scope::Property => terms(local, options, Scope::Property).map(Property::By),
            _ => Property::of(definition),
        };
        let inside = match &definition.context {
            None => Inside::Same,
            Some(local) if scope == Scope::Document => {
                terms(local, options.without_propagation(), Scope::Type).map_or(Inside::NotPlain, Inside::Own)
            }
            Some(_) => Inside::NotPlain,
        };
        Self::Iri { iri, property, inside }
    }
}

impl Property {
    fn of(definition: &NormalTermDefinition) -> Option<Self> {
        let NormalTermDefinition { reverse_property, container, direction, index, language, nest, typ, .. } =
            definition;
        let settings = *reverse_property || direction.is_some() || index.is_some() || language.is_some();
        if settings || nest.is_some() || !container.is_empty() {
            return None;
        }
        match typ {
            None | Some(Type::None) => Some(Self::Text(XSD_STRING.to_owned())),
            Some(Type::Iri(datatype)) => Some(Self::Text(datatype.as_str().to_owned())),
            Some(Type::Id) => Some(Self::Id),
            Some(Type::Vocab) => Some(Self::Term),
            Some(Type::Json) => None,
        }
    }

    /// What `text` stands for as the value of `key`, which is this.
    fn value(&self, key: &str, text: &str, terms: &Terms, written_out: &WrittenOut<'_>) -> Option<Term> {
        match self {
            Self::Text(datatype) => {
                Some(Term::Literal { value: text.to_owned(), datatype: datatype.clone(), language: None })
            }
            Self::Id => terms.absolute(text).map(Term::Iri),
            Self::Term => terms.iri(text).filter(|iri| written_out(iri)).map(|iri| Term::Iri(iri.to_owned())),
            Self::By(terms) => match terms.get(key)? {
                Meaning::Iri { property: Some(property), .. } => property.value(key, text, terms, written_out),
                _ => None,
            },
        }
    }
}

/// Whether an IRI that a term stands for can't be taken for a compact IRI that was spelt out.
type WrittenOut<'a> = dyn Fn(&str) -> bool + 'a;

/// The statements of a document under these contexts; `None` where it is not plain, or something is wrong with it.
pub(super) fn to_quads(members: &Map<String, Value>, terms: &Terms, written_out: &WrittenOut<'_>) -> Option<Vec<Quad>> {
    let mut walk = Walk { quads: Vec::with_capacity(members.len() + 8), blanks: 0, written_out };
    walk.node(members, terms, true)?;
    (!walk.quads.is_empty()).then_some(walk.quads)
}

struct Walk<'a> {
    quads: Vec<Quad>,
    blanks: usize,
    written_out: &'a WrittenOut<'a>,
}

impl Walk<'_> {
    /// Takes in an object; the node that it describes.
    fn node(&mut self, members: &Map<String, Value>, terms: &Terms, outermost: bool) -> Option<Term> {
        let mut types = members.iter().filter(|(key, _)| matches!(terms.get(key), Some(Meaning::Type)));
        let (type_key, kind, inner) = match (types.next(), types.next()) {
            (None, _) => (None, None, terms),
            (Some((key, value)), None) => match terms.get(value.as_str()?)? {
                Meaning::Iri { iri, inside: Inside::Same, .. } => (Some(key), Some(iri), terms),
                Meaning::Iri { iri, inside: Inside::Own(inner), .. } => (Some(key), Some(iri), inner),
                _ => return None,
            },
            (Some(_), Some(_)) => return None,
        };
        let id = members.iter().find(|(key, _)| matches!(inner.get(key), Some(Meaning::Id)));
        let subject = match id {
            // A node that is named may be described elsewhere, too.
            Some(_) if !outermost => return None,
            Some((_, value)) => Term::Iri(inner.absolute(value.as_str()?)?),
            None => self.blank(),
        };
        if let Some(kind) = kind.filter(|kind| (self.written_out)(kind)) {
            self.add(&subject, RDF_TYPE, Term::Iri(kind.clone()))?;
        } else if kind.is_some() {
            return None;
        }
        let mut predicates: Vec<&str> = Vec::with_capacity(members.len());
        for (key, value) in members {
            if key == "@context" {
                if outermost {
                    continue;
                }
                return None;
            }
            let (predicate, property) = match inner.get(key)? {
                Meaning::Type if Some(key) == type_key => continue,
                Meaning::Id if id.is_some_and(|(id, _)| id == key) => continue,
                Meaning::Iri { iri, property: Some(property), .. } if Some(key) != type_key => (iri.as_str(), property),
                _ => return None,
            };
            // Two keys of one meaning would be one set of values.
            if predicate == RDF_TYPE || predicates.contains(&predicate) {
                return None;
            }
            predicates.push(predicate);
            let object = match (value, property) {
                (Value::String(text), property) => property.value(key, text, inner, self.written_out)?,
                // Contexts of a type end at the objects inside, and those of a property are not laid out for objects.
                (Value::Object(_), Property::By(_)) => return None,
                (Value::Object(members), _) if std::ptr::eq(inner, terms) && !members.is_empty() => {
                    self.node(members, terms, false)?
                }
                _ => return None,
            };
            self.add(&subject, predicate, object)?;
        }
        Some(subject)
    }

    fn blank(&mut self) -> Term {
        self.blanks += 1;
        Term::Blank(format!("gw-unnamed-{}", self.blanks))
    }

    fn add(&mut self, subject: &Term, predicate: &str, object: Term) -> Option<()> {
        // With the outermost object itself, values are counted up to one less than statements.
        if self.quads.len() + 1 >= QUADS_MAX {
            return None;
        }
        self.quads.push(Quad { subject: subject.clone(), predicate: predicate.to_owned(), object, graph: None });
        Some(())
    }
}
