//! Which proxy a request goes through, as the executor's environment says.

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, upper-case first.
pub(crate) struct Proxies(Matcher);

/// A proxy for one request.
pub(crate) struct Proxy {
    pub(crate) uri: Uri,
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxies {
    pub(crate) fn from_variables(variable: &impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&str; 2]| names.into_iter().find_map(variable).unwrap_or_default();
        // In a CGI program `HTTP_PROXY` is a header that the caller chose.
        let http = match variable("REQUEST_METHOD") {
            Some(_) => String::new(),
            None => first(["HTTP_PROXY", "http_proxy"]),
        };
        let matcher = Matcher::builder()
            .http(http)
            .https(first(["HTTPS_PROXY", "https_proxy"]))
            .all(first(["ALL_PROXY", "all_proxy"]))
            .no(first(["NO_PROXY", "no_proxy"]));
        Self(matcher.build())
    }

    pub(crate) fn find(&self, target: &Uri) -> Option<Proxy> {
        let found = self.0.intercept(target)?;
        Some(Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(set: &[(&str, &str)], target: &str, expected: Option<&str>) {
        let proxies = Proxies::from_variables(&|name: &str| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        });
        let found = proxies.find(&target.parse().unwrap()).map(|proxy| proxy.uri.to_string());
        assert_eq!(found.as_deref(), expected, "{set:?} {target}");
    }

    #[test]
    fn the_environment_chooses_the_proxy() {
        let (http, https) = ("http://target.example/", "https://target.example/");
        let p = Some("http://p:1/");
        check(&[], http, None);
        check(&[("HTTP_PROXY", "http://p:1")], http, p);
        check(&[("HTTP_PROXY", "p:1")], http, p);
        check(&[("http_proxy", "http://p:1")], http, p);
        check(&[("HTTP_PROXY", "http://p:1"), ("http_proxy", "http://q:1")], http, p);
        check(&[("HTTP_PROXY", "http://p:1")], https, None);
        check(&[("HTTPS_PROXY", "http://p:1")], https, p);
        check(&[("HTTPS_PROXY", "http://p:1")], http, None);
        check(&[("ALL_PROXY", "http://p:1")], http, p);
        check(&[("all_proxy", "http://p:1")], https, p);
        check(&[("HTTP_PROXY", "http://p:1"), ("REQUEST_METHOD", "GET")], http, None);
        check(&[("HTTP_PROXY", "")], http, None);
        check(&[("HTTP_PROXY", "nonsense://x")], http, None);
        for no in ["target.example", ".example", "*", "a,target.example"] {
            check(&[("HTTP_PROXY", "http://p:1"), ("NO_PROXY", no)], http, None);
            check(&[("HTTP_PROXY", "http://p:1"), ("no_proxy", no)], http, None);
        }
        let no = [("HTTP_PROXY", "http://p:1"), ("NO_PROXY", "127.0.0.0/8,other")];
        check(&no, "http://127.0.0.1:5/", None);
        check(&no, http, p);
    }
}
