//! Names of models and prompt sets, as found through `configs/` folders.

use std::fs;
use std::path::Path;

use specdec::checkpoint::Catalog;
use specdec::core::error::Error;

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn sentence(result: Result<impl std::fmt::Debug, Error>) -> String {
    let text = result.unwrap_err().to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    text
}

#[test]
fn the_nearest_configs_come_before_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("lab/experiments/01");
    fs::create_dir_all(&deep).unwrap();
    let models = "[big]\npath = \"weights/big\"\naliases = [\"b\"]\n[toy]\npath = \"toy:mixed\"\n";
    write(&dir.path().join("lab/configs/models.toml"), models);
    write(&dir.path().join("configs/models.toml"), "[big]\npath = \"elsewhere\"\n");
    let catalog = Catalog::near(&deep);
    let big = dir.path().join("lab/weights/big").display().to_string();
    assert_eq!(catalog.model("big").unwrap().path, big);
    assert_eq!(catalog.model("b").unwrap().path, big, "by its alias");
    assert_eq!(catalog.model("toy").unwrap().path, "toy:mixed");
    assert_eq!(catalog.model("toy:close").unwrap().path, "toy:close");
    // Tests run in the project's folder.
    assert!(catalog.model("embedded-target").unwrap().path.ends_with("models/target"));
    assert!(catalog.model("embedded-draft").unwrap().path.ends_with("models/draft"));
}

#[test]
fn folders_are_found_by_relative_and_absolute_path() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("checkpoints/mine");
    fs::create_dir_all(&folder).unwrap();
    let catalog = Catalog::near(dir.path());
    let path = folder.display().to_string();
    assert_eq!(catalog.model("checkpoints/mine").unwrap().path, path);
    assert_eq!(catalog.model(&path).unwrap().path, path);
    let text = sentence(catalog.model("./checkpoints/yours"));
    assert_eq!(text, "model ./checkpoints/yours: no such folder");
}

#[test]
fn an_unknown_model_gets_known_names_and_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let text = sentence(Catalog::near(dir.path()).model("embeded-draft"));
    assert!(text.contains("did you mean \"embedded-draft\""), "{text}");
    assert!(text.contains("embedded-target"), "{text}");
}

#[test]
fn a_broken_models_toml_is_reported_in_one_line_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("configs/models.toml");
    for (broken, part) in
        [("[a]\npath = \"x\"\npaht = \"y\"\n", "paht"), ("[a\n", "line 1"), ("[a]\n", "path")]
    {
        write(&file, broken);
        let text = sentence(Catalog::near(dir.path()).model("a"));
        assert!(text.contains("models.toml") && text.contains(part), "{text}");
    }
}

#[test]
fn prompt_sets_are_found_by_name_or_path() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("configs/prompts/mine.jsonl");
    let loose = dir.path().join("loose.jsonl");
    write(&named, "");
    write(&loose, "");
    let catalog = Catalog::near(dir.path());
    assert_eq!(catalog.prompts("mine").unwrap(), named);
    assert_eq!(catalog.prompts("loose.jsonl").unwrap(), loose);
    let text = sentence(catalog.prompts("mime"));
    assert!(text.contains("did you mean \"mine\""), "{text}");
    assert!(sentence(catalog.prompts("./none.jsonl")).contains("no such file"));
}
