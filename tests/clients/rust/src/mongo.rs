//! mongodb: both contracts of time to live, writes and queries, a transaction, a change stream.

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::change_stream::event::OperationType;
use mongodb::options::IndexOptions;
use mongodb::{Client, Collection, Database, IndexModel};
use std::time::Duration;

use crate::mayfly::{address, advance, name, now};

const NEVER: u64 = 10_000_000;

async fn database() -> Database {
    let client = Client::with_uri_str(address("MONGO"))
        .await
        .expect("a client");
    client.database(&name("rust"))
}

async fn collection(path: &str, seconds: i64) -> Collection<Document> {
    let made = database().await.collection("c");
    let index = doc! {"createIndexes": "c", "indexes": [{"key": {path: 1}, "name": path, "expireAfterSeconds": seconds}]};
    let database = made.client().database(&made.namespace().db);
    database.run_command(index).await.expect("an index");
    made
}

async fn count(documents: &Collection<Document>) -> u64 {
    documents.count_documents(doc! {}).await.expect("a count")
}

/// Cosmos DB's contract: a TTL index on `_ts`, and a document's own `ttl`.
async fn lives(index: i64, own: Option<Bson>, span: Option<u64>) {
    let documents = collection("_ts", index).await;
    let mut document = doc! {"_id": 1};
    if let Some(own) = own {
        document.insert("ttl", own);
    }
    documents.insert_one(document).await.expect("a document");
    advance(span.unwrap_or(NEVER) - 1);
    assert_eq!(count(&documents).await, 1);
    advance(1);
    assert_eq!(count(&documents).await, u64::from(span.is_none()));
}

/// MongoDB's contract: a date under a TTL index of 3600 s is removed by the first pass after it.
async fn dates(value: Bson, span: Option<u64>) {
    let documents = collection("at", 3600).await;
    documents
        .insert_one(doc! {"_id": 1, "at": value})
        .await
        .expect("a document");
    advance(span.unwrap_or(NEVER) - 1);
    assert_eq!(count(&documents).await, 1);
    advance(1 + 60);
    assert_eq!(count(&documents).await, u64::from(span.is_none()));
}

fn date(after: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis((now() + after) * 1000))
}

macro_rules! table {
    ($check:ident: $($name:ident($($argument:expr),*);)*) => {
        $(#[tokio::test]
        async fn $name() {
            $check($($argument),*).await;
        })*
    };
}

mod own_ttl {
    use super::*;

    table! { lives:
        md1_double(10, Some(Bson::Double(20.0)), Some(20));
        md2_int32(10, Some(Bson::Int32(20)), Some(20));
        md3_int64(10, Some(Bson::Int64(20)), Some(20));
        md4_fraction(10, Some(Bson::Double(20.5)), Some(10));
        md5_too_large(10, Some(Bson::Int64(2147483649)), Some(10));
        md6_greatest(10, Some(Bson::Int32(2147483647)), None);
        md8_never(10, Some(Bson::Int32(-1)), None);
        md9_zero(10, Some(Bson::Int32(0)), Some(10));
        md10_string(10, Some(Bson::String("20".into())), Some(10));
        md11_absent(10, None, Some(10));
        md12_absent(-1, None, None);
        md12_own(-1, Some(Bson::Int32(20)), Some(20));
    }
}

mod dates_under_an_index {
    use super::*;

    table! { dates:
        mn1(date(0), Some(3600));
        mn4_earliest(Bson::Array(vec![date(900), date(0)]), Some(3600));
        mn4_mixed(Bson::Array(vec![date(0), Bson::String("x".into()), Bson::Null]), Some(3600));
        mn5_string(Bson::String("2030-01-01T00:00:00Z".into()), None);
        mn5_number(Bson::Int64(0), None);
        mn5_null(Bson::Null, None);
        mn5_empty(Bson::Array(vec![]), None);
    }
}

#[tokio::test]
async fn an_index_made_by_the_drivers_own_helper() {
    let documents: Collection<Document> = database().await.collection("c");
    let options = IndexOptions::builder()
        .expire_after(Duration::from_secs(10))
        .build();
    documents
        .create_index(
            IndexModel::builder()
                .keys(doc! {"at": 1})
                .options(options)
                .build(),
        )
        .await
        .expect("an index");
    documents
        .insert_one(doc! {"at": date(0)})
        .await
        .expect("a document");
    let found: Vec<IndexModel> = documents
        .list_indexes()
        .await
        .expect("indexes")
        .try_collect()
        .await
        .expect("indexes");
    assert_eq!(
        found[1].options.as_ref().expect("options").expire_after,
        Some(Duration::from_secs(10))
    );
    advance(70);
    assert_eq!(count(&documents).await, 0);
}

