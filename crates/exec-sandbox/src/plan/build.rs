//! From a policy to the mounts that make it true.
//!
//! A directory before what is in it, so that the most specific rule is mounted last and wins. Where a rule lies in
//! a writable directory, every directory on the way to it is pinned: it could be renamed otherwise,
//! and the next command would find the rule's object under another name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use exec_protocol::sandbox as wire;

use super::{
    Access, Filter, MaskMode, Mount, Network, Placeholder, PlaceholderKind, Plan, Root, View,
    Witness,
};
use crate::policy::{
    Access as Allowed, Files, Host, Kind, Object, Policy, Refusal, Rule, Rules, State, below,
};

/// Mounts in one view. The kernel allows 100,000 in a namespace, the host's own among them.
const MOUNTS_MAX: usize = 65_536;

impl Plan {
    /// What has to be done for a policy to hold.
    pub fn build(policy: &Policy, host: &impl Host) -> Result<Self, Refusal> {
        let open = policy.network == wire::Network::Enabled;
        let (view, network, filter) = match &policy.files {
            Files::Ruled(rules) => {
                let view = Builder::new(rules, host).view()?;
                match open {
                    true => (Some(view), Network::Host, Filter::NetworkOpen),
                    false => (Some(view), Network::Isolated, Filter::Restricted),
                }
            }
            // Nothing is asked of us.
            Files::External | Files::Disabled | Files::Open if open => {
                (None, Network::Host, Filter::None)
            }
            // Somebody else has a sandbox around us, where namespaces may not be had.
            Files::External | Files::Disabled => (None, Network::Host, Filter::Restricted),
            // A filter alone leaves sockets that were opened by others; only an empty network
            // namespace leaves nothing, and it comes with a view. All of the disk is in it.
            Files::Open => (Some(open_view(policy)), Network::Isolated, Filter::Restricted),
        };
        Ok(Self { view, network, filter, cwd: policy.cwd.clone() })
    }
}

/// The whole disk, writable, but for what is the server's own.
fn open_view(policy: &Policy) -> View {
    let mut mounts = base(Root::HostWritable, Vec::new());
    let mut witnesses = Vec::new();
    for (path, object) in &policy.hidden {
        mounts.push(mask(path, object.kind, MaskMode::Closed, Points::default()));
        witnesses.push(witness(path, *object));
    }
    View { mounts, placeholders: Vec::new(), witnesses, writable: vec!["/".into()] }
}

/// What every view begins with.
fn base(root: Root, links: Vec<Mount>) -> Vec<Mount> {
    let mut mounts = vec![Mount::Root(root)];
    mounts.extend(links);
    mounts.push(Mount::Devices);
    if root == Root::HostWritable {
        mounts.push(Mount::SharedMemory);
    }
    mounts.push(Mount::Processes);
    mounts
}

/// What a mount makes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    ReadOnly,
    Writable,
    Masked,
}

/// Mount points that a mask needs for what is reopened in it.
#[derive(Debug, Default)]
struct Points {
    passages: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

struct Builder<'a, H> {
    rules: &'a Rules,
    host: &'a H,
    /// What is mounted so far, or going to be, by path.
    effects: BTreeMap<PathBuf, Effect>,
    view: View,
}

impl<'a, H: Host> Builder<'a, H> {
    fn new(rules: &'a Rules, host: &'a H) -> Self {
        let (root, effect) = match rules.access(Path::new("/")) {
            Allowed::Read => (Root::HostReadOnly, Effect::ReadOnly),
            Allowed::Write => (Root::HostWritable, Effect::Writable),
            Allowed::Deny => (Root::Empty, Effect::Nothing),
        };
        let links = match root {
            Root::Empty => rules
                .links
                .iter()
                .map(|(path, target)| Mount::Link { path: path.clone(), target: target.clone() })
                .collect(),
            Root::HostReadOnly | Root::HostWritable => Vec::new(),
        };
        let mut writable = vec![PathBuf::from("/dev"), PathBuf::from("/proc")];
        if root == Root::HostWritable {
            writable = vec!["/".into()];
        }
        let mounts = base(root, links);
        Self {
            rules,
            host,
            effects: [(PathBuf::from("/"), effect)].into(),
            view: View { mounts, placeholders: Vec::new(), witnesses: Vec::new(), writable },
        }
    }

    fn view(mut self) -> Result<View, Refusal> {
        // In the order of paths a directory comes before what is in it.
        let rules = self.rules.by_path.iter();
        let mounted: Vec<_> = rules.filter(|(path, rule)| self.is_needed(path, rule)).collect();
        // A mask is sealed at once, so it has to know now what will be mounted in it later.
        let mut points = self.points(&mounted);
        self.effects.retain(|path, _| path == Path::new("/"));
        for (path, rule) in mounted {
            self.pin_way(path)?;
            self.mount(path, rule, points.remove(path).unwrap_or_default());
            self.effects.insert(path.clone(), effect(rule));
            self.check_size()?;
        }
        for (link, object) in &self.rules.pinned_links {
            // A mask that came later may hide it.
            if self.enclosing(link).1 != Effect::Writable {
                continue;
            }
            self.pin_way(link)?;
            self.view.mounts.push(Mount::PinLink(link.clone()));
            self.view.witnesses.push(witness(link, *object));
        }
        if self.view.mounts[0] == Mount::Root(Root::Empty) {
            self.view.mounts.push(Mount::SealRoot);
        }
        self.check_size()?;
        Ok(self.view)
    }

