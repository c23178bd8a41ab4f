//! Rate limits as token buckets: per API key and policy, and per peer address for failed
//! authentications and sign-ins.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
};

use actix_web::http::header::HeaderName;
use domain::{
    api_key::{Rate, Scope},
    person::{Caller, Doer, PersonId},
};
#[cfg(not(test))]
use governor::clock::DefaultClock as Time;
// Stands still: no bucket is refilled between two requests of a test, however slow the machine is.
#[cfg(test)]
use governor::clock::FakeRelativeClock as Time;
use governor::{
    NotUntil, Quota, RateLimiter, clock::Clock as _, middleware::StateInformationMiddleware,
    state::keyed::DefaultKeyedStateStore,
};

use crate::admission::peer::{network, site};

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
    /// Changes and cancellations of orders.
    Changes,
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
            Self::Changes => "changes",
            Self::Reads => "reads",
            Self::Webhooks => "webhooks",
        }
    }

    /// Returns the scope that its requests need.
    pub(crate) fn scope(self) -> Scope {
        match self {
            Self::Orders | Self::OrdersWithDocuments => Scope::OrdersCreate,
            Self::Changes => Scope::OrdersUpdate,
            Self::Reads => Scope::OrdersRead,
            Self::Webhooks => Scope::WebhooksManage,
        }
    }
}

/// The buckets of all keys and peers. They belong to this process: several instances each allow the
/// rate.
pub struct RateLimits {
    orders: Rate,
    orders_with_documents: Rate,
    reads: Rate,
    keys: Mutex<KeyBuckets>,
    failures: Buckets<IpAddr>,
    ended_sessions: Buckets<IpAddr>,
    failed_sign_ins: Buckets<PersonId>,
    ceremonies: Buckets<IpAddr>,
    ceremonies_of_sites: Buckets<IpAddr>,
    ended_ceremonies: Buckets<IpAddr>,
    look_ups: Buckets<IpAddr>,
    log_lines: Buckets<IpAddr>,
    all_log_lines: Buckets<()>,
}

type KeyBuckets = HashMap<(Policy, Rate), Arc<Buckets<Doer>>>;

/// Name of the policy of sign-ins that strangers begin.
pub(crate) const BEGUN_SIGN_INS: &str = "begun-sign-ins";

/// Sign-ins that an address may begin, and invitations that it may look at. Each leaves a row, of a ceremony for ten
/// minutes or of a session for hours, so that one address cannot crowd out the others. An office has one address.
const CEREMONIES: Rate = Rate { per_second: 2, burst: 60 };
/// The same for all networks of a site, which has thousands of them in IPv6. In the ten minutes of a ceremony, a site
/// begins about half of [`MAX_CEREMONIES`](domain::person::MAX_CEREMONIES).
const CEREMONIES_OF_SITE: Rate = Rate { per_second: 8, burst: 240 };
/// Log lines of cheap rejections for each address. The rest is logged at the level `debug`.
const LOG_LINES: Rate = Rate { per_second: 5, burst: 5 };
/// The same for all addresses together.
const ALL_LOG_LINES: Rate = Rate { per_second: 50, burst: 50 };

impl RateLimits {
    /// Creates the limits of keys without rates of their own: for orders without and with
    /// documents, and for reads. Requests about webhooks, failed authentications, requests of ended sessions, look-ups
    /// and ends of sign-ins of a peer have the rate of the first. A rate with a 0 means no limit.
    pub fn new(orders: Rate, orders_with_documents: Rate, reads: Rate) -> Self {
        Self {
            orders,
            orders_with_documents,
            reads,
            keys: Mutex::default(),
            failures: Buckets::new(orders),
            ended_sessions: Buckets::new(orders),
            failed_sign_ins: Buckets::new(orders),
            ceremonies: Buckets::new(CEREMONIES),
            ceremonies_of_sites: Buckets::new(CEREMONIES_OF_SITE),
            ended_ceremonies: Buckets::new(orders),
            look_ups: Buckets::new(orders),
            log_lines: Buckets::new(LOG_LINES),
            all_log_lines: Buckets::new(ALL_LOG_LINES),
        }
    }

    /// Counts a request of a key or a person. Returns `None` if there is no limit.
    pub(crate) fn request(&self, policy: Policy, caller: &Caller) -> Option<Allowance> {
        let [own, own_with_documents] = caller.rates();
        let rate = match policy {
            Policy::Orders | Policy::Changes => own.unwrap_or(self.orders),
            Policy::OrdersWithDocuments => own_with_documents.unwrap_or(self.orders_with_documents),
            Policy::Reads => self.reads,
            Policy::Webhooks => self.orders,
        };
        let remaining = self.buckets(policy, rate).take(&caller.doer())?;
        Some(Allowance { policy, rate, remaining })
    }

