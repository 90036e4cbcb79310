package hostlocal

import "os"

// boot names the time since the machine was started. What was written before may be half on the disk.
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // no /proc: no index is trusted
	}
	return string(id)
}
