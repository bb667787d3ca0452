package example

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"mayflydb/mayflytest"
)

func TestASessionExpiresAfterAnHour(t *testing.T) {
	mayfly := mayflytest.New(t, mayflytest.Start("2026-01-01T00:00:00Z"))
	sessions := createContainer(t, mayfly, "sessions", 3600)
	item, _ := json.Marshal(map[string]string{"id": "s1", "userId": "u1"})
	user := azcosmos.NewPartitionKeyString("u1")
	if _, err := sessions.CreateItem(context.Background(), user, item, nil); err != nil {
		t.Fatal(err)
	}

	mayfly.Clock.Advance(3599 * time.Second)
	if _, err := sessions.ReadItem(context.Background(), user, "s1", nil); err != nil {
		t.Fatal(err)
	}
	mayfly.Clock.Advance(time.Second)
	if _, err := sessions.ReadItem(context.Background(), user, "s1", nil); err == nil {
		t.Fatal("the session is still there")
	}
	if ids := mayfly.ExpiredIDs(); !slices.Equal(ids, []string{"s1"}) {
		t.Fatal(ids)
	}
}

func createContainer(t *testing.T, mayfly *mayflytest.Server, id string, seconds int32) *azcosmos.ContainerClient {
	t.Helper()
	client, err := azcosmos.NewClientFromConnectionString(mayfly.Cosmos.ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateDatabase(context.Background(), azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		t.Fatal(err)
	}
	database, err := client.NewDatabase("shop")
	if err != nil {
		t.Fatal(err)
	}
	key := azcosmos.PartitionKeyDefinition{Paths: []string{"/userId"}}
	properties := azcosmos.ContainerProperties{ID: id, PartitionKeyDefinition: key, DefaultTimeToLive: &seconds}
	if _, err := database.CreateContainer(context.Background(), properties, nil); err != nil {
		t.Fatal(err)
	}
	container, err := database.NewContainer(id)
	if err != nil {
		t.Fatal(err)
	}
	return container
}
