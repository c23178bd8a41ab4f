//! Rate limits as token buckets: per API key and policy, and per peer address for failed
//! authentications.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use actix_web::http::header::HeaderName;
use domain::api_key::{ApiKey, ApiKeyId, Rate, Scope};

use crate::access::peer::network;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Name of the policy of failed authentications.
pub(crate) const FAILED_AUTHENTICATIONS: &str = "failed-authentications";

/// A group of requests with a rate limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    /// Orders without documents.
    Orders,
    /// Orders with documents, and documents that are added to an order.
    OrdersWithDocuments,
    /// Everything that reads orders and documents.
    Reads,
    /// Everything about webhooks.
    Webhooks,
}

impl Policy {
    /// Returns the name in `RateLimit-Policy`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Orders => "orders",
            Self::OrdersWithDocuments => "orders-with-documents",
            Self::Reads => "reads",
            Self::Webhooks => "webhooks",
        }
    }

    /// Returns the scope that its requests need.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::Orders | Self::OrdersWithDocuments => Scope::OrdersCreate,
            Self::Reads => Scope::OrdersRead,
            Self::Webhooks => Scope::WebhooksManage,
        }
    }
}

/// The buckets of all keys and peers. They belong to this process: several instances each allow the
/// rate.
#[derive(Default)]
pub struct RateLimits {
    orders: Rate,
    orders_with_documents: Rate,
    reads: Rate,
    keys: Buckets<(Policy, ApiKeyId)>,
    failures: Buckets<IpAddr>,
    look_ups: Buckets<IpAddr>,
    log_lines: Buckets<IpAddr>,
    all_log_lines: Buckets<()>,
}

/// Log lines of cheap rejections for each address. The rest is logged at the level `debug`.
const LOG_LINES: Rate = Rate { per_second: 5, burst: 5 };
/// The same for all addresses together.
const ALL_LOG_LINES: Rate = Rate { per_second: 50, burst: 50 };

impl RateLimits {
    /// Creates the limits of keys without rates of their own: for orders without and with
    /// documents, and for reads. Requests about webhooks, failed authentications and look-ups of a
    /// peer have the rate of the first. A rate with a 0 means no limit.
    pub fn new(orders: Rate, orders_with_documents: Rate, reads: Rate) -> Self {
        Self { orders, orders_with_documents, reads, ..Self::default() }
    }

    /// Counts a request of a key. Returns `None` if the key has no limit.
    pub(crate) fn request(&self, policy: Policy, key: &ApiKey) -> Option<Allowance> {
        let rate = match policy {
            Policy::Orders => key.key.rate.unwrap_or(self.orders),
            Policy::OrdersWithDocuments => {
                key.key.documents_rate.unwrap_or(self.orders_with_documents)
            }
            Policy::Reads => self.reads,
            Policy::Webhooks => self.orders,
        };
        let remaining = take(&self.keys, (policy, key.id), rate)?;
        Some(Allowance { policy, rate, remaining })
    }

    /// Counts a failed authentication of a peer. The error is the number of seconds to wait, at
    /// least one.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), u64> {
        take(&self.failures, network(peer), self.orders).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a look-up of a key that is not cached. Returns whether the peer may cause it. A valid
    /// key needs one in five seconds, so the count is separate from that of failures.
    pub(crate) fn may_look_up(&self, peer: IpAddr) -> bool {
        allows(&self.look_ups, network(peer), self.orders)
    }

    /// Counts a log line of a cheap rejection. Returns whether to write it.
    pub(crate) fn may_log(&self, peer: IpAddr) -> bool {
        allows(&self.log_lines, network(peer), LOG_LINES)
            && allows(&self.all_log_lines, (), ALL_LOG_LINES)
    }

    /// Removes full buckets, so that memory does not grow with the number of keys and peers.
    pub fn forget_idle(&self) {
        forget_full(&self.keys);
        [&self.failures, &self.look_ups, &self.log_lines].into_iter().for_each(forget_full);
    }
}

/// The quota of a key after a request (draft-ietf-httpapi-ratelimit-headers-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) policy: Policy,
    rate: Rate,
    /// The remaining requests. The error is the number of seconds to wait, at least one.
    pub(crate) remaining: Result<u32, u64>,
}

impl Allowance {
    /// Returns `RateLimit-Policy` and `RateLimit`: a bucket of `q` requests, refilled in `w`
    /// seconds, has `r` left, and more after `t` seconds.
    pub(crate) fn headers(self) -> [(HeaderName, String); 2] {
        let (name, Rate { per_second, burst }) = (self.policy.as_str(), self.rate);
        // Every rate is at least one per second.
        let (remaining, more_after) =
            self.remaining.map_or_else(|seconds| (0, seconds), |remaining| (remaining, 1));
        let window = burst.div_ceil(per_second);
        [
            (RATE_LIMIT_POLICY, format!("\"{name}\";q={burst};w={window}")),
            (RATE_LIMIT, format!("\"{name}\";r={remaining};t={more_after}")),
        ]
    }
}

/// Token buckets. Each is known by the instant at which it is full again.
type Buckets<K> = Mutex<HashMap<K, Instant>>;

