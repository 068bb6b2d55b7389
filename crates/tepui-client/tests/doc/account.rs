// Included by examples in the documentation: an account of a server in the same process, with everything in memory.

async fn account() -> tepui_client::Account {
    use tepui_server::config::{Config, ServiceName};
    let config = Config { in_memory: true, table_port: 0, queue_port: 0, blob_port: 0, ..Config::default() };
    let server = tepui_server::Server::start(config).await.expect("a server starts");
    let addresses = server.addresses();
    let url = |service| {
        let (_, address) = addresses.iter().find(|(known, _)| *known == service).expect("all services listen");
        format!("http://{address}/{}", tepui_model::account::DEVELOPMENT_ACCOUNT)
    };
    let account = tepui_client::Account::at(url(ServiceName::Table))
        .queues_at(url(ServiceName::Queue))
        .blobs_at(url(ServiceName::Blob))
        .shared_key(
            tepui_model::account::DEVELOPMENT_ACCOUNT,
            tepui_model::account::DEVELOPMENT_KEY_BASE64,
        )
        .build()
        .expect("an account of this machine");
    tokio::spawn(server.run(std::future::pending()));
    account
}