    /// Returns the buckets of a policy for the callers of a rate, the default one or a key's own.
    fn buckets(&self, policy: Policy, rate: Rate) -> Arc<Buckets<Doer>> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(keys.entry((policy, rate)).or_insert_with(|| Arc::new(Buckets::new(rate))))
    }

    /// Counts a failed authentication of a peer. The error is the number of seconds to wait, at
    /// least one.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), u64> {
        self.failures.take(&network(peer)).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a request with the cookie of a session that is over or never was, apart from failures: the old tab of a
    /// person holds up no sign-in and no key at the same address. The error is as in [`Self::failure`].
    pub(crate) fn ended_session(&self, peer: IpAddr) -> Result<(), u64> {
        self.ended_sessions.take(&network(peer)).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a refused sign-in with a passkey of a person, whatever its address. The error is the number of seconds
    /// to wait, at least one. A sign-in that counts is never held up.
    pub(crate) fn refused_sign_in(&self, person: PersonId) -> Result<(), u64> {
        self.failed_sign_ins.take(&person).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a sign-in that a peer begins. The error is the number of seconds to wait, at least one.
    pub(crate) fn begun_sign_in(&self, peer: IpAddr) -> Result<(), u64> {
        self.ceremonies.take(&network(peer)).map_or(Ok(()), |taken| taken.map(drop))?;
        self.ceremonies_of_sites.take(&site(peer)).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a sign-in that a peer ends, whether it has begun one or guesses. The error is the number of seconds to
    /// wait, at least one.
    pub(crate) fn ended_sign_in(&self, peer: IpAddr) -> Result<(), u64> {
        self.ended_ceremonies.take(&network(peer)).map_or(Ok(()), |taken| taken.map(drop))
    }

    /// Counts a look-up of a key that is not cached. Returns whether the peer may cause it. A valid
    /// key needs one in five seconds, so the count is separate from that of failures.
    pub(crate) fn may_look_up(&self, peer: IpAddr) -> bool {
        self.look_ups.allows(&network(peer))
    }

    /// Counts a log line of a cheap rejection. Returns whether to write it.
    pub(crate) fn may_log(&self, peer: IpAddr) -> bool {
        self.log_lines.allows(&network(peer)) && self.all_log_lines.allows(&())
    }

    /// Removes full buckets, so that memory does not grow with the number of keys and peers.
    pub fn forget_idle(&self) {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for buckets in keys.values() {
            buckets.forget_idle();
        }
        self.failed_sign_ins.forget_idle();
        let of_peers = [
            &self.failures,
            &self.ended_sessions,
            &self.ceremonies,
            &self.ceremonies_of_sites,
            &self.ended_ceremonies,
            &self.look_ups,
            &self.log_lines,
        ];
        of_peers.into_iter().for_each(Buckets::forget_idle);
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

/// Buckets of one rate; `None` if it is no limit.
struct Buckets<K: Hash + Eq + Clone>(
    Option<RateLimiter<K, DefaultKeyedStateStore<K>, Time, StateInformationMiddleware>>,
);

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: Rate) -> Self {
        let limit = NonZeroU32::new(rate.per_second).zip(NonZeroU32::new(rate.burst));
        Self(limit.map(|(per_second, burst)| {
            let quota = Quota::per_second(per_second).allow_burst(burst);
            RateLimiter::dashmap_with_clock(quota, Time::default()).with_middleware()
        }))
    }

    /// Takes one request. Returns the remaining requests, or the number of seconds to wait.
    fn take(&self, key: &K) -> Option<Result<u32, u64>> {
        let limiter = self.0.as_ref()?;
        let taken = limiter.check_key(key);
        let seconds =
            |until: NotUntil<_>| until.wait_time_from(limiter.clock().now()).as_secs() + 1;
        Some(taken.map(|state| state.remaining_burst_capacity()).map_err(seconds))
    }

    fn allows(&self, key: &K) -> bool {
        self.take(key).is_none_or(|taken| taken.is_ok())
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
    use contract_tests::samples;
    use domain::api_key::{ApiKey, ApiKeyId, NewApiKey};
    use time::OffsetDateTime;

    use super::*;

    fn key(id: i64, rate: Option<Rate>) -> Caller {
        let key = NewApiKey {
            rate,
            documents_rate: None,
            ..samples::api_key(OffsetDateTime::UNIX_EPOCH)
        };
        ApiKey { id: ApiKeyId(id), key, revoked_at: None, last_used_at: None }.into()
    }

    fn limits(per_second: u32, burst: u32) -> RateLimits {
        let one = Rate { per_second: 1, burst: 1 };
        RateLimits::new(Rate { per_second, burst }, one, one)
    }

    fn left(limits: &RateLimits, key: &Caller) -> Result<u32, u64> {
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
    fn networks_of_a_site_do_not_crowd_out_the_sign_ins_of_others() {
        let limits = limits(1, 1);
        let begin = |site: u16, network: u16| {
            limits.begun_sign_in(IpAddr::from([0x2001, 0xdb8, site, network, 0, 0, 0, 1])).is_ok()
        };
        let count = (0..1_000).filter(|network| begin(1, *network)).count();
        assert!((240..500).contains(&count), "{count}");
        assert!(begin(2, 0));
    }

    #[test]
    fn ended_sessions_use_up_no_failures_of_their_address() {
        let limits = limits(1, 1);
        let office = "192.0.2.1".parse().unwrap();
        assert!(limits.ended_session(office).is_ok());
        assert!(limits.ended_session(office).is_err());
        assert!(limits.failure(office).is_ok());
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
