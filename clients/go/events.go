package mayflydb

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The server says something every 15 seconds.
const silence = time.Minute

// Follow says which events a stream has. The zero value: all but writes, from now on.
type Follow struct {
	// Types are some of expired, purged, write, clock and reset.
	Types []string
	// Target is a container or a database, whose records alone are followed.
	Target string
	// After is the number of an expiry event behind which the stream begins; a pointer to 0: with the first.
	After *int64
}

// Event is one event of a stream.
type Event struct {
	// Type is expired, purged, write, clock, reset, or lost: events behind the wanted number are no longer kept.
	Type string
	// Seq is the number of an expiry event, behind which a stream can begin; 0: the event has none.
	Seq int64
	// Data has the members that the admin API's page describes; those of an expired event decode into Expired.
	Data json.RawMessage
}

// Stream is a stream of events. One goroutine reads it at a time.
type Stream struct {
	server *Server
	ctx    context.Context
	cancel context.CancelFunc
	query  string
	last   string
	body   io.ReadCloser
	lines  *bufio.Reader
	// Whether the server has said anything since the stream was opened again.
	heard bool
}

// Events opens a stream of events, which ends with ctx, or by Close.
func (s *Server) Events(ctx context.Context, follow Follow) (*Stream, error) {
	query := url.Values{}
	if len(follow.Types) > 0 {
		query.Set("types", strings.Join(follow.Types, ","))
	}
	if follow.Target != "" {
		query.Set("target", follow.Target)
	}
	if follow.After != nil {
		query.Set("after", strconv.FormatInt(*follow.After, 10))
	}
	ctx, cancel := context.WithCancel(ctx)
	stream := &Stream{server: s, ctx: ctx, cancel: cancel, query: query.Encode(), heard: true}
	// The number of its place comes first, so that a stream which breaks before its first event resumes there.
	if err := stream.open(); err != nil {
		stream.Close()
		return nil, err
	}
	if _, err := stream.frame(); err != nil {
		stream.Close()
		return nil, err
	}
	return stream, nil
}

// Next waits for the next event. A connection that breaks is opened again behind the last event, so that each expiry comes once;
// one that breaks again before the server says anything new, is an error. io.EOF: the server was stopped.
func (s *Stream) Next() (Event, error) {
	for {
		event, err := s.frame()
		if err == nil && event.Type != "" {
			return event, nil
		}
		if err == nil {
			continue
		}
		if err = s.resume(err); err != nil {
			return Event{}, err
		}
	}
}

// Close ends the stream.
func (s *Stream) Close() {
	s.cancel()
	if s.body != nil {
		_ = s.body.Close()
	}
}

func (s *Stream) resume(broken error) error {
	select {
	case <-s.server.stopping:
		return io.EOF
	default:
	}
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if !s.heard {
		return fmt.Errorf("the stream of events broke: %w", broken)
	}
	s.heard = false
	_ = s.body.Close()
	if err := s.open(); err != nil {
		return fmt.Errorf("the stream of events broke (%w), and cannot be resumed: %w", broken, err)
	}
	_, err := s.frame()
	s.heard = false
	return err
}

func (s *Stream) open() error {
	request, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.server.Admin+"/events?"+s.query, nil)
	if err != nil {
		return err
	}
	if s.last != "" {
		request.Header.Set("Last-Event-ID", s.last)
	}
	late := time.AfterFunc(s.server.patience, s.cancel)
	answer, err := s.server.http.Do(request)
	if !late.Stop() {
		return fmt.Errorf("no answer to GET events within %s", s.server.patience)
	}
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		_, err := read(answer)
		return err
	}
	s.body, s.lines = answer.Body, bufio.NewReader(answer.Body)
	return nil
}

// frame reads lines up to an empty one. Those that stand behind the last empty line did not arrive whole.
func (s *Stream) frame() (Event, error) {
	late := time.AfterFunc(silence, func() { _ = s.body.Close() })
	defer late.Stop()
	var event Event
	id := ""
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return Event{}, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n":
			s.heard = true
			return s.finish(event, id)
		case name == "event":
			event.Type = value
		case name == "id":
			id = value
		case name == "data":
			event.Data = json.RawMessage(value)
		}
	}
}

func (s *Stream) finish(event Event, id string) (Event, error) {
	if id == "" {
		return event, nil
	}
	s.last = id
	seq, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return Event{}, errors.New("the id of an event is no number: " + id)
	}
	event.Seq = seq
	return event, nil
}
