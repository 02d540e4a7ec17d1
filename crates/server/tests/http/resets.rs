//! HTTP/2 streams that are opened and reset at once, by the thousand (CVE-2023-44487): frames as an attacker writes them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::lab::Lab;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How many streams an attacker would like.
const STREAMS: u32 = 20_000;
/// What a server calls it.
const ENHANCE_YOUR_CALM: u32 = 0xb;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

/// `GET` of the address, as HPACK with literals.
fn head(address: &str) -> Vec<u8> {
    let path = b"/api/v1/runs";
    // :method GET and :scheme http stand in the table; :path and :authority are names of it with values of ours.
    let mut head = vec![0x82, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    head.extend(path);
    head.extend([0x01, u8::try_from(address.len()).unwrap()]);
    head.extend(address.as_bytes());
    head
}

/// The frames of an answer: their kinds and bodies.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        let Some(body) = bytes.get(9..9 + length) else { break };
        frames.push((bytes[3], body.to_vec()));
        bytes = &bytes[9 + length..];
    }
    frames
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_opens_and_resets_streams_by_the_thousand_is_sent_away_and_others_are_answered() {
    let lab = Lab::open().await;
    let address = lab.url.trim_start_matches("http://").to_owned();

    // One that asks and waits is answered: these are frames that a server takes.
    let mut calm = TcpStream::connect(&address).await.unwrap();
    let ask = [PREFACE, &frame(SETTINGS, 0, 0, b""), &frame(HEADERS, 0x5, 1, &head(&address))].concat();
    calm.write_all(&ask).await.unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while !frames(&answer).iter().any(|(kind, _)| *kind == HEADERS) {
        let read = calm.read(&mut part).await.unwrap();
        assert!(read > 0, "it was sent away: {:?}", frames(&answer));
        answer.extend(&part[..read]);
    }

    let socket = TcpStream::connect(&address).await.unwrap();
    let (mut from, mut to) = socket.into_split();
    let attack = tokio::spawn(async move {
        let mut out = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
        for number in 0..STREAMS {
            let stream = 2 * number + 1;
            out.extend(frame(HEADERS, 0x5, stream, &head(&address)));
            out.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            if out.len() > 16 << 10 {
                if to.write_all(&out).await.is_err() {
                    return number;
                }
                out.clear();
            }
        }
        let _ = to.write_all(&out).await;
        STREAMS
    });
    let heard = tokio::spawn(async move {
        let mut answer = Vec::new();
        // It is closed, one way or the other.
        let _ = from.read_to_end(&mut answer).await;
        answer
    });
    for _ in 0..50 {
        assert_eq!(lab.get("/healthz").await.status, 200);
        assert_eq!(lab.get("/api/v1/runs").await.status, 200);
    }
    let (sent, heard) = (attack.await.unwrap(), heard.await.unwrap());
    let away = frames(&heard).into_iter().find(|(kind, _)| *kind == GOAWAY);
    let Some((_, away)) = away else { panic!("{sent} streams were opened, and nobody minded: {heard:?}") };
    assert_eq!(u32::from_be_bytes(away[4..8].try_into().unwrap()), ENHANCE_YOUR_CALM);
    assert_eq!(lab.get("/api/v1/runs").await.status, 200, "it goes on");
}
