//! azload: a load generator for servers that speak the Azure Storage wire protocols.
//! One JSON line a run on stdout; see README.md.

mod auth;
mod data;
mod hist;
mod http;
mod proc;
mod stats;
mod stream;
mod work;

use auth::{Auth, Endpoint, Svc};
use stats::{OpErr, Stats};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use work::{Cfg, WORKLOADS, Worker};

const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const USAGE: &str =
    "usage: azload --workload W [--table-endpoint URL] [--queue-endpoint URL] [--blob-endpoint URL]
  --account NAME --key BASE64      default: devstoreaccount1 and its well-known key
  --auth sharedkey|sas|none        default sharedkey; sas: one account SAS, computed once
  --ca FILE                        for https: trust this authority; without it any certificate of this machine
  --resume                         for https: resume sessions instead of whole handshakes
  --version V                      x-ms-version, default 2021-12-02
  --connections N                  default 16 (4 for the large blobs); one request in flight each
  --threads N                      client threads, default 1
  --seconds S --warmup S           default 10 and 2
  --timeout S                      per operation, default 60
  --preload N                      entities / messages / blobs put in before a read workload
  --preload-from N                 for table-preload: go on from N
  --no-preload                     the data is there already
  --size N                         entity, message or small-blob size (1024; 4096 for small blobs)
  --large-size N --block-size N    64 MB and 8 MB
  --name NAME                      table, queue or container to use
  --metadata none|minimal          odata metadata level, default none
  --no-verify                      do not look at the answers (only for the bare server)
  --keep                           leave what was written in place
  --label TEXT                     copied to the output
workloads:";

fn usage(m: &str) -> ! {
    eprintln!("azload: {m}\n{USAGE}");
    for (w, _) in WORKLOADS {
        eprintln!("  {w}");
    }
    std::process::exit(2)
}

struct Out {
    stats: Stats,
    workers: Vec<Worker>,
}

