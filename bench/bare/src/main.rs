//! The ceiling for any HTTP server of this kind on a machine: hyper 1.x, reads the whole body,
//! answers GET with a fixed entity of 1.2 KB (or a fixed 64 MB body for /…/big-N) and everything
//! else with 204. No auth, no parsing, no storage. With --hmac it computes one HMAC-SHA256 over
//! 200 bytes of the request per request, as checking a SharedKey signature would.
//!
//! usage: bare-server [--port N] [--hmac] [--current]     (--current: one thread)

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::OnceLock;

static ENTITY: OnceLock<Bytes> = OnceLock::new();
static BIG: OnceLock<Bytes> = OnceLock::new();
static KEY: OnceLock<hmac::Hmac<sha2::Sha256>> = OnceLock::new();

fn entity() -> Bytes {
    let mut s = String::from(
        "{\"PartitionKey\":\"p000001\",\"RowKey\":\"r000001\",\"Timestamp\":\"2024-03-01T10:11:12.5000000Z\",\"Name\":\"name-000000000001\",\"Count\":1,\"Big\":\"1000003\",\"Flag\":false,\"Ratio\":1.25,\"When\":\"2024-03-02T10:11:12.5Z\",\"Id\":\"00000000-0000-4000-a000-000000000001\",\"Payload\":\"",
    );
    while s.len() < 1226 {
        s.push('x');
    }
    s.push_str("\"}");
    Bytes::from(s)
}

/// The work of checking a signature; the result is not looked at.
fn sign(req: &Request<Incoming>) {
    use hmac::Mac;
    let mut m = KEY.get().expect("set at the start").clone();
    let mut buf = [0u8; 200];
    let p = req.uri().path().as_bytes();
    let n = p.len().min(100);
    buf[..n].copy_from_slice(&p[..n]);
    if let Some(d) = req.headers().get("x-ms-date") {
        let d = d.as_bytes();
        let k = d.len().min(100);
        buf[100..100 + k].copy_from_slice(&d[..k]);
    }
    m.update(&buf);
    std::hint::black_box(m.finalize().into_bytes());
}

async fn answer(req: Request<Incoming>, hmac: bool) -> Result<Response<Full<Bytes>>, Infallible> {
    if hmac {
        sign(&req);
    }
    let get = req.method() == Method::GET;
    let big = get && req.uri().path().rsplit('/').next().is_some_and(|s| s.starts_with("big-"));
    let mut body = req.into_body();
    while let Some(f) = body.frame().await {
        if f.is_err() {
            break;
        }
    }
    let r = Response::builder()
        .header("server", "bare")
        .header("x-ms-version", "2021-12-02")
        .header("x-ms-request-id", "00000000-0000-0000-0000-000000000000");
    Ok(if big {
        r.header("content-type", "application/octet-stream")
            .body(Full::new(BIG.get_or_init(|| Bytes::from(vec![b'x'; 64 << 20])).clone()))
            .expect("constant headers")
    } else if get {
        r.header("content-type", "application/json;odata=nometadata")
            .body(Full::new(ENTITY.get().expect("set at the start").clone()))
            .expect("constant headers")
    } else {
        r.status(204).body(Full::default()).expect("constant headers")
    })
}

async fn serve(port: u16, hmac: bool) {
    let l = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("bind");
    loop {
        let Ok((s, _)) = l.accept().await else { continue };
        let _ = s.set_nodelay(true);
        tokio::spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(s), service_fn(move |r| answer(r, hmac)))
                .await;
        });
    }
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let has = |k: &str| a.iter().any(|x| x == k);
    let port = a
        .iter()
        .position(|x| x == "--port")
        .and_then(|i| a.get(i + 1))
        .and_then(|p| p.parse().ok())
        .unwrap_or(10102);
    let _ = ENTITY.set(entity());
    {
        use hmac::KeyInit;
        let _ = KEY.set(
            hmac::Hmac::<sha2::Sha256>::new_from_slice(&[7u8; 64]).expect("HMAC takes keys of any length"),
        );
    }
    let rt = if has("--current") {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    } else {
        tokio::runtime::Builder::new_multi_thread().enable_all().build()
    }
    .expect("a runtime");
    rt.block_on(serve(port, has("--hmac")));
}
