//! JSON web tokens: one algorithm, HS256, and the four claims we look at.

use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::Sha256;

use super::AuthError;

#[derive(Deserialize)]
struct Header<'a> {
    alg: &'a str,
}

/// The claims of a token whose signature is right. Others are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    exp: i64,
    nbf: Option<i64>,
    iss: Option<String>,
    aud: Option<Audience>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Checks form, algorithm and signature.
pub(super) fn verify(token: &str, secret: &[u8]) -> Result<Claims, AuthError> {
    verified_claims(token, secret).ok_or(AuthError::Jwt)
}

fn verified_claims(token: &str, secret: &[u8]) -> Option<Claims> {
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    let header = decode(header)?;
    let header: Header<'_> = serde_json::from_slice(&header).ok()?;
    if header.alg != "HS256" {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(signed.as_bytes());
    // Compares in constant time.
    mac.verify_slice(&decode(signature)?).ok()?;
    serde_json::from_slice(&decode(claims)?).ok()
}

fn decode(part: &str) -> Option<Vec<u8>> {
    base64_simd::URL_SAFE_NO_PAD.decode_to_vec(part).ok()
}

impl Claims {
    /// Checks the claims against what is expected, at the given time.
    pub(super) fn check(
        &self,
        issuer: Option<&str>,
        audience: Option<&str>,
        skew_seconds: i64,
        now_unix: i64,
    ) -> Result<(), AuthError> {
        if now_unix > self.exp.saturating_add(skew_seconds) {
            return Err(AuthError::Expired);
        }
        if self.nbf.is_some_and(|nbf| now_unix < nbf.saturating_sub(skew_seconds)) {
            return Err(AuthError::NotYetValid);
        }
        if issuer.is_some() && self.iss.as_deref() != issuer {
            return Err(AuthError::Issuer);
        }
        match audience {
            Some(audience) if !self.is_for(audience) => Err(AuthError::Audience),
            Some(_) | None => Ok(()),
        }
    }

    fn is_for(&self, audience: &str) -> bool {
        match &self.aud {
            None => false,
            Some(Audience::One(one)) => one == audience,
            Some(Audience::Many(many)) => many.iter().any(|one| one == audience),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::auth::WsAuth;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: i64 = 1_000_000;

    /// Expected issuer and audience, and the result.
    type Row = (Option<&'static str>, Option<&'static str>, Result<(), AuthError>);

    fn encode(bytes: &[u8]) -> String {
        base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes)
    }

    fn token(header: &str, claims: &str, secret: &[u8]) -> String {
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(signed.as_bytes());
        format!("{signed}.{}", encode(&mac.finalize().into_bytes()))
    }

    fn check_token(token: &str, expected: &[Row]) {
        for (issuer, audience, result) in expected {
            let auth = WsAuth::SignedBearer {
                secret: SECRET.to_vec(),
                issuer: issuer.map(str::to_owned),
                audience: audience.map(str::to_owned),
                max_clock_skew: Duration::from_secs(30),
            };
            let header = format!("Bearer {token}");
            assert_eq!(auth.check(Some(header.as_bytes()), NOW), *result, "{token}");
        }
    }

    fn check(claims: &str, expected: Result<(), AuthError>) {
        check_token(
            &token(r#"{"alg":"HS256","typ":"JWT"}"#, claims, SECRET),
            &[(None, None, expected)],
        );
    }

    #[test]
    fn times_are_inclusive_and_have_slack() {
        check(r#"{"exp":1000000}"#, Ok(()));
        check(r#"{"exp":999970}"#, Ok(()));
        check(r#"{"exp":999969}"#, Err(AuthError::Expired));
        check(r#"{"exp":2000000,"nbf":1000030}"#, Ok(()));
        check(r#"{"exp":2000000,"nbf":1000031}"#, Err(AuthError::NotYetValid));
        check(r#"{"exp":9223372036854775807}"#, Ok(()));
        check(r#"{"exp":-9223372036854775808}"#, Err(AuthError::Expired));
    }

    #[test]
    fn mistyped_claims_make_the_token_invalid() {
        let table = [
            "{}",
            r#"{"exp":"1000000"}"#,
            r#"{"exp":1000000.5}"#,
            r#"{"exp":null}"#,
            r#"{"exp":2000000,"nbf":"1"}"#,
            r#"{"exp":2000000,"aud":5}"#,
            r#"{"exp":2000000,"aud":[5]}"#,
            r#"{"exp":2000000,"iss":["a"]}"#,
            "[]",
            "not json",
        ];
        for claims in table {
            check(claims, Err(AuthError::Jwt));
        }
        check(r#"{"exp":2000000,"iat":"x","sub":5,"other":{}}"#, Ok(()));
    }

    #[test]
    fn issuer_and_audience_count_only_when_expected() {
        let header = r#"{"alg":"HS256"}"#;
        let both = token(header, r#"{"exp":2000000,"iss":"i","aud":"a"}"#, SECRET);
        check_token(
            &both,
            &[
                (None, None, Ok(())),
                (Some("i"), Some("a"), Ok(())),
                (Some("x"), Some("a"), Err(AuthError::Issuer)),
                (Some("i"), Some("x"), Err(AuthError::Audience)),
                (Some("x"), Some("x"), Err(AuthError::Issuer)),
            ],
        );
        let many = token(header, r#"{"exp":2000000,"aud":["b","a"]}"#, SECRET);
        check_token(
            &many,
            &[
                (None, Some("a"), Ok(())),
                (None, Some("c"), Err(AuthError::Audience)),
                (Some("i"), None, Err(AuthError::Issuer)),
            ],
        );
        for claims in [r#"{"exp":2000000}"#, r#"{"exp":2000000,"aud":[]}"#] {
            let none = token(header, claims, SECRET);
            check_token(
                &none,
                &[(None, Some("a"), Err(AuthError::Audience)), (None, None, Ok(()))],
            );
        }
    }

    #[test]
    fn form_algorithm_and_signature_must_be_right() {
        let good = token(r#"{"alg":"HS256"}"#, r#"{"exp":2000000}"#, SECRET);
        let claims = r#"{"exp":2000000}"#;
        let flipped = good.replacen('.', "..", 1);
        let unsigned = format!("{}.", good.rsplit_once('.').unwrap().0);
        let table = [
            token(r#"{"alg":"HS512"}"#, claims, SECRET),
            token(r#"{"alg":"none"}"#, claims, SECRET),
            token(r#"{"typ":"JWT"}"#, claims, SECRET),
            token("x", claims, SECRET),
            token(r#"{"alg":"HS256"}"#, claims, b"another secret"),
            format!("{good}="),
            format!("{good}.x"),
            flipped,
            unsigned,
            "a.b".to_owned(),
            "abc".to_owned(),
            token(
                r#"{"alg":"HS256"}"#,
                &format!(r#"{{"exp":2000000,"x":"{}"}}"#, "x".repeat(8192)),
                SECRET,
            ),
        ];
        check_token(&good, &[(None, None, Ok(()))]);
        for token in table {
            check_token(&token, &[(None, None, Err(AuthError::Jwt))]);
        }
    }
}
