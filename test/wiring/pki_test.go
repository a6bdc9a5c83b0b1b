// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// webhookHost is the name that kube-apiserver calls the webhook by.
const webhookHost = "inference-cache-apiserver." + systemNamespace + ".svc"

// authority signs certificates. The cluster's own authorities keep their keys to themselves.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// pem is the certificate, as in a caBundle.
	pem []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key := newKey(t)
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: certificate.Raw})
	return &authority{certificate: certificate, key: key, pem: bundle}
}

// issue signs a certificate for the name, of a server or a client, that is good until that time.
func (a *authority) issue(t testing.TB, name string, until time.Time) tls.Certificate {
	t.Helper()
	key := newKey(t)
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-2 * time.Hour),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// inOneHour is when a certificate ends that is not the matter of a test.
func inOneHour() time.Time { return time.Now().Add(time.Hour) }

// ownCertificate is that of the API server.
func ownCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(env.APIServer.CertFile, env.APIServer.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
