// Package posting sends requests over and over, on connections like those of client-go, and sums up what came of them.
package posting

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	maxIdleConnections = 25                    // to one host, in client-go
	pauseAfterError    = 10 * time.Millisecond // lest a server that is down be asked in a busy loop
)

// Flags are those of every program that posts.
type Flags struct {
	URL, BodyFile string
	authority     string
	connections   int
	seconds       float64
	timeout       time.Duration
}

// Parse parses the command line.
func Parse() *Flags {
	var flags Flags
	flag.StringVar(&flags.URL, "url", "", "URL to post to, path included")
	flag.StringVar(&flags.BodyFile, "body", "", "file of the body to post")
	flag.StringVar(&flags.authority, "ca", "", "PEM file of the CA of the server's certificate")
	flag.IntVar(&flags.connections, "connections", 1, "requests under way at once")
	flag.Float64Var(&flags.seconds, "seconds", 5, "how long to post")
	flag.DurationVar(&flags.timeout, "timeout", 10*time.Second, "after which a request has failed")
	flag.Parse()
	return &flags
}

// Post sends one request; it returns what kind of answer came, or an error if none did that is of use.
type Post func(client *http.Client) (string, error)

// BadAnswer is a server's own fault.
type BadAnswer string

func (fault BadAnswer) Error() string { return string(fault) }

type summary struct {
	Connections  int            `json:"connections"`
	Seconds      float64        `json:"seconds"`
	Requests     int            `json:"requests"`
	Answers      map[string]int `json:"answers"` // by kind
	Errors       map[string]int `json:"errors"`  // by kind
	PerSecond    float64        `json:"answers_per_second"`
	Milliseconds latencies      `json:"milliseconds"`
}

type latencies struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Run posts as the flags say and prints the summary as JSON.
func (flags *Flags) Run(post Post) error {
	client, err := newClient(flags.authority, flags.connections, flags.timeout)
	if err != nil {
		return err
	}
	workers := make([]worker, flags.connections)
	began := time.Now()
	until := began.Add(time.Duration(flags.seconds * float64(time.Second)))
	var group sync.WaitGroup
	for at := range workers {
		group.Go(func() { workers[at] = work(client, post, until) })
	}
	group.Wait()
	return json.NewEncoder(os.Stdout).Encode(summed(workers, time.Since(began)))
}

// newClient makes a client with the transport that client-go would make, for as many connections.
func newClient(authority string, connections int, timeout time.Duration) (*http.Client, error) {
	pem, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	transport := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		// The API server speaks HTTP/1.1 to webhooks, that requests spread over their replicas; and with it each of our
		// connections is one client.
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: maxIdleConnections,
		MaxConnsPerHost:     connections,
		DisableCompression:  true,
	}
	return &http.Client{Transport: transport, Timeout: timeout}, nil
}

// worker is what came of the requests of one connection.
type worker struct {
	requests        int
	answers, errors map[string]int
	latencies       []time.Duration
}

func work(client *http.Client, post Post, until time.Time) worker {
	result := worker{answers: map[string]int{}, errors: map[string]int{}}
	for time.Now().Before(until) {
		began := time.Now()
		answer, err := post(client)
		took := time.Since(began)
		result.requests++
		if err != nil {
			result.errors[kind(err)]++
			time.Sleep(pauseAfterError)
			continue
		}
		result.answers[answer]++
		if result.requests > 1 { // the first one paid for the TLS handshake
			result.latencies = append(result.latencies, took)
		}
	}
	return result
}

func kind(err error) string {
	var fault BadAnswer
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.As(err, &fault):
		return fault.Error()
	case errors.As(err, &certificate):
		return "certificate"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	default:
		return err.Error()
	}
}

func summed(workers []worker, took time.Duration) summary {
	total := summary{
		Connections: len(workers), Seconds: took.Seconds(), Answers: map[string]int{}, Errors: map[string]int{},
	}
	var all []time.Duration
	answered := 0
	for _, each := range workers {
		total.Requests += each.requests
		for kind, count := range each.answers {
			total.Answers[kind] += count
			answered += count
		}
		for kind, count := range each.errors {
			total.Errors[kind] += count
		}
		all = append(all, each.latencies...)
	}
	slices.Sort(all)
	total.PerSecond = float64(answered) / took.Seconds()
	total.Milliseconds = latencies{P50: at(all, 0.50), P90: at(all, 0.90), P99: at(all, 0.99), Max: at(all, 1)}
	return total
}

// at returns the least latency, in milliseconds, that this share of the sorted ones does not exceed.
func at(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := max(int(math.Ceil(share*float64(len(sorted)))), 1)
	return float64(sorted[rank-1]) / float64(time.Millisecond)
}
