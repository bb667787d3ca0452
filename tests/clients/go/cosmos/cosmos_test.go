// Package cosmos drives azcosmos.
package cosmos

import (
	"context"
	"encoding/json"
	"errors"
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

func TestFirstItem(t *testing.T) {
	for _, endpoint := range []string{"COSMOS", "COSMOS_TLS"} {
		t.Run(endpoint, func(t *testing.T) {
			ctx, ten := mayfly.Context(t), int32(10)
			items := container(t, &ten)
			_, err := items.CreateItem(ctx, azcosmos.NewPartitionKeyString("p"), text(t, item{"id": "a", "pk": "p"}), nil)
			check(t, err)
			mayfly.Advance(t, 10*time.Second)
			if _, found := read(t, ctx, items, "a"); found != 404 {
				t.Fatalf("an item with a life of ten seconds answers %d after them", found)
			}
		})
	}
}
