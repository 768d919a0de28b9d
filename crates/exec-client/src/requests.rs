//! Requests that wait for their answers, and what becomes of them when the connection is cut.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use exec_protocol::id::ProcessId;
use exec_protocol::methods::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::ExecServerError;

/// Where an answer to a caller goes.
pub(crate) type ReplySender = oneshot::Sender<Result<Box<str>, ExecServerError>>;

/// What to do with a request whose answer was lost with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCut {
    /// Send it again: it has no effect, or its effect happens once however often it is asked for.
    Repeat,
    /// Tell the caller. Sending it again could do it twice.
    Fail,
}

impl OnCut {
    /// The rule for a method with these parameters. Whatever is not known to be harmless fails.
    pub(crate) fn of(method: &str, params: &RawValue) -> Self {
        match method {
            EnvironmentInfoGet::NAME
            | EnvironmentStatusGet::NAME
            | ProcessRead::NAME
            | ProcessWait::NAME
            | ProcessSnapshot::NAME
            | ProcessList::NAME
            | FsGetMetadata::NAME
            | ProcessTerminate::NAME
            | ProcessCloseStdin::NAME
            | ProcessResize::NAME => OnCut::Repeat,
            // These only look.
            FsReadFile::NAME
            | FsCanonicalize::NAME
            | FsReadDirectory::NAME
            | FsWalk::NAME
            | FsSearch::NAME
            | EnvironmentConfigRead::NAME
            | CapabilityRootsDiscover::NAME
            | CapabilitiesDiscover::NAME => OnCut::Repeat,
            // The whole content, so twice is as good as once.
            FsWriteFile::NAME => OnCut::Repeat,
            // These belong to the connection: asked again, they are made for the new one. What
            // is closed or unwatched is gone with the old one, and the server says so at most.
            FsClose::NAME | FsWatch::NAME | FsUnwatch::NAME | FsWatchMissing::NAME => OnCut::Repeat,
            // Nobody has used the handle yet. To empty a file a second time is another matter.
            FsOpen::NAME if !has_member(params, "mode", |mode| mode != "\"read\"") => OnCut::Repeat,
            // With parents it does not mind that the directory exists; without, it would.
            FsCreateDirectory::NAME if !has_member(params, "recursive", |it| it == "false") => {
                OnCut::Repeat
            }
            // Handles die with the connection (readBlock, writeBlock); a copy or a removal would
            // meet what came in between; a rename, its own result; a request to somebody else's
            // server may count.
            FsReadBlock::NAME
            | FsWriteBlock::NAME
            | FsCopy::NAME
            | FsRemove::NAME
            | FsRename::NAME
            | HttpRequest::NAME => OnCut::Fail,
            // Without an id the server cannot know that it has written it already.
            ProcessWrite::NAME if has_write_id(params) => OnCut::Repeat,
            _ => OnCut::Fail,
        }
    }
}

/// Whether the member is there and fits; its text is as it stands in the message.
fn has_member(params: &RawValue, name: &str, fits: impl Fn(&str) -> bool) -> bool {
    serde_json::from_str::<HashMap<String, &RawValue>>(params.get())
        .is_ok_and(|members| members.get(name).is_some_and(|value| fits(value.get())))
}

fn has_write_id(params: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Probe {
        write_id: Option<IgnoredAny>,
    }
    serde_json::from_str::<Probe>(params.get()).is_ok_and(|probe| probe.write_id.is_some())
}

/// Who waits for an answer.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A caller.
    Call(ReplySender),
    /// A caller that started a process.
    Start(ProcessId, ReplySender),
    /// The process whose missing events were asked for.
    Fetch(ProcessId),
    /// Nobody.
    Nobody,
}

/// A request and who waits for it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) params: Box<RawValue>,
    pub(crate) waiter: Waiter,
}

#[derive(Debug)]
struct Pending {
    method: &'static str,
    /// Kept while it may have to be sent (again).
    params: Option<Box<RawValue>>,
    on_cut: OnCut,
    waiter: Waiter,
}

/// What [`Requests::transmit`] gives: a request under its id.
#[derive(Debug)]
pub(crate) struct Transmit {
    pub(crate) id: i64,
    pub(crate) method: &'static str,
    pub(crate) params: Box<RawValue>,
}

/// Every request that has been made and not been answered, by id. Ids grow over all connections,
/// so their order is the order of the calls, also when they are sent again.
#[derive(Debug)]
pub(crate) struct Requests {
    in_flight_max: usize,
    next_id: i64,
    pending: BTreeMap<i64, Pending>,
    /// Sent before all others.
    urgent: VecDeque<i64>,
    unsent: BTreeSet<i64>,
}

impl Requests {
    pub(crate) fn new(in_flight_max: usize, first_id: i64) -> Self {
        Self {
            in_flight_max,
            next_id: first_id,
            pending: BTreeMap::new(),
            urgent: VecDeque::new(),
            unsent: BTreeSet::new(),
        }
    }

    /// Whether another caller's request would be one too many. The client's own, few for each
    /// process, are not counted out.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() >= self.in_flight_max
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a request, to be sent after those before it.
    pub(crate) fn add(&mut self, request: Request) {
        let id = self.insert(request);
        self.unsent.insert(id);
    }

    /// Adds a request, to be sent before a call that a server with sequential dispatch may be slow
    /// to answer.
    pub(crate) fn add_urgent(&mut self, request: Request) {
        let id = self.insert(request);
        self.urgent.push_back(id);
    }

