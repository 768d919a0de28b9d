//! From an error to one plain sentence with a hint, and the exit status that goes with it.

use exec_client::ExecServerError;

use crate::exit::Plain;

/// What could not be done, and why.
pub(super) fn explain(what: &str, error: &ExecServerError) -> anyhow::Error {
    let lost = matches!(
        error,
        ExecServerError::ConnectionLost(_)
            | ExecServerError::Connect { .. }
            | ExecServerError::Timeout { .. }
    );
    let text = match hint(error) {
        Some(hint) => format!("cannot {what}: {} ({hint})", reason(error)),
        None => format!("cannot {what}: {}", reason(error)),
    };
    Plain::new(text, lost).into()
}

/// The same for a connection that could not be made. Anything else stays as it is.
pub(super) fn connecting(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ExecServerError>() {
        Some(error) => explain("use the executor", error),
        None => error,
    }
}

/// The words of an error, without the numbers.
pub(super) fn reason(error: &ExecServerError) -> String {
    let text = if let ExecServerError::Rpc { message, .. } = error {
        message.clone()
    } else {
        error.to_string()
    };
    match text.find(" (os error ") {
        Some(at) => {
            let rest = text[at..].find(')').map_or("", |end| &text[at + end + 1..]);
            format!("{}{rest}", &text[..at])
        }
        None => text,
    }
}

/// Numbers of the operating system that a person can do something about.
const HINTS: [(&str, &str); 4] = [
    ("(os error 2)", "check the path; ls shows what is there"),
    ("(os error 17)", "mkdir -p does not mind"),
    ("(os error 28)", "make room, then cp --resume goes on"),
    ("(os error 39)", "-r removes what is in it"),
];

fn hint(error: &ExecServerError) -> Option<&'static str> {
    if matches!(error, ExecServerError::Connect { .. }) {
        return Some("is it running? `exec-server serve` prints its address");
    }
    if matches!(error, ExecServerError::Refused { status: 401 | 403, .. }) {
        return Some("see --token-file");
    }
    if matches!(error, ExecServerError::Unsupported(_)) {
        return Some("the executor there is another program, or older");
    }
    let text = error.to_string();
    HINTS.iter().find(|(number, _)| text.contains(number)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_no_numbers() {
        let rpc = |message: &str| ExecServerError::Rpc { code: -32603, message: message.into() };
        let check = |error: &ExecServerError, expected: &str| {
            assert_eq!(explain("read /x", error).to_string(), expected);
        };
        check(
            &rpc("No such file or directory (os error 2)"),
            "cannot read /x: No such file or directory (check the path; ls shows what is there)",
        );
        check(&rpc("path `/x` is not a file"), "cannot read /x: path `/x` is not a file");
        assert_eq!(reason(&rpc("a (os error 5) b")), "a b");
    }
}
