//! The command `tepui-scenarios`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tepui_scenarios::run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
