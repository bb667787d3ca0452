package example

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mayflydb"
	"mayflydb/mayflytest"
)

const sessions = "cosmos:shop/sessions"

type object = map[string]any

// shop is a container with a default of an hour, and items with a ttl of so many seconds; 0: the default.
func shop(ttls ...int) object {
	items := []object{}
	for n, ttl := range ttls {
		item := object{"id": fmt.Sprintf("s%d", n+1), "userId": "u1"}
		if ttl > 0 {
			item["ttl"] = ttl
		}
		items = append(items, item)
	}
	container := object{"id": "sessions", "partition_key": "/userId", "default_ttl": 3600, "items": items}
	return object{"databases": []object{{"id": "shop", "containers": []object{container}}}}
}

func TestASeedMakesWhatDocumentsAndFilesDescribeOnce(t *testing.T) {
	mayfly := mayflytest.New(t, mayflytest.Seed(shop(0, 60)))
	if stats := mayfly.Stats(); stats.Records != 2 {
		t.Fatal(stats)
	}
	file := filepath.Join(t.TempDir(), "more.json")
	must(t, os.WriteFile(file, []byte(`{"mongo": {"databases": [{"name": "app", "collections":
		[{"name": "n", "documents": [{"_id": 9007199254740993}]}]}]}}`), 0o600))
	if seeded := mayfly.Seed(file, shop(0)); seeded != (mayflydb.Seeded{Created: 2, Same: 3}) {
		t.Fatalf("%+v", seeded)
	}
	var exported json.RawMessage
	must(t, mayfly.Call(context.Background(), "GET", "data/export?target=mongo:app.n", nil, &exported))
	if !strings.Contains(string(exported), "9007199254740993") {
		t.Fatal(string(exported))
	}
	for _, source := range []any{"none.json", "shop.toml", []byte("{"), object{"databses": []object{}}} {
		if _, err := mayfly.Server.Seed(context.Background(), source); err == nil {
			t.Fatal(source)
		}
	}
}

func TestASnapshotHasRecordsAndClock(t *testing.T) {
	mayfly := mayflytest.New(t, mayflytest.Start("2026-01-01T00:00:00Z"), mayflytest.Seed(shop(0, 60)))
	if saved := mayfly.Snapshot("fresh"); saved.Name != "fresh" || !saved.SavedAt.Equal(start) {
		t.Fatalf("%+v", saved)
	}
	move := mayfly.Clock.Advance(time.Minute)
	if move.ByTarget[sessions].Purged != 1 || mayfly.Stats().Records != 1 {
		t.Fatalf("%+v", move)
	}
	mayfly.Restore("fresh")
	if mayfly.Stats().Records != 2 || !mayfly.Clock.Now().Equal(start) {
		t.Fatal("it is not restored")
	}
	if names, err := mayfly.Snapshots(context.Background()); err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	mayfly.DeleteSnapshot("fresh")
	var refusal *mayflydb.Error
	if err := mayfly.Server.Restore(context.Background(), "fresh"); !errors.As(err, &refusal) || refusal.Status != 404 {
		t.Fatal(err)
	}
	if _, err := mayfly.Server.Snapshot(context.Background(), "a b/c"); err == nil {
		t.Fatal("it has a name")
	}
}

func TestReportsChangeNothing(t *testing.T) {
	mayfly := mayflytest.New(t, mayflytest.Start("2026-01-01T00:00:00Z"), mayflytest.Seed(shop(0, 60)))
	preview := mayfly.Preview(sessions, mayflydb.Change{"default_ttl": 1800})
	if preview.Records != 2 || preview.ExpireNow != 0 || preview.ExpireWithin["1h"] != 2 || !preview.Exact {
		t.Fatalf("%+v", preview)
	}
	if off := mayfly.Preview(sessions, mayflydb.Change{"default_ttl": nil}); off.Never != 2 {
		t.Fatalf("%+v", off)
	}
	forecast := mayfly.Forecast(time.Hour, 2, sessions)
	if len(forecast.Buckets) != 2 || forecast.Buckets[0].Count != 1 || !forecast.Buckets[1].To.Equal(start.Add(time.Hour)) {
		t.Fatalf("%+v", forecast)
	}
	why := mayfly.Explain(sessions, "s2", "u1")
	if why.State != "alive" || why.Deadline != "2026-01-01T00:01:00Z" || why.Text == "" {
		t.Fatalf("%+v", why)
	}
	if mayfly.Stats().Records != 2 {
		t.Fatal("something is gone")
	}
}

