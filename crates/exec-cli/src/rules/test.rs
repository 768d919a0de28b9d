//! `rules test`: every example that does not hold, and every rule that would let anything run.

use exec_rules::set::report;

use super::{TestArgs, places, read};
use crate::exit::Outcome;

pub(super) fn test(args: &TestArgs) -> anyhow::Result<Outcome> {
    let report = report(&read(&args.files)?, &places())?;
    for failure in &report.failures {
        println!("{failure}");
    }
    let risks = if args.force { &[][..] } else { &report.risks[..] };
    for risk in risks {
        println!("{risk}");
    }
    let bad = report.failures.len() + risks.len();
    let (rules, examples) = (report.rules, report.examples);
    println!(
        "{rules} rules, {examples} examples: {} do not hold, {} rules would let anything run",
        report.failures.len(),
        risks.len()
    );
    Ok(if bad == 0 { Outcome::Done } else { Outcome::Code(1) })
}
