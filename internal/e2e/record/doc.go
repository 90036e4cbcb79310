// Package record puts a recorder between a runtime and CNI plugins: programs of the plugins' names that note each
// call, with its environment and stdin, run the plugin, and note how it ended.
//
//	r := record.Wrap(t, testbin.Plugin(t, "bridge"), filepath.Join(reference, "host-local"))
//	... a runtime with r.Dir as its folder of plugins ...
//	for _, call := range r.Calls() {
//
// A delegate is found in the same folder, so its calls are noted too. The plugin's stdout and stderr are the
// runtime's, not a copy: that a runtime is gone is seen by the plugin as it would be without the recorder.
//
// A call can be held before the plugin starts, to do something at exactly that moment: [Recorder.Hold].
package record
