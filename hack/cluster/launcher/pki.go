// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity outlives any local cluster.
const validity = 365 * 24 * time.Hour

// authority is a certificate authority whose files lie in one folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	// file is the path of the authority's certificate.
	file string
}

// newAuthority creates dir/name.crt. The key stays in memory: nobody but this process signs.
func newAuthority(dir, name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key of %s: %w", name, err)
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	a := &authority{dir: dir, cert: cert, key: key, file: filepath.Join(dir, name+".crt")}
	return a, writePEM(a.file, a.pem(), 0o644)
}

func (a *authority) pem() []byte {
	return encodeCertificate(a.cert.Raw)
}

// keyPair is a certificate and its key, in memory and in files.
type keyPair struct {
	cert, key         []byte
	certFile, keyFile string
}

// issue creates dir/name.crt and dir/name.key.
func (a *authority) issue(name string, config certutil.Config) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating key of %s: %w", name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, fmt.Errorf("generating serial number of %s: %w", name, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: config.CommonName, Organization: config.Organization},
		DNSNames:     config.AltNames.DNSNames,
		IPAddresses:  config.AltNames.IPs,
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  config.Usages,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", name, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding key of %s: %w", name, err)
	}
	pair := &keyPair{
		cert:     encodeCertificate(der),
		key:      keyPEM,
		certFile: filepath.Join(a.dir, name+".crt"),
		keyFile:  filepath.Join(a.dir, name+".key"),
	}
	if err := writePEM(pair.certFile, pair.cert, 0o644); err != nil {
		return nil, err
	}
	return pair, writePEM(pair.keyFile, pair.key, 0o600)
}

// client issues a client certificate: to Kubernetes the common name is the user and the organizations are its groups.
func (a *authority) client(name, user string, groups ...string) (*keyPair, error) {
	return a.issue(name, certutil.Config{
		CommonName: user, Organization: groups, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// newServiceAccountKey creates the key pair that signs service account tokens.
func newServiceAccountKey(dir string) (privateFile, publicFile string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("generating service account key: %w", err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", "", fmt.Errorf("encoding service account key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", "", fmt.Errorf("encoding public service account key: %w", err)
	}
	privateFile, publicFile = filepath.Join(dir, "service-account.key"), filepath.Join(dir, "service-account.pub")
	if err := writePEM(privateFile, private, 0o600); err != nil {
		return "", "", err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der})
	return privateFile, publicFile, writePEM(publicFile, public, 0o644)
}

// writeKubeconfig writes a self-contained kubeconfig, readable by its owner only.
func writeKubeconfig(file, server string, ca *authority, identity *keyPair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca.pem()}
	config.AuthInfos["local"] = &clientcmdapi.AuthInfo{ClientCertificateData: identity.cert, ClientKeyData: identity.key}
	config.Contexts["local"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "local"}
	config.CurrentContext = "local"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

func writePEM(file string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(file, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
