// Package cosmos drives azcosmos.
package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"clients/mayfly"
)

type item map[string]any

// connected is a client as a newcomer makes it: endpoint and key.
func connected(t *testing.T, endpoint string) *azcosmos.Client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(mayfly.Address(t, "KEY"))
	check(t, err)
	client, err := azcosmos.NewClientWithKey(mayfly.Address(t, endpoint), credential, nil)
	check(t, err)
	return client
}

// container makes one in a database of its own; `ttl` nil: off.
func container(t *testing.T, ttl *int32) *azcosmos.ContainerClient {
	t.Helper()
	return containerOf(t, azcosmos.ContainerProperties{
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		DefaultTimeToLive:      ttl,
	})
}

func containerOf(t *testing.T, properties azcosmos.ContainerProperties) *azcosmos.ContainerClient {
	t.Helper()
	ctx, client, name := mayfly.Context(t), connected(t, "COSMOS"), mayfly.Name("go")
	_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil)
	check(t, err)
	database, err := client.NewDatabase(name)
	check(t, err)
	properties.ID = "items"
	_, err = database.CreateContainer(ctx, properties, nil)
	check(t, err)
	made, err := database.NewContainer(properties.ID)
	check(t, err)
	return made
}

func text(t *testing.T, value any) []byte {
	t.Helper()
	found, err := json.Marshal(value)
	check(t, err)
	return found
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// status of a refusal; 0 where there was none.
func status(t *testing.T, err error) int {
	t.Helper()
	var refusal *azcore.ResponseError
	if err == nil {
		return 0
	}
	if !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	return refusal.StatusCode
}

func read(t *testing.T, ctx context.Context, items *azcosmos.ContainerClient, id string) (item, int) {
	t.Helper()
	answer, err := items.ReadItem(ctx, azcosmos.NewPartitionKeyString("p"), id, nil)
	if found := status(t, err); found != 0 {
		return nil, found
	}
	var got item
	check(t, json.Unmarshal(answer.Value, &got))
	return got, answer.RawResponse.StatusCode
}

// create writes an item by its pk.
func create(ctx context.Context, t *testing.T, items *azcosmos.ContainerClient, value item) error {
	t.Helper()
	key := azcosmos.NewPartitionKeyString(value["pk"].(string))
	_, err := items.CreateItem(ctx, key, text(t, value), nil)
	return err
}

// query is all items of all pages.
func query(
	t *testing.T, ctx context.Context, items *azcosmos.ContainerClient, text string, key azcosmos.PartitionKey,
	options *azcosmos.QueryOptions,
) []item {
	t.Helper()
	var found []item
	pager := items.NewQueryItemsPager(text, key, options)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		check(t, err)
		for _, each := range page.Items {
			var got item
			check(t, json.Unmarshal(each, &got))
			found = append(found, got)
		}
	}
	return found
}

func TestFirstItem(t *testing.T) {
	for _, endpoint := range []string{"COSMOS", "COSMOS_TLS"} {
		t.Run(endpoint, func(t *testing.T) {
			ctx, client, name := mayfly.Context(t), connected(t, endpoint), mayfly.Name("first")
			_, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: name}, nil)
			check(t, err)
			database, err := client.NewDatabase(name)
			check(t, err)
			key := azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}
			_, err = database.CreateContainer(ctx, azcosmos.ContainerProperties{ID: "c", PartitionKeyDefinition: key}, nil)
			check(t, err)
			items, err := database.NewContainer("c")
			check(t, err)
			check(t, create(ctx, t, items, item{"id": "a", "pk": "p", "text": "ü€𝄞"}))
			if got, _ := read(t, ctx, items, "a"); got["text"] != "ü€𝄞" {
				t.Fatal(got)
			}
		})
	}
}

