// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// FuzzArgPair checks that a flag gets its value, that a second time changes nothing, and
// that no other argument is lost.
func FuzzArgPair(f *testing.F) {
	f.Add("", "value")
	f.Add("serve\nmodel", "value")
	f.Add("--flag\nold\n--other", "value")
	f.Add("--flag=old\n--flag\n--other", "-1")
	f.Add("--flag", "--flag")
	f.Add("--flag\n--flag\n--flag=", "")
	f.Fuzz(func(t *testing.T, text, value string) {
		const flag = "--flag"
		args := lines(text)
		once := setArgPair(slices.Clone(args), flag, value)
		i := slices.Index(once, flag)
		if i < 0 || i+1 == len(once) || once[i+1] != value {
			t.Fatalf("%q has no %s %q", once, flag, value)
		}
		if twice := setArgPair(slices.Clone(once), flag, value); !slices.Equal(once, twice) {
			t.Errorf("%q becomes %q", once, twice)
		}
		if !subsequence(without(args, flag), once) {
			t.Errorf("%q lost something of %q", once, args)
		}
	})
}

// without returns the arguments but for the first occurrence of a flag and its value.
func without(args []string, flag string) []string {
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, flag+"="), arg == flag && (i+1 == len(args) || strings.HasPrefix(args[i+1], "-")):
			return slices.Concat(args[:i], args[i+1:])
		case arg == flag:
			return slices.Concat(args[:i], args[i+2:])
		}
	}
	return args
}

// FuzzEnv checks the same of variables.
func FuzzEnv(f *testing.F) {
	f.Add("", "NAME", "value")
	f.Add("NAME=a\nOTHER=b\nNAME=c", "NAME", "value")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		before := variables(text)
		once := setEnv(slices.Clone(before), name, value)
		if i := indexEnv(once, name); once[i].Value != value || once[i].ValueFrom != nil {
			t.Fatalf("%v has no %s=%s", once, name, value)
		}
		if twice := setEnv(slices.Clone(once), name, value); !reflect.DeepEqual(once, twice) {
			t.Errorf("%v becomes %v", once, twice)
		}
		if left := removeEnv(slices.Clone(once), name); indexEnv(left, name) >= 0 {
			t.Errorf("%s is still in %v", name, left)
		}
	})
}

// FuzzOverrides injects, merges, and does both again with the result. It must come out as
// it was, and with everything in it that is the user's.
func FuzzOverrides(f *testing.F) {
	f.Add("serve\n--port\n80", "--x\n1", "--x", "--x\n2\n--n=3", "HOME=/", "LMCACHE_CHUNK_SIZE=256", "LMCACHE_CHUNK_SIZE", "LMCACHE_CHUNK_SIZE=64\nLOG=1")
	f.Add("--kv-transfer-config\n{}", "", "--kv-transfer-config", "--kv-transfer-config=a\n--new\npos", "", "", "", "")
	f.Add("--x=1\n--x\n2", "--y", "--y", "--y\n--z\n-1\npos", "A=1\nA=2", "A=3", "A", "A=4\nA=5\nB=6")
	f.Fuzz(func(t *testing.T, args, injectArgs, suppressArgs, overrideArgs, env, injectEnv, suppressEnv, overrideEnv string) {
		pairs := injectedPairs(injectArgs)
		inject := func(c *corev1.Container) {
			for _, pair := range pairs {
				c.Args = setArgPair(c.Args, pair[0], pair[1])
			}
			for _, entry := range variables(injectEnv) {
				c.Env = setEnv(c.Env, entry.Name, entry.Value)
			}
		}
		overrides := Overrides{
			Args: notInjected(pairs, lines(overrideArgs)), SuppressArgs: notInjected(pairs, lines(suppressArgs)),
			Env: variables(overrideEnv), SuppressEnv: lines(suppressEnv),
		}
		merge := func(template corev1.Container) (injected, merged corev1.Container) {
			c := template.DeepCopy()
			inject(c)
			injected = *c.DeepCopy()
			applyOverrides(&template, c, overrides)
			return injected, *c
		}

		template := corev1.Container{Args: lines(args), Env: variables(env)}
		injected, once := merge(template)
		_, twice := merge(*once.DeepCopy())
		if !slices.Equal(once.Args, twice.Args) {
			t.Errorf("arguments %q become %q", once.Args, twice.Args)
		}
		if !slices.EqualFunc(once.Env, twice.Env, sameEnv) {
			t.Errorf("environment %v becomes %v", once.Env, twice.Env)
		}
		if want := usersArgs(template.Args, injected.Args); !subsequence(want, once.Args) {
			t.Errorf("%q lost something of the user's %q", once.Args, want)
		}
		for name, entry := range envValues(template.Env) {
			if old, had := envValues(injected.Env)[name]; had && sameEnv(entry, old) && !sameEnv(envValues(once.Env)[name], entry) {
				t.Errorf("the user's %s is not as it was: %v", name, once.Env)
			}
		}
	})
}

