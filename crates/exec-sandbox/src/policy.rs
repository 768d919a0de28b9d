//! An intent bound to this host: which rule holds for which path, and why.
//!
//! Rules are about real paths: links were followed when the policy was resolved. The rule with the
//! longest path decides; where there is none, nothing is allowed. Patterns come before all of them.

mod entries;
mod glob;
mod host;
mod locate;
mod memory;
mod metadata;
mod refusal;
mod remembered;
mod resolve;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

pub use entries::ENTRIES_MAX;
pub use exec_protocol::sandbox::Access;
use exec_protocol::sandbox::{Network, SandboxContext};
pub use host::{Disk, Host, Kind, Object};
pub use memory::Table;
pub use metadata::METADATA;
pub use refusal::Refusal;
pub use remembered::Remembered;
pub use scan::{MATCHES_MAX, VISITED_MAX};

pub(crate) use entries::lexical;
pub(crate) use glob::Pattern;

/// What the server knows besides the intent. Nothing is taken from its own environment.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Where the command is to start.
    pub cwd: PathBuf,
    /// `TMPDIR` of the command's environment.
    pub tmpdir: Option<PathBuf>,
    /// The home directory, which no temporary directory may contain.
    pub home: Option<PathBuf>,
    /// What belongs to the server and is hidden: its state, the sockets it listens on.
    pub hidden: Vec<PathBuf>,
    /// What a launcher needs to read inside.
    pub readable: Vec<PathBuf>,
}

/// What a command may do on this host.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Which network it may use.
    pub network: Network,
    pub(crate) files: Files,
    /// Where it starts, free of links.
    pub(crate) cwd: PathBuf,
    /// What is hidden although files are open; in [`Files::Ruled`] these are rules.
    pub(crate) hidden: BTreeMap<PathBuf, Object>,
}

#[derive(Debug, Clone)]
pub(crate) enum Files {
    /// Somebody else confines them.
    External,
    /// Nothing is confined, and nothing was asked for.
    Disabled,
    /// All of them, for reading and writing.
    Open,
    /// What the rules say.
    Ruled(Rules),
}

/// The rules of a policy that restricts files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// By real path.
    pub by_path: BTreeMap<PathBuf, Rule>,
    /// What is denied wherever it matches, also what does not exist yet.
    pub patterns: Vec<Pattern>,
    /// Links on the way to what is visible.
    pub links: BTreeMap<PathBuf, PathBuf>,
    /// Links that the command must not lead elsewhere.
    pub pinned_links: BTreeMap<PathBuf, Object>,
    /// Entries that have no effect here, and why.
    pub skipped: Vec<Skipped>,
    /// Whether an entry or pattern denies something.
    denies: bool,
}

/// What holds at a path and below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What may be done.
    pub access: Access,
    /// Who says so.
    pub origin: Origin,
    /// What is there.
    pub state: State,
}

/// What is at a rule's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// This object.
    Present(Object),
    /// Nothing, and it must stay so. `placeholder` says whether anyone could change that.
    Missing {
        /// Whether something has to be put there.
        placeholder: bool,
    },
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// An entry of the intent, counted from 0.
    Entry(usize),
    /// A match of the pattern in this entry.
    Pattern(usize),
    /// Nothing may be put in the way to what this entry protects.
    WayTo(usize),
    /// The name of repository or agent metadata in a writable directory.
    Metadata,
    /// What this file or link of a repository names.
    Repository(PathBuf),
    /// The system files every program needs.
    Platform,
    /// What a launcher needs.
    Launcher,
    /// What belongs to the server.
    Server,
}

/// An entry without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Which, from 0.
    pub entry: usize,
    /// Its path.
    pub path: PathBuf,
    /// Why.
    pub reason: &'static str,
}

/// What may be done with a path, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What may be done.
    pub access: Access,
    /// Why.
    pub reason: Reason<'a>,
}

/// Why a path may be used or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason<'a> {
    /// The policy does not restrict files.
    Unrestricted,
    /// The rule at this path.
    Rule(&'a Path, &'a Rule),
    /// The pattern in this entry, and its text.
    Pattern(usize, &'a str),
    /// No rule is about it.
    NoRule,
}

impl Policy {
    /// Binds an intent to a host, or says why it cannot be.
    pub fn resolve(
        intent: &SandboxContext,
        facts: &Facts,
        host: &impl Host,
    ) -> Result<Self, Refusal> {
        resolve::resolve(intent, facts, host)
    }

