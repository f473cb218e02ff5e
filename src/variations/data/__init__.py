"""Downloads, archives, the cache, and batches by tokens; corpora are in the tasks."""
