//! One connection: what is asked goes one way, what is answered the other, each as the network is just then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::replies::{End, Replies};
use crate::{Counters, Manner};

/// How long a server that is asked gets to finish, before the connection breaks under its reply.
const FINISH: Duration = Duration::from_millis(100);
/// How long TCP waits at least before it sends a packet again.
const SEND_AGAIN: Duration = Duration::from_millis(200);
/// What a packet may hold, where the bytes of a second are counted.
const PACKET: usize = 1400;

pub(crate) async fn carry(
    client: TcpStream,
    server: (impl AsyncRead + Unpin + Send + 'static, impl AsyncWrite + Unpin + Send + 'static),
    told: watch::Receiver<Manner>,
    counters: Arc<Counters>,
) {
    let _ = client.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server;
    let status = Arc::new(AtomicU8::new(b'I'));

    // A line of replies, each with its time: a delay must not add up over many small ones.
    let (line, mut replies) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let (mut manner, counts) = (told.clone(), Arc::clone(&counters));
    let telling = tokio::spawn(async move {
        while let Some((at, bytes)) = replies.recv().await {
            sleep_until(at).await;
            if !pass(&mut to_client, &bytes, &mut manner, &counts).await {
                break;
            }
            counts.answered.store(true, Ordering::SeqCst);
        }
    });
    let end_telling = telling.abort_handle();

    let (mut manner, counts, known) = (told.clone(), Arc::clone(&counters), Arc::clone(&status));
    let asking = async move {
        let mut buffer = vec![0; 65536];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if counts.answered.swap(false, Ordering::SeqCst) {
                counts.trips.fetch_add(1, Ordering::SeqCst);
            }
            let Manner { request_delay, resets: share, .. } = *manner.borrow();
            if !request_delay.is_zero() {
                counts.delayed_requests.fetch_add(1, Ordering::SeqCst);
                sleep(request_delay).await;
            }
            if share > 0.0 && fastrand::f64() < share {
                let _ = to_server.write_all(&buffer[..length / 2]).await;
                counts.resets.fetch_add(1, Ordering::SeqCst);
                if known.load(Ordering::SeqCst) != b'I' {
                    counts.resets_in_transactions.fetch_add(1, Ordering::SeqCst);
                }
                end_telling.abort();
                // Not a last word but a reset.
                let _ = from_client.as_ref().set_zero_linger();
                return;
            }
            if !pass(&mut to_server, &buffer[..length], &mut manner, &counts).await {
                return;
            }
        }
    };
    let answering = async {
        let (mut buffer, mut heard) = (vec![0; 65536], Replies::default());
        let mut last = Instant::now();
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let manner = *told.borrow();
            if manner.loses_replies {
                counters.lost_replies.fetch_add(1, Ordering::SeqCst);
                sleep(FINISH).await;
                return;
            }
            for piece in heard.take(&buffer[..length], manner.lost_commits > 0.0) {
                status.store(heard.status, Ordering::SeqCst);
                if piece.end == Some(End::Commit) && fastrand::f64() < manner.lost_commits {
                    counters.lost_commits.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                let late =
                    manner.delay.as_secs_f64() + manner.jitter.as_secs_f64() * (2.0 * fastrand::f64() - 1.0);
                let late = Duration::from_secs_f64(late.max(0.0));
                if !late.is_zero() {
                    counters.delayed.fetch_add(1, Ordering::SeqCst);
                }
                last = last.max(Instant::now() + late);
                let _ = line.send((last, piece.bytes));
            }
        }
    };
    // Whichever side leaves, the other is told; replies that are under way still arrive.
    tokio::select! { () = asking => {}, () = answering => {} }
}

/// Hands bytes on, as the network is just now; false when nobody takes them.
async fn pass(
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    manner: &mut watch::Receiver<Manner>,
    counters: &Counters,
) -> bool {
    if manner.borrow().cut {
        counters.held.fetch_add(1, Ordering::SeqCst);
        // A proxy that is gone changes nothing any more: whoever is left goes through.
        if manner.wait_for(|manner| !manner.cut).await.is_err() {
            return false;
        }
    }
    let Manner { loss, bytes_per_second, .. } = *manner.borrow();
    let mut pause = SEND_AGAIN;
    while loss > 0.0 && fastrand::f64() < loss {
        counters.sent_again.fetch_add(1, Ordering::SeqCst);
        sleep(pause).await;
        pause *= 2;
    }
    match bytes_per_second {
        None => to.write_all(bytes).await.is_ok(),
        Some(most) => {
            for packet in bytes.chunks(PACKET) {
                counters.narrowed.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_secs_f64(packet.len() as f64 / f64::from(most))).await;
                if to.write_all(packet).await.is_err() {
                    return false;
                }
            }
            true
        }
    }
}
