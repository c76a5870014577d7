//! RDFC-1.0 (W3C Recommendation of 21 May 2024) with a budget.
//!
//! The algorithm tries every order of blank nodes that it cannot tell apart, so a small graph can demand work without
//! end ("dataset poisoning", section 7.1). Every step here is paid from a budget, permutations and copies included, so
//! the worst a document can cost is known. Names in the comments are the specification's.

use std::collections::{BTreeMap, HashMap};

use super::{Error, HashAlgorithm, Labelled, NQuads, Quad};

/// Units of work one dataset may cost: about one short SHA-256 each.
pub(super) const WORK_MAX: usize = 50_000;

/// Deepest recursion; each level is a blank node that is told from its like only by its neighbours. Bounds the stack.
const DEPTH_MAX: usize = 128;

/// Canonical N-Quads of a dataset, sorted, each line ended by a line feed, and the names its blank nodes got.
pub(super) fn canonicalize(quads: &[Quad], hash: HashAlgorithm, work_max: usize) -> Result<Labelled, Error> {
    let mut state = State::new(quads, hash, work_max);
    state.label()?;
    let named = state
        .nodes
        .iter()
        .filter_map(|(&label, &node)| state.canonical.get(node).map(|id| (label.to_owned(), format!("c14n{id}"))));
    let labels: BTreeMap<String, String> = named.collect();
    let name = |label: &str| labels.get(label).cloned().unwrap_or_default();
    let mut lines: Vec<String> = Vec::with_capacity(quads.len());
    for quad in quads {
        let mut line = String::new();
        quad.write(&mut line, &name);
        lines.push(line);
    }
    lines.sort_unstable();
    lines.dedup();
    let nquads = NQuads(lines.concat());
    Ok(Labelled { nquads, labels })
}

/// "Identifier issuer": numbers in the order they were asked for.
#[derive(Clone, Default)]
struct Issuer {
    ids: HashMap<usize, usize>,
    order: Vec<usize>,
}

impl Issuer {
    fn get(&self, node: usize) -> Option<usize> {
        self.ids.get(&node).copied()
    }

    fn issue(&mut self, node: usize) -> usize {
        let next = self.order.len();
        let id = *self.ids.entry(node).or_insert(next);
        if id == next {
            self.order.push(node);
        }
        id
    }
}

struct State<'a> {
    quads: &'a [Quad],
    nodes: HashMap<&'a str, usize>,
    /// Quads that mention a node.
    mentions: Vec<Vec<usize>>,
    first_degree: Vec<String>,
    canonical: Issuer,
    hash: HashAlgorithm,
    work_left: usize,
    depth: usize,
}

impl<'a> State<'a> {
    fn new(quads: &'a [Quad], hash: HashAlgorithm, work_max: usize) -> Self {
        let mut nodes = HashMap::new();
        let mut mentions: Vec<Vec<usize>> = Vec::new();
        for (index, quad) in quads.iter().enumerate() {
            for (label, _) in quad.blanks() {
                let next = nodes.len();
                let node = *nodes.entry(label).or_insert(next);
                if node == mentions.len() {
                    mentions.push(Vec::new());
                }
                if mentions[node].last() != Some(&index) {
                    mentions[node].push(index);
                }
            }
        }
        let (first_degree, canonical) = (Vec::new(), Issuer::default());
        Self { quads, nodes, mentions, first_degree, canonical, hash, work_left: work_max, depth: 0 }
    }

    fn digest(&self, text: &str) -> String {
        hex::encode(self.hash.digest(text.as_bytes()))
    }

    fn pay(&mut self, work: usize) -> Result<(), Error> {
        self.work_left = self.work_left.checked_sub(work).ok_or(Error::TooComplex)?;
        Ok(())
    }

    /// "Canonicalization algorithm", section 4.4.3, up to its last step.
    fn label(&mut self) -> Result<(), Error> {
        let mut by_hash: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for node in 0..self.mentions.len() {
            self.pay(self.mentions[node].len())?;
            let hash = self.hash_first_degree(node);
            self.first_degree.push(hash.clone());
            by_hash.entry(hash).or_default().push(node);
        }
        by_hash.retain(|_, nodes| {
            if let [node] = nodes.as_slice() {
                self.canonical.issue(*node);
                return false;
            }
            true
        });
        for nodes in by_hash.into_values() {
            let mut paths = Vec::with_capacity(nodes.len());
            for node in nodes {
                if self.canonical.get(node).is_some() {
                    continue;
                }
                let mut issuer = Issuer::default();
                issuer.issue(node);
                paths.push(self.hash_n_degree(node, issuer)?);
            }
            paths.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (_, issuer) in paths {
                for node in issuer.order {
                    self.canonical.issue(node);
                }
            }
        }
        Ok(())
    }

