//! Where a redirect leads, and what may travel there.
//!
//! ```text
//!            method               body, its headers   credentials      referer
//! 301, 302   POST becomes GET     dropped with it     \
//! 303        all but HEAD: GET    dropped with it      } same origin:  the whole URL
//! 307, 308   stays                stays               /  else dropped  the origin only
//! ```

use hyper::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName,
    HeaderValue, LOCATION, PROXY_AUTHORIZATION, REFERER, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use hyper::{Method, StatusCode};
use url::Url;

use crate::error::Error;
use crate::request::Hop;

/// Never sent to another origin than the one they were meant for.
static CREDENTIALS: [HeaderName; 5] = [
    AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("cookie2"),
    PROXY_AUTHORIZATION,
    WWW_AUTHENTICATE,
];

/// Say something of a body, and mean nothing without it.
static OF_BODY: [HeaderName; 4] =
    [TRANSFER_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, CONTENT_LENGTH];

/// Turns the hop into the next one. `false` when the response is no redirect that can be followed,
/// and so is the answer; then nothing is changed.
pub(crate) fn follow(
    hop: &mut Hop,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<bool, Error> {
    let becomes_get = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => hop.method == Method::POST,
        StatusCode::SEE_OTHER => hop.method != Method::HEAD,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => false,
        _ => return Ok(false),
    };
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(mut next) = location.and_then(|location| hop.url.join(location).ok()) else {
        return Ok(false);
    };
    if !matches!(next.scheme(), "http" | "https") {
        return Err(Error::RedirectScheme(next.scheme().to_owned()));
    }
    // Whoever redirects does not choose the credentials. An `http:` URL always has a host, so
    // these cannot fail.
    next.set_username("").ok();
    next.set_password(None).ok();

    if becomes_get {
        hop.method = Method::GET;
        hop.body.clear();
        remove(&mut hop.headers, &OF_BODY);
    }
    if next.origin() != hop.url.origin() {
        remove(&mut hop.headers, &CREDENTIALS);
    }
    match referer(&hop.url, &next) {
        Some(referer) => drop(hop.headers.insert(REFERER, referer)),
        None => drop(hop.headers.remove(REFERER)),
    }
    hop.url = next;
    Ok(true)
}

fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// None where the next hop is less protected than the last.
fn referer(last: &Url, next: &Url) -> Option<HeaderValue> {
    if last.scheme() == "https" && next.scheme() == "http" {
        return None;
    }
    let mut referer = last.clone();
    referer.set_fragment(None);
    if last.origin() != next.origin() {
        referer.set_path("/");
        referer.set_query(None);
    }
    HeaderValue::from_str(referer.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    fn hop(method: &str, url: &str, headers: &[(&'static str, &'static str)]) -> Hop {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Hop {
            method: Method::from_bytes(method.as_bytes()).unwrap(),
            url: Url::parse(url).unwrap(),
            headers: headers.collect(),
            body: Bytes::from_static(b"hi"),
        }
    }

    fn redirect(hop: &mut Hop, status: u16, location: &[u8]) -> Result<bool, Error> {
        let headers = [(LOCATION, HeaderValue::from_bytes(location).unwrap())];
        follow(hop, StatusCode::from_u16(status).unwrap(), &headers.into_iter().collect())
    }

    #[test]
    fn the_status_decides_the_method() {
        let check = |status: u16, method: &str, expected: &str| {
            let headers = [("content-type", "t/t"), ("x-k", "k")];
            let mut hop = hop(method, "http://h/a", &headers);
            assert!(redirect(&mut hop, status, b"/b").unwrap());
            assert_eq!(hop.method.as_str(), expected, "{status} {method}");
            // A body that is kept keeps its headers; 303 drops even that of a GET.
            let kept = expected == method && (status, method) != (303, "GET");
            assert_eq!(hop.body.is_empty(), !kept, "{status} {method}");
            assert_eq!(hop.headers.contains_key(CONTENT_TYPE), kept);
            assert!(hop.headers.contains_key("x-k"));
        };
        for (status, method, expected) in [
            (301, "GET", "GET"),
            (302, "POST", "GET"),
            (302, "post", "post"),
            (302, "PUT", "PUT"),
            (303, "GET", "GET"),
            (303, "DELETE", "GET"),
            (303, "HEAD", "HEAD"),
            (307, "POST", "POST"),
            (308, "PUT", "PUT"),
        ] {
            check(status, method, expected);
        }
    }

    #[test]
    fn what_cannot_be_followed_is_the_answer() {
        for status in [200, 300, 304, 305, 306, 404] {
            assert!(!redirect(&mut hop("GET", "http://h/", &[]), status, b"/b").unwrap());
        }
        for location in [&b"http://["[..], b"/\xe9", b"/\xc3\xa9"] {
            assert!(!redirect(&mut hop("GET", "http://h/", &[]), 302, location).unwrap());
        }
        let found = StatusCode::FOUND;
        assert!(!follow(&mut hop("GET", "http://h/", &[]), found, &HeaderMap::new()).unwrap());
        let error = redirect(&mut hop("GET", "http://h/", &[]), 302, b"ftp://x/").unwrap_err();
        let expected = "http/request failed: redirect target uses unsupported URL scheme: ftp";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let headers = [
            ("authorization", "s"),
            ("cookie", "c"),
            ("cookie2", "c"),
            ("proxy-authorization", "p"),
            ("www-authenticate", "w"),
            ("host", "mine"),
        ];
        let left = |location: &[u8]| {
            let mut hop = hop("GET", "http://h:80/a?q#f", &headers);
            assert!(redirect(&mut hop, 302, location).unwrap());
            (hop.headers.len() - 1, hop.headers[REFERER].to_str().unwrap().to_owned())
        };
        assert_eq!(left(b"/b"), (6, "http://h/a?q".to_owned()));
        assert_eq!(left(b"http://u:p@h/b"), (6, "http://h/a?q".to_owned()));
        for other in [&b"http://h:81/"[..], b"http://i/", b"https://h/", b"//i/"] {
            assert_eq!(left(other), (1, "http://h/".to_owned()));
        }
    }

    #[test]
    fn a_step_down_from_https_tells_nothing() {
        let mut hop = hop("GET", "https://h/secret", &[("referer", "http://mine/")]);
        assert!(redirect(&mut hop, 302, b"http://u:p@h/").unwrap());
        assert!(!hop.headers.contains_key(REFERER));
        assert_eq!(hop.url.as_str(), "http://h/");
    }
}
