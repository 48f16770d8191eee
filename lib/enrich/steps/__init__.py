"""Do the steps of the flow for one job, between the verbs and storage; ``pipeline`` says their order."""
