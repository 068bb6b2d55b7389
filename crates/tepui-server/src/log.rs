//! The log: `tracing` events as lines of text or JSON.
//!
//! One line is written for each request, so it has to be cheap: events are formatted into a buffer of the thread, without
//! spans and layers, and a thread of its own writes them. A log that cannot be written fast enough drops lines, and
//! reports how many; it never blocks a request.

use crate::config::{Config, LogFormat};
use crate::pipeline::{FinishedExchange, OperationKind};
use hyper::header::USER_AGENT;
use hyper::http::HeaderMap;
use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tepui_model::cost::Cost;
use tepui_model::time::{Clock, SystemClock, Timestamp};
use tepui_storage::stats::Counter;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The target of the lines about requests.
const REQUESTS: &str = "tepui::request";

/// What is logged about a request. Never its query string: that may hold a signature.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    pub request_id: &'a str,
    pub client: SocketAddr,
    /// The User-Agent.
    pub user_agent: &'a str,
    pub account: &'a str,
    pub operation: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    /// `None` if the client had gone before there was an answer.
    pub status: Option<u16>,
    pub error_code: Option<&'a str>,
    /// Bytes of the reply's body that were sent.
    pub bytes: u64,
    /// From the head of the request to the last byte of the reply.
    pub microseconds: u64,
    pub cost: Option<Cost>,
}

/// The longest User-Agent that is logged.
const MAX_USER_AGENT_CHARS: usize = 200;

/// Whether there is a line for each request.
pub(crate) fn logs_exchanges() -> bool {
    tracing::event_enabled!(target: REQUESTS, Level::INFO)
}

/// Writes the line about a request whose answer was sent, or given up.
pub(crate) fn log_exchange(exchange: &FinishedExchange) {
    let user_agent = exchange.request.headers.get(USER_AGENT);
    let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let took = exchange.ended.saturating_duration_since(exchange.started);
    request_line(&RequestLine {
        request_id: &exchange.request_id,
        client: exchange.client,
        user_agent: user_agent.as_deref().unwrap_or_default(),
        account: &exchange.account,
        operation: exchange.operation.map_or("", OperationKind::name),
        method: exchange.request.method.as_str(),
        path: exchange.request.uri.path(),
        status: exchange.status,
        error_code: exchange.error_code,
        bytes: exchange.bytes_out,
        microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        cost: exchange.cost,
    });
}

/// Writes the line about one request.
pub fn request_line(line: &RequestLine<'_>) {
    tracing::info!(
        target: REQUESTS,
        request_id = line.request_id,
        client = %line.client,
        user_agent = cut(line.user_agent),
        account = line.account,
        operation = line.operation,
        method = line.method,
        path = line.path,
        status = line.status,
        error_code = line.error_code,
        bytes = line.bytes,
        microseconds = line.microseconds,
        cost = line.cost.map(|cost| tracing::field::debug(LoggedCost(cost))),
    );
}

fn cut(user_agent: &str) -> &str {
    let end = user_agent.char_indices().nth(MAX_USER_AGENT_CHARS).map_or(user_agent.len(), |(at, _)| at);
    &user_agent[..end]
}

/// The name of the field that holds a [`LoggedCost`].
const COST: &str = "cost";

/// An object of JSON as `{:?}`, and a text as `{:#?}`.
struct LoggedCost(Cost);

