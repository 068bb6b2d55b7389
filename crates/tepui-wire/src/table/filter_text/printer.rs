//! Filters as text.

use crate::table::number::write_double;
use std::fmt::Write;
use tepui_model::table::{Comparison, Filter, Literal};

/// A text that parses to the filter, as far as names are names and nothing is nested in its own kind.
///
/// ```
/// use tepui_wire::table::filter_text::{parse, print};
/// let filter = parse("not ('p1' eq PartitionKey)or Done").unwrap().unwrap();
/// assert_eq!(print(&filter), "not (PartitionKey eq 'p1') or Done");
/// ```
pub fn print(filter: &Filter) -> String {
    let mut out = String::new();
    write_filter(&mut out, filter);
    out
}

fn write_filter(out: &mut String, filter: &Filter) {
    match filter {
        Filter::Constant(answer) => out.push_str(if *answer { "true" } else { "false" }),
        Filter::IsTrue(property) => out.push_str(property),
        Filter::Compare { property, how, value } => {
            out.push_str(property);
            out.push_str(match how {
                Comparison::Equal => " eq ",
                Comparison::NotEqual => " ne ",
                Comparison::Greater => " gt ",
                Comparison::GreaterOrEqual => " ge ",
                Comparison::Less => " lt ",
                Comparison::LessOrEqual => " le ",
            });
            write_literal(out, value);
        }
        Filter::And(all) => write_list(out, all, " and "),
        Filter::Or(any) => write_list(out, any, " or "),
        Filter::Not(inner) => {
            out.push_str("not (");
            write_filter(out, inner);
            out.push(')');
        }
    }
}

fn write_list(out: &mut String, filters: &[Filter], word: &str) {
    for (index, filter) in filters.iter().enumerate() {
        if index > 0 {
            out.push_str(word);
        }
        if matches!(filter, Filter::And(_) | Filter::Or(_)) {
            out.push('(');
            write_filter(out, filter);
            out.push(')');
        } else {
            write_filter(out, filter);
        }
    }
}

fn write_literal(out: &mut String, literal: &Literal) {
    let written = match literal {
        Literal::String(text) => write!(out, "'{}'", text.replace('\'', "''")),
        Literal::Int32(number) => write!(out, "{number}"),
        Literal::Int64(number) => write!(out, "{number}L"),
        Literal::Double(number) => write!(out, "{}", double(*number)),
        Literal::Boolean(answer) => write!(out, "{answer}"),
        Literal::DateTime(moment) => write!(out, "datetime'{moment}'"),
        Literal::Guid(guid) => write!(out, "guid'{guid}'"),
        Literal::Binary(bytes) => {
            out.push_str("X'");
            for byte in bytes {
                write!(out, "{byte:02x}").expect("a String takes everything");
            }
            write!(out, "'")
        }
    };
    written.expect("a String takes everything");
}

fn double(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    let mut text = Vec::new();
    write_double(&mut text, number);
    String::from_utf8(text).expect("digits are ASCII")
}
