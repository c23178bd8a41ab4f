//! Decides how much of a connection actix may read.
//!
//! actix reads up to 128 KiB ahead of what it decodes, and has no setting for it. Its buffer grows to twice as much
//! and keeps that size until the connection ends, long after the permit of a body. So the gate lets actix read what
//! fits into a small buffer only. Without a permit, it counts what actix has read since it last had nothing left to
//! decode. With one, it lets actix read a step whenever the handler waits for more. It looks at no byte, so it cannot
//! disagree with actix about a request.

/// Bytes that every connection may hold. They fit into the buffer of 8 KiB that actix allocates for each, which
/// it enlarges when less than 1 KiB is free.
const FREE: usize = 7 * 1024;

/// Bytes of a body with a permit that actix may read before its handler waits for more. The buffer has at most some
/// twice as much.
pub(crate) const STEP: usize = FREE;

/// The same for large bodies, which take a fifth less processor time by it. Their connections need one of
/// [`LARGE_STEPS`] permits.
pub(crate) const LARGE_STEP: usize = 31 * 1024;

/// Maximum number of connections that have had large steps. Their buffers keep up to 64 KiB each.
pub(crate) const LARGE_STEPS: usize = 512;

/// Maximum size of a head in bytes. A head over [`FREE`] needs one of [`LARGE_HEADS`] permits.
const MAX_HEAD: usize = 16 * 1024;

/// Maximum number of connections with a head over [`FREE`]. Their buffers hold at most 32 KiB each. Further ones
/// wait, within the time limit of heads.
pub(crate) const LARGE_HEADS: usize = 512;

/// A part of a connection that actix may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Up to this number of bytes.
    UpTo(usize),
    /// Up to this number of bytes, with a permit of a large head.
    LargeHead(usize),
    /// Nothing until the handler of the request in progress waits for its body, with a permit, or the request ends.
    Later,
    /// Nothing before actix has decoded what it has.
    AfterDecoding,
    /// Nothing: the head is too large.
    TooLarge,
    /// Nothing: what arrives is discarded.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Closed,
    /// The body of the request in progress has a permit.
    Open {
        /// Bytes that actix may read each time that the handler waits for more.
        step: usize,
        /// Those of them that actix has not read.
        left: usize,
    },
    /// The rest of a body belongs to a request that is answered. Its connection ends with the answer.
    Discarding,
}

/// The count of the bytes of a connection that actix has read and may not have decoded.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The most that actix can hold of what it has read since it had decoded everything before.
    held: usize,
    /// Whether a request has begun since then.
    has_begun: bool,
    /// Whether actix has tried, between two requests, to decode all that it has read.
    has_decoded: bool,
    mode: Mode,
}

impl Gate {
    /// Returns what actix may read now. `is_idle` tells whether there is no request in progress.
    pub(crate) fn next(&mut self, is_idle: bool) -> Reading {
        match self.mode {
            Mode::Open { left: 0, .. } => return Reading::Later,
            Mode::Open { left, .. } => return Reading::UpTo(left),
            Mode::Discarding => return Reading::Nothing,
            Mode::Closed => {}
        }
        if is_idle && self.has_begun {
            if !self.has_decoded {
                return self.after_decoding();
            }
            // What is left is the beginning of a head that has arrived since a request began.
            (self.held, self.has_begun) = (0, false);
        }
        if self.held < FREE {
            Reading::UpTo(FREE - self.held)
        } else if !is_idle {
            Reading::Later
        } else if !self.has_decoded {
            // actix reads all that has arrived before it decodes a head in it.
            self.after_decoding()
        } else if self.held < MAX_HEAD {
            Reading::LargeHead(MAX_HEAD - self.held)
        } else {
            Reading::TooLarge
        }
    }

    fn after_decoding(&mut self) -> Reading {
        self.has_decoded = true;
        Reading::AfterDecoding
    }

