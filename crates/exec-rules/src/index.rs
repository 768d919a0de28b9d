//! Finding the rules for a command without looking at all of them.
//!
//! Rules are divided by their first word, then by the second, and so on, until few are left. A rule with
//! alternatives stands under each of them; where that would multiply too much, division stops.

use std::collections::HashMap;

use crate::limits::INDEX_ENTRIES_MAX;
use crate::rule::PrefixRule;

/// As many rules are compared one by one.
const FEW: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Index {
    programs: HashMap<Box<str>, Node>,
}

/// Rules are named by their position in the set.
#[derive(Debug)]
enum Node {
    Few(Vec<u32>),
    Divided {
        /// Patterns that end here.
        ended: Vec<u32>,
        by_word: HashMap<Box<str>, Node>,
    },
}

impl Index {
    pub(crate) fn new(rules: &[PrefixRule]) -> Self {
        let mut programs: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for (rule, position) in rules.iter().zip(0..) {
            programs.entry((*rule.first).into()).or_default().push(position);
        }
        let mut room = INDEX_ENTRIES_MAX;
        let divide = |(word, members)| (word, divide(rules, members, 0, &mut room));
        Self { programs: programs.into_iter().map(divide).collect() }
    }

    /// The rules for a program that match these arguments, in the order of the set.
    pub(crate) fn find<S: AsRef<str>>(
        &self,
        rules: &[PrefixRule],
        program: &str,
        arguments: &[S],
    ) -> Vec<u32> {
        let mut found = Vec::new();
        let mut node = self.programs.get(program);
        let mut words = arguments.iter();
        while let Some(here) = node {
            node = match here {
                Node::Few(members) => {
                    let matches = |position: &&u32| {
                        let rule = usize::try_from(**position).ok().and_then(|at| rules.get(at));
                        rule.is_some_and(|rule| rule.accepts_arguments(arguments))
                    };
                    found.extend(members.iter().filter(matches));
                    None
                }
                Node::Divided { ended, by_word } => {
                    found.extend(ended);
                    words.next().and_then(|word| by_word.get(word.as_ref()))
                }
            };
        }
        found.sort_unstable();
        found
    }
}

fn divide(rules: &[PrefixRule], members: Vec<u32>, depth: usize, room: &mut usize) -> Node {
    if members.len() <= FEW {
        return Node::Few(members);
    }
    let token = |position: u32| {
        let rule = usize::try_from(position).ok().and_then(|at| rules.get(at));
        rule.and_then(|rule| rule.rest.get(depth))
    };
    let entries = members.iter().filter_map(|position| token(*position));
    let entries: usize = entries.map(|token| token.words().len()).sum();
    let Some(left) = room.checked_sub(entries) else { return Node::Few(members) };
    *room = left;
    let mut ended = Vec::new();
    let mut by_word: HashMap<Box<str>, Vec<u32>> = HashMap::new();
    for position in members {
        let Some(token) = token(position) else {
            ended.push(position);
            continue;
        };
        for word in token.words() {
            let group = by_word.entry(word.clone()).or_default();
            // The same alternative twice is still one rule.
            if group.last() != Some(&position) {
                group.push(position);
            }
        }
    }
    let divide = |(word, members)| (word, divide(rules, members, depth + 1, room));
    Node::Divided { ended, by_word: by_word.into_iter().map(divide).collect() }
}
