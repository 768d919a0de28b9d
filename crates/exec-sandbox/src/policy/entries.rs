//! The entries of an intent with their symbols replaced by paths: still lexical, not yet looked at.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use exec_protocol::path_uri::PathUri;
use exec_protocol::sandbox::{Access, Entry, EntryPath, SandboxContext, Special};

use super::glob::{self, Pattern};
use super::locate::normal;
use super::refusal::Refusal;
use super::{Facts, strength};

/// Entries in one policy; one more is refused.
pub const ENTRIES_MAX: usize = 10_000;
/// Claims and patterns that the entries may stand for: each can stand for one in every workspace root.
const CLAIMS_MAX: usize = 65_536;
/// A glob with this prefix is meant once for each workspace root.
const IN_EACH_ROOT: &str = "codex-project-roots://";

/// What the entries say about this host.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// About paths.
    pub paths: Vec<Claim>,
    /// What is denied wherever it matches.
    pub patterns: Vec<Pattern>,
    /// Whether the files that programs need are wanted.
    pub minimal: bool,
    /// Where the workspace is.
    pub roots: Vec<PathBuf>,
}

/// One entry about one path.
#[derive(Debug)]
pub(super) struct Claim {
    /// Which entry, from 0.
    pub entry: usize,
    /// Absolute and lexically normal.
    pub path: PathBuf,
    /// What it says.
    pub access: Access,
    /// Whether the path came from `TMPDIR`.
    pub tmpdir: bool,
}

/// Replaces the symbols.
pub(super) fn expand(
    intent: &SandboxContext,
    entries: &[Entry],
    facts: &Facts,
) -> Result<Claims, Refusal> {
    if entries.len() > ENTRIES_MAX {
        return Err(Refusal::TooMany { what: "entries", max: ENTRIES_MAX });
    }
    let bases = Bases::of(intent, entries, facts)?;
    let mut claims = Claims { roots: bases.roots.clone(), ..Claims::default() };
    for (index, entry) in entries.iter().enumerate() {
        bases.add(&mut claims, index, entry, facts)?;
        if claims.paths.len() + claims.patterns.len() > CLAIMS_MAX {
            return Err(Refusal::TooMany { what: "paths", max: CLAIMS_MAX });
        }
    }
    Ok(claims)
}

/// What an intent grants, by the letter.
#[derive(Debug)]
pub(crate) struct Grants {
    /// The whole disk, with nothing that narrows it.
    pub full_write: bool,
    /// The whole disk can be read.
    pub reads_root: bool,
    /// What can be written.
    pub writable: BTreeSet<PathBuf>,
    /// Where the workspace is.
    pub roots: Vec<PathBuf>,
}

/// Reads an intent without looking at anything.
pub(crate) fn lexical(
    intent: &SandboxContext,
    entries: &[Entry],
    facts: &Facts,
) -> Result<Grants, Refusal> {
    let claims = expand(intent, entries, facts)?;
    let root = |claim: &&Claim| claim.path == Path::new("/");
    let at_root = claims.paths.iter().filter(root).map(|claim| claim.access);
    let writable = claims.paths.iter().filter(|claim| claim.access == Access::Write);
    Ok(Grants {
        full_write: claims.full_write(),
        reads_root: at_root.max_by_key(|access| strength(*access)).unwrap_or(Access::Deny)
            != Access::Deny,
        writable: writable.map(|claim| claim.path.clone()).collect(),
        roots: claims.roots,
    })
}

impl Claims {
    /// The whole disk is writable, and no entry or pattern narrows it.
    pub(super) fn full_write(&self) -> bool {
        let written: BTreeSet<&Path> = self
            .paths
            .iter()
            .filter(|claim| claim.access == Access::Write)
            .map(|claim| claim.path.as_path())
            .collect();
        let narrows = |claim: &Claim| match claim.access {
            Access::Write => false,
            Access::Read => !written.contains(claim.path.as_path()),
            Access::Deny => true,
        };
        self.patterns.is_empty()
            && written.contains(Path::new("/"))
            && !self.paths.iter().any(narrows)
    }
}

/// The directories that symbols stand for.
struct Bases {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
}

