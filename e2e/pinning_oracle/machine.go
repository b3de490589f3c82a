package main

import (
	"sort"

	cadvisorapi "github.com/google/cadvisor/info/v1"
)

// CPU is one logical CPU with the ids of what it belongs to.
type CPU struct {
	CPU    int `json:"cpu"`
	Core   int `json:"core"`
	Socket int `json:"socket"`
	NUMA   int `json:"numa"`
	Uncore int `json:"uncore"`
}

// HugePages are the pages of one size on one NUMA node.
type HugePages struct {
	SizeKiB uint64 `json:"size_kib"`
	Count   uint64 `json:"count"`
}

// NUMANode is the memory of one NUMA node in bytes and its distances to all.
type NUMANode struct {
	ID        int         `json:"id"`
	Memory    uint64      `json:"memory"`
	HugePages []HugePages `json:"hugepages"`
	Distances []uint64    `json:"distances"`
}

// Machine is what cAdvisor would report of a host.
type Machine struct {
	CPUs []CPU      `json:"cpus"`
	NUMA []NUMANode `json:"numa"`
}

func (m *Machine) info() *cadvisorapi.MachineInfo {
	sockets := map[int]bool{}
	info := &cadvisorapi.MachineInfo{NumCores: len(m.CPUs)}
	for _, node := range m.NUMA {
		described := cadvisorapi.Node{Id: node.ID, Memory: node.Memory, Distances: node.Distances}
		for _, pages := range node.HugePages {
			described.HugePages = append(described.HugePages,
				cadvisorapi.HugePagesInfo{PageSize: pages.SizeKiB, NumPages: pages.Count})
		}
		cores := map[int]*cadvisorapi.Core{}
		for _, cpu := range m.CPUs {
			sockets[cpu.Socket] = true
			if cpu.NUMA != node.ID {
				continue
			}
			core := cores[cpu.Core]
			if core == nil {
				core = &cadvisorapi.Core{Id: cpu.Core, SocketID: cpu.Socket,
					UncoreCaches: []cadvisorapi.Cache{{Id: cpu.Uncore, Level: 3}}}
				cores[cpu.Core] = core
			}
			core.Threads = append(core.Threads, cpu.CPU)
		}
		ids := []int{}
		for id := range cores {
			ids = append(ids, id)
		}
		sort.Ints(ids)
		for _, id := range ids {
			described.Cores = append(described.Cores, *cores[id])
		}
		info.NumPhysicalCores += len(described.Cores)
		info.Topology = append(info.Topology, described)
	}
	info.NumSockets = len(sockets)
	return info
}
