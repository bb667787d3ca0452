// Package mayflydb starts Mayfly in a process of its own, tells its addresses, and moves its clock.
//
// Tests use package mayflytest, whose calls fail the test instead of returning errors.
package mayflydb

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options of a server. The zero value is a server on free ports whose clock stands at the present second.
type Options struct {
	// Start is the time at which the clock starts.
	Start time.Time
	// Arguments are further flags of `mayfly serve`.
	Arguments []string
	// Command is the program that serves. Without it that is MAYFLY_COMMAND, or `mayfly` on the PATH.
	Command []string
	// RequestTimeout bounds each call of the admin API, such as a move of the clock. Without it that is a minute.
	RequestTimeout time.Duration
}

// Cosmos is the address for clients of Cosmos DB.
type Cosmos struct {
	Endpoint string `json:"endpoint"`
	Key      string `json:"key"`
}

// ConnectionString has endpoint and key.
func (c Cosmos) ConnectionString() string {
	return fmt.Sprintf("AccountEndpoint=%s;AccountKey=%s;", c.Endpoint, c.Key)
}

// Mongo is the address for MongoDB's clients.
type Mongo struct {
	URI string `json:"uri"`
}

// YDB is the address for YDB's clients.
type YDB struct {
	Endpoint string `json:"endpoint"`
	Database string `json:"database"`
}

// ConnectionString has endpoint and database, as ydb.Open takes it.
func (y YDB) ConnectionString() string { return y.Endpoint + y.Database }

// Server is a running server. Its methods may be called from any goroutine.
type Server struct {
	Cosmos Cosmos `json:"cosmos"`
	Mongo  Mongo  `json:"mongo"`
	YDB    YDB    `json:"ydb"`
	// Admin is the base of the admin API, without a slash at the end.
	Admin string `json:"admin"`

	patience time.Duration
	http     *http.Client
	stdin    io.Closer
	stopping chan struct{}
	stop     sync.Once
	ended    chan struct{}
	err      error
	kill     func() error
}

// Serve starts a server and returns when each of its listeners answers, or when ctx is done. Stop it with Stop; it ends with
// this process too, because its standard input does.
func Serve(ctx context.Context, options Options) (*Server, error) {
	program := []string{"mayfly"}
	if named := words(os.Getenv("MAYFLY_COMMAND")); len(named) > 0 {
		program = named
	}
	if len(options.Command) > 0 {
		program = options.Command
	}
	path, err := exec.LookPath(program[0])
	if err != nil {
		return nil, fmt.Errorf("run \"pip install\" on a clone of Mayfly, or set MAYFLY_COMMAND to the program: %w", err)
	}
	return launch(ctx, options, path, program[1:])
}

func launch(ctx context.Context, options Options, program string, arguments []string) (*Server, error) {
	arguments = append(append([]string(nil), arguments...), "serve", "--memory", "--clock", "virtual",
		"-p", "0", "--mongo-port", "0", "--ydb-port", "0", "--stop-with-stdin")
	if !options.Start.IsZero() {
		arguments = append(arguments, "--clock-start", options.Start.UTC().Format(time.RFC3339))
	}
	command := exec.Command(program, append(arguments, options.Arguments...)...)
	command.Env = environment()
	log := &tail{}
	command.Stderr = log
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	server := &Server{
		patience: options.RequestTimeout,
		// Of its own: the default one may be another's stand-in, or go through a proxy.
		http:     &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		stdin:    stdin,
		stopping: make(chan struct{}),
		ended:    make(chan struct{}),
		kill:     command.Process.Kill,
	}
	if server.patience <= 0 {
		server.patience = time.Minute
	}
	lines := make(chan []byte, 1)
	go func() {
		reader := bufio.NewReader(stdout)
		line, _ := reader.ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, reader)
		server.err = command.Wait()
		close(server.ended)
	}()
	select {
	case line := <-lines:
		if len(line) == 0 {
			<-server.ended
			return nil, fmt.Errorf("%s did not start: %w\n%s", program, server.err, log)
		}
		return server, json.Unmarshal(line, server)
	case <-ctx.Done():
		_ = command.Process.Kill()
		<-server.ended
		return nil, fmt.Errorf("%s was not ready: %w\n%s", program, context.Cause(ctx), log)
	}
}

// Stop ends the server, and returns when it has ended.
func (s *Server) Stop() error {
	s.stop.Do(func() { close(s.stopping) })
	if err := s.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		_ = s.kill()
		<-s.ended
	}
	return s.err
}

// Env has the variables in which applications look for their databases.
func (s *Server) Env() map[string]string {
	return map[string]string{
		"COSMOS_ENDPOINT":          s.Cosmos.Endpoint,
		"COSMOS_KEY":               s.Cosmos.Key,
		"COSMOS_CONNECTION_STRING": s.Cosmos.ConnectionString(),
		"MONGODB_URI":              s.Mongo.URI,
		"YDB_CONNECTION_STRING":    s.YDB.ConnectionString(),
	}
}

var word = regexp.MustCompile(`"[^"]*"|\S+`)

func words(line string) []string {
	found := word.FindAllString(line, -1)
	for n := range found {
		found[n] = strings.Trim(found[n], `"`)
	}
	return found
}

// environment is this process's, without the variable that is no setting of the server.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAYFLY_COMMAND=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// tail keeps the end of what the server logs.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

func (t *tail) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, text...)
	if over := len(t.text) - 4_000; over > 0 {
		t.text = append([]byte(nil), t.text[over:]...)
	}
	return len(text), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.text)
}
