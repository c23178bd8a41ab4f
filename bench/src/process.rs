//! CPU time and memory of processes, as the kernel counts them.

use std::fs;

/// Unit of process times in Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Positions in `/proc/PID/stat` after the name (`proc_pid_stat(5)`): `utime` and `stime` of the
/// process, `cutime` and `cstime` of its ended children.
const OWN: usize = 11;
const CHILDREN: usize = 13;

fn cpu_seconds(stat: &str, at: usize) -> f64 {
    // The name is in parentheses and may contain any character.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(at) + ticks(at + 1)) / TICKS_PER_SECOND
}

/// Returns the CPU seconds of this process.
pub fn own_cpu_seconds() -> f64 {
    cpu_seconds(&fs::read_to_string("/proc/self/stat").unwrap(), OWN)
}

/// Returns the CPU seconds of this process's ended children.
pub fn children_cpu_seconds() -> f64 {
    cpu_seconds(&fs::read_to_string("/proc/self/stat").unwrap(), CHILDREN)
}

/// A server: its main process, and the processes that it starts.
#[derive(Debug, Clone, Copy)]
pub struct Server(pub u32);

impl Server {
    /// Returns the CPU seconds of all its processes, including ended ones.
    pub fn cpu_seconds(self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap();
        let children = self.children().into_iter().filter_map(|child| {
            // A child may have just ended.
            Some(cpu_seconds(&fs::read_to_string(format!("/proc/{child}/stat")).ok()?, OWN))
        });
        cpu_seconds(&stat, OWN) + cpu_seconds(&stat, CHILDREN) + children.sum::<f64>()
    }

    /// Returns the resident memory of all its processes in MiB.
    pub fn memory(self) -> f64 {
        self.sum("VmRSS:") / 1024.0
    }

    /// Returns the sum of their peaks in MiB since the last `reset_peak`.
    pub fn peak_memory(self) -> f64 {
        self.sum("VmHWM:") / 1024.0
    }

    /// Resets the peaks of the resident memory (`proc_pid_clear_refs(5)`).
    pub fn reset_peak(self) {
        for process in self.processes() {
            fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
        }
    }

    /// Returns the number of threads.
    pub fn threads(self) -> f64 {
        self.sum("Threads:")
    }

    /// Returns the number of open file descriptors of the main process.
    pub fn descriptors(self) -> f64 {
        fs::read_dir(format!("/proc/{}/fd", self.0)).unwrap().count() as f64
    }

    fn processes(self) -> Vec<u32> {
        [vec![self.0], self.children()].concat()
    }

    /// Returns the children of all threads of the main process.
    fn children(self) -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0)).unwrap();
        let files = threads.map(|thread| thread.unwrap().path().join("children"));
        let lists: Vec<String> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
        lists
            .iter()
            .flat_map(|list| list.split_whitespace())
            .map(|id| id.parse().unwrap())
            .collect()
    }

    /// Adds up a number of `/proc/PID/status`.
    fn sum(self, name: &str) -> f64 {
        let number = |process: u32| -> f64 {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        self.processes().into_iter().map(number).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn cpu_time_is_found_after_a_strange_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1089 0 0 0 250 75 9 9 20 0 5 0 100 1000 10";
        assert_eq!([OWN, CHILDREN].map(|at| cpu_seconds(stat, at)), [3.25, 0.18]);
    }

    #[test]
    fn ended_children_count() {
        // The child of the shell uses the processor and ends before the line is written.
        let spin = "timeout 0.2 sh -c 'while :; do :; done'; echo; cat";
        let mut shell = Command::new("sh")
            .args(["-c", spin])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.as_mut().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert!(Server(shell.id()).cpu_seconds() > 0.0);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