    /// Notes bytes that actix has read; `None` if it has read all that arrived. Between two requests it decodes
    /// them then. During one it may wait, while many others wait behind it.
    pub(crate) fn has_read(&mut self, bytes: Option<usize>, is_idle: bool) {
        match bytes {
            Some(bytes) => {
                self.held = self.held.saturating_add(bytes);
                self.has_decoded = false;
                if let Mode::Open { left, .. } = &mut self.mode {
                    *left = left.saturating_sub(bytes);
                }
            }
            None => self.has_decoded |= is_idle,
        }
    }

    /// Notes that actix has decoded a head.
    pub(crate) fn request_begins(&mut self) {
        self.has_begun = true;
    }

    /// Opens the gate for steps of the body of the request in progress.
    pub(crate) fn open(&mut self, step: usize) {
        if self.mode == Mode::Closed {
            self.mode = Mode::Open { step, left: 0 };
        }
    }

    /// Notes that the handler has got all that actix has decoded of the body, and waits for more.
    pub(crate) fn body_is_awaited(&mut self) {
        if let Mode::Open { step, left } = &mut self.mode {
            *left = *step;
        }
    }

    /// Closes the gate behind a body: nothing waits for more of it.
    pub(crate) fn close(&mut self) {
        if matches!(self.mode, Mode::Open { .. }) {
            self.mode = Mode::Closed;
            // actix must be able to notice the end of the connection.
            self.held = self.held.min(FREE - 1);
        }
    }

    /// Discards what arrives from now on.
    pub(crate) fn discard_rest(&mut self) {
        self.mode = Mode::Discarding;
    }

