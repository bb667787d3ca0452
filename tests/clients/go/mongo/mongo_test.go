// Package mongo drives mongo-driver.
package mongo

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"clients/mayfly"
)

const never = 10_000_000

func connected(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	check(t, err)
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}

func collection(t *testing.T) *mongo.Collection {
	t.Helper()
	return connected(t, mayfly.Address(t, "MONGO")).Database(mayfly.Name("go")).Collection("c")
}

// expiring is a collection with a TTL index on a path.
func expiring(t *testing.T, path string, seconds int32) *mongo.Collection {
	t.Helper()
	documents := collection(t)
	index := mongo.IndexModel{Keys: bson.D{{Key: path, Value: 1}}, Options: options.Index().SetExpireAfterSeconds(seconds)}
	_, err := documents.Indexes().CreateOne(mayfly.Context(t), index)
	check(t, err)
	return documents
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func insert(t *testing.T, documents *mongo.Collection, document bson.D) {
	t.Helper()
	_, err := documents.InsertOne(mayfly.Context(t), document)
	check(t, err)
}

func count(t *testing.T, documents *mongo.Collection) int64 {
	t.Helper()
	found, err := documents.CountDocuments(mayfly.Context(t), bson.D{})
	check(t, err)
	return found
}

// lives checks that the one document is there a second before `span`, and gone at it or a pass later; 0: it never goes.
func lives(t *testing.T, documents *mongo.Collection, span int64, pass time.Duration) {
	t.Helper()
	last := span
	if span == 0 {
		last = never
	}
	mayfly.Advance(t, time.Duration(last-1)*time.Second)
	if found := count(t, documents); found != 1 {
		t.Fatalf("%d a second before its deadline", found)
	}
	mayfly.Advance(t, time.Second+pass)
	if found := count(t, documents); (found == 1) != (span == 0) {
		t.Fatalf("%d at its deadline", found)
	}
}

// TestOwnTTL is the contract of Azure Cosmos DB for MongoDB: an index on _ts, and a document's own ttl.
func TestOwnTTL(t *testing.T) {
	for _, row := range []struct {
		name    string
		index   int32
		own     any
		seconds int64
	}{
		{"MD1_double", 10, 20.0, 20},
		{"MD2_int32", 10, int32(20), 20},
		{"MD3_int64", 10, int64(20), 20},
		{"MD4_fraction", 10, 20.5, 10},
		{"MD5_too_large", 10, int64(2147483649), 10},
		{"MD6_greatest", 10, int32(math.MaxInt32), 0},
		{"MD8_never", 10, int32(-1), 0},
		{"MD9_zero", 10, int32(0), 10},
		{"MD10_not_a_number", 10, math.NaN(), 10},
		{"MD10_string", 10, "20", 10},
		{"MD11_absent", 10, nil, 10},
		{"MD12_absent", -1, nil, 0},
		{"MD12_own", -1, int32(20), 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			documents, document := expiring(t, "_ts", row.index), bson.D{{Key: "_id", Value: 1}}
			if row.own != nil {
				document = append(document, bson.E{Key: "ttl", Value: row.own})
			}
			insert(t, documents, document)
			lives(t, documents, row.seconds, 0)
		})
	}
}

// TestDates is MongoDB's contract: a date is removed by the first pass after it, a minute later at most.
func TestDates(t *testing.T) {
	for _, row := range []struct {
		name    string
		value   func(now time.Time) any
		seconds int64
	}{
		{"MN1", func(now time.Time) any { return now }, 3600},
		{"MN4_earliest", func(now time.Time) any { return bson.A{now.Add(15 * time.Minute), now} }, 3600},
		{"MN4_mixed", func(now time.Time) any { return bson.A{now, "x", nil} }, 3600},
		{"MN5_string", func(time.Time) any { return "2030-01-01T00:00:00Z" }, 0},
		{"MN5_number", func(time.Time) any { return 0 }, 0},
		{"MN5_null", func(time.Time) any { return nil }, 0},
		{"MN5_empty", func(time.Time) any { return bson.A{} }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			documents := expiring(t, "at", 3600)
			insert(t, documents, bson.D{{Key: "_id", Value: 1}, {Key: "at", Value: row.value(mayfly.Now(t))}})
			lives(t, documents, row.seconds, time.Minute)
		})
	}
}

