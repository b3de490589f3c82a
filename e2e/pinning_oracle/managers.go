package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/cpuset"

	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// MemoryReservation is the memory of one NUMA node kept from pods, in bytes.
type MemoryReservation struct {
	NUMA      int   `json:"numa"`
	Memory    int64 `json:"memory"`
	HugePages int64 `json:"hugepages_2mi"`
}

// Kubelet is the part of a kubelet's configuration that the managers read.
type Kubelet struct {
	CPUPolicy        string              `json:"cpu_policy"`
	CPUOptions       map[string]string   `json:"cpu_options"`
	ReservedCPUs     string              `json:"reserved_cpus"`
	ReservedMilliCPU int64               `json:"reserved_milli_cpu"`
	TopologyPolicy   string              `json:"topology_policy"`
	TopologyScope    string              `json:"topology_scope"`
	TopologyOptions  map[string]string   `json:"topology_options"`
	MemoryPolicy     string              `json:"memory_policy"`
	ReservedMemory   []MemoryReservation `json:"reserved_memory"`
}

// managers is one life of a kubelet's three managers on a state directory.
type managers struct {
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
	topology topologymanager.Manager
	sources  *sources
}

// sources holds back the managers' clean-up until the reconcile goroutine has
// made its first round: all later rounds lie beyond the end of a case.
type sources struct {
	sync.Mutex
	ready bool
	asked chan struct{}
	once  sync.Once
	pods  []*v1.Pod
}

func (s *sources) AddSource(string) {}

func (s *sources) AllReady() bool {
	s.Lock()
	defer s.Unlock()
	return s.ready
}

func (s *sources) SeenAllSources(sets.Set[string]) bool { return true }

func (s *sources) active() []*v1.Pod {
	s.Lock()
	defer s.Unlock()
	if !s.ready {
		s.once.Do(func() { close(s.asked) })
		return nil
	}
	return s.pods
}

func (s *sources) set(pods []*v1.Pod) {
	s.Lock()
	defer s.Unlock()
	s.pods = pods
}

func (s *sources) release() {
	s.Lock()
	defer s.Unlock()
	s.ready = true
}

// GetPodStatus knows no pod: the managers then leave running containers alone.
func (s *sources) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (k *Kubelet) reservation() v1.ResourceList {
	reserved := v1.ResourceList{}
	if k.ReservedMilliCPU > 0 {
		reserved[v1.ResourceCPU] = *resource.NewMilliQuantity(k.ReservedMilliCPU, resource.DecimalSI)
	}
	memory, pages := int64(0), int64(0)
	for _, node := range k.ReservedMemory {
		memory += node.Memory
		pages += node.HugePages
	}
	if memory > 0 {
		reserved[v1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	}
	if pages > 0 {
		reserved["hugepages-2Mi"] = *resource.NewQuantity(pages, resource.BinarySI)
	}
	return reserved
}

func (k *Kubelet) memoryReservations() []kubeletconfig.MemoryReservation {
	reservations := []kubeletconfig.MemoryReservation{}
	for _, node := range k.ReservedMemory {
		limits := v1.ResourceList{}
		if node.Memory > 0 {
			limits[v1.ResourceMemory] = *resource.NewQuantity(node.Memory, resource.BinarySI)
		}
		if node.HugePages > 0 {
			limits["hugepages-2Mi"] = *resource.NewQuantity(node.HugePages, resource.BinarySI)
		}
		reservations = append(reservations,
			kubeletconfig.MemoryReservation{NumaNode: int32(node.NUMA), Limits: limits})
	}
	return reservations
}

// startManagers makes and starts the managers in the kubelet's own order.
func startManagers(machine *Machine, kubelet *Kubelet, directory string, pods []*v1.Pod) (*managers, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	info := machine.info()
	topology, err := topologymanager.NewManager(info.Topology, kubelet.TopologyPolicy,
		kubelet.TopologyScope, kubelet.TopologyOptions)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	reservedCPUs, err := cpuset.Parse(kubelet.ReservedCPUs)
	if err != nil {
		return nil, err
	}
	cpu, err := cpumanager.NewManager(kubelet.CPUPolicy, kubelet.CPUOptions, 10000*time.Hour, info,
		reservedCPUs, kubelet.reservation(), directory, topology)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	topology.AddHintProvider(cpu)
	ctx := context.Background()
	memory, err := memorymanager.NewManager(ctx, kubelet.MemoryPolicy, info, kubelet.reservation(),
		kubelet.memoryReservations(), directory, topology)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	topology.AddHintProvider(memory)
	all := &managers{cpu: cpu, memory: memory, topology: topology,
		sources: &sources{asked: make(chan struct{}), pods: pods}}
	if err := cpu.Start(all.sources.active, all.sources, all.sources, nil, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if kubelet.CPUPolicy == "static" {
		<-all.sources.asked
	}
	if err := memory.Start(ctx, all.sources.active, all.sources, all.sources, nil, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	all.sources.release()
	return all, nil
}
