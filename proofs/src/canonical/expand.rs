//! JSON-LD to RDF by `json-ld`, with nothing lost.
//!
//! The algorithms of JSON-LD drop what they cannot express. Three passes make sure that here nothing is dropped: the
//! document is looked at before (contexts, keys, null, lists), the expansion refuses unmapped keys and types, and its
//! result is looked at after (identifiers, language tags, hidden members, nodes described in two places).

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use futures::FutureExt;
use json_ld::{
    BlankIdBuf, ExpandedDocument, Id, IndexedObject, IriBuf, Node, Object, Process, RdfQuads, Value as LdValue,
    expansion::{self, Action, Expand, Policy},
    rdf_types, syntax,
};
use serde_json::{Map, Value};

use super::{
    Error, QUADS_MAX, Quad, Reason, Term,
    plain::{self, Terms},
};
use crate::{
    contexts::{Active, Contexts, QUOTE},
    json::push_token,
};

/// [`QUOTE`], laid out for plain documents. Its contexts are bundled, so they say the same in every set.
static QUOTE_TERMS: LazyLock<Option<Terms>> = LazyLock::new(|| {
    let contexts = Contexts::bundled();
    let active = active_context(&Value::from(QUOTE.to_vec()), contexts).ok()?;
    Terms::of(&active, contexts)
});

/// The statements a document makes.
pub(super) fn to_quads(members: &Map<String, Value>, contexts: &Contexts) -> Result<Vec<Quad>, Error> {
    let mut pointer = String::new();
    check_object(members, contexts, &mut pointer)?;
    let Some(context) = members.get("@context") else {
        return Err(refused("/@context", Reason::NoContext));
    };
    let after = After::new(members, contexts);
    match plain(members, context, &after) {
        Some(quads) => Ok(quads),
        None => by_json_ld(members, context, contexts, after),
    }
}

/// The statements of a plain document under the contexts of a quote.
fn plain(members: &Map<String, Value>, context: &Value, after: &After<'_>) -> Option<Vec<Quad>> {
    let Value::Array(urls) = context else { return None };
    if !urls.iter().map(Value::as_str).eq(QUOTE.map(Some)) {
        return None;
    }
    plain::to_quads(members, QUOTE_TERMS.as_ref()?, &|iri| after.written_out(iri).is_ok())
}

fn by_json_ld(
    members: &Map<String, Value>,
    context: &Value,
    contexts: &Contexts,
    mut after: After<'_>,
) -> Result<Vec<Quad>, Error> {
    let active = active_context(context, contexts)?;
    let body = to_syntax(members.iter().filter(|(key, _)| *key != "@context"));
    let options = expansion::Options {
        policy: Policy { invalid: Action::Reject, vocab: Action::Keep, allow_undefined: false },
        ..Default::default()
    };
    let expanded = body
        .expand_full(rdf_types::vocabulary::no_vocabulary_mut(), (*active).clone(), None, contexts, options, ())
        .now_or_never()
        .ok_or_else(stuck)?;
    let mut expanded: ExpandedDocument<IriBuf, BlankIdBuf> = expanded.map_err(|error| explain(error, members))?;
    after.objects(expanded.iter(), &mut HashSet::new())?;
    let mut generator = rdf_types::generator::Blank::new_with_prefix("gw-unnamed-".to_owned());
    expanded.identify_all(&mut generator);
    let mut quads = Vec::new();
    for quad in expanded.rdf_quads(&mut generator, None).cloned() {
        if quads.len() == QUADS_MAX {
            return Err(Error::TooManyStatements);
        }
        quads.push(to_quad(quad)?);
    }
    if quads.is_empty() { Err(refused("", Reason::Empty)) } else { Ok(quads) }
}

fn refused(pointer: &str, reason: Reason) -> Error {
    Error::Refused { pointer: pointer.to_owned(), reason }
}

/// Contexts are in memory, so expansion never waits.
fn stuck() -> Error {
    Error::JsonLd("expansion waits for something".to_owned())
}

