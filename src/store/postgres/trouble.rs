//! What can be wrong with the server, in words that say what to do. Never the password.

use crate::ports::StoreError;
use crate::store::sql::Fault;
use sqlx::postgres::PgConnectOptions;

/// Describes what is wrong with one database.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    /// The database and where it is.
    place: String,
    user: String,
    database: String,
}

impl Trouble {
    pub(super) fn new(options: &PgConnectOptions) -> Self {
        let database = options.get_database().unwrap_or(options.get_username()).to_owned();
        let at = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        Self { place: format!("{database} at {at}"), user: options.get_username().to_owned(), database }
    }

    /// The database and where it is.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn describe(&self, fault: Fault) -> StoreError {
        let error = match fault {
            Fault::Refused(error) => return error,
            Fault::Driver(error) => error,
        };
        let Self { place, user, database } = self;
        let Some(code) = error.as_database_error().and_then(sqlx::error::DatabaseError::code) else {
            return self.describe_connection(&error);
        };
        // https://www.postgresql.org/docs/current/errcodes-appendix.html
        match &*code {
            "28P01" | "28000" => StoreError::Broken(format!(
                "PostgreSQL refuses the user {user:?} of store.url for {place}: check the password, and pg_hba.conf"
            )),
            "3D000" => StoreError::Broken(format!(
                "there is no PostgreSQL database {place}; make it: createdb --owner={user} {database}"
            )),
            "42501" => StoreError::Broken(format!(
                "the user {user:?} may not do what is needed in the PostgreSQL database {place} ({error}); make it the owner"
            )),
            "42P07" => StoreError::Broken(format!(
                "the PostgreSQL database {place} has tables of somebody else ({error}); give Sotto a database of its own"
            )),
            "53100" => StoreError::Unavailable(format!("the disk under PostgreSQL is full ({place})")),
            "53300" => StoreError::Unavailable(format!(
                "PostgreSQL has too many connections ({place}); raise max_connections, or run fewer processes"
            )),
            "25006" => StoreError::Unavailable(format!(
                "the PostgreSQL database {place} is read-only; store.url must name the primary server"
            )),
            "55P03" | "57014" | "40001" | "40P01" => {
                StoreError::Unavailable(format!("PostgreSQL was too slow ({place}): {error}"))
            }
            // Connections, resources, operators: the server's own affairs, which pass.
            code if ["08", "53", "57", "58", "25"].iter().any(|class| code.starts_with(class)) => {
                StoreError::Unavailable(format!("PostgreSQL cannot do it now ({place}): {error}"))
            }
            _ => StoreError::Broken(format!("PostgreSQL does not work as expected ({place}): {error}")),
        }
    }

    fn describe_connection(&self, error: &sqlx::Error) -> StoreError {
        let place = &self.place;
        match error {
            sqlx::Error::PoolTimedOut => StoreError::Unavailable(format!(
                "PostgreSQL does not answer, or is too busy ({place}); see whether the server runs and can be reached"
            )),
            sqlx::Error::PoolClosed => StoreError::Unavailable(format!("the store was closed ({place})")),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => StoreError::Unavailable(format!(
                "cannot reach PostgreSQL ({place}): {error}; see whether the server runs, and check store.url"
            )),
            _ => StoreError::Broken(format!("PostgreSQL does not work as expected ({place}): {error}")),
        }
    }
}
