//! azure_data_cosmos: time to live, items, queries over pages, batches, the change feed.

use azure_data_cosmos::feed::{ChangeFeedPageIterator, FeedScope};
use azure_data_cosmos::models::{ChangeFeedItem, ContainerProperties, TimeToLive};
use azure_data_cosmos::options::{
    ChangeFeedOptions, ChangeFeedStartFrom, MaxItemCountHint, QueryOptions,
};
use azure_data_cosmos::{
    AccountReference, ContainerClient, CosmosClient, CosmosError, Query, RoutingStrategy,
    TransactionalBatch,
};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::mayfly::{address, advance, name};

const NEVER: u64 = 10_000_000;

/// A client as a newcomer makes it: endpoint, key, and a region.
async fn connected(endpoint: &str) -> CosmosClient {
    let endpoint = address(endpoint).parse().expect("an endpoint");
    let account = AccountReference::with_authentication_key(endpoint, address("KEY"));
    CosmosClient::builder()
        .build(account, RoutingStrategy::ProximityTo("East US".into()))
        .await
        .expect("a client")
}

async fn container(ttl: TimeToLive) -> ContainerClient {
    container_at("COSMOS", ttl).await
}

async fn container_at(endpoint: &str, ttl: TimeToLive) -> ContainerClient {
    let client = connected(endpoint).await;
    let database = name("rust");
    client
        .create_database(&database, None)
        .await
        .expect("a database");
    let database = client.database_client(database);
    let properties = ContainerProperties::new("items", "/pk".into()).with_default_ttl(ttl);
    database
        .create_container(properties, None)
        .await
        .expect("a container");
    database
        .container_client("items", None)
        .await
        .expect("a client of the container")
}

async fn create(items: &ContainerClient, item: Value) -> Result<(), CosmosError> {
    let id = item["id"].as_str().expect("an id").to_owned();
    items.create_item("p", &id, &item, None).await.map(|_| ())
}

fn status(outcome: Result<(), CosmosError>) -> u16 {
    outcome.map_or_else(|error| u16::from(error.status().status_code()), |()| 200)
}

async fn read(items: &ContainerClient, id: &str) -> Result<Value, u16> {
    match items.read_item("p", id, None).await {
        Ok(answer) => Ok(answer.into_model().expect("an item")),
        Err(error) => Err(u16::from(error.status().status_code())),
    }
}

/// What became of an item: (container's default, its own ttl) -> seconds to live; None: it never dies.
async fn lives(default: TimeToLive, own: Option<Value>, span: Option<u64>) {
    let items = container(default).await;
    let mut item = json!({"id": "a", "pk": "p"});
    if let Some(own) = &own {
        item["ttl"] = own.clone();
    }
    create(&items, item).await.expect("an item");
    advance(span.unwrap_or(NEVER) - 1);
    let found = read(&items, "a").await.expect("alive a second before");
    assert_eq!(
        found.get("ttl").map(Value::to_string),
        own.map(|value| value.to_string())
    );
    advance(1);
    assert_eq!(read(&items, "a").await.err(), span.map(|_| 404));
    let mut left = items
        .query_items::<Value>("SELECT * FROM c", FeedScope::partition("p"), None)
        .await
        .expect("a query");
    assert_eq!(
        left.try_next().await.expect("a page").is_some(),
        span.is_none()
    );
}

/// What a container says of a value of `ttl`.
async fn answers(own: Value, expected: u16) {
    let items = container(TimeToLive::NoDefault).await;
    assert_eq!(
        status(create(&items, json!({"id": "a", "pk": "p", "ttl": own})).await),
        expected
    );
    assert_eq!(read(&items, "a").await.is_ok(), expected == 200);
}

macro_rules! table {
    ($check:ident: $($name:ident($($argument:expr),*);)*) => {
        $(#[tokio::test]
        async fn $name() {
            $check($($argument),*).await;
        })*
    };
}

mod default_and_own_ttl {
    use super::*;
    use TimeToLive::{Forever, NoDefault, Seconds};

    table! { lives:
        cm1(Forever, None, None);
        cm2(Forever, Some(json!(-1)), None);
        cm3(Forever, Some(json!(2000)), None);
        cm4(NoDefault, None, None);
        cm5(NoDefault, Some(json!(-1)), None);
        cm6(NoDefault, Some(json!(2000)), Some(2000));
        cm7(Seconds(1000), None, Some(1000));
        cm8(Seconds(1000), Some(json!(-1)), None);
        cm9_longer(Seconds(1000), Some(json!(2000)), Some(2000));
        cm9_shorter(Seconds(1000), Some(json!(500)), Some(500));
        ci2_least(Seconds(1000), Some(json!(1)), Some(1));
        ci2_greatest(NoDefault, Some(json!(2147483647)), None);
    }
}

