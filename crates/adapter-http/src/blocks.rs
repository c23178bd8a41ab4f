//! Memory blocks for uploads on their way to the spool.

use std::{
    hint::black_box,
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use memmap2::{Advice, MmapMut, MmapOptions};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Size of a block: the bytes that are hashed and written at once. A document that fits needs
/// another thread once.
pub(crate) const BLOCK_SIZE: usize = 1024 * 1024;
/// Number of blocks, shared by all uploads. On two cores, 8 were no faster, and 4 were slower.
const COUNT: usize = 6;
/// Longest wait for a block. The disk is broken then, or too slow for the uploads in progress.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Size of a huge page, where pages have 4 KiB. Two blocks share one.
const HUGE_PAGE: usize = 2 * BLOCK_SIZE;

/// Memory of blocks that are not in use. The process keeps it for the next uploads.
static FREE: Mutex<Free> = Mutex::new(Free { huge: Vec::new(), small: Vec::new(), fill: false });

struct Free {
    huge: Vec<&'static mut [u8]>,
    small: Vec<MmapMut>,
    /// Whether the last block came back with enough bytes that huge pages are worth their memory.
    fill: bool,
}

/// The memory of a block.
enum Memory {
    /// Half of a huge page, which takes memory as a whole.
    Huge(&'static mut [u8]),
    /// Small pages, of which only those with bytes take memory.
    Small(MmapMut),
}

/// A fixed number of blocks.
#[derive(Debug, Clone)]
pub(crate) struct Blocks(Arc<Semaphore>);

impl Default for Blocks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(COUNT)))
    }
}

impl Blocks {
    /// Returns an empty block, and waits until one is free, for at most [`MAX_WAIT`]. Its holder
    /// must wait for nothing but a thread and the disk; otherwise all holders could wait for each
    /// other.
    pub(crate) async fn take(&self) -> io::Result<Block> {
        let permit = timeout(MAX_WAIT, Arc::clone(&self.0).acquire_owned())
            .await?
            .map_err(io::Error::other)?;
        Ok(Block { memory: free().take()?, length: 0, _permit: permit })
    }
}

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Free {
    fn take(&mut self) -> io::Result<Memory> {
        if let Some(memory) = self.huge.pop() {
            return Ok(Memory::Huge(memory));
        }
        if self.fill {
            let (memory, other) = huge_page()?.split_at_mut(BLOCK_SIZE);
            self.huge.push(other);
            return Ok(Memory::Huge(memory));
        }
        let map = || MmapOptions::new().len(BLOCK_SIZE).map_anon();
        Ok(Memory::Small(self.small.pop().map_or_else(map, Ok)?))
    }

    /// Takes memory back in which so many bytes were.
    fn put(&mut self, memory: Memory, bytes: usize) {
        self.fill = bytes >= BLOCK_SIZE / 2;
        match memory {
            Memory::Huge(memory) => self.huge.push(memory),
            // The next blocks get huge pages.
            Memory::Small(memory) if self.fill => drop(memory),
            Memory::Small(memory) => self.small.push(memory),
        }
    }
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Huge(bytes) => bytes,
            Self::Small(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Huge(bytes) => bytes,
            Self::Small(bytes) => bytes,
        }
    }
}

/// Maps memory for two blocks: one huge page, or small ones if the system has no others.
///
/// A disk takes a block in one piece then. Otherwise it takes up to 256 pages, which some disks
/// write as two requests, and some only one request at a time.
fn huge_page() -> io::Result<&'static mut [u8]> {
    // Twice as large, because a mapping may begin between two huge pages.
    let map = Box::leak(Box::new(MmapOptions::new().len(2 * HUGE_PAGE).map_anon()?));
    let start = map.as_ptr().align_offset(HUGE_PAGE);
    // A kernel without huge pages refuses this.
    let _ = map.advise_range(Advice::HugePage, start, HUGE_PAGE);
    let page = &mut map[start..][..HUGE_PAGE];
    // The allocator has turned huge pages off for the process, because they would enlarge the heap.
    let are_off = transparent_huge_pages_are_disabled().unwrap_or_default();
    if are_off {
        let _ = disable_transparent_huge_pages(false);
    }
    // The first write decides which pages the mapping gets.
    *black_box(&mut page[0]) = 0;
    if are_off {
        let _ = disable_transparent_huge_pages(true);
    }
    Ok(page)
}

/// A block in use. It becomes free when it is dropped.
pub(crate) struct Block {
    /// Aligned for direct writes.
    memory: Memory,
    length: usize,
    _permit: OwnedSemaphorePermit,
}

impl Block {
    /// Returns how many bytes still fit.
    pub(crate) fn free_bytes(&self) -> usize {
        BLOCK_SIZE - self.length
    }

