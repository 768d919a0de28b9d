//! `fs/search`: text in the files below a directory.
//!
//! The `grep` crates find the lines, the `ignore` crate knows the rules of `.gitignore` and globs.
//! [`tree`] walks, by descriptors and past links, so that nothing outside is read, whoever moves
//! things meanwhile; [`rules`] decides what is left out; [`collect`] keeps the limits.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use exec_protocol::fs::{SearchError, SearchParams, SearchResult};
use exec_protocol::path_uri::PathUri;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use rustix::io::Errno;

use crate::cancel::Cancel;
use crate::error::Error;
use crate::limits::{
    SEARCH_BYTES_DEFAULT, SEARCH_BYTES_MAX, SEARCH_CONTEXT_MAX, SEARCH_ERRORS_MAX,
    SEARCH_GLOBS_MAX, SEARCH_HEAP_BYTES, SEARCH_MATCHES_DEFAULT, SEARCH_MATCHES_MAX,
    SEARCH_PATTERN_BYTES_MAX, SEARCH_REGEX_BYTES,
};
use crate::read::open_regular;
use crate::resolve::Links;

mod collect;
mod rules;
mod tree;

use collect::{Budget, Collector};
use rules::Rules;
use tree::{Found, Tree};

/// Searches below the path, which is that of the parameters on this executor.
pub fn search(path: &Path, params: &SearchParams, cancel: &Cancel) -> Result<SearchResult, Error> {
    let budget = check(params)?;
    let (matcher, searcher) = (matcher(params)?, searcher(params));
    let rules = Rules::new(path, params)?;
    let mut search = Search { matcher, searcher, budget, cancel, result: SearchResult::default() };
    match Tree::open(path, rules, cancel) {
        Err(error) if error.errno() == Some(Errno::NOTDIR) => {
            let (file, _) = open_regular(path, Links::Follow)?;
            search.file(path, file)?;
        }
        tree => search.tree(tree?)?,
    }
    let mut result = search.result;
    result.truncated |= search.budget.is_over();
    Ok(result)
}

struct Search<'c> {
    matcher: RegexMatcher,
    searcher: Searcher,
    budget: Budget,
    cancel: &'c Cancel,
    result: SearchResult,
}

impl Search<'_> {
    fn tree(&mut self, mut tree: Tree<'_>) -> Result<(), Error> {
        while let Some(found) = tree.next()? {
            self.cancel.check()?;
            match found {
                // There would have been more to search.
                Found::File(..) | Found::Rest if self.budget.is_spent() => {
                    self.result.truncated = true;
                    return Ok(());
                }
                Found::File(path, file) => self.file(&path, file)?,
                Found::Rest => self.result.truncated = true,
                Found::Failed(path, error) => self.note(&path, &error.to_string()),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, file: OwnedFd) -> Result<(), Error> {
        self.result.files_searched += 1;
        let uri = PathUri::from_native(path)?;
        let mut collector = Collector::new(&uri, &self.matcher, &mut self.budget, self.cancel);
        let searched = self.searcher.search_file(&self.matcher, &File::from(file), &mut collector);
        let (matches, is_binary) = collector.finish();
        // What matched before a zero byte showed up is not text either.
        if !is_binary {
            self.result.matches.extend(matches);
        }
        self.cancel.check()?;
        if let Err(error) = searched {
            self.note(path, &Error::Os(error).to_string());
        }
        Ok(())
    }

    fn note(&mut self, path: &Path, message: &str) {
        if self.result.errors.len() < SEARCH_ERRORS_MAX {
            let path = PathUri::from_native(path).ok();
            self.result.errors.push(SearchError { path, message: message.to_owned() });
        }
    }
}

fn check(params: &SearchParams) -> Result<Budget, Error> {
    let matches = params.max_matches.unwrap_or(SEARCH_MATCHES_DEFAULT);
    let bytes = params.max_bytes.unwrap_or(SEARCH_BYTES_DEFAULT);
    let wrong = |what: String| Err(Error::Search(what));
    if params.pattern.is_empty() {
        return wrong("pattern is empty".to_owned());
    }
    if params.pattern.len() > SEARCH_PATTERN_BYTES_MAX {
        return wrong(format!("pattern exceeds {SEARCH_PATTERN_BYTES_MAX} bytes"));
    }
    if params.globs.len() > SEARCH_GLOBS_MAX
        || params.globs.iter().any(|glob| glob.len() > SEARCH_PATTERN_BYTES_MAX)
    {
        return wrong(format!(
            "at most {SEARCH_GLOBS_MAX} globs of {SEARCH_PATTERN_BYTES_MAX} bytes are allowed"
        ));
    }
    if params.context_lines > SEARCH_CONTEXT_MAX {
        return wrong(format!("contextLines exceeds {SEARCH_CONTEXT_MAX}"));
    }
    if !(1..=SEARCH_MATCHES_MAX).contains(&matches) {
        return wrong(format!("maxMatches must be between 1 and {SEARCH_MATCHES_MAX}"));
    }
    if !(1..=SEARCH_BYTES_MAX).contains(&bytes) {
        return wrong(format!("maxBytes must be between 1 and {SEARCH_BYTES_MAX}"));
    }
    Ok(Budget::new(matches as usize, usize::try_from(bytes).unwrap_or(usize::MAX)))
}

fn matcher(params: &SearchParams) -> Result<RegexMatcher, Error> {
    RegexMatcherBuilder::new()
        .fixed_strings(!params.regex)
        .case_insensitive(!params.case_sensitive)
        .line_terminator(Some(b'\n'))
        .size_limit(SEARCH_REGEX_BYTES)
        .dfa_size_limit(SEARCH_REGEX_BYTES)
        .build(&params.pattern)
        .map_err(|error| Error::Search(error.to_string()))
}

fn searcher(params: &SearchParams) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .before_context(params.context_lines as usize)
        .after_context(params.context_lines as usize)
        .binary_detection(BinaryDetection::quit(0))
        // A file that shrinks while it is mapped would end this process.
        .memory_map(MmapChoice::never())
        .heap_limit(Some(SEARCH_HEAP_BYTES))
        .build()
}
