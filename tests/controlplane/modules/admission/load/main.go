// Command review-load posts an AdmissionReview to a webhook over and over, on connections like the API server's, and
// prints what came of it as JSON.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
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
	pauseAfterError    = 10 * time.Millisecond // lest a webhook that is down be asked in a busy loop
	placeholder        = "00000000-0000-0000-0000-000000000000"
)

type summary struct {
	Connections  int            `json:"connections"`
	Seconds      float64        `json:"seconds"`
	Requests     int            `json:"requests"`
	Allowed      int            `json:"allowed"`
	Denied       int            `json:"denied"`
	Errors       map[string]int `json:"errors"`
	PerSecond    float64        `json:"reviews_per_second"` // those answered
	Milliseconds latencies      `json:"milliseconds"`
}

type latencies struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func main() {
	url := flag.String("url", "", "URL of the webhook, path included")
	authority := flag.String("ca", "", "PEM file of the CA of its certificate")
	bodyFile := flag.String("body", "", "file of the AdmissionReview to post; each request gets a uid of its own")
	connections := flag.Int("connections", 1, "requests under way at once")
	seconds := flag.Float64("seconds", 5, "how long to post")
	timeout := flag.Duration("timeout", 10*time.Second, "after which a request has failed")
	flag.Parse()

	body, err := readBody(*bodyFile)
	if err != nil {
		log.Fatal(err)
	}
	client, err := newClient(*authority, *connections, *timeout)
	if err != nil {
		log.Fatal(err)
	}
	result := run(client, *url, body, *connections, time.Duration(*seconds*float64(time.Second)))
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
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
		// The API server speaks HTTP/1.1 to webhooks, that requests spread over their replicas.
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: maxIdleConnections,
		MaxConnsPerHost:     connections,
		DisableCompression:  true,
	}
	return &http.Client{Transport: transport, Timeout: timeout}, nil
}

// template is an AdmissionReview around the place of its uid.
type template struct{ before, after []byte }

func readBody(file string) (template, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return template{}, err
	}
	var review map[string]json.RawMessage
	if err := json.Unmarshal(text, &review); err != nil {
		return template{}, err
	}
	var request map[string]json.RawMessage
	if err := json.Unmarshal(review["request"], &request); err != nil {
		return template{}, fmt.Errorf("request of %s: %w", file, err)
	}
	request["uid"] = json.RawMessage(`"` + placeholder + `"`)
	if review["request"], err = json.Marshal(request); err != nil {
		return template{}, err
	}
	if text, err = json.Marshal(review); err != nil {
		return template{}, err
	}
	before, after, found := bytes.Cut(text, []byte(placeholder))
	if !found || bytes.Contains(after, []byte(placeholder)) {
		return template{}, fmt.Errorf("%s holds the uid %s", file, placeholder)
	}
	return template{before, after}, nil
}

func (body template) with(uid string) []byte {
	return slices.Concat(body.before, []byte(uid), body.after)
}

// worker is what came of the requests of one connection.
type worker struct {
	requests, allowed, denied int
	errors                    map[string]int
	latencies                 []time.Duration
}

func run(client *http.Client, url string, body template, connections int, duration time.Duration) summary {
	workers := make([]worker, connections)
	began := time.Now()
	until := began.Add(duration)
	var group sync.WaitGroup
	for at := range workers {
		group.Go(func() { workers[at] = work(client, url, body, until) })
	}
	group.Wait()
	return summed(workers, time.Since(began))
}

func work(client *http.Client, url string, body template, until time.Time) worker {
	result := worker{errors: map[string]int{}}
	for time.Now().Before(until) {
		uid := newUID()
		began := time.Now()
		allowed, err := post(client, url, body.with(uid), uid)
		took := time.Since(began)
		result.requests++
		if err != nil {
			result.errors[kind(err)]++
			time.Sleep(pauseAfterError)
			continue
		}
		if allowed {
			result.allowed++
		} else {
			result.denied++
		}
		if result.requests > 1 { // the first one paid for the TLS handshake
			result.latencies = append(result.latencies, took)
		}
	}
	return result
}

// newUID makes a random UUID, version 4.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// badAnswer is a webhook's own fault.
type badAnswer string

func (fault badAnswer) Error() string { return string(fault) }

func post(client *http.Client, url string, body []byte, uid string) (bool, error) {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusOK {
		return false, badAnswer(fmt.Sprintf("status %d", answer.StatusCode))
	}
	var review struct {
		Response struct {
			UID     string `json:"uid"`
			Allowed bool   `json:"allowed"`
		} `json:"response"`
	}
	if err := json.Unmarshal(text, &review); err != nil {
		return false, badAnswer("no JSON")
	}
	if review.Response.UID != uid {
		return false, badAnswer("uid of another review")
	}
	return review.Response.Allowed, nil
}

func kind(err error) string {
	var fault badAnswer
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
	total := summary{Connections: len(workers), Seconds: took.Seconds(), Errors: map[string]int{}}
	var all []time.Duration
	for _, each := range workers {
		total.Requests += each.requests
		total.Allowed += each.allowed
		total.Denied += each.denied
		for kind, count := range each.errors {
			total.Errors[kind] += count
		}
		all = append(all, each.latencies...)
	}
	slices.Sort(all)
	total.PerSecond = float64(total.Allowed+total.Denied) / took.Seconds()
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
