"""An HTTP endpoint where people answer the questions of stages by signed links."""