#[tokio::test]
async fn documents_are_written_and_found() {
    let documents: Collection<Document> = database().await.collection("c");
    documents
        .insert_many((0..300).map(|n| doc! {"_id": n, "k": n % 7, "list": [n, {"a": null}]}))
        .await
        .expect("documents");
    let found: Vec<Document> = documents
        .find(doc! {"k": {"$in": [1, 2]}})
        .sort(doc! {"_id": -1})
        .batch_size(10)
        .await
        .expect("a cursor")
        .try_collect()
        .await
        .expect("documents");
    assert_eq!(found.len(), 86);
    assert_eq!(
        found[0],
        doc! {"_id": 296, "k": 2, "list": [296, {"a": null}]}
    );
    let changed = documents
        .update_many(doc! {"k": 0}, doc! {"$inc": {"n": 1}})
        .await
        .expect("an update");
    assert_eq!((changed.matched_count, changed.modified_count), (43, 43));
    let totals: Vec<Document> = documents
        .aggregate([
            doc! {"$group": {"_id": "$n", "count": {"$sum": 1}}},
            doc! {"$sort": {"_id": 1}},
        ])
        .await
        .expect("a cursor")
        .try_collect()
        .await
        .expect("documents");
    assert_eq!(
        totals,
        [
            doc! {"_id": null, "count": 257},
            doc! {"_id": 1, "count": 43}
        ]
    );
    assert_eq!(
        documents
            .delete_many(doc! {"k": 1})
            .await
            .expect("deletes")
            .deleted_count,
        43
    );
    let error = documents
        .insert_one(doc! {"_id": 0})
        .await
        .expect_err("a duplicate");
    assert!(error.to_string().contains("E11000"), "{error}");
}

#[tokio::test]
async fn a_transaction_commits_or_leaves_nothing() {
    let documents: Collection<Document> = database().await.collection("c");
    documents
        .insert_one(doc! {"_id": 0})
        .await
        .expect("a document");
    let mut session = documents.client().start_session().await.expect("a session");
    session.start_transaction().await.expect("a transaction");
    documents
        .insert_one(doc! {"_id": 1})
        .session(&mut session)
        .await
        .expect("a document");
    assert_eq!(count(&documents).await, 1);
    session.abort_transaction().await.expect("an end");
    session.start_transaction().await.expect("a transaction");
    documents
        .insert_one(doc! {"_id": 2})
        .session(&mut session)
        .await
        .expect("a document");
    documents
        .delete_one(doc! {"_id": 0})
        .session(&mut session)
        .await
        .expect("a delete");
    session.commit_transaction().await.expect("an end");
    let found: Vec<Document> = documents
        .find(doc! {})
        .await
        .expect("a cursor")
        .try_collect()
        .await
        .expect("documents");
    assert_eq!(found, [doc! {"_id": 2}]);
}

#[tokio::test]
async fn a_change_stream_tells_of_the_expired() {
    let documents = collection("at", 10).await;
    let mut stream = documents.watch().await.expect("a stream");
    documents
        .insert_one(doc! {"_id": 1, "at": date(0)})
        .await
        .expect("a document");
    documents
        .update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}})
        .await
        .expect("an update");
    advance(70);
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let event = stream.next_if_any().await.expect("an event");
        if let Some(event) = event {
            assert_eq!(event.document_key, Some(doc! {"_id": 1}));
            kinds.push(event.operation_type);
        }
    }
    assert_eq!(
        kinds,
        [
            OperationType::Insert,
            OperationType::Update,
            OperationType::Delete
        ]
    );
}

#[tokio::test]
async fn tls_with_the_servers_certificate() {
    let uri = format!("{}&tlsCAFile={}", address("MONGO_TLS"), address("CERT"));
    let client = Client::with_uri_str(uri).await.expect("a client");
    let documents: Collection<Document> = client.database(&name("rust")).collection("c");
    documents
        .insert_one(doc! {"_id": 1})
        .await
        .expect("a document");
    assert_eq!(count(&documents).await, 1);
}