// injectedPairs returns flags with values, each flag once, as adapters inject them.
func injectedPairs(text string) [][2]string {
	var pairs [][2]string
	seen := map[string]bool{}
	words := lines(text)
	for i := 0; i+1 < len(words); i += 2 {
		flag := "--" + strings.TrimLeft(strings.ReplaceAll(words[i], "=", ""), "-")
		if seen[flag] {
			continue
		}
		seen[flag] = true
		pairs = append(pairs, [2]string{flag, "v" + words[i+1]})
	}
	return pairs
}

// notInjected leaves out the flags that are injected. All that adapters inject are reserved.
func notInjected(pairs [][2]string, args []string) []string {
	return slices.DeleteFunc(args, func(arg string) bool {
		flag := splitArgs([]string{arg})[0].flag
		return slices.ContainsFunc(pairs, func(pair [2]string) bool { return pair[0] == flag })
	})
}

// usersArgs returns the arguments that the injection left alone.
func usersArgs(before, after []string) []string {
	var users []string
	changed := changedArgs(splitArgs(before), splitArgs(after))
	for _, arg := range splitArgs(after) {
		if arg.flag == "" || !changed[arg.flag] {
			users = append(users, arg.slots...)
		}
	}
	return users
}

// FuzzWire wires pods and backends that were never validated.
func FuzzWire(f *testing.F) {
	for _, c := range loadWired(f) {
		pod, err := json.Marshal(c.Pod)
		if err != nil {
			f.Fatal(err)
		}
		wiring, err := json.Marshal(wiringOf(chosen(f, c)))
		if err != nil {
			f.Fatal(err)
		}
		for i := range adapters {
			f.Add(byte(i), pod, wiring, c.Options.SubscriberImage)
		}
	}
	f.Fuzz(func(t *testing.T, index byte, podText, wiringText []byte, image string) {
		if len(podText)+len(wiringText) > 1<<16 {
			return
		}
		var pod corev1.Pod
		var wiring Wiring
		if json.Unmarshal(podText, &pod) != nil || json.Unmarshal(wiringText, &wiring) != nil {
			return
		}
		adapter := adapters[int(index)%len(adapters)]
		wiring.Overrides = withoutReserved(adapter, wiring.Overrides)
		checkWire(t, adapter, &pod, wiring, Subscriber{Image: image})
	})
}

// withoutReserved leaves out the overrides that no backend can have.
func withoutReserved(adapter Adapter, overrides Overrides) Overrides {
	reservedArg := func(arg string) bool {
		return slices.Contains(adapter.ReservedArgs(), splitArgs([]string{arg})[0].flag)
	}
	reservedEnv := func(name string) bool { return slices.Contains(adapter.ReservedEnv(), name) }
	overrides.Args = slices.DeleteFunc(slices.Clone(overrides.Args), reservedArg)
	overrides.SuppressArgs = slices.DeleteFunc(slices.Clone(overrides.SuppressArgs), reservedArg)
	overrides.Env = slices.DeleteFunc(slices.Clone(overrides.Env), func(e corev1.EnvVar) bool { return reservedEnv(e.Name) })
	overrides.SuppressEnv = slices.DeleteFunc(slices.Clone(overrides.SuppressEnv), reservedEnv)
	return overrides
}

// checkWire wires a pod twice. It says whether that was possible.
func checkWire(t *testing.T, adapter Adapter, pod *corev1.Pod, wiring Wiring, subscriber Subscriber) bool {
	t.Helper()
	before := pod.DeepCopy()
	once, err := Wire(adapter, pod, wiring, subscriber)
	if !reflect.DeepEqual(before, pod) {
		t.Fatal("the pod was changed")
	}
	if err != nil {
		var rejected *RejectedError
		if once != nil || !errors.Is(err, ErrNothingToWire) && !errors.As(err, &rejected) {
			t.Fatalf("result %v with the error %v", once, err)
		}
		return false
	}
	wired := once.DeepCopy()
	twice, err := Wire(adapter, once, wiring, subscriber)
	if err != nil {
		t.Fatalf("wiring again: %v", err)
	}
	if !reflect.DeepEqual(wired, twice) {
		t.Errorf("wiring again changes the pod:\n%s\n%s", dump(t, wired), dump(t, twice))
	}
	return true
}

func dump(t *testing.T, pod *corev1.Pod) []byte {
	t.Helper()
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func variables(text string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, line := range lines(text) {
		name, value, _ := strings.Cut(line, "=")
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env
}

// subsequence says whether a list has all items of another, in their order.
func subsequence(items, list []string) bool {
	for _, item := range list {
		if len(items) > 0 && items[0] == item {
			items = items[1:]
		}
	}
	return len(items) == 0
}
