package example

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"mayflydb"
	"mayflydb/mayflytest"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func atStart(t *testing.T) (*mayflytest.Server, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return mayflytest.New(t, mayflytest.Start("2026-01-01T00:00:00Z")), ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestADocumentExpiresAtItsVerySecond(t *testing.T) {
	mayfly, ctx := atStart(t)
	client, err := mongo.Connect(options.Client().ApplyURI(mayfly.Mongo.URI))
	must(t, err)
	defer func() { must(t, client.Disconnect(ctx)) }()
	codes := client.Database("app").Collection("codes")
	index := mongo.IndexModel{Keys: bson.D{{Key: "_ts", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(300)}
	_, err = codes.Indexes().CreateOne(ctx, index)
	must(t, err)
	_, err = codes.InsertOne(ctx, bson.D{{Key: "_id", Value: "c1"}})
	must(t, err)
	if due, known := mayfly.Clock.NextExpiry(); !known || !due.Equal(start.Add(300*time.Second)) {
		t.Fatal(due, known)
	}
	for _, row := range []struct {
		by   time.Duration
		left int64
	}{{299 * time.Second, 1}, {time.Second, 0}} {
		mayfly.Clock.Advance(row.by)
		if left, err := codes.CountDocuments(ctx, bson.D{}); err != nil || left != row.left {
			t.Fatal(left, err)
		}
	}
	records := mayfly.Expired()
	if len(records) != 1 || records[0].Target != "mongo:app.codes" || records[0].Reason != "default" {
		t.Fatalf("%+v", records)
	}
}

func TestARowIsPurgedOnDemandAtItsVerySecond(t *testing.T) {
	mayfly, ctx := atStart(t)
	driver, err := ydb.Open(ctx, mayfly.YDB.ConnectionString())
	must(t, err)
	defer func() { must(t, driver.Close(ctx)) }()
	for _, statement := range []string{
		`CREATE TABLE carts (id Uint64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON until)`,
		`UPSERT INTO carts (id, until) VALUES (1, CurrentUtcTimestamp() + Interval("PT90S"))`,
	} {
		must(t, driver.Query().Exec(ctx, statement))
	}
	mayfly.Clock.Advance(89 * time.Second)
	if purged := mayfly.Purge(""); purged != 0 {
		t.Fatal(purged)
	}
	mayfly.Clock.Advance(time.Second)
	if purged := mayfly.Purge("ydb:/local/carts"); purged != 1 {
		t.Fatal(purged)
	}
}

func TestEachTestBeginsEmpty(t *testing.T) {
	mayfly, _ := atStart(t)
	if now := mayfly.Clock.Now(); !now.Equal(start) {
		t.Fatal(now)
	}
	if _, known := mayfly.Clock.NextExpiry(); known || len(mayfly.Expired()) != 0 {
		t.Fatal("something is left")
	}
	if move := mayfly.Clock.AdvanceToNextExpiry(); move.Purged != 0 || !move.Now.Equal(start) {
		t.Fatal(move)
	}
	mayfly.Setenv()
	if os.Getenv("MONGODB_URI") != mayfly.Mongo.URI {
		t.Fatal(os.Environ())
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	mayfly, ctx := atStart(t)
	_, err := mayfly.Server.Purge(ctx, "cosmos:nowhere")
	var refusal *mayflydb.Error
	if !errors.As(err, &refusal) || refusal.Status != 404 {
		t.Fatal(err)
	}
	_, err = mayflydb.Serve(ctx, mayflydb.Options{Command: []string{"no-such-program"}})
	if err == nil {
		t.Fatal("it was there")
	}
	_, err = mayflydb.Serve(ctx, mayflydb.Options{Arguments: []string{"--no-such-flag"}})
	if err == nil {
		t.Fatal("it was known")
	}
}

// A process that is killed cannot stop its server.
func TestTheServerEndsWithItsStarter(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if os.Getenv("START_AND_WAIT") != "" {
		server, err := mayflydb.Serve(ctx, mayflydb.Options{})
		must(t, err)
		_, err = os.Stdout.WriteString(server.Admin + "\n")
		must(t, err)
		<-ctx.Done()
	}
	program, err := os.Executable()
	must(t, err)
	starter := exec.CommandContext(ctx, program, "-test.run", "^"+t.Name()+"$")
	starter.Env = append(os.Environ(), "START_AND_WAIT=1")
	output, err := starter.StdoutPipe()
	must(t, err)
	must(t, starter.Start())
	line := make([]byte, 200)
	n, err := output.Read(line)
	must(t, err)
	admin, err := url.Parse(string(line[:n-1]))
	must(t, err)
	must(t, starter.Process.Kill())
	_ = starter.Wait()
	for ctx.Err() == nil {
		connection, err := net.Dial("tcp", admin.Host)
		if err != nil {
			return
		}
		_ = connection.Close()
	}
	t.Fatal("the server is still there")
}
