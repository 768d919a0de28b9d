//! Figures of several rounds, and the tables made of them: medians over the rounds, and the median
//! of each round's ratio. A ratio above 1 always means that the server is better.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::stats::{median, quantile};

/// Characters of a reason; it may repeat what a server said.
const REASON_MAX: usize = 200;

/// Who is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The server in question.
    Server,
    /// The one it is compared with.
    Against,
    /// A program that uses the operating system directly.
    Bare,
}

/// What a figure counts. That decides too whether more of it is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Micros,
    Millis,
    PerSecond,
    MbPerSecond,
    CpuPerGib,
    Kib,
    Mib,
    Count,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Micros => "µs",
            Unit::Millis => "ms",
            Unit::PerSecond => "/s",
            Unit::MbPerSecond => "MB/s",
            Unit::CpuPerGib => "s/GiB",
            Unit::Kib => "KiB",
            Unit::Mib => "MiB",
            Unit::Count => "",
        }
    }

    fn more_is_better(self) -> bool {
        match self {
            Unit::PerSecond | Unit::MbPerSecond => true,
            Unit::Micros | Unit::Millis | Unit::CpuPerGib | Unit::Kib | Unit::Mib | Unit::Count => {
                false
            }
        }
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    failures: Vec<String>,
    at: Option<(Subject, u32, &'static str)>,
}

#[derive(Debug)]
struct Row {
    group: &'static str,
    label: String,
    unit: Unit,
    /// By round, for each subject.
    values: [BTreeMap<u32, f64>; 3],
}

impl Row {
    fn of(&self, subject: Subject) -> &BTreeMap<u32, f64> {
        &self.values[subject as usize]
    }

    fn median(&self, subject: Subject) -> Option<f64> {
        median(&self.of(subject).values().copied().collect::<Vec<_>>())
    }

    fn ratio(&self, against: Subject) -> Option<f64> {
        let (ours, theirs) = (self.of(Subject::Server), self.of(against));
        let rounds = ours.iter().filter_map(|(round, ours)| Some((*ours, *theirs.get(round)?)));
        // What is zero on either side has no ratio.
        let rounds = rounds.filter(|(ours, theirs)| *ours > 0.0 && *theirs > 0.0);
        let ratios = rounds.map(|(ours, theirs)| match self.unit.more_is_better() {
            true => ours / theirs,
            false => theirs / ours,
        });
        median(&ratios.collect::<Vec<_>>())
    }
}

impl Report {
    /// What is recorded from now on belongs there.
    pub(crate) fn enter(&mut self, subject: Subject, round: u32, group: &'static str) {
        self.at = Some((subject, round, group));
    }

    /// Notes one figure of this round.
    pub(crate) fn record(&mut self, label: &str, unit: Unit, value: f64) {
        let Some((subject, round, group)) = self.at else { return };
        let found = self.rows.iter().position(|row| row.group == group && row.label == label);
        let at = found.unwrap_or_else(|| {
            let values = Default::default();
            self.rows.push(Row { group, label: label.to_owned(), unit, values });
            self.rows.len() - 1
        });
        self.rows[at].values[subject as usize].insert(round, value);
    }

    /// Notes the median and the 99th percentile of spans.
    pub(crate) fn latency(&mut self, label: &str, spans: &[Duration]) {
        let micros: Vec<f64> = spans.iter().map(|span| span.as_secs_f64() * 1e6).collect();
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            if let Some(value) = quantile(&micros, part) {
                self.record(&format!("{label}, {name}"), Unit::Micros, value);
            }
        }
    }

    /// Notes the median of spans alone, where there are too few for more.
    pub(crate) fn typical(&mut self, label: &str, spans: &[Duration]) {
        let micros: Vec<f64> = spans.iter().map(|span| span.as_secs_f64() * 1e6).collect();
        if let Some(value) = median(&micros) {
            self.record(&format!("{label}, p50"), Unit::Micros, value);
        }
    }

    /// Notes that the rest of a scenario could not be measured; each reason once.
    pub(crate) fn fail(&mut self, name: &str, error: &anyhow::Error) {
        let Some((_, _, group)) = self.at else { return };
        let reason: String = format!("{error:#}").chars().take(REASON_MAX).collect();
        let failure = format!("{name}, {group}: {reason}");
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// The tables, and below them what could not be measured.
    pub(crate) fn tables(&self, server: &str, against: Option<&str>) -> String {
        let mut text = String::new();
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group) {
                groups.push(row.group);
            }
        }
        for group in groups {
            let mut head = vec![group.to_owned(), server.to_owned()];
            head.extend(against.map(str::to_owned));
            head.push("bare OS".to_owned());
            head.extend(against.map(|name| format!("× {name}")));
            head.push("× bare OS".to_owned());
            let mut lines = vec![head];
            for row in self.rows.iter().filter(|row| row.group == group) {
                let value = |subject| row.median(subject).map_or("–".to_owned(), show);
                let ratio = |subject| row.ratio(subject).map_or("–".to_owned(), show);
                let unit = Some(row.unit.name()).filter(|name| !name.is_empty());
                let label = unit.map_or(row.label.clone(), |unit| format!("{}, {unit}", row.label));
                let mut line = vec![label, value(Subject::Server)];
                line.extend(against.map(|_| value(Subject::Against)));
                line.push(value(Subject::Bare));
                line.extend(against.map(|_| ratio(Subject::Against)));
                line.push(ratio(Subject::Bare));
                lines.push(line);
            }
            text += &table(&lines);
            text.push('\n');
        }
        if !self.failures.is_empty() {
            text.push_str("Not measured, or measured in part:\n\n");
            for failure in &self.failures {
                // A `String` takes any text.
                writeln!(text, "- {failure}").ok();
            }
            text.push('\n');
        }
        text
    }
}

