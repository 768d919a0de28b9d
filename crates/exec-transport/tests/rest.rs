//! What a connection costs while nothing happens, measured at the allocator.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::poll_fn;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::task::Poll;

use exec_transport::{AcceptPolicy, ConnectOptions, Connection, WsAuth, accept, connect_websocket};
use tokio::net::TcpListener;

static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, and it is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and it is passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Lets a connection notice that there is nothing to do.
async fn rest(connection: &mut Connection) {
    connection.flush().await.unwrap();
    poll_fn(|cx| {
        assert!(connection.poll_message(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[tokio::test]
async fn a_connection_at_rest_costs_less_than_8_kib() {
    const PAIRS: usize = 50;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let policy = AcceptPolicy::for_listener(address, WsAuth::None);
    let (url, options) = (format!("ws://{address}"), ConnectOptions::default());
    let mut pairs: Vec<(Connection, Connection)> = Vec::new();
    let mut before = 0;
    for number in 0..=PAIRS {
        let (server, client) = tokio::join!(
            async {
                let (stream, peer) = listener.accept().await.unwrap();
                accept(stream, peer, &policy).await.unwrap().unwrap()
            },
            async { connect_websocket(&url, &options).await.unwrap() }
        );
        let (mut server, mut client) = (server, client);
        let message = vec![b'x'; 100_000];
        for _ in 0..3 {
            client.send(&message).unwrap();
            client.send(b"small").unwrap();
            let (flushed, received) = tokio::join!(client.flush(), server.next_message());
            flushed.unwrap();
            server.send(&received.unwrap().unwrap()).unwrap();
            assert_eq!(server.next_message().await.unwrap().unwrap(), b"small");
            let (flushed, received) = tokio::join!(server.flush(), client.next_message());
            flushed.unwrap();
            assert_eq!(received.unwrap().unwrap().len(), message.len());
        }
        drop(message);
        rest(&mut server).await;
        rest(&mut client).await;
        pairs.push((server, client));
        if number == 0 {
            // The first one paid for what all of them share.
            before = LIVE.load(Ordering::Relaxed);
        }
    }
    let each = (LIVE.load(Ordering::Relaxed) - before) / (2 * PAIRS).cast_signed();
    println!("{each} bytes for each connection at rest");
    assert!(each < 8 * 1024, "{each} bytes");
}
