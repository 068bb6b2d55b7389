//! One run of the simulation, as text: `SEED`, or the seed and what goes wrong in it, `SEED/fail/83/1/NoSpace`.

use std::fmt;
use std::str::FromStr;
use tepui_files::{CrashOutcome, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) trouble: Trouble,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// So many calls in a row fail, from this one on.
    Fail {
        call: u64,
        count: u64,
        failure: Failure,
    },
    /// The power fails at a call.
    Crash {
        call: u64,
        outcome: CrashOutcome,
    },
    /// The power fails again and again.
    Crashes,
    /// From a step on, only so many pages are free, until the run ends.
    Full {
        step: usize,
        pages: u64,
    },
    /// In the end a bit is flipped, or a file or the folder is lost. The number says which.
    Damage(u64),
}

pub(crate) const OUTCOMES: [CrashOutcome; 3] =
    [CrashOutcome::Nothing, CrashOutcome::Some, CrashOutcome::Everything];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.seed)?;
        match self.trouble {
            Trouble::None => Ok(()),
            Trouble::Fail { call, count, failure } => write!(f, "/fail/{call}/{count}/{failure:?}"),
            Trouble::Crash { call, outcome } => write!(f, "/crash/{call}/{outcome:?}"),
            Trouble::Crashes => write!(f, "/crashes"),
            Trouble::Full { step, pages } => write!(f, "/full/{step}/{pages}"),
            Trouble::Damage(which) => write!(f, "/damage/{which}"),
        }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let number = |at: usize| parts[at].parse::<u64>().map_err(|error| format!("{text}: {error}"));
        let failure = |at: usize| Failure::ALL.into_iter().find(|one| format!("{one:?}") == parts[at]);
        let outcome = |at: usize| OUTCOMES.into_iter().find(|one| format!("{one:?}") == parts[at]);
        let trouble = match parts[1..] {
            [] => Trouble::None,
            ["fail", _, _, _] => {
                let failure = failure(4).ok_or("no such failure")?;
                Trouble::Fail { call: number(2)?, count: number(3)?, failure }
            }
            ["crash", _, _] => {
                Trouble::Crash { call: number(2)?, outcome: outcome(3).ok_or("no such outcome")? }
            }
            ["crashes"] => Trouble::Crashes,
            ["full", _, _] => Trouble::Full { step: number(2)? as usize, pages: number(3)? },
            ["damage", _] => Trouble::Damage(number(2)?),
            _ => return Err(format!("not a case: {text}")),
        };
        Ok(Self { seed: number(0)?, trouble })
    }
}

#[test]
fn cases_are_written_as_they_are_read() {
    for text in ["7", "7/fail/83/3/NoSpace", "7/crash/12/Some", "7/crashes", "7/full/3/9", "7/damage/5"] {
        assert_eq!(text.parse::<Case>().map(|case| case.to_string()), Ok(text.to_owned()));
    }
}
