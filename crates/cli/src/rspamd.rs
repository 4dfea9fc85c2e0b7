//! Options of the verbs that can also train an rspamd.

use std::path::PathBuf;
use std::time::Duration;

use bruit_client::{Lesson, Rspamd};
use bruit_console::Failure;
use bruit_console::failure::bad_input;

use crate::remote::read_secret;

/// Options that select the rspamd.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "rspamd")]
pub(crate) struct Controller {
    /// URL of an rspamd controller that receives the whole message, such as http://127.0.0.1:11334
    #[arg(long = "rspamd", value_name = "URL", env = "BRUIT_RSPAMD")]
    url: Option<String>,

    /// File whose first line is the controller's password [default: $BRUIT_RSPAMD_PASSWORD, if set]
    #[arg(long = "rspamd-password-file", value_name = "FILE", requires = "url")]
    password_file: Option<PathBuf>,
}

/// Options for what rspamd learns.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "rspamd")]
pub(crate) struct LessonArgs {
    /// Flag of rspamd's fuzzy storage; a rule that maps this flag learns the message
    #[arg(long = "rspamd-flag", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    flag: u32,

    /// Weight of the message in rspamd's fuzzy storage
    #[arg(long = "rspamd-weight", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    weight: u32,

    /// Also train rspamd's Bayes classifier
    #[arg(long = "rspamd-bayes")]
    trains_bayes: bool,
}

impl Controller {
    /// Returns a client for the controller, if one is selected.
    pub(crate) fn client(&self, timeout: Duration) -> Result<Option<Rspamd>, Failure> {
        let Some(url) = &self.url else { return Ok(None) };
        let password = self.password()?;
        Rspamd::new(url, password.as_deref(), timeout).map(Some).map_err(bad_input)
    }

    /// Reads the password from a file or the environment. It cannot be an argument, because every local user can see
    /// arguments.
    fn password(&self) -> Result<Option<String>, Failure> {
        match &self.password_file {
            Some(file) => read_secret(file, "password").map(Some),
            None => Ok(std::env::var("BRUIT_RSPAMD_PASSWORD").ok().filter(|password| !password.is_empty())),
        }
    }
}

impl LessonArgs {
    /// Returns the data with which rspamd learns a message.
    pub(crate) fn lesson(self, message: &[u8]) -> Lesson {
        let Self { flag, weight, trains_bayes } = self;
        Lesson { message: message.to_vec(), flag, weight, trains_bayes }
    }
}
