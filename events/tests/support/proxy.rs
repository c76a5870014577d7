//! A TCP proxy in front of a server that loses one answer.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// What happens to the acknowledgement of the next publish.
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
    armed: Arc<AtomicBool>,
    fired: Arc<AtomicBool>,
}

impl Proxy {
    pub async fn start(server: &str, loss: Loss) -> Self {
        let server = server.strip_prefix("nats://").unwrap().to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("nats://{}", listener.local_addr().unwrap());
        let (armed, fired) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
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
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Whether one was lost since.
    pub fn fired(&self) -> bool {
        self.fired.swap(false, Ordering::SeqCst)
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    armed: Arc<AtomicBool>,
    fired: Arc<AtomicBool>,
    loss: Loss,
) {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let chunk = &buffer[..read];
        let acknowledgement = String::from_utf8_lossy(chunk).contains(r#"{"stream":"#);
        if acknowledgement && armed.swap(false, Ordering::SeqCst) {
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
