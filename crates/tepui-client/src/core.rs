//! What all services share: one call from its request to its reply, with everything that may come between them.

mod partition_limits;

pub(crate) use partition_limits::PartitionLimits;

use crate::credential::Credential;
use crate::observe::{Observer, SentRequest};
use crate::retry::Retry;
use crate::transport::{Pool, SendError};
use crate::{Error, ErrorKind, Scans};
use bytes::Bytes;
use http::header::DATE;
use http::uri::PathAndQuery;
use http::{Response, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tepui_model::cost::Receipt;
use tepui_model::time::SystemClock;
use tepui_model::{Clock as _, Timestamp};
use tepui_wire::address::Service;
use tepui_wire::remote::{OutgoingRequest, RemoteService, ReplyError, RequestBody};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

/// Larger than any page of entities or messages that services send.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Services refuse signatures that are older.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(15 * 60);

/// An account, ready to be asked.
pub(crate) struct Core {
    pub(crate) table: Option<Endpoint>,
    pub(crate) queue: Option<Endpoint>,
    pub(crate) blob: Option<Endpoint>,
    pub(crate) credential: Credential,
    pub(crate) retry: Retry,
    pub(crate) within: Duration,
    pub(crate) max_parallel: usize,
    pub(crate) parallel: Semaphore,
    pub(crate) partitions: PartitionLimits,
    pub(crate) scans: Scans,
    pub(crate) observer: Option<Arc<Observer>>,
    pub(crate) clock: SystemClock,
}

/// Where a service is.
pub(crate) struct Endpoint {
    pub(crate) remote: RemoteService,
    pub(crate) pool: Pool,
}

/// What a call needs beside its request.
#[derive(Clone, Default)]
pub(crate) struct CallOptions<'a> {
    /// What becomes busy on its own: the partition, the queue.
    pub(crate) partition: Option<&'a str>,
    /// Instead of what the account says.
    pub(crate) within: Option<Duration>,
    /// What is sent where the request leaves its body to the caller.
    pub(crate) body: Bytes,
    /// Not sent again once it may have been carried out: for what must not be done twice.
    pub(crate) at_most_once: bool,
}

/// A call that did not get what it asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether one of the attempts may have been carried out all the same.
    pub(crate) is_doubtful: bool,
}

/// For reads, which cannot be in doubt.
impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Failure {
    pub(crate) fn of_nothing_sent(error: Error) -> Self {
        Self { error, is_doubtful: false }
    }

    /// For writes: doubt is an outcome of its own.
    pub(crate) fn of_write(self) -> Error {
        if !self.is_doubtful {
            return self.error;
        }
        let message = "the answer was lost: the write may have been carried out or not";
        let mut unknown = Error::new(ErrorKind::Unknown, message);
        if let Some(index) = self.error.index() {
            unknown = unknown.at_index(index);
        }
        unknown.with_source(self.error)
    }
}

/// The outcome of a deletion of whatever is there: what an attempt before the last has deleted is deleted.
pub(crate) fn gone<T>(outcome: Result<T, Failure>) -> Result<(), Error> {
    match outcome {
        Ok(_) => Ok(()),
        Err(Failure { error, is_doubtful: true }) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(failure) => Err(failure.of_write()),
    }
}

impl Core {
    pub(crate) fn endpoint(&self, service: Service) -> Result<&Endpoint, Error> {
        let endpoint = match service {
            Service::Table => &self.table,
            Service::Queue => &self.queue,
            Service::Blob => &self.blob,
        };
        endpoint.as_ref().ok_or_else(|| {
            let message = format!("the account has no endpoint for the {} service", service.name());
            Error::new(ErrorKind::Configuration, message)
        })
    }

