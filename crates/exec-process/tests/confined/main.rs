//! Commands that run confined by plans written by hand, through the same door as all others. Every
//! scenario runs as the user of the tests and, if that is root, as an ordinary user too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use exec_sandbox::linux::bwrap;

mod bench;

mod locks;
mod refused;
mod start;
mod terminal;
mod views;

/// Makes a test of each scenario, and a list of all.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) async fn all() {
            $(
                println!("{}", stringify!($name));
                $name().await;
            )*
        }

        mod tests {
            $(
                #[tokio::test]
                async fn $name() {
                    if $crate::bench::can_confine().await {
                        super::$name().await;
                    }
                }
            )*
        }
    };
}
pub(crate) use scenarios;

/// Tells a test binary that it is started as a helper.
const ROLE: &str = "EXEC_PROCESS_TEST_ROLE";

/// This test binary again, running only the named test, which then plays a role.
fn helper(test: &str) -> Vec<String> {
    let binary = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    [&binary, "--exact", test, "--nocapture", "--test-threads=1"].map(String::from).to_vec()
}

#[tokio::test]
async fn an_ordinary_user_is_confined_alike() {
    // SAFETY: these calls take numbers only, or nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    if std::env::var_os(ROLE).is_none() {
        if !is_root {
            return exec_testkit::skip("confinement as another user: not root");
        }
        let argv = helper("an_ordinary_user_is_confined_alike");
        let child = std::process::Command::new(&argv[0]).args(&argv[1..]).env(ROLE, "1").output();
        let child = child.unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && out.contains("all scenarios"), "{out}{err}");
        return;
    }
    // SAFETY: as above. The C library changes all threads.
    assert_eq!(unsafe { libc::setgid(65534) | libc::setuid(65534) }, 0);
    if bench::can_confine().await {
        start::all().await;
        terminal::all().await;
        views::all().await;
        locks::all().await;
    }
    println!("all scenarios");
}

/// What cannot be the same when bubblewrap makes the view, and why.
const NOT_WITH_BUBBLEWRAP: &[(&str, &str)] = &[
    ("a_stream_ends_when_the_command_closes_it", "bubblewrap holds the streams to its own end"),
    ("a_pinned_link_stays_what_it_is", "it cannot mount a link: refused"),
    ("a_writable_host_keeps_its_kernel_closed", "root could change bubblewrap itself: refused"),
    ("a_step_that_fails_is_named_and_leaves_nothing", "it does not say which step failed"),
    ("what_was_replaced_since_the_plan_is_refused", "refused, but in other words"),
    ("a_read_only_host_cannot_be_changed", "mounts that others cover are still listed as they are"),
];

#[test]
fn bubblewrap_confines_alike() {
    if bwrap::find(&bwrap::Places::default(), bench::PATIENCE).is_err() {
        return exec_testkit::skip("confinement by bubblewrap: it is not installed");
    }
    let scratch = bench::Scratch::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["::tests::", "--test-threads=1"]).env(bench::BUBBLEWRAP, &scratch.path);
    for (scenario, _) in NOT_WITH_BUBBLEWRAP {
        child.args(["--skip", scenario]);
    }
    let child = child.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success() && out.contains("views::tests::"), "{out}{err}");
}
