// Package record puts a recorder between a runtime and CNI plugins: programs of the plugins' names that note each
// call, with its environment and stdin, run the plugin, and note how it ended. Their folder is a runtime's
// folder of plugins, or a CNI_PATH.
//
// A delegate is found in the same folder, so its calls are noted too. The plugin's stdout and stderr are the
// runtime's, not a copy: that a runtime is gone is seen by the plugin as it would be without the recorder.
//
// A call can be held before the plugin starts, to do something at exactly that moment: [Recorder.Hold].
package record
