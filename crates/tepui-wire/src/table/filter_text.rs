//! The text of `$filter`, both directions.
//!
//! Follows the REST page "Querying tables and entities". A text is judged in two steps, as the service
//! does it: first whether it is well formed, then whether what it asks for can be done. The second
//! kind of refusal waits until the whole text is read.

mod lexer;
mod printer;

use lexer::{Lexer, Token, Word};
pub use printer::print;
use tepui_model::table::{self, Comparison, Explanation, Filter, Literal};
use tepui_model::{ErrorCode, ServiceError, Stage};

/// The longest text. A URL can hardly be longer.
const MAX_BYTES: usize = 32 * 1024;
/// How deep parentheses and negations may nest.
const MAX_DEPTH: usize = 100;

/// Says what a query with this `$filter` would read, without running it. A blank one is none.
///
/// ```
/// use tepui_wire::table::filter_text::explain;
/// let explanation = explain("PartitionKey eq 'berlin' and (RowKey eq '7' or RowKey eq '9')").unwrap();
/// assert_eq!(explanation.plan.name(), "point");
/// let ranges: Vec<String> = explanation.ranges.iter().map(ToString::to_string).collect();
/// assert_eq!(ranges, ["PartitionKey = 'berlin', RowKey = '7'", "PartitionKey = 'berlin', RowKey = '9'"]);
/// assert_eq!(explanation.hint().map(|hint| hint.name()), Some("use-point"));
/// assert!(explain("PartitionKey equals 7").is_err());
/// ```
pub fn explain(text: &str) -> Result<Explanation, ServiceError> {
    Ok(table::explain(parse(text)?.as_ref()))
}

/// The filter that a text stands for; `None` for a blank one.
///
/// ```
/// use tepui_model::table::{Comparison, Filter, Literal};
/// use tepui_wire::table::filter_text::parse;
/// let filter = parse("3 lt Qty").unwrap();
/// let property = "Qty".to_owned();
/// assert_eq!(filter, Some(Filter::Compare { property, how: Comparison::Greater, value: Literal::Int32(3) }));
/// assert_eq!(parse(" ").unwrap(), None);
/// ```
pub fn parse(text: &str) -> Result<Option<Filter>, ServiceError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.len() > MAX_BYTES {
        return Err(ServiceError::new(ErrorCode::InvalidInput).with_cause("filter is too long"));
    }
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, depth: 0, refusal: None };
    parser.advance();
    let term = parser.or()?;
    if parser.token != Token::End {
        return Err(parser.syntax_error());
    }
    let filter = parser.condition(term);
    parser.refusal.map_or(Ok(Some(filter)), Err)
}

/// A part of the text, before it is known whether it stands for a condition or for a value.
enum Term {
    Filter(Filter),
    Property(String),
    Literal(Literal),
    Null,
    /// Something that the service knows of and does not do, such as a function.
    NotImplemented,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that comes next.
    token: Token,
    depth: usize,
    /// Why the filter cannot be carried out, though it is well formed.
    refusal: Option<ServiceError>,
}

