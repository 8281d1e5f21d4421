// Verifies a serving certificate as kube-apiserver's TLS client does: verify BUNDLE LEAF NAME.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func read(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		fail(err)
	}
	return text
}

func main() {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(read(os.Args[1])) {
		fail("no certificate in the bundle")
	}
	block, _ := pem.Decode(read(os.Args[2]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		fail(err)
	}
	if _, err = leaf.Verify(x509.VerifyOptions{DNSName: os.Args[3], Roots: roots}); err != nil {
		fail(err)
	}
}