func TestDocuments(t *testing.T) {
	ctx, documents := mayfly.Context(t), collection(t)
	many := make([]bson.D, 300)
	for n := range many {
		many[n] = bson.D{{Key: "_id", Value: int32(n)}, {Key: "k", Value: int32(n % 7)}, {Key: "text", Value: "ü€𝄞"}}
	}
	_, err := documents.InsertMany(ctx, many)
	check(t, err)
	filter := bson.D{{Key: "k", Value: bson.D{{Key: "$in", Value: bson.A{1, 2}}}}}
	cursor, err := documents.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetBatchSize(10))
	check(t, err)
	var found []struct {
		ID   int32 `bson:"_id"`
		Text string
	}
	check(t, cursor.All(ctx, &found))
	if len(found) != 86 || found[0].ID != 296 || found[0].Text != "ü€𝄞" {
		t.Fatal(found)
	}
	change := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}
	updated, err := documents.UpdateMany(ctx, bson.D{{Key: "k", Value: 0}}, change)
	check(t, err)
	if updated.MatchedCount != 43 || updated.ModifiedCount != 43 {
		t.Fatal(updated)
	}
	cursor, err = documents.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$n"}, {Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
	})
	check(t, err)
	var groups []struct{ Count int32 }
	check(t, cursor.All(ctx, &groups))
	if len(groups) != 2 || groups[0].Count != 257 || groups[1].Count != 43 {
		t.Fatal(groups)
	}
	deleted, err := documents.DeleteMany(ctx, bson.D{{Key: "k", Value: 1}})
	check(t, err)
	if deleted.DeletedCount != 43 {
		t.Fatal(deleted)
	}
	if _, err = documents.InsertOne(ctx, bson.D{{Key: "_id", Value: 0}}); !mongo.IsDuplicateKeyError(err) {
		t.Fatal(err)
	}
}

func TestBulk(t *testing.T) {
	documents := collection(t)
	filter, change := bson.D{{Key: "_id", Value: 2}}, bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}}
	results, err := documents.BulkWrite(mayfly.Context(t), []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.D{{Key: "_id", Value: 1}}),
		mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(change).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(bson.D{{Key: "_id", Value: 1}}),
	})
	check(t, err)
	if results.InsertedCount != 1 || results.UpsertedCount != 1 || results.DeletedCount != 1 || count(t, documents) != 1 {
		t.Fatal(results)
	}
}

func TestTransactions(t *testing.T) {
	ctx, documents := mayfly.Context(t), collection(t)
	insert(t, documents, bson.D{{Key: "_id", Value: 0}})
	session, err := documents.Database().Client().StartSession()
	check(t, err)
	defer session.EndSession(ctx)
	check(t, session.StartTransaction())
	inside := mongo.NewSessionContext(ctx, session)
	_, err = documents.InsertOne(inside, bson.D{{Key: "_id", Value: 1}})
	check(t, err)
	if found := count(t, documents); found != 1 {
		t.Fatalf("%d are seen from outside", found)
	}
	check(t, session.AbortTransaction(ctx))
	_, err = session.WithTransaction(ctx, func(inside context.Context) (any, error) {
		if _, err := documents.InsertOne(inside, bson.D{{Key: "_id", Value: 2}}); err != nil {
			return nil, err
		}
		return documents.InsertOne(inside, bson.D{{Key: "_id", Value: 3}})
	})
	check(t, err)
	if found := count(t, documents); found != 3 {
		t.Fatalf("%d are there", found)
	}
}

func TestChangeStream(t *testing.T) {
	ctx, documents := mayfly.Context(t), expiring(t, "at", 10)
	stream, err := documents.Watch(ctx, mongo.Pipeline{})
	check(t, err)
	defer stream.Close(ctx)
	insert(t, documents, bson.D{{Key: "_id", Value: 1}, {Key: "at", Value: mayfly.Now(t)}})
	_, err = documents.UpdateByID(ctx, 1, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}})
	check(t, err)
	mayfly.Advance(t, 70*time.Second)
	var kinds []string
	for len(kinds) < 3 && stream.Next(ctx) {
		var event struct {
			OperationType string `bson:"operationType"`
		}
		check(t, stream.Decode(&event))
		kinds = append(kinds, event.OperationType)
	}
	if strings.Join(kinds, " ") != "insert update delete" {
		t.Fatal(kinds, stream.Err())
	}
}

// TestTLS goes by SSL_CERT_FILE, from which Go reads the roots that it trusts.
func TestTLS(t *testing.T) {
	client := connected(t, mayfly.Address(t, "MONGO_TLS"))
	documents := client.Database(mayfly.Name("go")).Collection("c")
	insert(t, documents, bson.D{{Key: "_id", Value: 1}})
	if found := count(t, documents); found != 1 {
		t.Fatal(found)
	}
}
