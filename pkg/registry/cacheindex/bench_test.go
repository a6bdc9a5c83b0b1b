// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package cacheindex

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/utils/clock"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/install"
	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
	"inferencecache.io/inferencecache/pkg/cacheserver"
)

// rows is the number of replicas, and of tenants, in a large index.
const rows = 1000

// largeIndex is an answer of the cache server.
func largeIndex() string {
	var replicas, tenants []string
	for i := range rows {
		replicas = append(replicas, fmt.Sprintf(`{"replicaId":"llama-serve-5b9c7d6f4-%05d","tenant":"team-%03d","cacheMemoryBytes":17179869184,`+
			`"hitRate":0.4375,"pressure":0.0625,"lastUpdate":"2027-03-02T09:15:30.25Z","prefixCount":412,"lastEventAt":"2027-03-02T09:15:28.75Z",`+
			`"statsReported":true,"t2HitTokens":30720,"t2QueryTokens":51200}`, i, i))
		tenants = append(tenants, fmt.Sprintf(`{"tenantId":"team-%03d","indexEntries":412,"hitRate":0.4375,"hitRateReported":true,"memoryUsed":0}`, i))
	}
	return fmt.Sprintf(`{"replicas":[%s],"tenants":[%s],"totalPrefixes":%d,"hotPrefixes":0}`,
		strings.Join(replicas, ","), strings.Join(tenants, ","), 412*rows)
}

func encoder() runtime.Encoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return codecs.EncoderForVersion(info.Serializer, v1alpha1.APIVersion)
}

func largeSnapshot(b *testing.B) (*cacheserver.Client, *cacheserver.Snapshot) {
	b.Helper()
	body := largeIndex()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
	b.Cleanup(server.Close)
	client, err := cacheserver.New(cacheserver.Target{URL: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	snapshot, err := client.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return client, snapshot
}

// BenchmarkRefresh is what the API server does once a second while somebody watches: from the
// bytes of the cache server to an object, here one that has changed, encoded for watchers.
func BenchmarkRefresh(b *testing.B) {
	client, _ := largeSnapshot(b)
	store, encoder := newStore(clock.RealClock{}), encoder()
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		snapshot, err := client.Snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		snapshot.TotalPrefixes = n
		store.publish(project(snapshot, serverURL))
		state, _ := store.present()
		if err := encoder.Encode(state.news, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnchanged is the part after decoding for an index in which only times have moved.
func BenchmarkUnchanged(b *testing.B) {
	_, snapshot := largeSnapshot(b)
	store := newStore(clock.RealClock{})
	b.ReportAllocs()
	for b.Loop() {
		store.publish(project(snapshot, serverURL))
	}
}

// BenchmarkFanOut sends one change to watchers and encodes it for each, as the handlers do.
func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{1, 100} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			client, snapshot := largeSnapshot(b)
			rest := NewREST(client, serverURL, clock.RealClock{})
			defer rest.Destroy()
			encoder := encoder()
			sent := make(chan int64, watchers)
			for range watchers {
				watcher, err := rest.Watch(context.WithoutCancel(b.Context()), &metainternalversion.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				defer watcher.Stop()
				<-watcher.ResultChan()
				go func() {
					for event := range watcher.ResultChan() {
						_ = encoder.Encode(event.Object, io.Discard)
						if news, ok := event.Object.(*sharedObject); ok {
							sent <- total(news.object)
						}
					}
				}()
			}
			// The loop of the source must not come in between.
			rest.source.mu.Lock()
			rest.source.next = rest.source.clock.Now().Add(time.Hour)
			rest.source.mu.Unlock()
			b.ReportAllocs()
			for n := int64(1); b.Loop(); n++ {
				changed := *snapshot
				changed.TotalPrefixes = -n
				rest.store.publish(project(&changed, serverURL))
				for range watchers {
					for <-sent != -n {
					}
				}
			}
		})
	}
}
