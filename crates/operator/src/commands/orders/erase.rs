//! Erases orders.

use std::io::{self, IsTerminal as _, Write as _};

use adapter_sqlite::Rewrite;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use domain::{
    access::AccessKind,
    clock_watch::{AGREED, TOLERATED},
    delivery::LONGEST_ATTEMPT,
    document::{ObjectKey, stored_count},
    order::OrderId,
    ports::{DatabaseTimes, StoreError},
    use_cases::{
        erase_orders::{EraseOrders, Erasure, NOTICED},
        upkeep::watch_clock::WatchedClock,
    },
};
use time::{Duration, OffsetDateTime};
use tokio::task::spawn_blocking;

use crate::commands::{
    orders::operator::{NoOrder, Operator},
    output::{print, second},
};
use crate::{
    adapters::open_blobs,
    progress::{Progress, counted},
    retention::{erase_orders, remove_mails_of_erased},
    settings::{
        Database,
        values::{listed, whole},
    },
};

/// Number up to which orders are counted before the question.
const COUNTED: usize = 10_000;

/// Pause between two looks at mails in progress.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// The orders are erased, but objects of their documents are left.
#[derive(Debug, thiserror::Error)]
#[error("{}", described(.0))]
pub struct LeftObjects(Vec<ObjectKey>);

