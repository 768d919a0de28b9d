//! `prefix_rule`, `network_rule` and `host_executable` as Starlark sees them. The words of the
//! complaints are the reference's.

#![allow(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "as the macro wants it"
)]

use std::cell::{Cell, RefCell};
use std::num::NonZeroI32;
use std::sync::Arc;

use starlark::any::ProvidesStaticType;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::Value;
use starlark::values::list::{ListRef, UnpackList};
use starlark::values::none::NoneType;
use starlark::values::range::Range;

use super::Declared;
use crate::error::too_many_rules;
use crate::example::{self, Examples};
use crate::host;
use crate::limits::{
    COLLECTED_BYTES_MAX, ENTRIES_MAX, LIST_MAX, RANGE_MAX, RULES_MAX, TEXT_BYTES_MAX,
};
use crate::network::{self, Access, NetworkRule, Protocol};
use crate::rule::{Decision, Location, PrefixRule, Token};

/// What the calls declared so far.
#[derive(Debug, ProvidesStaticType)]
pub(crate) struct Collected {
    file: Arc<str>,
    pub(super) declared: RefCell<Declared>,
    bytes: Cell<usize>,
}

/// A complaint about an argument. Starlark adds where the call stands.
#[derive(Debug, thiserror::Error)]
enum Complaint {
    #[error("invalid decision: {0}")]
    Decision(String),
    #[error("invalid pattern element: {0}")]
    Pattern(String),
    #[error("invalid example: {0}")]
    Example(String),
    #[error("invalid rule: {0}")]
    Rule(String),
}

type Outcome<T> = Result<T, Complaint>;

