//! All rules together, and what they say about a command.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, too_large, too_many_rules};
use crate::evaluate::{Declared, evaluate};
use crate::example::{self, Failure};
use crate::host::{HostExecutables, Places, Resolve};
use crate::index::Index;
use crate::limits::{ENTRIES_MAX, FILE_BYTES_MAX, FILES_MAX, RULES_MAX};
use crate::network::{self, HostLists, NetworkRule};
use crate::risk::{self, Risk};
use crate::rule::{Decision, Location, PrefixRule};
use crate::{Problem, tokens};

/// A rules file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name, for complaints.
    pub file: String,
    /// What is in it.
    pub text: String,
}

impl Source {
    /// From a name and a text.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    /// Reads a file, but not more than a rules file may have.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let file = path.display().to_string();
        let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        File::open(path).and_then(|it| it.take(limit).read_to_end(&mut bytes)).map_err(failed)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(too_large().in_file(&file));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            let message = "stream did not contain valid UTF-8";
            failed(io::Error::new(io::ErrorKind::InvalidData, message))
        })?;
        Ok(Self { file, text })
    }
}

/// What happens to a rule that would let anything run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RiskyRules {
    /// The file is refused, unless a comment at the rule says `rules: force`.
    #[default]
    Refuse,
    /// They are taken, as the reference does.
    Accept,
}

/// How files are loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// What happens to a rule that would let anything run.
    pub risky: RiskyRules,
    /// Where relative programs in examples lie.
    pub places: Places,
}

/// The rules of all files.
#[derive(Debug, Default)]
pub struct RuleSet {
    rules: Vec<PrefixRule>,
    network: Vec<NetworkRule>,
    hosts: HostExecutables,
    index: Index,
}

/// What the rules say about a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict<'a> {
    /// Every rule that matches, in the order of the files.
    pub matched_rules: Vec<Match<'a>>,
    /// The strictest of them; none if none matches, and then the caller's fallback applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// A rule that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Match<'a> {
    /// By the beginning of the command.
    #[serde(rename = "prefixRuleMatch", rename_all = "camelCase")]
    Prefix {
        /// The words that the pattern matched.
        matched_prefix: Vec<&'a str>,
        /// What the rule says.
        decision: Decision,
        /// The program's path, if it matched by its last component only.
        #[serde(skip_serializing_if = "Option::is_none")]
        resolved_program: Option<PathBuf>,
        /// Why, in the words of whoever wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        justification: Option<&'a str>,
        /// The rule itself.
        #[serde(skip)]
        rule: &'a PrefixRule,
    },
}

impl<'a> Verdict<'a> {
    /// The justification that a message quotes: of the longest prefix with the winning decision.
    pub fn justification(&self) -> Option<&'a str> {
        self.winner().and_then(|rule| rule.justification.as_deref())
    }

    /// The rule with the longest prefix among those that decided; the first of equals.
    pub fn winner(&self) -> Option<&'a PrefixRule> {
        let deciding = self.matched_rules.iter().filter_map(|Match::Prefix { rule, .. }| {
            (Some(rule.decision) == self.decision).then_some(*rule)
        });
        deciding.reduce(|best, rule| if rule.len() > best.len() { rule } else { best })
    }

    /// Both together, as for a script of several commands: the strictest wins.
    pub fn and(mut self, other: Verdict<'a>) -> Verdict<'a> {
        self.matched_rules.extend(other.matched_rules);
        Verdict { decision: self.decision.max(other.decision), ..self }
    }
}

impl RuleSet {
    /// Reads and loads files, the weakest layer first. Later files can only add strictness.
    pub fn load<P: AsRef<Path>>(paths: &[P], options: &LoadOptions) -> Result<Self, Error> {
        let mut set = Self::default();
        if paths.len() > FILES_MAX {
            return Err(Error::TooManyFiles);
        }
        // One by one, so that the first file's complaint comes first.
        for path in paths {
            set.add(&Source::read(path.as_ref())?, options)?;
        }
        set.index = Index::new(&set.rules);
        Ok(set)
    }

    /// Loads files that were read already.
    pub fn parse(sources: &[Source], options: &LoadOptions) -> Result<Self, Error> {
        if sources.len() > FILES_MAX {
            return Err(Error::TooManyFiles);
        }
        let mut set = Self::default();
        for source in sources {
            set.add(source, options)?;
        }
        set.index = Index::new(&set.rules);
        Ok(set)
    }

    fn add(&mut self, source: &Source, options: &LoadOptions) -> Result<(), Error> {
        let declared = evaluate(&source.file, &source.text);
        let outcome = declared.and_then(|declared| self.merge(source, declared, options));
        outcome.map_err(|problem| problem.in_file(&source.file))
    }

    /// Takes over what a file declared, if its examples hold. Programs of earlier files count for them.
    fn merge(
        &mut self,
        source: &Source,
        declared: Declared,
        options: &LoadOptions,
    ) -> Result<(), Problem> {
        let Declared { rules, examples, network, hosts } = declared;
        for (name, paths) in hosts {
            self.hosts.declare(&name, paths);
        }
        for examples in &examples {
            let made = rules.get(examples.rules.clone()).unwrap_or_default();
            example::check(examples, made, &self.hosts, &options.places)?;
        }
        if options.risky == RiskyRules::Refuse
            && let Some(risk) = unforced_risks(source, &rules).into_iter().next()
        {
            return Err(risk.problem());
        }
        if self.rules.len() + rules.len() > RULES_MAX {
            return Err(too_many_rules());
        }
        if self.network.len() + network.len() > ENTRIES_MAX || self.hosts.len() > ENTRIES_MAX {
            let message = format!("more than {ENTRIES_MAX} network rules or host executables");
            return Err(Problem::new(message));
        }
        self.rules.extend(rules);
        self.network.extend(network);
        Ok(())
    }

