//! Inputs made of others by a seed: what a test of some seconds can try without coverage to guide it.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::Value;

/// Bytes that readers of texts and of lengths treat differently from others.
const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\"\\{}[]:,.0-9eE+ \n\t\r\xc3%/#x";

/// An endless row of inputs, the same for a seed and a corpus.
pub struct Mutations<'a> {
    corpus: &'a [Vec<u8>],
    bytes_max: usize,
    random: StdRng,
}

impl<'a> Mutations<'a> {
    /// Inputs made of those of `corpus`, of at most `bytes_max` bytes.
    pub fn new(corpus: &'a [Vec<u8>], bytes_max: usize, seed: u64) -> Self {
        Self { corpus, bytes_max, random: StdRng::seed_from_u64(seed) }
    }

    fn chosen(&mut self) -> Vec<u8> {
        self.corpus.choose(&mut self.random).cloned().unwrap_or_default()
    }

    fn range(&mut self, length: usize) -> (usize, usize) {
        let (a, b) = (self.random.gen_range(0..=length), self.random.gen_range(0..=length));
        (a.min(b), a.max(b))
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        match self.random.gen_range(0..8) {
            0 if length > 0 => bytes[self.random.gen_range(0..length)] ^= 1 << self.random.gen_range(0..8),
            1 if length > 0 => {
                let telling = TELLING[self.random.gen_range(0..TELLING.len())];
                bytes[self.random.gen_range(0..length)] = telling;
            }
            2 if length > 0 => {
                let (from, to) = self.range(length);
                bytes.drain(from..to.min(from + 64));
            }
            3 => {
                let at = self.random.gen_range(0..=length);
                bytes.insert(at, TELLING[self.random.gen_range(0..TELLING.len())]);
            }
            4 => {
                // A part twice.
                let (from, to) = self.range(length);
                let part = bytes[from..to.min(from + 256)].to_vec();
                bytes.splice(to..to, part);
            }
            5 => {
                // A part of another input.
                let other = self.chosen();
                let (from, to) = self.range(other.len());
                let at = self.random.gen_range(0..=length);
                bytes.splice(at..at, other[from..to.min(from + 256)].iter().copied());
            }
            6 => bytes.truncate(self.random.gen_range(0..=length)),
            _ => {
                let at = self.random.gen_range(0..=length);
                let fresh: [u8; 4] = self.random.r#gen();
                bytes.splice(at..(at + 4).min(length), fresh);
            }
        }
    }
}

impl Iterator for Mutations<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.chosen();
        for _ in 0..self.random.gen_range(1..=4) {
            self.mutate(&mut bytes);
        }
        bytes.truncate(self.bytes_max);
        Some(bytes)
    }
}

/// Inputs of at least `bytes` bytes, made of one that holds JSON: in each, another of its texts is as long, of characters that
/// it has. Readers that take time with the square of a text's length are told by them.
pub fn grown(input: &[u8], bytes: usize, count: usize) -> Vec<Vec<u8>> {
    // JSON begins the input, or stands behind a byte or some lines that say what it is.
    let lines = input.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).take(3);
    let json = [0, 1].into_iter().chain(lines).find_map(|at| {
        let value: Value = serde_json::from_slice(input.get(at..)?).ok()?;
        (value.is_object() || value.is_array()).then_some((at, value))
    });
    let Some((at, value)) = json else { return Vec::new() };
    let mut places = Vec::new();
    texts(&value, &mut String::new(), &mut places);
    let grown = places.iter().take(count).filter_map(|place| {
        let mut value = value.clone();
        let text = value.pointer_mut(place)?;
        let last = text.as_str()?.chars().last().unwrap_or('z');
        *text = format!("{}{}", text.as_str()?, last.to_string().repeat(bytes / last.len_utf8())).into();
        Some([&input[..at], value.to_string().as_bytes()].concat())
    });
    grown.collect()
}

/// The JSON pointers of all texts in a value.
fn texts(value: &Value, place: &mut String, places: &mut Vec<String>) {
    let length = place.len();
    match value {
        Value::String(_) => places.push(place.clone()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                place.push_str(&format!("/{index}"));
                texts(item, place, places);
                place.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                place.push_str(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
                texts(member, place, places);
                place.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
