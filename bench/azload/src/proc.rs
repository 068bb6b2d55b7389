//! CPU and memory of the client, of the server (found by its listening port) and of the machine.

use std::fs;

const HZ: f64 = 100.0;

/// The pid that listens on a local TCP port.
pub fn pid_of_port(port: u16) -> Option<u32> {
    let mut inodes = Vec::new();
    for f in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(t) = fs::read_to_string(f) else { continue };
        for l in t.lines().skip(1) {
            let c: Vec<&str> = l.split_whitespace().collect();
            if c.len() > 9
                && c[3] == "0A"
                && c[1].rsplit(':').next().and_then(|h| u16::from_str_radix(h, 16).ok()) == Some(port)
            {
                inodes.push(format!("socket:[{}]", c[9]));
            }
        }
    }
    if inodes.is_empty() {
        return None;
    }
    for e in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = e.file_name().to_str().and_then(|s| s.parse::<u32>().ok()) else { continue };
        let Ok(fds) = fs::read_dir(e.path().join("fd")) else { continue };
        for fd in fds.flatten() {
            if let Ok(t) = fs::read_link(fd.path())
                && inodes.iter().any(|i| t.as_os_str() == i.as_str())
            {
                return Some(pid);
            }
        }
    }
    None
}

/// User + system CPU seconds of a process so far.
pub fn cpu_of(pid: &str) -> Option<f64> {
    let t = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &t[t.rfind(')')? + 2..];
    let f: Vec<&str> = rest.split(' ').collect();
    Some((f.get(11)?.parse::<f64>().ok()? + f.get(12)?.parse::<f64>().ok()?) / HZ)
}

/// (resident, peak resident) in MB.
pub fn rss_of(pid: &str) -> Option<(f64, f64)> {
    let t = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let g = |k: &str| {
        t.lines()
            .find(|l| l.starts_with(k))
            .and_then(|l| l.split_whitespace().nth(1))
            .and_then(|v| v.parse::<f64>().ok())
            .map(|kb| kb / 1024.0)
    };
    Some((g("VmRSS:")?, g("VmHWM:")?))
}

/// (busy, stolen) CPU seconds of the whole machine so far.
pub fn machine() -> Option<(f64, f64)> {
    let t = fs::read_to_string("/proc/stat").ok()?;
    let f: Vec<f64> = t.lines().next()?.split_whitespace().skip(1).filter_map(|v| v.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    Some(((f[0] + f[1] + f[2] + f[5] + f[6]) / HZ, f[7] / HZ))
}
