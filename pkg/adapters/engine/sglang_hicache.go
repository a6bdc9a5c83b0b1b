// Copyright The Inference Cache Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"inferencecache.io/inferencecache/pkg/apis/inferencecache/v1alpha1"
)

const (
	argEnableHiCache = "--enable-hierarchical-cache"
	argHiCacheSize   = "--hicache-size"
	argHiCacheRatio  = "--hicache-ratio"
	argHiCacheWrite  = "--hicache-write-policy"
	argHiCacheIO     = "--hicache-io-backend"
	argHiCacheLayout = "--hicache-mem-layout"
)

// hiCacheReserved stands by itself, since the injection refers to it.
var hiCacheReserved = []string{
	argEnableHiCache,
	argHiCacheSize,
	argHiCacheRatio,
	argHiCacheWrite,
	argHiCacheIO,
	argHiCacheLayout,
}

// sglangHiCache is SGLang with its own hierarchical cache, which has no remote tier.
var sglangHiCache = table{
	pair:          Pair{Runtime: v1alpha1.RuntimeSGLang, Type: v1alpha1.CacheTypeSGLangHiCache},
	reservedArgs:  hiCacheReserved,
	hostOnly:      true,
	containerName: ContainerSGLang,
	hashScheme:    hashSchemeSGLang,
	injection:     injectHiCache,
}

// setting is a flag with the value that the backend asks for.
type setting struct {
	flag, value string
	// equal compares values; nil means to the letter.
	equal func(a, b string) bool
}

// injectHiCache adds what is missing of SGLang's flags. A flag that the user has set must
// say what the backend says, and stays as it is.
func injectHiCache(_ *corev1.PodSpec, container *corev1.Container, wiring Wiring) error {
	if err := checkHiCacheBackend(wiring); err != nil {
		return err
	}
	settings := hiCacheSettings(*wiring.HiCache)
	if err := checkHiCacheArgs(container.Args, settings); err != nil {
		return err
	}
	args := setFlag(container.Args, argEnableHiCache)
	for _, s := range settings {
		if len(flagOccurrences(args, s.flag)) == 0 {
			args = append(args, s.flag, s.value)
		}
	}
	container.Args = args
	return nil
}

// hiCacheSettings lists the settings in the order in which they are appended.
func hiCacheSettings(hiCache HiCache) []setting {
	var settings []setting
	if hiCache.SizeGB != nil {
		settings = append(settings, setting{flag: argHiCacheSize, value: strconv.Itoa(int(*hiCache.SizeGB)), equal: equalIntegers})
	} else {
		settings = append(settings, setting{flag: argHiCacheRatio, value: hiCache.Ratio, equal: equalNumbers})
	}
	for _, s := range []setting{
		{flag: argHiCacheWrite, value: string(hiCache.WritePolicy)},
		{flag: argHiCacheIO, value: string(hiCache.IOBackend)},
		{flag: argHiCacheLayout, value: string(hiCache.MemoryLayout)},
	} {
		if s.value != "" {
			settings = append(settings, s)
		}
	}
	return settings
}

// checkHiCacheArgs looks at the engine's own arguments, before anything is added to them.
func checkHiCacheArgs(args []string, settings []setting) error {
	for _, flag := range []string{argEnableLMCache, argLMCacheConfigFile} {
		if len(flagOccurrences(args, flag)) > 0 {
			return fmt.Errorf("the argument %s turns LMCache on; remove it or change the type of the backend", flag)
		}
	}
	switch enabled := flagOccurrences(args, argEnableHiCache); {
	case len(enabled) > 1:
		return fmt.Errorf("the argument %s occurs more than once; keep one", argEnableHiCache)
	case len(enabled) == 1 && args[enabled[0]] != argEnableHiCache:
		return fmt.Errorf("the argument %s takes no value; remove the value", argEnableHiCache)
	}
	for _, flag := range hiCacheReserved[1:] {
		if err := checkHiCacheArg(args, flag, settings); err != nil {
			return err
		}
	}
	return nil
}

func checkHiCacheArg(args []string, flag string, settings []setting) error {
	occurrences := flagOccurrences(args, flag)
	if len(occurrences) == 0 {
		return nil
	}
	if len(occurrences) > 1 {
		return fmt.Errorf("the argument %s occurs more than once; keep one", flag)
	}
	value, ok := flagValue(args, occurrences[0])
	if !ok {
		return fmt.Errorf("the argument %s has no value; add it or remove the argument", flag)
	}
	i := slices.IndexFunc(settings, func(s setting) bool { return s.flag == flag })
	switch {
	case i < 0 && (flag == argHiCacheSize || flag == argHiCacheRatio):
		return fmt.Errorf("the argument %s sets the capacity, and the backend sets it with %s; remove the argument", flag, settings[0].flag)
	case i < 0 || settings[i].matches(value):
		return nil
	}
	return fmt.Errorf("the argument %s is %q and the backend asks for %q; remove the argument", flag, value, settings[i].value)
}

