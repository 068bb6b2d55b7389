//! What time it is for the service: the clocks of machines are never compared.

use super::Table;
use crate::{Error, Timestamp};
use http::header::DATE;
use tepui_model::table::{Call, EntityKey, Operation};
use tepui_wire::address::Service;
use tepui_wire::remote::ReplyError;
use tepui_wire::table::reply::read::read;
use tepui_wire::table::request::write::{Options, write};

impl<E> Table<E> {
    /// By the `Date` of an answer, and so in whole seconds. The request is for an entity that is hardly ever there, which is as good.
    pub(crate) async fn service_time(&self) -> Result<Timestamp, Error> {
        let key = EntityKey::new("~time", "~time");
        let call = Call::Operation(Operation::GetEntity { table: self.name.to_string(), key });
        let endpoint = self.core.endpoint(Service::Table)?;
        let request = write(&endpoint.remote, &call, &Options::default())?;
        let version = endpoint.remote.version();
        let date = |response: &http::Response<bytes::Bytes>| {
            match read(&call, version, response) {
                // An answer all the same.
                Err(ReplyError::Refused(error)) if error.status.as_u16() != 404 => {
                    return Err(ReplyError::Refused(error));
                }
                _ => {}
            }
            let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
            date.and_then(Timestamp::parse_http).ok_or(ReplyError::Unreadable("Date"))
        };
        Ok(self.core.call(endpoint, &request, &self.call_options(None), date).await?)
    }
}
