//! Rate limits as token buckets: per API key and policy, and per peer address for failed
//! authentications.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, PoisonError, RwLock},
};

use actix_web::http::header::{HeaderName, HeaderValue};
use domain::api_key::{ApiKey, ApiKeyId, Rate, Scope};
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DefaultKeyedStateStore,
};

use crate::peer::network;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Name of the policy of failed authentications.
pub(crate) const FAILED_AUTHENTICATIONS: &str = "failed-authentications";

/// A group of requests with a rate limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
pub struct RateLimits {
    orders: KeyLimit,
    orders_with_documents: KeyLimit,
    reads: KeyLimit,
    webhooks: KeyLimit,
    failures: Option<Buckets<IpAddr>>,
    look_ups: Option<Buckets<IpAddr>>,
    log_lines: Option<Buckets<IpAddr>>,
    all_log_lines: Option<Buckets<()>>,
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
        Self {
            orders: KeyLimit::new(orders),
            orders_with_documents: KeyLimit::new(orders_with_documents),
            reads: KeyLimit::new(reads),
            webhooks: KeyLimit::new(orders),
            failures: Buckets::new(orders),
            look_ups: Buckets::new(orders),
            log_lines: Buckets::new(LOG_LINES),
            all_log_lines: Buckets::new(ALL_LOG_LINES),
        }
    }

    /// Counts a request of a key. Returns `None` if the key has no limit.
    pub(crate) fn request(&self, policy: Policy, key: &ApiKey) -> Option<Allowance> {
        let (limit, own) = match policy {
            Policy::Orders => (&self.orders, key.key.rate),
            Policy::OrdersWithDocuments => (&self.orders_with_documents, key.key.documents_rate),
            Policy::Reads => (&self.reads, None),
            Policy::Webhooks => (&self.webhooks, None),
        };
        let rate = own.unwrap_or(limit.default);
        let remaining = limit.buckets(rate)?.take(&key.id);
        Some(Allowance { policy, rate, remaining })
    }

    /// Counts a failed authentication of a peer. The error is the number of seconds to wait, at
    /// least one.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), u64> {
        let Some(failures) = &self.failures else { return Ok(()) };
        failures.take(&network(peer)).map(drop)
    }

    /// Counts a look-up of a key that is not cached. Returns whether the peer may cause it. A valid
    /// key needs one in five seconds, so the count is separate from that of failures.
    pub(crate) fn may_look_up(&self, peer: IpAddr) -> bool {
        self.look_ups.as_ref().is_none_or(|buckets| buckets.take(&network(peer)).is_ok())
    }

    /// Counts a log line of a cheap rejection. Returns whether to write it.
    pub(crate) fn may_log(&self, peer: IpAddr) -> bool {
        let takes = self.log_lines.as_ref().is_none_or(|lines| lines.take(&network(peer)).is_ok());
        takes && self.all_log_lines.as_ref().is_none_or(|lines| lines.take(&()).is_ok())
    }

    /// Removes full buckets, so that memory does not grow with the number of keys and peers.
    pub fn forget_idle(&self) {
        self.orders.forget_idle();
        self.orders_with_documents.forget_idle();
        self.reads.forget_idle();
        self.webhooks.forget_idle();
        let by_peer = [&self.failures, &self.look_ups, &self.log_lines];
        by_peer.into_iter().flatten().for_each(Buckets::forget_idle);
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
    pub(crate) fn headers(self) -> [(HeaderName, HeaderValue); 2] {
        let (name, Rate { per_second, burst }) = (self.policy.as_str(), self.rate);
        // Every rate is at least one per second.
        let (remaining, more_after) =
            self.remaining.map_or_else(|seconds| (0, seconds), |remaining| (remaining, 1));
        let window = burst.div_ceil(per_second);
        // Names and digits are always valid header values.
        let value = |text: String| {
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        [
            (RATE_LIMIT_POLICY, value(format!("\"{name}\";q={burst};w={window}"))),
            (RATE_LIMIT, value(format!("\"{name}\";r={remaining};t={more_after}"))),
        ]
    }
}

/// The buckets of keys: those of the default rate, and those of every rate that a key has of its
/// own.
struct KeyLimit {
    default: Rate,
    by_rate: RwLock<HashMap<Rate, Option<Arc<Buckets<ApiKeyId>>>>>,
}

impl KeyLimit {
    fn new(default: Rate) -> Self {
        Self { default, by_rate: RwLock::default() }
    }

    fn buckets(&self, rate: Rate) -> Option<Arc<Buckets<ApiKeyId>>> {
        if let Some(buckets) =
            self.by_rate.read().unwrap_or_else(PoisonError::into_inner).get(&rate)
        {
            return buckets.clone();
        }
        let mut by_rate = self.by_rate.write().unwrap_or_else(PoisonError::into_inner);
        by_rate.entry(rate).or_insert_with(|| Buckets::new(rate).map(Arc::new)).clone()
    }

    fn forget_idle(&self) {
        self.by_rate
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .flatten()
            .for_each(|buckets| buckets.forget_idle());
    }
}

struct Buckets<K: Hash + Eq + Clone>(
    RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock, StateInformationMiddleware>,
);

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: Rate) -> Option<Self> {
        let (per_second, burst) =
            NonZeroU32::new(rate.per_second).zip(NonZeroU32::new(rate.burst))?;
        Some(Self(
            RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst)).with_middleware(),
        ))
    }

    /// Takes one request. Returns the remaining requests, or the number of seconds to wait.
    fn take(&self, key: &K) -> Result<u32, u64> {
        let taken = self.0.check_key(key);
        taken
            .map(|state| state.remaining_burst_capacity())
            .map_err(|until| until.wait_time_from(DefaultClock::default().now()).as_secs() + 1)
    }

    fn forget_idle(&self) {
        self.0.retain_recent();
        self.0.shrink_to_fit();
    }
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
            (policy.1.to_str().unwrap().to_owned(), limit.1.to_str().unwrap().to_owned())
        };
        let policy = r#""orders";q=120;w=3"#.to_owned();
        assert_eq!(headers(Ok(119)), (policy.clone(), r#""orders";r=119;t=1"#.to_owned()));
        assert_eq!(headers(Err(2)), (policy, r#""orders";r=0;t=2"#.to_owned()));
    }

    #[test]
    fn zero_disables_limit() {
        for (per_second, burst) in [(0, 1), (1, 0)] {
            assert_eq!(limits(per_second, burst).request(Policy::Orders, &key(1, None)), None);
            assert!(
                (0..1_000).all(|_| limits(per_second, burst)
                    .failure("192.0.2.1".parse().unwrap())
                    .is_ok())
            );
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