    /// What may be done with a path: absolute, normal, free of links.
    pub fn decide(&self, path: &Path) -> Decision<'_> {
        let Files::Ruled(rules) = &self.files else {
            return Decision { access: Access::Write, reason: Reason::Unrestricted };
        };
        let pattern = rules.patterns.iter().find(|pattern| pattern.covers(path));
        if let Some(pattern) = pattern {
            let reason = Reason::Pattern(pattern.entry, &pattern.text);
            return Decision { access: Access::Deny, reason };
        }
        match rules.nearest(path) {
            Some((path, rule)) => {
                Decision { access: rule.access, reason: Reason::Rule(path, rule) }
            }
            None => Decision { access: Access::Deny, reason: Reason::NoRule },
        }
    }

    /// Whether everything may be read.
    pub fn full_read(&self) -> bool {
        match &self.files {
            Files::External | Files::Disabled | Files::Open => true,
            Files::Ruled(rules) => rules.access(Path::new("/")) != Access::Deny && !rules.denies,
        }
    }

    /// Whether everything may be changed.
    pub fn full_write(&self) -> bool {
        !self.restricts_files()
    }

    /// Whether any file is out of bounds.
    pub fn restricts_files(&self) -> bool {
        matches!(self.files, Files::Ruled(_))
    }

    /// Where the command starts, free of links.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The rules, shallow ones first within their tree. None where files are not restricted.
    pub fn rules(&self) -> impl Iterator<Item = (&Path, &Rule)> {
        let rules = match &self.files {
            Files::Ruled(rules) => Some(&rules.by_path),
            Files::External | Files::Disabled | Files::Open => None,
        };
        rules.into_iter().flatten().map(|(path, rule)| (path.as_path(), rule))
    }

    /// The entries without effect.
    pub fn skipped(&self) -> &[Skipped] {
        match &self.files {
            Files::Ruled(rules) => &rules.skipped,
            Files::External | Files::Disabled | Files::Open => &[],
        }
    }
}

impl Rules {
    /// The rule with the longest path that is the path or contains it.
    pub(crate) fn nearest(&self, path: &Path) -> Option<(&Path, &Rule)> {
        path.ancestors()
            .find_map(|above| self.by_path.get_key_value(above))
            .map(|(path, rule)| (path.as_path(), rule))
    }

    /// What the rules allow; patterns apart.
    pub(crate) fn access(&self, path: &Path) -> Access {
        self.nearest(path).map_or(Access::Deny, |(_, rule)| rule.access)
    }

    /// Whether a name in the directory that holds the path could be changed by the command.
    fn parent_writable(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.access(parent) == Access::Write)
    }

    /// Adds a rule; at the same path, deny comes before write and write before read.
    fn add(&mut self, path: PathBuf, rule: Rule) {
        let stronger = |old: &Rule| strength(old.access) >= strength(rule.access);
        if !self.by_path.get(&path).is_some_and(stronger) {
            self.by_path.insert(path, rule);
        }
    }

    /// Denies a path and everything below it, whatever else was said about it.
    fn deny_all(&mut self, path: &Path, object: Object, origin: Origin) {
        let below: Vec<PathBuf> =
            below(&self.by_path, path).map(|(path, _)| path.clone()).collect();
        for path in below {
            self.by_path.remove(&path);
        }
        let rule = Rule { access: Access::Deny, origin, state: State::Present(object) };
        self.by_path.insert(path.to_owned(), rule);
    }
}

/// The rules at a path and below it. Paths are ordered by component, so they stand together.
pub(crate) fn below<'a, V>(
    map: &'a BTreeMap<PathBuf, V>,
    path: &'a Path,
) -> impl Iterator<Item = (&'a PathBuf, &'a V)> {
    map.range::<Path, _>((Bound::Included(path), Bound::Unbounded))
        .take_while(move |(name, _)| name.starts_with(path))
}

/// Whether the set has the path or something below it.
fn reaches(set: &BTreeSet<PathBuf>, path: &Path) -> bool {
    set.range::<Path, _>((Bound::Included(path), Bound::Unbounded))
        .next()
        .is_some_and(|name| name.starts_with(path))
}

fn strength(access: Access) -> u8 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Deny => 2,
    }
}