func TestItems(t *testing.T) {
	ctx, items, key := mayfly.Context(t), container(t, nil), azcosmos.NewPartitionKeyString("p")
	check(t, create(ctx, t, items, item{"id": "a", "pk": "p", "n": 1}))
	if got := status(t, create(ctx, t, items, item{"id": "a", "pk": "p"})); got != 409 {
		t.Fatalf("a second of its id: %d", got)
	}
	before, err := items.ReadItem(ctx, key, "a", nil)
	check(t, err)
	answer, err := items.ReplaceItem(ctx, key, "a", text(t, item{"id": "a", "pk": "p", "n": 2}), nil)
	check(t, err)
	if len(answer.Value) != 0 {
		t.Fatalf("a body although the client wants none: %s", answer.Value)
	}
	_, err = items.ReplaceItem(ctx, key, "a", text(t, item{"id": "a", "pk": "p"}), &azcosmos.ItemOptions{IfMatchEtag: &before.ETag})
	if got := status(t, err); got != 412 {
		t.Fatalf("with an old etag: %d", got)
	}
	operations := azcosmos.PatchOperations{}
	operations.AppendIncrement("/n", 40)
	operations.AppendAdd("/list", []int{1})
	operations.AppendRemove("/list/0")
	_, err = items.PatchItem(ctx, key, "a", operations, nil)
	check(t, err)
	if got, _ := read(t, ctx, items, "a"); got["n"] != 42.0 || len(got["list"].([]any)) != 0 {
		t.Fatal(got)
	}
	_, err = items.DeleteItem(ctx, key, "a", nil)
	check(t, err)
	if _, found := read(t, ctx, items, "a"); found != 404 {
		t.Fatalf("a deleted item: %d", found)
	}
}

func TestQueries(t *testing.T) {
	ctx, items, key := mayfly.Context(t), container(t, nil), azcosmos.NewPartitionKeyString("p")
	for n := range 20 {
		check(t, create(ctx, t, items, item{"id": strconv.Itoa(n), "pk": "p", "n": n}))
	}
	for n := 20; n < 40; n++ {
		check(t, create(ctx, t, items, item{"id": strconv.Itoa(n), "pk": "q" + strconv.Itoa(n), "n": n}))
	}
	least := []azcosmos.QueryParameter{{Name: "@n", Value: 5}}
	for _, row := range []struct {
		name, text string
		key        azcosmos.PartitionKey
		options    azcosmos.QueryOptions
		want       int
	}{
		{"one_partition", "SELECT * FROM c", key, azcosmos.QueryOptions{}, 20},
		{"pages", "SELECT * FROM c", key, azcosmos.QueryOptions{PageSizeHint: 3}, 20},
		{"ordered_pages", "SELECT * FROM c ORDER BY c.n DESC", key, azcosmos.QueryOptions{PageSizeHint: 3}, 20},
		{"parameters", "SELECT * FROM c WHERE c.n >= @n", key, azcosmos.QueryOptions{QueryParameters: least}, 15},
		{"all_partitions", "SELECT * FROM c", azcosmos.NewPartitionKey(), azcosmos.QueryOptions{}, 40},
		{"pages_of_all", "SELECT * FROM c WHERE c.n >= 15", azcosmos.NewPartitionKey(), azcosmos.QueryOptions{PageSizeHint: 4}, 25},
	} {
		t.Run(row.name, func(t *testing.T) {
			found := query(t, ctx, items, row.text, row.key, &row.options)
			if len(found) != row.want {
				t.Fatalf("%d items", len(found))
			}
			seen := map[any]bool{}
			for _, each := range found {
				seen[each["id"]] = true
			}
			if len(seen) != row.want {
				t.Fatalf("%d different items", len(seen))
			}
			if row.name == "ordered_pages" && (found[0]["n"] != 19.0 || found[19]["n"] != 0.0) {
				t.Fatal(found)
			}
		})
	}
}

