package cosmos

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"clients/mayfly"
)

const never = 10_000_000

func seconds(n int32) *int32 { return &n }

// TestLives goes through container's default and item's own ttl: alive a second before the deadline, gone at it.
func TestLives(t *testing.T) {
	off, on := (*int32)(nil), seconds(-1)
	for _, row := range []struct {
		name    string
		dflt    *int32
		own     any
		seconds int64 // 0: it never dies.
	}{
		{"CM1", off, nil, 0},
		{"CM2", off, -1, 0},
		{"CM3", off, 2000, 0},
		{"CM4", on, nil, 0},
		{"CM5", on, -1, 0},
		{"CM6", on, 2000, 2000},
		{"CM7", seconds(1000), nil, 1000},
		{"CM8", seconds(1000), -1, 0},
		{"CM9_longer", seconds(1000), 2000, 2000},
		{"CM9_shorter", seconds(1000), 500, 500},
		{"CI2_least", seconds(1000), 1, 1},
		{"CI2_greatest", on, 2147483647, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, items := mayfly.Context(t), container(t, row.dflt)
			value := item{"id": "a", "pk": "p"}
			if row.own != nil {
				value["ttl"] = row.own
			}
			check(t, create(ctx, t, items, value))
			span := row.seconds
			if span == 0 {
				span = never
			}
			mayfly.Advance(t, time.Duration(span-1)*time.Second)
			if got, found := read(t, ctx, items, "a"); found != 200 || (got["ttl"] != nil) != (row.own != nil) {
				t.Fatalf("a second before its deadline: %d %v", found, got)
			}
			mayfly.Advance(t, time.Second)
			_, found := read(t, ctx, items, "a")
			left := len(query(t, ctx, items, "SELECT * FROM c", azcosmos.NewPartitionKeyString("p"), nil))
			if row.seconds == 0 && (found != 200 || left != 1) || row.seconds != 0 && (found != 404 || left != 0) {
				t.Fatalf("at its deadline: %d, and a query finds %d", found, left)
			}
		})
	}
}

// TestValues goes through what a container with ttl says of values of an item's own.
func TestValues(t *testing.T) {
	for _, row := range []struct {
		name string
		own  any
		want int
	}{
		{"CI2", 20, 0},
		{"CI4_zero", 0, 400},
		{"CI4_negative", -2, 400},
		{"CI4_above_the_greatest", int64(2147483648), 400},
		{"CI4_least", -2147483648, 400},
		{"CI4_beyond_a_double", int64(9007199254740993), 400},
		{"CI6_fraction", 1.5, 400},
		{"CI6_large_fraction", 2147483647.5, 400},
		{"CI7_string", "5", 400},
		{"CI7_boolean", true, 400},
		{"CI8_array", []int{5}, 400},
		{"CI8_object", item{"ttl": 5}, 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, items := mayfly.Context(t), container(t, seconds(1000))
			if got := status(t, create(ctx, t, items, item{"id": "a", "pk": "p", "ttl": row.own})); got != row.want {
				t.Fatalf("%v is answered %d", row.own, got)
			}
		})
	}
}

// TestContainers goes through values of a container's default.
func TestContainers(t *testing.T) {
	for _, row := range []struct {
		name string
		dflt *int32
		want int
	}{
		{"CC1", nil, 0},
		{"CC3_no_default", seconds(-1), 0},
		{"CC3_least", seconds(1), 0},
		{"CC3_greatest", seconds(2147483647), 0},
		{"CC4_zero", seconds(0), 400},
		{"CC4_negative", seconds(-2), 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, items := mayfly.Context(t), container(t, nil)
			properties := azcosmos.ContainerProperties{
				ID:                     items.ID(),
				PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
				DefaultTimeToLive:      row.dflt,
			}
			_, err := items.Replace(ctx, properties, nil)
			if got := status(t, err); got != row.want {
				t.Fatalf("answered %d", got)
			}
			after, err := items.Read(ctx, nil)
			check(t, err)
			got := after.ContainerProperties.DefaultTimeToLive
			if row.want == 0 && row.dflt != nil && (got == nil || *got != *row.dflt) {
				t.Fatalf("it is %v", got)
			}
		})
	}
}

func TestAChangedDefaultHoldsAtOnce(t *testing.T) {
	ctx, items := mayfly.Context(t), container(t, seconds(10))
	check(t, create(ctx, t, items, item{"id": "a", "pk": "p"}))
	answer, err := items.Read(ctx, nil)
	check(t, err)
	properties := *answer.ContainerProperties
	properties.DefaultTimeToLive = seconds(1000)
	_, err = items.Replace(ctx, properties, nil)
	check(t, err)
	mayfly.Advance(t, 999*time.Second)
	if _, found := read(t, ctx, items, "a"); found != 200 {
		t.Fatalf("after 999 s: %d", found)
	}
	mayfly.Advance(t, time.Second)
	if _, found := read(t, ctx, items, "a"); found != 404 {
		t.Fatalf("after 1000 s: %d", found)
	}
}

func TestWritesProlongLives(t *testing.T) {
	ctx, items, key := mayfly.Context(t), container(t, seconds(10)), azcosmos.NewPartitionKeyString("p")
	check(t, create(ctx, t, items, item{"id": "a", "pk": "p"}))
	for name, write := range map[string]func() error{
		"replace": func() error {
			_, err := items.ReplaceItem(ctx, key, "a", text(t, item{"id": "a", "pk": "p"}), nil)
			return err
		},
		"upsert": func() error {
			_, err := items.UpsertItem(ctx, key, text(t, item{"id": "a", "pk": "p"}), nil)
			return err
		},
		"patch": func() error {
			operations := azcosmos.PatchOperations{}
			operations.AppendSet("/n", 1)
			operations.AppendIncrement("/n", 1)
			_, err := items.PatchItem(ctx, key, "a", operations, nil)
			return err
		},
	} {
		mayfly.Advance(t, 9*time.Second)
		if err := write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	mayfly.Advance(t, 9*time.Second)
	if _, found := read(t, ctx, items, "a"); found != 200 {
		t.Fatalf("9 s after the last write: %d", found)
	}
	mayfly.Advance(t, time.Second)
	if _, found := read(t, ctx, items, "a"); found != 404 {
		t.Fatalf("10 s after the last write: %d", found)
	}
	check(t, create(ctx, t, items, item{"id": "a", "pk": "p"}))
}
