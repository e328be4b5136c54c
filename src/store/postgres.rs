//! Conversations in a PostgreSQL database. (placeholder)
use super::Settings;
use super::archive::Archive;
use super::process::Process;
use crate::ports::StoreError;
use std::sync::Arc;

/// Opens the database.
pub async fn open(
    _url: &str,
    _settings: Settings,
    _process: Process,
) -> Result<Arc<dyn Archive>, StoreError> {
    Err(StoreError::Broken("PostgreSQL is not there yet".to_owned()))
}
