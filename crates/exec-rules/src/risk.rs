//! Rules that would let anything run: allowing a shell, an interpreter or a program that starts others,
//! without saying which script or program.
//!
//! A pattern is only the beginning of a command. What follows it is free, and is what makes the danger.

mod programs;

use std::fmt;

use crate::error::Problem;
use crate::rule::{Decision, Location, PrefixRule, Token};
use programs::{EVALUATE, Way, way};

/// A rule that would let anything run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    /// The call that makes the rule.
    pub location: Location,
    /// Its pattern, as a rules file spells it.
    pub pattern: String,
    /// What it opens.
    pub reason: String,
}

impl Risk {
    pub(crate) fn problem(&self) -> Problem {
        Problem::new(format!("allowing {} would let anything run: {}", self.pattern, self.reason))
            .at(Some(self.location.clone()))
            .hint(
                "name the script or the subcommand in the pattern, use \"prompt\", or write the \
                   comment `# rules: force` above the rule",
            )
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: allowing {}: {}", self.location, self.pattern, self.reason)
    }
}

/// What a rule of a set would open, if it allows.
pub fn of_rule(rule: &PrefixRule) -> Option<Risk> {
    if rule.decision != Decision::Allow {
        return None;
    }
    let first = Token::Single((*rule.first).into());
    let pattern: Vec<&Token> = std::iter::once(&first).chain(&*rule.rest).collect();
    let reason = reason(&pattern, 0)?;
    Some(Risk { location: rule.location.clone(), pattern: rule.to_string(), reason })
}

/// What allowing commands that begin with these words would open.
pub fn of_prefix<S: AsRef<str>>(words: &[S]) -> Option<String> {
    let pattern: Vec<Token> =
        words.iter().map(|word| Token::Single(word.as_ref().into())).collect();
    reason(&pattern.iter().collect::<Vec<_>>(), 0)
}

/// Wrappers in wrappers deeper than this are not looked through.
const WRAPPERS_MAX: usize = 8;

/// Options with which a program runs nothing.
const HARMLESS: &[&str] = &["--version", "--help"];

/// Alternatives are as bad as the worst of them.
fn reason(pattern: &[&Token], depth: usize) -> Option<String> {
    let (first, rest) = pattern.split_first()?;
    first.words().iter().find_map(|word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let way = way(name)?;
        // They print something and leave, whatever follows.
        let told = |token: &&Token| token.words().iter().all(|word| HARMLESS.contains(&&**word));
        if rest.first().is_some_and(told) {
            return None;
        }
        opens(name, way, rest, depth)
    })
}

fn opens(name: &str, way: Way, rest: &[&Token], depth: usize) -> Option<String> {
    match way {
        Way::Script => match rest {
            [] => Some(format!("{name} runs any script")),
            [option] if any(option, |word| EVALUATE.contains(&word)) => {
                Some(format!("{name} runs the text after that option"))
            }
            [option, ..] if any(option, |word| is_option(word) && !EVALUATE.contains(&word)) => {
                Some(format!("{name} runs any script after its options"))
            }
            [option, script, ..]
                if any(option, |word| EVALUATE.contains(&word)) && any(script, is_option) =>
            {
                Some(format!("{name} runs any script after its options"))
            }
            _ => None,
        },
        Way::Wrapper(own) => {
            let command = rest.get(own..).unwrap_or_default();
            let leading = rest.iter().take(own + 1);
            if command.is_empty() {
                Some(format!("{name} runs any program"))
            } else if leading.into_iter().any(|token| any(token, is_option_or_assignment)) {
                Some(format!("{name} runs any program after its options"))
            } else if depth >= WRAPPERS_MAX {
                Some(format!("{name} is nested too deep to be judged"))
            } else {
                reason(command, depth + 1)
            }
        }
        Way::AnyOption => Some(format!("whatever the beginning, arguments of {name} can do harm")),
        Way::Bare => match rest {
            [first, ..] if !any(first, is_option) => None,
            _ => Some(format!("{name} without a fixed target runs anything")),
        },
        Way::Subcommands(bad) => match rest {
            [] => Some(format!("{name} without a subcommand")),
            [first, ..] if any(first, is_option) => {
                Some(format!("options of {name} before the subcommand can run programs"))
            }
            [first] => {
                let word = first.words().iter().find(|word| bad.contains(&&***word))?;
                Some(format!("{name} {word} runs programs"))
            }
            [_, second, ..] => {
                let risky = any(rest[0], |word| bad.contains(&word)) && any(second, is_option);
                risky.then(|| format!("{name} runs programs after its options"))
            }
        },
    }
}

