"""Serves a GGUF file as OpenAI's endpoint until standard input ends. Its first line is the base URL.

The model never ends an answer by itself, so that a test can tell what ended it.
"""

import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 4096
params.n_parallel = 1
params.cpuparams.n_threads = 1  # several that share a busy machine wait for each other
params.warmup = False
params.endpoint_slots = True  # tells whether it generates
params.sampling.ignore_eos = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
