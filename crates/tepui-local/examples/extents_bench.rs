//! Measures a store on disk beside plain files: several at once write extents, and read them again.
//!
//! ```text
//! cargo run --release -p tepui-local --example extents_bench -- [name=value…]
//!   dir=PATH       where to work (default: a temporary directory)
//!   tasks=4        how many write and read at once
//!   mib=64         the size of an extent
//!   extents=4      how many each of them writes
//!   piece=256      how many KiB are handed over at once
//!   step=2048      how many KiB are asked for at once
//!   sync_step=     option of the store (MiB)
//!   cold=1         read from the disk, not from memory
//!   small=4000     how many extents of 8 KiB are written in the end, by all together
//! ```

use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Instant;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::{Extent, ExtentWriter, Extents};

#[derive(Clone, Copy)]
struct Load {
    tasks: usize,
    extent_bytes: usize,
    extents: usize,
    piece_bytes: usize,
    step_bytes: usize,
    is_cold: bool,
}

fn main() {
    let settings: HashMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|setting| {
            setting.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect();
    let number = |name: &str, default: usize| {
        settings.get(name).map_or(default, |value| value.parse().expect("a number"))
    };
    let load = Load {
        tasks: number("tasks", 4),
        extent_bytes: number("mib", 64) << 20,
        extents: number("extents", 4),
        piece_bytes: number("piece", 256) << 10,
        step_bytes: number("step", 2048) << 10,
        is_cold: number("cold", 0) == 1,
    };
    let temporary = tempfile::tempdir().expect("a temporary directory can be made");
    let path = settings.get("dir").map_or(temporary.path().to_owned(), Into::into);
    let mut options = ExtentsOptions::new(path.join("extents"));
    if settings.contains_key("sync_step") {
        options.sync_step_bytes = (number("sync_step", 0) as u64) << 20;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    // Each twice and in turn: what else the machine does changes.
    for round in 1..=2 {
        raw(&path, load);
        let extents = DiskExtents::open(options.clone()).expect("the folder can be opened");
        runtime.block_on(large(&extents, load, &options.path));
        if round == 2 {
            for tasks in [1, load.tasks, 32] {
                raw_small(&path, number("small", 4000), tasks);
                runtime.block_on(small(&extents, number("small", 4000), tasks));
            }
        }
    }
}

fn report(what: &str, load: Load, began: Instant) {
    let bytes = load.tasks * load.extents * load.extent_bytes;
    println!("{what}: {:.0} MB/s", bytes as f64 / 1e6 / began.elapsed().as_secs_f64());
}

/// Bytes that no file system can shrink.
fn piece(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Asks the operating system to forget what it has read from the files of a folder.
#[cfg(target_os = "linux")]
fn forget(folder: &Path, load: Load) {
    if load.is_cold {
        for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
            let file = File::open(entry.path()).expect("a file can be opened");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice is taken");
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &Path, _: Load) {}

fn raw(path: &Path, load: Load) {
    let piece = piece(load.piece_bytes);
    let name = |task: usize, number: usize| path.join(format!("raw-{task}-{number}"));
    let each = |work: &(dyn Fn(usize, usize) + Sync)| {
        std::thread::scope(|scope| {
            for task in 0..load.tasks {
                scope.spawn(move || (0..load.extents).for_each(|number| work(task, number)));
            }
        });
    };
    let began = Instant::now();
    each(&|task, number| {
        let mut file = File::create(name(task, number)).expect("a file can be created");
        for _ in 0..load.extent_bytes / load.piece_bytes {
            file.write_all(&piece).expect("a file can be written");
        }
        file.sync_data().expect("a file can be synced");
    });
    report("files, write", load, began);
    forget(path, load);
    let began = Instant::now();
    each(&|task, number| {
        let mut file = File::open(name(task, number)).expect("a file can be opened");
        let mut buffer = vec![0; load.step_bytes];
        while file.read(&mut buffer).expect("a file can be read") > 0 {}
    });
    report("files, read", load, began);
    each(&|task, number| std::fs::remove_file(name(task, number)).expect("a file can be removed"));
}

async fn large(extents: &DiskExtents, load: Load, folder: &Path) {
    let piece = Bytes::from(piece(load.piece_bytes));
    let began = Instant::now();
    let mut finishing = std::time::Duration::ZERO;
    let tasks = (0..load.tasks).map(|_| {
        let (extents, piece) = (extents.clone(), piece.clone());
        tokio::spawn(async move {
            let (mut written, mut finishing) = (Vec::new(), std::time::Duration::ZERO);
            for _ in 0..load.extents {
                let mut writer = extents.begin().await.expect("an extent can be begun");
                for _ in 0..load.extent_bytes / load.piece_bytes {
                    writer.write(piece.clone()).await.expect("bytes can be written");
                }
                let began = Instant::now();
                let extent = writer.finish().await.expect("an extent can be finished");
                extents.unpin(extent);
                written.push(extent);
                finishing = finishing.max(began.elapsed());
            }
            (written, finishing)
        })
    });
    let mut written: Vec<Vec<Extent>> = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        let (extents, slowest) = task.await.expect("a task ends");
        written.push(extents);
        finishing = finishing.max(slowest);
    }
    report("extents, write", load, began);
    println!("slowest finish: {finishing:?}");
    forget(folder, load);

    let began = Instant::now();
    let tasks = written.iter().cloned().map(|written| {
        let extents = extents.clone();
        tokio::spawn(async move {
            for extent in written {
                for start in (0..extent.bytes).step_by(load.step_bytes) {
                    let range = start..extent.bytes.min(start + load.step_bytes as u64);
                    extents.read(extent, range).await.expect("an extent can be read");
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a task ends");
    }
    report("extents, read", load, began);
    let began = Instant::now();
    extents.free(written.concat()).await.expect("extents can be freed");
    println!("free: {:?}", began.elapsed());
}

fn raw_small(path: &Path, count: usize, tasks: usize) {
    let piece = piece(8 << 10);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for task in 0..tasks {
            let piece = &piece;
            scope.spawn(move || {
                let name = path.join(format!("raw-small-{task}"));
                let mut file = File::create(&name).expect("a file can be created");
                for _ in (task..count).step_by(tasks) {
                    file.write_all(piece).expect("a file can be written");
                    file.sync_data().expect("a file can be synced");
                }
                std::fs::remove_file(name).expect("a file can be removed");
            });
        }
    });
    report_small("files", count, tasks, began);
}

async fn small(extents: &DiskExtents, count: usize, tasks: usize) {
    let piece = Bytes::from(piece(8 << 10));
    let began = Instant::now();
    let running = (0..tasks).map(|task| {
        let (extents, piece) = (extents.clone(), piece.clone());
        tokio::spawn(async move {
            for _ in (task..count).step_by(tasks) {
                let mut writer = extents.begin().await.expect("an extent can be begun");
                writer.write(piece.clone()).await.expect("bytes can be written");
                let extent = writer.finish().await.expect("an extent can be finished");
                extents.unpin(extent);
            }
        })
    });
    for task in running.collect::<Vec<_>>() {
        task.await.expect("a task ends");
    }
    report_small("extents", count, tasks, began);
}

fn report_small(what: &str, count: usize, tasks: usize, began: Instant) {
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!("{what}, 8 KiB and a sync, {tasks} at once: {rate:.0}/s");
}
