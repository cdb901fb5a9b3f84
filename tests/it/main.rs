//! The one test binary: each file is a subject.

mod checkpoint;
mod cli_checkpoint;
mod cli_generate;
mod cli_inspect;
mod cli_list;
mod cli_support;
mod experiment_failure;
mod experiment_plan;
mod experiment_run;
mod experiment_spec;
mod method;
mod metrics_doc;
mod model_catalog;
mod model_llama;
mod model_loader;
mod reference;
mod report;
mod statistics;
mod synthetic;
