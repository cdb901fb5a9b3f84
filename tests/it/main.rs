//! The only integration test binary, with one file per subject.

mod acceptance_chains;
mod acceptance_theory;
mod approximate;
mod asking;
mod audit;
mod audit_distributions;
#[cfg(feature = "harness")]
mod audit_power;
mod audit_rounds;
#[cfg(feature = "serve")]
mod audit_scoring;
#[cfg(feature = "serve")]
mod audit_servers;
mod audit_unknown;
mod audit_verdict;
mod beam;
mod beam_ends;
mod ceiling;
mod chance;
mod chance_fit;
mod controls;
mod distribution;
mod draft_budgets;
mod draft_ends;
mod draft_penalties;
mod drafters_model;
mod drafters_text;
mod drafters_tree;
mod errors;
mod exactness;
mod exactness_ends;
mod exactness_time;
mod external;
mod external_aimed;
mod external_sampled;
mod external_support;
mod fixtures;
mod heads;
#[cfg(feature = "engine")]
mod kernel_support;
mod lanes;
mod language;
mod layers;
mod lengths;
mod lengths_costs;
mod lengths_trees;
mod links;
mod logits;
mod method;
mod mutants;
mod random_toys;
mod sampling;
mod session;
mod signals;
#[cfg(feature = "harness")]
mod simulated_engine;
#[cfg(feature = "harness")]
mod simulated_requests;
#[cfg(feature = "harness")]
mod simulated_rows;
#[cfg(feature = "harness")]
mod simulation;
mod stop;
#[cfg(feature = "harness")]
mod tape_beliefs;
mod tape_exact;
#[cfg(feature = "harness")]
mod tape_parquet;
mod tape_record;
mod tape_support;
mod tape_trees;
mod text_stream;
mod tree;
mod verifier_distribution;
mod verify;
mod vocabularies;

// Models; checkpoints are written with candle.
#[cfg(feature = "harness")]
mod beam_embedded;
#[cfg(feature = "engine")]
mod beam_fixtures;
#[cfg(feature = "engine")]
mod chat_apart;
#[cfg(feature = "harness")]
mod chat_limits;
#[cfg(feature = "engine")]
mod chat_templates;
#[cfg(feature = "candle")]
mod checkpoint;
#[cfg(feature = "engine")]
mod damage_support;
#[cfg(feature = "peers")]
mod damaged_checkpoints;
#[cfg(feature = "engine")]
mod ggml;
#[cfg(feature = "engine")]
mod gguf_blocks;
#[cfg(feature = "engine")]
mod gguf_config;
#[cfg(feature = "engine")]
mod gguf_damaged;
#[cfg(feature = "engine")]
mod gguf_kernels;
#[cfg(feature = "peers")]
mod gguf_logits;
#[cfg(feature = "engine")]
mod gguf_models;
#[cfg(feature = "engine")]
mod gguf_reader;
#[cfg(feature = "engine")]
mod gguf_rope;
#[cfg(feature = "engine")]
mod gguf_splits;
#[cfg(feature = "engine")]
mod gguf_support;
#[cfg(feature = "engine")]
mod gguf_tensors;
#[cfg(feature = "harness")]
mod model_catalog;
#[cfg(feature = "peers")]
mod model_greedy;
#[cfg(feature = "peers")]
mod model_llama;
#[cfg(feature = "candle")]
mod model_loader;
#[cfg(feature = "candle")]
mod native;
#[cfg(feature = "candle")]
mod native_batches;
#[cfg(feature = "engine")]
mod pool;
#[cfg(feature = "engine")]
mod races;
#[cfg(feature = "peers")]
mod reference;
#[cfg(feature = "engine")]
mod together;