func TestReadMany(t *testing.T) {
	ctx, items := mayfly.Context(t), container(t, seconds(10))
	var wanted []azcosmos.ItemIdentity
	for n := range 30 {
		pk := "p" + strconv.Itoa(n%4)
		value := item{"id": strconv.Itoa(n), "pk": pk}
		if n%2 == 0 {
			value["ttl"] = 100
		}
		check(t, create(ctx, t, items, value))
		wanted = append(wanted, azcosmos.ItemIdentity{ID: strconv.Itoa(n), PartitionKey: azcosmos.NewPartitionKeyString(pk)})
	}
	for _, want := range []int{30, 15} {
		answer, err := items.ReadManyItems(ctx, wanted, nil)
		check(t, err)
		if len(answer.Items) != want {
			t.Fatalf("%d of %d", len(answer.Items), want)
		}
		mayfly.Advance(t, 10*time.Second)
	}
}

func TestBatches(t *testing.T) {
	ctx, items, key := mayfly.Context(t), container(t, seconds(1000)), azcosmos.NewPartitionKeyString("p")
	batch := items.NewTransactionalBatch(key)
	batch.CreateItem(text(t, item{"id": "a", "pk": "p"}), nil)
	batch.UpsertItem(text(t, item{"id": "b", "pk": "p", "ttl": 10}), nil)
	batch.ReadItem("a", nil)
	answer, err := items.ExecuteTransactionalBatch(ctx, batch, nil)
	check(t, err)
	if !answer.Success || len(answer.OperationResults) != 3 || answer.OperationResults[2].StatusCode != 200 {
		t.Fatal(answer)
	}
	batch = items.NewTransactionalBatch(key)
	batch.CreateItem(text(t, item{"id": "c", "pk": "p"}), nil)
	batch.CreateItem(text(t, item{"id": "d", "pk": "p", "ttl": 0}), nil)
	answer, err = items.ExecuteTransactionalBatch(ctx, batch, nil)
	check(t, err)
	if answer.Success || answer.OperationResults[0].StatusCode != 424 || answer.OperationResults[1].StatusCode != 400 {
		t.Fatal(answer)
	}
	mayfly.Advance(t, 10*time.Second)
	for id, want := range map[string]int{"a": 200, "b": 404, "c": 404, "d": 404} {
		if _, found := read(t, ctx, items, id); found != want {
			t.Fatalf("%s: %d", id, found)
		}
	}
}

func TestChangeFeed(t *testing.T) {
	ctx, items := mayfly.Context(t), container(t, seconds(1000))
	check(t, create(ctx, t, items, item{"id": "a", "pk": "p"}))
	check(t, create(ctx, t, items, item{"id": "b", "pk": "p", "ttl": 10}))
	mayfly.Advance(t, 10*time.Second)
	check(t, create(ctx, t, items, item{"id": "c", "pk": "q"}))
	found, continuation := changes(t, ctx, items, nil)
	if strings.Join(found, "") != "ac" {
		t.Fatal(found)
	}
	check(t, create(ctx, t, items, item{"id": "d", "pk": "p"}))
	if found, _ = changes(t, ctx, items, &continuation); strings.Join(found, "") != "d" {
		t.Fatal(found)
	}
}

// changes reads on until nothing has changed.
func changes(t *testing.T, ctx context.Context, items *azcosmos.ContainerClient, from *string) ([]string, string) {
	t.Helper()
	ranges, err := items.ReadFeedRanges(ctx, nil)
	check(t, err)
	if len(ranges) != 1 {
		t.Fatal(ranges)
	}
	var found []string
	for {
		options := azcosmos.ChangeFeedOptions{FeedRange: &ranges[0], Continuation: from, MaxItemCount: 1}
		answer, err := items.ReadChangeFeed(ctx, &options)
		check(t, err)
		if len(answer.Items) == 0 {
			sort.Strings(found)
			return found, answer.ContinuationToken
		}
		for _, each := range answer.Items {
			var got item
			check(t, json.Unmarshal(each, &got))
			found = append(found, got["id"].(string))
		}
		from = &answer.ContinuationToken
	}
}