    /// "Hash First Degree Quads", section 4.6.
    fn hash_first_degree(&self, node: usize) -> String {
        let name = |label: &str| if self.nodes.get(label) == Some(&node) { "a".to_owned() } else { "z".to_owned() };
        let mut lines: Vec<String> = Vec::with_capacity(self.mentions[node].len());
        for &quad in &self.mentions[node] {
            let mut line = String::new();
            self.quads[quad].write(&mut line, &name);
            lines.push(line);
        }
        lines.sort_unstable();
        self.digest(&lines.concat())
    }

    /// "Hash Related Blank Node", section 4.7.
    fn hash_related(&self, related: usize, quad: &Quad, issuer: &Issuer, place: char) -> String {
        let mut input = String::from(place);
        if place != 'g' {
            input.push_str(&format!("<{}>", quad.predicate));
        }
        match (self.canonical.get(related), issuer.get(related)) {
            (Some(id), _) => input.push_str(&format!("_:c14n{id}")),
            (None, Some(id)) => input.push_str(&format!("_:b{id}")),
            (None, None) => input.push_str(&self.first_degree[related]),
        }
        self.digest(&input)
    }

    /// "Hash N-Degree Quads", section 4.8.
    fn hash_n_degree(&mut self, node: usize, mut issuer: Issuer) -> Result<(String, Issuer), Error> {
        let quads = self.quads;
        let mut related_by_hash: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for index in 0..self.mentions[node].len() {
            let quad = &quads[self.mentions[node][index]];
            self.pay(1)?;
            for (label, place) in quad.blanks() {
                let related = self.nodes[label];
                if related != node {
                    self.pay(1)?;
                    let hash = self.hash_related(related, quad, &issuer, place);
                    related_by_hash.entry(hash).or_default().push(related);
                }
            }
        }
        let mut data = String::new();
        for (related_hash, related) in related_by_hash {
            data.push_str(&related_hash);
            let mut chosen: Option<(String, Issuer)> = None;
            let mut order: Vec<usize> = (0..related.len()).collect();
            loop {
                self.pay(1 + related.len() + issuer.order.len() / 8)?;
                let nodes: Vec<usize> = order.iter().map(|&index| related[index]).collect();
                if let Some(path) = self.path(&nodes, issuer.clone(), chosen.as_ref().map(|(path, _)| path.as_str()))? {
                    chosen = Some(path);
                }
                if !next_permutation(&mut order) {
                    break;
                }
            }
            if let Some((path, chosen)) = chosen {
                data.push_str(&path);
                issuer = chosen;
            }
        }
        Ok((self.digest(&data), issuer))
    }

    /// The path of one permutation with the issuer it leaves, unless `best` is at least as good.
    fn path(
        &mut self,
        nodes: &[usize],
        mut issuer: Issuer,
        best: Option<&str>,
    ) -> Result<Option<(String, Issuer)>, Error> {
        let worse = |path: &str| best.is_some_and(|best| path.len() >= best.len() && path > best);
        let mut path = String::new();
        let mut to_visit = Vec::new();
        for &node in nodes {
            match self.canonical.get(node) {
                Some(id) => path.push_str(&format!("_:c14n{id}")),
                None => {
                    if issuer.get(node).is_none() {
                        to_visit.push(node);
                    }
                    path.push_str(&format!("_:b{}", issuer.issue(node)));
                }
            }
            if worse(&path) {
                return Ok(None);
            }
        }
        for node in to_visit {
            self.pay(1 + issuer.order.len() / 8)?;
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(Error::TooComplex);
            }
            let (hash, visited) = self.hash_n_degree(node, issuer.clone())?;
            self.depth -= 1;
            path.push_str(&format!("_:b{}<{hash}>", issuer.issue(node)));
            issuer = visited;
            if worse(&path) {
                return Ok(None);
            }
        }
        Ok(if best.is_none_or(|best| path.as_str() < best) { Some((path, issuer)) } else { None })
    }
}

/// The next order in lexicographic sequence, or `false` at its end.
fn next_permutation(order: &mut [usize]) -> bool {
    let Some(pivot) = order.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let Some(swap) = order.iter().rposition(|&item| item > order[pivot]) else { return false };
    order.swap(pivot, swap);
    order[pivot + 1..].reverse();
    true
}