/// Three digits that matter.
pub(crate) fn show(value: f64) -> String {
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0}"),
        medium if medium >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A Markdown table whose columns are as wide as they need to be. The first line is its head.
pub(crate) fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|at| lines.iter().filter_map(|line| Some(line.get(at)?.chars().count())).max())
        .map(|width| width.unwrap_or(0).max(3))
        .collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text += &match at {
                0 => format!("| {cell:<width$} |"),
                _ => format!(" {cell:>width$} |"),
            };
        }
        text.push('\n');
        if number == 0 {
            for (at, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                text += &match at {
                    0 => format!("| {dashes}- |"),
                    _ => format!(" {dashes}: |"),
                };
            }
            text.push('\n');
        }
    }
    text
}

/// Writes the text to a file; if the file has the markers of this `name`, between them.
pub(crate) fn write(path: &Path, name: &str, text: &str) -> Result<()> {
    let old = match std::fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let new = splice(&old, name, text).unwrap_or_else(|| text.to_owned());
    std::fs::write(path, new).with_context(|| format!("cannot write {}", path.display()))
}

fn splice(old: &str, name: &str, text: &str) -> Option<String> {
    let (before, rest) = old.split_once(&format!("<!-- exec-bench {name}: begin -->"))?;
    let (_, after) = rest.split_once(&format!("<!-- exec-bench {name}: end -->"))?;
    Some(format!(
        "{before}<!-- exec-bench {name}: begin -->\n\n{}\n\n<!-- exec-bench {name}: end -->{after}",
        text.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round_and_above_1_is_better() {
        let mut report = Report::default();
        for (round, server, against) in [(0, 1.0, 2.0), (1, 10.0, 40.0), (2, 1.0, 3.0)] {
            report.enter(Subject::Server, round, "Group");
            report.record("cost", Unit::Micros, server);
            report.record("rate", Unit::PerSecond, server);
            report.enter(Subject::Against, round, "Group");
            report.record("cost", Unit::Micros, against);
            report.record("rate", Unit::PerSecond, against);
        }
        let text = report.tables("ours", Some("theirs"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "| Group    | ours | theirs | bare OS | × theirs | × bare OS |",
                "| -------- | ---: | -----: | ------: | -------: | --------: |",
                "| cost, µs | 1.00 |   3.00 |       – |     3.00 |         – |",
                "| rate, /s | 1.00 |   3.00 |       – |     0.33 |         – |",
                "",
            ]
        );
    }

    #[test]
    fn what_failed_has_a_dash_and_its_reason_once() {
        let mut report = Report::default();
        report.enter(Subject::Bare, 0, "Group");
        report.record("wake-ups", Unit::Count, 0.0);
        report.fail("ours", &anyhow::anyhow!("no such method"));
        report.fail("ours", &anyhow::anyhow!("no such method"));
        let text = report.tables("ours", None);
        assert!(text.contains("| wake-ups |    – |    0.00 |         – |"), "{text}");
        assert_eq!(text.matches("- ours, Group: no such method\n").count(), 1);
    }

    #[test]
    fn tables_replace_what_stands_between_their_markers() {
        let old = "a\n<!-- exec-bench e2e: begin -->\nold\n<!-- exec-bench e2e: end -->\nb\n";
        let new = splice(old, "e2e", "new\n\n").unwrap();
        assert_eq!(
            new,
            "a\n<!-- exec-bench e2e: begin -->\n\nnew\n\n<!-- exec-bench e2e: end -->\nb\n"
        );
        assert_eq!(splice(&new, "e2e", "new").unwrap(), new);
        assert_eq!(splice(old, "micro", "new"), None);
    }

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [(0.0, "0.00"), (9.994, "9.99"), (12.34, "12.3"), (99.96, "100")] {
            assert_eq!(show(value), text);
        }
    }
}
