//! Rust participants on our `libwebrtc`, the Python SDK on the original one, and a real server between them.
//!
//! One file per area. Tests share a server unless they harm it; every test has a room of its own.

mod agent;
mod audio;
mod burst;
mod chat;
mod client;
mod counting;
mod data;
mod encryption;
mod join;
mod loss;
mod outage;
mod publishing;
mod room;
mod rpc;
mod scenarios;
mod sender_identity;
mod streams;
mod tls;
mod video;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Most of the time is waiting; more than two at once would disturb each other's audio on two cores.
    sotto_harness::run(
        2,
        sotto_harness::tests![
            join::pair_is_udp_with_one_peer_connection,
            join::pair_is_udp_with_two_peer_connections,
            join::pair_is_ipv6_when_the_server_offers_only_that,
            join::late_joiner_gets_what_is_there,
            join::leaving_is_seen_and_the_server_does_not_complain,
            join::rooms_outlive_the_runtime_of_an_earlier_one,
            data::rust_to_rust_with_one_peer_connection,
            data::rust_to_rust_with_two_peer_connections,
            data::rust_and_python_with_one_peer_connection,
            data::rust_and_python_with_two_peer_connections,
            data::lossy_packets_arrive_on_a_clean_network,
            data::destination_identities_are_obeyed,
            sender_identity::newcomers_are_named_with_one_peer_connection,
            sender_identity::newcomers_are_named_with_two_peer_connections,
            sender_identity::repeated_bytes_name_nobody,
            streams::rust_to_rust,
            streams::rust_and_python,
            streams::rust_and_python_with_two_peer_connections,
            room::others_see_an_agent_and_its_state,
            room::the_last_of_many_states_is_shown,
            room::the_agents_first_words_have_a_sender,
            room::newcomers_are_heard_at_once_with_one_peer_connection,
            room::newcomers_are_heard_at_once_with_two_peer_connections,
            room::a_newcomers_first_stream_has_a_sender,
            room::other_agents_are_ignored,
            room::another_agent_cannot_speak_as_someone_else,
            room::packets_of_nobody_count_only_if_allowed,
            room::packets_of_other_topics_are_ignored,
            room::a_megabyte_both_ways,
            room::packets_and_streams_keep_their_order,
            room::what_was_begun_first_is_heard_first,
            room::only_those_meant_get_it,
            room::chat_of_all_kinds_is_heard,
            room::stock_clients_read_the_transcript,
            room::the_transcript_is_live,
            room::a_flood_is_counted_and_harms_nobody_else,
            room::too_many_and_too_large_streams_are_refused,
            room::a_silent_stream_is_refused,
            room::nobody_writes_into_anothers_stream,
            room::calls_and_transcriptions_do_not_reach_the_agent,
            room::leaving_says_all_that_was_to_be_said,
            room::letting_go_is_leaving,
            room::being_sent_away_closes_the_room,
            room::after_a_full_reconnect_all_is_as_before,
            agent::the_exchange_is_complete_and_in_order,
            agent::a_python_client_sees_the_same_exchange,
            agent::tools_are_used_and_their_results_go_back_to_the_model,
            agent::large_envelopes_travel_whole_both_ways,
            agent::a_stop_ends_the_answer_at_once_and_is_no_error,
            agent::a_stop_while_the_model_thinks_gives_an_empty_answer,
            agent::a_new_message_interrupts_the_answer_to_the_same_user,
            agent::with_a_queue_messages_wait_their_turn,
            agent::an_answer_can_be_had_again_edited_and_continued,
            agent::two_users_at_once_are_both_answered_and_told_apart,
            agent::a_newcomer_who_writes_at_once_is_answered_at_once,
            agent::a_user_who_leaves_and_comes_back_is_known,
            agent::a_client_without_streaming_gets_whole_answers,
            agent::live_thinking_and_figures_come_to_those_who_ask,
            agent::hidden_reasoning_reaches_nobody,
            agent::a_stock_client_chats_reads_transcripts_and_sees_the_state,
            agent::an_endpoint_that_is_not_ready_is_asked_again,
            agent::an_answer_that_breaks_off_is_kept_and_told_as_failed,
            agent::a_refused_key_is_told_in_words_and_without_the_key,
            agent::the_fallback_answers_with_a_key_of_its_own,
            agent::each_kind_of_garbage_is_refused_to_its_sender_alone,
            agent::an_empty_message_is_refused_by_its_number,
            agent::another_conversation_is_not_found_here,
            agent::a_flood_of_garbage_harms_nobody_else,
            agent::whoever_writes_too_much_is_told_for_each_message,
            agent::after_a_crash_another_agent_answers,
            agent::told_to_leave_it_finishes_its_answer_first,
            agent::an_answer_without_end_does_not_keep_it_for_ever,
            agent::without_an_endpoint_the_demo_answers,
            agent::health_and_metrics_tell_how_it_is,
            agent::a_bad_configuration_is_told_clearly_with_exit_code_2,
            agent::keys_and_speech_are_in_no_log_metric_or_error,
            agent::the_beginning_of_a_prompt_stays_the_same,
            client::what_no_agent_heard_is_sent_again_when_one_comes,
            client::large_envelopes_keep_their_place_both_ways,
            client::only_agents_are_heard,
            client::what_is_missing_is_asked_for,
            client::after_a_reconnect_the_agent_learns_how_far_we_came,
            client::a_new_agent_that_counts_anew_is_heard,
            chat::pipes_get_plain_text_and_each_answer_is_awaited,
            chat::scripts_get_json,
            chat::a_question_waits_for_the_agent,
            chat::without_an_agent_it_gives_up,
            chat::a_failed_answer_is_told_and_shows_in_the_exit_code,
            chat::what_cannot_be_done_shows_in_the_exit_code,
            chat::at_a_terminal_ctrl_c_stops_the_answer_and_then_leaves,
            rpc::rust_to_rust,
            rpc::rust_and_python,
            audio::rust_to_rust_mono,
            audio::rust_to_rust_stereo,
            audio::mono_is_the_same_in_both_ears,
            audio::rust_to_rust_with_two_peer_connections,
            audio::source_at_44100_is_heard_at_16000,
            audio::source_at_22050_is_heard_at_48000,
            audio::both_ways_with_python,
            audio::both_ways_with_python_and_two_peer_connections,
            audio::stereo_both_ways_with_python,
            audio::python_without_red,
            audio::python_with_dtx_pauses_and_comes_back,
            audio::five_participants_hear_all_others,
            encryption::nothing_leaves_in_the_clear_when_encryption_is_asked_for,
            publishing::track_can_be_taken_back_and_published_again,
            publishing::mute_is_silence_until_unmute,
            publishing::mute_works_with_python_both_ways,
            publishing::unsubscribing_stops_the_frames,
            video::subscribed_video_does_no_harm,
            video::unsubscribed_video_does_no_harm,
            scenarios::speaker,
            scenarios::signal_reconnect,
            scenarios::signal_reconnect_with_two_peer_connections,
            scenarios::full_reconnect,
            scenarios::migration,
            scenarios::node_failure,
            scenarios::server_leave,
            scenarios::disconnect_signal_on_resume,
            scenarios::force_tcp,
            scenarios::force_tls,
            outage::server_killed_and_restarted,
            outage::server_killed_for_good,
            outage::media_cut_and_back,
            burst::twenty_megabytes_of_packets,
            burst::twenty_megabytes_of_stream,
            loss::ten_percent_data_and_audio,
            tls::wss_with_a_private_authority,
            tls::wss_refuses_a_stranger,
        ],
    )
}
