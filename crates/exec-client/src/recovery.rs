//! When to try again, and when to call a connection dead. Pure: time comes in as a value.

use std::time::{Duration, Instant};

use exec_protocol::jsonrpc::code;

use crate::ExecServerError;

/// One recovery: from the cut until a connection stands again or the window has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovery {
    deadline: Instant,
    step: Duration,
}

impl Recovery {
    pub(crate) fn new(cut_at: Instant, window: Duration, step: Duration) -> Self {
        Self { deadline: cut_at + window, step }
    }

    /// How long to wait before the first try. At once, unless the connection that was lost had only
    /// just begun: a server that accepts and drops must not make us spin.
    pub(crate) fn first_delay(&self, lived: Duration) -> Duration {
        self.step.saturating_sub(lived)
    }

    /// How long one try may take.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        self.deadline.saturating_duration_since(now)
    }

    /// When to try again after a failure; `None` when it is final.
    pub(crate) fn next_delay(&self, failure: &ExecServerError, now: Instant) -> Option<Duration> {
        (may_pass(failure) && now + self.step < self.deadline).then_some(self.step)
    }
}

/// Whether the same try may succeed later.
fn may_pass(failure: &ExecServerError) -> bool {
    match failure {
        ExecServerError::Connect { .. }
        | ExecServerError::ConnectionLost(_)
        | ExecServerError::Timeout { .. } => true,
        // Credentials do not become valid by repetition; a gateway's upstream may come back.
        ExecServerError::Refused { status, .. } => !matches!(status, 401 | 403),
        // The server has not noticed yet that our old connection is gone.
        ExecServerError::Initialize { code, .. } => *code == code::SESSION_ATTACHED,
        ExecServerError::SpawnProgram { .. }
        | ExecServerError::Rpc { .. }
        | ExecServerError::ProcessLost(_)
        | ExecServerError::TooManyRequests { .. }
        | ExecServerError::Protocol(_)
        | ExecServerError::Unsupported(_)
        | ExecServerError::WriteRefused(_)
        | ExecServerError::FileChanged { .. }
        | ExecServerError::Local { .. }
        | ExecServerError::Body(_)
        | ExecServerError::OutputTooLarge { .. } => false,
    }
}

/// Notices a peer that is gone without saying so: asks after a third of the limit, gives up at its
/// end.
#[derive(Debug)]
pub(crate) struct Liveness {
    limit: Duration,
    received: u64,
    heard_at: Instant,
    asked: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// All is well, look again then.
    Alive(Instant),
    /// Ask for a sign of life, look again then.
    Ask(Instant),
    /// Silent for too long.
    Dead,
}

impl Liveness {
    pub(crate) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, received: 0, heard_at: now, asked: false }
    }

    /// `received` is every byte ever received on this connection.
    pub(crate) fn handle_time(&mut self, received: u64, now: Instant) -> Pulse {
        if received != self.received {
            self.received = received;
            self.heard_at = now;
            self.asked = false;
        }
        let silent = now.saturating_duration_since(self.heard_at);
        if silent >= self.limit {
            return Pulse::Dead;
        }
        let ask_at = self.heard_at + self.limit / 3;
        if now < ask_at {
            return Pulse::Alive(ask_at);
        }
        let look_at = self.heard_at + self.limit;
        if std::mem::replace(&mut self.asked, true) {
            Pulse::Alive(look_at)
        } else {
            Pulse::Ask(look_at)
        }
    }

    /// Nothing was read on purpose, so the silence says nothing.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.heard_at = now;
        self.asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(100);

    #[test]
    fn failures_that_may_pass_are_tried_again_within_the_window() {
        let start = Instant::now();
        let recovery = Recovery::new(start, Duration::from_secs(25), STEP);
        let initialize = |code| ExecServerError::Initialize { code, message: String::new() };
        let refused = |status| ExecServerError::Refused { status, body: String::new() };
        let check = |failure: ExecServerError, at_ms, expected| {
            let now = start + Duration::from_millis(at_ms);
            assert_eq!(recovery.next_delay(&failure, now), expected, "{failure} at {at_ms}");
        };
        check(ExecServerError::ConnectionLost("reset".into()), 0, Some(STEP));
        check(initialize(-32010), 24_000, Some(STEP));
        check(initialize(-32010), 24_950, None);
        check(initialize(-32600), 0, None);
        check(refused(503), 0, Some(STEP));
        check(refused(401), 0, None);
        check(ExecServerError::Protocol("no".into()), 0, None);
    }

    #[test]
    fn the_first_try_is_at_once_unless_the_connection_had_just_begun() {
        let recovery = Recovery::new(Instant::now(), STEP, STEP);
        assert_eq!(recovery.first_delay(Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(recovery.first_delay(Duration::from_millis(30)), Duration::from_millis(70));
    }

    #[test]
    fn a_silent_peer_is_asked_and_then_given_up() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut liveness = Liveness::new(Duration::from_secs(90), start);
        assert_eq!(liveness.handle_time(5, at(10)), Pulse::Alive(at(40)));
        assert_eq!(liveness.handle_time(5, at(40)), Pulse::Ask(at(100)));
        assert_eq!(liveness.handle_time(5, at(41)), Pulse::Alive(at(100)));
        assert_eq!(liveness.handle_time(7, at(50)), Pulse::Alive(at(80)));
        assert_eq!(liveness.handle_time(7, at(90)), Pulse::Ask(at(140)));
        liveness.forgive(at(95));
        assert_eq!(liveness.handle_time(7, at(140)), Pulse::Ask(at(185)));
        assert_eq!(liveness.handle_time(7, at(185)), Pulse::Dead);
    }
}
