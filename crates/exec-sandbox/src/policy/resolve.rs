//! The way from an intent to a policy: entries, places, rules, what is protected besides.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox::{Access, FileSystem, Network, Permissions, SandboxContext};

use super::entries::{Claim, Claims, expand};
use super::host::{Host, Kind, Object};
use super::locate::{Found, Place, locate};
use super::refusal::Refusal;
use super::scan::{Budget, scan};
use super::{Facts, Files, Origin, Pattern, Policy, Rule, Rules, Skipped, State, metadata};

/// What `minimal` means on Linux.
const PLATFORM: [&str; 8] =
    ["/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw"];
/// Made anew in every view; there is nothing of the host to grant there.
const PROCESSES: &str = "/proc";
/// Made anew too, but single things of the host may be put into it.
const DEVICES: &str = "/dev";
/// What the private `/dev` has of the host's.
const DEVICE_NAMES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

pub(super) fn resolve(
    intent: &SandboxContext,
    facts: &Facts,
    host: &impl Host,
) -> Result<Policy, Refusal> {
    let (files, network) = match &intent.permissions {
        Permissions::Disabled => (Files::Disabled, Network::Enabled),
        Permissions::External { network } => (Files::External, *network),
        Permissions::Managed { file_system: FileSystem::Unrestricted, network } => {
            (Files::Open, *network)
        }
        Permissions::Managed {
            file_system: FileSystem::Restricted { entries, glob_scan_max_depth },
            network,
        } => {
            let claims = expand(intent, entries, facts)?;
            let depth_max = glob_scan_max_depth.map(std::num::NonZeroUsize::get);
            let files = match claims.full_write() {
                true => Files::Open,
                false => Files::Ruled(Resolver::new(host).run(intent, claims, facts, depth_max)?),
            };
            (files, *network)
        }
    };
    let mut policy = Policy { network, files, cwd: facts.cwd.clone(), hidden: Default::default() };
    match &policy.files {
        Files::Ruled(_) => policy.cwd = starting_place(&policy, facts, host)?,
        Files::Open => {
            policy.hidden = hidden(facts, host)?.into_iter().collect();
            policy.cwd = locate(host, &facts.cwd)?.path;
        }
        Files::External | Files::Disabled => {}
    }
    Ok(policy)
}

/// An entry and where it leads.
struct Placed {
    claim: Claim,
    place: Place,
}

struct Resolver<'a, H> {
    host: &'a H,
    rules: Rules,
    /// The paths of write entries, exist or not.
    opened: BTreeSet<PathBuf>,
}

impl<'a, H: Host> Resolver<'a, H> {
    fn new(host: &'a H) -> Self {
        Self { host, rules: Rules::default(), opened: BTreeSet::new() }
    }

