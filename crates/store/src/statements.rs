//! Every statement that this crate knows, for the tests that prepare them all and look at their plans.

use crate::{Sql, reads, transitions};

/// All of them, each once.
pub fn all() -> Vec<&'static Sql> {
    [transitions::statements(), reads::statements()].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_statement_of_the_sources_is_listed_once() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let written = count(&src.join("transitions")) + count(&src.join("reads"));
        let names: HashSet<&str> = all().iter().map(|sql| sql.name).collect();
        assert_eq!(names.len(), all().len(), "two statements have one name");
        assert_eq!(names.len(), written, "a statement is not listed");
    }

    /// How many statements the files in and below `folder` make.
    fn count(folder: &Path) -> usize {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        // `texts!` makes three: newest first, oldest first and counted.
        let of_line = |line: &str| match line {
            line if line.starts_with("texts!(") => 3,
            line => usize::from(line.contains("static ") && line.contains(": Sql =") && !line.contains('$')),
        };
        let here = |text: String| text.lines().map(of_line).sum::<usize>();
        files
            .map(|path| if path.is_dir() { count(&path) } else { here(fs::read_to_string(path).unwrap()) })
            .sum()
    }
}
