// Command review-load posts an AdmissionReview to a webhook over and over, on connections like the API server's, and
// prints what came of it as JSON.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"

	"poolwarden.dev/controlplane/admission/posting"
)

const placeholder = "00000000-0000-0000-0000-000000000000"

func main() {
	flags := posting.Parse()
	body, err := readBody(flags.BodyFile)
	if err != nil {
		log.Fatal(err)
	}
	err = flags.Run(func(client *http.Client) (string, error) {
		uid := newUID()
		return post(client, flags.URL, body.with(uid), uid)
	})
	if err != nil {
		log.Fatal(err)
	}
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

// newUID makes a random UUID, version 4.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func post(client *http.Client, url string, body []byte, uid string) (string, error) {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", posting.BadAnswer(fmt.Sprintf("status %d", answer.StatusCode))
	}
	var review struct {
		Response struct {
			UID     string `json:"uid"`
			Allowed bool   `json:"allowed"`
		} `json:"response"`
	}
	if err := json.Unmarshal(text, &review); err != nil {
		return "", posting.BadAnswer("no JSON")
	}
	if review.Response.UID != uid {
		return "", posting.BadAnswer("uid of another review")
	}
	if !review.Response.Allowed {
		return "denied", nil
	}
	return "allowed", nil
}