fn main() {
    let mut a = std::collections::HashMap::<String, String>::new();
    let mut it = std::env::args().skip(1);
    while let Some(k) = it.next() {
        let Some(name) = k.strip_prefix("--") else { usage(&format!("what is {k}?")) };
        if matches!(name, "no-preload" | "no-verify" | "keep" | "resume" | "help") {
            a.insert(name.to_string(), "1".into());
        } else if let Some((n, v)) = name.split_once('=') {
            a.insert(n.to_string(), v.to_string());
        } else {
            let Some(v) = it.next() else { usage(&format!("--{name} needs a value")) };
            a.insert(name.to_string(), v);
        }
    }
    if a.contains_key("help") {
        usage("help");
    }
    let known = [
        "workload",
        "table-endpoint",
        "queue-endpoint",
        "blob-endpoint",
        "account",
        "key",
        "auth",
        "ca",
        "resume",
        "version",
        "connections",
        "threads",
        "seconds",
        "warmup",
        "timeout",
        "preload",
        "preload-from",
        "no-preload",
        "size",
        "large-size",
        "block-size",
        "name",
        "metadata",
        "no-verify",
        "keep",
        "label",
    ];
    for k in a.keys() {
        if !known.contains(&k.as_str()) {
            usage(&format!("unknown option --{k}"));
        }
    }
    let get = |k: &str, d: &str| a.get(k).cloned().unwrap_or_else(|| d.to_string());
    let num = |k: &str, d: f64| -> f64 {
        match a.get(k) {
            Some(v) => v.parse().unwrap_or_else(|_| usage(&format!("--{k}: not a number"))),
            None => d,
        }
    };
    let workload = get("workload", "");
    let Some(&(_, svc)) = WORKLOADS.iter().find(|(w, _)| *w == workload) else { usage("--workload") };
    let ek = match svc {
        Svc::Table => "table-endpoint",
        Svc::Queue => "queue-endpoint",
        Svc::Blob => "blob-endpoint",
    };
    let Some(url) = a.get(ek) else { usage(&format!("{workload} needs --{ek}")) };
    let ep = Endpoint::parse(url).unwrap_or_else(|e| usage(&e));
    let ca = a.get("ca").map(String::as_str);
    let tls = ep.https.then(|| stream::Tls::new(&ep.host, ep.addr, ca, a.contains_key("resume")));
    let tls = tls.transpose().unwrap_or_else(|e| usage(&e));
    let auth = Auth::new(
        &get("account", "devstoreaccount1"),
        &get("key", KEY),
        &get("version", "2021-12-02"),
        &get("auth", "sharedkey"),
    )
    .unwrap_or_else(|e| usage(&e));

    let small_blob = workload == "blob-put-small" || workload == "blob-get-small";
    let large = matches!(workload.as_str(), "blob-put-large" | "blob-put-blocks" | "blob-get-large");
    let size = num("size", if small_blob { 4096.0 } else { 1024.0 }) as usize;
    let large_size = num("large-size", (64 << 20) as f64) as usize;
    let default_preload = match workload.as_str() {
        "table-insert" | "table-insert-hot" | "table-batch" | "queue-put" | "queue-roundtrip"
        | "blob-put-small" | "blob-put-large" | "blob-put-blocks" | "table-connect" => 0.0,
        "queue-getdelete" => 20_000.0,
        "blob-get-small" => 1000.0,
        "blob-get-large" => 4.0,
        "blob-list" => 5000.0,
        _ => 10_000.0,
    };
    let preload = num("preload", default_preload) as u64;
    let run = format!("{:x}", auth::now().as_millis() as u64);
    // What a run writes goes to a fresh table, queue or container; what is only read is kept
    // for the next run.
    let fresh = matches!(
        workload.as_str(),
        "table-insert"
            | "table-insert-hot"
            | "table-batch"
            | "queue-put"
            | "queue-getdelete"
            | "queue-roundtrip"
            | "blob-put-small"
            | "blob-put-large"
            | "blob-put-blocks"
    );
    let default_name = if fresh {
        format!("azl{run}")
    } else {
        match workload.as_str() {
            "table-upsert-merge" | "table-mixed" => format!("azlwrite{preload}"),
            "blob-get-small" => format!("azl-small-{preload}-{size}"),
            "blob-get-large" => format!("azl-large-{preload}-{large_size}"),
            "blob-list" => format!("azl-list-{preload}"),
            _ => format!("azlread{preload}"),
        }
    };
    let drop_after = fresh && !a.contains_key("name") && !a.contains_key("keep");
    let cfg = Arc::new(Cfg {
        svc,
        ep,
        tls,
        auth,
        connections: num("connections", if large { 4.0 } else { 16.0 }).max(1.0) as usize,
        threads: num("threads", 1.0).max(1.0) as usize,
        seconds: num("seconds", 10.0),
        warmup: num("warmup", 2.0),
        timeout: num("timeout", 60.0),
        preload,
        preload_from: num("preload-from", 0.0) as u64,
        do_preload: !a.contains_key("no-preload"),
        verify: !a.contains_key("no-verify"),
        keep: !drop_after,
        minimal: get("metadata", "none") == "minimal",
        size,
        large: large_size,
        block: num("block-size", (8 << 20) as f64) as usize,
        name: get("name", &default_name),
        run,
        pattern: if large { data::large_blob(large_size.max(data::PERIOD)) } else { Vec::new() },
        workload: workload.clone(),
    });
    let label = get("label", "");
    let server_pid =
        proc::pid_of_port(cfg.ep.port).filter(|_| cfg.ep.addr.ip().is_loopback()).map(|p| p.to_string());

    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");

    // ---- set up, on one thread
    let mut workers: Vec<Worker> = (0..cfg.connections).map(|i| Worker::new(cfg.clone(), i)).collect();
    let fail = |what: &str, e: &OpErr| -> ! {
        println!(
            "{}",
            serde_json::json!({"label": label, "workload": workload, "ops_s": 0, "failed": format!("{what}: {e:?}")})
        );
        std::process::exit(1)
    };
    let mut preload_s = 0.0;
    let cpu0 = server_pid.as_ref().and_then(|p| proc::cpu_of(p)).unwrap_or(0.0);
    if cfg.verify {
        let r = rt.block_on(async {
            workers[0].create_container().await?;
            if cfg.do_preload
                && cfg.preload > 0
                && (workload == "table-preload" || !workers[0].preloaded().await)
            {
                preload_s = work::preload(&mut workers, &cfg).await?;
            }
            Ok::<(), OpErr>(())
        });
        if let Err(e) = r {
            fail("set-up", &e);
        }
    }
    if workload == "table-preload" {
        let n = cfg.preload - cfg.preload_from;
        let rss = server_pid.as_ref().and_then(|p| proc::rss_of(p)).unwrap_or((0.0, 0.0));
        let cpu1 = server_pid.as_ref().and_then(|p| proc::cpu_of(p)).unwrap_or(0.0);
        println!(
            "{}",
            serde_json::json!({"label": label, "workload": workload, "table": cfg.name, "from": cfg.preload_from, "to": cfg.preload, "seconds": r3(preload_s),
                "entities_s": r1(n as f64 / preload_s), "server_cpu_s": r1(cpu1 - cpu0), "server_rss_mb": r1(rss.0), "server_peak_rss_mb": r1(rss.1)})
        );
        return;
    }

    // ---- the run: the connections are spread over the threads
    let mut parts: Vec<Vec<Worker>> = (0..cfg.threads).map(|_| Vec::new()).collect();
    for (i, mut w) in workers.into_iter().enumerate() {
        w.close();
        parts[i % cfg.threads].push(w);
    }
    let barrier = Arc::new(Barrier::new(cfg.threads + 1));
    let handles: Vec<_> = parts
        .into_iter()
        .map(|mut ws| {
            let cfg = cfg.clone();
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let rt =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                let phase = |ws: &mut Vec<Worker>, secs: f64| -> Stats {
                    rt.block_on(async {
                        let until = Instant::now() + Duration::from_secs_f64(secs);
                        let mut tasks = Vec::new();
                        for mut w in ws.drain(..) {
                            tasks.push(tokio::spawn(async move {
                                let mut st = Stats::new();
                                w.run(until, &mut st).await;
                                (w, st)
                            }));
                        }
                        let mut all = Stats::new();
                        for t in tasks {
                            let (w, s) = t.await.expect("tasks do not panic");
                            ws.push(w);
                            all.merge(s);
                        }
                        all
                    })
                };
                let mut early = Stats::new();
                rt.block_on(async {
                    for w in ws.iter_mut() {
                        if let Err(e) = w.connect().await {
                            early.err(&OpErr::Io(format!("connect: {e}")));
                        }
                    }
                });
                let warm = if cfg.warmup > 0.0 { phase(&mut ws, cfg.warmup) } else { Stats::new() };
                barrier.wait();
                barrier.wait();
                let mut st = phase(&mut ws, cfg.seconds);
                barrier.wait();
                barrier.wait();
                st.writes_ok += warm.writes_ok;
                for (k, v) in warm.errors.into_iter().chain(early.errors) {
                    *st.errors.entry(k).or_insert(0) += v;
                }
                st.samples.extend(warm.samples);
                st.samples.extend(early.samples);
                Out { stats: st, workers: ws }
            })
        })
        .collect();
    let snap = || {
        (
            proc::cpu_of("self").unwrap_or(0.0),
            server_pid.as_ref().and_then(|p| proc::cpu_of(p)).unwrap_or(0.0),
            proc::machine().unwrap_or((0.0, 0.0)),
        )
    };
    barrier.wait();
    let s0 = snap();
    let t0 = Instant::now();
    barrier.wait();
    barrier.wait();
    let wall = t0.elapsed().as_secs_f64();
    let s1 = snap();
    barrier.wait();
    let rss = server_pid.as_ref().and_then(|p| proc::rss_of(p)).unwrap_or((0.0, 0.0));
    let mut stats = Stats::new();
    let mut workers = Vec::new();
    for h in handles {
        let o = h.join().expect("threads do not panic");
        stats.merge(o.stats);
        workers.extend(o.workers);
    }
    let elapsed = stats.last.map(|l| (l - t0).as_secs_f64()).unwrap_or(wall).max(1e-9);

    // ---- are the things written there?
    let mut checked = 0;
    if cfg.verify {
        rt.block_on(async {
            for w in workers.iter_mut().take(32) {
                w.close();
                let r = tokio::time::timeout(Duration::from_secs(60), w.verify(&mut stats)).await;
                match r {
                    Ok(n) => checked += n,
                    Err(_) => stats.err(&OpErr::Timeout),
                }
                w.close();
            }
            if workload == "queue-put" {
                let want = stats.writes_ok;
                let r = tokio::time::timeout(Duration::from_secs(60), workers[0].queue_count()).await;
                let got = r.ok().flatten();
                if got != Some(want) {
                    stats.err(&OpErr::Check(format!("the queue has {got:?} messages instead of {want}")));
                }
                checked += 1;
            }
            if !cfg.keep {
                workers[0].close();
                if let Ok(Err(e)) =
                    tokio::time::timeout(Duration::from_secs(60), workers[0].drop_container()).await
                {
                    eprintln!("azload: cleaning up: {e:?}");
                }
            }
        });
    }
    for s in &stats.samples {
        eprintln!("azload: {workload}: {s}");
    }
    let mut o = serde_json::Map::new();
    let mut put = |k: &str, v: serde_json::Value| {
        o.insert(k.to_string(), v);
    };
    put("label", label.into());
    put("workload", workload.clone().into());
    put("connections", cfg.connections.into());
    put("threads", cfg.threads.into());
    put("tls", cfg.tls.is_some().into());
    put("auth", get("auth", "sharedkey").into());
    put("seconds", r3(elapsed).into());
    put("ops", stats.ops.into());
    put("ops_s", r1(stats.ops as f64 / elapsed).into());
    if workload.starts_with("table-") || workload.starts_with("queue-") || workload == "blob-list" {
        put("entities_s", r1(stats.entities as f64 / elapsed).into());
    }
    if workload.starts_with("blob-") || workload.starts_with("table-") {
        put("mb_s", r1(stats.bytes as f64 / elapsed / 1e6).into());
    }
    for (k, q) in [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
        put(k, r3(stats.hist.q(q)).into());
    }
    put("max_ms", r3(stats.hist.max_ms()).into());
    put("mean_ms", r3(stats.hist.mean_ms()).into());
    put("errors", serde_json::json!(stats.errors));
    put("error_count", stats.errors.values().sum::<u64>().into());
    put("verified_after", checked.into());
    if preload_s > 0.0 {
        put("preload", cfg.preload.into());
        put("preload_s", r3(preload_s).into());
    }
    let client = (s1.0 - s0.0) / wall;
    let server = (s1.1 - s0.1) / wall;
    put("client_cpu", r3(client).into());
    if server_pid.is_some() {
        put("server_cpu", r3(server).into());
        put("other_cpu", r3(((s1.2.0 - s0.2.0) / wall - client - server).max(0.0)).into());
        put("server_rss_mb", r1(rss.0).into());
        put("server_peak_rss_mb", r1(rss.1).into());
    }
    put("steal", r3((s1.2.1 - s0.2.1) / wall).into());
    println!("{}", serde_json::Value::Object(o));
    if stats.ops == 0 {
        std::process::exit(1);
    }
}

fn r1(v: f64) -> f64 {
    (v * 10.0).round() / 10.0
}
fn r3(v: f64) -> f64 {
    (v * 1000.0).round() / 1000.0
}
