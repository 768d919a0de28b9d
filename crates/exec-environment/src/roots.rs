//! `capabilityRoots/discoverV1`: the files of plugins and skills below given directories.

use std::sync::atomic::AtomicBool;

use exec_protocol::capability::{
    CapabilityFile, CapabilityRoot, DiscoverRootsParams, DiscoverRootsResult, DiscoveredRoot,
};

use crate::bundle::{self, Absent, Bundle};
use crate::error::Error;
use crate::limits::{Limits, ROOTS_MAX};

/// Looks through each root. What is wrong with one is said of it; the others are not touched by it.
/// Under which restrictions to look is for the caller to decide.
pub fn discover(
    params: &DiscoverRootsParams,
    limits: &Limits,
    cancelled: &AtomicBool,
) -> Result<DiscoverRootsResult, Error> {
    check(params)?;
    let roots = params.roots.iter().map(|root| discover_one(root, limits, cancelled));
    Ok(fit(roots.collect::<Result<_, _>>()?, limits))
}

/// Refuses what asks for too much.
pub fn check(params: &DiscoverRootsParams) -> Result<(), Error> {
    if params.roots.len() > ROOTS_MAX { Err(Error::TooManyRoots) } else { Ok(()) }
}

/// The answer, with as many of the roots in order as fit it.
pub fn fit(found: Vec<DiscoveredRoot>, limits: &Limits) -> DiscoverRootsResult {
    let mut left = Budget::new(limits);
    let fit = |found: DiscoveredRoot| match left.take(&found) {
        Some(()) => found,
        None => {
            let root = CapabilityRoot { id: found.id, path: found.path, sandbox: None };
            failed(&root, "capability root does not fit the answer".to_owned())
        }
    };
    DiscoverRootsResult { roots: found.into_iter().map(fit).collect() }
}

fn discover_one(
    root: &CapabilityRoot,
    limits: &Limits,
    cancelled: &AtomicBool,
) -> Result<DiscoveredRoot, Error> {
    let uri = root.path.as_str();
    let path = match root.path.to_native() {
        Ok(path) => path,
        Err(error) => {
            let why = format!("failed to inspect capability root {uri}: {error}");
            return Ok(failed(root, why));
        }
    };
    Ok(match bundle::read(&path, limits, cancelled)? {
        Ok(bundle) => succeeded(root, bundle),
        Err(Absent::Unreadable(error)) => {
            failed(root, format!("failed to inspect capability root {uri}: {error}"))
        }
        Err(Absent::NotADirectory) => {
            failed(root, format!("capability root {uri} is not a directory"))
        }
    })
}

fn succeeded(root: &CapabilityRoot, bundle: Bundle) -> DiscoveredRoot {
    DiscoveredRoot {
        id: root.id.clone(),
        path: root.path.clone(),
        plugin: bundle.plugin,
        skills: bundle.skills.into_iter().map(|skill| skill.files).collect(),
        namespace_manifests: bundle.namespaces.into_iter().map(|found| found.manifest).collect(),
        warnings: bundle.warnings,
        error: None,
    }
}

fn failed(root: &CapabilityRoot, error: String) -> DiscoveredRoot {
    DiscoveredRoot { error: Some(error), ..succeeded(root, Bundle::default()) }
}

/// What still fits one message.
pub(crate) struct Budget {
    bytes: usize,
    values: usize,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { bytes: limits.answer_bytes_max, values: limits.answer_values_max }
    }

    fn take(&mut self, root: &DiscoveredRoot) -> Option<()> {
        let plugin = root.plugin.iter().flat_map(|plugin| {
            [Some(&plugin.manifest), plugin.mcp_config.as_ref(), plugin.apps_config.as_ref()]
        });
        let skills = root
            .skills
            .iter()
            .flat_map(|skill| [Some(&skill.instructions), skill.metadata.as_ref()]);
        let files = plugin.chain(skills).flatten().chain(&root.namespace_manifests);
        let texts = root.warnings.iter().chain([&root.id]).map(String::as_str);
        self.take_texts(texts.chain([root.path.as_str()]))?;
        self.take_files(files)
    }

    /// None where they do not fit; then nothing is taken.
    pub(crate) fn take_files<'a>(
        &mut self,
        files: impl Iterator<Item = &'a CapabilityFile>,
    ) -> Option<()> {
        self.take_texts(files.flat_map(|file| [file.path.as_str(), file.contents.as_str()]))
    }

    pub(crate) fn take_texts<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> Option<()> {
        let (mut bytes, mut values) = (0, 0);
        for text in texts {
            // Its quotes, its name, and a half of the object around it.
            bytes += escaped_len(text) + 64;
            values += 2;
        }
        let (bytes, values) = (self.bytes.checked_sub(bytes)?, self.values.checked_sub(values)?);
        *self = Self { bytes, values };
        Some(())
    }
}

/// How long a text is in JSON, at most.
fn escaped_len(text: &str) -> usize {
    let byte = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(byte).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec_protocol::path_uri::PathUri;
    use std::path::Path;

    fn ask(roots: &[&Path], limits: &Limits) -> Result<Vec<DiscoveredRoot>, Error> {
        let roots = roots.iter().map(|path| CapabilityRoot {
            id: "r".to_owned(),
            path: PathUri::from_native(path).unwrap(),
            sandbox: None,
        });
        let params = DiscoverRootsParams { roots: roots.collect() };
        discover(&params, limits, &AtomicBool::new(false)).map(|result| result.roots)
    }

    #[test]
    fn no_more_roots_than_allowed() {
        let roots = [Path::new("/nowhere"); ROOTS_MAX + 1];
        assert_eq!(ask(&roots[1..], &Limits::default()).unwrap().len(), ROOTS_MAX);
        let error = ask(&roots, &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), "capability root discovery accepts at most 128 roots");
    }

    #[test]
    fn a_root_that_does_not_fit_is_said_to() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("SKILL.md"), "\u{1}".repeat(1000)).unwrap();
        let limits = Limits { answer_bytes_max: 8000, ..Limits::default() };
        let roots = ask(&[dir.path(), dir.path(), Path::new("/nowhere")], &limits).unwrap();
        assert_eq!((roots[0].skills.len(), roots[0].error.as_deref()), (1, None));
        let error = Some("capability root does not fit the answer");
        assert_eq!((roots[1].skills.len(), roots[1].error.as_deref()), (0, error));
        assert!(roots[2].error.as_deref().unwrap().starts_with("failed to inspect"));
        let limits = Limits { answer_values_max: 9, ..Limits::default() };
        let roots = ask(&[dir.path(), dir.path()], &limits).unwrap();
        assert_eq!((roots[0].error.is_none(), roots[1].error.as_deref()), (true, error));
    }
}
