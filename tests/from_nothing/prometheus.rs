//! A Prometheus as operators run it: it scrapes the roles, and is asked what it saw.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use reqwest::Client;
use serde_json::Value;
use tokio::process::Command;
use url::Url;

use devkit::{Process, free_port, tools};

use super::PATIENCE;

/// A running Prometheus.
pub struct Prometheus {
    port: u16,
    _process: Process,
}

impl Prometheus {
    /// Scrapes these roles every second, at these ports, and evaluates the alerts of `deploy/`.
    pub async fn start(directory: &Path, roles: &[(&str, u16)]) -> Result<Self> {
        let port = free_port()?;
        let rules = tools::root().join("deploy/prometheus/gateway.rules.yml");
        let mut config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: [{:?}]\nscrape_configs:\n",
            rules.display().to_string()
        );
        for (role, port) in roles {
            config += &format!("  - job_name: {role}\n    static_configs: [{{targets: [\"127.0.0.1:{port}\"]}}]\n");
        }
        let file = directory.join("prometheus.yml");
        fs::write(&file, config)?;
        let program = tools::root().join(".tools/bin/prometheus");
        let mut command = Command::new(&program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("prometheus").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let mut process = Process::spawn("prometheus", &mut command, &directory.join("prometheus.log"))
            .with_context(|| format!("{}: run scripts/tools.sh deploy", program.display()))?;
        process.listening_on(port).await?;
        Ok(Self { port, _process: process })
    }

    /// What an expression is now; `None` where there is no such series.
    async fn ask(&self, expression: &str) -> Result<Option<f64>> {
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let url = Url::parse_with_params(&url, [("query", expression)])?;
        let answer: Value = Client::new().get(url).send().await?.json().await?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        value.map(|value| value.parse().with_context(|| format!("{expression} is {value}"))).transpose()
    }

    /// Waits until an expression is `value`.
    pub async fn sees(&self, expression: &str, value: f64) -> Result<()> {
        let mut last = None;
        let seen = async {
            loop {
                // It answers 503 until it is ready.
                last = self.ask(expression).await.ok().flatten();
                if last == Some(value) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        seen.with_context(|| format!("{expression} is {last:?}, and not {value}"))
    }
}
