//! From a path as written to the place it means: links followed, one component at a time, and each
//! of them remembered.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::host::{Host, Kind, Object};
use super::refusal::Refusal;

/// Links on one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Bytes and components of one path, as in the kernel.
const PATH_BYTES_MAX: usize = 4096;

/// Where a path leads.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Without links, as far as it exists; what follows is lexical.
    pub path: PathBuf,
    /// What is there.
    pub found: Found,
    /// The links that were followed, in order.
    pub links: Vec<CrossedLink>,
}

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// This.
    Object(Object),
    /// Nothing; the first component that does not exist.
    Missing(PathBuf),
    /// Nothing, because this is in the way and no directory.
    Blocked(PathBuf, Object),
    /// We may not know; the first component that we may not look at.
    Unknown(PathBuf),
}

/// A link on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrossedLink {
    /// Where it is; no link before it.
    pub path: PathBuf,
    /// What it says.
    pub target: PathBuf,
}

/// Finds the place. The path is absolute.
pub(crate) fn locate(host: &impl Host, path: &Path) -> Result<Place, Refusal> {
    let mut ahead = components(path);
    let mut here = PathBuf::from("/");
    let mut links = Vec::new();
    let mut object = look(host, &here)?;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            here.pop();
            object = look(host, &here)?;
            continue;
        }
        if let Some(blocking) = object.filter(|object| object.kind != Kind::Directory) {
            let found = Found::Blocked(here.clone(), blocking);
            return Ok(Place { path: rest(here, name, ahead), found, links });
        }
        let next = here.join(&name);
        if next.as_os_str().len() > PATH_BYTES_MAX {
            return Err(Refusal::LinkLoop { path: path.to_owned() });
        }
        object = match host.look(&next) {
            Ok(object) => object,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Place {
                    path: rest(here, name, ahead),
                    found: Found::Unknown(next),
                    links,
                });
            }
            Err(source) => return Err(Refusal::Host { path: next, source }),
        };
        match object {
            None => {
                let path = rest(here, name, ahead);
                return Ok(Place { path, found: Found::Missing(next), links });
            }
            Some(Object { kind: Kind::Link, .. }) => {
                if links.len() >= LINKS_MAX {
                    return Err(Refusal::LinkLoop { path: path.to_owned() });
                }
                let target = match host.read_link(&next) {
                    Ok(target) => target,
                    Err(source) => return Err(Refusal::Host { path: next, source }),
                };
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                object = look(host, &here)?;
                let mut through = components(&target);
                through.append(&mut ahead);
                ahead = through;
                links.push(CrossedLink { path: next, target });
            }
            Some(_) => here = next,
        }
    }
    let found = object.map_or_else(|| Found::Missing(here.clone()), Found::Object);
    Ok(Place { path: here, found, links })
}

fn look(host: &impl Host, path: &Path) -> Result<Option<Object>, Refusal> {
    host.look(path).map_err(|source| Refusal::Host { path: path.to_owned(), source })
}

/// The names to walk, `..` among them: behind a link it has to be taken literally.
fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// What is left to walk where nothing exists.
fn rest(here: PathBuf, name: OsString, ahead: VecDeque<OsString>) -> PathBuf {
    normal(&ahead.into_iter().fold(here.join(name), |path, name| path.join(name)))
}

/// Collapses `.` and `..` lexically. The path is absolute.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}