    /// Returns the bytes in it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.length]
    }

    /// Adds bytes, which must fit.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.unfilled()[..bytes.len()].copy_from_slice(bytes);
        self.resize(self.length + bytes.len());
    }

    /// Returns the memory behind its bytes.
    pub(crate) fn unfilled(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[self.length..]
    }

    /// Drops its last bytes, or adds the first bytes of [`Self::unfilled`].
    pub(crate) fn resize(&mut self, length: usize) {
        debug_assert!(length <= BLOCK_SIZE);
        self.length = length;
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let memory = mem::replace(&mut self.memory, Memory::Huge(&mut []));
        free().put(memory, self.length);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fs, path::Path};

    use futures_util::FutureExt as _;

    use super::*;
    use crate::spool_file::ALIGNMENT;

    #[tokio::test(start_paused = true)]
    async fn wait_for_a_block_is_limited() {
        let blocks = Blocks::default();
        let taken = futures_util::future::join_all((0..COUNT).map(|_| blocks.take())).await;
        let error = blocks.take().await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(taken);
        assert!(blocks.take().await.is_ok());
    }

    #[tokio::test]
    async fn blocks_are_limited_aligned_and_empty() {
        let blocks = Blocks::default();
        let mut taken: Vec<Block> =
            (0..COUNT).map(|_| blocks.take().now_or_never().unwrap().unwrap()).collect();
        assert!(blocks.take().now_or_never().is_none());
        for block in &mut taken {
            assert_eq!(block.unfilled().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!((block.bytes().len(), block.free_bytes()), (0, BLOCK_SIZE));
            block.append(b"papers");
        }
        drop(taken);
        let again = blocks.take().now_or_never().unwrap().unwrap();
        assert_eq!((again.bytes().len(), again.free_bytes()), (0, BLOCK_SIZE));
    }

    #[tokio::test]
    async fn blocks_at_the_same_time_share_no_byte() {
        let blocks = Blocks::default();
        let mut taken = Vec::new();
        for number in (0_u8..).take(COUNT) {
            let mut block = blocks.take().await.unwrap();
            block.append(&vec![number; BLOCK_SIZE]);
            taken.push(block);
        }
        for (number, block) in (0_u8..).zip(&taken) {
            assert!(block.bytes().iter().all(|byte| *byte == number), "{number}");
        }
    }

    #[tokio::test]
    async fn memory_of_blocks_is_reused() {
        let blocks = Blocks::default();
        let mut addresses = HashSet::new();
        // Other tests take blocks meanwhile, but fewer than these.
        for _ in 0..2_000 {
            addresses.insert(blocks.take().await.unwrap().unfilled().as_ptr().addr());
        }
        assert!(addresses.len() < 1_000, "{}", addresses.len());
    }

    #[test]
    fn huge_pages_are_for_blocks_that_fill() {
        let _others_wait = super::free();
        let mut free = Free { huge: Vec::new(), small: Vec::new(), fill: false };
        let first = free.take().unwrap();
        assert!(matches!(first, Memory::Small(_)));
        assert_eq!(first.bytes().len(), BLOCK_SIZE);
        free.put(first, BLOCK_SIZE / 2 - 1);
        let again = free.take().unwrap();
        assert!(matches!(again, Memory::Small(_)) && free.small.is_empty());
        free.put(again, BLOCK_SIZE / 2);
        assert!(free.small.is_empty());
        let huge = free.take().unwrap();
        assert!(matches!(huge, Memory::Huge(_)));
        assert_eq!(huge.bytes().len(), BLOCK_SIZE);
        free.put(huge, 1);
        // Those that exist are used up first.
        let kinds = [0; 3].map(|_| matches!(free.take().unwrap(), Memory::Huge(_)));
        assert_eq!(kinds, [true, true, false]);
    }

    /// Linux marks memory that may have huge pages with `hg` (`proc_pid_smaps(5)`).
    #[test]
    fn memory_may_have_huge_pages() {
        let _others_wait = free();
        let address = huge_page().unwrap().as_ptr().addr();
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_inside = false;
        let flags = maps.lines().find(|line| {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let [start, end] = range.map_or([None; 2], |(start, end)| {
                [start, end].map(|bound| usize::from_str_radix(bound, 16).ok())
            });
            if let (Some(start), Some(end)) = (start, end) {
                is_inside = (start..end).contains(&address);
            }
            is_inside && line.starts_with("VmFlags:")
        });
        let has_huge_pages = Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.unwrap().contains(" hg"), has_huge_pages, "{flags:?}");
    }

    #[test]
    fn huge_pages_stay_off_for_the_rest_of_the_process() {
        let _others_wait = free();
        disable_transparent_huge_pages(true).unwrap();
        huge_page().unwrap();
        assert!(transparent_huge_pages_are_disabled().unwrap());
    }
}
