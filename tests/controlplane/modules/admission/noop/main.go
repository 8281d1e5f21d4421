// Command noop-webhook is the least that an admission webhook can do: it allows everything.
//
// It prints its URL once it listens. With -patch it answers paths that begin with /mutate with that JSON patch.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// The parts of admission.k8s.io/v1 that are needed, and the object, which every webhook takes out of the review.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID    string          `json:"uid"`
	Object json.RawMessage `json:"object"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	Patch     []byte `json:"patch,omitempty"`
	PatchType string `json:"patchType,omitempty"`
}

const idleTimeout = 2 * time.Minute // longer than the API server keeps a connection idle: 90 s

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen at")
	certificate := flag.String("certificate", "", "PEM file of the serving certificate")
	key := flag.String("key", "", "PEM file of its private key")
	patch := flag.String("patch", "", "JSON patch for paths that begin with /mutate")
	flag.Parse()
	if *patch != "" && !json.Valid([]byte(*patch)) {
		log.Fatal("-patch is not JSON")
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("https://%s\n", listener.Addr())
	server := http.Server{
		Handler:     handler([]byte(*patch)),
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		IdleTimeout: idleTimeout,
	}
	log.Fatal(server.ServeTLS(listener, "", ""))
}

func handler(patch []byte) http.HandlerFunc {
	return func(writer http.ResponseWriter, incoming *http.Request) {
		body, err := io.ReadAll(incoming.Body)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		var asked review
		if err := json.Unmarshal(body, &asked); err != nil || asked.Request == nil {
			http.Error(writer, "not an AdmissionReview", http.StatusBadRequest)
			return
		}
		answer := response{UID: asked.Request.UID, Allowed: true}
		if len(patch) > 0 && strings.HasPrefix(incoming.URL.Path, "/mutate") {
			answer.Patch, answer.PatchType = patch, "JSONPatch"
		}
		text, err := json.Marshal(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &answer})
		if err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_, _ = writer.Write(text) // the client is gone if that fails
	}
}
