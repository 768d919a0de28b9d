//! One row for each start-up error, and what the accepted combinations mean.

use super::*;

const HEX: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

fn file(content: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file
}

fn capability() -> WsAuthFlags {
    WsAuthFlags { mode: Some(WsAuthMode::CapabilityToken), ..Default::default() }
}

fn signed() -> WsAuthFlags {
    WsAuthFlags { mode: Some(WsAuthMode::SignedBearerToken), ..Default::default() }
}

fn check(flags: WsAuthFlags, expected: &str) {
    assert_eq!(flags.resolve().unwrap_err().to_string(), expected);
}

#[test]
fn flags_need_their_mode() {
    let text = "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`";
    let none = WsAuthFlags::default;
    check(WsAuthFlags { issuer: Some(String::new()), ..none() }, text);
    check(WsAuthFlags { audience: Some("a".into()), ..none() }, text);
    check(WsAuthFlags { max_clock_skew_seconds: Some(30), ..none() }, text);
    check(WsAuthFlags { token_file: Some("x".into()), ..none() }, text);
    check(WsAuthFlags { token_sha256: Some(HEX.into()), ..none() }, text);
    check(WsAuthFlags { shared_secret_file: Some("x".into()), ..none() }, text);
    assert_eq!(none().resolve().unwrap(), WsAuth::None);
}

#[test]
fn capability_mode_needs_one_source_and_no_other_flags() {
    let required = "`--ws-token-file` or `--ws-token-sha256` is required when \
                    `--ws-auth capability-token` is set";
    check(capability(), required);
    let exclusive = "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive";
    let both = WsAuthFlags {
        token_file: Some("x".into()),
        token_sha256: Some("bad".into()),
        ..capability()
    };
    check(both.clone(), exclusive);
    let other = "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and \
                 `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`";
    check(WsAuthFlags { issuer: Some(String::new()), ..both }, other);
    check(WsAuthFlags { max_clock_skew_seconds: Some(1), ..capability() }, other);
}

#[test]
fn digests_are_64_hex_digits() {
    let text = "--ws-token-sha256 must be a 64-character hex SHA-256 digest";
    for digest in
        ["", "bad", &HEX[1..], &format!("{HEX}0"), &HEX.replace('2', "g"), &"é".repeat(32)]
    {
        check(WsAuthFlags { token_sha256: Some(digest.to_owned()), ..capability() }, text);
    }
    let upper = format!("  {} \n", HEX.to_uppercase());
    for digest in [HEX, &upper] {
        let flags = WsAuthFlags { token_sha256: Some(digest.to_owned()), ..capability() };
        assert_eq!(flags.resolve().unwrap().check(Some(b"Bearer secret"), 0), Ok(()));
    }
}

#[test]
fn token_files_are_trimmed_and_not_empty() {
    let good = file(b" secret\n");
    let flags = WsAuthFlags { token_file: Some(good.path().into()), ..capability() };
    let digest = WsAuthFlags { token_sha256: Some(HEX.into()), ..capability() };
    assert_eq!(flags.resolve().unwrap(), digest.resolve().unwrap());

    for content in [&b""[..], b"  \n "] {
        let empty = file(content);
        let text = format!("websocket auth secret {} must not be empty", empty.path().display());
        check(WsAuthFlags { token_file: Some(empty.path().into()), ..capability() }, &text);
    }
    let binary = file(b"\xff\xfe");
    let text = format!(
        "failed to read websocket auth secret {}: stream did not contain valid UTF-8",
        binary.path().display()
    );
    check(WsAuthFlags { token_file: Some(binary.path().into()), ..capability() }, &text);
    let missing = "/nonexistent/token";
    let text = format!(
        "failed to read websocket auth secret {missing}: No such file or directory (os error 2)"
    );
    check(WsAuthFlags { token_file: Some(missing.into()), ..capability() }, &text);
}

#[test]
fn signed_mode_needs_a_long_secret_and_no_token_flags() {
    let text = "`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set";
    check(signed(), text);
    let text = "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, \
                not `signed-bearer-token`";
    check(WsAuthFlags { token_sha256: Some("x".into()), ..signed() }, text);
    let short = file(b"  0123456789012345678901234567890 \n");
    let text = format!(
        "signed websocket bearer secret {} must be at least 32 bytes",
        short.path().display()
    );
    let skewed = WsAuthFlags { max_clock_skew_seconds: Some(u64::MAX), ..signed() };
    check(WsAuthFlags { shared_secret_file: Some(short.path().into()), ..skewed.clone() }, &text);
    let good = file(b"01234567890123456789012345678901\n");
    let text = "websocket auth clock skew must fit in a signed 64-bit integer";
    check(WsAuthFlags { shared_secret_file: Some(good.path().into()), ..skewed }, text);
}

#[test]
fn signed_mode_has_defaults_and_trims() {
    let secret = file(b"01234567890123456789012345678901\n");
    let flags = WsAuthFlags {
        shared_secret_file: Some(secret.path().into()),
        issuer: Some(" i ".into()),
        audience: Some("  ".into()),
        ..signed()
    };
    let expected = WsAuth::SignedBearer {
        secret: b"01234567890123456789012345678901".to_vec(),
        issuer: Some("i".into()),
        audience: None,
        max_clock_skew: Duration::from_secs(30),
    };
    assert_eq!(flags.resolve().unwrap(), expected);
}

#[test]
fn auth_without_a_websocket_has_its_text() {
    assert_eq!(
        AuthConfigError::NotWebSocket.to_string(),
        "WebSocket auth requires a WebSocket listener, not stdio"
    );
}
