//! The page behind every `docs_url`: each code of the table with what happened and what to do.

use app::error::Code;

use super::html::{inline, page};

/// The page. The anchor of a code is the code itself.
pub(super) fn render() -> String {
    let groups = [
        ("Answers", "Codes of an ErrorResponse, and of the answers of x402.", true),
        (
            "Payments that failed, settlers that declined",
            "Codes of the `error` of a payment and of a `decline_summary`; they never answer a request themselves.",
            false,
        ),
    ];
    let mut nav = String::from("<a class=\"home\" href=\"/docs\">API reference</a><h2>Errors</h2>");
    let mut main = String::from(
        "<header><h1>Errors</h1><p>Branch on <code>code</code>; <code>message</code> is for humans and may be \
         reworded. <code>retry_classification</code> says what to do next. <code>request_id_reusable</code> is decided \
         anew for each answer: <code>true</code> where no payment exists under the <code>request_id</code>, \
         <code>false</code> where one does, and left out where neither is known.</p></header>",
    );
    for (title, description, answers) in groups {
        nav.push_str(&format!("<h3>{title}</h3><ul>"));
        main.push_str(&format!("<h2>{title}</h2><p>{}</p>", inline(description)));
        for code in Code::ALL.iter().copied().filter(|code| code.status.is_some() == answers) {
            nav.push_str(&format!("<li><a href=\"#{0}\">{0}</a></li>", code.code));
            main.push_str(&section(code));
        }
        nav.push_str("</ul>");
    }
    page("Errors of the payment gateway", &nav, &main)
}

fn section(code: &Code) -> String {
    let status = code.status.map_or_else(String::new, |status| {
        let class = if status.is_server_error() { "server" } else { "client" };
        format!("<span class=\"status {class}\">{}</span> ", status.as_u16())
    });
    let reusable = match code.request_id_reusable {
        Some(true) => "yes, where no payment exists under it",
        Some(false) => "no, the id is spent",
        None => "not said by this code",
    };
    format!(
        "<section class=\"card\" id=\"{name}\"><h3>{status}<a href=\"#{name}\">{name}</a></h3>\
         <p class=\"lead\">{message}</p>\
         <dl><dt>What happened</dt><dd>{explanation}</dd><dt>What to do</dt><dd>{remedy}</dd>\
         <dt>retry_classification</dt><dd><code>{retry}</code></dd><dt>Same request_id again</dt><dd>{reusable}</dd>\
         <dt>domain</dt><dd><code>{domain}</code></dd></dl></section>",
        name = code.code,
        message = inline(code.message),
        explanation = inline(code.explanation),
        remedy = inline(code.remedy),
        retry = name(&code.retry_classification),
        domain = name(&code.domain),
    )
}

/// The name that JSON has for a unit variant.
fn name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}