mod values_of_ttl {
    use super::*;

    table! { answers:
        ci2(json!(20), 200);
        ci4_zero(json!(0), 400);
        ci4_negative(json!(-2), 400);
        ci4_above_the_greatest(json!(2147483648u64), 400);
        ci4_least(json!(-2147483648), 400);
        ci4_beyond_a_double(json!(9007199254740993u64), 400);
        ci5_whole(json!(5.0), 200);
        ci6_fraction(json!(1.5), 400);
        ci6_large_fraction(json!(2147483647.5), 400);
        ci7_null(json!(null), 400);
        ci7_string(json!("5"), 400);
        ci7_boolean(json!(true), 400);
        ci8_array(json!([5]), 400);
        ci8_object(json!({"ttl": 5}), 400);
    }
}

#[tokio::test]
async fn start() {
    for endpoint in ["COSMOS", "COSMOS_TLS"] {
        let items = container_at(endpoint, TimeToLive::Forever).await;
        create(&items, json!({"id": "a", "pk": "p"}))
            .await
            .expect("an item");
        assert_eq!(read(&items, "a").await.expect("the item")["id"], "a");
    }
}

#[tokio::test]
async fn items_are_written_and_read_back() {
    let items = container(TimeToLive::Forever).await;
    let long = "ü€𝄞".repeat(3000);
    let values = json!({"int": 5, "large": 4294967296u64, "least": i64::MIN, "greatest": u64::MAX, "x": -0.5, "none": null,
        "yes": true, "list": [1, [], {}, "a\"\n"], "long": long, "deep": {"a": {"b": [{"c": "𝄞"}]}}});
    create(&items, json!({"id": "a", "pk": "p", "values": values}))
        .await
        .expect("an item");
    assert_eq!(read(&items, "a").await.expect("the item")["values"], values);
    assert_eq!(
        status(create(&items, json!({"id": "a", "pk": "p"})).await),
        409
    );
    items
        .replace_item("p", "a", &json!({"id": "a", "pk": "p", "n": 2}), None)
        .await
        .expect("a replaced item");
    assert_eq!(read(&items, "a").await.expect("the item")["n"], 2);
    items
        .upsert_item("p", "b", &json!({"id": "b", "pk": "p", "n": 1.5}), None)
        .await
        .expect("an upserted item");
    assert_eq!(read(&items, "b").await.expect("the item")["n"], 1.5);
    items
        .delete_item("p", "a", None)
        .await
        .expect("a deleted item");
    assert_eq!(read(&items, "a").await.err(), Some(404));
}

#[tokio::test]
async fn writes_prolong_lives() {
    let items = container(TimeToLive::Seconds(10)).await;
    create(&items, json!({"id": "a", "pk": "p"}))
        .await
        .expect("an item");
    advance(9);
    items
        .replace_item("p", "a", &json!({"id": "a", "pk": "p"}), None)
        .await
        .expect("a replaced item");
    advance(9);
    assert!(read(&items, "a").await.is_ok());
    advance(1);
    assert_eq!(read(&items, "a").await.err(), Some(404));
    create(&items, json!({"id": "a", "pk": "p"}))
        .await
        .expect("its key is free");
}

#[tokio::test]
async fn a_changed_default_holds_at_once() {
    let items = container(TimeToLive::Seconds(10)).await;
    create(&items, json!({"id": "a", "pk": "p"}))
        .await
        .expect("an item");
    let properties: ContainerProperties = items
        .read(None)
        .await
        .expect("the container")
        .into_model()
        .expect("its model");
    assert_eq!(properties.default_ttl, TimeToLive::Seconds(10));
    items
        .replace(properties.with_default_ttl(1000), None)
        .await
        .expect("a replaced container");
    advance(999);
    assert!(read(&items, "a").await.is_ok());
    advance(1);
    assert_eq!(read(&items, "a").await.err(), Some(404));
}

