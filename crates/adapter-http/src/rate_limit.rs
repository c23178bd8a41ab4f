//! Token buckets: per API key and operation, and for failed authentications per peer address.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Arc, PoisonError, RwLock},
};

use actix_web::http::header::{HeaderName, HeaderValue};
use domain::api_key::{ApiKey, ApiKeyId, Rate};
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DefaultKeyedStateStore,
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Name of the policy for failed authentications.
pub(crate) const FAILED_AUTHENTICATIONS: &str = "failed-authentications";

/// What has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Orders without documents.
    Orders,
    /// Orders with documents.
    OrdersWithDocuments,
}

impl Policy {
    /// The name in `RateLimit-Policy`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Orders => "orders",
            Self::OrdersWithDocuments => "orders-with-documents",
        }
    }
}

/// The buckets of every key and every peer. They are this process's own: of several instances each
/// allows the rate.
pub struct RateLimits {
    orders: KeyLimit,
    orders_with_documents: KeyLimit,
    failures: Option<Buckets<IpAddr>>,
}

impl RateLimits {
    /// Buckets of these rates for orders of a key that has none of its own, without documents and
    /// with; and, of the first of them, for failed authentications of a peer. No limit where either
    /// number is 0.
    pub fn new(orders: Rate, orders_with_documents: Rate) -> Self {
        Self {
            orders: KeyLimit::new(orders),
            orders_with_documents: KeyLimit::new(orders_with_documents),
            failures: Buckets::new(orders),
        }
    }

    /// Counts a request of a key; `None` if it has no limit.
    pub(crate) fn request(&self, policy: Policy, key: &ApiKey) -> Option<Allowance> {
        let (limit, own) = match policy {
            Policy::Orders => (&self.orders, key.key.rate),
            Policy::OrdersWithDocuments => (&self.orders_with_documents, key.key.documents_rate),
        };
        let rate = own.unwrap_or(limit.default);
        let taken = limit.buckets(rate)?.take(&key.id);
        Some(Allowance { policy, rate, taken })
    }

    /// Counts a failed authentication of a peer. The error is the whole seconds to wait, at least
    /// one.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), u64> {
        self.failures.as_ref().map_or(Ok(()), |buckets| buckets.take(&network(peer)).map(drop))
    }

    /// Forgets keys and peers whose buckets are full again, so that memory does not grow with their
    /// number.
    pub fn forget_idle(&self) {
        self.orders.forget_idle();
        self.orders_with_documents.forget_idle();
        self.failures.iter().for_each(Buckets::forget_idle);
    }
}

/// A host of IPv6 has a whole /64 to send from.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// What a limit has left for a key after a request (draft-ietf-httpapi-ratelimit-headers-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) policy: Policy,
    rate: Rate,
    /// Requests that are left, or whole seconds to wait if there was none, at least one.
    pub(crate) taken: Result<u32, u64>,
}

impl Allowance {
    /// `RateLimit-Policy` and `RateLimit`. A bucket that holds `q` requests and is refilled in `w`
    /// seconds has `r` left, and more after `t` seconds.
    pub(crate) fn headers(self) -> [(HeaderName, HeaderValue); 2] {
        let (name, Rate { per_second, burst }) = (self.policy.as_str(), self.rate);
        // No rate is below one a second.
        let (remaining, more_after) =
            self.taken.map_or_else(|seconds| (0, seconds), |remaining| (remaining, 1));
        let window = burst.div_ceil(per_second);
        // Digits and a name of ours are fit for a header.
        let value = |text: String| {
            HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        [
            (RATE_LIMIT_POLICY, value(format!("\"{name}\";q={burst};w={window}"))),
            (RATE_LIMIT, value(format!("\"{name}\";r={remaining};t={more_after}"))),
        ]
    }
}

/// The buckets of keys, of the default rate and of every rate that some key has of its own.
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

    /// Requests that are left after one, or whole seconds to wait.
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
        RateLimits::new(Rate { per_second, burst }, Rate { per_second: 1, burst: 1 })
    }

    fn left(limits: &RateLimits, key: &ApiKey) -> Result<u32, u64> {
        limits.request(Policy::Orders, key).unwrap().taken
    }

    #[test]
    fn a_burst_passes_and_the_next_waits() {
        let limits = limits(1, 3);
        assert_eq!([(); 3].map(|()| left(&limits, &key(1, None))), [Ok(2), Ok(1), Ok(0)]);
        assert!(left(&limits, &key(1, None)).is_err_and(|seconds| (1..=2).contains(&seconds)));
        assert_eq!(left(&limits, &key(2, None)), Ok(2));
    }

    #[test]
    fn orders_with_documents_have_a_limit_of_their_own() {
        let limits = limits(1, 3);
        let with_documents =
            || limits.request(Policy::OrdersWithDocuments, &key(1, None)).unwrap().taken;
        assert_eq!(with_documents(), Ok(0));
        assert!(with_documents().is_err());
        assert_eq!(left(&limits, &key(1, None)), Ok(2));
    }

    #[test]
    fn the_rate_of_a_key_comes_before_that_of_the_service() {
        let limits = limits(1, 3);
        assert_eq!(left(&limits, &key(1, Some(Rate { per_second: 10, burst: 20 }))), Ok(19));
        let none =
            RateLimits::new(Rate { per_second: 0, burst: 0 }, Rate { per_second: 0, burst: 0 });
        assert_eq!(left(&none, &key(1, Some(Rate { per_second: 10, burst: 20 }))), Ok(19));
    }

    #[test]
    fn the_headers_say_what_is_left_and_when_there_is_more() {
        let headers = |taken| {
            let [policy, limit] = Allowance {
                policy: Policy::Orders,
                rate: Rate { per_second: 50, burst: 120 },
                taken,
            }
            .headers();
            (policy.1.to_str().unwrap().to_owned(), limit.1.to_str().unwrap().to_owned())
        };
        let policy = r#""orders";q=120;w=3"#.to_owned();
        assert_eq!(headers(Ok(119)), (policy.clone(), r#""orders";r=119;t=1"#.to_owned()));
        assert_eq!(headers(Err(2)), (policy, r#""orders";r=0;t=2"#.to_owned()));
    }

    #[test]
    fn zero_turns_the_limit_off() {
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
    fn the_addresses_of_one_ipv6_network_share_a_bucket() {
        let limits = limits(1, 1);
        assert!(limits.failure("2001:db8::1".parse().unwrap()).is_ok());
        assert!(limits.failure("2001:db8::2".parse().unwrap()).is_err());
        assert!(limits.failure("2001:db8:0:1::1".parse().unwrap()).is_ok());
        assert!(limits.failure("::ffff:192.0.2.1".parse().unwrap()).is_ok());
        assert!(limits.failure("192.0.2.1".parse().unwrap()).is_err());
    }
}