impl Parser<'_> {
    fn or(&mut self) -> Result<Term, ServiceError> {
        let first = self.and()?;
        if self.token != Token::Word(Word::Or) {
            return Ok(first);
        }
        let mut any = Vec::new();
        let mut next = first;
        loop {
            match self.condition(next) {
                Filter::Or(inner) => any.extend(inner),
                other => any.push(other),
            }
            if self.token != Token::Word(Word::Or) {
                return Ok(Term::Filter(Filter::Or(any)));
            }
            self.advance();
            next = self.and()?;
        }
    }

    fn and(&mut self) -> Result<Term, ServiceError> {
        let first = self.not()?;
        if self.token != Token::Word(Word::And) {
            return Ok(first);
        }
        let mut all = Vec::new();
        let mut next = first;
        loop {
            match self.condition(next) {
                Filter::And(inner) => all.extend(inner),
                other => all.push(other),
            }
            if self.token != Token::Word(Word::And) {
                return Ok(Term::Filter(Filter::And(all)));
            }
            self.advance();
            next = self.not()?;
        }
    }

    fn not(&mut self) -> Result<Term, ServiceError> {
        if self.token != Token::Word(Word::Not) {
            return self.comparison();
        }
        self.advance();
        let inner = self.nested(Self::not)?;
        let inner = self.condition(inner);
        Ok(Term::Filter(Filter::Not(Box::new(inner))))
    }

    fn comparison(&mut self) -> Result<Term, ServiceError> {
        let left = self.operand()?;
        let Token::Word(Word::Compare(how)) = self.token else { return Ok(left) };
        self.advance();
        let right = match self.token {
            Token::Word(Word::Not) => self.not()?,
            _ => self.operand()?,
        };
        Ok(self.compare(left, how, right))
    }

    /// A value or a condition in parentheses, and the arithmetic around it, which is not implemented.
    fn operand(&mut self) -> Result<Term, ServiceError> {
        let mut term = self.primary()?;
        while matches!(&self.token, Token::Name(name) if is_arithmetic(name)) {
            self.advance();
            self.primary()?;
            term = Term::NotImplemented;
        }
        Ok(term)
    }

    fn primary(&mut self) -> Result<Term, ServiceError> {
        let term = match std::mem::replace(&mut self.token, Token::Taken) {
            Token::Open => {
                self.advance();
                let inner = self.nested(Self::or)?;
                if self.token != Token::Close {
                    return Err(self.syntax_error());
                }
                inner
            }
            Token::Literal(literal) => Term::Literal(literal),
            Token::Null => Term::Null,
            Token::Name(name) => {
                self.advance();
                if self.token != Token::Open {
                    return Ok(Term::Property(name));
                }
                return self.call();
            }
            other => {
                self.token = other;
                return Err(self.syntax_error());
            }
        };
        self.advance();
        Ok(term)
    }

    /// The arguments of a function: they must be well formed, though no function is implemented.
    fn call(&mut self) -> Result<Term, ServiceError> {
        self.advance();
        while self.token != Token::Close {
            self.nested(Self::or)?;
            match self.token {
                Token::Comma => self.advance(),
                Token::Close => {}
                _ => return Err(self.syntax_error()),
            }
        }
        self.advance();
        Ok(Term::NotImplemented)
    }

    fn nested(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<Term, ServiceError>,
    ) -> Result<Term, ServiceError> {
        if self.depth == MAX_DEPTH {
            return Err(ServiceError::new(ErrorCode::InvalidInput).with_cause("filter is nested too deep"));
        }
        self.depth += 1;
        let term = parse(self)?;
        self.depth -= 1;
        Ok(term)
    }

    fn compare(&mut self, left: Term, how: Comparison, right: Term) -> Term {
        let (property, how, value) = match (left, right) {
            (Term::Null, _) | (_, Term::Null) => {
                self.refuse(null_comparison(how));
                return Term::Filter(Filter::Constant(false));
            }
            (Term::Property(property), Term::Literal(value)) => (property, how, value),
            (Term::Literal(value), Term::Property(property)) => (property, how.mirrored(), value),
            // Fidelity: one side must be a constant and the other a property. scenario: filter-not-implemented
            _ => {
                self.refuse(ErrorCode::NotImplemented.into());
                return Term::Filter(Filter::Constant(false));
            }
        };
        Term::Filter(Filter::Compare { property, how, value })
    }

    /// A term that stands where a condition is wanted.
    fn condition(&mut self, term: Term) -> Filter {
        match term {
            Term::Filter(filter) => return filter,
            // Fidelity: a name alone asks for a Boolean that is true. scenario: filter-boolean
            Term::Property(property) => return Filter::IsTrue(property),
            Term::Literal(Literal::Boolean(answer)) => return Filter::Constant(answer),
            Term::Literal(_) | Term::Null => self.refuse(ErrorCode::InvalidInput.into()),
            Term::NotImplemented => self.refuse(ErrorCode::NotImplemented.into()),
        }
        Filter::Constant(false)
    }

    /// Keeps the first refusal; but what the front end refuses never reaches the store.
    fn refuse(&mut self, error: ServiceError) {
        let comes_first = |than: &ServiceError| than.stage == Stage::Store && error.stage != Stage::Store;
        if self.refusal.as_ref().is_none_or(comes_first) {
            self.refusal = Some(error);
        }
    }

    fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    /// The token that comes next should not be here.
    fn syntax_error(&self) -> ServiceError {
        let (position, text) = (self.lexer.position(), self.lexer.text());
        ServiceError::new(ErrorCode::InvalidInput)
            .with_message(format!("Syntax error at position {position} in '{text}'."))
    }
}

fn is_arithmetic(name: &str) -> bool {
    matches!(name, "add" | "sub" | "mul" | "div" | "mod")
}

/// Nothing compares with null, and the service has two ways of saying so.
fn null_comparison(how: Comparison) -> ServiceError {
    let operator = match how {
        // Fidelity: equality passes the front end and fails in the store. scenario: filter-null
        Comparison::Equal | Comparison::NotEqual => {
            return ServiceError::new(ErrorCode::InvalidInput).at_stage(Stage::Store);
        }
        Comparison::Greater => "GreaterThan",
        Comparison::GreaterOrEqual => "GreaterThanOrEqual",
        Comparison::Less => "LessThan",
        Comparison::LessOrEqual => "LessThanOrEqual",
    };
    ServiceError::new(ErrorCode::InvalidInput).with_message(format!(
        "The operator '{operator}' is not supported for the 'null' literal; only equality checks are supported."
    ))
}

#[cfg(test)]
#[path = "filter_text_tests.rs"]
mod tests;
