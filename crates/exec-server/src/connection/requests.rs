//! A connection's requests: which run, which wait for a slot, and their answers.
//!
//! There are two pools of slots, so that what ends a request never waits behind it. With a single
//! slot there is one pool, and requests are worked on strictly in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use exec_protocol::jsonrpc::Request;
use exec_protocol::methods::Pool;
use futures_util::stream::{FuturesUnordered, Stream};

use super::{End, Served};
use crate::dispatch::{self, Answer, Caller, Ready, encode};
use crate::error::Error;
use crate::limits::WAITING_REQUESTS_MAX;
use crate::reply::Reply;

pub(super) struct Requests {
    slots: usize,
    running: FuturesUnordered<Running>,
    control: Lane,
    ordinary: Lane,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<(Ready, Caller)>,
}

/// A request that could not be answered at once.
struct Running {
    pool: Pool,
    answer: Answer,
}

impl Future for Running {
    type Output = (Pool, Reply);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let pool = self.pool;
        self.answer.as_mut().poll(cx).map(|answer| (pool, answer))
    }
}

impl Requests {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            running: FuturesUnordered::new(),
            control: Lane::default(),
            ordinary: Lane::default(),
        }
    }

    fn sequential(&self) -> bool {
        self.slots == 1
    }

    fn lane(&mut self, pool: Pool) -> &mut Lane {
        match pool {
            Pool::Control => &mut self.control,
            Pool::Ordinary => &mut self.ordinary,
        }
    }

    /// Whether another request may be read.
    pub(super) fn has_room(&self) -> bool {
        if self.sequential() {
            return self.running.is_empty();
        }
        self.control.waiting.len() + self.ordinary.waiting.len() < WAITING_REQUESTS_MAX
    }

    /// Begins a request, or puts it behind those of its pool. Most are answered at once.
    fn begin(&mut self, pool: Pool, ready: Ready, caller: Caller) -> Option<Reply> {
        let slots = self.slots;
        let lane = self.lane(pool);
        if lane.running >= slots {
            lane.waiting.push_back((ready, caller));
            return None;
        }
        self.run(pool, ready(caller))
    }

    fn run(&mut self, pool: Pool, mut answer: Answer) -> Option<Reply> {
        // The queue of running requests polls a new one itself, with a waker that counts.
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(answer);
        }
        self.lane(pool).running += 1;
        self.running.push(Running { pool, answer });
        None
    }

    /// The next answer that is complete.
    pub(super) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        for pool in [Pool::Control, Pool::Ordinary] {
            let slots = self.slots;
            let lane = self.lane(pool);
            if lane.running < slots
                && let Some((ready, caller)) = lane.waiting.pop_front()
            {
                if let Some(answer) = self.run(pool, ready(caller)) {
                    return Poll::Ready(answer);
                }
                cx.waker().wake_by_ref();
            }
        }
        match Pin::new(&mut self.running).poll_next(cx) {
            Poll::Ready(Some((pool, answer))) => {
                self.lane(pool).running -= 1;
                Poll::Ready(answer)
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Served {
    /// Routes a request. Parameters are looked at before the state of the connection.
    pub(super) fn request(&mut self, request: &Request<'_>) -> Result<(), End> {
        let answer = match self.route(request) {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(()),
            Err(error) => Reply::Text(encode::<()>(&request.id, Err(error))),
        };
        self.answer(answer)
    }

    fn route(&mut self, request: &Request<'_>) -> Result<Option<Reply>, Error> {
        if self.handshake.is_initialize(&request.method) {
            return self.handshake.begin(request).map(|()| None);
        }
        let Some(route) = dispatch::routes().get(&request.method) else {
            return Err(Error::NoSuchMethod(request.method.clone()));
        };
        let ready = (route.prepare)(request.id.clone(), request.params)?;
        let caller = self.handshake.caller(route.info.family)?;
        Ok(self.requests.begin(route.info.pool, ready, caller))
    }
}
