//! A run in parts, as every engine starts it.

use anyhow::{Result, bail};

/// A command, as a list of its program and arguments.
pub type CommandWords = Vec<String>;

/// A run in parts: the same command for every part, then the merge, then the report.
#[derive(Debug, Clone)]
pub struct ClusterJob {
    /// The name of the experiment.
    pub experiment: String,
    /// The folder in which all commands run; every machine must have it.
    pub folder: String,
    /// The program, and where its machines find it.
    pub program: String,
    /// The arguments of `specdec run`, without those that name a part.
    pub run: CommandWords,
    /// The number of parts.
    pub shards: usize,
    /// The arguments of `specdec merge`.
    pub merge: CommandWords,
    /// The arguments of `specdec report`.
    pub report: CommandWords,
    /// Options that the user adds to those of the engine.
    pub with: CommandWords,
}

impl ClusterJob {
    /// Refuses what no script can say.
    ///
    /// # Errors
    /// Names the word.
    pub fn check(&self) -> Result<()> {
        let words = [&self.experiment, &self.folder, &self.program];
        let words = words.into_iter().chain(&self.run).chain(&self.merge).chain(&self.with);
        for word in words {
            if word.chars().any(char::is_control) {
                bail!("{word:?} has a control character, such as a line break: name it otherwise");
            }
        }
        Ok(())
    }

    /// The name of the job: letters, digits and dashes, as every engine allows.
    pub fn name(&self) -> String {
        let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name = self.experiment.chars().map(part).take(40).collect::<String>();
        format!("specdec-{}", name.trim_matches('-')).trim_end_matches('-').to_owned()
    }

    /// The command of every part, without its last word, which names the part.
    pub fn part(&self) -> CommandWords {
        [self.command("run", &self.run), vec!["--shard".to_owned()]].concat()
    }

    /// The command of the part that is called `which`.
    pub fn part_named(&self, which: &str) -> CommandWords {
        [self.part(), vec![which.to_owned()]].concat()
    }

    /// The command of the merge.
    pub fn merging(&self) -> CommandWords {
        self.command("merge", &self.merge)
    }

    /// The command of the report.
    pub fn reporting(&self) -> CommandWords {
        self.command("report", &self.report)
    }

    fn command(&self, name: &str, arguments: &CommandWords) -> CommandWords {
        [vec![self.program.clone(), name.to_owned()], arguments.clone()].concat()
    }
}

/// CommandWords as a shell reads them back: each between single quotes unless it is plain.
pub fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    let word = |word: &String| {
        // A leading `=` or `~` means something to some shells.
        let is_plain = word.chars().all(plain) && word.starts_with(|c: char| c != '=' && plain(c));
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}
