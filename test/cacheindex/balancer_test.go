// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"inferencecache.io/inferencecache/test/cluster"
)

// balancer stands where kube-apiserver looks for the API server, and hands each request to a replica. It does so by request and
// not by connection, which kube-apiserver would use for all of them. To the replicas it is kube-apiserver.
type balancer struct {
	http.Server
	targets []*target

	mu    sync.Mutex
	count int
	// route, if it is set, chooses the replica for a request.
	route func(*http.Request) int
	// served counts the requests for CacheIndex by replica and kind.
	served map[string]int
}

type target struct {
	replica *replica
	proxy   *httputil.ReverseProxy
	out     bool
}

func startBalancer(at *cluster.Process, kubeFlags map[string]string, replicas []*replica) (*balancer, error) {
	b := &balancer{served: map[string]int{}}
	// The tests care for what kube-apiserver tells of a broken connection, not for this.
	quiet := log.New(io.Discard, "", 0)
	for _, r := range replicas {
		transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
			CAFile: at.CAFile, CertFile: kubeFlags["proxy-client-cert-file"], KeyFile: kubeFlags["proxy-client-key-file"],
		}})
		if err != nil {
			return nil, err
		}
		to := &url.URL{Scheme: "https", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(r.APIServer.Port))}
		b.targets = append(b.targets, &target{replica: r, proxy: &httputil.ReverseProxy{
			Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(to) },
			Transport:     transport,
			FlushInterval: -1,
			ErrorLog:      quiet,
		}})
	}
	certificate, err := tls.LoadX509KeyPair(at.CertFile, at.KeyFile)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port)))
	if err != nil {
		return nil, err
	}
	b.Handler = http.HandlerFunc(b.serve)
	b.ErrorLog = quiet
	b.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	go func() {
		if err := b.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			log.Print(err)
		}
	}()
	return b, nil
}

func (b *balancer) serve(w http.ResponseWriter, r *http.Request) {
	b.choose(r).proxy.ServeHTTP(w, r)
}

func (b *balancer) choose(r *http.Request) *target {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	choice := b.count % len(b.targets)
	index := strings.HasPrefix(r.URL.Path, indexPath)
	if b.route != nil && index {
		choice = b.route(r)
	}
	if b.targets[choice].out {
		choice = (choice + 1) % len(b.targets)
	}
	if index {
		b.served[fmt.Sprintf("%d watch=%t", choice, watches(r))]++
	}
	return b.targets[choice]
}

// take gives a replica requests, or none.
func (b *balancer) take(r *replica, in bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, target := range b.targets {
		if target.replica == r {
			target.out = !in
		}
	}
}

// split sends reads of CacheIndex to one replica and watches to the other, until undone.
func (b *balancer) split(lists int) (undo func()) {
	b.setRoute(func(r *http.Request) int {
		if watches(r) {
			return 1 - lists
		}
		return lists
	})
	return func() { b.setRoute(nil) }
}

func (b *balancer) setRoute(route func(*http.Request) int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.route = route
}

func (b *balancer) servedBy(choice int, watch bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served[fmt.Sprintf("%d watch=%t", choice, watch)]
}

func watches(r *http.Request) bool {
	watch, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return watch
}

// Close ends the balancer and what it carries.
func (b *balancer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.Shutdown(ctx) == nil {
		return nil
	}
	return b.Server.Close()
}