    /// Notes that a request is answered.
    pub(crate) fn request_ends(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all that the gate permits, as actix does in one turn, and returns how much that was.
    fn read_all(gate: &mut Gate, is_idle: bool) -> usize {
        let mut all = 0;
        loop {
            match gate.next(is_idle) {
                Reading::UpTo(bytes) | Reading::LargeHead(bytes) => {
                    gate.has_read(Some(bytes), is_idle);
                    all += bytes;
                }
                _ => return all,
            }
        }
    }

    /// Reads a number of bytes, and then finds that no more have arrived.
    fn read(gate: &mut Gate, bytes: usize, is_idle: bool) {
        assert!(matches!(gate.next(is_idle), Reading::UpTo(up_to) if up_to >= bytes));
        gate.has_read(Some(bytes), is_idle);
        gate.has_read(None, is_idle);
    }

    #[test]
    fn unfinished_head_is_read_up_to_its_limit() {
        let mut gate = Gate::default();
        assert_eq!(read_all(&mut gate, true), FREE);
        assert_eq!(gate.next(true), Reading::LargeHead(MAX_HEAD - FREE));
        assert_eq!(read_all(&mut gate, true), MAX_HEAD - FREE);
        assert_eq!(gate.next(true), Reading::TooLarge);
    }

    /// A head and its body may arrive at once.
    #[test]
    fn head_is_decoded_before_it_is_too_large() {
        let mut gate = Gate::default();
        assert_eq!(read_all(&mut gate, true), FREE);
        gate.request_begins();
        assert_eq!(gate.next(false), Reading::Later);
    }

    #[test]
    fn body_without_permit_is_read_in_part_only() {
        let mut gate = Gate::default();
        read(&mut gate, 1_000, true);
        gate.request_begins();
        assert_eq!(read_all(&mut gate, false), FREE - 1_000);
        assert_eq!(gate.next(false), Reading::Later);
    }

    /// The buffer of actix would keep the size that it needs for more.
    #[test]
    fn body_with_permit_is_read_when_its_handler_waits() {
        let mut gate = Gate::default();
        read(&mut gate, 1_000, true);
        gate.request_begins();
        gate.body_is_awaited();
        assert_eq!(gate.next(false), Reading::UpTo(FREE - 1_000));
        gate.open(STEP);
        for _ in 0..100 {
            assert_eq!(gate.next(false), Reading::Later);
            gate.body_is_awaited();
            assert_eq!(read_all(&mut gate, false), STEP);
        }
    }

    /// Its permit is free again, while its request is in progress.
    #[test]
    fn little_is_read_behind_a_body() {
        let mut gate = Gate::default();
        read(&mut gate, 1_000, true);
        gate.request_begins();
        gate.open(STEP);
        gate.body_is_awaited();
        read_all(&mut gate, false);
        gate.close();
        gate.body_is_awaited();
        // The end of the connection is noticed.
        assert_eq!(read_all(&mut gate, false), 1);
        assert_eq!(gate.next(false), Reading::Later);
    }

    #[test]
    fn each_request_of_a_connection_may_be_read() {
        let mut gate = Gate::default();
        for _ in 0..100 {
            read(&mut gate, 5_000, true);
            gate.request_begins();
            gate.request_ends();
            gate.has_read(None, true);
        }
    }

    #[test]
    fn connection_goes_on_behind_a_large_body() {
        let mut gate = Gate::default();
        read(&mut gate, 1_000, true);
        gate.request_begins();
        gate.open(STEP);
        for _ in 0..20 {
            gate.body_is_awaited();
            read_all(&mut gate, false);
        }
        gate.request_ends();
        assert_eq!(gate.next(true), Reading::AfterDecoding);
        assert_eq!(gate.next(true), Reading::UpTo(FREE));
    }

    /// Otherwise the end of a small body waits for a permit, and the answer that rejects it closes the connection.
    #[test]
    fn request_behind_another_has_all_of_the_free_bytes() {
        let mut gate = Gate::default();
        read(&mut gate, 3_000, true);
        gate.request_begins();
        gate.request_ends();
        assert_eq!(gate.next(true), Reading::UpTo(FREE));
        read(&mut gate, 1_000, true);
        gate.request_begins();
        // A part of its body.
        read(&mut gate, 2_000, false);
        gate.request_ends();
        assert_eq!(gate.next(true), Reading::AfterDecoding);
        assert_eq!(gate.next(true), Reading::UpTo(FREE));
    }

    /// A client may send any number of requests without a wait for their answers. actix decodes all that it has
    /// read, unless 16 requests wait.
    #[test]
    fn requests_that_wait_are_bounded() {
        const SIZE: usize = 100;
        const MOST: usize = 16;
        let mut gate = Gate::default();
        let (mut undecoded, mut waiting, mut answered) = (0, 0, 0);
        for first in (100..FREE).cycle().step_by(777).take(1_000) {
            let Reading::UpTo(most) = gate.next(true) else {
                assert_eq!(gate.next(true), Reading::UpTo(FREE));
                continue;
            };
            // Others arrive while the first are in progress.
            read(&mut gate, first.min(most), true);
            undecoded += first.min(most);
            (waiting, undecoded) = (waiting + undecoded / SIZE, undecoded % SIZE);
            while waiting > 0 {
                gate.request_begins();
                undecoded += read_all(&mut gate, false);
                if waiting < MOST {
                    (waiting, undecoded) = (waiting + undecoded / SIZE, undecoded % SIZE);
                }
                let held = waiting * SIZE + undecoded;
                assert!(held <= 2 * MAX_HEAD, "{held}");
                (waiting, answered) = (waiting - 1, answered + 1);
                gate.request_ends();
            }
        }
        assert!(answered > 10_000, "{answered}");
    }

    #[test]
    fn rest_of_a_rejected_body_is_discarded() {
        let mut gate = Gate::default();
        read(&mut gate, 1_000, true);
        gate.request_begins();
        gate.discard_rest();
        for is_idle in [false, true] {
            assert_eq!(gate.next(is_idle), Reading::Nothing);
        }
        gate.request_ends();
        gate.open(STEP);
        assert_eq!(gate.next(true), Reading::Nothing);
    }
}
