package main

import (
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
)

// authority makes certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	made int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	spec := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(spec, spec, a.key, a.key)
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(spec, by *x509.Certificate, key, with *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, spec, by, &key.PublicKey, with)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

func (a *authority) write(name, kind string, raw []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue makes a certificate of that common name, for this machine and for clients, in name.pem and
// name.key.
func (a *authority) issue(name string) tls.Certificate {
	a.t.Helper()
	return a.until(time.Now().Add(time.Hour), name)
}

// outdated is issue for a certificate that ran out a minute ago.
func (a *authority) outdated(name string) tls.Certificate {
	a.t.Helper()
	return a.until(time.Now().Add(-time.Minute), name)
}

func (a *authority) until(end time.Time, name string) tls.Certificate {
	a.t.Helper()
	a.made++
	key := a.newKey()
	cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(1 + a.made), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
	}, a.cert, key, a.key)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", "CERTIFICATE", cert.Raw)
	a.write(name+".key", "PRIVATE KEY", raw)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

// trusting is for clients that trust the authority, and show these certificates.
func (a *authority) trusting(shown ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, Certificates: shown, MinVersion: tls.VersionTLS12}
}