    fn run(
        mut self,
        intent: &SandboxContext,
        claims: Claims,
        facts: &Facts,
        depth_max: Option<usize>,
    ) -> Result<Rules, Refusal> {
        let Claims { paths, patterns, minimal, roots } = claims;
        let denies = |claim: &Claim| claim.access == Access::Deny && claim.path != Path::new("/");
        self.rules.denies = !patterns.is_empty() || paths.iter().any(denies);
        let (temporary, ordinary): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|claim| claim.tmpdir);
        let placed = self.place_all(ordinary)?;
        self.add_present(&placed);
        let temporary = self.place_temporary(temporary, intent, facts, &roots, &placed)?;
        self.add_present(&temporary);
        if minimal && self.rules.access(Path::new("/")) == Access::Deny {
            for path in PLATFORM {
                self.add_readable(Path::new(path), Origin::Platform)?;
            }
        }
        for path in &facts.readable {
            self.add_readable(path, Origin::Launcher)?;
        }
        for placed in placed.iter().chain(&temporary) {
            self.check_links(placed)?;
            self.add_absent(placed)?;
        }
        metadata::protect_all(&mut self.rules, &self.opened, self.host)?;
        self.add_patterns(patterns, depth_max, facts)?;
        for (path, object) in hidden(facts, self.host)? {
            self.rules.deny_all(&path, object, Origin::Server);
        }
        Ok(self.rules)
    }

    /// Finds the places. What the private `/proc` and `/dev` replace has none.
    fn place_all(&mut self, claims: Vec<Claim>) -> Result<Vec<Placed>, Refusal> {
        let mut placed = Vec::with_capacity(claims.len());
        for claim in claims {
            let place = locate(self.host, &claim.path)?;
            if let Some(reason) = replaced(&claim, &place)? {
                self.skip(&claim, reason);
                continue;
            }
            // What a variable names opens no metadata.
            if claim.access == Access::Write && !claim.tmpdir {
                self.opened.insert(place.path.clone());
            }
            placed.push(Placed { claim, place });
        }
        Ok(placed)
    }

    /// Entries without links on their way come first: they say which links can be trusted.
    fn add_present(&mut self, placed: &[Placed]) {
        for Placed { claim, place } in placed {
            if let Found::Object(object) = place.found {
                let rule = Rule {
                    access: claim.access,
                    origin: Origin::Entry(claim.entry),
                    state: State::Present(object),
                };
                self.rules.add(place.path.clone(), rule);
                if claim.access != Access::Deny {
                    self.remember_links(place);
                }
            }
        }
    }

    fn remember_links(&mut self, place: &Place) {
        let links = place.links.iter().map(|link| (link.path.clone(), link.target.clone()));
        self.rules.links.extend(links);
    }

    /// A directory that opens more than temporary files is refused, unless it was open anyway.
    fn place_temporary(
        &mut self,
        claims: Vec<Claim>,
        intent: &SandboxContext,
        facts: &Facts,
        roots: &[PathBuf],
        others: &[Placed],
    ) -> Result<Vec<Placed>, Refusal> {
        let Some(path) = claims.first().map(|claim| claim.path.clone()) else {
            return Ok(Vec::new());
        };
        let refuse = |reason| Err(Refusal::Tmpdir { path: path.clone(), reason });
        if !path.is_absolute() {
            return refuse("is not absolute");
        }
        let place = locate(self.host, &path)?;
        match place.found {
            Found::Object(Object { kind: Kind::Directory, .. }) => {}
            Found::Object(_) => return refuse("is no directory"),
            Found::Missing(_) | Found::Blocked(..) | Found::Unknown(_) => {
                return refuse("does not exist");
            }
        }
        if place.path == Path::new("/") {
            return refuse("is the whole disk");
        }
        if self.rules.access(&place.path) != Access::Write {
            let home = intent.user_home_dir.as_ref().and_then(|home| home.to_native().ok());
            for home in home.iter().chain(&facts.home) {
                if locate(self.host, home)?.path.starts_with(&place.path) {
                    return refuse("contains the home directory");
                }
            }
            for root in roots {
                if locate(self.host, root)?.path.starts_with(&place.path) {
                    return refuse("contains a workspace root");
                }
            }
        }
        if self.lies_in_protected(&place.path)? {
            return refuse("lies in what is protected");
        }
        let denied = |other: &Placed| {
            other.claim.access == Access::Deny
                && other.place.path != place.path
                && other.place.path.starts_with(&place.path)
        };
        if self.rules.access(&place.path) != Access::Write && others.iter().any(denied) {
            return refuse("contains a denied path");
        }
        let claims =
            claims.into_iter().map(|claim| Claim { path: path.clone(), ..claim }).collect();
        self.place_all(claims)
    }

    /// Whether the nearest rule takes the path out of something that may be written, or denies it:
    /// a variable must not open what an entry or the name of metadata closes.
    fn lies_in_protected(&self, path: &Path) -> Result<bool, Refusal> {
        let mut rules = self.rules.clone();
        metadata::protect_all(&mut rules, &self.opened, self.host)?;
        let writable = |at: &Path| rules.access(at) == Access::Write;
        let nearest = path.ancestors().find_map(|at| Some((at, rules.by_path.get(at)?)));
        Ok(nearest.is_some_and(|(at, rule)| match rule.access {
            Access::Write => false,
            Access::Deny => at != Path::new("/"),
            Access::Read => at.parent().is_some_and(writable),
        }))
    }

    fn add_readable(&mut self, path: &Path, origin: Origin) -> Result<(), Refusal> {
        let place = locate(self.host, path)?;
        if let Found::Object(object) = place.found
            && self.rules.access(&place.path) == Access::Deny
        {
            let rule = Rule { access: Access::Read, origin, state: State::Present(object) };
            self.remember_links(&place);
            self.rules.add(place.path, rule);
        } else if matches!(place.found, Found::Object(_)) {
            self.remember_links(&place);
        }
        Ok(())
    }

    /// Where the command could lead a link elsewhere, an entry behind it means nothing. A metadata
    /// name is kept in place instead; a grant of what is writable anyway does no harm.
    fn check_links(&mut self, placed: &Placed) -> Result<(), Refusal> {
        let Placed { claim, place } = placed;
        for link in &place.links {
            if !self.rules.parent_writable(&link.path) {
                continue;
            }
            if metadata::is_metadata(&self.rules, &link.path) {
                metadata::pin(&mut self.rules, self.host, &link.path)?;
            } else if !(claim.access == Access::Write && self.is_writable_anyway(place)) {
                return Err(Refusal::WritableLink {
                    entry: claim.entry,
                    path: claim.path.clone(),
                    link: link.path.clone(),
                });
            }
        }
        Ok(())
    }

    /// Whether a rule above the place already lets it be written.
    fn is_writable_anyway(&self, place: &Place) -> bool {
        place.path.parent().is_some_and(|above| self.rules.access(above) == Access::Write)
    }

    /// What does not exist grants nothing; but where something is protected that does not exist, the
    /// first name that is missing must not appear.
    fn add_absent(&mut self, placed: &Placed) -> Result<(), Refusal> {
        let Placed { claim, place } = placed;
        let (at, state) = match &place.found {
            Found::Object(_) => return Ok(()),
            Found::Missing(at) => {
                let placeholder = at.parent().is_some_and(|parent| self.host.may_add(parent));
                (at, State::Missing { placeholder })
            }
            Found::Blocked(at, object) => (at, State::Present(*object)),
            Found::Unknown(at) => {
                if claim.access != Access::Write && self.rules.parent_writable(at) {
                    let source = std::io::ErrorKind::PermissionDenied.into();
                    return Err(Refusal::Host { path: at.clone(), source });
                }
                self.skip(claim, "cannot be examined, so not be used either");
                return Ok(());
            }
        };
        if claim.access == Access::Write || !self.rules.parent_writable(at) {
            self.skip(claim, "does not exist");
            return Ok(());
        }
        let itself = *at == place.path;
        let rule = Rule {
            access: if itself { claim.access } else { Access::Read },
            origin: if itself { Origin::Entry(claim.entry) } else { Origin::WayTo(claim.entry) },
            state,
        };
        self.rules.add(at.clone(), rule);
        Ok(())
    }

    fn add_patterns(
        &mut self,
        patterns: Vec<Pattern>,
        depth_max: Option<usize>,
        facts: &Facts,
    ) -> Result<(), Refusal> {
        let mut budget = Budget::new(depth_max);
        for mut pattern in patterns {
            let base = locate(self.host, &pattern.base)?;
            // From here on it is about real paths, like the rules.
            pattern.base = base.path.clone();
            self.add_matches(&pattern, base, &mut budget, facts)?;
            self.rules.patterns.push(pattern);
        }
        Ok(())
    }

    /// Denies what matches: files, directories with all that is in them, and where links lead.
    fn add_matches(
        &mut self,
        pattern: &Pattern,
        base: Place,
        budget: &mut Budget,
        facts: &Facts,
    ) -> Result<(), Refusal> {
        let refuse = |reason| {
            Err(Refusal::Pattern { entry: pattern.entry, pattern: pattern.text.clone(), reason })
        };
        if base.path.starts_with(PROCESSES) || base.path == Path::new("/") {
            return refuse("is about what the sandbox replaces, or about everything");
        }
        if base.links.iter().any(|link| self.rules.parent_writable(&link.path)) {
            return refuse("begins behind a link in a writable directory");
        }
        let origin = || Origin::Pattern(pattern.entry);
        if pattern.is_literal() {
            let claim = Claim {
                entry: pattern.entry,
                path: pattern.base.clone(),
                access: Access::Deny,
                tmpdir: false,
            };
            if let Found::Object(object) = base.found {
                self.rules.deny_all(&base.path, object, origin());
                return Ok(());
            }
            return self.add_absent(&Placed { claim, place: base });
        }
        if !matches!(base.found, Found::Object(Object { kind: Kind::Directory, .. })) {
            return Ok(());
        }
        let within = locate(self.host, &facts.cwd)?.path;
        for (path, kind) in scan(self.host, pattern, &base.path, budget)? {
            // For a listed name that is no link, this finds the name itself.
            let target = locate(self.host, &path)?;
            let Found::Object(object) = target.found else { continue };
            let holds_work = |path: &Path| path.starts_with(&target.path);
            let opens =
                |(path, rule): (&PathBuf, &Rule)| rule.access == Access::Write && holds_work(path);
            // A link to a directory that the policy opens by name hides nothing; it would only
            // close the workspace to itself.
            let leads_home = kind == Kind::Link
                && (holds_work(&base.path)
                    || holds_work(&within)
                    || self.rules.by_path.iter().any(opens));
            if !leads_home {
                self.rules.deny_all(&target.path, object, origin());
            }
        }
        Ok(())
    }

    fn skip(&mut self, claim: &Claim, reason: &'static str) {
        let (entry, path) = (claim.entry, claim.path.clone());
        self.rules.skipped.push(Skipped { entry, path, reason });
    }
}

