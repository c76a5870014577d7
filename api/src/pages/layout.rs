//! The frame of every page, and the headers that it is served with.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::{
    assets::{CONTENT_SECURITY_POLICY, SCRIPT_PATH, STYLE},
    texts::text,
};
use crate::docs::html::escape;

/// Windows that open a page, or that it opens, get no hold of it where they are of another origin.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A page. What it holds is HTML: whoever makes it has escaped what comes from outside.
pub(crate) struct Page {
    title: String,
    main: String,
    /// What the script is to do with it: the kind of the page and the id of what it shows.
    subject: Option<(&'static str, String)>,
    refresh_seconds: Option<u32>,
}

impl Page {
    /// A page with this title, which is text, and this content, which is HTML.
    pub(crate) fn new(title: &str, main: String) -> Self {
        Self { title: title.to_owned(), main, subject: None, refresh_seconds: None }
    }

    /// The page with a script that brings it to life.
    pub(super) fn of_kind(self, kind: &'static str) -> Self {
        self.about(kind, "")
    }

    /// The page with a script that shows what happens to the payment, or the quote-request, of this id.
    pub(crate) fn about(self, kind: &'static str, id: &str) -> Self {
        Self { subject: Some((kind, id.to_owned())), ..self }
    }

    /// The page, loaded again so often where no script runs.
    pub(crate) fn refreshed(self, seconds: u32) -> Self {
        Self { refresh_seconds: Some(seconds), ..self }
    }

    fn html(&self) -> String {
        let (attributes, script) = match &self.subject {
            Some((kind, id)) => (
                format!(" data-page=\"{kind}\" data-id=\"{}\"", escape(id)),
                format!("<script src=\"{SCRIPT_PATH}\" defer></script>\n"),
            ),
            None => (String::new(), String::new()),
        };
        let refresh = self.refresh_seconds.map_or_else(String::new, |seconds| {
            format!("<noscript><meta http-equiv=\"refresh\" content=\"{seconds}\"></noscript>\n")
        });
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{STYLE}</style>\n{refresh}{script}\
             </head>\n<body{attributes}>\n<a class=\"skip\" href=\"#main\">{}</a>\n<header class=\"bar\"><a href=\"/\">{}</a>\
             </header>\n<main id=\"main\">{}</main>\n</body>\n</html>\n",
            escape(&self.title),
            escape(text("app.skip")),
            escape(text("app.name")),
            self.main,
        )
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY.clone()),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (OPENER_POLICY, HeaderValue::from_static("same-origin")),
            // A payment's page is another one a second later.
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        (headers, self.html()).into_response()
    }
}