func (s setting) matches(value string) bool {
	if s.equal == nil {
		return value == s.value
	}
	return s.equal(value, s.value)
}

// flagOccurrences returns where a flag stands, alone or with =.
func flagOccurrences(args []string, flag string) []int {
	var indexes []int
	for i, arg := range args {
		if arg == flag || strings.HasPrefix(arg, flag+"=") {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// flagValue returns the value of the flag at an index, and false if it has none. A single
// dash begins a negative number, which is a value, and a wrong one.
func flagValue(args []string, i int) (string, bool) {
	if _, value, joined := strings.Cut(args[i], "="); joined {
		return value, value != ""
	}
	if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
		return "", false
	}
	return args[i+1], true
}

func equalIntegers(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	return errX == nil && errY == nil && x == y
}

func equalNumbers(a, b string) bool {
	x, okX := finite(a)
	y, okY := finite(b)
	return okX && okY && x == y
}

// finite reads a decimal number. What strconv reads beyond them, such as hexadecimal
// numbers, the engine's command line does not.
func finite(text string) (float64, bool) {
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil && !math.IsInf(number, 0)
}

// checkHiCacheBackend refuses what a stored backend may say, having been stored under laxer
// rules, and HiCache has no counterpart for.
func checkHiCacheBackend(wiring Wiring) error {
	switch {
	case wiring.Mode != "" && wiring.Mode != v1alpha1.IntegrationModeOffload:
		return fmt.Errorf("the backend has the mode %q, and HiCache supports only %s", wiring.Mode, v1alpha1.IntegrationModeOffload)
	case wiring.Role != "" && wiring.Role != v1alpha1.IntegrationRoleReadWrite:
		return fmt.Errorf("the backend has the role %q, and HiCache supports only %s", wiring.Role, v1alpha1.IntegrationRoleReadWrite)
	case !wiring.FailOpen:
		return errors.New("the backend has failOpen false, and HiCache cannot fail closed")
	case wiring.Autoscaling:
		return errors.New("the backend has autoscaling, and HiCache has nothing to scale")
	case len(wiring.MatchLabels) == 0:
		return errors.New("the backend has no labels in its engineSelector")
	case wiring.HiCache == nil:
		return errors.New("the backend has no hiCache")
	}
	if err := checkHiCacheValues(*wiring.HiCache); err != nil {
		return err
	}
	return checkHiCacheOverrides(wiring.Overrides)
}

func checkHiCacheValues(hiCache HiCache) error {
	switch {
	case (hiCache.SizeGB == nil) == (hiCache.Ratio == ""):
		return errors.New("the backend needs one of sizeGB and ratio in its hiCache, and not both")
	case hiCache.SizeGB != nil && *hiCache.SizeGB < 1:
		return fmt.Errorf("the backend has the sizeGB %d in its hiCache, which is less than 1", *hiCache.SizeGB)
	}
	if ratio, ok := finite(hiCache.Ratio); hiCache.Ratio != "" && (!ok || ratio <= 0) {
		return fmt.Errorf("the backend has the ratio %q in its hiCache, which is no finite number above 0", hiCache.Ratio)
	}
	switch hiCache.WritePolicy {
	case "", v1alpha1.HiCacheWriteBack, v1alpha1.HiCacheWriteThrough, v1alpha1.HiCacheWriteThroughSelective:
	default:
		return fmt.Errorf("the backend has the unknown writePolicy %q in its hiCache", hiCache.WritePolicy)
	}
	switch hiCache.IOBackend {
	case "", v1alpha1.HiCacheIODirect, v1alpha1.HiCacheIOKernel, v1alpha1.HiCacheIOKernelAscend:
	default:
		return fmt.Errorf("the backend has the unknown ioBackend %q in its hiCache", hiCache.IOBackend)
	}
	switch hiCache.MemoryLayout {
	case "", v1alpha1.HiCacheLayoutLayerFirst, v1alpha1.HiCacheLayoutPageFirst, v1alpha1.HiCacheLayoutPageFirstDirect,
		v1alpha1.HiCacheLayoutPageFirstKVSplit, v1alpha1.HiCacheLayoutPageHead:
	default:
		return fmt.Errorf("the backend has the unknown memoryLayout %q in its hiCache", hiCache.MemoryLayout)
	}
	return nil
}

// checkHiCacheOverrides refuses overrides of the flags, and those that would make the pod
// one that is refused when it is wired again.
func checkHiCacheOverrides(overrides Overrides) error {
	for _, arg := range overrides.Args {
		flag, _, _ := strings.Cut(arg, "=")
		if slices.Contains(hiCacheReserved, flag) || flag == argEnableLMCache || flag == argLMCacheConfigFile {
			return fmt.Errorf("the backend overrides the argument %s, which HiCache cannot work with; remove the override", flag)
		}
	}
	for _, flag := range overrides.SuppressArgs {
		if slices.Contains(hiCacheReserved, flag) {
			return fmt.Errorf("the backend suppresses the argument %s, which HiCache cannot work without; remove the entry", flag)
		}
	}
	return nil
}
