//! Our WebSocket against tungstenite's, in both roles.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use std::net::SocketAddr;

use exec_transport::{
    AcceptPolicy, ConnectOptions, Connection, Error, Limits, WsAuth, accept, connect_websocket,
};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};

const MIB: usize = 1 << 20;

type Other = WebSocketStream<TcpStream>;

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Our server and tungstenite's client.
async fn ours_as_server(limits: Limits) -> (Connection, Other) {
    let (listener, address) = listener().await;
    let policy = AcceptPolicy { limits, ..AcceptPolicy::for_listener(address, WsAuth::None) };
    let (server, client) = tokio::join!(
        async {
            let (stream, peer) = listener.accept().await.unwrap();
            accept(stream, peer, &policy).await.unwrap().unwrap()
        },
        async {
            let stream = TcpStream::connect(address).await.unwrap();
            tokio_tungstenite::client_async(format!("ws://{address}/?q"), stream).await.unwrap().0
        }
    );
    (server, client)
}

/// Our client and tungstenite's server.
async fn ours_as_client(limits: Limits) -> (Connection, Other) {
    let (listener, address) = listener().await;
    let options = ConnectOptions { limits, ..ConnectOptions::default() };
    let url = format!("ws://{address}");
    let (client, server) = tokio::join!(connect_websocket(&url, &options), async {
        let (stream, _) = listener.accept().await.unwrap();
        tokio_tungstenite::accept_async(stream).await.unwrap()
    });
    (client.unwrap(), server)
}

async fn pairs() -> [(Connection, Other); 2] {
    [ours_as_server(Limits::default()).await, ours_as_client(Limits::default()).await]
}

fn text(len: usize) -> String {
    (0..len).map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap())).collect()
}

fn fragment(opcode: OpCode, bytes: &[u8], last: bool) -> Message {
    Message::Frame(Frame::message(bytes.to_vec(), opcode, last))
}

/// The next data message that the other side sees.
async fn other_receives(other: &mut Other) -> Message {
    loop {
        let message = other.next().await.unwrap().unwrap();
        if !message.is_ping() && !message.is_pong() {
            return message;
        }
    }
}

#[tokio::test]
async fn messages_of_every_length_class_cross_both_ways() {
    for (mut ours, mut other) in pairs().await {
        for len in [0, 1, 125, 126, 127, 65_535, 65_536, 300_000] {
            let text = text(len);
            ours.send(text.as_bytes()).unwrap();
            let (flushed, received) = tokio::join!(ours.flush(), other_receives(&mut other));
            flushed.unwrap();
            assert_eq!(received, Message::text(text.as_str()));

            let message = match len % 2 {
                0 => Message::text(text.as_str()),
                _ => Message::binary(text.clone().into_bytes()),
            };
            let (sent, received) = tokio::join!(other.send(message), ours.next_message());
            sent.unwrap();
            assert_eq!(received.unwrap().unwrap(), text.into_bytes());
        }
    }
}

#[tokio::test]
async fn messages_of_20_mib_cross_in_fragments() {
    for (mut ours, mut other) in pairs().await {
        let text = text(20 * MIB);
        ours.send(text.as_bytes()).unwrap();
        let (flushed, received) = tokio::join!(ours.flush(), other_receives(&mut other));
        flushed.unwrap();
        assert!(received == Message::text(text.as_str()));

        let sending = async {
            let pieces = text.as_bytes().chunks(4 * MIB);
            let count = pieces.len();
            for (index, piece) in pieces.enumerate() {
                let opcode = if index == 0 { Data::Text } else { Data::Continue };
                other
                    .send(fragment(OpCode::Data(opcode), piece, index + 1 == count))
                    .await
                    .unwrap();
            }
        };
        let ((), received) = tokio::join!(sending, ours.next_message());
        assert!(received.unwrap().unwrap() == text.as_bytes());
    }
}