/// Takes one request. Returns the remaining requests, or the number of seconds to wait; `None` if the
/// rate is no limit.
fn take<K: Hash + Eq>(
    buckets: &Buckets<K>,
    key: K,
    Rate { per_second, burst }: Rate,
) -> Option<Result<u32, u64>> {
    let interval = Duration::from_secs(1).checked_div(per_second).filter(|_| burst > 0)?;
    let interval = interval.max(Duration::from_nanos(1));
    let now = Instant::now();
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    let full_at = buckets.entry(key).or_insert(now);
    let taken = (*full_at).max(now) + interval;
    let (missing, capacity) = (taken - now, interval * burst);
    let Some(left) = capacity.checked_sub(missing) else {
        return Some(Err(missing.saturating_sub(capacity).as_secs() + 1));
    };
    *full_at = taken;
    Some(Ok(u32::try_from(left.as_nanos() / interval.as_nanos()).unwrap_or(burst)))
}

fn allows<K: Hash + Eq>(buckets: &Buckets<K>, key: K, rate: Rate) -> bool {
    take(buckets, key, rate).is_none_or(|taken| taken.is_ok())
}

fn forget_full<K: Hash + Eq>(buckets: &Buckets<K>) {
    let now = Instant::now();
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    buckets.retain(|_, full_at| *full_at > now);
    buckets.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use contract_tests::samples;
    use domain::api_key::NewApiKey;
    use time::OffsetDateTime;

    use super::*;

    fn key(id: i64, rate: Option<Rate>) -> ApiKey {
        let key = NewApiKey {
            rate,
            documents_rate: None,
            ..samples::api_key(OffsetDateTime::UNIX_EPOCH)
        };
        ApiKey { id: ApiKeyId(id), key, revoked_at: None, last_used_at: None }
    }

    fn limits(per_second: u32, burst: u32) -> RateLimits {
        let one = Rate { per_second: 1, burst: 1 };
        RateLimits::new(Rate { per_second, burst }, one, one)
    }

    fn left(limits: &RateLimits, key: &ApiKey) -> Result<u32, u64> {
        limits.request(Policy::Orders, key).unwrap().remaining
    }

    #[test]
    fn request_after_burst_waits() {
        let limits = limits(1, 3);
        assert_eq!([(); 3].map(|()| left(&limits, &key(1, None))), [Ok(2), Ok(1), Ok(0)]);
        assert!(left(&limits, &key(1, None)).is_err_and(|seconds| (1..=2).contains(&seconds)));
        assert_eq!(left(&limits, &key(2, None)), Ok(2));
    }

    #[test]
    fn policies_have_separate_buckets() {
        let limits = limits(1, 3);
        for policy in [Policy::OrdersWithDocuments, Policy::Reads] {
            let take = || limits.request(policy, &key(1, None)).unwrap().remaining;
            assert_eq!(take(), Ok(0));
            assert!(take().is_err());
        }
        assert_eq!(left(&limits, &key(1, None)), Ok(2));
    }

    #[test]
    fn rate_of_key_overrides_default() {
        let limits = limits(1, 3);
        assert_eq!(left(&limits, &key(1, Some(Rate { per_second: 10, burst: 20 }))), Ok(19));
        let zero = Rate { per_second: 0, burst: 0 };
        let none = RateLimits::new(zero, zero, zero);
        assert_eq!(left(&none, &key(1, Some(Rate { per_second: 10, burst: 20 }))), Ok(19));
    }

    #[test]
    fn headers_state_remaining_requests_and_delay() {
        let headers = |remaining| {
            let [policy, limit] = Allowance {
                policy: Policy::Orders,
                rate: Rate { per_second: 50, burst: 120 },
                remaining,
            }
            .headers();
            (policy.1, limit.1)
        };
        let policy = r#""orders";q=120;w=3"#.to_owned();
        assert_eq!(headers(Ok(119)), (policy.clone(), r#""orders";r=119;t=1"#.to_owned()));
        assert_eq!(headers(Err(2)), (policy, r#""orders";r=0;t=2"#.to_owned()));
    }

    #[test]
    fn zero_disables_limit() {
        for (per_second, burst) in [(0, 1), (1, 0)] {
            let limits = limits(per_second, burst);
            assert_eq!(limits.request(Policy::Orders, &key(1, None)), None);
            let failures = [(); 3].map(|()| limits.failure("192.0.2.1".parse().unwrap()));
            assert_eq!(failures, [Ok(()); 3]);
        }
    }

    #[test]
    fn log_lines_are_limited_by_address_and_in_total() {
        let limits = limits(0, 0);
        let lines = |peers: std::ops::Range<u8>, each| {
            let attempts = peers.flat_map(|peer| vec![IpAddr::from([192, 0, 2, peer]); each]);
            attempts.filter(|peer| limits.may_log(*peer)).count()
        };
        assert!((5..20).contains(&lines(0..1, 1_000)));
        assert!((40..100).contains(&lines(1..250, 10)));
    }

    #[test]
    fn addresses_of_an_ipv6_network_share_a_bucket() {
        let limits = limits(1, 1);
        assert!(limits.failure("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limits.failure("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.failure("2001:db8:0:1::1".parse().unwrap()).is_ok());
        assert!(limits.failure("::ffff:192.0.2.1".parse().unwrap()).is_ok());
        assert!(limits.failure("192.0.2.1".parse().unwrap()).is_err());
    }
}
