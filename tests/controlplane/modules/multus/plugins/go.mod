module github.com/containernetworking/plugins

go 1.25.0
