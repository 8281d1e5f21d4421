// Command pod-load creates a pod through the API server over and over, and prints what came of it as JSON.
//
// The pod has a generateName, so that all are different. They stay: who made the namespace removes them.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"poolwarden.dev/controlplane/admission/posting"
)

const tokenVariable = "TOKEN" // of the environment: no command line shows it

func main() {
	flags := posting.Parse()
	pod, err := os.ReadFile(flags.BodyFile)
	if err != nil {
		log.Fatal(err)
	}
	authorization := "Bearer " + os.Getenv(tokenVariable)
	err = flags.Run(func(client *http.Client) (string, error) {
		request, err := http.NewRequest(http.MethodPost, flags.URL, bytes.NewReader(pod))
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", authorization)
		request.Header.Set("Content-Type", "application/json")
		return post(client, request)
	})
	if err != nil {
		log.Fatal(err)
	}
}

func post(client *http.Client, request *http.Request) (string, error) {
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil { // read to the end, the connection is used again
		return "", err
	}
	if answer.StatusCode != http.StatusCreated {
		return "", posting.BadAnswer(fmt.Sprintf("status %d", answer.StatusCode))
	}
	return "created", nil
}