impl Collected {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self { file, declared: RefCell::default(), bytes: Cell::new(0) }
    }

    fn of<'a>(evaluator: &Evaluator<'_, 'a, '_>) -> anyhow::Result<&'a Self> {
        let extra = evaluator.extra.and_then(|extra| extra.downcast_ref::<Self>());
        Ok(extra.ok_or_else(|| Complaint::Rule("no file is being read".to_owned()))?)
    }

    /// A text within its bound.
    fn text(&self, text: &str) -> Result<(), String> {
        let bytes = self.bytes.get() + text.len();
        self.bytes.set(bytes);
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("a text is longer than {TEXT_BYTES_MAX} bytes"));
        }
        if bytes > COLLECTED_BYTES_MAX {
            return Err(format!("the rules hold more than {COLLECTED_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    fn location(&self, evaluator: &Evaluator<'_, '_, '_>) -> Location {
        let begin = evaluator.call_stack_top_location().map(|span| span.resolve_span().begin);
        let (line, column) = begin.map_or((1, 1), |begin| (begin.line + 1, begin.column + 1));
        Location { file: Arc::clone(&self.file), line, column }
    }

    fn pattern(&self, elements: &[Value<'_>]) -> Outcome<Vec<Token>> {
        let bad = |message: String| Complaint::Pattern(message);
        if elements.is_empty() {
            return Err(bad("pattern cannot be empty".to_owned()));
        }
        bounded(elements).map_err(bad)?;
        elements.iter().map(|element| self.token(*element)).collect()
    }

    fn token(&self, element: Value<'_>) -> Outcome<Token> {
        let bad = |message: String| Complaint::Pattern(message);
        if let Some(word) = element.unpack_str() {
            self.text(word).map_err(bad)?;
            return Ok(Token::Single(word.into()));
        }
        let Some(list) = ListRef::from_value(element) else {
            let kind = element.get_type();
            return Err(bad(format!(
                "pattern element must be a string or list of strings (got {kind})"
            )));
        };
        let list = list.content();
        bounded(list).map_err(bad)?;
        let mut words = Vec::with_capacity(list.len());
        for word in list {
            let text = word.unpack_str().ok_or_else(|| {
                bad(format!("pattern alternative must be a string (got {})", word.get_type()))
            })?;
            self.text(text).map_err(bad)?;
            words.push(Box::<str>::from(text));
        }
        match words.len() {
            0 => Err(bad("pattern alternatives cannot be empty".to_owned())),
            1 => Ok(Token::Single(words.remove(0))),
            _ => Ok(Token::Alts(words.into())),
        }
    }

    fn examples(&self, examples: Option<UnpackList<Value<'_>>>) -> Outcome<Vec<Vec<String>>> {
        let examples = examples.map(|list| list.items).unwrap_or_default();
        bounded(&examples).map_err(Complaint::Example)?;
        examples.into_iter().map(|example| self.example(example)).collect()
    }

    fn example(&self, example: Value<'_>) -> Outcome<Vec<String>> {
        let bad = |message: String| Complaint::Example(message);
        if let Some(text) = example.unpack_str() {
            self.text(text).map_err(bad)?;
            return example::split(text).map_err(|message| bad(message.to_owned()));
        }
        let Some(list) = ListRef::from_value(example) else {
            let kind = example.get_type();
            return Err(bad(format!("example must be a string or list of strings (got {kind})")));
        };
        let list = list.content();
        bounded(list).map_err(bad)?;
        let mut words = Vec::with_capacity(list.len());
        for word in list {
            let text = word.unpack_str().ok_or_else(|| {
                bad(format!("example tokens must be strings (got {})", word.get_type()))
            })?;
            self.text(text).map_err(bad)?;
            words.push(text.to_owned());
        }
        if words.is_empty() {
            return Err(bad("example cannot be an empty list".to_owned()));
        }
        Ok(words)
    }

    fn justification(&self, text: Option<&str>) -> Outcome<Option<String>> {
        let Some(text) = text else { return Ok(None) };
        if text.trim().is_empty() {
            return Err(Complaint::Rule("justification cannot be empty".to_owned()));
        }
        self.text(text).map_err(Complaint::Rule)?;
        Ok(Some(text.to_owned()))
    }

    /// One rule for each alternative of the first position.
    fn add(
        &self,
        mut pattern: Vec<Token>,
        decision: Decision,
        justification: Option<String>,
        location: &Location,
    ) -> Outcome<std::ops::Range<usize>> {
        let programs = pattern.remove(0);
        let rest: Arc<[Token]> = pattern.into();
        let justification: Option<Arc<str>> = justification.map(Into::into);
        let mut declared = self.declared.borrow_mut();
        let begin = declared.rules.len();
        if begin + programs.words().len() > RULES_MAX {
            return Err(Complaint::Rule(too_many_rules().message));
        }
        declared.rules.extend(programs.words().iter().map(|first| PrefixRule {
            first: (**first).into(),
            rest: Arc::clone(&rest),
            decision,
            justification: justification.clone(),
            location: location.clone(),
        }));
        Ok(begin..declared.rules.len())
    }
}

fn bounded<T>(list: &[T]) -> Result<(), String> {
    if list.len() > LIST_MAX {
        return Err(format!("a list has more than {LIST_MAX} elements"));
    }
    Ok(())
}

#[starlark_module]
pub(super) fn rules(builder: &mut GlobalsBuilder) {
    /// Says what happens to commands that begin with the pattern.
    fn prefix_rule<'v>(
        pattern: UnpackList<Value<'v>>,
        decision: Option<&'v str>,
        r#match: Option<UnpackList<Value<'v>>>,
        not_match: Option<UnpackList<Value<'v>>>,
        justification: Option<&'v str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let collected = Collected::of(eval)?;
        let decision = match decision {
            None => Decision::Allow,
            Some(word) => {
                Decision::parse(word).ok_or_else(|| Complaint::Decision(word.to_owned()))?
            }
        };
        let justification = collected.justification(justification)?;
        let pattern = collected.pattern(&pattern.items)?;
        let matching = collected.examples(r#match)?;
        let not_matching = collected.examples(not_match)?;
        let location = collected.location(eval);
        let rules = collected.add(pattern, decision, justification, &location)?;
        if !matching.is_empty() || !not_matching.is_empty() {
            let examples = Examples { rules, matching, not_matching, location };
            collected.declared.borrow_mut().examples.push(examples);
        }
        Ok(NoneType)
    }

    /// Starlark's own, but bounded: `list(range(2000000000))` is a single step.
    #[starlark(speculative_exec_safe)]
    fn range(
        #[starlark(require = pos)] a1: i32,
        #[starlark(require = pos)] a2: Option<i32>,
        #[starlark(require = pos, default = 1)] step: i32,
    ) -> anyhow::Result<Range> {
        let (start, stop) = a2.map_or((0, a1), |stop| (a1, stop));
        let Some(step) = NonZeroI32::new(step) else {
            return Err(anyhow::Error::msg("Third argument of range (step) cannot be zero"));
        };
        let length = (i64::from(stop) - i64::from(start)) / i64::from(step.get());
        if length > RANGE_MAX {
            Err(Complaint::Rule(format!("a range is longer than {RANGE_MAX}")))?;
        }
        Ok(Range::new(start, stop, step))
    }

    /// Says whether a host may be reached.
    fn network_rule<'v>(
        host: &'v str,
        protocol: &'v str,
        decision: &'v str,
        justification: Option<&'v str>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let collected = Collected::of(eval)?;
        let protocol = Protocol::parse(protocol).ok_or_else(|| {
            Complaint::Rule(format!(
                "network_rule protocol must be one of http, https, socks5_tcp, socks5_udp \
                 (got {protocol})"
            ))
        })?;
        let access =
            Access::parse(decision).ok_or_else(|| Complaint::Decision(decision.to_owned()))?;
        let justification = collected.justification(justification)?;
        let host = network::normal_host(host).map_err(Complaint::Rule)?;
        collected.text(&host).map_err(Complaint::Rule)?;
        let location = collected.location(eval);
        let mut declared = collected.declared.borrow_mut();
        if declared.network.len() >= ENTRIES_MAX {
            Err(Complaint::Rule(format!("more than {ENTRIES_MAX} network rules")))?;
        }
        declared.network.push(NetworkRule { host, protocol, access, justification, location });
        Ok(NoneType)
    }

    /// Says which files are the program of that name.
    fn host_executable<'v>(
        name: &'v str,
        paths: UnpackList<Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<NoneType> {
        let collected = Collected::of(eval)?;
        host::check_name(name).map_err(Complaint::Rule)?;
        bounded(&paths.items).map_err(Complaint::Rule)?;
        let mut checked = Vec::with_capacity(paths.items.len());
        for path in &paths.items {
            let text = path.unpack_str().ok_or_else(|| {
                let kind = path.get_type();
                Complaint::Rule(format!("host_executable paths must be strings (got {kind})"))
            })?;
            collected.text(text).map_err(Complaint::Rule)?;
            let path = host::check_path(name, text).map_err(Complaint::Rule)?;
            if !checked.contains(&path) {
                checked.push(path);
            }
        }
        let mut declared = collected.declared.borrow_mut();
        if declared.hosts.len() >= ENTRIES_MAX {
            Err(Complaint::Rule(format!("more than {ENTRIES_MAX} host executables")))?;
        }
        declared.hosts.push((name.to_owned(), checked));
        Ok(NoneType)
    }
}