func TestARefusalHasTitleDetailAndHint(t *testing.T) {
	mayfly, ctx := atStart(t)
	_, err := mayfly.Server.Purge(ctx, "cosmos:nowhere")
	var refusal *mayflydb.Error
	if !errors.As(err, &refusal) || refusal.Title != "Not found" || refusal.Hint == "" {
		t.Fatal(err)
	}
	if err.Error() != "404 Not found: there is no cosmos:nowhere; "+refusal.Hint {
		t.Fatal(err)
	}
}

func TestACallThatGetsNoAnswerEndsInTime(t *testing.T) {
	server, err := mayflydb.Serve(context.Background(), mayflydb.Options{RequestTimeout: 2 * time.Second})
	must(t, err)
	defer func() { must(t, server.Stop()) }()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, silent.Close()) }()
	server.Admin = "http://" + silent.Addr().String() + "/_mayfly"
	_, err = server.Stats(context.Background())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer to GET stats within 2s") {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = server.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestEachExpiryComesOnceOverAConnectionThatBreaks(t *testing.T) {
	server, err := mayflydb.Serve(context.Background(), mayflydb.Options{Start: start})
	must(t, err)
	defer func() { _ = server.Stop() }()
	cut := putBehindAProxy(t, server)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = server.Seed(ctx, shop(1, 2, 3))
	must(t, err)
	var first int64
	stream, err := server.Events(ctx, mayflydb.Follow{Types: []string{"expired"}, Target: "cosmos:shop", After: &first})
	must(t, err)
	defer stream.Close()
	seen := []string{}
	for range 3 {
		_, err := server.Advance(ctx, time.Second)
		must(t, err)
		event, err := stream.Next()
		must(t, err)
		var record mayflydb.Expired
		must(t, json.Unmarshal(event.Data, &record))
		seen = append(seen, event.Type, record.ID)
		cut()
	}
	if !slices.Equal(seen, []string{"expired", "s1", "expired", "s2", "expired", "s3"}) {
		t.Fatal(seen)
	}
	must(t, server.Stop())
	if event, err := stream.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(event, err)
	}
}

func TestAStreamBeginsNowAndRefusals(t *testing.T) {
	mayfly, ctx := atStart(t)
	next := mayfly.Events(mayflydb.Follow{})
	mayfly.Clock.Advance(time.Second)
	if event := next(); event.Type != "clock" || event.Seq != 0 {
		t.Fatalf("%+v", event)
	}
	var refusal *mayflydb.Error
	if _, err := mayfly.Server.Events(ctx, mayflydb.Follow{Types: []string{"deaths"}}); !errors.As(err, &refusal) {
		t.Fatal(err)
	}
}

// putBehindAProxy returns the function that cuts all connections.
func putBehindAProxy(t *testing.T, server *mayflydb.Server) (cut func()) {
	t.Helper()
	far := strings.TrimSuffix(strings.TrimPrefix(server.Admin, "http://"), "/_mayfly")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	server.Admin = "http://" + listener.Addr().String() + "/_mayfly"
	var mutex sync.Mutex
	var open []net.Conn
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			other, err := net.Dial("tcp", far)
			if err != nil {
				_ = near.Close()
				continue
			}
			mutex.Lock()
			open = append(open, near, other)
			mutex.Unlock()
			go func() { _, _ = io.Copy(near, other); _ = near.Close() }()
			go func() { _, _ = io.Copy(other, near); _ = other.Close() }()
		}
	}()
	return func() {
		mutex.Lock()
		defer mutex.Unlock()
		for _, connection := range open {
			_ = connection.Close()
		}
		open = nil
	}
}
