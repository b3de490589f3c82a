module slurmtwin.local/runc

go 1.24.0
