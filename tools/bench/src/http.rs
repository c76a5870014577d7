//! An HTTP/1.1 connection that costs the machine little: it shares its cores with what is measured.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// A kept-alive connection to a gateway on loopback.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    _driver: AbortOnDropHandle<()>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn open(port: u16) -> Result<Self> {
        let address = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its end is seen by whoever sends next.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, host: HeaderValue::try_from(address)?, _driver: AbortOnDropHandle::new(driver) })
    }

    /// So many connections.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn several(port: u16, count: usize) -> Result<Vec<Self>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Self::open(port).await?);
        }
        Ok(connections)
    }

    /// Submits a payment and does not wait for its outcome.
    ///
    /// # Errors
    /// When no answer comes back.
    pub async fn submit(&mut self, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let request = Request::post("/v1/payments")
            .header(HOST, self.host.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header("prefer", HeaderValue::from_static("wait=0"))
            .body(Full::new(body))?;
        let response = self.send(request).await?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }

    /// Reads `path`.
    ///
    /// # Errors
    /// When no answer comes back.
    pub async fn get(&mut self, path: &str) -> Result<(StatusCode, Bytes)> {
        let response = self.follow(path).await?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }

    /// Reads `path` as whoever has `token`.
    ///
    /// # Errors
    /// When no answer comes back.
    pub async fn get_as(&mut self, path: &str, token: &str) -> Result<(StatusCode, Bytes)> {
        let request =
            Request::get(path).header(HOST, self.host.clone()).header(AUTHORIZATION, format!("Bearer {token}"));
        let response = self.send(request.body(Full::default())?).await?;
        Ok((response.status(), response.into_body().collect().await?.to_bytes()))
    }

    /// Opens `path`, whose body may be a stream without an end.
    ///
    /// # Errors
    /// When no answer comes back.
    pub async fn follow(&mut self, path: &str) -> Result<Response<Incoming>> {
        let request = Request::get(path).header(HOST, self.host.clone()).body(Full::default())?;
        self.send(request).await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        self.sender.ready().await.context("the connection was closed")?;
        self.sender.send_request(request).await.context("no answer")
    }
}