// Experiments, reports, the command line.
#[cfg(feature = "harness")]
mod axis_contrasts;
#[cfg(all(feature = "harness", feature = "candle"))]
mod bench;
#[cfg(feature = "peers")]
mod cache_dtypes;
#[cfg(feature = "harness")]
mod calibration;
#[cfg(feature = "harness")]
mod certificate;
#[cfg(feature = "harness")]
mod certified;
#[cfg(feature = "harness")]
mod chat_turns;
#[cfg(feature = "harness")]
mod cli_audit;
#[cfg(all(feature = "harness", feature = "candle"))]
mod cli_bench;
#[cfg(feature = "harness")]
mod cli_certify;
#[cfg(feature = "harness")]
mod cli_chat;
#[cfg(feature = "harness")]
mod cli_check;
#[cfg(all(feature = "harness", feature = "candle"))]
mod cli_checkpoint;
#[cfg(feature = "harness")]
mod cli_compare;
#[cfg(feature = "harness")]
mod cli_external;
#[cfg(feature = "harness")]
mod cli_forecast;
#[cfg(feature = "harness")]
mod cli_generate;
#[cfg(feature = "harness")]
mod cli_inspect;
#[cfg(feature = "harness")]
mod cli_list;
#[cfg(feature = "harness")]
mod cli_simulate;
#[cfg(feature = "harness")]
mod cli_strategies;
#[cfg(feature = "harness")]
mod cli_support;
#[cfg(feature = "harness")]
mod cli_tape;
#[cfg(feature = "harness")]
mod cli_tape_support;
#[cfg(feature = "harness")]
mod cli_tune;
#[cfg(feature = "harness")]
mod cluster_machines;
#[cfg(feature = "harness")]
mod cluster_merge;
#[cfg(feature = "harness")]
mod cluster_shards;
#[cfg(all(feature = "harness", unix))]
mod cluster_submit;
#[cfg(feature = "harness")]
mod cluster_support;
#[cfg(feature = "harness")]
mod compare_runs;
#[cfg(feature = "harness")]
mod compare_statistics;
#[cfg(feature = "harness")]
mod copies;
#[cfg(feature = "harness")]
mod damaged;
#[cfg(feature = "harness")]
mod disturbed;
#[cfg(all(feature = "harness", unix))]
mod draft_context;
#[cfg(feature = "harness")]
mod embedded;
#[cfg(feature = "harness")]
mod experiment_batches;
#[cfg(feature = "harness")]
mod experiment_beams;
#[cfg(feature = "harness")]
mod experiment_compare;
#[cfg(feature = "harness")]
mod experiment_counts;
#[cfg(feature = "harness")]
mod experiment_failure;
#[cfg(feature = "harness")]
mod experiment_plan;
#[cfg(feature = "harness")]
mod experiment_run;
#[cfg(feature = "harness")]
mod experiment_spec;
#[cfg(feature = "harness")]
mod experiment_support;
#[cfg(feature = "peers")]
mod families;
#[cfg(feature = "peers")]
mod family_files;
#[cfg(feature = "harness")]
mod figure_values;
#[cfg(feature = "harness")]
mod figures;
#[cfg(feature = "harness")]
mod figures_one_k;
#[cfg(feature = "harness")]
mod figures_support;
#[cfg(feature = "harness")]
mod figures_text;
#[cfg(feature = "harness")]
mod fitted_costs;
#[cfg(feature = "harness")]
mod forecast_against;
#[cfg(feature = "harness")]
mod forecast_by_hand;
#[cfg(feature = "harness")]
mod forecast_greedy;
#[cfg(feature = "harness")]
mod gate;
#[cfg(feature = "serve")]
mod gather;
#[cfg(feature = "serve")]
mod gather_scoring;
#[cfg(feature = "serve")]
mod gather_support;
#[cfg(feature = "harness")]
mod held_out;
#[cfg(all(feature = "harness", unix))]
mod hub_cache;
#[cfg(all(feature = "harness", unix))]
mod hub_support;
#[cfg(feature = "harness")]
mod installed;
#[cfg(feature = "harness")]
mod intervals;
#[cfg(feature = "harness")]
mod loops;
#[cfg(all(feature = "harness", target_os = "linux"))]
mod memory;
#[cfg(feature = "harness")]
mod metrics_doc;
#[cfg(all(feature = "harness", feature = "candle"))]
mod model_files;
#[cfg(all(feature = "harness", unix))]
mod model_names;
#[cfg(feature = "harness")]
mod outliers;
#[cfg(feature = "harness")]
mod packed;
#[cfg(feature = "harness")]
mod packed_damage;
#[cfg(feature = "harness")]
mod packed_merge;
#[cfg(feature = "harness")]
mod packed_support;
#[cfg(feature = "harness")]
mod paired;
#[cfg(all(feature = "harness", feature = "candle"))]
mod prefilled;
#[cfg(feature = "harness")]
mod prompt_formats;
#[cfg(all(feature = "harness", feature = "candle"))]
mod prompt_tokens;
#[cfg(feature = "harness")]
mod prompts;
#[cfg(feature = "harness")]
mod published;
#[cfg(all(feature = "harness", feature = "candle"))]
mod published_shapes;
#[cfg(feature = "harness")]
mod ratios;
#[cfg(feature = "harness")]
mod raw_files;
#[cfg(feature = "harness")]
mod reference_page;
#[cfg(feature = "harness")]
mod report;
#[cfg(feature = "harness")]
mod report_check;
#[cfg(feature = "harness")]
mod report_machines;
#[cfg(feature = "harness")]
mod report_numbers;
#[cfg(feature = "harness")]
mod report_page;
#[cfg(feature = "harness")]
mod report_verdicts;
#[cfg(feature = "harness")]
mod room;
#[cfg(feature = "harness")]
mod rows_blocks;
#[cfg(feature = "harness")]
mod rows_distributions;
#[cfg(feature = "harness")]
mod rows_fields;
#[cfg(feature = "harness")]
mod rows_mutants;
#[cfg(feature = "harness")]
mod rows_mutants_files;
#[cfg(feature = "harness")]
mod rows_predicted;
#[cfg(feature = "harness")]
mod rows_prompts;
#[cfg(feature = "harness")]
mod rows_replay;
#[cfg(feature = "harness")]
mod rows_rounds;
#[cfg(feature = "harness")]
mod rows_scenarios;
#[cfg(feature = "harness")]
mod rows_steps;
#[cfg(feature = "harness")]
mod rows_summary;
#[cfg(feature = "harness")]
mod rows_support;
#[cfg(feature = "harness")]
mod rows_traces;
#[cfg(feature = "harness")]
mod run_folder;
#[cfg(feature = "harness")]
mod run_support;
mod schedulers;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod serve_access;
#[cfg(feature = "serve")]
mod serve_counts;
#[cfg(feature = "serve")]
mod serve_limits;
#[cfg(feature = "serve")]
mod serve_support;
#[cfg(feature = "harness")]
mod shown;
#[cfg(feature = "harness")]
mod spec_bench_rows;
#[cfg(feature = "harness")]
mod statistics;
#[cfg(all(feature = "harness", target_os = "linux"))]
mod stopped;
#[cfg(all(unix, feature = "harness"))]
mod strangers;
#[cfg(feature = "harness")]
mod synthetic;
#[cfg(feature = "harness")]
mod synthetic_blocks;
#[cfg(feature = "harness")]
mod tape_import;
#[cfg(all(feature = "harness", feature = "candle", target_os = "linux"))]
mod terminal;
#[cfg(feature = "peers")]
mod uncached;
#[cfg(feature = "harness")]
mod validity;
#[cfg(all(feature = "harness", unix))]
mod vocabularies_prefix;
#[cfg(all(feature = "harness", unix))]
mod vocabularies_text;
#[cfg(feature = "harness")]
mod well_formed;
