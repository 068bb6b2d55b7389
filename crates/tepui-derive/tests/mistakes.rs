//! Mistakes, and what the compiler says of them: `mistakes/*.stderr`. `TRYBUILD=overwrite` rewrites these; review the difference.

#[test]
fn mistakes_are_told_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}

/// Those that are seen only when a program is built and not just checked, which trybuild does if there is one that runs.
#[test]
fn mistakes_are_told_when_a_program_is_built() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/built_mistakes/indexed_together.rs");
    cases.compile_fail("tests/built_mistakes/indexed_alone.rs");
}
