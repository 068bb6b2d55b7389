//! Copies that go on after the answer: their sources are on other servers.
//!
//! The source is requested before the answer, so that the answer reports one that cannot be read. The number of copies
//! that are read at a time is limited; the others wait, and then request the same source again.

use super::remote::{Fetched, RemoteCopies};
use super::{Blobs, encode_with_overrides};
use crate::net::body::ReplyBody;
use crate::pipeline::exchange::Authorized;
use hyper::http::{HeaderMap, Response};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tepui_model::blob::{CopyBlob, CopySource, SourcePlace, UploadOperation};
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::BlobService;
use tepui_service::blob::{Caller, CopyUnderWay, Uploaded};
use tepui_storage::{Engine, Extents};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

/// How many sources are read at a time, and how many of them for one account.
const AT_A_TIME: usize = 16;
const AT_A_TIME_OF_ACCOUNT: usize = 4;
/// How long a source may keep silent.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// The copies that go on after their answers.
pub struct BackgroundCopies {
    turns: Turns,
    /// `None` once they are stopped.
    running: Mutex<Option<JoinSet<()>>>,
}

impl BackgroundCopies {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { turns: Turns::default(), running: Mutex::new(Some(JoinSet::new())) })
    }

    fn start(&self, job: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.running();
        let Some(running) = running.as_mut() else { return };
        while running.try_join_next().is_some() {}
        running.spawn(job);
    }

    /// Breaks them all off, and starts no more. They are found unfinished by the next start.
    pub async fn stop(&self) {
        let running = self.running().take();
        if let Some(mut running) = running {
            running.shutdown().await;
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose turn it is to be read. No account takes the turns of all others.
struct Turns {
    all: Arc<Semaphore>,
    of_accounts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The turn of a source: it ends with this.
struct Turn {
    _of_account: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_A_TIME)), of_accounts: Mutex::default() }
    }
}

impl Turns {
    fn of_account(&self, account: &str) -> Arc<Semaphore> {
        let mut accounts = self.of_accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = accounts.entry(account.to_owned());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(AT_A_TIME_OF_ACCOUNT))))
    }

    /// A turn, if one is free now.
    fn try_take(&self, account: &str) -> Option<Turn> {
        let of_account = self.of_account(account).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Turn { _of_account: of_account, _of_all: of_all })
    }

    /// Waits for a turn: first for one of the account, so that no more than these stand in the line of all.
    async fn take(&self, account: &str) -> Result<Turn, ErrorCode> {
        let of_account = self.of_account(account).acquire_owned().await;
        let of_account = of_account.map_err(|_| ErrorCode::InternalError)?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.map_err(|_| ErrorCode::InternalError)?;
        Ok(Turn { _of_account: of_account, _of_all: of_all })
    }
}

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub(super) async fn answer_background(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        mut copy: CopyBlob,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        self.remote.check(&copy.source.url)?;
        let upload = UploadOperation::CopyBlob(copy.clone());
        authorized.in_time(pin!(self.service.check(caller, &upload))).await?;
        let headers = authorized.head.headers;
        let fetched = authorized.in_time(pin!(self.remote.open(&copy.source, None, headers))).await?;
        authorized.check_account()?;
        copy.source.place = SourcePlace::Fetched(Box::new(fetched.head.clone()));
        let (service, account) = (Arc::clone(&self.service), caller.account.to_owned());
        let (allowed, source_allowed) = (caller.allowed, caller.source_allowed);
        let job = Job {
            service: Arc::clone(&service),
            remote: self.remote.clone(),
            copies: Arc::clone(&self.copies),
            account: account.clone(),
            headers: headers.clone(),
            source: copy.source.clone(),
            upload: upload.clone(),
        };
        let (sender, receiver) = oneshot::channel();
        // A copy that has begun goes on even if the client goes away meanwhile.
        self.copies.start(async move {
            let caller = Caller { allowed, source_allowed, ..Caller::owner(&account) };
            match service.start_copy(caller, &copy).await {
                Ok((reply, started)) => {
                    let _ = sender.send(Ok(reply));
                    job.run(started, fetched).await;
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
        let answered = async { receiver.await.unwrap_or_else(|_| Err(ErrorCode::InternalError.into())) };
        let reply = authorized.in_time(pin!(answered)).await?;
        Ok(encode_with_overrides(authorized, &upload, reply)?.map(ReplyBody::from))
    }
}

/// What it takes to fetch a source.
struct Job<E, X> {
    service: Arc<BlobService<E, X>>,
    remote: RemoteCopies,
    copies: Arc<BackgroundCopies>,
    account: String,
    /// Of the request.
    headers: HeaderMap,
    source: CopySource,
    /// What the bytes are received for.
    upload: UploadOperation,
}

impl<E: Engine, X: Extents> Job<E, X> {
    async fn run(self, copy: CopyUnderWay, fetched: Fetched) {
        let outcome = tokio::select! {
            fetched = self.fetch(&copy, fetched) => fetched.map_err(|error| describe(&error)),
            () = self.service.keep_copy(&copy) => Err("the copy was aborted".to_owned()),
        };
        self.service.finish_copy(&copy, outcome).await;
    }

    async fn fetch(&self, copy: &CopyUnderWay, fetched: Fetched) -> Result<Uploaded, ServiceError> {
        let (_turn, mut fetched) = match self.copies.turns.try_take(&self.account) {
            Some(turn) => (turn, fetched),
            None => {
                let headers = fetched.ask_again(&self.headers);
                drop(fetched);
                let turn = self.copies.turns.take(&self.account).await?;
                (turn, in_time(self.remote.open(&self.source, None, &headers)).await?)
            }
        };
        let mut upload = self.service.begin_upload(&self.upload);
        while let Some(piece) = in_time(fetched.next()).await? {
            let bytes = piece.len() as u64;
            upload.write(piece).await?;
            copy.add(bytes);
        }
        upload.finish().await
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ServiceError> {
    match tokio::time::timeout(MAX_SILENCE, answer).await {
        Ok(answered) => answered,
        Err(_) => Err(ErrorCode::OperationTimedOut.into()),
    }
}

/// The status description of a failed copy: status, code and message.
fn describe(error: &ServiceError) -> String {
    let detail =
        |name: &str| error.details.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
    let status = detail("CopySourceStatusCode").map_or_else(|| error.status().to_string(), str::to_owned);
    let code = detail("CopySourceErrorCode").unwrap_or(error.code.name());
    format!("{status} {code} \"Copy failed when reading the source.\"")
}
