// Package mayflytest gives a test a running Mayfly. Its calls fail the test instead of returning errors.
package mayflytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"mayflydb"
)

// Patience bounds the start of the server and each call of it.
const Patience = time.Minute

// Option of a test.
type Option func(*settings)

type settings struct {
	start time.Time
	seeds []any
}

// Start is the time at which the test's clock stands, in RFC 3339. Without it that is the second in which the server started.
func Start(moment string) Option {
	start, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		panic(err)
	}
	return func(s *settings) { s.start = start }
}

// Seed is what the test finds: paths of .json files with resource documents, or documents as values that are marshalled.
func Seed(sources ...any) Option {
	return func(s *settings) { s.seeds = append(s.seeds, sources...) }
}

// Server is the server of one test.
type Server struct {
	*mayflydb.Server
	// Clock is the server's clock. It stands still until it is moved.
	Clock Clock
	t     testing.TB
}

// Clock is the clock of one test's server. A move returns when all that it makes due is purged.
type Clock struct {
	server *mayflydb.Server
	t      testing.TB
}

var (
	turn   sync.Mutex
	shared *mayflydb.Server
)

// New gives the test the server that all tests of this process share: empty, its clock standing at the start. Parallel tests take
// turns, so a test calls New once, and its subtests use what it got. The server starts with the first test and ends with the
// process.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	var chosen settings
	for _, option := range options {
		option(&chosen)
	}
	turn.Lock()
	t.Cleanup(turn.Unlock)
	server := running(t)
	found := &Server{Server: server, Clock: Clock{server, t}, t: t}
	found.Reset("")
	found.Clock.Freeze()
	if !chosen.start.IsZero() {
		found.Clock.Set(chosen.start)
	}
	found.Seed(chosen.seeds...)
	return found
}

func running(t testing.TB) *mayflydb.Server {
	t.Helper()
	if shared == nil {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		server, err := mayflydb.Serve(ctx, mayflydb.Options{})
		check(t, err)
		shared = server
	}
	return shared
}

// Setenv sets the variables in which applications look for their databases, until the test ends.
func (s *Server) Setenv() {
	s.t.Helper()
	for name, value := range s.Env() {
		s.t.Setenv(name, value)
	}
}

// Reset deletes everything and puts the clock back to the server's start; with a target it deletes that alone.
func (s *Server) Reset(target string) {
	s.t.Helper()
	call(s.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Server.Reset(ctx, target) })
}

// Purge removes what is due now, whatever the schedule, and returns how many records. target "" is everything.
func (s *Server) Purge(target string) int {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (int, error) { return s.Server.Purge(ctx, target) })
}

// Seed makes what resource documents describe: paths of .json files, JSON as []byte, or values that are marshalled.
func (s *Server) Seed(sources ...any) mayflydb.Seeded {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (mayflydb.Seeded, error) { return s.Server.Seed(ctx, sources...) })
}

// Snapshot saves everything that is stored, and the clock, in the place of a snapshot of that name. Snapshots outlive the test.
func (s *Server) Snapshot(name string) mayflydb.Snapshot {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (mayflydb.Snapshot, error) { return s.Server.Snapshot(ctx, name) })
}

// Restore replaces everything by a snapshot, and returns the clock to its instant.
func (s *Server) Restore(name string) {
	s.t.Helper()
	call(s.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Server.Restore(ctx, name) })
}

// DeleteSnapshot deletes a snapshot.
func (s *Server) DeleteSnapshot(name string) {
	s.t.Helper()
	call(s.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Server.DeleteSnapshot(ctx, name) })
}

// Stats counts what is stored.
func (s *Server) Stats() mayflydb.Stats {
	s.t.Helper()
	return call(s.t, s.Server.Stats)
}

// Preview counts what a change of TTL settings would expire. It changes nothing.
func (s *Server) Preview(target string, change mayflydb.Change) mayflydb.Preview {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (mayflydb.Preview, error) { return s.Server.Preview(ctx, target, change) })
}

// Forecast counts deadlines from now to a horizon. target "" is everything.
func (s *Server) Forecast(horizon time.Duration, buckets int, target string) mayflydb.Forecast {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (mayflydb.Forecast, error) {
		return s.Server.Forecast(ctx, horizon, buckets, target)
	})
}

// Explain says when and why one record expires, or why it does not. pk is the value of Cosmos DB's partition key; nil: none.
func (s *Server) Explain(target, id string, pk any) mayflydb.Explanation {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) (mayflydb.Explanation, error) { return s.Server.Explain(ctx, target, id, pk) })
}

// Events opens a stream of events, and returns the function that waits for the next one. Events that do not come within Patience
// fail the test.
func (s *Server) Events(follow mayflydb.Follow) (next func() mayflydb.Event) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	stream, err := s.Server.Events(ctx, follow)
	check(s.t, err)
	return func() mayflydb.Event {
		s.t.Helper()
		late := time.AfterFunc(Patience, cancel)
		defer late.Stop()
		event, err := stream.Next()
		check(s.t, err)
		return event
	}
}

// Expired lists the records that age removed since the test began, in the order of their purges.
func (s *Server) Expired() []mayflydb.Expired {
	s.t.Helper()
	return call(s.t, func(ctx context.Context) ([]mayflydb.Expired, error) { return s.Server.Expired(ctx, "") })
}

// ExpiredIDs lists their ids.
func (s *Server) ExpiredIDs() []string {
	s.t.Helper()
	ids := []string{}
	for _, record := range s.Expired() {
		ids = append(ids, record.ID)
	}
	return ids
}

// Now returns the clock's time.
func (c Clock) Now() time.Time {
	c.t.Helper()
	return call(c.t, c.server.Now)
}

// Advance moves the clock through every deadline on the way.
func (c Clock) Advance(by time.Duration) mayflydb.Move {
	c.t.Helper()
	return call(c.t, func(ctx context.Context) (mayflydb.Move, error) { return c.server.Advance(ctx, by) })
}

// AdvanceToNextExpiry moves the clock to the next deadline, if there is one.
func (c Clock) AdvanceToNextExpiry() mayflydb.Move {
	c.t.Helper()
	return call(c.t, c.server.AdvanceToNextExpiry)
}

// Set moves the clock to an instant.
func (c Clock) Set(to time.Time) mayflydb.Move {
	c.t.Helper()
	return call(c.t, func(ctx context.Context) (mayflydb.Move, error) { return c.server.Set(ctx, to) })
}

// Freeze stops the clock.
func (c Clock) Freeze() {
	c.t.Helper()
	call(c.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.server.Freeze(ctx) })
}

// Resume lets the clock tick.
func (c Clock) Resume() {
	c.t.Helper()
	call(c.t, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.server.Resume(ctx) })
}

// NextExpiry returns the next deadline; false: no record expires.
func (c Clock) NextExpiry() (time.Time, bool) {
	c.t.Helper()
	var known bool
	due := call(c.t, func(ctx context.Context) (time.Time, error) {
		due, found, err := c.server.NextExpiry(ctx)
		known = found
		return due, err
	})
	return due, known
}

func call[T any](t testing.TB, act func(context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	value, err := act(ctx)
	check(t, err)
	return value
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("mayfly: %v", err)
	}
}
