//! Tests of the router.

use exec_protocol::process::Stream;
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use super::*;
use crate::queue::QueueBounds;

struct Started {
    queue: Arc<EventQueue>,
    answer: oneshot::Receiver<Result<Box<str>, ExecServerError>>,
}

fn start(router: &mut Router, id: &str) -> Started {
    let bounds = QueueBounds { events: 100, bytes: 8 };
    let queue = Arc::new(EventQueue::new(bounds, Arc::new(Notify::new())));
    let (reply, answer) = oneshot::channel();
    let (id, params) = (id.into(), raw(&"start"));
    router.handle_command(Command::Start { id, params, queue: Arc::clone(&queue), reply });
    Started { queue, answer }
}

fn call(
    router: &mut Router,
    method: &'static str,
) -> oneshot::Receiver<Result<Box<str>, ExecServerError>> {
    let (reply, answer) = oneshot::channel();
    router.handle_command(Command::Call { method, params: raw(&()), reply });
    answer
}

/// What would be sent now: `id method params`.
fn sent(router: &mut Router) -> Vec<String> {
    std::iter::from_fn(|| router.poll_transmit())
        .map(|one| format!("{} {} {}", one.id, one.method, one.params))
        .collect()
}

fn receive(router: &mut Router, text: &str) {
    assert_eq!(router.handle_message(text.as_bytes()), Ok(None), "{text}");
}

fn output(id: &str, seq: u64, chunk: &str) -> String {
    format!(
        r#"{{"method":"process/output","params":{{"processId":"{id}","seq":{seq},"stream":"stdout","chunk":"{chunk}"}}}}"#
    )
}

fn taken(queue: &EventQueue) -> Option<ProcessEvent> {
    queue.next().now_or_never().flatten()
}

fn hi(seq: u64) -> Option<ProcessEvent> {
    Some(ProcessEvent::Output { seq, stream: Stream::Stdout, bytes: b"hi".to_vec() })
}

