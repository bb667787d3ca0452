//! ydb: a table with time to live and its runs, queries, lists of structs as parameters, transactions.

use ydb::{Client, ClientBuilder, Transaction, Value, YdbResult, closure, ydb_struct};

use crate::mayfly::{address, advance, name, now};

/// Seconds between runs over a table.
const RUN: u64 = 3600;

async fn connected() -> Client {
    let builder = ClientBuilder::new_from_connection_string(address("YDB")).expect("an address");
    builder.build().await.expect("a client")
}

async fn table(columns: &str) -> (Client, String) {
    let (client, table) = (connected().await, name("rust").replace('-', "_"));
    client
        .query_client()
        .exec(format!(
            "CREATE TABLE {table} (id Uint64 NOT NULL, {columns}"
        ))
        .await
        .expect("a table");
    (client, table)
}

async fn ids(client: &Client, table: &str) -> Vec<u64> {
    let text = format!("SELECT id FROM {table} ORDER BY id");
    let found = client
        .query_client()
        .query_result_set(text)
        .await
        .expect("a result");
    found
        .rows()
        .map(|mut row| {
            row.remove_field_by_name("id")
                .expect("a column")
                .try_into()
                .expect("an id")
        })
        .collect()
}

/// A row is seen up to its deadline, and until the run after it.
async fn lives(column: &str, unit: &str, value: String, span: Option<u64>) {
    let interval = r#"Interval("PT60S") ON at"#;
    let (client, table) = table(&format!(
        "at {column}, PRIMARY KEY (id)) WITH (TTL = {interval}{unit})"
    ))
    .await;
    let text = format!("UPSERT INTO {table} (id, at) VALUES (1, {value})");
    client.query_client().exec(text).await.expect("a row");
    let span = span.unwrap_or(RUN * 24);
    advance(span - 1);
    assert_eq!(ids(&client, &table).await, [1]);
    advance(1 + RUN);
    assert_eq!(ids(&client, &table).await.is_empty(), span != RUN * 24);
}

macro_rules! rows {
    ($($name:ident($column:expr, $unit:expr, $value:expr, $span:expr);)*) => {
        $(#[tokio::test]
        async fn $name() {
            lives($column, $unit, $value, $span).await;
        })*
    };
}

mod ttl {
    use super::*;

    rows! {
        yt2_datetime("Datetime", "", format!("CAST({}u AS Datetime)", now()), Some(60));
        yt2_timestamp("Timestamp", "", format!("CAST({}000000ul AS Timestamp)", now()), Some(60));
        yt3_seconds("Uint64", " AS SECONDS", format!("{}ul", now()), Some(60));
        yt3_milliseconds("Uint64", " AS MILLISECONDS", format!("{}000ul", now()), Some(60));
        yt3_nanoseconds("Uint64", " AS NANOSECONDS", format!("{}000000000ul", now()), Some(60));
        null("Timestamp", "", "NULL".to_owned(), None);
    }
}

#[tokio::test]
async fn lists_of_structs_are_parameters() {
    let (client, table) = table("text Utf8, PRIMARY KEY (id))").await;
    let rows = (0..50_u64)
        .map(|n| ydb_struct!("id" => n, "text" => format!("row {n}")))
        .collect();
    let list = Value::list_from(ydb_struct!("id" => 0_u64, "text" => String::new()), rows)
        .expect("a list");
    let text = format!("UPSERT INTO {table} SELECT id, text FROM AS_TABLE($list)");
    client
        .query_client()
        .exec(text)
        .param("$list", list)
        .await
        .expect("rows");
    assert_eq!(ids(&client, &table).await, (0..50).collect::<Vec<_>>());
    let mut row = client
        .query_client()
        .query_row(format!("SELECT text FROM {table} WHERE id = $id"))
        .param("$id", 7_u64)
        .await
        .expect("a row");
    let found: Option<String> = row
        .remove_field_by_name("text")
        .expect("a column")
        .try_into()
        .expect("a text");
    assert_eq!(found.as_deref(), Some("row 7"));
}

#[tokio::test]
async fn a_transaction_commits_or_leaves_nothing() {
    let (client, table) = table("text Utf8, PRIMARY KEY (id))").await;
    let upsert = format!("UPSERT INTO {table} (id) VALUES ($id)");
    let insert = format!("INSERT INTO {table} (id) VALUES ($id)");
    let outcome: YdbResult<()> = client
        .query_client()
        .retry_tx(closure!(
            [&upsert, &insert],
            async |tx: &mut Transaction| {
                tx.exec(upsert.clone()).param("$id", 2_u64).await?;
                tx.exec(insert.clone()).param("$id", 2_u64).await?;
                Ok(())
            }
        ))
        .await
        .map_err(|error| ydb::YdbError::Custom(format!("{error:?}")));
    assert!(
        outcome
            .expect_err("a refusal")
            .to_string()
            .contains("PreconditionFailed")
    );
    assert!(ids(&client, &table).await.is_empty());
    client
        .query_client()
        .retry_tx(closure!([&upsert], async |tx: &mut Transaction| {
            for id in [1_u64, 3] {
                tx.exec(upsert.clone()).param("$id", id).await?;
            }
            Ok(())
        }))
        .await
        .expect("a commit");
    assert_eq!(ids(&client, &table).await, [1, 3]);
}

#[tokio::test]
async fn tls_with_the_servers_certificate() {
    let text = format!("{}?ca_certificate={}", address("YDB_TLS"), address("CERT"));
    let client = ClientBuilder::new_from_connection_string(text)
        .expect("an address")
        .build()
        .await
        .expect("a client");
    let mut row = client
        .query_client()
        .query_row("SELECT 42 AS n")
        .await
        .expect("a row");
    let found: i32 = row
        .remove_field_by_name("n")
        .expect("a column")
        .try_into()
        .expect("a number");
    assert_eq!(found, 42);
}
