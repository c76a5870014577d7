//! W3C's test suite of RDF canonicalization, through the entry point that quotes take.
//!
//! The files are the suite as published by the W3C RDF Dataset Canonicalization and Hash Working Group, under the W3C Test
//! Suite License and the 3-clause BSD License.

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use oxrdf::{GraphName, NamedOrBlankNode};
use oxttl::NQuadsParser;
use proofs::canonical::{Error, HashAlgorithm, Labelled, Quad, Term, label_dataset};
use serde_json::Value;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rdfc10")).join(name)).unwrap()
}

fn dataset(nquads: &str) -> Vec<Quad> {
    NQuadsParser::new().for_slice(nquads.as_bytes()).map(|quad| convert(quad.unwrap())).collect()
}

fn convert(quad: oxrdf::Quad) -> Quad {
    let subject = match quad.subject {
        NamedOrBlankNode::NamedNode(iri) => Term::Iri(iri.into_string()),
        NamedOrBlankNode::BlankNode(blank) => Term::Blank(blank.into_string()),
    };
    let object = match quad.object {
        oxrdf::Term::NamedNode(iri) => Term::Iri(iri.into_string()),
        oxrdf::Term::BlankNode(blank) => Term::Blank(blank.into_string()),
        oxrdf::Term::Literal(literal) => Term::Literal {
            value: literal.value().to_owned(),
            datatype: literal.datatype().as_str().to_owned(),
            language: literal.language().map(str::to_owned),
        },
    };
    let graph = match quad.graph_name {
        GraphName::NamedNode(iri) => Some(Term::Iri(iri.into_string())),
        GraphName::BlankNode(blank) => Some(Term::Blank(blank.into_string())),
        GraphName::DefaultGraph => None,
    };
    Quad { subject, predicate: quad.predicate.into_string(), object, graph }
}

#[test]
fn the_whole_suite_passes() {
    let manifest: Value = serde_json::from_str(&read("manifest.jsonld")).unwrap();
    let mut passed = BTreeMap::<&str, usize>::new();
    for entry in manifest["entries"].as_array().unwrap() {
        let text = |member: &str| entry[member].as_str().unwrap();
        let hash = match entry.get("hashAlgorithm").map(|name| name.as_str().unwrap()) {
            Some("SHA384") => HashAlgorithm::Sha384,
            None => HashAlgorithm::Sha256,
            Some(other) => panic!("{other}"),
        };
        let started = Instant::now();
        let labelled = label_dataset(&dataset(&read(text("action"))), hash);
        println!("{} {:?}", text("id"), started.elapsed());
        match text("type") {
            "rdfc:RDFC10EvalTest" => {
                assert_eq!(labelled.unwrap().nquads.as_str(), read(text("result")), "{}", text("id"));
            }
            "rdfc:RDFC10MapTest" => {
                let expected: BTreeMap<String, String> = serde_json::from_str(&read(text("result"))).unwrap();
                assert_eq!(labelled.unwrap().labels, expected, "{}", text("id"));
            }
            "rdfc:RDFC10NegativeEvalTest" => assert_eq!(labelled, Err(Error::TooComplex), "{}", text("id")),
            other => panic!("unknown kind of test {other}"),
        }
        *passed.entry(text("type")).or_default() += 1;
    }
    let expected = [("rdfc:RDFC10EvalTest", 64), ("rdfc:RDFC10MapTest", 21), ("rdfc:RDFC10NegativeEvalTest", 1)];
    assert_eq!(passed, BTreeMap::from(expected));
}

/// Edges between blank nodes, as statements that cannot be told apart.
fn graph(edges: impl IntoIterator<Item = (usize, usize)>) -> Vec<Quad> {
    let node = |index: usize| Term::Blank(format!("n{index}"));
    let edge = |(from, to)| Quad { subject: node(from), predicate: "urn:p".to_owned(), object: node(to), graph: None };
    edges.into_iter().map(edge).collect()
}

#[test]
fn poison_graphs_are_given_up_on() {
    let clique = |n: usize| graph((0..n).flat_map(|a| (0..n).filter(move |b| *b != a).map(move |b| (a, b))));
    // One hub would be told from its leaves at once, and each leaf be the next of them.
    let stars = |n: usize| graph((0..n).flat_map(move |leaf| [(0, 2 + leaf), (1, 2 + n + leaf)]));
    let bipartite = |n: usize| graph((0..n).flat_map(|a| (n..2 * n).map(move |b| (a, b))));
    let ring = |n: usize| graph((0..n).map(|a| (a, (a + 1) % n)));
    let grid = |n: usize| {
        let cell = move |x: usize, y: usize| (x % n) * n + y % n;
        graph((0..n * n).flat_map(move |i| {
            let (x, y) = (i / n, i % n);
            [(cell(x, y), cell(x + 1, y)), (cell(x, y), cell(x, y + 1))]
        }))
    };
    for (name, quads) in [
        ("clique", clique(12)),
        ("largest clique", clique(45)),
        ("stars", stars(12)),
        ("largest stars", stars(1_000)),
        ("bipartite", bipartite(12)),
        ("torus", grid(30)),
        ("ring", ring(2_000)),
    ] {
        assert_eq!(label_dataset(&quads, HashAlgorithm::Sha256), Err(Error::TooComplex), "{name}");
    }
    let many = stars(1_025);
    assert_eq!(label_dataset(&many, HashAlgorithm::Sha256), Err(Error::TooManyStatements));
}

#[test]
fn names_of_blank_nodes_and_order_of_statements_mean_nothing() {
    let ring = |n: usize| graph((0..n).map(|a| (a, (a + 1) % n)));
    let nquads = |quads: &[Quad]| label_dataset(quads, HashAlgorithm::Sha256).map(|Labelled { nquads, .. }| nquads);
    let expected = nquads(&ring(6)).unwrap();
    let renamed = graph([(40, 7), (7, 3), (3, 9), (9, 21), (21, 5), (5, 40)]);
    assert_eq!(nquads(&renamed), Ok(expected.clone()));
    let two = graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]);
    assert_ne!(nquads(&two), Ok(expected));
}
