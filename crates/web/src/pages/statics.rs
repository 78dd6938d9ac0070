//! `/static/…`: the style sheet, the script, the icon, the manifest, all inside the program. Never reads a file.

use std::sync::LazyLock;

use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use muster_core::secret::sha256_hex;

use super::refuse;

struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// With the hash of the content, so that a browser may keep it for ever.
    address: String,
}

static FILES: LazyLock<[File; 4]> = LazyLock::new(|| {
    [
        file("app.css", "text/css; charset=utf-8", include_bytes!("app.css")),
        file(
            "app.js",
            "text/javascript; charset=utf-8",
            include_bytes!("app.js"),
        ),
        file("icon.svg", "image/svg+xml", include_bytes!("icon.svg")),
        file(
            "manifest.webmanifest",
            "application/manifest+json",
            include_bytes!("manifest.webmanifest"),
        ),
    ]
});

fn file(name: &'static str, kind: &'static str, bytes: &'static [u8]) -> File {
    let hash: String = sha256_hex(bytes).chars().take(16).collect();
    File {
        name,
        kind,
        bytes,
        address: format!("/static/{name}?v={hash}"),
    }
}

/// Where pages find the file of this name.
pub(super) fn address(name: &str) -> &'static str {
    FILES
        .iter()
        .find(|file| file.name == name)
        .map_or("/static/missing", |file| file.address.as_str())
}

/// Answers a file; only under the hash of its present content is it kept.
pub(super) async fn serve(
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return refuse::not_found(&headers);
    };
    let current = query.is_some_and(|query| file.address.ends_with(&format!("?{query}")));
    let keep = if current {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    (
        [
            (CONTENT_TYPE, HeaderValue::from_static(file.kind)),
            (CACHE_CONTROL, HeaderValue::from_static(keep)),
        ],
        file.bytes,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[tokio::test]
    async fn a_file_is_kept_only_under_its_own_hash() {
        let cache = async |query: Option<&str>| {
            let response = serve(
                Path("app.css".to_owned()),
                RawQuery(query.map(str::to_owned)),
                HeaderMap::new(),
            )
            .await;
            response
                .headers()
                .get(CACHE_CONTROL)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let (_, query) = address("app.css").split_once('?').unwrap();
        assert!(cache(Some(query)).await.contains("immutable"));
        assert_eq!(cache(Some("v=0000000000000000")).await, "no-cache");
        assert_eq!(cache(None).await, "no-cache");
        let missing = serve(Path("../app.css".to_owned()), RawQuery(None), HeaderMap::new()).await;
        assert_eq!(missing.status(), http::StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_file_that_a_page_names_exists() {
        for name in ["app.css", "app.js", "icon.svg", "manifest.webmanifest"] {
            assert!(address(name).starts_with(&format!("/static/{name}?v=")));
        }
    }

    /// The colours of one scheme: `--name: #rrggbb;` lines.
    fn colours(block: &str) -> HashMap<String, [f64; 3]> {
        let part = |hex: &str, at: usize| {
            f64::from(u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap()) / 255.0
        };
        block
            .lines()
            .filter_map(|line| {
                line.trim()
                    .strip_prefix("--")?
                    .strip_suffix(';')?
                    .split_once(": #")
            })
            .map(|(name, hex)| (name.to_owned(), [part(hex, 0), part(hex, 2), part(hex, 4)]))
            .collect()
    }

    /// WCAG 2: relative luminance and contrast.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let luminance = |colour: [f64; 3]| {
            let [r, g, b] = colour.map(|part| {
                if part <= 0.040_45 {
                    part / 12.92
                } else {
                    ((part + 0.055) / 1.055).powf(2.4)
                }
            });
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_text_stands_out_from_its_ground_in_light_and_dark() {
        let css = include_str!("app.css");
        let (light, rest) = css.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let dark = rest.split_once("/* end of colours */").unwrap().0;
        let pairs = [
            ("text", "ground"),
            ("text", "surface"),
            ("text", "sunken"),
            ("quiet", "ground"),
            ("quiet", "surface"),
            ("quiet", "sunken"),
            ("accent", "ground"),
            ("accent", "surface"),
            ("accent", "accent-soft"),
            ("on-accent", "accent-fill"),
            ("danger", "surface"),
            ("danger", "ground"),
            ("danger", "danger-soft"),
            ("warn", "warn-soft"),
            ("text", "warn-soft"),
            ("warn", "surface"),
            ("good", "good-soft"),
            ("text", "outside"),
            ("quiet", "outside"),
            ("warn", "outside"),
            ("spelled", "sunken"),
        ];
        for (scheme, colours) in [("light", colours(light)), ("dark", colours(dark))] {
            for (text, ground) in pairs {
                let ratio = contrast(colours[text], colours[ground]);
                assert!(ratio >= 4.5, "{scheme}: {text} on {ground} has {ratio:.2}");
            }
            // The frame of a control and the ring of focus are no text: 3 is asked of them.
            for (line, ground) in [
                ("field-line", "surface"),
                ("field-line", "ground"),
                ("focus", "ground"),
                ("focus", "surface"),
            ] {
                let ratio = contrast(colours[line], colours[ground]);
                assert!(ratio >= 3.0, "{scheme}: {line} on {ground} has {ratio:.2}");
            }
        }
    }
}
