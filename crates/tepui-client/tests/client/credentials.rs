//! Shared access signatures, bearer tokens and none at all.

use crate::connections::ScriptedServer;
use crate::support::{TestServer, entity, key, new_table};
use tepui_client::{Account, BearerSource, ErrorKind, Retry, Timestamp, TokenFuture};
use tepui_model::grant::KeyBounds;
use tepui_model::permissions::Permissions;
use tepui_wire::auth::{SasLimits, SasResource, ServiceSas};

#[tokio::test]
async fn a_sas_allows_what_it_says() {
    let server = TestServer::start().await;
    let table = new_table(&server.account()).await;
    table.insert(&entity("1", 1)).await.unwrap();
    let signer = server.signer();
    let sas = ServiceSas {
        resource: SasResource::Table { name: table.name(), bounds: &KeyBounds::default() },
        permissions: Permissions::parse("r"),
        policy_id: None,
        limits: SasLimits::until(Timestamp::parse_iso("2099-01-01T00:00:00Z").unwrap()),
    };
    let token = signer.service_sas(&sas).unwrap();
    for token in [format!("?{token}"), token] {
        let reader = server.builder().sas(token).build().unwrap().table(table.name()).unwrap();
        assert!(reader.get(&key("1")).await.unwrap().is_some());
        assert_eq!(reader.query().partition("p").all().await.unwrap().len(), 1);
        assert_eq!(reader.insert(&entity("2", 2)).await.unwrap_err().kind(), ErrorKind::Denied);
    }
}

struct Tokens;

impl BearerSource for Tokens {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async { Ok("abc.def".to_owned()) })
    }
}

struct NoTokens;

impl BearerSource for NoTokens {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async { Err("not signed in".into()) })
    }
}

#[tokio::test]
async fn bearer_tokens_go_along() {
    let server = ScriptedServer::start(["HTTP/1.1 204 No Content\r\nETag: W/\"1\"\r\n\r\n"]).await;
    let account = Account::at(server.url()).bearer(Tokens).retry(Retry::never()).build().unwrap();
    account.table("People").unwrap().insert(&entity("1", 1)).await.unwrap();
    let request = server.requests().remove(0).to_ascii_lowercase();
    assert!(request.contains("authorization: bearer abc.def\r\n"), "{request}");

    let account = Account::at(server.url()).bearer(NoTokens).build().unwrap();
    let error = account.table("People").unwrap().insert(&entity("1", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "not signed in");
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    let answer = "HTTP/1.1 403 Forbidden\r\nDate: Tue, 10 Mar 2020 08:15:30 GMT\r\nContent-Length: 0\r\n\r\n";
    let server = ScriptedServer::start([answer]).await;
    let account = Account::at(server.url()).shared_key("acct", "c2VjcmV0").build().unwrap();
    let error = account.table_names("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.message().contains("Tue, 10 Mar 2020 08:15:30 GMT"), "{error}");
}
