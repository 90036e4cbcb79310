package record

// Files and folders beside the programs, in the recorder's folder.
const (
	Plugins = ".plugins" // links to the plugins, by name
	Calls   = ".calls"   // calls, a JSON document a line: when one begins, and again when it has ended
	Holds   = ".hold"    // files TYPE.COMMAND: such calls are held while it is there
	Held    = ".held"    // files TYPE.COMMAND: such a call was held
)

// Call is one call of a plugin.
type Call struct {
	ID   string // of the call, unique
	Type string // the plugin's name
	PID  string // of the recorder's process, as its namespace numbers it; the plugin dies with it

	Command     string
	ContainerID string
	Netns       string
	IfName      string
	Args        string
	Path        string
	Stdin       string

	Ended bool // false: it runs still, or was killed with the recorder
	Exit  int  // the exit status, if it has ended; -1 if a signal killed it
}