impl fmt::Debug for LoggedCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return fmt::Display::fmt(&self.0, f);
        }
        let Cost { plan, ranges, scanned, returned, bytes, units, operations, has_more } = self.0;
        f.write_str("{")?;
        if let Some(plan) = plan {
            write!(f, r#""plan":"{plan}","#)?;
        }
        write!(
            f,
            r#""ranges":{ranges},"scanned":{scanned},"returned":{returned},"bytes":{bytes},"units":{units}"#
        )?;
        if let Some(operations) = operations {
            write!(f, r#","operations":{operations}"#)?;
        }
        if has_more {
            f.write_str(r#","more":true"#)?;
        }
        if let Some(hint) = self.0.hint() {
            write!(f, r#","hint":"{}""#, hint.name())?;
        }
        f.write_str("}")
    }
}

/// Headers that are never logged: they are secrets, or URLs that hold some.
const SECRET_HEADERS: &[&str] = &[
    "authorization",
    "cookie",
    // A page that was opened by the URL of a SAS names it in what it asks for.
    "referer",
    "x-identity-header",
    "x-ms-copy-source",
    "x-ms-copy-source-authorization",
    "x-ms-encryption-key",
    "x-ms-previous-snapshot-url",
];

/// Logs the headers of a request or of its answer, at the level `trace`.
pub fn trace_headers(request_id: &str, message: &'static str, headers: &HeaderMap) {
    if !tracing::event_enabled!(Level::TRACE) {
        return;
    }
    let mut text = String::new();
    for (name, value) in headers {
        text.push_str(if text.is_empty() { "" } else { "; " });
        let value = match SECRET_HEADERS.contains(&name.as_str()) {
            true => "(secret)".into(),
            false => String::from_utf8_lossy(value.as_bytes()),
        };
        let _ = write!(text, "{name}: {value}");
    }
    tracing::trace!(request_id, headers = text, "{message}");
}

/// Flushes the log when it is dropped.
pub struct LogGuard {
    pending: Arc<Pending>,
    filter: Arc<Filter>,
    writer: Option<JoinHandle<()>>,
}

/// Starts logging as `config` says, for the whole process.
pub fn start(config: &Config) -> io::Result<LogGuard> {
    let (log, guard) = Log::new(config, Output::open(config.log_file.clone())?)?;
    tracing::subscriber::set_global_default(log).map_err(io::Error::other)?;
    Ok(guard)
}

/// Where lines go.
struct Output {
    /// `None`: to standard error.
    path: Option<PathBuf>,
    out: Box<dyn Write + Send>,
}

impl Output {
    fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = match &path {
            Some(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
            None => Box::new(io::stderr()),
        };
        Ok(Self { path, out })
    }

    /// Reopens the file, after a rotation for example. If that fails, the old one stays open.
    fn open_again(&mut self) -> io::Result<()> {
        if self.path.is_some() {
            *self = Self::open(self.path.clone())?;
        }
        Ok(())
    }
}

impl LogGuard {
    /// Reopens the log file, and applies the level and format of `config`.
    pub fn reload(&self, config: &Config) {
        self.filter.set(config);
        // Call sites cache whether they are enabled.
        tracing::callsite::rebuild_interest_cache();
        self.pending.lines.lock().reopen = true;
        self.pending.wake.notify_one();
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.pending.lines.lock().closed = true;
        self.pending.wake.notify_one();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Lines on their way to the writer.
#[derive(Default)]
struct Pending {
    lines: Mutex<Lines>,
    wake: Condvar,
}

#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    dropped: u64,
    /// The file has to be reopened.
    reopen: bool,
    closed: bool,
}

/// How many lines were dropped so far. There is one log for the whole process.
static DROPPED_LINES: Counter = Counter::new();

pub(crate) fn dropped_lines() -> u64 {
    DROPPED_LINES.get()
}

/// Lines beyond this many bytes are dropped.
const MAX_PENDING_BYTES: usize = 4 * 1024 * 1024;

/// The writer sleeps this long after each write, so that a busy server wakes it 100 times a second and
/// not 50,000 times.
const WRITER_REST: Duration = Duration::from_millis(10);

impl Pending {
    fn push(&self, line: &str) {
        let mut lines = self.lines.lock();
        if lines.text.len() + line.len() > MAX_PENDING_BYTES {
            lines.dropped += 1;
            DROPPED_LINES.add(1);
            return;
        }
        let was_empty = lines.text.is_empty();
        lines.text.extend_from_slice(line.as_bytes());
        drop(lines);
        if was_empty {
            self.wake.notify_one();
        }
    }

    fn write_out(&self, mut output: Output, format: LogFormat) {
        let mut text = Vec::new();
        loop {
            text.clear();
            let mut lines = self.lines.lock();
            while lines.text.is_empty() && !lines.closed && !lines.reopen {
                self.wake.wait(&mut lines);
            }
            std::mem::swap(&mut text, &mut lines.text);
            let dropped = std::mem::take(&mut lines.dropped);
            let (closed, reopen) = (lines.closed, std::mem::take(&mut lines.reopen));
            drop(lines);
            let failed = if reopen { output.open_again().err() } else { None };
            if let Some(error) = failed {
                let mut line = Line::begin(String::new(), format, &Level::ERROR);
                line.text("message", "cannot open the log anew: the old file goes on");
                line.display("error", error);
                text.extend_from_slice(line.end().as_bytes());
            }
            if dropped > 0 {
                let mut line = Line::begin(String::new(), format, &Level::WARN);
                line.text("message", "log lines dropped");
                line.number("lines", dropped);
                text.extend_from_slice(line.end().as_bytes());
            }
            // There is no place to report an error of the log itself.
            let _ = output.out.write_all(&text).and_then(|()| output.out.flush());
            if closed {
                return;
            }
            std::thread::sleep(WRITER_REST);
        }
    }
}

/// The subscriber, of events only.
struct Log {
    format: LogFormat,
    filter: Arc<Filter>,
    pending: Arc<Pending>,
}

/// The level, which can be changed.
#[derive(Default)]
struct Filter {
    /// As a number: [`LogLevel::Off`] is 0.
    level: AtomicU8,
    requests: AtomicBool,
}

impl Filter {
    fn set(&self, config: &Config) {
        self.level.store(config.log_level as u8, Relaxed);
        self.requests.store(config.log_requests, Relaxed);
    }

    fn level(&self) -> LevelFilter {
        match self.level.load(Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }
}

impl Log {
    fn new(config: &Config, output: Output) -> io::Result<(Self, LogGuard)> {
        let pending = Arc::new(Pending::default());
        let (queue, format) = (Arc::clone(&pending), config.log_format);
        let writer = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || queue.write_out(output, format))?;
        let filter = Arc::new(Filter::default());
        filter.set(config);
        let guard =
            LogGuard { pending: Arc::clone(&pending), filter: Arc::clone(&filter), writer: Some(writer) };
        Ok((Self { format, filter, pending }, guard))
    }
}

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= self.filter.level()
            && (self.filter.requests.load(Relaxed) || metadata.target() != REQUESTS)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.level())
    }

    fn event(&self, event: &Event<'_>) {
        // The buffer is borrowed only if a value logs something while it is formatted.
        let buffer = LINE.try_with(|line| line.try_borrow_mut().map(|mut line| std::mem::take(&mut *line)));
        let buffer = buffer.ok().and_then(Result::ok).unwrap_or_default();
        let mut line = Line::begin(buffer, self.format, event.metadata().level());
        if event.metadata().target() == REQUESTS {
            line.text("message", "request");
        }
        event.record(&mut line);
        let mut buffer = line.end();
        self.pending.push(&buffer);
        buffer.clear();
        let _ = LINE.try_with(|line| line.try_borrow_mut().map(|mut line| *line = buffer));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A line that is being formatted.
struct Line {
    out: String,
    format: LogFormat,
}

impl Line {
    fn begin(mut out: String, format: LogFormat, level: &Level) -> Self {
        let json = format == LogFormat::Json;
        out.push_str(if json { r#"{"time":""# } else { "" });
        push_time(&mut out, SystemClock::new().now());
        let (name, padded) = match *level {
            Level::ERROR => ("error", "ERROR"),
            Level::WARN => ("warn", "WARN "),
            Level::INFO => ("info", "INFO "),
            Level::DEBUG => ("debug", "DEBUG"),
            Level::TRACE => ("trace", "TRACE"),
        };
        out.push_str(if json { r#"","level":""# } else { " " });
        out.push_str(if json { name } else { padded });
        out.push_str(if json { "\"" } else { "" });
        Self { out, format }
    }

    fn end(mut self) -> String {
        self.out.push_str(if self.format == LogFormat::Json { "}\n" } else { "\n" });
        self.out
    }

    /// The prefix of a field's value. In text the message has no name.
    fn name(&mut self, name: &str) {
        match self.format {
            LogFormat::Json => {
                self.out.push_str(",\"");
                self.out.push_str(name);
                self.out.push_str("\":");
            }
            LogFormat::Text if name == "message" => self.out.push(' '),
            LogFormat::Text => {
                self.out.push(' ');
                self.out.push_str(name);
                self.out.push('=');
            }
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        if self.format == LogFormat::Text && stands_bare(name, value) {
            self.out.push_str(value);
        } else {
            push_json_string(&mut self.out, value);
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.out.extend(digits[at..].iter().map(|&digit| char::from(digit)));
    }

    fn display(&mut self, name: &str, value: impl fmt::Display) {
        self.name(name);
        let _ = write!(self.out, "{value}");
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == COST {
            match self.format {
                LogFormat::Json => self.display(COST, format_args!("{value:?}")),
                LogFormat::Text => self.text(COST, &format!("{value:#?}")),
            }
            return;
        }
        self.text(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.display(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.display(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.text(field.name(), &value.to_string());
    }
}

/// `2026-03-10T08:15:30.123456Z`. The date is computed once a second.
fn push_time(out: &mut String, now: Timestamp) {
    thread_local! {
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let (second, ticks) = (now.ticks() / 10_000_000, now.ticks() % 10_000_000);
    SECOND.with_borrow_mut(|(of, text)| {
        if *of != second {
            *of = second;
            *text = now.to_iso_7();
            text.truncate("2026-03-10T08:15:30.".len());
        }
        out.push_str(text);
    });
    let mut left = ticks / 10;
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.extend(digits.iter().map(|&digit| char::from(digit)));
    out.push('Z');
}

/// Whether a value in a line of text needs no quotes.
fn stands_bare(name: &str, value: &str) -> bool {
    let spaces = name == "message";
    (spaces || (!value.is_empty() && !value.contains(' '))) && first_to_escape(value).is_none()
}

/// Where the first character is that JSON or a terminal would take for more than a sign: quotes, `\` and control characters.
fn first_to_escape(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let needs_escape = |(at, &byte): (usize, &u8)| match byte {
        // Those from U+0080 to U+009F.
        0xC2 => matches!(bytes.get(at + 1), Some(0x80..=0x9F)),
        _ => byte < b' ' || byte == b'"' || byte == b'\\' || byte == 0x7F,
    };
    bytes.iter().enumerate().position(needs_escape)
}

/// Appends `text` as a JSON string.
pub(crate) fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some((before, found)) = first_to_escape(rest).map(|at| rest.split_at(at)) {
        out.push_str(before);
        let mut after = found.chars();
        match after.next().unwrap_or_default() {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
        }
        rest = after.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogLevel;
    use tepui_model::table::PlanKind;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` logs, without timestamps.
    fn to(out: impl Write + Send + 'static) -> Output {
        Output { path: None, out: Box::new(out) }
    }

    fn logged(config: &Config, work: impl FnOnce()) -> Vec<String> {
        let kept = Kept::default();
        let (log, guard) = Log::new(config, to(kept.clone())).unwrap();
        tracing::subscriber::with_default(log, work);
        drop(guard);
        let text = String::from_utf8(kept.0.lock().clone()).unwrap();
        let time = "2026-03-10T08:15:30.123456Z".len();
        let from = if config.log_format == LogFormat::Json { r#"{"time":""#.len() } else { 0 };
        text.lines().map(|line| format!("{}{}", &line[..from], &line[from + time..])).collect()
    }

    const LINE: RequestLine<'static> = RequestLine {
        request_id: "0001",
        client: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 50123),
        user_agent: "azsdk-python 1.0",
        account: "people",
        operation: "QueryEntities",
        method: "GET",
        path: "/people/Orders()",
        status: Some(200),
        error_code: None,
        bytes: 1234,
        microseconds: 56,
        cost: Some(Cost {
            plan: Some(PlanKind::Partition),
            ranges: 1,
            scanned: 30,
            returned: 2,
            bytes: 900,
            units: 30,
            operations: None,
            has_more: false,
        }),
    };

    #[test]
    fn a_request_is_one_line() {
        let text = logged(&Config::default(), || request_line(&LINE));
        let says = concat!(
            r#" INFO  request request_id=0001 client=127.0.0.1:50123 user_agent="azsdk-python 1.0" account=people "#,
            r#"operation=QueryEntities method=GET path=/people/Orders() status=200 bytes=1234 microseconds=56 "#,
            r#"cost="plan=partition, ranges=1, scanned=30, returned=2, bytes=900, units=30""#
        );
        assert_eq!(text, [says]);

        let json = Config { log_format: LogFormat::Json, ..Config::default() };
        let error = RequestLine { error_code: Some("TableNotFound"), cost: None, ..LINE };
        let before = concat!(
            r#"{"time":"","level":"info","message":"request","request_id":"0001","client":"127.0.0.1:50123","#,
            r#""user_agent":"azsdk-python 1.0","account":"people","#,
            r#""operation":"QueryEntities","method":"GET","path":"/people/Orders()","status":200,"#,
        );
        let says = format!(r#"{before}"error_code":"TableNotFound","bytes":1234,"microseconds":56}}"#);
        assert_eq!(logged(&json, || request_line(&error)), [says]);

        let cost = r#"{"plan":"partition","ranges":1,"scanned":30,"returned":2,"bytes":900,"units":30}"#;
        let says = format!(r#"{before}"bytes":1234,"microseconds":56,"cost":{cost}}}"#);
        assert_eq!(logged(&json, || request_line(&LINE)), [says]);

        let long = "x".repeat(5000);
        let of_anybody = RequestLine { user_agent: &long, ..LINE };
        let text = logged(&Config::default(), || request_line(&of_anybody));
        assert!(text[0].contains(&format!(" user_agent={} ", "x".repeat(200))), "{}", text[0]);
    }

    #[test]
    fn a_value_cannot_forge_a_line() {
        let text = logged(&Config::default(), || {
            let path = "/a\n2026 INFO \"x\\";
            tracing::warn!(path, error = %io::Error::other("broken\r\n"), "went\u{1b}[31m wrong");
        });
        assert_eq!(
            text,
            [concat!(
                r#" WARN  "went\u001b[31m wrong" path="/a\n2026 INFO \"x\\" "#,
                r#"error="broken\u000d\n""#
            )]
        );
    }

    #[test]
    fn a_value_cannot_steer_a_terminal() {
        // The one-byte form of ESC [, as a path and a User-Agent may hold it.
        let line =
            RequestLine {
                path: "/a/\u{9b}31m", user_agent: "\u{80}\u{9f}\u{7f}é\u{a0}", cost: None, ..LINE
            };
        let text = logged(&Config::default(), || request_line(&line)).remove(0);
        assert!(text.contains(r#" path="/a/\u009b31m" "#), "{text}");
        assert!(text.contains("user_agent=\"\\u0080\\u009f\\u007fé\u{a0}\" "), "{text}");
        let json = Config { log_format: LogFormat::Json, ..Config::default() };
        let text = logged(&json, || request_line(&line)).remove(0);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["path"], &read["user_agent"]), (&line.path.into(), &line.user_agent.into()));
        assert!(!text.contains(char::is_control), "{text}");
    }

    #[test]
    fn every_control_character_is_escaped_and_no_other() {
        for char in (0..0x3000).filter_map(char::from_u32) {
            let mut json = String::new();
            push_json_string(&mut json, &format!("a{char}b"));
            let is_escaped = char.is_control() || char == '"' || char == '\\';
            assert_eq!(json.len() > 2 + 2 + char.len_utf8(), is_escaped, "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), format!("a{char}b"));
        }
    }

    #[test]
    fn headers_are_traced_without_their_secrets() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-ms-version", "2021-12-02"),
            ("authorization", "SharedKey a:hunter2"),
            ("x-ms-encryption-key", "hunter2"),
            ("x-ms-copy-source", "http://h/c/b?sig=hunter2"),
            ("x-ms-copy-source-authorization", "Bearer hunter2"),
            ("referer", "http://h/c/page.html?sig=hunter2"),
            ("x-identity-header", "hunter2"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        let work = || trace_headers("0001", "request headers", &headers);
        let trace = Config { log_level: LogLevel::Trace, ..Config::default() };
        let text = logged(&trace, work);
        assert!(text[0].starts_with(" TRACE request headers request_id=0001 headers="), "{}", text[0]);
        assert!(text[0].contains("x-ms-version: 2021-12-02") && !text[0].contains("hunter2"), "{}", text[0]);
        let debug = Config { log_level: LogLevel::Debug, ..Config::default() };
        assert_eq!(logged(&debug, work), [""; 0]);
    }

    #[test]
    fn levels_and_silence() {
        let work = || {
            request_line(&LINE);
            tracing::info!("logged");
            tracing::debug!("more");
        };
        let quiet = Config { log_requests: false, ..Config::default() };
        assert_eq!(logged(&quiet, work), [" INFO  logged"]);
        let off = Config { log_level: LogLevel::Warn, ..Config::default() };
        assert_eq!(logged(&off, work), [""; 0]);
        let debug = Config { log_level: LogLevel::Debug, ..Config::default() };
        assert_eq!(logged(&debug, work).len(), 3);
    }

    #[test]
    fn a_log_that_is_stuck_loses_lines_and_says_so() {
        struct Stuck(Arc<Mutex<()>>, Kept);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _open = self.0.lock();
                self.1.write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (gate, kept) = (Arc::new(Mutex::new(())), Kept::default());
        let (log, guard) = Log::new(&Config::default(), to(Stuck(Arc::clone(&gate), kept.clone()))).unwrap();
        let shut = gate.lock();
        tracing::subscriber::with_default(log, || {
            for _ in 0..100_000 {
                request_line(&LINE);
            }
        });
        drop(shut);
        drop(guard);
        let text = String::from_utf8(kept.0.lock().clone()).unwrap();
        let dropped = text.lines().find_map(|line| line.split("log lines dropped lines=").nth(1)).unwrap();
        assert_eq!(text.lines().count() - 1 + dropped.parse::<usize>().unwrap(), 100_000);
    }
}