#[test]
fn events_before_the_answer_to_start_are_kept() {
    let mut router = Router::new();
    let mut started = start(&mut router, "p");
    assert_eq!(sent(&mut router), [r#"2 process/start "start""#]);
    receive(&mut router, &output("p", 1, "aGk="));
    receive(&mut router, r#"{"method":"no/such/thing","params":5}"#);
    receive(&mut router, &output("stranger", 1, "aGk="));
    receive(&mut router, r#"{"id":2,"result":{"processId":"p"}}"#);
    assert!(started.answer.try_recv().unwrap().is_ok());
    assert_eq!(taken(&started.queue), hi(1));
    // Without `sandboxDenied`, as from old servers.
    receive(
        &mut router,
        r#"{"method":"process/exited","params":{"processId":"p","seq":2,"exitCode":3}}"#,
    );
    receive(&mut router, r#"{"method":"process/closed","params":{"processId":"p","seq":3}}"#);
    let exited = ProcessEvent::Exited { code: 3, sandbox_denied: None };
    assert_eq!(taken(&started.queue), Some(exited));
    assert_eq!(taken(&started.queue), Some(ProcessEvent::Closed));
    assert!(router.processes.is_empty());
    assert!(sent(&mut router).is_empty(), "nothing was missing");
}

#[test]
fn a_server_that_asks_is_told_that_we_do_not_know() {
    let mut router = Router::new();
    let reply = router.handle_message(br#"{"id":0,"method":"network/policyRequest","params":{}}"#);
    let reply = String::from_utf8(reply.unwrap().unwrap()).unwrap();
    assert!(reply.contains("-32601") && reply.ends_with(r#""id":0}"#), "{reply}");
}

#[test]
fn a_known_notification_that_is_broken_cuts_the_connection() {
    let mut router = Router::new();
    let broken = br#"{"method":"process/closed","params":{"processId":"p"}}"#;
    let error = router.handle_message(broken).unwrap_err();
    assert_eq!(error, "process/closed: missing field `seq`");
    assert!(router.handle_message(b"[]").is_err());
}

#[test]
fn a_failed_start_frees_the_id() {
    let mut router = Router::new();
    let mut first = start(&mut router, "p");
    let mut second = start(&mut router, "p");
    let error = second.answer.try_recv().unwrap().unwrap_err();
    assert!(matches!(error, ExecServerError::Protocol(_)), "{error}");
    receive(&mut router, r#"{"id":2,"error":{"code":-32603,"message":"no such file"}}"#);
    assert_eq!(first.answer.try_recv().unwrap().unwrap_err().code(), Some(-32603));
    assert!(router.processes.is_empty());
}

#[test]
fn a_cut_repeats_what_is_harmless_and_undoes_a_start() {
    let mut router = Router::new();
    let mut running = start(&mut router, "p");
    assert_eq!(sent(&mut router).len(), 1);
    receive(&mut router, r#"{"id":2,"result":{"processId":"p"}}"#);
    let mut starting = start(&mut router, "q");
    let mut list = call(&mut router, "process/list");
    let mut signal = call(&mut router, "process/signal");
    assert_eq!(sent(&mut router).len(), 3);
    receive(&mut router, &output("p", 1, "aGk="));
    let mut unsent = start(&mut router, "r");

    router.handle_cut("reset");
    let lost = Err(ExecServerError::ConnectionLost("reset".into()));
    assert!(running.answer.try_recv().unwrap().is_ok());
    assert_eq!(starting.answer.try_recv().unwrap().map(drop), lost);
    assert_eq!(signal.try_recv().unwrap().map(drop), lost);
    assert_eq!(
        sent(&mut router),
        [
            r#"7 process/terminate {"processId":"q"}"#,
            r#"8 process/read {"processId":"p","afterSeq":1,"maxBytes":null,"waitMs":0}"#,
            "4 process/list null",
            r#"6 process/start "start""#,
        ]
    );
    receive(
        &mut router,
        r#"{"id":8,"result":{"chunks":[{"seq":2,"stream":"stdout","chunk":"aGk="}],"nextSeq":3,
            "exited":false,"exitCode":null,"closed":false,"failure":null}}"#,
    );
    assert_eq!(taken(&running.queue), hi(1));
    assert_eq!(taken(&running.queue), hi(2));
    receive(&mut router, r#"{"id":4,"result":{"processes":[]}}"#);
    assert!(list.try_recv().unwrap().is_ok());

    router.handle_loss("too late");
    let reason = LostReason::Connection("too late".into());
    assert_eq!(taken(&running.queue), Some(ProcessEvent::Lost(reason)));
    let lost = Err(ExecServerError::ConnectionLost("too late".into()));
    assert_eq!(unsent.answer.try_recv().unwrap().map(drop), lost);
}

#[test]
fn a_dropped_handle_ends_its_process_once_that_is_started() {
    let mut router = Router::new();
    let started = start(&mut router, "p");
    sent(&mut router);
    started.queue.leave(Taker::Dropped);
    router.handle_wake();
    assert!(sent(&mut router).is_empty(), "the start is not answered yet");
    receive(&mut router, r#"{"id":2,"result":{"processId":"p"}}"#);
    assert_eq!(sent(&mut router), [r#"3 process/terminate {"processId":"p"}"#]);

    let detached = start(&mut router, "q");
    sent(&mut router);
    receive(&mut router, r#"{"id":4,"result":{"processId":"q"}}"#);
    detached.queue.leave(Taker::Detached);
    router.handle_wake();
    assert!(sent(&mut router).is_empty());
    assert!(router.processes.is_empty());
}

#[test]
fn a_full_process_stalls_and_then_does_without() {
    let mut router = Router::new();
    let started = start(&mut router, "p");
    sent(&mut router);
    receive(&mut router, r#"{"id":2,"result":{"processId":"p"}}"#);
    for seq in 1..=4 {
        receive(&mut router, &output("p", seq, "aGk="));
    }
    assert!(router.is_stalled() && !router.others_wait());
    let _waiting = call(&mut router, "environment/status");
    assert!(router.others_wait());
    sent(&mut router);
    router.skip_full();
    assert!(!router.is_stalled());
    receive(&mut router, &output("p", 5, "aGk="));
    assert!(!router.is_stalled() && sent(&mut router).is_empty(), "left to the server");
    for seq in 1..=4 {
        assert_eq!(taken(&started.queue), hi(seq));
    }
    router.handle_wake();
    assert_eq!(
        sent(&mut router),
        [r#"4 process/read {"processId":"p","afterSeq":4,"maxBytes":null,"waitMs":0}"#]
    );
}

#[test]
fn one_request_too_many_is_refused() {
    let mut router = Router::new();
    let _waiting: Vec<_> = (0..IN_FLIGHT_MAX).map(|_| call(&mut router, "process/list")).collect();
    let refused = call(&mut router, "process/list").try_recv().unwrap();
    assert_eq!(refused.unwrap_err(), ExecServerError::TooManyRequests { max: IN_FLIGHT_MAX });
}
