//! `/docs`: the document of `/openapi.json` as a page for people.
//!
//! It asks nobody but this server, holds no token and calls no method: its policy forbids whatever else a page could do.

use axum::Router;
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

/// Scripts, styles and the document, all of this server; in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The page and what it is made of.
pub fn router() -> Router {
    let part = |kind: &'static str, text: &'static str| {
        let headers = [
            (CONTENT_TYPE, kind),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CACHE_CONTROL, "no-cache"),
        ];
        get(move || async move { (headers, text) })
    };
    Router::new()
        .route("/docs", part("text/html; charset=utf-8", include_str!("docs_page/page.html")))
        .route("/docs/page.js", part("text/javascript; charset=utf-8", include_str!("docs_page/page.js")))
        .route("/docs/page.css", part("text/css; charset=utf-8", include_str!("docs_page/page.css")))
}
