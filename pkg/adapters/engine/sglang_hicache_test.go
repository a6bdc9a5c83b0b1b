// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hiCacheWiring(hiCache HiCache) Wiring {
	return Wiring{FailOpen: true, HiCache: &hiCache, MatchLabels: map[string]string{"serve": "nova"}}
}

func TestHiCacheArgs(t *testing.T) {
	t.Parallel()
	size := HiCache{SizeGB: new(int32(48))}
	ratio := HiCache{Ratio: "2.0", WritePolicy: "write_back", IOBackend: "direct", MemoryLayout: "page_first"}
	tests := []struct {
		name     string
		hiCache  HiCache
		args     string
		want     string
		rejected string
	}{
		{name: "size", hiCache: size, args: "-m x", want: "-m x --enable-hierarchical-cache --hicache-size 48"},
		{name: "ratio with everything", hiCache: ratio, want: "--enable-hierarchical-cache --hicache-ratio 2.0 " +
			"--hicache-write-policy write_back --hicache-io-backend direct --hicache-mem-layout page_first"},
		{name: "present", hiCache: size, args: "--hicache-size=48 --enable-hierarchical-cache", want: "--hicache-size=48 --enable-hierarchical-cache"},
		{name: "equal integers", hiCache: size, args: "--hicache-size 048", want: "--hicache-size 048 --enable-hierarchical-cache"},
		{name: "equal numbers", hiCache: HiCache{Ratio: "2"}, args: "--hicache-ratio=2.000", want: "--hicache-ratio=2.000 --enable-hierarchical-cache"},
		{name: "optional, not asked for", hiCache: size, args: "--hicache-mem-layout page_head --hicache-io-backend=odd",
			want: "--hicache-mem-layout page_head --hicache-io-backend=odd --enable-hierarchical-cache --hicache-size 48"},
		{name: "longer flag", hiCache: size, args: "--hicache-sizes 1", want: "--hicache-sizes 1 --enable-hierarchical-cache --hicache-size 48"},

		{name: "LMCache", hiCache: size, args: "--enable-lmcache", rejected: "--enable-lmcache"},
		{name: "LMCache with a value", hiCache: size, args: "--enable-lmcache=true", rejected: "--enable-lmcache"},
		{name: "LMCache's file", hiCache: size, args: "--lmcache-config-file /x", rejected: "--lmcache-config-file"},
		{name: "LMCache's file with =", hiCache: size, args: "--lmcache-config-file=/x", rejected: "--lmcache-config-file"},
		{name: "value of the bare flag", hiCache: size, args: "--enable-hierarchical-cache=true", rejected: "--enable-hierarchical-cache"},
		{name: "bare flag twice", hiCache: size, args: "--enable-hierarchical-cache --enable-hierarchical-cache", rejected: "--enable-hierarchical-cache"},
		{name: "size twice", hiCache: size, args: "--hicache-size 48 --hicache-size=48", rejected: "--hicache-size"},
		{name: "optional twice", hiCache: size, args: "--hicache-io-backend direct --hicache-io-backend direct", rejected: "--hicache-io-backend"},
		{name: "nothing after =", hiCache: size, args: "--hicache-mem-layout=", rejected: "--hicache-mem-layout"},
		{name: "last", hiCache: size, args: "--hicache-write-policy", rejected: "--hicache-write-policy"},
		{name: "before another flag", hiCache: size, args: "--hicache-size --port 1", rejected: "--hicache-size"},
		{name: "optional before another flag", hiCache: size, args: "--hicache-io-backend --port 1", rejected: "--hicache-io-backend"},
		{name: "before a short flag", hiCache: size, args: "--hicache-size -1", rejected: "--hicache-size"},
		{name: "other capacity", hiCache: size, args: "--hicache-ratio 2", rejected: "--hicache-ratio"},
		{name: "other capacity, the other way", hiCache: HiCache{Ratio: "2"}, args: "--hicache-size=48", rejected: "--hicache-size"},
		{name: "different size", hiCache: size, args: "--hicache-size 49", rejected: "--hicache-size"},
		{name: "size that is none", hiCache: size, args: "--hicache-size 48.0", rejected: "--hicache-size"},
		{name: "different ratio", hiCache: ratio, args: "--hicache-ratio 2.1", rejected: "--hicache-ratio"},
		{name: "hexadecimal ratio", hiCache: ratio, args: "--hicache-ratio 0x2p0", rejected: "--hicache-ratio"},
		{name: "infinite ratio", hiCache: ratio, args: "--hicache-ratio inf", rejected: "--hicache-ratio"},
		{name: "different policy", hiCache: ratio, args: "--hicache-write-policy write_through", rejected: "--hicache-write-policy"},
		{name: "policy in other letters", hiCache: ratio, args: "--hicache-write-policy=Write_Back", rejected: "--hicache-write-policy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pod := enginePod("sglang", strings.Fields(tt.args)...)
			if tt.rejected != "" {
				mustReject(t, sglangHiCache, pod, hiCacheWiring(tt.hiCache), tt.rejected)
				return
			}
			wired := mustWire(t, sglangHiCache, pod, hiCacheWiring(tt.hiCache), Subscriber{})
			pod.Spec.Containers[0].Args = strings.Fields(tt.want)
			if diff := cmp.Diff(pod, wired); diff != "" {
				t.Errorf("pod (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHiCacheBackends(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*Wiring)
		want   string
	}{
		{name: "both capacities", change: func(w *Wiring) { w.HiCache.Ratio = "2" }, want: "sizeGB and ratio"},
		{name: "neither", change: func(w *Wiring) { w.HiCache.SizeGB = nil }, want: "sizeGB and ratio"},
		{name: "no hiCache", change: func(w *Wiring) { w.HiCache = nil }, want: "no hiCache"},
		{name: "size", change: func(w *Wiring) { w.HiCache.SizeGB = new(int32(0)) }, want: "sizeGB"},
		{name: "ratio 0", change: func(w *Wiring) { *w.HiCache = HiCache{Ratio: "0"} }, want: "ratio"},
		{name: "ratio below 0", change: func(w *Wiring) { *w.HiCache = HiCache{Ratio: "-1"} }, want: "ratio"},
		{name: "ratio too large", change: func(w *Wiring) { *w.HiCache = HiCache{Ratio: "1e999"} }, want: "ratio"},
		{name: "ratio too small", change: func(w *Wiring) { *w.HiCache = HiCache{Ratio: "1e-999"} }, want: "ratio"},
		{name: "no ratio", change: func(w *Wiring) { *w.HiCache = HiCache{Ratio: "nan"} }, want: "ratio"},
		{name: "policy", change: func(w *Wiring) { w.HiCache.WritePolicy = "odd" }, want: "writePolicy"},
		{name: "backend", change: func(w *Wiring) { w.HiCache.IOBackend = "odd" }, want: "ioBackend"},
		{name: "layout", change: func(w *Wiring) { w.HiCache.MemoryLayout = "odd" }, want: "memoryLayout"},
		{name: "role", change: func(w *Wiring) { w.Role = "ReadOnly" }, want: "role"},
		{name: "fail closed", change: func(w *Wiring) { w.FailOpen = false }, want: "failOpen"},
		{name: "mode", change: func(w *Wiring) { w.Mode = "Odd" }, want: "mode"},
		{name: "autoscaling", change: func(w *Wiring) { w.Autoscaling = true }, want: "autoscaling"},
		{name: "selector", change: func(w *Wiring) { w.MatchLabels = map[string]string{} }, want: "engineSelector"},
		{name: "override", change: func(w *Wiring) { w.Overrides.Args = []string{"--x", "--hicache-size=1"} }, want: "--hicache-size"},
		{name: "suppression", change: func(w *Wiring) { w.Overrides.SuppressArgs = []string{"--enable-hierarchical-cache"} }, want: "--enable-hierarchical-cache"},
		{name: "override of what is refused next time", change: func(w *Wiring) { w.Overrides.Args = []string{"--enable-lmcache"} }, want: "--enable-lmcache"},
		{name: "suppression of more than a flag", change: func(w *Wiring) { w.Overrides.SuppressArgs = []string{"--hicache-size=48"} }},
		{name: "all said", change: func(w *Wiring) { w.Mode, w.Role = "Offload", "ReadWrite" }},
		{name: "override of something else", change: func(w *Wiring) { w.Overrides.Args = []string{"--x", "1"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wiring := hiCacheWiring(HiCache{SizeGB: new(int32(48))})
			tt.change(&wiring)
			if tt.want != "" {
				mustReject(t, sglangHiCache, enginePod("sglang"), wiring, tt.want)
				return
			}
			mustWire(t, sglangHiCache, enginePod("sglang"), wiring, Subscriber{})
		})
	}
}
