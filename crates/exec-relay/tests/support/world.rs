//! The ends, the relay between them and the clock.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use exec_relay::{
    CloseReason, Executor, ExecutorConfig, ExecutorEvent, Frame, Harness, HarnessConfig,
    HarnessEvent, Identity, Reliability, SendError, StreamKey,
};

use super::link::{Link, Weather};
use super::{Random, limits, memory_max};

/// Keys take longer to make than a whole run; the ephemeral ones are new each time.
static EXECUTOR: LazyLock<Arc<Identity>> = LazyLock::new(|| Arc::new(Identity::from_seed([1; 96])));
static HARNESS: LazyLock<Identity> = LazyLock::new(|| Identity::from_seed([2; 96]));
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What one end of a stream has said and heard.
#[derive(Default)]
pub struct Side {
    pub script: Vec<Vec<u8>>,
    pub sent: usize,
    pub heard: Vec<Vec<u8>>,
    pub opened: bool,
    pub closed: Option<CloseReason>,
}

pub struct Pair {
    pub harness: Harness,
    pub key: Option<StreamKey>,
    pub near: Side,
    pub far: Side,
    pub up: Link,
    pub down: Link,
    /// When the harness has a socket again; none while it has one.
    pub back: Option<Instant>,
}

pub struct World {
    pub now: Instant,
    pub random: Random,
    pub weather: Weather,
    pub executor: Executor,
    pub pairs: Vec<Pair>,
    executor_back: Option<Instant>,
    /// Registry answers under way.
    verdicts: Vec<(Instant, StreamKey)>,
    /// Users who do not read for a while.
    lazy_until: Instant,
    pub cuts: u32,
    pub memory: usize,
    pub reliable: bool,
}

pub fn stream_id(index: usize) -> String {
    format!("00000000-0000-4000-8000-00000000000{index}")
}

impl World {
    pub fn new(seed: u64, streams: usize, reliability: Reliability, weather: Weather) -> Self {
        let now = *EPOCH;
        let mut random = Random(seed);
        let executor = Executor::new(ExecutorConfig {
            identity: Arc::clone(&EXECUTOR),
            environment_id: "env".to_owned(),
            registration_id: "reg".to_owned(),
            reliable: true,
            limits: limits(),
        });
        let pairs = (0..streams)
            .map(|index| {
                let config = HarnessConfig {
                    identity: &HARNESS,
                    executor: &EXECUTOR.public_key(),
                    environment_id: "env",
                    registration_id: "reg",
                    authorization: "token",
                    stream_id: &stream_id(index),
                    reliability,
                    limits: limits(),
                };
                let harness = Harness::new(config, &random.bytes(), now).unwrap();
                let side = |name: &str, random: &mut Random| Side {
                    script: script(name, index, random),
                    ..Side::default()
                };
                Pair {
                    harness,
                    key: None,
                    near: side("harness", &mut random),
                    far: side("executor", &mut random),
                    up: Link::default(),
                    down: Link::default(),
                    back: None,
                }
            })
            .collect();
        Self {
            now,
            random,
            weather,
            executor,
            pairs,
            executor_back: None,
            verdicts: Vec::new(),
            lazy_until: now,
            cuts: 0,
            memory: 0,
            reliable: reliability != Reliability::Never,
        }
    }

