// Command pinning_oracle drives the real kubelet's CPU, memory and topology
// managers (k8s.io/kubernetes as a module) through sequences of pods.
//
// It reads one case as a JSON line on stdin and writes one JSON line with what
// the managers answered. A case that makes a manager loop for ever is answered
// with "hangs" and ends the program with code 9: the caller starts it again
// behind that case.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

const hangLimit = 5 * time.Second

const exitHang = 9

func main() {
	klog.SetLogger(logr.Discard())
	klog.SetOutput(io.Discard)
	gates := "CPUManagerPolicyAlphaOptions=true,CPUManagerPolicyBetaOptions=true"
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		fail(err)
	}
	scratch, err := os.MkdirTemp("", "pinning-oracle-")
	if err != nil {
		fail(err)
	}
	code := answerAll(scratch)
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

func answerAll(scratch string) int {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder := json.NewDecoder(in)
	encoder := json.NewEncoder(out)
	for number := 0; ; number++ {
		var c Case
		if err := decoder.Decode(&c); err == io.EOF {
			return 0
		} else if err != nil {
			fail(fmt.Errorf("case %d: %w", number, err))
		}
		answer, hangs := answerInTime(&c, fmt.Sprintf("%s/%d", scratch, number))
		if err := encoder.Encode(answer); err != nil {
			fail(err)
		}
		if hangs {
			return exitHang
		}
	}
}

// answerInTime runs one case; an allocator that never ends is an answer too.
func answerInTime(c *Case, directory string) (Answer, bool) {
	done := make(chan Answer, 1)
	progress := &Answer{}
	go func() { done <- c.run(directory, progress) }()
	select {
	case answer := <-done:
		return answer, false
	case <-time.After(hangLimit):
		steps := append([]StepAnswer{}, progress.Steps...)
		return Answer{Start: progress.Start, Steps: append(steps, StepAnswer{Hangs: true})}, true
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "pinning_oracle:", err)
	os.Exit(2)
}
