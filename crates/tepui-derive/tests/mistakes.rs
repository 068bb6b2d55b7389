//! Mistakes, and what the compiler says of them: `mistakes/*.stderr`. `TRYBUILD=overwrite` rewrites these; review the difference.

#[test]
fn mistakes_are_told_where_they_are() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
