package httpapi

// What /status and /agents tell.
