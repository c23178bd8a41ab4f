//! The obligations of the ports of the domain, as tests that use only the port.
//!
//! Each module is the contract of one port; its functions are the obligations. An adapter runs all
//! of them with one macro call:
//!
//! ```text
//! contract_tests::contract!(blob_store, fixture());
//! ```
//!
//! A database runs the contracts of all its ports with `storage_contracts!`, and with
//! `concurrency_contracts!` those that another mode of the database can break.
//!
//! A test fails when [`contract!`] lacks an obligation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "everything here is for tests, which fail by panicking"
)]

/// Makes each obligation of a list a test. The expression makes a new fixture for each test.
#[macro_export]
macro_rules! obligations {
    ($module:ident, $fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[test]
        fn $obligation() {
            $crate::run(async { $crate::$module::$obligation(&$fixture).await });
        }
    )+};
}

/// Like [`obligations`], for ports without `async`.
#[macro_export]
macro_rules! sync_obligations {
    ($module:ident, $fixture:expr; $($obligation:ident),+ $(,)?) => {$(
        #[test]
        fn $obligation() {
            $crate::$module::$obligation(&$fixture);
        }
    )+};
}

/// Runs the contract of a port. The first expression names it, the other makes the fixture of each
/// test: for a port of a database its `Storage`. A store that copies the bytes of every file, and so
/// checks them, runs `copying_blob_store`.
#[macro_export]
macro_rules! contract {
    (order_repo, $fixture:expr) => {
        $crate::obligations!(order_repo, $fixture;
            order_is_found_as_created, file_number_is_free_exactly_at_window_end,
            window_of_zero_makes_no_duplicate, file_numbers_are_compared_exactly,
            duplicate_writes_nothing, one_of_concurrent_orders_is_created,
            one_of_concurrent_orders_after_the_newest_is_created,
            order_follows_only_the_newest_of_its_client, order_follows_only_one_that_takes_no_changes,
            file_number_in_another_form_is_in_use, amendment_is_stored_under_its_key,
            creating_an_order_adopts_its_uploads, order_with_swept_upload_is_rejected,
            test_and_real_orders_do_not_share_file_numbers,
            order_whose_record_cannot_be_read_changes_all_the_same,
            change_is_found_as_stored, event_has_the_notary_of_its_change, order_of_another_owner_or_version_is_not_changed,
            one_of_concurrent_changes_of_a_version_is_stored, changed_order_is_returned,
            change_of_nothing_or_of_a_cancelled_order_is_not_stored, notary_is_found_as_named,
            name_leaves_with_a_number_that_another_system_changes,
            documents_added_after_a_change_keep_the_history,
            reason_of_a_signing_without_signatures_is_given_later,
            amended_order_is_found_as_stored, amendment_is_later_than_every_change_before,
            old_values_stay_until_the_erasure,
            amendment_of_nothing_leaves_no_trace, order_of_another_client_is_not_amended,
            concurrent_amendments_and_changes_are_one_after_the_other,
            one_of_concurrent_amendments_of_a_version_is_stored,
            order_that_as_many_addresses_know_as_can_gets_no_other, confirmation_ends_with_its_appointment,
            change_by_another_system_has_the_same_history_and_event, near_spelling_by_another_system_is_the_usual_status,
            change_by_another_system_after_one_of_the_service_is_of_the_database,
            erasure_leaves_statuses_and_instants_without_reasons,
            failed_order_after_window_releases_no_file_number, check_of_working_store_succeeds,
            concurrent_orders_have_their_own_outcomes,
            concurrent_orders_have_their_own_kinds_and_windows, added_documents_follow_the_others,
            concurrent_additions_never_share_a_position, concurrent_additions_do_not_pass_the_greatest_number,
            documents_are_added_to_own_orders_only, addition_with_swept_upload_is_rejected,
            addition_is_stored_under_its_key, one_of_concurrent_additions_with_one_key_is_stored,
            failed_addition_leaves_its_key_free, notes_are_found_as_added,
            notes_are_added_to_own_orders_only, concurrent_notes_are_added_one_after_the_other,
            note_is_stored_under_its_key, one_of_concurrent_notes_with_one_key_is_stored,
            signed_documents_have_positions_of_their_own, replaced_document_keeps_its_place,
            one_of_concurrent_replacements_of_a_document_is_stored, withdrawn_document_keeps_its_record,
            document_of_another_owner_is_not_withdrawn, first_download_is_kept,
            earliest_of_concurrent_downloads_is_the_first, late_crc32_is_kept,
            change_is_stored_with_its_access, doer_of_each_change_is_read_back, access_of_a_change_that_is_not_stored_is_not_stored,
            access_that_is_stored_already_does_not_undo_its_change,
        );
    };
    (service_repo, $fixture:expr) => {
        $crate::obligations!(service_repo, $fixture;
            record_is_read_as_it_was_added, number_has_one_record, record_is_changed_and_removed,
            standing_of_a_number_depends_on_all_records,
        );
    };
    (installation_repo, $fixture:expr) => {
        $crate::obligations!(installation_repo, $fixture;
            first_installation_is_recorded, replaced_installation_is_recorded,
            identity_of_the_database_stays,
        );
    };
    (access_log, $fixture:expr) => {
        $crate::obligations!(access_log, $fixture;
            access_is_read_as_it_was_stored, stored_access_stays_as_it_is,
            pages_have_every_access_once, accesses_are_listed_by_order_instant_key_and_address,
            accesses_are_listed_by_person,
            order_shows_accesses_of_its_sides_and_of_operators,
            refusal_of_a_stranger_is_for_operators, missing_numbers_are_found,
            gaps_of_a_running_instance_hide_no_removed_access,
            removed_accesses_are_not_missing, runs_are_forgotten_with_their_accesses,
            killed_run_is_forgotten_a_day_after_its_last_sign_of_life,
            keys_and_people_that_read_many_orders_are_busy, unknown_kinds_are_left_out,
            concurrent_batches_are_all_stored,
        );
    };
    (rejected_log, $fixture:expr) => {
        $crate::obligations!(rejected_log, $fixture;
            counts_of_a_key_are_read_by_code, count_that_has_grown_replaces_itself,
            mail_is_claimed_for_a_key_with_a_contact, keys_of_one_contact_have_one_mail,
            one_of_concurrent_claims_gets_a_contact,
            claim_of_a_wrong_clock_does_not_count, told_requests_are_not_told_again,
            old_counts_are_removed,
        );
    };
    (person_repo, $fixture:expr) => {
        $crate::obligations!(person_repo, $fixture;
            person_is_found_as_invited, people_are_listed_by_side, open_invitations_are_listed,
            first_person_is_invited_once,
            invitation_is_accepted_once, other_invitations_are_refused,
            invitations_end_with_the_rights_of_their_issuer, open_invitations_of_a_side_are_limited,
            admin_issues_few_invitations_a_day,
            credential_and_identity_belong_to_one_person, identity_is_issuer_and_subject,
            passkey_is_found_by_its_credential, sign_in_replaces_the_state_of_its_passkey_once,
            last_way_to_sign_in_stays, one_admin_stays_who_can_sign_in,
            one_of_the_own_ways_to_sign_in_stays, name_is_that_of_one_person_of_a_side,
            name_is_that_of_a_person_or_of_a_key,
            person_is_found_as_changed, disabling_ends_sessions,
            one_admin_of_a_side_stays, erased_person_is_a_former_user,
            names_of_people_and_keys_are_read,
        );
    };
    (session_repo, $fixture:expr) => {
        $crate::obligations!(session_repo, $fixture;
            session_is_found_by_its_token, person_is_bound_as_the_keys_of_the_client, session_needs_an_active_person_or_a_valid_key,
            no_session_outlives_a_disabling_at_the_same_time, ended_session_is_not_found,
            longest_unused_session_ends_beyond_the_greatest_number, tokens_are_those_of_open_sessions,
            session_ends_the_one_that_it_replaces,
            use_of_a_session_is_the_last_sight_of_its_person,
            old_sessions_and_ceremonies_are_removed, ceremony_is_taken_as_it_began,
            ceremony_is_taken_once_before_its_end,
        );
    };
    (database_time, $fixture:expr) => {
        $crate::obligations!(database_time, $fixture;
            clock_of_a_server_runs, newest_instant_is_that_of_the_last_order_key_or_access,
        );
    };
    (upload_ledger, $fixture:expr) => {
        $crate::obligations!(upload_ledger, $fixture;
            recorded_keys_are_condemned, recording_a_known_key_records_nothing,
            keys_recorded_before_an_instant_are_condemned, condemned_keys_are_swept_at_any_age,
            sweep_has_a_limit, sweep_goes_on_behind_a_key, only_condemned_keys_are_forgotten,
            swept_key_is_never_adopted,
            key_is_adopted_or_condemned_never_both, empty_lists_of_keys_are_accepted,
        );
    };
    (idempotency_ledger, $fixture:expr) => {
        $crate::obligations!(idempotency_ledger, $fixture;
            key_is_claimed_once, clients_do_not_share_keys, order_is_recorded_under_its_key,
            claimed_key_passes_to_its_order, order_under_a_claimed_key_is_rejected,
            key_in_use_precedes_duplicate, key_is_free_when_no_longer_kept,
            failed_order_is_not_recorded_under_its_key, only_free_keys_are_forgotten,
            one_of_concurrent_claims_gets_the_key, one_of_concurrent_orders_with_one_key_is_created,
            key_is_released_by_its_holder, claim_of_a_clock_that_was_ahead_is_free,
        );
    };
    (api_key_repo, $fixture:expr) => {
        $crate::obligations!(api_key_repo, $fixture;
            key_is_found_as_added, further_key_is_found_with_its_client,
            unknown_lookup_is_not_found, keys_are_listed_oldest_first,
            revoked_key_is_found_as_revoked, first_key_is_added_once,
            rotation_adds_successor_and_sets_expiry, rotation_does_not_extend_a_key,
            only_a_valid_key_is_rotated, last_use_is_the_latest_noted,
            history_has_every_change_once, concurrent_rotations_all_count, only_a_client_is_renamed, first_key_of_a_client_is_found, unknown_names_of_keys_are_left_out,
        );
    };
    (outbox, $fixture:expr) => {
        $crate::obligations!(outbox, $fixture;
            each_order_adds_one_event, each_addition_of_documents_adds_one_event,
            oldest_events_come_first, deliveries_of_an_event_are_due_at_once,
            event_is_dispatched_once, events_of_a_call_are_dispatched_together,
            concurrent_workers_dispatch_each_event_once,
            deliveries_of_an_event_from_the_future_are_due, event_put_off_is_passed,
            event_that_a_clock_ahead_has_put_off_is_not_passed,
            event_of_an_unknown_type_is_left_alone, unreadable_event_holds_up_no_other, identifier_of_an_event_is_never_given_again,
            mails_of_a_call_are_as_many_as_clients_cause,
            news_that_gather_join_the_mail_that_waits, news_join_a_mail_that_leaves_at_once,
            news_of_a_call_gather,
            changes_that_new_order_tells_have_all_of_their_attempts,
            news_do_not_join_a_mail_that_may_have_left,
            concurrent_workers_gather_news_in_one_mail,
            notes_that_one_mail_cannot_tell_have_another,
        );
    };
    (delivery_queue, $fixture:expr) => {
        $crate::obligations!(delivery_queue, $fixture;
            longest_due_deliveries_are_leased_first, delivery_is_leased_when_due,
            expired_lease_is_given_again, concurrent_workers_never_share_a_delivery,
            failed_attempt_is_due_at_the_given_instant, lost_lease_settles_nothing,
            lease_settles_once, expired_lease_settles_until_taken, unleased_delivery_is_not_settled,
            deliveries_are_listed_by_age, retry_resets_a_failed_delivery,
            retry_makes_a_waiting_delivery_due, retry_changes_no_delivery_in_progress,
             retried_mail_tells_its_order_as_it_is,
             stats_count_events_and_deliveries,
             mails_that_wait_longer_than_any_delay_are_brought_forward,
             mails_to_a_recipient_are_counted_per_hour,
            mail_that_does_not_begin_is_not_counted, mail_of_a_lost_worker_is_counted_again,
            mail_above_the_limit_waits_and_is_counted_again,
            mails_are_counted_for_each_client_and_not_for_services,
            concurrent_workers_count_every_mail,
            orders_of_deliveries_are_found, unreadable_order_of_a_delivery_is_an_error_of_its_own,
            leases_of_dead_processes_are_free, settlements_of_a_call_are_stored_together, mail_of_an_unknown_subject_holds_up_no_other,
            renewed_lease_holds_longer, unknown_outcomes_are_counted,
            recipients_of_mails_that_begin_are_remembered, version_of_told_changes_is_remembered,
            changes_that_a_mail_tells_leave_the_queue, older_of_two_mails_about_changes_stays,
            sequence_grows_with_the_appointment_only,
        );
    };
    (webhook_repo, $fixture:expr) => {
        $crate::obligations!(webhook_repo, $fixture;
            endpoint_is_read_as_it_was_added, owner_has_a_limited_number_of_endpoints,
            endpoint_of_another_owner_is_like_none, endpoint_of_another_version_is_not_changed,
            absent_parts_of_a_change_stay,
            endpoint_is_disabled_once_and_enabled_again, another_url_has_no_failures,
            rotated_secrets_sign_along_until_their_ends,
            secrets_are_replaced_only_while_they_are_the_same, removed_endpoint_gives_its_identifier_to_no_other,
            endpoints_of_parties_are_found_whatever_their_state,
            endpoint_is_disabled_when_it_has_failed_for_too_long,
            unknown_events_of_an_endpoint_are_left_out, endpoint_knows_the_key_that_made_it,
            rotation_hands_endpoints_on,
            endpoint_that_fails_is_told_of_once, endpoint_that_the_service_disabled_is_told_of_once,
        );
    };
    (webhook_queue, $fixture:expr) => {
        $crate::obligations!(webhook_queue, $fixture;
            webhook_of_an_event_is_due_at_once, test_event_is_due_at_once,
            webhook_is_leased_when_due, webhook_leased_by_a_clock_that_was_ahead_is_retried,
            webhook_that_waits_longer_than_any_delay_is_brought_forward,
            endpoint_that_a_clock_ahead_has_put_off_is_brought_forward,
            concurrent_workers_never_share_a_webhook,
            each_endpoint_gets_one_before_any_gets_two, endpoint_gets_no_more_than_its_slots,
            client_gets_no_more_than_its_slots,
            endpoint_that_got_one_comes_after_those_that_have_waited,
            disabled_and_removed_endpoints_get_nothing, removed_endpoint_leaves_no_webhook,
            webhook_of_an_unknown_event_holds_up_no_other, unreadable_webhook_holds_up_no_other,
            hanging_endpoints_hold_up_no_others_of_their_owners,
            hanging_endpoints_leave_slots_to_those_that_work,
            outcome_of_a_webhook_is_stored, lost_lease_of_a_webhook_settles_nothing,
            first_failure_and_first_success_change_the_endpoint,
            receiver_that_is_gone_disables_its_endpoint,
            attempt_at_another_url_does_not_change_the_endpoint, pages_have_every_webhook_once,
            page_of_another_owner_or_cursor_is_none, ended_webhook_is_replayed,
            webhooks_of_a_time_are_replayed, webhooks_are_listed_and_retried,
            retry_changes_no_webhook_in_progress, stats_count_webhooks,
            old_webhooks_are_forgotten,
        );
    };
    (order_reader, $fixture:expr) => {
        $crate::obligations!(order_reader, $fixture;
            document_is_read_by_its_position, other_owner_reads_nothing, unknown_order_is_not_read,
            unreadable_order_is_named, page_has_the_newest_orders_with_their_number_of_documents,
            pages_walk_to_the_oldest_order_and_back, page_has_orders_with_a_file_number,
            orders_of_a_time_are_found_though_clocks_differ, filters_and_cursors_combine,
            filters_find_the_orders_that_match, search_finds_a_part_of_a_text,
            search_finds_words_of_every_text, notary_is_found_whoever_assigns_it,
            texts_of_the_version_before_are_folded, folding_leaves_erased_orders_alone,
            order_whose_texts_cannot_be_stored_keeps_them,
            agenda_goes_on_at_the_place_of_its_cursor, dashes_and_blanks_between_parts_are_alike,
            filters_find_orders_of_the_other_side, late_orders_are_found,
            appointments_are_listed_by_their_start, page_tells_the_newest_change_and_note, changed_order_is_found_by_its_new_values,
            orders_have_the_names_of_now, history_is_read_in_pages, notes_are_read_in_pages,
            large_notes_are_read_in_short_pages, notaries_are_those_of_the_newest_orders, erased_order_is_in_no_page_and_still_a_cursor, poller_misses_no_concurrent_order,
        );
    };
    (change_feed, $fixture:expr) => {
        $crate::obligations!(change_feed, $fixture;
            every_kind_of_change_is_in_the_feed_once, pages_have_every_entry_once,
            feed_has_the_orders_of_its_owner, erased_order_leaves_its_erasure_alone,
            changes_by_the_first_version_are_in_the_feed, now_is_behind_every_change, place_that_never_was_is_none,
            place_behind_a_restored_backup_is_none, one_of_concurrent_starts_begins_the_epoch,
            old_erasures_leave_the_feed, poller_misses_no_concurrent_change,
        );
    };
    (order_admin, $fixture:expr) => {
        $crate::obligations!(order_admin, $fixture;
            orders_of_all_clients_are_listed, orders_are_listed_by_file_number_and_client,
            orders_are_listed_by_any_address, order_of_any_client_is_found,
            old_orders_are_found_smallest_first, orders_that_may_be_late_are_looked_for, erasure_leaves_only_the_row,
            erasure_by_the_first_version_leaves_only_the_row,
            erasure_frees_the_file_number, erasure_condemns_the_documents,
            erasure_removes_the_event_and_the_deliveries, erasure_is_an_event, mail_in_progress_stays_until_it_is_settled,
            mail_in_progress_of_an_erased_order_is_not_leased_again, upload_in_progress_of_an_erased_order_is_condemned_and_counted,
            webhooks_of_an_erased_order_lose_their_bodies,
            webhook_in_progress_of_an_erased_order_is_counted,
            other_orders_are_left_alone,
            document_is_added_or_the_order_erased_never_both,
            order_is_due_after_its_appointment_and_its_last_change, order_that_is_due_is_erased_once,
            orders_with_long_histories_are_erased_in_steps,
            documents_that_are_due_are_withdrawn, order_on_hold_keeps_its_data,
            erasure_of_documents_does_not_prolong_the_retention_of_their_order, order_is_held_or_erased_never_both,
        );
    };
    (blob_store, $fixture:expr) => {
        $crate::obligations!(blob_store, $fixture;
            object_has_the_bytes_of_its_file, concurrent_puts_and_readers_do_not_mix,
            file_of_another_size_is_rejected, object_appears_complete, deleted_object_is_gone,
            check_leaves_nothing_behind, ranges_of_an_object_are_read,
            range_beyond_the_end_is_an_error, deleted_object_is_never_read_short,
        );
    };
    (copying_blob_store, $fixture:expr) => {
        $crate::contract!(blob_store, $fixture);
        $crate::obligations!(blob_store, $fixture;
            file_with_other_bytes_is_rejected,
        );
    };
    (document_scanner, $fixture:expr) => {
        $crate::obligations!(document_scanner, $fixture;
            clean_document_is_clean, malware_is_found_anywhere_in_a_document,
            concurrent_scans_do_not_mix, document_over_the_limit_is_too_large,
            file_of_another_size_is_never_clean, scanner_is_unavailable_until_it_is_back,
        );
    };
    (notifier, $fixture:expr) => {
        $crate::obligations!(notifier, $fixture;
            mail_goes_only_to_its_recipient, unusual_addresses_get_their_mail,
            notice_is_a_mail_to_its_recipient, check_sends_no_mail, outage_is_unavailable,
        );
    };
    (webhook_sender, $fixture:expr) => {
        $crate::obligations!(webhook_sender, $fixture;
            webhook_arrives_byte_for_byte, each_secret_signs, trace_context_arrives,
            any_status_is_the_answer, missing_answer_is_an_error, retry_after_is_read,
            body_of_the_answer_changes_nothing, refused_url_is_never_called, check_sends_nothing,
        );
    };
    (secret_box, $fixture:expr) => {
        $crate::sync_obligations!(secret_box, $fixture;
            secret_opens_with_its_key_and_context, other_key_or_context_is_unreadable,
            first_key_encrypts_and_all_keys_decrypt,
            changed_bytes_are_unreadable, equal_secrets_have_different_sealed_bytes,
        );
    };
    (clock, $fixture:expr) => {
        $crate::sync_obligations!(clock, $fixture;
            instants_are_utc_and_whole_microseconds, time_is_after_2026,
            time_does_not_run_backwards, monotonic_time_never_goes_back,
        );
    };
    (entropy, $fixture:expr) => {
        $crate::sync_obligations!(entropy, $fixture;
            every_byte_is_filled, fills_differ, every_byte_value_occurs,
        );
    };
}

/// Runs the contract of every port that a database implements, each in a module of its name. The
/// asynchronous function makes the `Storage` of each test.
#[macro_export]
macro_rules! storage_contracts {
    ($storage:ident) => {
        $crate::storage_contracts!($storage; order_repo, upload_ledger, idempotency_ledger,
            api_key_repo, service_repo, outbox, delivery_queue, webhook_repo, webhook_queue, order_reader,
            change_feed, order_admin, access_log, rejected_log, person_repo, session_repo, database_time,
            installation_repo);
    };
    ($storage:ident; $($port:ident),+) => {$(
        mod $port {
            $crate::contract!($port, super::$storage().await);
        }
    )+};
}

mod concurrency;
pub mod documents;
pub mod fakes;
pub mod order_details;
mod other_system;
pub mod samples;
mod services;
mod sql_tables;
mod storage;

pub use async_trait::async_trait;
pub use other_system::*;
pub use services::*;
pub use sql_tables::SqlTables;
pub use storage::*;

/// Runs an obligation to its end, on a runtime with several threads.
#[doc(hidden)]
pub fn run(obligation: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.unwrap().block_on(obligation);
}
