//! A collector of OpenTelemetry traces (OTLP over HTTP) that keeps what it gets, or behaves badly.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use anyhow::Result;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
};
use prost::Message;
use tokio::{net::TcpListener, task::JoinHandle};

use trace::TraceParent;

/// How a collector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It takes what comes.
    Takes,
    /// With 500.
    Fails,
    /// Never.
    Hangs,
}

/// A span as it came.
#[derive(Debug, Clone)]
pub struct Exported {
    /// `gateway`, `settler` or `verifier`.
    pub service: String,
    /// Which process of these.
    pub instance: String,
    pub name: String,
    pub trace_id: Vec<u8>,
    pub span_id: Vec<u8>,
    /// Empty for a root.
    pub parent: Vec<u8>,
    /// Traces that it is linked to.
    pub links: Vec<Vec<u8>>,
    pub attributes: BTreeMap<String, String>,
}

struct Inner {
    manner: Manner,
    spans: Mutex<Vec<Exported>>,
    /// Requests that came, however they were answered.
    asked: Mutex<u64>,
}

/// A collector on loopback, until it is dropped.
pub struct Collector {
    inner: Arc<Inner>,
    address: String,
    serving: JoinHandle<()>,
}

impl Collector {
    pub async fn start(manner: Manner) -> Result<Self> {
        Self::start_at("127.0.0.1:0", manner).await
    }

    /// A collector at this address, `host:port`.
    pub async fn start_at(address: &str, manner: Manner) -> Result<Self> {
        let inner = Inner { manner, spans: Mutex::default(), asked: Mutex::default() };
        let inner = Arc::new(inner);
        let routes = Router::new().route("/v1/traces", post(take)).with_state(inner.clone());
        let listener = TcpListener::bind(address).await?;
        let address = format!("http://{}", listener.local_addr()?);
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Ok(Self { inner, address, serving })
    }

    /// What goes into `otlp_endpoint`.
    pub fn endpoint(&self) -> String {
        self.address.clone()
    }

    /// Is gone: connections are refused from now on.
    pub async fn stop(&self) {
        self.serving.abort();
        let gone =
            || async { tokio::net::TcpStream::connect(self.address.trim_start_matches("http://")).await.is_err() };
        super::eventually(gone).await.unwrap();
    }

    /// How many requests came.
    pub fn asked(&self) -> u64 {
        *self.inner.asked.lock().unwrap()
    }

    /// Every span so far.
    pub fn spans(&self) -> MutexGuard<'_, Vec<Exported>> {
        self.inner.spans.lock().unwrap()
    }

    /// The spans in the trace of a payment.
    pub fn of(&self, subject: &str) -> Vec<Exported> {
        let root = TraceParent::root_of(subject);
        self.spans().iter().filter(|span| span.trace_id == root.trace_id).cloned().collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Names of the spans of one service.
pub fn names<'a>(spans: &'a [Exported], service: &str) -> BTreeSet<&'a str> {
    spans.iter().filter(|span| span.service == service).map(|span| span.name.as_str()).collect()
}

async fn take(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> (StatusCode, Vec<u8>) {
    *inner.asked.lock().unwrap() += 1;
    match inner.manner {
        Manner::Fails => return (StatusCode::INTERNAL_SERVER_ERROR, Vec::new()),
        Manner::Hangs => std::future::pending().await,
        Manner::Takes => {}
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut spans = inner.spans.lock().unwrap();
    for resource_spans in request.resource_spans {
        let resource = attributes(resource_spans.resource.unwrap_or_default().attributes);
        for span in resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Exported {
                service: resource["service.name"].clone(),
                instance: resource["service.instance.id"].clone(),
                name: span.name,
                trace_id: span.trace_id,
                span_id: span.span_id,
                parent: span.parent_span_id,
                links: span.links.into_iter().map(|link| link.trace_id).collect(),
                attributes: attributes(span.attributes),
            });
        }
    }
    (StatusCode::OK, Vec::new())
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::StringValue(text) => text,
        other => format!("{other:?}"),
    };
    let values = attributes.into_iter().map(|attribute| {
        let value = attribute.value.and_then(|value| value.value);
        (attribute.key, value.map(text).unwrap_or_default())
    });
    values.collect()
}
