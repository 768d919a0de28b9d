//! `environmentConfig/read`: chosen keys of the executor's own configuration, layer by layer.
//!
//! ```text
//! config, lowest first              requirements, lowest first
//!   /etc/codex/config.toml            /etc/codex/requirements.toml
//!   (the cloud's)                     (the cloud's)
//!   CODEX_HOME/config.toml            what managed_config.toml demands
//!   .codex/config.toml, from the project's root down to cwd, where it is trusted
//!   /etc/codex/managed_config.toml
//! ```

mod managed;
mod project;
mod select;

use std::path::{Path, PathBuf};

use exec_protocol::environment_config::{
    EnvironmentConfig, EnvironmentConfigReadParams, Layer, LayerStack,
};
use exec_protocol::path_uri::PathUri;
use toml::Table;

use crate::error::Error;
use crate::file::{self, ReadError};
use crate::limits::{CONFIG_BYTES_MAX, LAYERS_BYTES_MAX};
use crate::places::{self, Places};
use project::Project;

const CONFIG_FILE: &str = "config.toml";

/// A file, and everything in it.
struct Source {
    /// In words for people.
    name: String,
    base_dir: PathBuf,
    table: Table,
}

/// Reads the configuration that counts in a directory.
pub fn read(
    places: &Places,
    params: &EnvironmentConfigReadParams,
) -> Result<EnvironmentConfig, Error> {
    let (wanted, demanded) = (&params.config_paths, &params.requirements_paths);
    if wanted.is_empty() && demanded.is_empty() {
        return Err(Error::NoPaths);
    }
    if wanted.iter().chain(demanded).any(Vec::is_empty) {
        return Err(Error::EmptyPath);
    }
    let cwd = params.cwd.to_native()?;
    let codex_home = places.codex_home().map_err(Error::ConfigHome)?;

    let system = load(&places.system, CONFIG_FILE, "system")?;
    let user = load(&codex_home, CONFIG_FILE, "user")?;
    let managed = load(&places.system, "managed_config.toml", "legacy managed_config.toml")?;
    let requirements = load_requirements(&places.system)?;
    let implied = match &managed {
        Some(managed) => implied_requirements(managed)?,
        None => None,
    };
    let tables = [&system, &user].into_iter().flatten().map(|source| &source.table);
    let project = Project::find(&cwd, tables).map_err(Error::Config)?;
    let mut projects = Vec::new();
    for directory in project.trusted_directories(&cwd) {
        projects.extend(load_project(&directory, &codex_home)?);
    }

    let mut bytes_left = LAYERS_BYTES_MAX;
    let mut stack = |before: Option<Source>, after: Vec<Source>, paths: &[Vec<String>]| {
        let mut layers = layers(before, paths, &mut bytes_left)?;
        let cloud_insertion_index = layers.len();
        layers.extend(self::layers(after, paths, &mut bytes_left)?);
        Ok::<_, Error>(LayerStack { layers, cloud_insertion_index })
    };
    let above = user.into_iter().chain(projects).chain(managed).collect();
    Ok(EnvironmentConfig {
        user_home_dir: places.user_home.as_deref().and_then(|home| uri(home).ok()),
        codex_home_dir: uri(&codex_home)?,
        hostname: places::hostname(),
        config: stack(system, above, wanted)?,
        requirements: stack(requirements, implied.into_iter().collect(), demanded)?,
    })
}

fn uri(path: &Path) -> Result<PathUri, Error> {
    Ok(PathUri::from_native(path)?)
}

fn load(directory: &Path, file: &str, kind: &str) -> Result<Option<Source>, Error> {
    let path = directory.join(file);
    let Some(text) = text(&path, "config file")? else { return Ok(None) };
    let table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = position(&text, error.span().map_or(0, |span| span.start));
        let message = error.message();
        Error::Config(format!("{}:{line}:{column}: {message}", path.display()))
    })?;
    let name = format!("{kind} ({})", path.display());
    Ok(Some(Source { name, base_dir: directory.to_owned(), table }))
}

/// None where the file is absent, or is the user's own.
fn load_project(directory: &Path, codex_home: &Path) -> Result<Option<Source>, Error> {
    let base_dir = directory.join(".codex");
    if base_dir == codex_home || places::real(&base_dir).as_deref() == Some(codex_home) {
        return Ok(None);
    }
    let path = base_dir.join(CONFIG_FILE);
    let Some(text) = text(&path, "project config file")? else { return Ok(None) };
    let mut table: Table = text.parse().map_err(|error| {
        let path = path.display();
        Error::Config(format!("Error parsing project config file {path}: {error}"))
    })?;
    project::remove_reserved(&mut table);
    Ok(Some(Source { name: format!("project ({})", path.display()), base_dir, table }))
}

fn load_requirements(directory: &Path) -> Result<Option<Source>, Error> {
    let path = directory.join("requirements.toml");
    let Some(text) = text(&path, "requirements file")? else { return Ok(None) };
    let name = path.display().to_string();
    let table = text.parse().map_err(|error| {
        Error::Config(format!("failed to parse requirements layer {name}: {error}"))
    })?;
    Ok(Some(Source { name, base_dir: directory.to_owned(), table }))
}

fn implied_requirements(managed: &Source) -> Result<Option<Source>, Error> {
    let table = managed::requirements(&managed.table).map_err(|error| {
        Error::Config(format!("Failed to parse config requirements as TOML: {error}"))
    })?;
    let name = managed.base_dir.join("managed_config.toml").display().to_string();
    Ok((!table.is_empty()).then(|| Source { name, base_dir: managed.base_dir.clone(), table }))
}

fn text(path: &Path, kind: &str) -> Result<Option<String>, Error> {
    file::read(path, CONFIG_BYTES_MAX).map_err(|error| {
        let path = path.display();
        let why = match error {
            ReadError::NotAFile => format!("path `{path}` is not a file"),
            ReadError::TooLarge => format!("larger than {CONFIG_BYTES_MAX} bytes"),
            ReadError::NotUtf8(error) => error.to_string(),
            ReadError::Os(error) => error.to_string(),
        };
        Error::Config(format!("Failed to read {kind} {path}: {why}"))
    })
}

/// Line and column of a byte, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// What the sources say of the paths; those that say nothing are left out.
fn layers(
    sources: impl IntoIterator<Item = Source>,
    paths: &[Vec<String>],
    bytes_left: &mut usize,
) -> Result<Vec<Layer>, Error> {
    let mut layers = Vec::new();
    for source in sources {
        let chosen = select::select(&source.table, paths);
        if chosen.is_empty() {
            continue;
        }
        let toml = toml::to_string(&chosen).map_err(|error| Error::Config(error.to_string()))?;
        *bytes_left = bytes_left.checked_sub(toml.len()).ok_or(Error::TooLarge)?;
        layers.push(Layer { source: source.name, base_dir: uri(&source.base_dir)?, toml });
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_one() {
        assert_eq!(position("x = \n", 4), (1, 5));
        assert_eq!(position("x=1\nx=2\n", 4), (2, 1));
        assert_eq!(position("\u{e9}=", 2), (1, 2));
        assert_eq!(position("a", 9), (1, 2));
    }
}