#[tokio::test]
async fn a_ping_in_the_middle_of_a_message_is_answered() {
    for (mut ours, mut other) in pairs().await {
        other.send(fragment(OpCode::Data(Data::Text), b"hel", false)).await.unwrap();
        other.send(Message::Ping(b"payload".to_vec().into())).await.unwrap();
        other.send(Message::Pong(b"unasked".to_vec().into())).await.unwrap();
        let (pong, received) = tokio::join!(
            async {
                let pong = other.next().await.unwrap().unwrap();
                other.send(fragment(OpCode::Data(Data::Continue), b"lo", true)).await.unwrap();
                pong
            },
            ours.next_message()
        );
        assert_eq!(pong, Message::Pong(b"payload".to_vec().into()));
        assert_eq!(received.unwrap().unwrap(), b"hello");
    }
}

#[tokio::test]
async fn our_ping_is_answered_and_counts_as_life() {
    for (mut ours, mut other) in pairs().await {
        let before = ours.bytes_received();
        ours.ping();
        ours.flush().await.unwrap();
        assert_eq!(other.next().await.unwrap().unwrap(), Message::Ping(Vec::new().into()));
        other.send(Message::text("after")).await.unwrap();
        assert_eq!(ours.next_message().await.unwrap().unwrap(), b"after");
        assert!(ours.bytes_received() > before + 7, "the pong was counted");
    }
}

#[tokio::test]
async fn the_other_sides_close_is_completed() {
    for (mut ours, mut other) in pairs().await {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "bye".into() };
        other.close(Some(frame)).await.unwrap();
        assert_eq!(ours.next_message().await.unwrap(), None);
        ours.close().await;
        match other.next().await {
            Some(Ok(Message::Close(Some(frame)))) => assert_eq!(frame.code, CloseCode::Normal),
            other => panic!("{other:?}"),
        }
        assert!(other.next().await.is_none(), "a clean end");
    }
}

#[tokio::test]
async fn our_close_is_completed() {
    for (mut ours, mut other) in pairs().await {
        ours.start_close();
        ours.flush().await.unwrap();
        assert!(matches!(other.next().await, Some(Ok(Message::Close(Some(_))))));
        let (end, ()) = tokio::join!(other.next(), async {
            assert_eq!(ours.next_message().await.unwrap(), None);
            ours.close().await;
        });
        assert!(end.is_none(), "a clean end: {end:?}");
    }
}

#[tokio::test]
async fn frames_and_messages_over_the_limit_end_the_connection() {
    let limits = Limits { frame_bytes_max: 100, message_bytes_max: 150, send_fragment_bytes: 50 };
    for pair in [ours_as_server(limits).await, ours_as_client(limits).await] {
        let (mut ours, mut other) = pair;
        other.send(Message::text(text(100))).await.unwrap();
        assert_eq!(ours.next_message().await.unwrap().unwrap().len(), 100);
        other.send(Message::text(text(101))).await.unwrap();
        let error = ours.next_message().await.unwrap_err();
        assert!(matches!(error, Error::FrameTooLarge { len: 101, max: 100 }), "{error}");
        drop(ours);
        let end = other.next().await;
        assert!(!matches!(end, Some(Ok(Message::Close(_)))), "no close frame: {end:?}");
    }
    let (mut ours, mut other) = ours_as_server(limits).await;
    other.send(fragment(OpCode::Data(Data::Text), &[b'x'; 80], false)).await.unwrap();
    other.send(fragment(OpCode::Data(Data::Continue), &[b'x'; 71], true)).await.unwrap();
    let error = ours.next_message().await.unwrap_err();
    assert!(matches!(error, Error::MessageTooLarge { len: 151, max: 150 }), "{error}");
}

#[tokio::test]
async fn many_small_messages_keep_their_order() {
    for (mut ours, mut other) in pairs().await {
        let count = 5_000;
        let echo = async {
            for _ in 0..count {
                let message = other_receives(&mut other).await;
                other.feed(message).await.unwrap();
            }
            other.flush().await.unwrap();
        };
        let talk = async {
            for number in 0..count {
                ours.send(number.to_string().as_bytes()).unwrap();
            }
            for number in 0..count {
                let message = ours.next_message().await.unwrap().unwrap();
                assert_eq!(message, number.to_string().into_bytes());
            }
        };
        tokio::join!(echo, talk);
    }
}
