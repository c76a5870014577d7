//! A TCP proxy in front of a server that loses answers.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// What happens to the acknowledgement of a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It vanishes, the connection stays.
    Swallow,
    /// The connection breaks in its place.
    Break,
}

/// The proxy; it ends with the runtime of the test.
pub struct Proxy {
    pub url: String,
    /// Which of the next acknowledgements are lost, the lowest bit first.
    armed: Arc<AtomicU32>,
    fired: Arc<AtomicBool>,
}

impl Proxy {
    pub async fn start(server: &str, loss: Loss) -> Self {
        let server = server.strip_prefix("nats://").unwrap().to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (armed, fired) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (arm, fire) = (armed.clone(), fired.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = upstream.into_split();
                tokio::spawn(pass(from_client, to_server));
                tokio::spawn(answers(from_server, to_client, arm.clone(), fire.clone(), loss));
            }
        });
        Self { url, armed, fired }
    }

    /// The next acknowledgement of a stored message is lost.
    pub fn arm(&self) {
        self.arm_for(1);
    }

    /// Of the next acknowledgements of a stored message those are lost whose bit is set, the lowest first.
    pub fn arm_for(&self, these: u32) {
        self.armed.store(these, Ordering::SeqCst);
    }

    /// Whether one was lost since, and none is left to lose.
    pub fn fired(&self) -> bool {
        self.fired.swap(false, Ordering::SeqCst) && self.armed.load(Ordering::SeqCst) == 0
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    armed: Arc<AtomicU32>,
    fired: Arc<AtomicBool>,
    loss: Loss,
) {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let chunk = &buffer[..read];
        let acknowledgement = String::from_utf8_lossy(chunk).contains(r#"{"stream":"#);
        // One connection acknowledges one thing at a time where this is used.
        let lost = acknowledgement
            && armed
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |these| Some(these >> 1))
                .is_ok_and(|these| these & 1 == 1);
        if lost {
            fired.store(true, Ordering::SeqCst);
            match loss {
                Loss::Swallow => continue,
                Loss::Break => return,
            }
        }
        if to.write_all(chunk).await.is_err() {
            return;
        }
    }
}