    /// Sends a request until there is an answer to rely on, or no more time or patience.
    pub(crate) async fn call<T>(
        &self,
        endpoint: &Endpoint,
        request: &OutgoingRequest,
        options: &CallOptions<'_>,
        read: impl Fn(&Response<Bytes>) -> Result<T, ReplyError>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + options.within.unwrap_or(self.within);
        let mut waits = self.retry.start();
        let mut is_doubtful = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let is_sent = AtomicBool::new(false);
            let answer =
                timeout_at(deadline, self.attempt(endpoint, request, options, attempt, &is_sent, &read));
            let (error, wait) = match answer.await {
                Err(_) => {
                    is_doubtful |= is_sent.into_inner();
                    let error =
                        Error::new(ErrorKind::DeadlineExceeded, "no answer in the time that was given");
                    return Err(Failure { error, is_doubtful });
                }
                Ok(Ok(reply)) => return Ok(reply),
                #[cfg(feature = "tls")]
                Ok(Err(AttemptError::NotSent(error))) => return Err(Failure { error, is_doubtful }),
                Ok(Err(AttemptError::Final(error))) => {
                    // An answer that cannot be read does not say that nothing was done.
                    is_doubtful |= error.status().is_none() && is_sent.into_inner();
                    return Err(Failure { error, is_doubtful });
                }
                Ok(Err(AttemptError::Answered(error))) => {
                    // A busy service has not begun with it. All else may have ended before the answer was made.
                    is_doubtful |= error.kind() != ErrorKind::Throttled;
                    let wait = waits.after_answer(error.retry_after_seconds());
                    (error, wait)
                }
                Ok(Err(AttemptError::Lost { error, was_sent })) => {
                    is_doubtful |= was_sent;
                    (error, waits.after_lost_connection())
                }
            };
            match wait {
                _ if options.at_most_once && is_doubtful => return Err(Failure { error, is_doubtful }),
                Some(wait) if Instant::now() + wait < deadline => sleep(wait).await,
                _ => return Err(Failure { error, is_doubtful }),
            }
        }
    }

    async fn attempt<T>(
        &self,
        endpoint: &Endpoint,
        request: &OutgoingRequest,
        options: &CallOptions<'_>,
        attempt: u32,
        is_sent: &AtomicBool,
        read: impl Fn(&Response<Bytes>) -> Result<T, ReplyError>,
    ) -> Result<T, AttemptError> {
        let leave = match options.partition {
            Some(partition) => Some(self.partitions.enter(partition).await),
            None => None,
        };
        let _permit = self.parallel.acquire().await;
        let request = self.authorized(endpoint, request, options).await.map_err(AttemptError::Final)?;
        let body = match request.body() {
            RequestBody::Whole(bytes) => bytes.clone(),
            RequestBody::Empty => Bytes::new(),
            RequestBody::Streamed { .. } => options.body.clone(),
        };
        let (method, started) = (request.method().clone(), Instant::now());
        is_sent.store(true, Ordering::Relaxed);
        let outcome = endpoint.pool.exchange(request, body, MAX_ANSWER_BYTES).await;
        if let Some(observer) = &self.observer {
            let response = outcome.as_ref().ok();
            observer(&SentRequest {
                service: endpoint.remote.service().name(),
                method: method.as_str(),
                attempt,
                status: response.map(|response| response.status().as_u16()),
                time: started.elapsed(),
                receipt: response.and_then(receipt),
            });
        }
        let response = outcome.map_err(AttemptError::of_transport)?;
        let reply = read(&response);
        if let (Some(partition), Some(leave)) = (options.partition, &leave) {
            match &reply {
                Ok(_) => self.partitions.has_succeeded(partition, leave),
                Err(ReplyError::Refused(error)) if matches!(error.status.as_u16(), 429 | 503) => {
                    self.partitions.was_busy(partition, leave);
                }
                Err(_) => {}
            }
        }
        reply.map_err(|error| {
            let mut error = Error::from(error);
            if error.kind() == ErrorKind::Denied {
                self.explain_clock(&response, &mut error);
            }
            match error.status() {
                Some(408 | 429 | 500 | 502 | 503 | 504) => AttemptError::Answered(error),
                _ => AttemptError::Final(error),
            }
        })
    }

    /// Signed anew for each attempt: signatures are good for some minutes only.
    async fn authorized(
        &self,
        endpoint: &Endpoint,
        request: &OutgoingRequest,
        options: &CallOptions<'_>,
    ) -> Result<OutgoingRequest, Error> {
        let mut request = request.clone();
        if let Some(within) = options.within {
            let seconds = within.as_secs().max(1);
            let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
            let sign = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{sign}timeout={seconds}").parse::<PathAndQuery>();
            let mut parts = request.uri().clone().into_parts();
            parts.path_and_query =
                Some(path.map_err(|_| Error::new(ErrorKind::Refused, "the URL is too long"))?);
            *request.uri_mut() =
                Uri::from_parts(parts).map_err(|_| Error::new(ErrorKind::Refused, "the URL is too long"))?;
        }
        self.credential.authorize(&endpoint.remote, &mut request, self.clock.now()).await?;
        Ok(request)
    }

    /// A wrong clock is the usual reason for signatures that are refused, and nothing says so.
    fn explain_clock(&self, response: &Response<Bytes>, error: &mut Error) {
        let Some(there) = date(response) else { return };
        let here = self.clock.now();
        let (earlier, later) = if here < there { (here, there) } else { (there, here) };
        if later.since(earlier) > MAX_CLOCK_SKEW {
            error.add_to_message(&format!(
                " The clock of this machine says {}, that of the service {}.",
                here.to_http(),
                there.to_http()
            ));
        }
    }
}

enum AttemptError {
    /// It will not be better the next time.
    Final(Error),
    /// The same, and the service has not seen it.
    #[cfg(feature = "tls")]
    NotSent(Error),
    /// The service answered that it could not do it now.
    Answered(Error),
    Lost {
        error: Error,
        was_sent: bool,
    },
}

impl AttemptError {
    fn of_transport(error: SendError) -> Self {
        match error {
            SendError::NotSent(cause) => {
                let error = Error::new(ErrorKind::Transport, "the service cannot be reached");
                Self::Lost { error: error.with_source(cause), was_sent: false }
            }
            #[cfg(feature = "tls")]
            SendError::NotTrusted(cause) => {
                let error = Error::new(ErrorKind::Transport, "the certificate of the service is not trusted");
                Self::NotSent(error.with_source(cause))
            }
            SendError::Lost(cause) => {
                let error = Error::new(ErrorKind::Transport, "the connection was lost before the answer");
                Self::Lost { error: error.with_source(cause), was_sent: true }
            }
            SendError::AnswerTooLarge => {
                Self::Final(Error::new(ErrorKind::TooLarge, "the answer is larger than 64 MiB"))
            }
        }
    }
}

/// What Tepui says that an answer cost. Others say nothing.
pub(crate) fn receipt(response: &Response<Bytes>) -> Option<Receipt> {
    response.headers().get("tepui-receipt")?.to_str().ok()?.parse().ok()
}

/// What time it was by the service's clock when it answered.
pub(crate) fn date(response: &Response<Bytes>) -> Option<Timestamp> {
    Timestamp::parse_http(response.headers().get(DATE)?.to_str().ok()?)
}