    /// Whether a rule changes what the mounts above it make of its path. Asked in the order of paths.
    fn is_needed(&mut self, path: &Path, rule: &Rule) -> bool {
        if path == Path::new("/") {
            return false;
        }
        let above = self.enclosing(path).1;
        let reopened =
            || below(&self.rules.by_path, path).any(|(_, rule)| rule.access != Allowed::Deny);
        let needed = match (rule.access, rule.state) {
            // Nobody could put anything there.
            (_, State::Missing { placeholder }) => placeholder,
            (Allowed::Write, _) => true,
            (Allowed::Read, _) => above != Effect::ReadOnly,
            (Allowed::Deny, _) => match above {
                Effect::ReadOnly | Effect::Writable => true,
                Effect::Masked => false,
                Effect::Nothing => reopened(),
            },
        };
        if needed {
            self.effects.insert(path.to_owned(), effect(rule));
        }
        needed
    }

    /// For every mask, the mount points inside.
    fn points(&self, mounted: &[(&PathBuf, &Rule)]) -> BTreeMap<PathBuf, Points> {
        let mut all: BTreeMap<PathBuf, Points> = BTreeMap::new();
        for (path, rule) in mounted {
            let (above, effect) = self.enclosing(path);
            if effect != Effect::Masked {
                continue;
            }
            let points = all.entry(above.to_owned()).or_default();
            points.passages.extend(between(above, path));
            match rule.state {
                State::Present(Object { kind: Kind::Directory, .. }) | State::Missing { .. } => {
                    points.passages.push((*path).clone());
                }
                State::Present(_) => points.files.push((*path).clone()),
            }
        }
        for points in all.values_mut() {
            // Ordered by component, a directory comes before what is in it.
            points.passages.sort();
            points.passages.dedup();
        }
        all
    }

    /// The mount that a path lies in.
    fn enclosing(&self, path: &Path) -> (&Path, Effect) {
        let mut above = path.ancestors().skip(1);
        above
            .find_map(|above| self.effects.get_key_value(above))
            .map_or((Path::new("/"), Effect::Nothing), |(path, effect)| (path.as_path(), *effect))
    }

    /// Pins the directories between a writable mount and the path.
    fn pin_way(&mut self, path: &Path) -> Result<(), Refusal> {
        let (above, effect) = self.enclosing(path);
        if effect != Effect::Writable {
            return Ok(());
        }
        for directory in between(above, path) {
            let look = self.host.look(&directory);
            let object =
                look.map_err(|source| Refusal::Host { path: directory.clone(), source })?;
            if let Some(object) = object {
                self.view.witnesses.push(witness(&directory, object));
            }
            self.view.mounts.push(Mount::Pin(directory.clone()));
            self.effects.insert(directory, Effect::Writable);
        }
        Ok(())
    }

    fn mount(&mut self, path: &Path, rule: &Rule, points: Points) {
        let reopened = !points.passages.is_empty() || !points.files.is_empty();
        let mount = match (rule.access, rule.state) {
            (Allowed::Write, State::Present(_)) => {
                self.view.writable.push(path.to_owned());
                Mount::Bind { path: path.to_owned(), access: Access::Writable }
            }
            (Allowed::Read, State::Present(_)) => {
                Mount::Bind { path: path.to_owned(), access: Access::ReadOnly }
            }
            (Allowed::Deny, State::Present(object)) => {
                let mode = if reopened { MaskMode::Passage } else { MaskMode::Closed };
                mask(path, object.kind, mode, points)
            }
            (access, State::Missing { .. }) => {
                let kind = PlaceholderKind::Directory;
                self.view.placeholders.push(Placeholder { path: path.to_owned(), kind });
                let closed = access == Allowed::Deny;
                let mode = if closed { MaskMode::Closed } else { MaskMode::Listed };
                mask(path, Kind::Directory, mode, points)
            }
        };
        if let State::Present(object) = rule.state {
            self.view.witnesses.push(witness(path, object));
        }
        self.view.mounts.push(mount);
    }

    fn check_size(&self) -> Result<(), Refusal> {
        match self.view.mounts.len() > MOUNTS_MAX {
            true => Err(Refusal::TooMany { what: "mounts", max: MOUNTS_MAX }),
            false => Ok(()),
        }
    }
}

/// What a rule's own mount makes of its path.
fn effect(rule: &Rule) -> Effect {
    match (rule.access, rule.state) {
        (Allowed::Deny, _) | (_, State::Missing { .. }) => Effect::Masked,
        (Allowed::Read, _) => Effect::ReadOnly,
        (Allowed::Write, _) => Effect::Writable,
    }
}

fn mask(path: &Path, kind: Kind, mode: MaskMode, points: Points) -> Mount {
    match kind {
        Kind::Directory => Mount::MaskDirectory {
            path: path.to_owned(),
            mode,
            passages: points.passages,
            files: points.files,
        },
        Kind::File | Kind::Link | Kind::Other => Mount::MaskFile(path.to_owned()),
    }
}

fn witness(path: &Path, object: Object) -> Witness {
    Witness { path: path.to_owned(), device: object.device, inode: object.inode }
}

/// The directories between two paths, shallow first, neither included.
fn between(above: &Path, path: &Path) -> Vec<PathBuf> {
    let mut way: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .take_while(|directory| *directory != above)
        .map(Path::to_owned)
        .collect();
    way.reverse();
    way
}
