/* The rows of formats.c, in the order of messages. FORMAT(x) is format_x. */
FORMAT(npy)
FORMAT(safetensors)
FORMAT(npz)
FORMAT(raw)
FORMAT(torch)
FORMAT(dcp)
