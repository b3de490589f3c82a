package main

import (
	"context"
	"os"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"

	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// Step is one thing that happens on the node.
//
// admit: a pod arrives. start, stop: a container with a runtime id. remove: a
// pod is no longer active. restart: the kubelet starts anew, with another
// configuration where one is given; all active pods are admitted again, oldest
// first. wipe: drained, state files deleted, started anew.
type Step struct {
	Op        string   `json:"op"`
	Pod       *Pod     `json:"pod"`
	UID       string   `json:"uid"`
	Container string   `json:"container"`
	ID        string   `json:"id"`
	Kubelet   *Kubelet `json:"kubelet"`
}

// Case is one host, its kubelet and what happens.
type Case struct {
	Machine Machine `json:"machine"`
	Kubelet Kubelet `json:"kubelet"`
	Steps   []Step  `json:"steps"`
}

// MemoryBlock is memory held by a container over a set of NUMA nodes, bytes.
type MemoryBlock struct {
	NUMA []int  `json:"numa"`
	Type string `json:"type"`
	Size uint64 `json:"size"`
}

// Admission is the answer to one pod.
type Admission struct {
	UID    string `json:"uid"`
	Admit  bool   `json:"admit"`
	Reason string `json:"reason"`
}

// StepAnswer is what a step led to; sets are in cpuset list form.
type StepAnswer struct {
	Hangs      bool                                `json:"hangs"`
	Error      string                              `json:"error"`
	Admissions []Admission                         `json:"admissions"`
	Default    string                              `json:"default"`
	CPUs       map[string]map[string]string        `json:"cpus"`
	Memory     map[string]map[string][]MemoryBlock `json:"memory"`
	Free       map[int]map[string]uint64           `json:"free"`
	Groups     map[int][]int                       `json:"groups"`
}

// Answer is what a case led to: Start names the manager that refused to start.
type Answer struct {
	Start string       `json:"start"`
	Steps []StepAnswer `json:"steps"`
}

// node is the host during a case.
type node struct {
	machine   *Machine
	kubelet   *Kubelet
	directory string
	all       *managers
	pods      []*v1.Pod
}

func (c *Case) run(directory string, progress *Answer) Answer {
	defer os.RemoveAll(directory)
	n := &node{machine: &c.Machine, kubelet: &c.Kubelet, directory: directory}
	progress.Start = n.start()
	if progress.Start != "" {
		return *progress
	}
	for i := range c.Steps {
		progress.Steps = append(progress.Steps, n.do(&c.Steps[i]))
	}
	return *progress
}

// start answers the name of the manager that refused, or nothing.
func (n *node) start() string {
	all, err := startManagers(n.machine, n.kubelet, n.directory, n.pods)
	if err != nil {
		n.all = nil
		return strings.SplitN(err.Error(), ":", 2)[0]
	}
	n.all = all
	return ""
}

func (n *node) do(step *Step) StepAnswer {
	answer := StepAnswer{}
	if n.all == nil && step.Op != "wipe" && step.Op != "restart" && step.Op != "remove" {
		answer.Error = "stopped"
		return answer
	}
	switch step.Op {
	case "admit":
		pod := step.Pod.object()
		n.pods = append(n.pods, pod)
		answer.Admissions = append(answer.Admissions, n.admit(pod))
	case "start":
		n.startContainer(step)
	case "stop":
		_ = n.all.topology.RemoveContainer(step.ID)
	case "remove":
		n.drop(step.UID)
	case "restart":
		if step.Kubelet != nil {
			n.kubelet = step.Kubelet
		}
		if answer.Error = n.start(); answer.Error == "" {
			for _, pod := range append([]*v1.Pod{}, n.pods...) {
				answer.Admissions = append(answer.Admissions, n.admit(pod))
			}
		}
	case "wipe":
		if step.Kubelet != nil {
			n.kubelet = step.Kubelet
		}
		n.pods = nil
		_ = os.RemoveAll(n.directory)
		answer.Error = n.start()
	default:
		answer.Error = "unknown step " + step.Op
	}
	if n.all != nil {
		n.describe(&answer)
	}
	return answer
}

// admit asks the topology manager; a refused pod is failed, so not active.
func (n *node) admit(pod *v1.Pod) Admission {
	n.all.sources.set(n.pods)
	result := n.all.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
	if !result.Admit {
		n.drop(string(pod.UID))
	}
	return Admission{UID: string(pod.UID), Admit: result.Admit, Reason: result.Reason}
}

func (n *node) drop(uid string) {
	kept := []*v1.Pod{}
	for _, pod := range n.pods {
		if string(pod.UID) != uid {
			kept = append(kept, pod)
		}
	}
	n.pods = kept
	if n.all != nil {
		n.all.sources.set(kept)
	}
}

func (n *node) startContainer(step *Step) {
	for _, pod := range n.pods {
		if string(pod.UID) != step.UID {
			continue
		}
		for _, container := range append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
			if container.Name == step.Container {
				n.all.cpu.AddContainer(pod, &container, step.ID)
				n.all.memory.AddContainer(context.Background(), pod, &container, step.ID)
				n.all.topology.AddContainer(pod, &container, step.ID)
			}
		}
	}
}

func (n *node) describe(answer *StepAnswer) {
	cpus := n.all.cpu.State()
	answer.Default = cpus.GetDefaultCPUSet().String()
	answer.CPUs = map[string]map[string]string{}
	for uid, containers := range cpus.GetCPUAssignments() {
		answer.CPUs[uid] = map[string]string{}
		for name, set := range containers {
			answer.CPUs[uid][name] = set.String()
		}
	}
	memory := n.all.memory.State()
	answer.Memory = map[string]map[string][]MemoryBlock{}
	for uid, containers := range memory.GetMemoryAssignments() {
		answer.Memory[uid] = map[string][]MemoryBlock{}
		for name, blocks := range containers {
			described := []MemoryBlock{}
			for _, block := range blocks {
				numa := append([]int{}, block.NUMAAffinity...)
				sort.Ints(numa)
				described = append(described, MemoryBlock{NUMA: numa, Type: string(block.Type), Size: block.Size})
			}
			sort.Slice(described, func(i, j int) bool { return described[i].Type < described[j].Type })
			answer.Memory[uid][name] = described
		}
	}
	answer.Free = map[int]map[string]uint64{}
	answer.Groups = map[int][]int{}
	for id, state := range memory.GetMachineState() {
		answer.Free[id] = map[string]uint64{}
		for resource, table := range state.MemoryMap {
			answer.Free[id][string(resource)] = table.Free
		}
		group := append([]int{}, state.Cells...)
		sort.Ints(group)
		answer.Groups[id] = group
	}
}
