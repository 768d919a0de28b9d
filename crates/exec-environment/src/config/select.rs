//! Takes the chosen keys out of a table.

use std::collections::HashMap;

use toml::{Table, Value};

/// The part of the table that the paths lead to, in the table's order. A path that ends early, at a
/// value or at a missing key, still brings what it passed.
pub(super) fn select(table: &Table, paths: &[Vec<String>]) -> Table {
    let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    below(table, &paths)
}

fn below(table: &Table, paths: &[&[String]]) -> Table {
    let mut by_key: HashMap<&str, Vec<&[String]>> = HashMap::new();
    for (key, rest) in paths.iter().filter_map(|path| path.split_first()) {
        by_key.entry(key).or_default().push(rest);
    }
    let mut chosen = Table::new();
    for (key, value) in table {
        let Some(rests) = by_key.get(key.as_str()) else { continue };
        let whole = rests.iter().any(|rest| rest.is_empty());
        let part = match value.as_table() {
            Some(table) if !whole => Value::Table(below(table, rests)),
            Some(_) | None => value.clone(),
        };
        chosen.insert(key.clone(), part);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "model = \"m\"\n[mcp.one]\nurl = \"u\"\nargs = [1, 2]\n[mcp.two]\nx = 1\n\
        [zeta]\nb = 1\na = 2\n";

    fn check(paths: &[&[&str]], expected: &str) {
        let paths: Vec<Vec<String>> =
            paths.iter().map(|path| path.iter().map(|&key| key.to_owned()).collect()).collect();
        let chosen = select(&TABLE.parse().unwrap(), &paths);
        assert_eq!(toml::to_string(&chosen).unwrap(), expected, "{paths:?}");
    }

    #[test]
    fn only_what_the_paths_lead_to_is_kept() {
        check(&[&["model"]], "model = \"m\"\n");
        check(&[&["zeta"], &["model"]], "model = \"m\"\n\n[zeta]\nb = 1\na = 2\n");
        check(&[&["mcp", "one", "url"]], "[mcp.one]\nurl = \"u\"\n");
        check(
            &[&["mcp", "one", "url"], &["mcp", "two"]],
            "[mcp.one]\nurl = \"u\"\n\n[mcp.two]\nx = 1\n",
        );
        check(&[&["mcp", "two"], &["mcp", "two", "y"]], "[mcp.two]\nx = 1\n");
        check(&[&["mcp", "nope"]], "[mcp]\n");
        check(&[&["model", "x"]], "model = \"m\"\n");
        check(&[&["mcp", "one", "args", "0"]], "[mcp.one]\nargs = [1, 2]\n");
        check(&[&["nope"]], "");
        check(&[&[""]], "");
    }
}
