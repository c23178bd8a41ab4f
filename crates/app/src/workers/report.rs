//! Reports of the steps of workers, to the log and the metrics.

use domain::{
    api_key::ApiKeyId,
    person::Doer,
    ports::{NoticeOutcome, error_chain},
    use_cases::{
        accesses::watch_accesses::{AccessAlert, AccessStep},
        deliveries::{bring_forward::BroughtForward, dispatch_events::Dispatched},
        rejected::tell_rejected::RejectedMail,
        upkeep::fold_texts::KeptTexts,
        webhooks::watch_webhooks::WatchStep,
    },
    webhook::{DisabledBy, EndpointId},
};
use telemetry::WorkerMetrics;

/// Returns a report to the metrics.
pub(super) fn with<T: 'static>(
    metrics: &WorkerMetrics,
    report: fn(&WorkerMetrics, T),
) -> impl FnMut(T) + Send + 'static + use<T> {
    let metrics = metrics.clone();
    move |done| report(&metrics, done)
}

/// Reports mails that were removed from the mail drop.
pub(super) fn old_mails(removed: usize) {
    if removed > 0 {
        tracing::info!(removed, "old mails removed from the mail drop");
    }
}

/// Reports orders that a search does not find by all of their words.
pub(super) fn kept_texts(kept: KeptTexts) {
    for (order_id, error) in kept {
        tracing::warn!(
            order_id = order_id.0,
            error = error_chain(&error),
            "the texts for searches of an order cannot be stored; a search finds it by its texts of before"
        );
    }
}

/// Reports deliveries that were put off for years.
pub(super) fn brought_forward(BroughtForward { mails, webhooks }: BroughtForward) {
    if mails > 0 || webhooks > 0 {
        tracing::warn!(
            mails,
            webhooks,
            "deliveries waited longer than any delay: a clock was ahead when they were put off; they are \
             due now"
        );
    }
}

/// Reports events that have their deliveries, and why others wait.
pub(super) fn dispatched(metrics: &WorkerMetrics, step: Dispatched) {
    step.events.iter().for_each(|event| metrics.order_event(event));
    for (order_id, error) in step.unreadable {
        tracing::error!(
            order_id = order_id.0,
            error = error_chain(&error),
            "an order cannot be read; its mails and webhooks wait, and it is read again in a minute"
        );
    }
    for (order_id, error) in step.failed {
        tracing::error!(
            order_id = order_id.0,
            error = error_chain(&error),
            "the mails and webhooks of an event of this order cannot be stored; they wait, hold up no \
             other, and are tried again in a minute"
        );
    }
}

/// Reports what a look at webhook endpoints found.
pub(super) fn watched(metrics: &WorkerMetrics, step: WatchStep) {
    let WatchStep { disabled, notices, unreadable, .. } = step;
    for row in unreadable {
        tracing::warn!(
            row = row.fault,
            "a row has fields that this version does not know (written by a newer version?); continuing \
             with the known ones"
        );
    }
    for id in disabled {
        metrics.disabled(id, DisabledBy::Failures);
    }
    for (EndpointId(endpoint), outcome) in notices {
        match outcome {
            NoticeOutcome::Told => {
                tracing::info!(endpoint, "the client was told of a webhook endpoint that fails");
            }
            NoticeOutcome::NoContact => tracing::warn!(
                endpoint,
                "a webhook endpoint fails, and no valid key of its client has a contact; tell the \
                 client, and issue a key with --client and --contact"
            ),
            NoticeOutcome::Failed(error) => tracing::error!(
                endpoint,
                error,
                "the client could not be told of a webhook endpoint that fails"
            ),
            NoticeOutcome::Later(error) => tracing::warn!(
                endpoint,
                error,
                "the mail about a webhook endpoint that fails is sent again in a minute"
            ),
        }
    }
}

/// Reports mails about rejected requests.
pub(super) fn rejected(mails: Vec<RejectedMail>) {
    for RejectedMail { keys, requests, mail } in mails {
        let api_keys: Vec<_> = keys.iter().map(|key| key.0.to_string()).collect();
        let api_keys = api_keys.join(",");
        match mail {
            NoticeOutcome::Told => {
                tracing::info!(
                    api_keys,
                    requests,
                    "the contact of API keys was told of rejected requests"
                );
            }
            NoticeOutcome::NoContact => {}
            NoticeOutcome::Failed(error) => tracing::error!(
                api_keys,
                requests,
                error,
                "the contact of API keys could not be told of rejected requests"
            ),
            NoticeOutcome::Later(error) => tracing::warn!(
                api_keys,
                requests,
                error,
                "the mail about rejected requests of API keys is sent again in a minute"
            ),
        }
    }
}

/// Reports busy keys and people, and accesses and erasures that were removed.
pub(super) fn accesses(metrics: &WorkerMetrics, step: AccessStep) {
    let AccessStep { removed, erasures, alerts } = step;
    if removed > 0 {
        tracing::info!(removed, "old accesses removed");
    }
    if erasures > 0 {
        tracing::info!(erasures, "old erasures removed from the feed of changes");
    }
    for AccessAlert { reader, is_new, mail } in alerts {
        if is_new {
            metrics.busy_reader(&reader);
        }
        // The operator alone learns of a person, from the log line of the metric: no contact is theirs.
        let Doer::Key(ApiKeyId(api_key)) = reader.doer else { continue };
        match mail {
            NoticeOutcome::Told => {
                tracing::info!(api_key, "the contact of a busy API key was told");
            }
            NoticeOutcome::NoContact => tracing::warn!(
                api_key,
                "a busy API key has no contact; ask its client, and revoke the key if it does not \
                 read so many orders itself"
            ),
            NoticeOutcome::Failed(error) => {
                tracing::error!(api_key, error, "the contact of a busy API key could not be told");
            }
            NoticeOutcome::Later(error) => tracing::warn!(
                api_key,
                error,
                "the mail about a busy API key is sent again in a minute"
            ),
        }
    }
}