/// Why a claim has no effect in a view with its own `/proc` and `/dev`, or none that can be made.
fn replaced(claim: &Claim, place: &Place) -> Result<Option<&'static str>, Refusal> {
    let path = &place.path;
    if path == Path::new(PROCESSES) || path == Path::new(DEVICES) {
        let reason = "is always private to the command";
        return Ok((claim.access != Access::Deny).then_some(reason));
    }
    if let Ok(below) = path.strip_prefix(PROCESSES) {
        let first = below.components().next().map(|first| first.as_os_str().to_string_lossy());
        let named = first.is_some_and(|name| name.starts_with(|letter: char| letter.is_numeric()));
        return match claim.access {
            Access::Deny if named => Err(Refusal::Unenforceable {
                entry: claim.entry,
                path: claim.path.clone(),
                reason: "the command has processes of its own",
            }),
            Access::Deny => Ok(None),
            Access::Read | Access::Write => Ok(Some("is always private to the command")),
        };
    }
    if let Ok(below) = path.strip_prefix(DEVICES)
        && claim.access == Access::Deny
        && !below.starts_with("shm")
        && !DEVICE_NAMES.iter().any(|name| below == Path::new(name))
    {
        return Ok(Some("is not in the private /dev"));
    }
    Ok(None)
}

