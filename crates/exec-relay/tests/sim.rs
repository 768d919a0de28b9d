//! Two ends and a relay that loses, doubles, delays, reorders and cuts, from a seed. Between two of ours
//! nothing is lost. With a peer that cannot repeat itself nothing is lost silently.

mod support;

use std::time::Duration;

use exec_relay::{CloseReason, Reliability};
use support::Random;
use support::link::Weather;
use support::world::{Pair, World};

/// Tries another day's seeds, or one of them.
const FIRST_VARIABLE: &str = "EXEC_RELAY_SEED";
const COUNT_VARIABLE: &str = "EXEC_RELAY_SEEDS";
/// For each of the four tests of two of ours.
const SEEDS: u64 = 2500;
/// For each of the others.
const SEEDS_FEW: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(4000);

fn seeds(part: u64, count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number(FIRST_VARIABLE).unwrap_or(part * SEEDS);
    first..first + number(COUNT_VARIABLE).unwrap_or(count)
}

fn is_complete(pair: &Pair) -> bool {
    pair.near.heard.len() >= pair.far.script.len() && pair.far.heard.len() >= pair.near.script.len()
}

/// Every message once and in order, whatever the weather; then an end that both hear of.
fn reliable(seed: u64) -> u32 {
    let mut weather = Random(!seed);
    let weather = Weather::draw(&mut weather);
    let streams = 1 + usize::from(seed.is_multiple_of(5));
    let mut world = World::new(seed, streams, Reliability::Expect, weather);
    let complete = world.run(PATIENCE, |world| world.pairs.iter().all(is_complete));
    for pair in &world.pairs {
        assert!(pair.near.heard == pair.far.script, "seed {seed}: the harness misses something");
        assert!(pair.far.heard == pair.near.script, "seed {seed}: the executor misses something");
        assert_eq!((&pair.near.closed, &pair.far.closed), (&None, &None), "seed {seed}");
    }
    assert!(complete, "seed {seed}");
    let by_harness = seed.is_multiple_of(2);
    let now = world.now;
    for pair in &mut world.pairs {
        match pair.key {
            Some(key) if !by_harness => world.executor.close(key, now),
            _ => pair.harness.close(now),
        }
    }
    let ended = world.run(PATIENCE, |world| {
        world.pairs.iter().all(|pair| pair.near.closed.is_some() && pair.far.closed.is_some())
    });
    assert!(ended, "seed {seed}: an end never hears of the end");
    for pair in &world.pairs {
        let (closer, other) = match by_harness {
            true => (&pair.near.closed, &pair.far.closed),
            false => (&pair.far.closed, &pair.near.closed),
        };
        assert_eq!(closer, &Some(CloseReason::Closed), "seed {seed}");
        let heard = matches!(other, Some(CloseReason::Reset { .. } | CloseReason::Silent));
        assert!(heard, "seed {seed}: {other:?}");
    }
    world.cuts
}

fn reliable_seeds(part: u64) {
    let cuts: u32 = seeds(part, SEEDS).map(reliable).sum();
    if std::env::var_os(COUNT_VARIABLE).is_none() {
        assert!(cuts > 1000, "the weather was too good: {cuts} cuts");
    }
}

#[test]
fn nothing_is_lost_between_two_of_ours_0() {
    reliable_seeds(0);
}

#[test]
fn nothing_is_lost_between_two_of_ours_1() {
    reliable_seeds(1);
}

#[test]
fn nothing_is_lost_between_two_of_ours_2() {
    reliable_seeds(2);
}

#[test]
fn nothing_is_lost_between_two_of_ours_3() {
    reliable_seeds(3);
}

/// One end is like codex: what arrives is a beginning of what was sent, and a loss is reported.
#[test]
fn a_plain_stream_reports_what_it_loses() {
    let (mut whole, mut broken) = (0, 0);
    for seed in seeds(4, SEEDS_FEW) {
        let mut random = Random(!seed);
        let weather = Weather {
            drop: random.below(2) * random.below(30),
            cut: random.below(2) * random.below(10),
            ..Weather::draw(&mut random)
        };
        let mut world = World::new(seed, 1, Reliability::Never, weather);
        world.run(Duration::from_secs(200), |world| {
            let [pair] = &world.pairs[..] else { unreachable!() };
            pair.near.closed.is_some() && (pair.far.closed.is_some() || !pair.far.opened)
                || is_complete(pair)
        });
        let [pair] = &world.pairs[..] else { unreachable!() };
        assert!(pair.far.script.starts_with(&pair.near.heard), "seed {seed}: out of order");
        assert!(pair.near.script.starts_with(&pair.far.heard), "seed {seed}: out of order");
        if is_complete(pair) {
            whole += 1;
            continue;
        }
        broken += 1;
        let reported = |end: &Option<CloseReason>, lossy: bool| end.is_some() || !lossy;
        assert!(reported(&pair.near.closed, pair.down.has_visible_loss()), "seed {seed}: silence");
        assert!(reported(&pair.far.closed, pair.up.has_visible_loss()), "seed {seed}: silence");
        if world.cuts > 0 {
            let told = pair.near.closed.is_some() || pair.far.closed.is_some();
            assert!(told || !pair.far.opened, "seed {seed}: a cut that nobody heard of");
        }
    }
    if std::env::var_os(COUNT_VARIABLE).is_none() {
        assert!(whole > 100 && broken > 100, "{whole} whole, {broken} broken");
    }
}

/// Whatever the relay does, an end hears only what the right peer said to it, from the beginning, in order.
#[test]
fn nothing_forged_is_ever_delivered() {
    let (mut heard, mut ended) = (0, 0);
    for seed in seeds(5, SEEDS_FEW) {
        let mut random = Random(!seed);
        let weather =
            Weather { tamper: 1 + random.below(150), cut: 0, ..Weather::draw(&mut random) };
        let reliability = [Reliability::Never, Reliability::Offer, Reliability::Expect];
        let mut world = World::new(seed, 3, reliability[random.index(3)], weather);
        world.run(Duration::from_secs(100), |world| {
            world.pairs.iter().all(|pair| is_complete(pair) || pair.near.closed.is_some())
        });
        for pair in &world.pairs {
            assert!(pair.far.script.starts_with(&pair.near.heard), "seed {seed}: forged");
            assert!(pair.near.script.starts_with(&pair.far.heard), "seed {seed}: forged");
            heard += pair.near.heard.len();
            ended += usize::from(pair.near.closed.is_some());
        }
    }
    if std::env::var_os(COUNT_VARIABLE).is_none() {
        assert!(heard > 1000 && ended > 100, "{heard} messages, {ended} streams ended");
    }
}