    /// Runs until `done`, or for so long.
    pub fn run(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            self.turn();
            if done(self) {
                return true;
            }
            let next = self.next_event().unwrap_or(end);
            // A socket that can always be written leaves no timer in the past.
            self.now = next.max(self.now + Duration::from_micros(100)).min(end);
        }
        done(self)
    }

    fn next_event(&self) -> Option<Instant> {
        let pairs = self.pairs.iter().flat_map(|pair| {
            [pair.up.due(), pair.down.due(), pair.back, pair.harness.poll_timeout()]
        });
        let lazy = Some(self.lazy_until).filter(|until| *until > self.now);
        let own = [self.executor.poll_timeout(), self.executor_back, lazy];
        let verdicts = self.verdicts.iter().map(|(due, _)| Some(*due));
        pairs.chain(own).chain(verdicts).flatten().min()
    }

    /// Everything that is due now.
    fn turn(&mut self) {
        self.reconnect();
        self.executor.handle_timeout(self.now);
        self.validate();
        for index in 0..self.pairs.len() {
            let now = self.now;
            self.pairs[index].harness.handle_timeout(now);
            while let Some(frame) = self.pairs[index].up.receive(now) {
                if self.executor_back.is_none() {
                    self.executor.handle_frame(&frame, now);
                }
            }
            while let Some(frame) = self.pairs[index].down.receive(now) {
                let pair = &mut self.pairs[index];
                if pair.back.is_none() {
                    pair.harness.handle_frame(&frame, now);
                }
            }
        }
        if self.now >= self.lazy_until && self.random.chance(5) {
            self.lazy_until = self.now + self.random.millis(3000);
        }
        self.use_harnesses();
        self.use_executor();
        self.transmit();
        self.check_memory();
    }

    fn reconnect(&mut self) {
        let now = self.now;
        if self.executor_back.is_some_and(|back| back <= now) {
            self.executor_back = None;
            self.executor.handle_attached(now);
        }
        for pair in &mut self.pairs {
            if pair.back.is_some_and(|back| back <= now) {
                pair.back = None;
                pair.harness.handle_attached(now);
            }
        }
    }

    fn validate(&mut self) {
        let now = self.now;
        let (due, rest) = self.verdicts.drain(..).partition(|(due, _)| *due <= now);
        self.verdicts = rest;
        let due: Vec<(Instant, StreamKey)> = due;
        for (_, key) in due {
            self.executor.approve(key, &self.random.bytes(), now);
        }
    }

    fn use_harnesses(&mut self) {
        let now = self.now;
        for pair in &mut self.pairs {
            while now >= self.lazy_until
                && let Some(message) = pair.harness.poll_message(now)
            {
                pair.near.heard.push(message);
            }
            while let Some(event) = pair.harness.poll_event() {
                match event {
                    HarnessEvent::Opened { .. } => pair.near.opened = true,
                    HarnessEvent::Writable => {}
                    HarnessEvent::Closed(reason) => {
                        assert_eq!(pair.near.closed, None, "closed twice");
                        pair.near.closed = Some(reason);
                    }
                }
            }
            while pair.near.opened && pair.near.sent < pair.near.script.len() {
                match pair.harness.send(pair.near.script[pair.near.sent].clone()) {
                    Ok(()) => pair.near.sent += 1,
                    Err(SendError::Full(_) | SendError::NotOpen) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn use_executor(&mut self) {
        let now = self.now;
        while let Some(event) = self.executor.poll_event() {
            match event {
                ExecutorEvent::Validate { stream, stream_id: id, authorization, .. } => {
                    assert_eq!(authorization, "token");
                    let index: usize = id[35..].parse().unwrap();
                    let pair = &mut self.pairs[index];
                    if pair.near.closed.is_some() {
                        // A late copy; the registry's token has been used.
                        self.executor.refuse(stream, now);
                        continue;
                    }
                    // A new stream of an old name, so another conversation.
                    pair.key = Some(stream);
                    let script = std::mem::take(&mut pair.far.script);
                    pair.far = Side { script, ..Side::default() };
                    self.verdicts.push((now + self.random.millis(500), stream));
                }
                ExecutorEvent::Opened { stream, .. } => self.far(stream).opened = true,
                ExecutorEvent::Readable(_) | ExecutorEvent::Writable(_) => {}
                ExecutorEvent::Closed { stream, reason } => {
                    let far = self.far(stream);
                    assert_eq!(far.closed, None, "closed twice");
                    far.closed = Some(reason);
                }
            }
        }
        for pair in &mut self.pairs {
            let Some(key) = pair.key else { continue };
            while now >= self.lazy_until
                && let Some(message) = self.executor.poll_message(key, now)
            {
                pair.far.heard.push(message);
            }
            while pair.far.sent < pair.far.script.len() {
                match self.executor.send(key, pair.far.script[pair.far.sent].clone()) {
                    Ok(()) => pair.far.sent += 1,
                    Err(SendError::Full(_) | SendError::NotOpen) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn far(&mut self, key: StreamKey) -> &mut Side {
        let pair = self.pairs.iter_mut().find(|pair| pair.key == Some(key));
        &mut pair.expect("a stream belongs to a harness").far
    }

    fn transmit(&mut self) {
        let (now, weather) = (self.now, self.weather);
        while let Some(frame) = self.executor.poll_transmit(now) {
            // The relay reads the name and nothing else.
            let name = Frame::decode(&frame).unwrap().stream;
            let index = (0..self.pairs.len()).find(|index| stream_id(*index) == name);
            let Some(index) = index else { continue };
            self.carry(index, frame, false);
            if self.random.chance(weather.cut) {
                self.cut_executor();
            }
        }
        for index in 0..self.pairs.len() {
            while let Some(frame) = self.pairs[index].harness.poll_transmit(now) {
                self.carry(index, frame, true);
                if self.random.chance(weather.cut) {
                    self.cut_harness(index);
                }
            }
        }
    }

    fn carry(&mut self, index: usize, frame: Vec<u8>, up: bool) {
        let mut frames = vec![frame];
        if self.weather.tamper > 0 {
            frames = self.tamper(index, frames.remove(0), up);
        }
        for frame in frames {
            let pair = &mut self.pairs[index];
            let link = if up { &mut pair.up } else { &mut pair.down };
            link.send(frame, self.weather, &mut self.random, self.now);
        }
    }

    /// What a relay that means harm can do: it sees every frame and makes new ones.
    fn tamper(&mut self, index: usize, frame: Vec<u8>, up: bool) -> Vec<Vec<u8>> {
        let other = self.random.index(self.pairs.len());
        let pair = &mut self.pairs[index];
        let link = if up { &mut pair.up } else { &mut pair.down };
        link.history.push(frame.clone());
        if !self.random.chance(self.weather.tamper) {
            return vec![frame];
        }
        let mut changed = Frame::decode(&frame).unwrap();
        match self.random.below(7) {
            0 => {
                let mut flipped = frame;
                let at = self.random.index(flipped.len());
                flipped[at] ^= 1 << self.random.below(8);
                return vec![flipped];
            }
            // Again, something of long ago.
            1 => {
                let at = self.random.index(link.history.len());
                return vec![frame, link.history[at].clone()];
            }
            // To its sender.
            2 => {
                let link = if up { &mut pair.down } else { &mut pair.up };
                link.send(frame.clone(), Weather::default_delay(), &mut self.random, self.now);
                return vec![frame];
            }
            // As if of another stream, or one of another stream as if of this one.
            3 => {
                let stolen = &self.pairs[other];
                let history = if up { &stolen.up.history } else { &stolen.down.history };
                let Some(stolen) = history.last() else { return vec![frame] };
                let mut stolen = Frame::decode(stolen).unwrap();
                stolen.stream = stream_id(index);
                return vec![stolen.encode(), frame];
            }
            4 => changed.stream = stream_id(other),
            5 => {
                if let exec_relay::Body::Data(data) = &mut changed.body {
                    data.seq = data.seq.wrapping_add(1);
                }
            }
            _ => {
                if let Some(receipt) = &mut changed.receipt {
                    receipt.ack = receipt.ack.wrapping_add(1);
                    receipt.ack_bits = u32::from_le_bytes(self.random.bytes());
                } else {
                    changed.receipt = Some(exec_relay::Receipt { ack: 0, ack_bits: 0, limit: 64 });
                }
            }
        }
        vec![changed.encode()]
    }

    pub fn cut_executor(&mut self) {
        if self.executor_back.is_none() {
            self.cuts += 1;
            self.executor.handle_detached(self.now);
            for pair in &mut self.pairs {
                pair.up.cut();
                pair.down.cut();
            }
            self.executor_back = Some(self.now + self.random.millis(5000));
        }
    }

    pub fn cut_harness(&mut self, index: usize) {
        let pair = &mut self.pairs[index];
        if pair.back.is_none() {
            self.cuts += 1;
            pair.harness.handle_detached(self.now);
            pair.up.cut();
            pair.down.cut();
            pair.back = Some(self.now + self.random.millis(5000));
        }
    }

    fn check_memory(&mut self) {
        let ends = self.pairs.iter().map(|pair| pair.harness.buffered_bytes());
        let most = ends.max().unwrap_or(0);
        assert!(most <= memory_max(), "a harness holds {most} bytes");
        let executor = self.executor.buffered_bytes();
        assert!(executor <= memory_max() * self.pairs.len(), "the executor holds {executor} bytes");
        self.memory = self.memory.max(most).max(executor);
    }
}

impl Weather {
    fn default_delay() -> Self {
        Self { delay_ms: 1, ..Self::default() }
    }
}

/// What one end says: mostly little, sometimes more than a record. Each message is unlike all others.
fn script(name: &str, index: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let count = 3 + random.index(12);
    (0..count)
        .map(|number| {
            let length = match random.below(100) {
                0..75 => random.index(200),
                75..95 => random.index(20_000),
                _ => random.index(200_000),
            };
            let mut message = format!("{name} {index} {number} ").into_bytes();
            let filler = random.next().to_le_bytes();
            message.resize(message.len() + length, filler[0]);
            message
        })
        .collect()
}