/// What belongs to the server, as far as it exists.
fn hidden(facts: &Facts, host: &impl Host) -> Result<Vec<(PathBuf, Object)>, Refusal> {
    let mut hidden = Vec::new();
    for path in &facts.hidden {
        let place = locate(host, path)?;
        if let Found::Object(object) = place.found {
            hidden.push((place.path, object));
        }
    }
    Ok(hidden)
}

/// Where the command starts: a directory that it may see.
fn starting_place(policy: &Policy, facts: &Facts, host: &impl Host) -> Result<PathBuf, Refusal> {
    let place = locate(host, &facts.cwd)?;
    let refuse = |reason| Err(Refusal::Cwd { path: facts.cwd.clone(), reason });
    match &place.found {
        Found::Object(Object { kind: Kind::Directory, .. }) => {}
        Found::Object(_) | Found::Blocked(..) => return refuse("is no directory"),
        Found::Missing(_) => {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(Refusal::Host { path: facts.cwd.clone(), source });
        }
        Found::Unknown(_) => {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(Refusal::Host { path: facts.cwd.clone(), source });
        }
    }
    let private = place.path.starts_with(PROCESSES) || place.path.starts_with(DEVICES);
    match policy.decide(&place.path).reason {
        super::Reason::NoRule => {
            let opens_below = policy
                .rules()
                .any(|(path, rule)| rule.access != Access::Deny && path.starts_with(&place.path));
            if place.path != Path::new("/") && !opens_below {
                return refuse("is not visible to the command");
            }
        }
        _ if private && place.path != Path::new(DEVICES) && place.path != Path::new(PROCESSES) => {
            return refuse("is not in the sandbox");
        }
        super::Reason::Rule(path, rule)
            if rule.access == Access::Deny && path != Path::new("/") =>
        {
            return refuse("is denied");
        }
        super::Reason::Pattern(..) => return refuse("is denied"),
        super::Reason::Rule(..) | super::Reason::Unrestricted => {}
    }
    Ok(place.path)
}