    fn insert(&mut self, Request { method, params, waiter }: Request) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let on_cut = OnCut::of(method, &params);
        self.pending.insert(id, Pending { method, params: Some(params), on_cut, waiter });
        id
    }

    /// The next request to send: urgent ones, then in the order of the calls.
    pub(crate) fn transmit(&mut self) -> Option<Transmit> {
        while let Some(id) = self.urgent.pop_front().or_else(|| self.unsent.pop_first()) {
            let Some(pending) = self.pending.get_mut(&id) else { continue };
            let params = match pending.on_cut {
                OnCut::Repeat => pending.params.clone(),
                OnCut::Fail => pending.params.take(),
            };
            if let Some(params) = params {
                return Some(Transmit { id, method: pending.method, params });
            }
        }
        None
    }

    /// Whose answer this is. `None` for an id that was never used, or was answered before.
    pub(crate) fn answer(&mut self, id: i64) -> Option<Waiter> {
        self.unsent.remove(&id);
        self.pending.remove(&id).map(|pending| pending.waiter)
    }

    /// The connection is cut: gives the waiters of requests that are not sent again. The rest is
    /// sent again, and what was never sent is sent at last. Fetches are made anew by their process.
    pub(crate) fn handle_cut(&mut self) -> Vec<Waiter> {
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.extend(self.urgent.drain(..));
        let gone = |(id, pending): (&i64, &Pending)| {
            let lost = pending.on_cut == OnCut::Fail && !unsent.contains(id);
            (lost || matches!(pending.waiter, Waiter::Fetch(_))).then_some(*id)
        };
        let gone: Vec<i64> = self.pending.iter().filter_map(gone).collect();
        let waiters = gone.iter().filter_map(|id| self.answer(*id)).collect();
        self.unsent = self.pending.keys().copied().collect();
        waiters
    }

    /// Nothing will ever be answered: gives every waiter.
    pub(crate) fn handle_loss(&mut self) -> Vec<Waiter> {
        self.unsent.clear();
        self.urgent.clear();
        std::mem::take(&mut self.pending).into_values().map(|pending| pending.waiter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    fn check(method: &'static str, params: &str, expected: OnCut) {
        assert_eq!(OnCut::of(method, &raw(params)), expected, "{method} {params}");
    }

    #[test]
    fn only_what_is_harmless_is_sent_again() {
        check("process/start", "{}", OnCut::Fail);
        check("process/signal", "{}", OnCut::Fail);
        check("initialize", "{}", OnCut::Fail);
        check("fs/remove", "{}", OnCut::Fail);
        check("fs/writeFile", "{}", OnCut::Repeat);
        check("fs/open", r#"{"handleId":"a","path":"/x"}"#, OnCut::Repeat);
        check("fs/open", r#"{"handleId":"a","path":"/x","mode":"read"}"#, OnCut::Repeat);
        check("fs/open", r#"{"handleId":"a","path":"/x","mode":"replace"}"#, OnCut::Fail);
        check("fs/createDirectory", r#"{"path":"/x"}"#, OnCut::Repeat);
        check("fs/createDirectory", r#"{"path":"/x","recursive":false}"#, OnCut::Fail);
        check("fs/readBlock", "{}", OnCut::Fail);
        check("fs/rename", "{}", OnCut::Fail);
        check("http/request", "{}", OnCut::Fail);
        check("process/read", "{}", OnCut::Repeat);
        check("process/terminate", "{}", OnCut::Repeat);
        check("process/closeStdin", "{}", OnCut::Repeat);
        check("environment/status", "null", OnCut::Repeat);
        check("process/write", r#"{"processId":"p","chunk":"","writeId":"1"}"#, OnCut::Repeat);
        check("process/write", r#"{"processId":"p","chunk":""}"#, OnCut::Fail);
        check("process/write", r#"{"processId":"p","chunk":"","writeId":null}"#, OnCut::Fail);
    }

    fn sent(requests: &mut Requests) -> Vec<(i64, &'static str)> {
        std::iter::from_fn(|| requests.transmit()).map(|one| (one.id, one.method)).collect()
    }

    #[test]
    fn after_a_cut_the_harmless_are_sent_again_and_the_unsent_at_last() {
        let mut requests = Requests::new(8, 2);
        let add = |requests: &mut Requests, method, waiter| {
            requests.add(Request { method, params: raw(r#"{"writeId":"w"}"#), waiter });
        };
        let start = |id: &str| Waiter::Start(id.into(), oneshot::channel().0);
        add(&mut requests, "process/start", start("a"));
        add(&mut requests, "process/write", Waiter::Nobody);
        add(&mut requests, "process/read", Waiter::Fetch("a".into()));
        add(&mut requests, "process/read", Waiter::Nobody);
        let all = [(2, "process/start"), (3, "process/write"), (4, "process/read")];
        assert_eq!(sent(&mut requests)[..3], all);
        add(&mut requests, "process/start", start("b"));

        let gone = requests.handle_cut();
        assert_eq!(gone.len(), 2, "the start and the fetch: {gone:?}");
        assert!(matches!(&gone[0], Waiter::Start(id, _) if id.as_str() == "a"));
        assert!(matches!(&gone[1], Waiter::Fetch(_)));
        let again = [(3, "process/write"), (5, "process/read"), (6, "process/start")];
        assert_eq!(sent(&mut requests), again);
        assert!(sent(&mut requests).is_empty());

        requests.add_urgent(Request {
            method: "process/terminate",
            params: raw("{}"),
            waiter: Waiter::Nobody,
        });
        add(&mut requests, "process/list", Waiter::Nobody);
        assert_eq!(sent(&mut requests), [(7, "process/terminate"), (8, "process/list")]);

        assert!(requests.answer(2).is_none(), "it was given up");
        assert!(matches!(requests.answer(3), Some(Waiter::Nobody)));
        assert!(requests.answer(3).is_none(), "answered once");
        assert_eq!(requests.handle_loss().len(), 4);
        assert!(requests.is_empty());
    }
}