// Before.

fn check_object(members: &Map<String, Value>, contexts: &Contexts, pointer: &mut String) -> Result<(), Error> {
    let length = pointer.len();
    let is_value_object = members.contains_key("@value");
    for (key, value) in members {
        push_token(pointer, key);
        match key.as_str() {
            "@context" => check_context(value, contexts, pointer)?,
            "@value" | "@type" | "@language" if is_value_object => {}
            key if key.starts_with('@') || key.contains(':') => return Err(refused(pointer, Reason::NotATerm)),
            _ => {}
        }
        if key != "@context" {
            check_value(value, contexts, pointer)?;
        }
        pointer.truncate(length);
    }
    Ok(())
}

fn check_value(value: &Value, contexts: &Contexts, pointer: &mut String) -> Result<(), Error> {
    let length = pointer.len();
    match value {
        Value::Null => Err(refused(pointer, Reason::Null)),
        Value::Array(items) if items.is_empty() => Err(refused(pointer, Reason::EmptyList)),
        Value::Array(items) => {
            let mut seen = HashSet::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                if !seen.insert(item) {
                    return Err(refused(pointer, Reason::RepeatedItem));
                }
                check_value(item, contexts, pointer)?;
                pointer.truncate(length);
            }
            Ok(())
        }
        Value::Object(members) => check_object(members, contexts, pointer),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn check_context(context: &Value, contexts: &Contexts, pointer: &str) -> Result<(), Error> {
    let check = |url: &Value, pointer: &str| match url {
        Value::String(url) if contexts.knows(url) => Ok(()),
        Value::String(url) => Err(refused(pointer, Reason::UnknownContext(url.clone()))),
        Value::Object(_) => Err(refused(pointer, Reason::InlineContext)),
        _ => Err(refused(pointer, Reason::NoContext)),
    };
    match context {
        Value::Array(urls) if !urls.is_empty() => {
            urls.iter().enumerate().try_for_each(|(index, url)| check(url, &format!("{pointer}/{index}")))
        }
        other => check(other, pointer),
    }
}

fn active_context(context: &Value, contexts: &Contexts) -> Result<Arc<Active>, Error> {
    let urls: Vec<String> = match context {
        Value::Array(urls) => urls.iter().filter_map(|url| url.as_str().map(str::to_owned)).collect(),
        other => other.as_str().map(str::to_owned).into_iter().collect(),
    };
    if let Some(active) = contexts.processed(&urls) {
        return Ok(active);
    }
    let entries = urls.iter().map(|url| {
        let iri = json_ld::IriRefBuf::new(url.clone()).map_err(|error| Error::JsonLd(error.to_string()))?;
        Ok(syntax::ContextEntry::IriRef(iri))
    });
    let local = syntax::Context::Many(entries.collect::<Result<_, Error>>()?);
    let processed = local
        .process_full(
            rdf_types::vocabulary::no_vocabulary_mut(),
            &Active::new(None),
            contexts,
            None,
            Default::default(),
            (),
        )
        .now_or_never()
        .ok_or_else(stuck)?;
    let active = Arc::new(processed.map_err(|error| Error::JsonLd(error.to_string()))?.into_processed());
    contexts.remember(urls, active.clone());
    Ok(active)
}

/// The same value for `json-ld`, with members in the order of RFC 8785, which is how JSON literals are printed.
fn to_syntax<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> syntax::Value {
    let mut members: Vec<_> = members.collect();
    members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    let entries = members.into_iter().map(|(key, value)| syntax::object::Entry::new(key.as_str().into(), to_ld(value)));
    syntax::Value::Object(syntax::Object::from_vec(entries.collect()))
}

fn to_ld(value: &Value) -> syntax::Value {
    match value {
        Value::Null | Value::Number(_) => syntax::Value::Null,
        Value::Bool(value) => syntax::Value::Boolean(*value),
        Value::String(text) => syntax::Value::String(text.as_str().into()),
        Value::Array(items) => syntax::Value::Array(items.iter().map(to_ld).collect()),
        Value::Object(members) => to_syntax(members.iter()),
    }
}

/// An error of the expansion, with the place where a document most likely made it.
fn explain(error: expansion::Error, members: &Map<String, Value>) -> Error {
    match error {
        expansion::Error::KeyExpansionFailed(key) => {
            refused(&find(members, &|name, _| name == key), Reason::UnmappedTerm(key))
        }
        expansion::Error::InvalidTypeValue => refused(&find(members, &|name, _| name == "type"), Reason::UnmappedType),
        other => Error::JsonLd(other.to_string()),
    }
}

/// Pointer to the first member that fits.
fn find(members: &Map<String, Value>, fits: &impl Fn(&str, &Value) -> bool) -> String {
    fn search(value: &Value, fits: &impl Fn(&str, &Value) -> bool, pointer: &mut String) -> bool {
        let length = pointer.len();
        let children: Vec<(String, &Value)> = match value {
            Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
            _ => return false,
        };
        for (key, child) in children {
            push_token(pointer, &key);
            if fits(&key, child) || search(child, fits, pointer) {
                return true;
            }
            pointer.truncate(length);
        }
        false
    }
    let mut pointer = String::new();
    search(&Value::Object(members.clone()), fits, &mut pointer);
    pointer
}

// After.

struct After<'a> {
    members: &'a Map<String, Value>,
    /// Every text in the document.
    texts: HashSet<&'a str>,
    /// Texts that may be compact IRIs, with what follows the prefix.
    compact: Vec<(&'a str, &'a str)>,
    statements: usize,
}