impl Bases {
    /// `policyContext` replaces the members beside it. An intent without symbols has no use for them.
    fn of(intent: &SandboxContext, entries: &[Entry], facts: &Facts) -> Result<Self, Refusal> {
        if !entries.iter().any(is_symbolic) {
            return Ok(Self { cwd: facts.cwd.clone(), roots: Vec::new() });
        }
        let context = intent.policy_context.as_ref();
        let cwd = context.and_then(|context| context.cwd.as_ref()).or(intent.cwd.as_ref());
        let roots = match context {
            Some(context) => context.workspace_roots.as_deref(),
            None => intent.workspace_roots.as_deref(),
        };
        Ok(Self {
            cwd: cwd.map(native).transpose()?.unwrap_or_else(|| facts.cwd.clone()),
            roots: roots.unwrap_or_default().iter().map(native).collect::<Result<_, _>>()?,
        })
    }

    fn add(
        &self,
        claims: &mut Claims,
        index: usize,
        entry: &Entry,
        facts: &Facts,
    ) -> Result<(), Refusal> {
        let claim =
            |path: PathBuf| Claim { entry: index, path, access: entry.access, tmpdir: false };
        match &entry.path {
            EntryPath::Path { path } => {
                let path =
                    path.to_native().map_err(|reason| Refusal::Foreign { entry: index, reason })?;
                claims.paths.push(claim(normal(&path)));
            }
            EntryPath::GlobPattern { pattern } if entry.access == Access::Deny => {
                self.add_pattern(claims, index, pattern)?;
            }
            // A pattern can only deny.
            EntryPath::GlobPattern { .. } => {}
            EntryPath::Special { value } => match value {
                Special::Root => claims.paths.push(claim("/".into())),
                Special::Minimal => claims.minimal |= entry.access != Access::Deny,
                Special::ProjectRoots { subpath } => {
                    let subpath = subpath.as_deref().unwrap_or_default();
                    if stays_inside(Path::new(subpath)) {
                        let below = |root: &PathBuf| claim(normal(&root.join(subpath)));
                        claims.paths.extend(self.roots.iter().map(below));
                    }
                }
                Special::SlashTmp => claims.paths.push(claim("/tmp".into())),
                Special::Tmpdir => {
                    let given = facts.tmpdir.as_ref().filter(|path| !path.as_os_str().is_empty());
                    claims
                        .paths
                        .extend(given.map(|path| Claim { tmpdir: true, ..claim(path.to_owned()) }));
                }
                // From a newer client; it cannot be meant to grant anything here.
                Special::Unknown { .. } => {}
            },
        }
        Ok(())
    }

    fn add_pattern(&self, claims: &mut Claims, index: usize, text: &str) -> Result<(), Refusal> {
        let (bases, relative) = match text.strip_prefix(IN_EACH_ROOT) {
            Some(relative) => (self.roots.as_slice(), relative.trim_start_matches('/')),
            None => (std::slice::from_ref(&self.cwd), text),
        };
        for base in bases {
            for alternative in glob::compile(base, relative).map_err(|reason| Refusal::Pattern {
                entry: index,
                pattern: text.to_owned(),
                reason,
            })? {
                claims.patterns.push(alternative.of_entry(index, text));
            }
        }
        Ok(())
    }
}

/// Whether the entry's meaning depends on where the policy is anchored.
fn is_symbolic(entry: &Entry) -> bool {
    match &entry.path {
        EntryPath::Path { .. } => false,
        EntryPath::GlobPattern { .. } => true,
        EntryPath::Special { value } => matches!(value, Special::ProjectRoots { .. }),
    }
}

fn native(uri: &PathUri) -> Result<PathBuf, Refusal> {
    uri.to_native().map(|path| normal(&path)).map_err(Refusal::ForeignContext)
}

/// Whether a path below a root stays below it, at every step.
fn stays_inside(subpath: &Path) -> bool {
    if subpath.as_os_str().as_encoded_bytes().contains(&0) {
        return false;
    }
    let mut depth = 0_usize;
    subpath.components().all(|component| match component {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::CurDir => true,
        Component::ParentDir => match depth.checked_sub(1) {
            Some(less) => {
                depth = less;
                true
            }
            None => false,
        },
        Component::RootDir | Component::Prefix(_) => false,
    })
}
