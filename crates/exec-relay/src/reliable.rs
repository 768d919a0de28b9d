//! What two of our ends add to a stream: receipts, retransmission, heartbeats, resumption. The contract
//! is in `docs/relay.md`.

use std::time::{Duration, Instant};

use crate::error::CloseReason;
use crate::frame::{Body, Receipt};
use crate::limits::{Limits, WINDOW_FRAMES};
use crate::recv_window::RecvWindow;
use crate::send_window::{AckError, SendWindow};

/// How long a receipt may wait for a frame to travel with.
const RECEIPT_DELAY: Duration = Duration::from_millis(25);
/// So many frames without a receipt are enough.
const RECEIPT_FRAMES: u32 = 8;
/// How often a sender that was stopped by its peer asks whether it may go on.
const PROBE: Duration = Duration::from_secs(1);

/// The limit that is granted before anything was received.
pub(crate) const FIRST_LIMIT: u32 = 64;
const _: () = assert!(FIRST_LIMIT as u64 == WINDOW_FRAMES);

#[derive(Debug)]
pub(crate) struct Reliable {
    pub(crate) send: SendWindow,
    /// The first number the peer may not send yet. Never smaller than it was.
    limit: u64,
    /// The limit of the last frame that went out.
    limit_told: u64,
    receipt_due: Option<Instant>,
    unreceipted: u32,
    /// The new socket has not carried our `resume` yet.
    resume_due: bool,
    /// The peer has not been heard on the new socket yet.
    resuming: bool,
    heard: Instant,
    spoken: Instant,
    heartbeat: Duration,
    /// Since when there is no socket.
    detached: Option<Instant>,
}

impl Reliable {
    /// `limit` is what the peer granted in its handshake frame.
    pub(crate) fn new(limit: u32, heartbeat: Duration, now: Instant) -> Self {
        Self {
            send: SendWindow::new(limit),
            limit: u64::from(FIRST_LIMIT),
            limit_told: u64::from(FIRST_LIMIT),
            receipt_due: None,
            unreceipted: 0,
            resume_due: false,
            resuming: false,
            heard: now,
            spoken: now,
            heartbeat,
            detached: None,
        }
    }

    /// Every frame of the stream passes here first.
    pub(crate) fn handle_receipt(
        &mut self,
        receipt: Receipt,
        now: Instant,
    ) -> Result<(), AckError> {
        self.heard = now;
        self.send.handle_receipt(receipt, now)?;
        if std::mem::take(&mut self.resuming) {
            self.send.resend(now);
        }
        Ok(())
    }

    /// A data frame came; `in_order` if it was the expected one.
    pub(crate) fn handle_data(&mut self, in_order: bool, now: Instant) {
        self.unreceipted += 1;
        let due =
            if in_order && self.unreceipted < RECEIPT_FRAMES { now + RECEIPT_DELAY } else { now };
        self.receipt_due = Some(self.receipt_due.map_or(due, |earlier| earlier.min(due)));
    }

    /// The peer has a new socket; what went into its old one may be lost.
    pub(crate) fn handle_resume(&mut self, now: Instant) {
        self.send.resend(now);
        self.receipt_due = Some(now);
    }

    /// The peer wants to hear something.
    pub(crate) fn handle_heartbeat(&mut self, now: Instant) {
        self.receipt_due = Some(now);
    }

    pub(crate) fn handle_detached(&mut self, now: Instant) {
        self.detached.get_or_insert(now);
    }

    /// How long there was no socket.
    pub(crate) fn handle_attached(&mut self, now: Instant) -> Duration {
        // Nothing can be heard without a socket, so that time does not count. The rest does: sockets that
        // come and go must not keep a stream without a peer for ever.
        let since = self.detached.take();
        let pause = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.heard += pause;
        self.resume_due = true;
        self.resuming = true;
        pause
    }

    /// Grants the peer another window, if its frames can be taken.
    pub(crate) fn open_window(&mut self, recv: &RecvWindow, now: Instant) {
        self.limit = self.limit.max(recv.next() + WINDOW_FRAMES);
        // Half a window is worth a frame of its own.
        if self.limit >= self.limit_told + WINDOW_FRAMES / 2 {
            self.receipt_due = Some(now);
        }
    }

    /// The frame that is due, other than data. `blocked` if data waits for the peer's permission.
    pub(crate) fn poll_control(&self, blocked: bool, now: Instant) -> Option<Body> {
        if self.receipt_due.is_some_and(|due| due <= now) {
            return Some(Body::Ack);
        }
        (self.heartbeat_due(blocked) <= now).then_some(Body::Heartbeat)
    }

    /// `resume`, once on each new socket.
    pub(crate) fn poll_resume(&mut self, recv: &RecvWindow) -> Option<Body> {
        std::mem::take(&mut self.resume_due).then(|| Body::Resume { next_seq: narrow(recv.next()) })
    }

    /// The receipt for a frame that goes out now.
    pub(crate) fn receipt(&mut self, recv: &RecvWindow, now: Instant) -> Receipt {
        self.receipt_due = None;
        self.unreceipted = 0;
        self.spoken = now;
        self.limit_told = self.limit;
        Receipt { ack: narrow(recv.next()), ack_bits: recv.bits(), limit: narrow(self.limit) }
    }

    fn heartbeat_due(&self, blocked: bool) -> Instant {
        self.spoken + if blocked { PROBE.min(self.heartbeat) } else { self.heartbeat }
    }

    /// Whether there is no socket.
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.is_some()
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self, blocked: bool, limits: &Limits) -> Instant {
        match self.detached {
            Some(since) => since + limits.pause,
            None => {
                let soonest = self.heartbeat_due(blocked).min(self.heard + limits.silence);
                let others = [self.receipt_due, self.send.poll_timeout()];
                others.into_iter().flatten().fold(soonest, Instant::min)
            }
        }
    }

    /// Whether the peer has to be given up.
    pub(crate) fn handle_timeout(&self, limits: &Limits, now: Instant) -> Result<(), CloseReason> {
        match self.detached {
            Some(since) if now >= since + limits.pause => Err(CloseReason::NotResumed),
            None if now >= self.heard + limits.silence => Err(CloseReason::Silent),
            _ => Ok(()),
        }
    }
}

/// Numbers end before this matters: whoever sends has only 2^32.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