type Described = HashSet<String>;

impl<'a> After<'a> {
    fn new(members: &'a Map<String, Value>, contexts: &Contexts) -> Self {
        fn collect<'a>(value: &'a Value, texts: &mut HashSet<&'a str>) {
            match value {
                Value::String(text) => drop(texts.insert(text)),
                Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
                Value::Object(members) => members.values().for_each(|member| collect(member, texts)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        let mut texts = HashSet::new();
        members.values().for_each(|member| collect(member, &mut texts));
        let parts = texts.iter().filter_map(|text| Some((*text, text.split_once(':')?)));
        let compact = parts.filter(|(_, (prefix, rest))| !rest.is_empty() && contexts.may_be_prefix(prefix));
        let compact = compact.map(|(text, (_, rest))| (text, rest)).collect();
        Self { members, texts, compact, statements: 0 }
    }

    fn objects<'o>(
        &mut self,
        objects: impl Iterator<Item = &'o IndexedObject<IriBuf, BlankIdBuf>>,
        described: &mut Described,
    ) -> Result<(), Error> {
        for object in objects {
            self.statements += 1;
            if self.statements > QUADS_MAX {
                return Err(Error::TooManyStatements);
            }
            if object.index().is_some() {
                return Err(refused("", Reason::Feature));
            }
            match object.inner() {
                Object::Value(value) => self.value(value)?,
                Object::List(list) => self.objects(list.iter(), described)?,
                Object::Node(node) => self.node(node, described)?,
            }
        }
        Ok(())
    }

    fn value(&self, value: &LdValue<IriBuf>) -> Result<(), Error> {
        let LdValue::LangString(text) = value else { return Ok(()) };
        let plain = |tag: &str| {
            tag.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
                && tag.split('-').all(|part| (1..=8).contains(&part.len()))
                && tag.starts_with(|c: char| c.is_ascii_lowercase())
        };
        let language = text.language().map(|tag| tag.as_str());
        if text.direction().is_some() || !language.is_some_and(plain) {
            let at = find(self.members, &|_, found| found.as_str().is_some() && found.as_str() == language);
            return Err(refused(&at, Reason::Language));
        }
        Ok(())
    }

    fn node(&mut self, node: &Node<IriBuf, BlankIdBuf>, described: &mut Described) -> Result<(), Error> {
        if node.included.is_some() || node.reverse_properties.is_some() {
            return Err(refused("", Reason::Feature));
        }
        for id in node.id.iter().chain(node.types()) {
            self.id(id)?;
        }
        let says_something = !node.types().is_empty() || !node.properties.is_empty() || node.graph.is_some();
        if let Some(id) = &node.id
            && says_something
            && !described.insert(id.as_str().to_owned())
        {
            let at = self.find_text(id.as_str());
            return Err(refused(&at, Reason::DescribedTwice(id.as_str().to_owned())));
        }
        for (property, objects) in &node.properties {
            match property {
                Id::Valid(rdf_types::Id::Iri(_)) => self.objects(objects.iter(), described)?,
                other => return Err(refused("", Reason::UnmappedTerm(other.as_str().to_owned()))),
            }
        }
        // A graph is a world of its own: two credentials about one subject do not contradict each other.
        node.graph.as_ref().map_or(Ok(()), |graph| self.objects(graph.iter(), &mut Described::new()))
    }

    fn id(&self, id: &Id<IriBuf, BlankIdBuf>) -> Result<(), Error> {
        match id {
            Id::Valid(rdf_types::Id::Iri(iri)) => self.written_out(iri.as_str()),
            Id::Valid(rdf_types::Id::Blank(_)) => Ok(()),
            Id::Invalid(text) => Err(refused(&self.find_text(text), Reason::RelativeId(text.clone()))),
        }
    }

    /// An IRI stands in the document as it is, or comes of a term. A compact IRI would be a second spelling of the same
    /// statement, which a reader who compares texts takes for another.
    fn written_out(&self, iri: &str) -> Result<(), Error> {
        if self.texts.contains(iri) {
            return Ok(());
        }
        match self.compact.iter().find(|(_, rest)| iri.ends_with(rest)) {
            Some((text, _)) => Err(refused(&self.find_text(text), Reason::CompactId(iri.to_owned()))),
            None => Ok(()),
        }
    }

    fn find_text(&self, text: &str) -> String {
        find(self.members, &|_, found| found.as_str() == Some(text))
    }
}

// RDF.

type LdQuad = rdf_types::Quad<
    rdf_types::Id<IriBuf, BlankIdBuf>,
    rdf_types::Id<IriBuf, BlankIdBuf>,
    rdf_types::Term<rdf_types::Id<IriBuf, BlankIdBuf>, rdf_types::Literal>,
    rdf_types::Id<IriBuf, BlankIdBuf>,
>;

fn to_quad(rdf_types::Quad(subject, predicate, object, graph): LdQuad) -> Result<Quad, Error> {
    let predicate = match predicate {
        rdf_types::Id::Iri(iri) => iri.into_string(),
        rdf_types::Id::Blank(blank) => return Err(refused("", Reason::UnmappedTerm(blank.to_string()))),
    };
    let object = match object {
        rdf_types::Term::Id(id) => to_term(id),
        rdf_types::Term::Literal(rdf_types::Literal { value, type_ }) => {
            let value = value.to_string();
            match type_ {
                rdf_types::LiteralType::Any(iri) => {
                    Term::Literal { value, datatype: iri.into_string(), language: None }
                }
                rdf_types::LiteralType::LangString(tag) => Term::Literal {
                    value,
                    datatype: "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString".to_owned(),
                    language: Some(tag.to_string()),
                },
            }
        }
    };
    Ok(Quad { subject: to_term(subject), predicate, object, graph: graph.map(to_term) })
}

fn to_term(id: rdf_types::Id<IriBuf, BlankIdBuf>) -> Term {
    match id {
        rdf_types::Id::Iri(iri) => Term::Iri(iri.into_string()),
        rdf_types::Id::Blank(blank) => Term::Blank(blank.suffix().to_owned()),
    }
}

#[cfg(test)]
mod tests;