fn described(left: &[ObjectKey]) -> String {
    let documents = counted(&left.len(), "document");
    let keys: Vec<_> = left.iter().map(ObjectKey::as_str).collect();
    format!(
        "{documents} could not be deleted yet; a running service tries each minute: {}",
        keys.join(", ")
    )
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Erased {
    /// Identifier of an order
    #[arg(value_parser = listed)]
    id: Option<i64>,
    /// Every order that was created more than this number of days ago
    #[arg(long, value_name = "DAYS", value_parser = whole::<u32>(1..=36_500))]
    older_than: Option<u32>,
}

impl Operator {
    /// Erases orders, and then what else holds their data. All of it can be repeated after a
    /// failure.
    pub(in crate::commands) async fn erase(&self, which: Erased, yes: bool) -> Result<()> {
        self.compare_clocks().await?;
        let erasure = if let Some(id) = which.id.map(OrderId) {
            self.erase_order(id, yes).await?
        } else {
            let age = Duration::days(which.older_than.unwrap_or_default().into());
            self.erase_older(self.created_before(age).await?, yes).await?
        };
        let Some(Erasure { orders, documents, left, held }) = erasure else {
            return print("nothing was erased\n");
        };
        if orders > 0 {
            // Instances end their uploads and downloads of these orders meanwhile.
            tokio::time::sleep(NOTICED).await;
        }
        // After the orders and the mails in progress, so that no worker writes one of these mails
        // again.
        self.wait_for_mails().await?;
        let mails = self.remove_mails().await?;
        self.rewrite_database().await?;
        if held > 0 {
            eprintln!(
                "{} on hold and not erased; `notary-orders orders list --held` lists them",
                if held == 1 { "1 order is".to_owned() } else { format!("{held} orders are") }
            );
        }
        print(&format!(
            "{} erased, {}, {} of the mail drop\n",
            counted(&orders, "order"),
            counted(&documents, "document"),
            counted(&mails, "mail")
        ))?;
        ensure!(left.is_empty(), LeftObjects(left));
        Ok(())
    }

    /// Fails if the clock of this machine is not that of the database: it decides on ages and on the end of holds.
    async fn compare_clocks(&self) -> Result<()> {
        let clock = WatchedClock::start(self.clock.clone(), &*self.storage.time).await?;
        let ahead = clock.machine_ahead();
        ensure!(
            ahead.abs() <= TOLERATED,
            "the clock of this machine is {} s {} that of the database, so nothing was erased; synchronize it by NTP",
            ahead.abs().whole_seconds(),
            if ahead.is_positive() { "ahead of" } else { "behind" }
        );
        Ok(())
    }

    /// Returns `None` if the operator does not confirm. An order that was erased before may have
    /// left mails.
    async fn erase_order(&self, id: OrderId, yes: bool) -> Result<Option<Erasure>> {
        let what = match self.order(id).await {
            Ok(order) => {
                let documents = [&order.documents, &order.signed_documents];
                let documents: usize = documents.map(|it| stored_count(it)).iter().sum();
                format!("order {} with {}", id.0, counted(&documents, "document"))
            }
            Err(error) if is_unreadable(&error) => {
                format!("order {}, whose record cannot be read,", id.0)
            }
            Err(error) => {
                let access = self.recording.begin(AccessKind::Erase, id);
                let was_erased = matches!(error.downcast_ref(), Some(NoOrder::Erased(_)));
                let refused = self.recorded::<()>(access, Err(error)).await;
                if !was_erased {
                    refused?;
                }
                eprintln!("order {} was erased before", id.0);
                return Ok(Some(Erasure::default()));
            }
        };
        if !confirmed(yes, &what)? {
            return Ok(None);
        }
        // It records its access itself, as for each of many orders.
        let erasure = self.erase_orders().await?.erase(id).await?;
        ensure!(
            erasure.held == 0,
            "order {0} is on hold and was not erased; `notary-orders orders release {0}` ends the hold",
            id.0
        );
        Ok(Some(erasure))
    }

    /// Returns the instant before which orders have an age. The clock of this machine may be ahead, and a file has no
    /// other: ages are counted until its newest row, and the hour that a running service may have been idle.
    async fn created_before(&self, age: Duration) -> Result<OffsetDateTime> {
        let (DatabaseTimes { now: server, newest }, now) =
            (self.storage.time.times().await?, self.clock.now());
        let instant = (now - age).truncate_to_second();
        let Some(newest) = newest else { return Ok(instant) };
        ensure!(
            newest >= instant,
            "everything in the database is older than {}: the clock of this machine may be ahead, so nothing was \
             erased. If it is right, erase the orders by their numbers",
            second(instant)
        );
        let latest = newest.saturating_add(AGREED);
        if server.is_some() || now <= latest {
            return Ok(instant);
        }
        eprintln!(
            "nothing was stored since {}, and the clock of this machine may be ahead: ages are counted \
             until an hour later",
            second(newest)
        );
        Ok((latest - age).truncate_to_second())
    }

    /// Returns `None` if the operator does not confirm.
    async fn erase_older(&self, instant: OffsetDateTime, yes: bool) -> Result<Option<Erasure>> {
        let found = self.storage.admin.created_before(instant, OrderId(0), COUNTED + 1);
        let found = found.await?.len();
        let many = if found > COUNTED { "more than " } else { "" };
        let (orders, instant_shown) = (counted(&found.min(COUNTED), "order"), second(instant));
        let what = format!("{many}{orders} created before {instant_shown}, except those on hold");
        if found > 0 && !confirmed(yes, &what)? {
            return Ok(None);
        }
        let (erase_orders, mut total) = (self.erase_orders().await?, Erasure::default());
        let progress = Progress::new("erasing orders");
        let erase = async {
            let mut last = OrderId(0);
            while let Some((erased, end)) = erase_orders.erase_batch(instant, last).await? {
                total += erased;
                last = end;
                self.recording.store().await?;
                progress.set(format!("erased {}", counted(&total.orders, "order")));
            }
            Ok(Some(total))
        };
        progress.of(erase).await
    }

    async fn erase_orders(&self) -> Result<EraseOrders> {
        let blobs = open_blobs(&self.settings).await?;
        let accesses = Some(self.recording.accesses().clone());
        Ok(erase_orders(&self.storage, blobs, self.clock.clone(), accesses))
    }

    /// Waits until no worker attempts a mail or a webhook of an erased order, and no request stores
    /// documents for one, for at most [`LONGEST_ATTEMPT`].
    async fn wait_for_mails(&self) -> Result<()> {
        let longest = LONGEST_ATTEMPT.whole_minutes();
        let admin = &self.storage.admin;
        let (mails, began) = (admin.mails_of_erased().await?, self.clock.now());
        let progress = Progress::new("looking for mails in progress");
        let wait = async {
            loop {
                let now = self.clock.now();
                let left = admin.remove_mails(&mails, now).await?;
                if left == 0 {
                    return Ok::<_, anyhow::Error>(now - began >= LONGEST_ATTEMPT);
                }
                progress.set(format!(
                    "waiting for mails, webhooks and uploads in progress ({left}), for up to \
                    {longest} minutes"
                ));
                tokio::time::sleep(PAUSE).await;
            }
        };
        if progress.of(wait).await? {
            eprintln!(
                "some were still in progress after {longest} minutes. Their process is stopped or \
                suspended: end it, and repeat the command"
            );
        }
        Ok(())
    }

    /// Removes the mails of all erased orders from the mail drop, also those that an interrupted command
    /// left.
    async fn remove_mails(&self) -> Result<usize> {
        let Some(folder) = self.settings.mail_drop() else { return Ok(0) };
        let context = format!(
            "the orders are erased, but not their mails in {}; repeat the command",
            folder.display()
        );
        let remove = remove_mails_of_erased(&*self.storage.admin, folder);
        Progress::new("removing mails from the mail drop").of(remove).await.context(context)
    }

    /// Removes bytes of what was erased that SQLite keeps in its files.
    pub(in crate::commands) async fn rewrite_database(&self) -> Result<()> {
        let Database::Sqlite(path) = self.settings.database()? else { return Ok(()) };
        let rewriting = spawn_blocking(move || adapter_sqlite::rewrite(&path));
        let rewritten = Progress::new("rewriting the database").of(rewriting).await?;
        let context = "the database still has bytes of what was erased; repeat the command";
        if rewritten.context(context)? == Rewrite::LogInUse {
            eprintln!(
                "the write-ahead log was in use and still has what was erased; repeat the command"
            );
        }
        Ok(())
    }
}

fn is_unreadable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StoreError::is_unreadable_order)
}

/// Asks the operator on the terminal, unless `yes`.
pub(in crate::commands) fn confirmed(yes: bool, what: &str) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        bail!("this would erase {what}; without a terminal, confirm with --yes");
    }
    eprint!("Erase {what}? This cannot be undone. [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