fn any(token: &Token, test: impl Fn(&str) -> bool) -> bool {
    token.words().iter().any(|word| test(word))
}

fn is_option(word: &str) -> bool {
    word.starts_with('-') || word.is_empty()
}

fn is_option_or_assignment(word: &str) -> bool {
    is_option(word) || word.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISKY: &str = "
        bash, sh, /bin/bash, zsh, bash -c, bash -lc, bash -x, bash -c -x, python3, python,
        python3.11, /usr/bin/python3, python3 -c, python3 -m, python3 -u, python3 -W ignore,
        node, node -e, perl, perl -e, perl -pe, ruby, php -r, lua5.4, awk, gawk, deno, bun,
        pwsh, pwsh -Command, osascript, cmd /c, env, env -i, env FOO=1, env FOO=1 ls, env bash,
        env python3 -c, sudo, sudo -u root, sudo bash, sudo env xargs, xargs, xargs -n1,
        xargs sh, find, find ., find . -name, ssh, ssh host, ssh host bash, ssh -p 22, timeout,
        timeout 5, timeout 5 bash, nohup, nice, git, git -c, git -C, git --exec-path,
        git config, git bisect, git submodule, git bisect -x, npm, npm run, pnpm run, yarn run,
        bun run -x, npx, docker, docker run, docker run -it, make, make -f, vim, vim x, tar,
        tar -xf, sed, sed -n, less, rm, rm -rf, busybox, busybox sh, eval
    ";
    const FINE: &str = "
        ls, cat, python3 --version, git --version, git status, git pull, git log,
        git push origin, cargo test, cargo build, python3 script.py, python3 -m pytest,
        python3 -c print(1), bash build.sh, bash -lc ls, node server.js, env ls, sudo ls,
        xargs ls, timeout 5 ls, ssh host uptime, npm install, npm run build, npx prettier,
        make test, docker ps, docker run hello-world, awk {print}, gitk, bashful,
        git bisect log, lsof
    ";

    #[test]
    fn what_lets_anything_run_is_noticed() {
        for risky in RISKY.split(',').map(str::trim) {
            let words: Vec<&str> = risky.split(' ').collect();
            assert!(of_prefix(&words).is_some(), "{risky}");
        }
    }

    #[test]
    fn what_is_fixed_may_be_allowed() {
        for fine in FINE.split(',').map(str::trim) {
            let words: Vec<&str> = fine.split(' ').collect();
            assert_eq!(of_prefix(&words), None, "{fine}");
        }
    }

    #[test]
    fn alternatives_are_as_bad_as_the_worst() {
        let token = |words: &[&str]| {
            Token::Alts(words.iter().map(|word| Box::<str>::from(*word)).collect())
        };
        let check = |first: &str, rest: &[&[&str]], expected: bool| {
            let rule = PrefixRule {
                first: first.into(),
                rest: rest.iter().map(|words| token(words)).collect(),
                decision: Decision::Allow,
                justification: None,
                location: Location { file: "a".into(), line: 1, column: 1 },
            };
            assert_eq!(of_rule(&rule).is_some(), expected, "{rule}");
            for decision in [Decision::Prompt, Decision::Forbidden] {
                assert_eq!(of_rule(&PrefixRule { decision, ..rule.clone() }), None);
            }
        };
        check("git", &[&["status", "config"]], true);
        check("git", &[&["status", "log"]], false);
        check("env", &[&["ls", "bash"]], true);
        check("git", &[&["--version", "-c"]], true);
        check("python3", &[&["a.py", "-c"]], true);
        check("python3", &[&["-m"], &["pytest", "-x"]], true);
    }
}
