/* The rows of store.c: STORE(x) is store_x. */
STORE(consul)
STORE(etcd)
