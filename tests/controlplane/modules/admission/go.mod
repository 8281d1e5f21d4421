module poolwarden.dev/controlplane/admission

go 1.25.0
