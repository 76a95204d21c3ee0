/* The rows of store.c: STORE(x) is store_x. */
STORE(http)
STORE(etcd)
