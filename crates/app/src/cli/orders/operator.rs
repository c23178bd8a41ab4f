//! Lists and shows orders.

use std::{fmt::Write as _, sync::Arc};

use anyhow::{Result, bail};
use domain::{
    order::{OrderId, StoredOrder},
    ports::{Clock, Kept, ListedOrder, OrderFilter},
};
use serde::Serialize;

use crate::{
    adapters::Storage,
    cli::output::{print, second},
    settings::Settings,
};

/// Maximum number of listed orders.
const MAX_LISTED: usize = 1_000;

/// What an operator works with.
pub(crate) struct Operator {
    pub(crate) settings: Settings,
    pub(crate) storage: Storage,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Operator {
    pub(super) async fn list(&self, filter: &OrderFilter, before: Option<OrderId>) -> Result<()> {
        let orders = self.storage.admin.list(filter, before, MAX_LISTED).await?;
        print(&table(&orders)?)?;
        if let (MAX_LISTED, Some(last)) = (orders.len(), orders.last()) {
            let last = last.stored.id.0;
            eprintln!("only {MAX_LISTED} are listed; --before {last} lists older ones");
        }
        Ok(())
    }

    pub(super) async fn show(&self, id: OrderId) -> Result<()> {
        let order = self.order(id).await?;
        print(&self.json(&order)?)
    }

    /// Returns an order; an error if there is none, or if it was erased.
    pub(super) async fn order(&self, id: OrderId) -> Result<StoredOrder> {
        match self.storage.admin.order(id).await? {
            Some(Kept::Whole(order)) => Ok(order),
            Some(Kept::Erased) => bail!("order {} was erased", id.0),
            None => bail!("there is no order {}", id.0),
        }
    }

    /// Returns an order as a client reads it, with what only operators see.
    pub(super) fn json(&self, order: &StoredOrder) -> Result<String> {
        #[derive(Serialize)]
        struct ForOperators<T> {
            #[serde(flatten)]
            order: T,
            client_id: i64,
            api_key_id: i64,
            is_test: bool,
        }
        let json = serde_json::to_string_pretty(&ForOperators {
            order: adapter_http::whole_order(order, &self.settings.base_path),
            client_id: order.client.0,
            api_key_id: order.api_key.0,
            is_test: order.is_test,
        })?;
        Ok(json + "\n")
    }
}

fn table(orders: &[ListedOrder]) -> Result<String> {
    let mut table = format!(
        "{:>8}  {:>6}  {:<10} {:<20} {:>9}  {:<12} FILE NUMBER\n",
        "ID", "CLIENT", "KIND", "CREATED", "DOCUMENTS", "STATUS"
    );
    for ListedOrder { stored, documents } in orders {
        writeln!(
            table,
            "{:>8}  {:>6}  {:<10} {:<20} {documents:>9}  {:<12} {}",
            stored.id.0,
            stored.client.0,
            if stored.is_test { "test" } else { "production" },
            second(stored.created_at),
            stored.status.as_str().escape_debug().to_string(),
            stored.order.file_number.as_str().escape_debug()
        )?;
    }
    Ok(table)
}
