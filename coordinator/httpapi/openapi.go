package httpapi

import (
	"net/http"

	"taskbus/coordinator/httpapi/internal/web"
	"taskbus/schemas"
)

// openAPI answers /openapi.yaml.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	text, err := schemas.File("openapi.yaml")
	if err != nil { // it is part of the program
		web.Problem(w, http.StatusInternalServerError, "Document missing", "Reading the document: "+err.Error()+
			". This is a fault of Taskbus; please report it.")
		return
	}
	web.Send(w, http.StatusOK, "application/yaml", text)
}
