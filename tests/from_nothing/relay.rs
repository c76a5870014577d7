//! A relay of TCP connections: the address of a node that can be killed while the chain goes on.

use anyhow::Result;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Passes connections on until it is dropped, with all of them.
pub struct Relay {
    port: u16,
    task: JoinHandle<()>,
}

impl Relay {
    /// A relay to the node at `url`.
    pub async fn to(url: &str) -> Result<Self> {
        let node = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            // What is in it ends with it.
            let mut connections = JoinSet::new();
            while let Ok((mut caller, _)) = listener.accept().await {
                let node = node.clone();
                connections.spawn(async move {
                    if let Ok(mut node) = TcpStream::connect(&node).await {
                        // However it ends, the caller sees that it did.
                        let _ = tokio::io::copy_bidirectional(&mut caller, &mut node).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, task })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
