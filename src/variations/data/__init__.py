"""Downloads, archives, the cache, and batches by tokens; corpora belong to the tasks."""
