//! Token buckets (design: per API key, and failed authentications per peer address).

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
};

use domain::api_key::ApiKeyId;
use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

/// A token bucket: `burst` requests at once, refilled at `per_second`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests per second.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

/// The buckets of every key and every peer. They are this process's own: of several instances each allows the rate.
pub struct RateLimits {
    keys: Buckets<ApiKeyId>,
    failures: Buckets<IpAddr>,
}

impl RateLimits {
    /// Buckets of this rate for keys, and for failed authentications of a peer; no limit if either number is 0.
    pub fn new(rate: Rate) -> Self {
        Self { keys: Buckets::new(rate), failures: Buckets::new(rate) }
    }

    /// Counts a request of a key. The error is the whole seconds to wait, at least one.
    pub(crate) fn request(&self, key: ApiKeyId) -> Result<(), u64> {
        self.keys.take(&key)
    }

    /// Counts a failed authentication of a peer. The error is the whole seconds to wait, at least one.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), u64> {
        self.failures.take(&network(peer))
    }

    /// Forgets keys and peers whose buckets are full again, so that memory does not grow with their number.
    pub fn forget_idle(&self) {
        self.keys.forget_idle();
        self.failures.forget_idle();
    }
}

/// A host of IPv6 has a whole /64 to send from.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

struct Buckets<K: Hash + Eq + Clone>(Option<DefaultKeyedRateLimiter<K>>);

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: Rate) -> Self {
        let quota =
            NonZeroU32::new(rate.per_second).zip(NonZeroU32::new(rate.burst)).map(|(per_second, burst)| Quota::per_second(per_second).allow_burst(burst));
        Self(quota.map(RateLimiter::keyed))
    }

    fn take(&self, key: &K) -> Result<(), u64> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        limiter.check_key(key).map_err(|until| until.wait_time_from(DefaultClock::default().now()).as_secs() + 1)
    }

    fn forget_idle(&self) {
        if let Some(limiter) = &self.0 {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_next_waits() {
        let limits = RateLimits::new(Rate { per_second: 1, burst: 3 });
        for _ in 0..3 {
            assert_eq!(limits.request(ApiKeyId(1)), Ok(()));
        }
        assert!(limits.request(ApiKeyId(1)).is_err_and(|seconds| (1..=2).contains(&seconds)));
        assert_eq!(limits.request(ApiKeyId(2)), Ok(()));
    }

    #[test]
    fn zero_turns_the_limit_off() {
        for rate in [Rate { per_second: 0, burst: 1 }, Rate { per_second: 1, burst: 0 }] {
            let limits = RateLimits::new(rate);
            assert!((0..1_000).all(|_| limits.request(ApiKeyId(1)).is_ok()));
        }
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_share_a_bucket() {
        let limits = RateLimits::new(Rate { per_second: 1, burst: 1 });
        assert!(limits.failure("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limits.failure("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.failure("2001:db8:0:1::1".parse().unwrap()).is_ok());
        assert!(limits.failure("::ffff:192.0.2.1".parse().unwrap()).is_ok());
        assert!(limits.failure("192.0.2.1".parse().unwrap()).is_err());
    }
}
