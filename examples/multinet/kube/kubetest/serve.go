package kubetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// answer is what the server says: an object, or what is wrong.
type answer struct {
	status  int
	object  object
	reason  string
	message string
	field   string // that is wrong
}

func refuse(status int, reason, format string, args ...any) answer {
	return answer{status: status, reason: reason, message: fmt.Sprintf(format, args...)}
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(body), s.now})
	s.now++
	fault, delay := s.fault(r), s.latency
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if fault.Hang {
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	select {
	case <-r.Context().Done():
	case <-time.After(delay + fault.Delay):
	}
	switch {
	case fault.Refuse:
		panic(http.ErrAbortHandler)
	case fault.Status != 0:
		text := []byte(fault.Body)
		if fault.Body == "" {
			text = encode(refuse(fault.Status, strings.ReplaceAll(http.StatusText(fault.Status), " ", ""), "a fault of the test"))
		}
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		send(w, fault.Status, text)
	default:
		s.mu.Lock()
		a := s.serve(r, body)
		text := encode(a) // before another request changes the object
		s.mu.Unlock()
		if fault.Lose {
			panic(http.ErrAbortHandler)
		}
		send(w, a.status, text)
	}
}

func send(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text) // who has left gets none
}

func encode(a answer) []byte {
	o := a.object
	if o == nil {
		o = object{"kind": "Status", "apiVersion": "v1", "metadata": object{}, "status": "Failure", "reason": a.reason, "message": a.message, "code": a.status}
		if a.field != "" {
			o["details"] = object{"causes": []any{object{"reason": "FieldValueInvalid", "field": a.field}}}
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return text
}

// serve does what is asked; s.mu is held.
func (s *Server) serve(r *http.Request, body []byte) answer {
	if r.TLS != nil && r.Header.Get("Authorization") != "Bearer "+s.token {
		return refuse(401, "Unauthorized", "Unauthorized")
	}
	path, status := strings.CutSuffix(r.URL.Path, "/status")
	events := strings.HasPrefix(path, "/api/v1/namespaces/") && strings.HasSuffix(path, "/events")
	switch {
	case path == "/readyz" && r.Method == http.MethodGet:
		return answer{status: 200, object: object{}}
	case events && r.Method == http.MethodPost:
		return s.post(r, path, body)
	case s.objects[path] == nil:
		return notFound(path)
	case r.Method == http.MethodGet && !status:
		return answer{status: 200, object: s.objects[path]}
	case r.Method == http.MethodPatch && status && strings.Contains(path, "/pods/"):
		return s.patch(r, path, body)
	case r.Method == http.MethodPut && status && s.lenient:
		return s.put(path, body)
	}
	return refuse(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
}

func notFound(path string) answer {
	part := strings.Split(path, "/")
	if len(part) < 3 {
		return refuse(404, "NotFound", "the server could not find the requested resource")
	}
	return refuse(404, "NotFound", "%s %q not found", part[len(part)-2], part[len(part)-1])
}

// strict decodes a body of a media type.
func strict(r *http.Request, media string, body []byte, out any) (answer, bool) {
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != media {
		return refuse(415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: %s", media), false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		return refuse(422, "Invalid", "%v", err), false
	}
	return answer{}, true
}

// patch is a merge patch of a pod's status: RFC 7386, as far as it is about annotations.
func (s *Server) patch(r *http.Request, path string, body []byte) answer {
	var patch struct {
		Metadata struct {
			UID         *string            `json:"uid"`
			Annotations map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if a, ok := strict(r, "application/merge-patch+json", body, &patch); !ok {
		return a
	}
	pod := s.objects[path]
	metadata := pod["metadata"].(object)
	if patch.Metadata.UID != nil && *patch.Metadata.UID != metadata["uid"] {
		a := refuse(422, "Invalid", "Pod %q is invalid: metadata.uid: Invalid value: %q: field is immutable", metadata["name"], *patch.Metadata.UID)
		a.field = "metadata.uid"
		return a
	}
	annotations, ok := metadata["annotations"].(object)
	if !ok {
		annotations = object{}
		metadata["annotations"] = annotations
	}
	for key, value := range patch.Metadata.Annotations {
		if value == nil {
			delete(annotations, key)
		} else {
			annotations[key] = *value
		}
	}
	s.store(path, pod)
	return answer{status: 200, object: pod}
}

// post takes an event.
func (s *Server) post(r *http.Request, path string, body []byte) answer {
	var e struct {
		APIVersion, Kind                      string
		Metadata                              struct{ Name, Namespace string }
		InvolvedObject                        struct{ APIVersion, Kind, Namespace, Name, UID string }
		Type, Reason, Message                 string
		Count                                 int
		FirstTimestamp, LastTimestamp         time.Time
		Source                                struct{ Component, Host string }
		ReportingComponent, ReportingInstance string
	}
	if s.lenient {
		return answer{status: 201, object: object{"apiVersion": "v1", "kind": "Event", "metadata": object{"name": "e", "namespace": "default"}}}
	}
	if a, ok := strict(r, "application/json", body, &e); !ok {
		return a
	}
	namespace := strings.Split(path, "/")[4]
	switch {
	case e.APIVersion != "v1" || e.Kind != "Event" || e.Metadata.Name == "" || e.Type != "Normal" && e.Type != "Warning" || e.Reason == "":
		return refuse(422, "Invalid", "Event %q is invalid", e.Metadata.Name)
	case e.Metadata.Namespace != namespace || e.InvolvedObject.Namespace != namespace:
		return refuse(422, "Invalid", "Event %q is invalid: involvedObject.namespace: does not match event.namespace", e.Metadata.Name)
	case s.objects[path+"/"+e.Metadata.Name] != nil:
		return refuse(409, "AlreadyExists", "events %q already exists", e.Metadata.Name)
	}
	o := object{"apiVersion": "v1", "kind": "Event", "metadata": object{"name": e.Metadata.Name, "namespace": namespace}}
	s.store(path+"/"+e.Metadata.Name, o)
	s.events = append(s.events, Event{e.Type, e.Reason, e.Message, namespace + "/" + e.InvolvedObject.Name, e.InvolvedObject.UID})
	return answer{status: 201, object: o}
}

// put replaces a pod's annotations by those of a whole pod in JSON; in another format it changes nothing.
func (s *Server) put(path string, body []byte) answer {
	var sent struct {
		Metadata struct {
			Annotations object `json:"annotations"`
		} `json:"metadata"`
	}
	pod := s.objects[path]
	if json.Unmarshal(body, &sent) == nil {
		pod["metadata"].(object)["annotations"] = sent.Metadata.Annotations
	}
	s.store(path, pod)
	return answer{status: 200, object: pod}
}
