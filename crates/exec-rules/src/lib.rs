//! The `.rules` language: which commands are allowed, asked about or forbidden.
//!
//! A rules file is Starlark and calls `prefix_rule`, `network_rule` and `host_executable`. All files
//! together make one [`RuleSet`]; it decides a command by the strictest rule that matches. What is
//! decided here is only what the rules say: what *allow* means is the caller's business.
//!
//! Reading order: [`rule`] (what a rule is), [`evaluate`](mod@evaluate) (a file to rules, within limits),
//! [`set`] (files to a set, a command to a decision), [`amend`], [`watch`], [`fmt`].
//!
//! ```
//! use exec_rules::{Decision, LoadOptions, Resolve, RuleSet, Source};
//!
//! let source = Source::new("my.rules", r#"prefix_rule(["git", "push"], "prompt")"#);
//! let set = RuleSet::parse(&[source], &LoadOptions::default())?;
//! let verdict = set.decide(&["git", "push", "origin"], Resolve::Exact);
//! assert_eq!(verdict.decision, Some(Decision::Prompt));
//! # Ok::<(), exec_rules::Error>(())
//! ```

mod error;
pub mod limits;

pub mod rule;

pub mod host;

pub mod network;

pub mod example;

mod tokens;

mod nesting;

pub mod risk;

pub mod evaluate;

mod index;

pub mod set;

pub mod amend;

pub mod watch;

pub mod fmt;

pub use error::{Error, Problem};
pub use host::{Places, Resolve};
pub use rule::{Decision, Location, PrefixRule, Token};
pub use set::{LoadOptions, Match, RiskyRules, RuleSet, Source, Verdict};
