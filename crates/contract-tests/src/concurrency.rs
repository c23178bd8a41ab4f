//! The obligations that depend on how a database orders and locks concurrent calls.

/// Runs the obligations of a database that another version, a pooler or other settings of the server can
/// break though they hold elsewhere: those of concurrent calls, and of writes that must happen together.
/// A database runs all obligations once, with `storage_contracts!`, and these in every other mode.
#[macro_export]
macro_rules! concurrency_contracts {
    ($storage:ident) => {
        mod order_repo {
            $crate::obligations!(order_repo, super::$storage().await;
                order_is_found_as_created, duplicate_writes_nothing,
                one_of_concurrent_orders_is_created,
                one_of_concurrent_orders_after_the_newest_is_created,
                creating_an_order_adopts_its_uploads,
                order_with_swept_upload_is_rejected,
                one_of_concurrent_changes_of_a_version_is_stored,
                concurrent_amendments_and_changes_are_one_after_the_other,
                one_of_concurrent_amendments_of_a_version_is_stored,
                concurrent_orders_have_their_own_outcomes,
                concurrent_orders_have_their_own_kinds_and_windows,
                concurrent_additions_never_share_a_position,
                one_of_concurrent_additions_with_one_key_is_stored,
                one_of_concurrent_notes_with_one_key_is_stored,
                earliest_of_concurrent_downloads_is_the_first,
            );
        }
        mod upload_ledger {
            $crate::obligations!(upload_ledger, super::$storage().await;
                swept_key_is_never_adopted, key_is_adopted_or_condemned_never_both,
            );
        }
        mod idempotency_ledger {
            $crate::obligations!(idempotency_ledger, super::$storage().await;
                claimed_key_passes_to_its_order, order_under_a_claimed_key_is_rejected,
                one_of_concurrent_claims_gets_the_key,
                one_of_concurrent_orders_with_one_key_is_created,
            );
        }
        mod api_key_repo {
            $crate::obligations!(api_key_repo, super::$storage().await;
                key_is_found_as_added, first_key_is_added_once, concurrent_rotations_all_count,
            );
        }
        mod outbox {
            $crate::obligations!(outbox, super::$storage().await;
                events_of_a_call_are_dispatched_together,
                concurrent_workers_dispatch_each_event_once,
            );
        }
        mod delivery_queue {
            $crate::obligations!(delivery_queue, super::$storage().await;
                concurrent_workers_never_share_a_delivery, concurrent_workers_count_every_mail,
                settlements_of_a_call_are_stored_together,
            );
        }
        mod webhook_queue {
            $crate::obligations!(webhook_queue, super::$storage().await;
                concurrent_workers_never_share_a_webhook,
            );
        }
        mod order_reader {
            $crate::obligations!(order_reader, super::$storage().await;
                document_is_read_by_its_position, poller_misses_no_concurrent_order,
            );
        }
        mod change_feed {
            $crate::obligations!(change_feed, super::$storage().await;
                poller_misses_no_concurrent_change,
            );
        }
        mod order_admin {
            $crate::obligations!(order_admin, super::$storage().await;
                document_is_added_or_the_order_erased_never_both, order_that_is_due_is_erased_once,
                order_is_held_or_erased_never_both,
            );
        }
        mod person_repo {
            $crate::obligations!(person_repo, super::$storage().await;
                first_person_is_invited_once, invitation_is_accepted_once,
                sign_in_replaces_the_state_of_its_passkey_once, one_admin_of_a_side_stays,
            );
        }
        mod session_repo {
            $crate::obligations!(session_repo, super::$storage().await;
                no_session_outlives_a_disabling_at_the_same_time,
                ceremony_is_taken_once_before_its_end,
            );
        }
        mod access_log {
            $crate::obligations!(access_log, super::$storage().await;
                concurrent_batches_are_all_stored,
            );
        }
    };
}
