//! What has come over one connection and has not been asked for yet. Pure: messages in, messages
//! out.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Messages that no step has expected so far, events of a process in the order of their seqs.
pub(super) struct Inbox {
    unread: Vec<Value>,
    /// The next seq of each process. `None` after `process/closed`.
    next_seqs: HashMap<String, Option<u64>>,
    /// Events that overtook earlier ones of their process.
    early: Vec<Value>,
    rules: Rules,
}

/// What a server owes to this connection.
pub(super) struct Rules {
    /// Each process from its first event. Not so after a resume.
    pub(super) from_start: bool,
    /// Events on the wire in the order of their seqs. Our server does so; the reference, rarely,
    /// lets `process/exited` overtake output.
    pub(super) in_order: bool,
}

impl Inbox {
    pub(super) fn new(rules: Rules) -> Self {
        Self { unread: Vec::new(), next_seqs: HashMap::new(), early: Vec::new(), rules }
    }

    /// Takes a message in. Events have to be numbered from 1, without a gap, and nothing may follow
    /// `process/closed`.
    pub(super) fn admit(&mut self, message: Value) -> Result<()> {
        let params = &message["params"];
        let (Some(process), Some(seq)) = (params["processId"].as_str(), params["seq"].as_u64())
        else {
            self.unread.push(message);
            return Ok(());
        };
        let first = if self.rules.from_start { 1 } else { seq };
        let expected = self.next_seqs.get(process).copied().unwrap_or(Some(first));
        let expected = expected.with_context(|| format!("after process/closed: {message}"))?;
        if seq > expected && !self.rules.in_order {
            self.early.push(message);
            return Ok(());
        }
        ensure!(seq == expected, "expected seq {expected}: {message}");
        let next = (message["method"] != "process/closed").then_some(seq + 1);
        self.next_seqs.insert(process.to_owned(), next);
        let is_next = |early: &Value| {
            early["params"]["processId"] == process && early["params"]["seq"].as_u64() == next
        };
        let successor = self.early.iter().position(is_next);
        self.unread.push(message);
        match successor {
            Some(index) => {
                let successor = self.early.remove(index);
                self.admit(successor)
            }
            None => Ok(()),
        }
    }

    /// Puts a message back that was taken out to be looked at.
    pub(super) fn put_back(&mut self, message: Value) {
        self.unread.push(message);
    }

    /// Takes out the first message from `start` on that `chosen` accepts; otherwise says where to
    /// go on looking when more has come.
    pub(super) fn take(
        &mut self,
        start: usize,
        mut chosen: impl FnMut(&Value) -> bool,
    ) -> Result<Value, usize> {
        match self.unread.iter().skip(start).position(&mut chosen) {
            Some(index) => Ok(self.unread.remove(start + index)),
            None => Err(self.unread.len()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// Nothing may be left over but the doings of processes that no step asked about.
    pub(super) fn check_rest(&self) -> Result<()> {
        let is_event = |message: &Value| {
            message["method"].as_str().is_some_and(|method| method.starts_with("process/"))
        };
        if let Some(message) = self.unread.iter().find(|message| !is_event(message)) {
            bail!("unexpected message {message}");
        }
        match self.early.first() {
            Some(message) => bail!("a gap before {message}"),
            None => Ok(()),
        }
    }

    pub(super) fn describe(&self) -> String {
        let [unread, early] = [&self.unread, &self.early].map(|list| Value::from(list.clone()));
        format!("unread: {unread}; early: {early}")
    }
}

/// Which message a pattern is about.
pub(super) enum Kind {
    Answer(Value),
    /// A notification or a request of the server.
    Method {
        method: String,
        process: Option<String>,
    },
    Anything,
}

impl Kind {
    pub(super) fn of(pattern: &Value) -> Self {
        let literal =
            |value: &Value| value.as_str().filter(|text| !text.starts_with('$')).map(str::to_owned);
        match (literal(&pattern["method"]), &pattern["id"]) {
            (Some(method), _) => {
                Kind::Method { method, process: literal(&pattern["params"]["processId"]) }
            }
            (None, Value::String(id)) if id.starts_with('$') => Kind::Anything,
            (None, Value::Null) => Kind::Anything,
            (None, id) => Kind::Answer(id.clone()),
        }
    }

    pub(super) fn covers(&self, message: &Value) -> bool {
        match self {
            Kind::Answer(id) => message.get("method").is_none() && message["id"] == *id,
            Kind::Method { method, process } => {
                message["method"] == *method
                    && process
                        .as_ref()
                        .is_none_or(|process| message["params"]["processId"] == process.as_str())
            }
            Kind::Anything => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(method: &str, seq: u64) -> Value {
        json!({"method": method, "params": {"processId": "p", "seq": seq}})
    }

    /// The seqs that were let in, or why one was not.
    fn admitted(in_order: bool, from_start: bool, seqs: &[u64]) -> Result<Vec<u64>> {
        let mut inbox = Inbox::new(Rules { from_start, in_order });
        for seq in seqs {
            inbox.admit(event("process/output", *seq))?;
        }
        inbox.check_rest()?;
        Ok(inbox.unread.iter().filter_map(|event| event["params"]["seq"].as_u64()).collect())
    }

    #[test]
    fn events_are_numbered_without_gaps() {
        assert_eq!(admitted(true, true, &[1, 2, 3]).unwrap(), [1, 2, 3]);
        assert_eq!(admitted(true, false, &[7, 8]).unwrap(), [7, 8]);
        assert!(admitted(true, true, &[2]).is_err());
        assert!(admitted(true, true, &[1, 3, 2]).is_err());
        assert!(admitted(true, true, &[1, 1]).is_err());
    }

    #[test]
    fn the_reference_may_let_one_event_overtake_another() {
        assert_eq!(admitted(false, true, &[1, 4, 3, 2]).unwrap(), [1, 2, 3, 4]);
        assert!(admitted(false, true, &[1, 3]).is_err());
        assert!(admitted(false, true, &[1, 2, 2]).is_err());
    }

    #[test]
    fn nothing_follows_closed() {
        let mut inbox = Inbox::new(Rules { from_start: true, in_order: true });
        inbox.admit(event("process/closed", 1)).unwrap();
        assert!(inbox.admit(event("process/output", 2)).is_err());
    }
}
