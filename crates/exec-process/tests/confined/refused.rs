//! Hosts that forbid user namespaces.

use std::process::Command;

use exec_process::Error;

use crate::bench::Bench;
use crate::{ROLE, helper};

#[tokio::test]
async fn forbidden_user_namespaces_are_a_refusal_that_says_so() {
    if std::env::var_os(ROLE).is_some() {
        let bench = Bench::read_only();
        let error = bench.start(&["/bin/true"]).await.unwrap_err();
        assert!(matches!(error, Error::Confine(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("make namespaces for it: No space left on device"), "{text}");
        // What needs none goes on to work.
        let process = bench.start_bare(&["/bin/true"]).unwrap();
        assert_eq!(crate::bench::ended(&process).await.code, 0);
        return println!("refused as it should be");
    }
    if !crate::bench::can_confine().await {
        return;
    }
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let test = helper("refused::forbidden_user_namespaces_are_a_refusal_that_says_so");
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", forbid, "sh"])
        .args(test)
        .env(ROLE, "1")
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(out.contains("refused as it should be"), "{out}{err}");
}
