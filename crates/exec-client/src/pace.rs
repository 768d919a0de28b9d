//! The clock of one connection: is the server still there, and for how long has a full process kept
//! others waiting?

use std::time::Duration;

use exec_transport::Connection;
use tokio::time::Instant;

use crate::ExecServerClientConnectOptions;
use crate::limits::STALL_PING;
use crate::recovery::{Liveness, Pulse};
use crate::router::Router;

/// Looked at again after this time when nothing else is due.
const FAR: Duration = Duration::from_secs(3600);

pub(crate) struct Pace {
    /// `None` where there are no pings.
    liveness: Option<Liveness>,
    look_at: Instant,
    stall_limit: Duration,
    /// Reading stopped because a handle does not take its events.
    stalled: bool,
    /// Since when somebody else waits for that.
    others_since: Option<Instant>,
    ping_at: Instant,
}

impl Pace {
    pub(crate) fn new(options: &ExecServerClientConnectOptions, connection: &Connection) -> Self {
        let now = Instant::now();
        let limit = options.silence_limit.filter(|_| connection.supports_ping());
        Self {
            liveness: limit.map(|limit| Liveness::new(limit, now.into_std())),
            look_at: now,
            stall_limit: options.stall_limit,
            stalled: false,
            others_since: None,
            ping_at: now,
        }
    }

    /// When [`Pace::handle_tick`] is due.
    pub(crate) fn next_tick(&mut self, router: &Router, now: Instant) -> Instant {
        let was_stalled = std::mem::replace(&mut self.stalled, router.is_stalled());
        if !self.stalled {
            if was_stalled {
                self.others_since = None;
                self.look_at = now;
                if let Some(liveness) = &mut self.liveness {
                    liveness.forgive(now.into_std());
                }
            }
            return if self.liveness.is_some() { self.look_at } else { now + FAR };
        }
        if !was_stalled {
            self.ping_at = now + STALL_PING;
        }
        if !router.others_wait() {
            self.others_since = None;
            return self.ping_at;
        }
        let since = *self.others_since.get_or_insert(now);
        self.ping_at.min(since + self.stall_limit)
    }

    /// # Errors
    /// When the server has been silent for too long.
    pub(crate) fn handle_tick(
        &mut self,
        router: &mut Router,
        connection: &mut Connection,
        now: Instant,
    ) -> Result<(), String> {
        if self.stalled {
            if self.others_since.is_some_and(|since| now >= since + self.stall_limit) {
                tracing::debug!("events are not taken: skipping output");
                router.skip_full();
            }
            if now >= self.ping_at {
                // Nothing is read, so pings go unanswered; this shows that we are here.
                connection.ping();
                self.ping_at = now + STALL_PING;
            }
            return Ok(());
        }
        let Some(liveness) = &mut self.liveness else { return Ok(()) };
        match liveness.handle_time(connection.bytes_received(), now.into_std()) {
            Pulse::Alive(at) => self.look_at = Instant::from_std(at),
            Pulse::Ask(at) => {
                connection.ping();
                self.look_at = Instant::from_std(at);
            }
            Pulse::Dead => return Err("server is silent".to_owned()),
        }
        Ok(())
    }
}
