//! What must hold for any rules file.

#![allow(unreachable_pub, reason = "public to the fuzz targets, private to the tests")]

use exec_rules::{LoadOptions, Resolve, RiskyRules, RuleSet, Source, fmt};

/// A file loads or is refused with words; what loads can be laid out, and then says the same.
pub fn rules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let options = LoadOptions { risky: RiskyRules::Accept, ..LoadOptions::default() };
    let load = |text: &str| RuleSet::parse(&[Source::new("a.rules", text)], &options);
    let set = match load(text) {
        Ok(set) => set,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    for rule in set.rules() {
        let words = rule.rest.iter().map(|token| &*token.words()[0]);
        let command: Vec<&str> = std::iter::once(&*rule.first).chain(words).collect();
        let decision = set.decide(&command, Resolve::Exact).decision;
        assert!(decision >= Some(rule.decision), "a rule matches its own pattern");
    }
    let Ok(formatted) = fmt::format("a.rules", text) else { return };
    assert_eq!(
        fmt::format("a.rules", &formatted).ok().as_ref(),
        Some(&formatted),
        "once is enough"
    );
    let again = load(&formatted).expect("what loaded loads when it is laid out");
    let show = |set: &RuleSet| -> Vec<String> {
        set.rules().iter().map(|rule| format!("{rule} {:?}", rule.decision)).collect()
    };
    assert_eq!(show(&set), show(&again));
}
