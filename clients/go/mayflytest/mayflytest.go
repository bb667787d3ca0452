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
	seed  any
}

// Start is the time at which the test's clock stands, in RFC 3339. Without it that is the second in which the server started.
func Start(moment string) Option {
	start, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		panic(err)
	}
	return func(s *settings) { s.start = start }
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