    /// What the rules say about a command. Its first word is the program.
    pub fn decide<'a, S: AsRef<str>>(
        &'a self,
        command: &'a [S],
        resolve: Resolve<'_>,
    ) -> Verdict<'a> {
        let nothing = Verdict { matched_rules: Vec::new(), decision: None };
        let Some((first, arguments)) = command.split_first() else { return nothing };
        let first = first.as_ref();
        let exact = self.index.find(&self.rules, first, arguments);
        if !exact.is_empty() {
            return self.verdict(&exact, arguments, None);
        }
        let Resolve::BaseName(places) = resolve else { return nothing };
        let Some((path, name)) = self.hosts.resolve(first, places) else { return nothing };
        let by_name = self.index.find(&self.rules, &name, arguments);
        self.verdict(&by_name, arguments, Some(&path))
    }

    fn verdict<'a, S: AsRef<str>>(
        &'a self,
        positions: &[u32],
        arguments: &'a [S],
        path: Option<&Path>,
    ) -> Verdict<'a> {
        let rules = positions.iter().filter_map(|at| self.rules.get(usize::try_from(*at).ok()?));
        let matched_rules: Vec<Match<'a>> = rules
            .map(|rule| {
                let words = arguments.iter().take(rule.rest.len()).map(AsRef::as_ref);
                Match::Prefix {
                    matched_prefix: std::iter::once(&*rule.first).chain(words).collect(),
                    decision: rule.decision,
                    resolved_program: path.map(Path::to_owned),
                    justification: rule.justification.as_deref(),
                    rule,
                }
            })
            .collect();
        let decision = matched_rules.iter().map(|Match::Prefix { decision, .. }| *decision).max();
        Verdict { matched_rules, decision }
    }

    /// The prefix rules, in the order of the files.
    pub fn rules(&self) -> &[PrefixRule] {
        &self.rules
    }

    /// The network rules, in the order of the files.
    pub fn network_rules(&self) -> &[NetworkRule] {
        &self.network
    }

    /// The network rules as lists of hosts.
    pub fn host_lists(&self) -> HostLists {
        network::compile(&self.network)
    }

    /// Which paths are which programs.
    pub fn host_executables(&self) -> &HostExecutables {
        &self.hosts
    }
}

/// Everything that can be said against a file, not only the first.
#[derive(Debug, Default)]
pub struct Report {
    /// Rules that the file makes.
    pub rules: usize,
    /// Examples that were tried.
    pub examples: usize,
    /// Examples that do not hold.
    pub failures: Vec<Failure>,
    /// Rules that would let anything run, and are not forced.
    pub risks: Vec<Risk>,
}

/// Tries every example of every file; a file that cannot be evaluated is an error.
pub fn report(sources: &[Source], places: &Places) -> Result<Report, Error> {
    let mut hosts = HostExecutables::default();
    let mut report = Report::default();
    for source in sources {
        let declared = evaluate(&source.file, &source.text);
        let declared = declared.map_err(|problem| problem.in_file(&source.file))?;
        for (name, paths) in declared.hosts {
            hosts.declare(&name, paths);
        }
        for examples in &declared.examples {
            let made = declared.rules.get(examples.rules.clone()).unwrap_or_default();
            report.examples += examples.matching.len() + examples.not_matching.len();
            report.failures.extend(example::failures(examples, made, &hosts, places));
        }
        report.rules += declared.rules.len();
        report.risks.extend(unforced_risks(source, &declared.rules));
    }
    Ok(report)
}

/// The comment that forces a risky rule. A comment, because other readers of the file ignore it.
pub const FORCE_COMMENT: &str = "rules: force";

/// Rules that would let anything run and have no comment that forces them, in the line of the call or
/// in the line before it.
fn unforced_risks(source: &Source, rules: &[PrefixRule]) -> Vec<Risk> {
    let risks: Vec<Risk> = rules.iter().filter_map(risk::of_rule).collect();
    if risks.is_empty() {
        return risks;
    }
    let comments = tokens::pieces(&source.text).into_iter().filter(|piece| {
        piece.kind == tokens::Kind::Comment
            && piece.text.trim_start_matches('#').trim().starts_with(FORCE_COMMENT)
    });
    let forced: BTreeSet<usize> = comments.flat_map(|piece| [piece.line, piece.line + 1]).collect();
    let is_forced = |location: &Location| forced.contains(&location.line);
    risks.into_iter().filter(|risk| !is_forced(&risk.location)).collect()
}

/// The rules files of a directory, in byte order of their names. A directory that is not there has none.
pub fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: directory.to_owned(), source };
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "rules") && path.is_file() {
            found.push(path);
        }
        if found.len() > FILES_MAX {
            return Err(Error::TooManyFiles);
        }
    }
    found.sort();
    Ok(found)
}
