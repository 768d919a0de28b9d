//! A corpus without a fuzzer: every file of it, and random mutations of them that a seed reproduces.

#![allow(unreachable_pub, reason = "private to each test that includes it")]

use std::fs;
use std::panic;
use std::path::Path;

/// Names the seed of the mutations, to try others than those of every day.
const SEED_VARIABLE: &str = "EXEC_FUZZ_SEED";
const SEED: u64 = 0x00c0_ffee;

/// What grammars turn on; bytes drawn at random would seldom hit it.
const TOKENS: &[&[u8]] = &[
    b"\"", b"{", b"}", b"[", b"]", b",", b":", b"null", b"\\u0000", b"\\ud800", b"1e999", b"-1",
    b"0", b"%00", b"%2F", b"%2e%2e", b"/../", b"file:", b"//", b"?", b"#", b"=", b"==", b"\n",
    b"\r\n", b"\0", b"\xff", b"\x81", b"\x89", b"\x7e", b"\x7f", b"\xc3",
];
/// A mutation never makes an input longer than this.
const INPUT_BYTES_MAX: usize = 4096;

/// Calls the property with every file of the corpus and with so many mutations.
pub fn replay(target: &str, mutations: usize, property: fn(&[u8])) {
    let corpus = read(target);
    for (name, input) in &corpus {
        hold(property, input, &format!("corpus/{target}/{name}"));
    }
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let mut random = Random(seed);
    for number in 0..mutations {
        let (name, input) = &corpus[random.below(corpus.len())];
        let mut input = input.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &corpus, &mut random);
        }
        hold(property, &input, &format!("mutation {number} of {name}, {SEED_VARIABLE}={seed}"));
    }
}

fn read(target: &str) -> Vec<(String, Vec<u8>)> {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = crate_directory.join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&directory).expect("every target has a corpus");
    let mut corpus: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("the corpus can be listed").path();
            let input = fs::read(&path).expect("the corpus can be read");
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), input)
        })
        .collect();
    // The order of a directory differs between machines, and the seed would mean something else.
    corpus.sort();
    assert!(corpus.len() >= 30, "{target} has only {} inputs", corpus.len());
    corpus
}

/// Calls the property, and shows the input when it panics.
fn hold(property: fn(&[u8]), input: &[u8], name: &str) {
    if let Err(reason) = panic::catch_unwind(|| property(input)) {
        eprintln!("{name}: b\"{}\"", input.escape_ascii());
        panic::resume_unwind(reason);
    }
}

fn mutate(input: &mut Vec<u8>, corpus: &[(String, Vec<u8>)], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(8)).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.byte(),
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        4 => {
            let other = &corpus[random.below(corpus.len())].1;
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        5 => input.insert(at, random.byte()),
        _ => {
            let token = TOKENS[random.below(TOKENS.len())];
            input.splice(at..at, token.iter().copied());
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a length fits 64 bits");
        usize::try_from(self.next() % bound).expect("less than a length")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