async fn numbers(
    items: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> (Vec<i64>, usize) {
    let options = QueryOptions::default()
        .with_max_item_count(MaxItemCountHint::Limit(7.try_into().expect("not 0")));
    let mut pages = items
        .query_items::<Value>(query, scope, Some(options))
        .await
        .expect("a query")
        .into_pages();
    let (mut found, mut count) = (Vec::new(), 0);
    while let Some(page) = pages.next().await {
        count += 1;
        found.extend(
            page.expect("a page")
                .items()
                .iter()
                .map(|item| item["n"].as_i64().expect("a number")),
        );
    }
    (found, count)
}

#[tokio::test]
async fn queries_over_pages() {
    let items = container(TimeToLive::Forever).await;
    for n in 0..20 {
        create(&items, json!({"id": format!("{n}"), "pk": "p", "n": n}))
            .await
            .expect("an item");
    }
    for n in 20..40 {
        let key = format!("q{n}");
        items
            .create_item(
                key.clone(),
                &n.to_string(),
                &json!({"id": n.to_string(), "pk": key, "n": n}),
                None,
            )
            .await
            .expect("an item");
    }
    let (mut found, pages) = numbers(&items, "SELECT * FROM c", FeedScope::partition("p")).await;
    found.sort_unstable();
    assert_eq!((found, pages), ((0..20).collect(), 3));
    let query = Query::from("SELECT * FROM c WHERE c.n < @n ORDER BY c.n DESC")
        .with_parameter("@n", 10)
        .expect("a parameter");
    assert_eq!(
        numbers(&items, query, FeedScope::partition("p")).await.0,
        (0..10).rev().collect::<Vec<_>>()
    );
    let (found, pages) = numbers(
        &items,
        "SELECT * FROM c ORDER BY c.n",
        FeedScope::full_container(),
    )
    .await;
    assert_eq!(found, (0..40).collect::<Vec<_>>());
    assert!(pages >= 5);
    let (mut found, _) = numbers(
        &items,
        "SELECT c.n FROM c WHERE c.n >= 15",
        FeedScope::full_container(),
    )
    .await;
    found.sort_unstable();
    assert_eq!(found, (15..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn batches_are_whole_or_nothing() {
    let items = container(TimeToLive::Seconds(1000)).await;
    let batch = TransactionalBatch::new("p")
        .create_item(json!({"id": "a", "pk": "p"}))
        .and_then(|batch| batch.upsert_item(json!({"id": "b", "pk": "p", "ttl": 10}), None))
        .expect("a batch")
        .read_item("a", None);
    let answer = items
        .execute_transactional_batch(batch, None)
        .await
        .expect("an answer")
        .into_model()
        .expect("results");
    let codes: Vec<u16> = answer
        .results()
        .iter()
        .map(|result| result.status_code())
        .collect();
    assert_eq!(codes, [201, 201, 200]);
    let batch = TransactionalBatch::new("p")
        .create_item(json!({"id": "c", "pk": "p"}))
        .and_then(|batch| batch.create_item(json!({"id": "d", "pk": "p", "ttl": 0})))
        .expect("a batch");
    if let Ok(answer) = items.execute_transactional_batch(batch, None).await {
        let answer = answer.into_model().expect("results");
        let codes: Vec<u16> = answer
            .results()
            .iter()
            .map(|result| result.status_code())
            .collect();
        assert_eq!(codes, [424, 400]);
    }
    assert_eq!(read(&items, "c").await.err(), Some(404));
    advance(10);
    assert!(read(&items, "a").await.is_ok());
    assert_eq!(read(&items, "b").await.err(), Some(404));
}

#[tokio::test]
async fn the_change_feed_shows_the_living() {
    let items = container(TimeToLive::Seconds(1000)).await;
    for (id, ttl) in [("a", 1000), ("b", 10), ("c", 1000)] {
        create(&items, json!({"id": id, "pk": "p", "ttl": ttl}))
            .await
            .expect("an item");
    }
    advance(10);
    let mut pages = items
        .query_change_feed::<Value>(
            FeedScope::full_container(),
            ChangeFeedStartFrom::Beginning,
            None,
        )
        .await
        .expect("a feed");
    let mut found = changed(&mut pages).await;
    assert_eq!(found, ["a", "c"]);
    let resumed = pages.to_continuation_token().expect("a token");
    create(&items, json!({"id": "d", "pk": "p"}))
        .await
        .expect("an item");
    let options = ChangeFeedOptions::default().with_continuation_token(resumed);
    let mut pages = items
        .query_change_feed::<Value>(
            FeedScope::full_container(),
            ChangeFeedStartFrom::Beginning,
            Some(options),
        )
        .await
        .expect("a feed");
    found = changed(&mut pages).await;
    assert_eq!(found, ["d"]);
}

/// The ids up to the first page without any; the feed itself has no end.
async fn changed(pages: &mut ChangeFeedPageIterator<ChangeFeedItem<Value>>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.expect("a page");
        if page.items().is_empty() {
            break;
        }
        found.extend(page.items().iter().map(|item| {
            item.current().expect("an item")["id"]
                .as_str()
                .expect("an id")
                .to_owned()
        }));
    }
    found
}
