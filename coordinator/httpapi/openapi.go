package httpapi

import (
	"net/http"

	"taskbus/schemas"
)

// openAPI answers /openapi.yaml.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	text, err := schemas.File("openapi.yaml")
	if err != nil { // it is part of the program
		problem(w, http.StatusInternalServerError, "Document missing", "Reading the document: "+err.Error()+
			". This is a fault of Taskbus; please report it.")
		return
	}
	send(w, http.StatusOK, "application/yaml", text)
}
